//! Releases of idle caches at a phase boundary: "Was anything given back?"
//!
//! May use: units, the host sample and the declaring macro. Invariant: a no-op says so in its status; a difference is what was
//! observed, never what was recovered.

use super::host_memory::HostSample;
use crate::section;
use crate::unit::{Nullable, Seconds, Unit};
use serde_json::Value;
use std::collections::BTreeMap;

section! {
    /// PyTorch's own counters of page-locked host blocks.
    pub struct HostAllocator at "setup.host_cache_release.before" {
        status: Option<String> = Unit::Label, Label, Scope, "before and after the release",
            "Whether the allocator's counters could be read.",
            "Without them the release may still have happened.";
        allocated_bytes: Option<Nullable<u64>> = Unit::Bytes, Gauge, Process, "before and after the release",
            "Page-locked blocks that PyTorch owns, in use or kept for reuse.",
            "Native sources and staging are not in it.";
        reported_active_bytes: Option<Value> = Unit::Bytes, Gauge, Process, "before and after the release",
            "Blocks in use as the allocator reports them, kept as they are even where impossible.",
            "Use the validated row for decisions.";
        active_bytes: Option<Nullable<u64>> = Unit::Bytes, Gauge, Process, "before and after the release",
            "Blocks in use when that report is plausible; null when it is negative, broken or above the owned total.",
            "Null: do not decide anything by it.";
        active_counter_consistent: Option<Nullable<bool>> = Unit::Flag, Flag, Scope, "before and after the release",
            "Whether the report of blocks in use was plausible.",
            "False: the allocator's counter is wrong.";
    }
}

section! {
    /// Release of PyTorch's idle page-locked blocks.
    pub struct HostCacheRelease at "setup.host_cache_release" {
        phase: Option<String> = Unit::Label, Label, Scope, "release",
            "Phase that the host named for the release of host blocks.",
            "Must lie between components, never inside a pass.";
        status: Option<String> = Unit::Label, Label, Scope, "release",
            "`disabled`, `cuda_not_initialized`, `unsupported` or `released`.",
            "All but the last did nothing.";
        released: Option<bool> = Unit::Flag, Flag, Scope, "release",
            "Whether the allocator's release was called and returned.",
            "It proves no number of bytes.";
        elapsed_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "release",
            "Host time of collection, one wait on the device, sampling and release.",
            "Not a time of denoising.";
        before: Option<HostAllocator> = Unit::Structure, Structure, Scope, "release",
            "Allocator before the call.",
            "See its rows.";
        after: Option<HostAllocator> = Unit::Structure, Structure, Scope, "release",
            "Allocator after the call.",
            "Its rows are those of the snapshot before.";
        allocator_bytes_delta: Option<Nullable<i64>> = Unit::Bytes, Measure, Scope, "release",
            "Owned blocks before minus after; null when one side is unknown.",
            "Other threads may allocate meanwhile; no proof that the system got memory back.";
        host_before: Option<HostSample> = Unit::Structure, Structure, Scope, "release",
            "Process and system just before the call.",
            "See the rows of the host sample.";
        host_after: Option<HostSample> = Unit::Structure, Structure, Scope, "release",
            "Process and system just after the call.",
            "A difference may come from other processes.";
    }
}

section! {
    /// Trim of the native pool's idle device memory.
    pub struct DeviceCacheRelease at "setup.device_cache_release" {
        phase: Option<String> = Unit::Label, Label, Scope, "trim",
            "Phase that the host named for the trim of device memory.",
            "Must lie between components.";
        status: Option<String> = Unit::Label, Label, Scope, "trim",
            "`disabled`, `cuda_not_initialized`, `native_allocator_not_installed`, `unsupported` or `completed`.",
            "All but the last did nothing.";
        trim_executed: Option<bool> = Unit::Flag, Flag, Scope, "trim",
            "Whether the native pool was asked to give idle memory back.",
            "Compare the pool before and after.";
        before: Option<BTreeMap<String, Value>> = Unit::Structure, Structure, Scope, "trim",
            "The pool's counters before the trim.",
            "They carry the names of the torch allocator pool rows.";
        after: Option<BTreeMap<String, Value>> = Unit::Structure, Structure, Scope, "trim",
            "The pool's counters after the trim.",
            "Mapped memory should be lower by what was idle.";
        pool_before_cublas_clear: Option<BTreeMap<String, Value>> = Unit::Structure, Structure, Scope, "trim",
            "The pool's counters before workspaces were dropped.",
            "The difference to `before` is what the workspaces held.";
        cublas_workspaces_cleared: Option<bool> = Unit::Flag, Flag, Scope, "trim",
            "Whether matrix library workspaces were dropped first.",
            "They are created again at the next product.";
        library: Option<Nullable<String>> = Unit::Text, Label, Scope, "trim",
            "File of the native library that was trimmed.",
            "Another library in the process keeps its memory.";
        elapsed_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "trim",
            "Host time of the whole trim, waits included.",
            "Keep trims out of timed phases.";
    }
}
