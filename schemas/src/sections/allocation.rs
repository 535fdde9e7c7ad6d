//! Allocation diagnostics: "Which driver calls did memory cost, and when?"
//!
//! May use: units and the declaring macro. Invariant: host time of calls, read without waiting for a device; scopes overlap and
//! are never added; a report with them is no benchmark.

use crate::field::{Condition, Gate};
use crate::section;
use crate::unit::{Seconds, Unit};

section! {
    /// Differences of the driver counters over one interval.
    #[derive(Default)]
    pub struct DriverDelta at "runtime.allocation_diagnostics.total_delta" {
        create_calls: Option<u64> = Unit::Count("calls"), Measure, Scope, "scope or step boundary",
            "Attempts to obtain physical memory from the driver.",
            "In steady state there should be none.";
        create_host_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "scope or step boundary",
            "Host time inside calls that obtain physical memory, blocking in the driver included.",
            "Long: the driver makes room before it answers.";
        create_failed_calls: Option<u64> = Unit::Count("calls"), Measure, Scope, "scope or step boundary",
            "Attempts to obtain physical memory that the driver declined; a later retry may have worked.",
            "Look at the admission failures for what remained.", { gate: Gate::Informative };
        map_calls: Option<u64> = Unit::Count("calls"), Measure, Scope, "scope or step boundary",
            "Attempts to put physical memory behind addresses.",
            "Follows the creations unless backings are reused.";
        map_host_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "scope or step boundary",
            "Host time inside calls that put memory behind addresses.",
            "Usually short; access is the expensive one.";
        map_failed_calls: Option<u64> = Unit::Count("calls"), Measure, Scope, "scope or step boundary",
            "Mappings that the driver declined.",
            "Not expected in a healthy run.", { gate: Gate::Informative };
        access_calls: Option<u64> = Unit::Count("calls"), Measure, Scope, "scope or step boundary",
            "Attempts to make mapped memory usable by the device, repeated ones included.",
            "Equals the four return categories unless calls straddle a boundary.";
        access_host_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "scope or step boundary",
            "Host time inside calls that make memory usable.",
            "Compare with the retry waits, which lie between such calls.";
        access_failed_calls: Option<u64> = Unit::Count("calls"), Measure, Scope, "scope or step boundary",
            "Such calls that did not succeed, those retried later included.",
            "The categories tell why.", { gate: Gate::Informative };
        unmap_calls: Option<u64> = Unit::Count("calls"), Measure, Scope, "scope or step boundary",
            "Attempts to take memory away from addresses.",
            "In steady state: residents come and go.";
        unmap_host_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "scope or step boundary",
            "Host time inside calls that take memory away.",
            "Long: the driver waits for work that uses it.";
        unmap_failed_calls: Option<u64> = Unit::Count("calls"), Measure, Scope, "scope or step boundary",
            "Mappings that could not be taken away.",
            "That memory is kept; look at the quarantine.", { gate: Gate::Informative };
        release_calls: Option<u64> = Unit::Count("calls"), Measure, Scope, "scope or step boundary",
            "Attempts to give physical memory back to the driver.",
            "Compare with creations over a whole run.";
        release_host_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "scope or step boundary",
            "Host time inside calls that give memory back.",
            "Belongs to cleanup when it stands in the last interval.";
        release_failed_calls: Option<u64> = Unit::Count("calls"), Measure, Scope, "scope or step boundary",
            "Memory that the driver did not take back.",
            "It is lost to the process.", { gate: Gate::Informative };
        reserve_calls: Option<u64> = Unit::Count("calls"), Measure, Scope, "scope or step boundary",
            "Attempts to reserve addresses.",
            "Expected at attachment only.";
        reserve_host_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "scope or step boundary",
            "Host time inside calls that reserve addresses.",
            "Short unless the address space is crowded.";
        reserve_failed_calls: Option<u64> = Unit::Count("calls"), Measure, Scope, "scope or step boundary",
            "Address ranges that the driver declined.",
            "Ask for a smaller arena.", { gate: Gate::Informative };
        address_free_calls: Option<u64> = Unit::Count("calls"), Measure, Scope, "scope or step boundary",
            "Attempts to give addresses back.",
            "Expected at detachment only.";
        address_free_host_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "scope or step boundary",
            "Host time inside calls that give addresses back.",
            "Belongs to cleanup.";
        address_free_failed_calls: Option<u64> = Unit::Count("calls"), Measure, Scope, "scope or step boundary",
            "Address ranges that could not be given back.",
            "Something is still mapped there.", { gate: Gate::Informative };
        pool_reuse_calls: Option<u64> = Unit::Count("calls"), Measure, Scope, "scope or step boundary",
            "Requests served by a span that the pool already had, counted once the span was handed out.",
            "Compare early with late steps; late ones should reuse.", { gate: Gate::Informative };
        pool_new_backings: Option<u64> = Unit::Count("backings"), Measure, Scope, "scope or step boundary",
            "Backings that the pool created, even where handing them out failed afterwards.",
            "Still growing late: the pool does not settle.", { gate: Gate::Informative };
        access_retry_sync_calls: Option<u64> = Unit::Count("calls"), Measure, Scope, "scope or step boundary, native version 2",
            "Waits for the whole context between two tries to make arena memory usable.",
            "Any of them stalls the host; find what makes access fail.", { gate: Gate::Informative };
        access_retry_sync_host_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope,
            "scope or step boundary, native version 2",
            "Host time inside these waits.",
            "It lies inside the fault scope; never add the two.", { meaningful_if: Condition::SiblingNonZero("access_retry_sync_calls") };
        access_retry_sync_failed_calls: Option<u64> = Unit::Count("calls"), Measure, Scope,
            "scope or step boundary, native version 2",
            "Waits that returned anything but success; not the same as a fault that failed in the end.",
            "Look at the fault failures beside it.", { gate: Gate::Informative };
        fault_range_calls: Option<u64> = Unit::Count("calls"), Measure, Scope, "scope or step boundary, native version 2",
            "Entries into the arena's fault routine; failures are not counted apart.",
            "After the first pass there should be few.", { gate: Gate::Informative };
        fault_range_host_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "scope or step boundary, native version 2",
            "Host time in the fault routine from lock to return, driver calls and retry waits included.",
            "It overlaps the other timers here; no part of a sum.";
        access_return_success_calls: Option<u64> = Unit::Count("calls"), Measure, Scope,
            "scope or step boundary, native version 2",
            "Access calls of this library that the driver answered with success.",
            "The rest of the calls stands in the next three rows.", { gate: Gate::Informative };
        access_return_not_ready_calls: Option<u64> = Unit::Count("calls"), Measure, Scope,
            "scope or step boundary, native version 2",
            "Access calls answered with not ready.",
            "The answer that leads to retry waits.", { gate: Gate::Informative };
        access_return_out_of_memory_calls: Option<u64> = Unit::Count("calls"), Measure, Scope,
            "scope or step boundary, native version 2",
            "Access calls answered with out of memory.",
            "The device is full; lower the ceiling.", { gate: Gate::Informative };
        access_return_other_calls: Option<u64> = Unit::Count("calls"), Measure, Scope,
            "scope or step boundary, native version 2",
            "Access calls answered with anything else; a category, not an error code.",
            "Enable the library's own messages.", { gate: Gate::Informative };
    }
}

section! {
    /// One step of the diagnostic scope.
    pub struct AllocationStep at "runtime.allocation_diagnostics.steps[]" {
        step_index: Option<u64> = Unit::Index, Identity, Scope, "step boundary",
            "Step that the interval ends with.",
            "Pair it with the stream interval of the same step.";
        host_submission_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "step boundary",
            "Host time between two boundaries; work in flight crosses them.",
            "Compare with the stream's step, which includes what it waits for.";
        driver_delta: Option<DriverDelta> = Unit::Structure, Structure, Scope, "step boundary",
            "Driver counters of this step.",
            "Its rows are those of the total.";
        pool_observed_peak_mapped_bytes: Option<u64> = Unit::Bytes, Peak, Process, "step boundary",
            "Highest pool memory seen up to this step; zero when no backing was created under diagnosis.",
            "It never falls between steps.", { meaningful_if: Condition::NonZero };
    }
}

section! {
    /// One diagnostic scope over driver calls.
    pub struct AllocationDiagnostics at "runtime.allocation_diagnostics" {
        schema_version: Option<u32> = Unit::Version, Version, Scope, "scope exit",
            "Version of what a scope over driver calls reports.",
            "A reader refuses a newer version.";
        status: Option<String> = Unit::Label, Label, Scope, "scope exit",
            "`disabled`, `not_finished`, `failed` or `complete`.",
            "Only a complete scope has numbers.";
        failed: Option<bool> = Unit::Flag, Flag, Scope, "scope exit",
            "Whether the diagnosed body or the diagnosis failed.",
            "Look for the body's own error first.";
        error: Option<String> = Unit::Text, Text, Scope, "scope exit",
            "What failed; present only then.",
            "It never replaces an error of the body.";
        native_schema_version: Option<u32> = Unit::Version, Version, Scope, "scope exit",
            "Version of the native counters; the first has no retry and fault rows.",
            "Rows that a version lacks are unavailable, not zero.";
        host_scope_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "scope exit",
            "Host time from entry to exit, launches and readback included.",
            "Not a time of kernels.";
        steps: Option<Vec<AllocationStep>> = Unit::Structure, Structure, Scope, "scope exit",
            "Steps that the host marked inside the scope.",
            "See its rows.";
        total_delta: Option<DriverDelta> = Unit::Structure, Structure, Scope, "scope exit",
            "Driver counters over the whole scope.",
            "See its rows.";
        pool_observed_peak_mapped_bytes: Option<u64> = Unit::Bytes, Peak, Process, "new pool backing",
            "Most memory that the pool had mapped, as seen when backings were added; arenas are not in it.",
            "No peak of the device. Zero: nothing was observed.", { meaningful_if: Condition::NonZero };
        boundary: Option<String> = Unit::Label, Label, Scope, "scope exit",
            "`cpu_submission_no_cuda_wait`.",
            "Counters of calls in progress may fall into the next interval.";
        scope: Option<String> = Unit::Label, Label, Scope, "scope exit",
            "`process_native_driver_host_calls`: calls of this library in this process.",
            "Other libraries call the driver too.";
        benchmark_eligible: Option<bool> = Unit::Flag, Flag, Scope, "scope exit",
            "Always false: counting every driver call costs time.",
            "Measure speed in a run without it.";
    }
}
