//! The settings of a component as the Python package resolves them: "What was asked for?"
//!
//! May use: units and the declaring macro. Invariant: every field may be absent; a null name means that none was given and
//! reads as absent. Some keys stand without their prefix in `setup` too; the catalogue lists which.

use crate::section;
use crate::unit::{Gib, Nullable, Ratio, Unit};
use serde_json::Value;
use std::collections::BTreeMap;

section! {
    /// Settings of the route through memory that the offloader maps itself, in reports of the Python package.
    #[derive(Default)]
    pub struct PackageVmmSettings at "configuration" {
        dynamic_offload_vmm_resident_weight_budget_gb: Option<Gib> = Unit::Gib, Limit, Session, "attach",
            "Device memory that weights may keep under this route, requested in GiB.",
            "Must be above zero on this route; compare with the resident total in the runtime's rows.";
        dynamic_offload_vmm_staging_buffer_gb: Option<Gib> = Unit::Gib, Limit, Session, "attach",
            "Host memory requested for staging, all slots together.",
            "It is rounded up once; the planner row gives the slots.";
        dynamic_offload_vmm_windows_file_read_chunk_mb: Option<u64> = Unit::Mib, Limit, Session, "attach",
            "Largest single file read that the Windows reader issues.",
            "Other systems ignore it.";
        dynamic_offload_vmm_virtual_host_transport: Option<bool> = Unit::Flag, Flag, Session, "attach",
            "Whether the host side of the transport was asked to use mapped address space; for Windows.",
            "The planner row says what was chosen.";
        dynamic_offload_vmm_native_transport: Option<bool> = Unit::Flag, Flag, Session, "attach",
            "Whether the native ring was asked to read files and enqueue copies itself.",
            "Off: staging goes through bounded slots with synchronous reads.";
        dynamic_offload_vmm_source_cache_gb: Option<Gib> = Unit::Gib, Limit, Session, "attach",
            "Host memory requested to retain checkpoint contents between passes; 0 retains nothing.",
            "Without it every pass reads its bytes again.";
        dynamic_offload_vmm_source_registered_gb: Option<Gib> = Unit::Gib, Limit, Session, "attach",
            "How much of the retained contents may be registered with the driver at once; 0 stands for all of it.",
            "A small ceiling recycles registrations; watch unregistrations and waits.";
        dynamic_offload_vmm_module_pattern: Option<String> = Unit::Text, Label, Session, "attach",
            "Regular expression that chooses the modules of this route.",
            "Runs with different patterns manage different weights.";
        dynamic_offload_vmm_component_tensor_ownership: Option<bool> = Unit::Flag, Flag, Session, "attach",
            "Whether the adapter that owns all tensors of a component was asked for.",
            "See the component ownership rows for what it took.";
        dynamic_offload_vmm_float8_weight_only: Option<bool> = Unit::Flag, Flag, Session, "attach",
            "Whether weights stored in 8-bit floats are served as they are.",
            "It changes which bytes move; compare such runs only with each other.";
        dynamic_offload_vmm_execution_auxiliary_ownership: Option<bool> = Unit::Flag, Flag, Session, "attach",
            "Whether small parameters beside the weights were to be attached natively too.",
            "See the auxiliary ownership rows.";
        dynamic_offload_vmm_component_buffer_limit_mb: Option<u64> = Unit::Mib, Limit, Session, "attach",
            "Most memory that separately placed buffers of a component may take.",
            "Attachment is refused above it.";
        dynamic_offload_vmm_page_mb: Option<u64> = Unit::Mib, Limit, Session, "attach",
            "Requested granularity of device mappings; 0 leaves it to the native library.",
            "The page that is used stands among the runtime's rows.";
        dynamic_offload_vmm_dxgi_local_headroom_gb: Option<Gib> = Unit::Gib, Limit, Session, "attach",
            "Device memory that the Windows guard keeps free in the adapter's local segment.",
            "Zero: the guard does not look there.";
        dynamic_offload_vmm_dxgi_shared_headroom_gb: Option<Gib> = Unit::Gib, Limit, Session, "attach",
            "Shared memory that the Windows guard keeps free in the adapter's other segment.",
            "Zero: shared memory is not guarded.";
        dynamic_offload_vmm_dxgi_system_headroom_gb: Option<Gib> = Unit::Gib, Limit, Session, "attach",
            "Main memory that the Windows guard keeps free.",
            "Zero: main memory is not guarded.";
        dynamic_offload_vmm_host_cache_gb: Option<Gib> = Unit::Gib, Limit, Session, "attach",
            "Weights to register in host memory ahead of use on the older mapped route.",
            "Cannot be combined with the native retained source.";
        dynamic_offload_vmm_native_source_cache_slot_mb: Option<u64> = Unit::Mib, Limit, Session, "attach",
            "Size of one slot of the small retained source; 0 with 0 slots switches it off.",
            "Given only together with the slot count.";
        dynamic_offload_vmm_native_source_cache_slots: Option<u64> = Unit::Count("slots"), Limit, Session, "attach",
            "Number of slots requested for the small retained source.",
            "Times the slot size it is the memory asked for.";
        dynamic_offload_vmm_pin_source_weights: Option<bool> = Unit::Flag, Flag, Session, "attach",
            "Whether source weights were to be copied into page-locked memory at attachment.",
            "It costs host memory of the same size.";
        dynamic_offload_vmm_fault_fallback: Option<bool> = Unit::Flag, Flag, Session, "attach",
            "Whether a refused admission may be served by a temporary copy instead of an error.",
            "Watch the temporary tensors: each passes the arena by.";
    }
}

section! {
    /// Settings of pinning and of the plan, in reports of the Python package.
    #[derive(Default)]
    pub struct PackagePinSettings at "configuration" {
        dynamic_offload_pin_cpu_memory: Option<bool> = Unit::Flag, Flag, Session, "attach",
            "Whether page-locked host memory was asked for.",
            "The effective flag says what was done.";
        dynamic_offload_effective_pin_cpu_memory: Option<bool> = Unit::Flag, Flag, Session, "attach",
            "Whether weights are page-locked after route and platform had their say.",
            "Differs from the request on mapped routes and where pinning is disabled.";
        dynamic_offload_allow_pin_memory_fallback: Option<bool> = Unit::Flag, Flag, Session, "attach",
            "Whether pageable memory may take over when page-locking fails.",
            "A silent source of slow copies where it is allowed.";
        dynamic_offload_disable_pin_on_wsl: Option<bool> = Unit::Flag, Flag, Session, "attach",
            "Whether page-locking is left out under the Linux subsystem of Windows.",
            "Has no effect elsewhere.";
        dynamic_offload_pin_cpu_workers: Option<u64> = Unit::Count("threads"), Limit, Session, "attach",
            "Threads that page-lock weights at attachment.",
            "Changes setup time only.";
        dynamic_offload_cache_plan: Option<bool> = Unit::Flag, Flag, Session, "attach",
            "Whether a plan may be reused for an equal component in the same process.",
            "The planner row tells a hit from a miss.";
        dynamic_offload_cache_pinned_weights: Option<bool> = Unit::Flag, Flag, Session, "attach",
            "Whether page-locked copies outlive their component for the next load.",
            "Host memory stays taken between runs.";
        dynamic_offload_pinned_weight_cache_namespace: Option<Nullable<String>> = Unit::Text, Label, Session, "attach",
            "Name that separates page-locked copies of different checkpoints; null when none is given.",
            "Two checkpoints must not share one.";
        dynamic_offload_max_pin_weight_budget_gb: Option<Gib> = Unit::Gib, Limit, Session, "attach",
            "Upper bound on page-locked weights for the automatic policy; 0 sets none.",
            "Lower it when the host runs short.";
        dynamic_offload_pin_weight_budget_gb: Option<Gib> = Unit::Gib, Limit, Session, "attach",
            "Page-locked weights asked for as an amount; 0 lets ratio or policy decide.",
            "The resolved budget stands in the planner decisions.";
        dynamic_offload_pin_weight_budget_ratio: Option<Ratio> = Unit::Ratio, Limit, Session, "attach",
            "Page-locked weights asked for as a part of the candidates; 0 lets amount or policy decide.",
            "One pins everything.";
        dynamic_offload_pin_weight_selection: Option<String> = Unit::Label, Label, Session, "attach",
            "Which weights are page-locked when not all fit: `first`, `spread` or `largest`.",
            "Spread evens the copy time over the steps.";
        dynamic_offload_load_safetensors_backend: Option<Nullable<String>> = Unit::Label, Label, Session, "attach",
            "How the loader reads checkpoints, `mmap` or `pread`; null leaves it to the loader.",
            "Changes load time and page cache use.";
    }
}

section! {
    /// Settings of budgets and presets, in reports of the Python package.
    #[derive(Default)]
    pub struct PackageBudgetSettings at "configuration" {
        dynamic_offload_requested_preset: Option<String> = Unit::Label, Label, Session, "attach",
            "Preset that the host named.",
            "`auto` is resolved; see the next row.";
        dynamic_offload_effective_preset: Option<String> = Unit::Label, Label, Session, "attach",
            "Preset whose values were used as defaults.",
            "Explicit settings override single values of it.";
        dynamic_offload_linear_runtime_strategy: Option<String> = Unit::Label, Label, Session, "attach",
            "How the linear route serves a weight: `functional` or `swap`.",
            "Has no effect on mapped routes.";
        dynamic_offload_auto_budget_policy: Option<String> = Unit::Label, Label, Session, "attach",
            "Whether budgets are derived from the machine: `off` or `balanced`.",
            "`balanced` adds the automatic rows to the planner decisions.";
        dynamic_offload_max_resident_module_budget_gb: Option<Gib> = Unit::Gib, Limit, Session, "attach",
            "Upper bound on whole modules kept on the device; 0 sets none.",
            "It caps what the policy may choose.";
        dynamic_offload_resident_module_budget_gb: Option<Gib> = Unit::Gib, Limit, Session, "attach",
            "Whole modules to keep on the device, asked for as an amount.",
            "Selected residents stand in the planner decisions.";
        dynamic_offload_resident_module_patterns: Option<Vec<String>> = Unit::Text, Label, Session, "attach",
            "Which modules may become residents; `auto` stands for the longest repeated list.",
            "The state lists the patterns that `auto` became.";
        dynamic_offload_resident_module_selection: Option<String> = Unit::Label, Label, Session, "attach",
            "Which candidates become residents when not all fit.",
            "Spread leaves time for copies between streamed ones.";
        dynamic_offload_auto_vram_headroom_gb: Option<Gib> = Unit::Gib, Limit, Session, "attach",
            "Device memory that the automatic policy leaves free.",
            "Raise it when other users need the device.";
        dynamic_offload_profile_vram_headroom_gb: Option<Gib> = Unit::Gib, Limit, Session, "attach",
            "Device memory that a recommendation from a capacity profile leaves free.",
            "Only used with a named profile.";
        dynamic_offload_auto_full_pin_min_model_to_vram_ratio: Option<Ratio> = Unit::Ratio, Limit, Session, "attach",
            "Threshold of the automatic policy for pinning everything, as a ratio of model to device memory.",
            "Compare with the ratio in the planner decisions.";
        dynamic_offload_profile_name: Option<Nullable<String>> = Unit::Text, Label, Session, "attach",
            "Capacity profile that was asked for; null without one.",
            "Runs with and without a profile keep different residents.";
        dynamic_offload_build_profile: Option<bool> = Unit::Flag, Flag, Session, "attach",
            "Whether this run measures a capacity profile.",
            "Such a run is no benchmark.";
        dynamic_offload_profile_resident_module_budget_gb: Option<Gib> = Unit::Gib, Limit, Session, "attach",
            "Residents that the profile recommended; set by the package itself.",
            "Zero without a profile.";
        dynamic_offload_available_system_ram_gb: Option<Gib> = Unit::Gib, Limit, Session, "attach",
            "Free main memory that the policy was told or detected; 0 when nobody looked.",
            "It differs from run to run where it is detected.";
        dynamic_offload_system_ram_headroom_gb: Option<Gib> = Unit::Gib, Limit, Session, "attach",
            "Main memory that the automatic policy leaves free.",
            "Usable memory in the planner decisions is what remains.";
        dynamic_offload_small_tensor_threshold_kb: Option<u64> = Unit::Kib, Limit, Session, "attach",
            "Tensors up to this size are placed on the device for good.",
            "Raising it trades device memory for fewer small copies.";
        dynamic_offload_show_profile: Option<bool> = Unit::Flag, Flag, Session, "attach",
            "Whether the host prints the text profile.",
            "Changes nothing else.";
        dynamic_offload_component_policies: Option<BTreeMap<String, Value>> = Unit::Structure, Structure, Session, "attach",
            "Overrides by component name, in the package's own form.",
            "Compare as a whole; its keys are the host's.";
    }
}

section! {
    /// Settings of the helper routes; each takes a few of them.
    #[derive(Default)]
    pub struct HelperSettings at "configuration" {
        enabled: Option<bool> = Unit::Flag, Flag, Scope, "helper call",
            "Whether the helper was told to act; off makes it an explicit no-op.",
            "The helper's status says what happened.";
        module_pattern: Option<String> = Unit::Text, Label, Scope, "capacity inspection",
            "Regular expression that a capacity inspection selected modules with.",
            "Use the pattern of the run that you plan.";
        max_storage_samples: Option<u64> = Unit::Count("records"), Limit, Scope, "host memory observation",
            "Most storages that a host memory observation describes one by one.",
            "Totals count the others too.";
        max_copy_bytes: Option<u64> = Unit::Bytes, Limit, Scope, "source detachment",
            "Most bytes that detaching small sources may copy.",
            "A refusal names it; it is never raised by itself.";
        clear_cublas_workspaces: Option<bool> = Unit::Flag, Flag, Scope, "native cache release",
            "Whether matrix library workspaces were to be dropped before the pool was trimmed.",
            "The release says whether it was done.";
    }
}
