//! Detachment of small leftover sources: "Do loader views still hold whole shards?"
//!
//! May use: units, the host sample and the declaring macro. Invariant: ownership is reported, recovery of memory is not claimed.

use super::host_memory::HostSample;
use crate::section;
use crate::unit::{Seconds, Unit};

section! {
    /// One detachment, before the first forward.
    pub struct SourceDetachment at "setup.auxiliary_source_detachment" {
        status: Option<String> = Unit::Label, Label, Scope, "detachment",
            "`disabled`, `detached` or `no_source_backed_cpu_tensors`.",
            "A repeated call returns the first report.";
        elapsed_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "detachment",
            "Host time of the copies and the samples around them.",
            "Belongs to setup.";
        copied_bytes: Option<u64> = Unit::Bytes, Measure, Scope, "detachment",
            "Payload cloned out of loader storages, each storage once.",
            "Not the size of the shards, nor memory that came back.", { deterministic: true };
        copied_storage_groups: Option<u64> = Unit::Count("storage groups"), Measure, Scope, "detachment",
            "Loader storages whose tensors were moved to a clone.",
            "Each may release a mapping.", { deterministic: true };
        copied_tensor_owners: Option<u64> = Unit::Count("tensors"), Measure, Scope, "detachment",
            "Distinct tensor objects that now use a clone.",
            "At least one a cloned storage.", { deterministic: true };
        copied_named_references: Option<u64> = Unit::Count("names"), Measure, Scope, "detachment",
            "Names that lead to these tensors; exact aliases share a clone.",
            "More names than tensors: tied tensors.", { deterministic: true };
        unbound_cpu_storage_groups: Option<u64> = Unit::Count("storage groups"), Measure, Scope, "detachment",
            "Host storages of unknown origin; left alone.",
            "They may hold shards that nobody lists.", { deterministic: true };
        protected_native_cpu_bindings: Option<u64> = Unit::Count("bindings"), Measure, Scope, "before execution",
            "Host payloads that the native runtime keeps and that no clone may overlap.",
            "Must equal the runtime's own count of host bindings.", { deterministic: true };
        source_shard_count: Option<u64> = Unit::Count("files"), Measure, Scope, "detachment",
            "Checkpoint files that the detached views came from.",
            "Whether they were unmapped must be shown otherwise.", { deterministic: true };
        source_shard_samples: Option<Vec<String>> = Unit::Text, Identity, Scope, "detachment",
            "Up to 16 of these files.",
            "Look for them among the process's mappings.";
        scope: Option<String> = Unit::Label, Label, Scope, "detachment",
            "Which tensors were considered: registered, on the host, with a known file.",
            "References that escaped elsewhere stay.";
        gpu_placement_changed: Option<bool> = Unit::Flag, Flag, Scope, "detachment",
            "Always false: nothing on the device moved.",
            "Nothing to do.";
        commit_recovery_proven: Option<bool> = Unit::Flag, Flag, Scope, "detachment",
            "Always false: detaching alone proves no returned memory.",
            "Compare the two host samples with care.";
        host_before: Option<HostSample> = Unit::Structure, Structure, Scope, "detachment",
            "Process and system before the clones.",
            "See the rows of the host sample.";
        host_after: Option<HostSample> = Unit::Structure, Structure, Scope, "detachment",
            "Process and system after the clones.",
            "Private memory may grow by the clones.";
    }
}
