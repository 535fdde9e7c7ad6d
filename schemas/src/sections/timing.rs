//! Execution timing: markers of the host's compute stream.

use crate::section;
use crate::unit::{Seconds, Unit};

section! {
    /// Host waits that were asked for at every step boundary, to find out where a step's time lies.
    pub struct StepWait at "runtime.execution_timing.diagnostic_step_wait" {
        enabled: Option<bool> = Unit::Flag, Flag, Scope, "timer report",
            "Whether the host waited at step boundaries.",
            "Such a run shows where time goes, not how fast it is.";
        scope: Option<String> = Unit::Label, Label, Scope, "timer report",
            "`compute_boundary_event_host_wait`: the host waits for the compute stream's marker.",
            "Uploads on other streams are not waited for.";
        calls: Option<u64> = Unit::Count("waits"), Measure, Scope, "timer report",
            "Boundary waits that were tried, one at each step mark.",
            "Divide the time of the waits by it.";
        host_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "timer report",
            "Host time spent in these waits.",
            "It shows a changed rhythm, not work that was saved; near zero the device had already caught up.";
        benchmark_eligible: Option<bool> = Unit::Flag, Flag, Scope, "timer report",
            "Always false: waiting at every step changes the schedule.",
            "Take timings from a run without it.";
    }
}

section! {
    /// Intervals between markers on one compute stream, from the start of a phase to its end.
    pub struct ExecutionTiming at "runtime.execution_timing" {
        schema_version: u32 = Unit::Version, Version, Scope, "timer report",
            "Version of this structure, additive to the report's own.",
            "A reader refuses a newer version.";
        clock: String = Unit::Label, Label, Scope, "timer report",
            "The clock behind the intervals: `cuda_event` on a GPU, `host_stream` on the host driver.",
            "Never compare intervals of two clocks as if they were one.";
        unit: String = Unit::Label, Label, Scope, "timer report",
            "The unit of every interval of this structure: `seconds`.",
            "Nothing to do.";
        scope: String = Unit::Label, Label, Scope, "timer report",
            "`compute_stream_with_dependencies`: one stream, what it waits for included, other streams left out.",
            "Work on other streams shows only where a dependency joins it.";
        failed: bool = Unit::Flag, Flag, Scope, "scope exit",
            "True when the timed phase ended with an error.",
            "Do not use the intervals of a failed run.";
        status: String = Unit::Label, Label, Scope, "query after the phase",
            "`disabled`, `not_finished`, `pending` or `complete`. Pending is not a duration of zero.",
            "When pending, snapshot again after the host's own completion boundary.";
        step_count: Option<u64> = Unit::Count("steps"), Measure, Scope, "query after the phase",
            "Steps marked so far; given while intervals are not yet available.",
            "Compare with the number of forwards that the host ran.";
        stream: Option<u64> = Unit::RunLocalId, Identity, Scope, "entry to the timer",
            "Handle of the stream that was captured on entry; 0 is the default stream.",
            "Not a profiler's stream number, and never an identity across runs.";
        phase_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "completed last event",
            "From the first marker to the last, stream dependencies and host launch gaps included.",
            "Compare with the sum of steps plus tail; not a kernel time.";
        step_seconds: Option<Vec<Seconds>> = Unit::Seconds, Measure, Scope, "completed step markers",
            "Interval before each step marker; the first one carries the cold work.",
            "Look for a step that stands out, then at its upload windows.";
        steady_state_seconds_per_step: Option<Seconds> = Unit::Seconds, Measure, Scope, "mean of the steps after the first",
            "Mean step time without the first step; unavailable with fewer than two steps.",
            "Compare between runs of equal settings only.";
        tail_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "last step marker to the end of the phase",
            "Work after the last marked step.",
            "A large tail means that the phase holds work no step accounts for.";
        resolution_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "query after the phase",
            "Smallest difference that the clock can show at the end of the phase.",
            "Differences near this size say nothing.";
        diagnostic_step_wait: Option<StepWait> = Unit::Structure, Structure, Scope, "timer report",
            "Present only where waits at step boundaries were asked for.",
            "See its rows.";
    }
}
