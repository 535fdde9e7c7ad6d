//! Host memory at a phase boundary: "What does the process hold, and behind which tensors?"
//!
//! May use: units and the declaring macro. Invariant: samples are taken one after the other and are no single instant; what
//! could not be read is absent, never zero.

use crate::field::Gate;
use crate::section;
use crate::unit::{Seconds, Unit};

section! {
    /// One sample of process and system memory.
    pub struct HostSample at "setup.host_memory.host" {
        process_rss_bytes: Option<u64> = Unit::Bytes, Gauge, Process, "phase boundary",
            "Pages of the process in main memory, shared and mapped ones included.",
            "Mapped checkpoints count while they are cached; compare equal phases only.";
        process_private_bytes: Option<u64> = Unit::Bytes, Gauge, Process, "phase boundary, Windows",
            "Memory that the process committed for itself, in main memory or not.",
            "The number to compare with the commit limit.";
        available_physical_bytes: Option<u64> = Unit::Bytes, Gauge, Process, "phase boundary, Windows",
            "Main memory that the system could hand out.",
            "Other processes change it as well.";
        available_process_commit_bytes: Option<u64> = Unit::Bytes, Gauge, Process, "phase boundary, Windows",
            "Commitment that the process could still make.",
            "It is no free space of the page file.";
        process_observation_error: Option<String> = Unit::Text, Text, Scope, "phase boundary",
            "Why the process could not be sampled.",
            "Its rows are absent then.";
        system_observation_error: Option<String> = Unit::Text, Text, Scope, "phase boundary",
            "Why the system could not be sampled.",
            "Its rows are absent then, the process rows are not.";
    }
}

section! {
    /// A tensor that keeps a storage alive.
    pub struct StorageExample at "setup.host_memory.cpu_storages.storage_samples[].examples[]" {
        kind: Option<String> = Unit::Label, Label, Scope, "observation",
            "Whether a parameter or a buffer refers to the storage.",
            "Buffers are often forgotten when a component is released.";
        name: Option<String> = Unit::Text, Identity, Scope, "observation",
            "Name of a tensor over the storage; three at most are kept.",
            "Follow it to the owner.";
    }
}

section! {
    /// One of the largest storages.
    pub struct StorageSample at "setup.host_memory.cpu_storages.storage_samples[]" {
        storage_bytes: Option<u64> = Unit::Bytes, Measure, Scope, "observation",
            "Length of the whole storage, however small the view of it is.",
            "Far above the tensor: a view holds a shard.", { deterministic: true };
        references: Option<u64> = Unit::Count("references"), Measure, Scope, "observation",
            "Named tensors over this storage.",
            "All must go before it can be released.", { deterministic: true };
        examples: Option<Vec<StorageExample>> = Unit::Structure, Structure, Scope, "observation",
            "Some of these tensors.",
            "See its rows.";
        shards: Option<Vec<String>> = Unit::Text, Identity, Scope, "observation",
            "Checkpoint files that the tensors' ranges come from, where known.",
            "Empty says nothing about a mapping behind the storage.";
    }
}

section! {
    /// Census of the host storages behind one module's registered tensors; nothing else is looked at.
    pub struct CpuStorages at "setup.host_memory.cpu_storages" {
        cpu_tensor_references: Option<u64> = Unit::Count("references"), Measure, Scope, "observation",
            "Named host tensors, aliases counted again.",
            "Compare with the unique storages for the amount of sharing.", { deterministic: true };
        cpu_tensor_reference_bytes: Option<u64> = Unit::Bytes, Measure, Scope, "observation",
            "Payload summed over these names; shared memory counts as often as it is named.",
            "Not a size of memory.", { deterministic: true };
        unique_storage_count: Option<u64> = Unit::Count("storages"), Measure, Scope, "observation",
            "Distinct storages by address and length.",
            "Few large ones: tensors are views into shards.", { deterministic: true };
        unique_storage_bytes: Option<u64> = Unit::Bytes, Measure, Scope, "observation",
            "Length of the distinct storages together.",
            "Neither private nor resident memory; a hidden parent mapping may be larger.", { deterministic: true };
        non_cpu_tensor_references: Option<u64> = Unit::Count("references"), Measure, Scope, "observation",
            "Named tensors skipped because they lie elsewhere; nothing is asked about them.",
            "After moving a component this is where its names went.", { deterministic: true };
        storage_samples: Option<Vec<StorageSample>> = Unit::Structure, Structure, Scope, "observation",
            "The largest storages, up to the chosen number.",
            "See its rows.";
        omitted_storage_count: Option<u64> = Unit::Count("storages"), Measure, Scope, "observation",
            "Storages beyond that number; the totals contain them.",
            "Raise the limit to see more.", { deterministic: true };
        inspection_errors: Option<u64> = Unit::Count("errors"), Measure, Scope, "observation",
            "Tensors whose storage or origin could not be read.",
            "Above zero the census is partial, not small.", { gate: Gate::NoIncrease };
        errors: Option<Vec<String>> = Unit::Text, Text, Scope, "observation",
            "Texts of some of these errors.",
            "Read them before the totals.";
        scope: Option<String> = Unit::Label, Label, Scope, "observation",
            "`registered_module_parameters_and_buffers_only`.",
            "Closures, other components and native memory are outside.";
    }
}

section! {
    /// One observation at a quiet phase boundary.
    pub struct HostMemory at "setup.host_memory" {
        phase: Option<String> = Unit::Label, Label, Scope, "observation",
            "Phase that the host named for the observation.",
            "Compare observations of one phase.";
        status: Option<String> = Unit::Label, Label, Scope, "observation",
            "`observed`, or `partial` when some storages could not be read.",
            "Sampling errors stand in the sample itself.";
        elapsed_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "observation",
            "Host time that the observation took.",
            "Keep it out of timed phases.";
        host: Option<HostSample> = Unit::Structure, Structure, Scope, "observation",
            "Process and system memory beside the census.",
            "See its rows.";
        cpu_storages: Option<CpuStorages> = Unit::Structure, Structure, Scope, "observation with a module",
            "Host storages behind the module that was passed.",
            "See its rows.";
    }
}
