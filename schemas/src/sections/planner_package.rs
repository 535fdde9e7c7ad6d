//! What the planner of the Python package decided: "What became of the settings?"
//!
//! May use: units and the declaring macro. Invariant: every field may be absent; which ones appear depends on route and policy.

use crate::section;
use crate::unit::{Gib, Ratio, Unit};

section! {
    /// Decisions on the mapped route, in reports of the Python package.
    #[derive(Default)]
    pub struct PackageVmmDecisions at "runtime.state.planner_decisions" {
        vmm_runtime: Option<String> = Unit::Label, Label, Session, "attach",
            "Name of the mapped runtime that serves the component.",
            "Equal to the backend on the validated route.";
        vmm_native_library: Option<String> = Unit::Text, Label, Session, "attach",
            "File of the native library that was loaded.",
            "Two runs with different libraries are two programs.";
        vmm_resident_weight_budget_gb: Option<Gib> = Unit::Gib, Limit, Session, "attach",
            "Ceiling of resident weights that the runtime was started with.",
            "Compare with the requested one.";
        vmm_staging_buffer_gb: Option<Gib> = Unit::Gib, Limit, Session, "attach",
            "Staging memory that the ring was built for, or all slots of the plain staging path.",
            "Registered capacity may be larger by rounding.";
        vmm_staging_slots: Option<u64> = Unit::Count("slots"), Limit, Session, "attach",
            "Slots of the staging ring, or of the plain staging path.",
            "One slot is one window in flight.";
        vmm_virtual_host_transport: Option<bool> = Unit::Flag, Flag, Session, "attach",
            "Whether the host side works on mapped address space.",
            "May be on although it was not asked for: it follows the platform.";
        vmm_native_transport: Option<bool> = Unit::Flag, Flag, Session, "attach",
            "Whether the native ring is in use, after the retained source had its say.",
            "A retained source selects the ring even where it was not requested.";
        vmm_native_transport_registered_capacity_bytes: Option<u64> = Unit::Bytes, Limit, Session, "attach",
            "Host memory that the ring registers with the driver, rounded up once for the whole ring.",
            "Add the retained source for the registered total.", { deterministic: true };
        vmm_source_cache_gb: Option<Gib> = Unit::Gib, Limit, Session, "attach",
            "Size of the retained source that was built.",
            "Zero: no `fast_source_cache_*` row can appear.";
        vmm_source_registered_gb: Option<Gib> = Unit::Gib, Limit, Session, "attach",
            "Requested ceiling of registered retained contents; 0 means the size of the retained source.",
            "The limit in bytes stands among the source cache rows.";
        vmm_native_source_cache_slot_mb: Option<u64> = Unit::Mib, Limit, Session, "attach",
            "Slot size that the retained source was built with.",
            "Model windows use 64 MiB; a smaller one means the small mode.";
        vmm_native_source_cache_slots: Option<u64> = Unit::Count("slots"), Limit, Session, "attach",
            "Slots that the retained source was built with.",
            "Times the slot size it bounds what can be retained.";
        vmm_native_source_cache_model_windows: Option<bool> = Unit::Flag, Flag, Session, "attach",
            "Whether whole aligned file windows are retained instead of single ranges.",
            "Reads are then larger than the ranges that copies ask for.";
        vmm_native_source_cache_process_limit_bytes: Option<u64> = Unit::Bytes, Limit, Process, "attach",
            "Cap on ring and retained source of the whole process.",
            "Registration stops there, whatever one component asks.", { deterministic: true };
        vmm_native_source_persistent_buffer: Option<bool> = Unit::Flag, Flag, Session, "attach",
            "A switch of the source without documentation; in recorded runs it is on exactly where contents are retained.",
            "Treat it as a label of the configuration.";
        vmm_file_slice_transport: Option<bool> = Unit::Flag, Flag, Session, "attach",
            "Whether weights are read from their checkpoint ranges rather than from loaded tensors.",
            "Off: the loader's host copies are the source.";
        vmm_safetensor_slices_bound: Option<u64> = Unit::Count("ranges"), Limit, Session, "attach",
            "Checkpoint ranges that were matched to managed weights.",
            "Compare with those available.", { deterministic: true };
        vmm_safetensor_slices_available: Option<u64> = Unit::Count("ranges"), Limit, Session, "attach",
            "Checkpoint ranges that the headers offered.",
            "Many unbound ones: names were changed while loading.", { deterministic: true };
        vmm_fast_attached_modules: Option<u64> = Unit::Count("modules"), Limit, Session, "attach",
            "Modules whose weights live in the arena.",
            "The rest was placed by other actions.", { deterministic: true };
        vmm_fast_attached_tensors: Option<u64> = Unit::Count("tensors"), Limit, Session, "attach",
            "Weights and biases with an address in the arena.",
            "Compare between two versions of a model.", { deterministic: true };
        vmm_fast_virtual_bytes: Option<u64> = Unit::Bytes, Limit, Session, "attach",
            "Address range reserved for the arena when it was planned, in whole pages.",
            "Takes no memory.", { deterministic: true };
        vmm_fast_page_bytes: Option<u64> = Unit::Bytes, Limit, Session, "attach",
            "Mapping granularity that the plan rounded to.",
            "The driver gives it.", { deterministic: true };
        vmm_float8_weight_only: Option<bool> = Unit::Flag, Flag, Session, "attach",
            "Whether 8-bit weights are served in their stored form.",
            "Payload counts then mean stored bytes.";
        vmm_execution_auxiliary_ownership: Option<bool> = Unit::Flag, Flag, Session, "attach",
            "Whether small parameters beside the weights were attached.",
            "Their size stands in the auxiliary ownership rows.";
    }
}

section! {
    /// Decisions of the automatic policy and of pinning, in reports of the Python package.
    #[derive(Default)]
    pub struct PackageBudgetDecisions at "runtime.state.planner_decisions" {
        plan_cache: Option<String> = Unit::Label, Label, Session, "attach",
            "`hit`, `miss` or `disabled`: whether a stored plan was reused.",
            "A hit shortens setup and decides nothing new.";
        auto_budget_policy: Option<String> = Unit::Label, Label, Session, "attach",
            "Policy that filled the automatic rows.",
            "They are absent with `off`.";
        auto_full_pin_min_model_to_vram_ratio: Option<Ratio> = Unit::Ratio, Limit, Session, "attach",
            "Threshold that the policy compared the next ratio with.",
            "Taken over from the settings.";
        auto_model_to_vram_ratio: Option<Ratio> = Unit::Ratio, Measure, Session, "attach",
            "What the policy compares with its threshold; in recorded runs the candidate resident modules over the device's total memory.",
            "Nothing documents the formula; compare equal machines only.";
        auto_usable_system_ram_gb: Option<Gib> = Unit::Gib, Measure, Session, "attach",
            "Main memory left to the policy after its headroom.",
            "Differs from run to run with the load of the machine.";
        auto_required_system_ram_gb: Option<Gib> = Unit::Gib, Measure, Session, "attach",
            "Main memory that the policy reckons with; in recorded runs the candidates plus the selected residents.",
            "Above the usable amount, pinning is cut.";
        auto_pin_weight_decision: Option<String> = Unit::Label, Label, Session, "attach",
            "Why the policy pins as much as it does, in its own word.",
            "Compare the word before the amounts.";
        auto_pin_weight_budget_gb: Option<Gib> = Unit::Gib, Limit, Session, "attach",
            "Amount of pinning that the policy proposed.",
            "The resolved budget may be smaller.";
        auto_pin_weight_budget_ratio: Option<Ratio> = Unit::Ratio, Limit, Session, "attach",
            "The proposed pinning as a part of the candidates.",
            "One means that all candidates were to be pinned.";
        auto_resident_module_budget_gb: Option<Gib> = Unit::Gib, Limit, Session, "attach",
            "Amount of resident modules that the policy proposed.",
            "Selection may use less, since modules are whole.";
        available_system_ram_gb: Option<Gib> = Unit::Gib, Measure, Session, "attach",
            "Free main memory when the policy looked.",
            "A property of the moment, not of the program.";
        system_ram_headroom_gb: Option<Gib> = Unit::Gib, Limit, Session, "attach",
            "Main memory that the policy subtracted before it decided.",
            "Comes from the settings or the preset.";
        cuda_total_vram_gb: Option<Gib> = Unit::Gib, Limit, Process, "attach",
            "Total memory of the device that the policy planned for.",
            "Runs on devices of different size decide differently.";
        candidate_weight_gb: Option<Gib> = Unit::Gib, Measure, Session, "before residents are selected",
            "Weights that could be offloaded before residents were taken out.",
            "May exceed the later candidates, which leave residents out.";
        candidate_resident_module_gb: Option<Gib> = Unit::Gib, Measure, Session, "attach",
            "Modules that the resident patterns matched.",
            "Compare with what was selected.";
        selected_resident_module_gb: Option<Gib> = Unit::Gib, Measure, Session, "attach",
            "Modules that were kept on the device for good.",
            "The rest of the candidates is streamed.";
        profile_resident_module_budget_requested_gb: Option<Gib> = Unit::Gib, Limit, Session, "attach",
            "Residents that a capacity profile asked for, before caps.",
            "Zero without a profile.";
        pin_weight_budget_snap_to_full: Option<bool> = Unit::Flag, Flag, Session, "attach",
            "Whether the snapping rule settled the pinning; the rule itself is not documented.",
            "Read it with the mode of the resolved budget.";
        resolved_pin_weight_budget_gb: Option<Gib> = Unit::Gib, Limit, Session, "attach",
            "Budget of page-locked weights that was used.",
            "Compare with the payload of the pinning action.";
        resolved_pin_weight_budget_mode: Option<String> = Unit::Label, Label, Session, "attach",
            "Which rule gave the resolved pinning budget.",
            "Read it together with the policy's word.";
        sdnq_candidate_parameter_bytes: Option<u64> = Unit::Bytes, Measure, Session, "after residents are selected",
            "Packed quantised parameters that may leave the device; skipped and resident modules are not in it.",
            "It is not the size of the checkpoint.", { deterministic: true };
        sdnq_pin_parameter_budget_bytes: Option<u64> = Unit::Bytes, Limit, Session, "pin selection",
            "Ceiling on page-locked quantised parameters, new and existing ones together.",
            "Hold the pinned total of the setup against it, not the request.";
        sdnq_existing_pinned_parameter_bytes: Option<u64> = Unit::Bytes, Gauge, Session, "before new pins",
            "Quantised parameters that the loader had already page-locked; they use the ceiling and stay pinned.",
            "Large: the loader pins more than the budget intends.";
        sdnq_existing_pinned_over_budget_bytes: Option<u64> = Unit::Bytes, Gauge, Session, "pin selection",
            "How far the loader's own pins exceed the ceiling.",
            "Above zero no new pin is made.";
    }
}
