//! Operator diagnostics: "Which operators did a few forwards of one module run?"
//!
//! May use: units and the declaring macro. Invariant: the profiler may synchronise and slows the host; inclusive rows overlap and
//! are never added; no device activity is not a device at rest.

use crate::section;
use crate::unit::{Seconds, Unit};

section! {
    /// Sums over all calls of one name.
    pub struct OperatorRow at "runtime.operator_diagnostics.samples[].top_host[]" {
        name: Option<String> = Unit::Text, Identity, Scope, "selected forward",
            "Operator, kernel or child range.",
            "Match rows of two samples by it.";
        calls: Option<u64> = Unit::Count("calls"), Measure, Scope, "selected forward",
            "Times this name ran in the sample.",
            "Many short calls: the host may be the limit.";
        self_host_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "selected forward",
            "Host time without the operators called inside.",
            "Rows of this column may be compared with each other.";
        host_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "selected forward",
            "Host time with everything called inside.",
            "Contains other rows.";
        self_device_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "selected forward",
            "Device time of the work launched by this name itself.",
            "Zero may mean that no activity was captured.";
        device_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "selected forward",
            "Device time of all work launched inside this name.",
            "Contains other rows; streams overlap in it.";
    }
}

section! {
    /// One selected call of the module.
    pub struct OperatorSample at "runtime.operator_diagnostics.samples[]" {
        invocation_index: Option<u64> = Unit::Index, Identity, Scope, "selected forward",
            "Which call of the module was sampled.",
            "Calls are not steps: a step may call a module twice.";
        host_forward_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "selected forward",
            "Host time of the forward under the profiler, blocking launches included.",
            "Longer than without the profiler.";
        profiler_stop_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "profiler stop",
            "Host time to stop the profiler; it may drain work queued earlier.",
            "No compute time of this module.";
        device_activity_events: Option<u64> = Unit::Count("events"), Measure, Scope, "profiler stop",
            "Device activities in the capture.",
            "Zero: device times of the sample are unavailable.";
        operator_count: Option<u64> = Unit::Count("names"), Measure, Scope, "profiler stop",
            "Distinct names before the lists were cut.",
            "Above the length of a list, the trace has the rest.";
        trace_path: Option<String> = Unit::Text, Text, Scope, "profiler stop",
            "File with the whole capture.",
            "Open it for launch gaps and order.";
        top_host: Option<Vec<OperatorRow>> = Unit::Structure, Structure, Scope, "profiler stop",
            "Up to 40 names by host time.",
            "See its rows.";
        top_device: Option<Vec<OperatorRow>> = Unit::Structure, Structure, Scope, "profiler stop",
            "Up to 40 names by device time.",
            "Its rows are those of the host list.";
        child_ranges: Option<Vec<OperatorRow>> = Unit::Structure, Structure, Scope, "profiler stop",
            "Direct children of the module as ranges, named `ddo.forward.*`.",
            "Shows where inside the module the time lies.";
    }
}

section! {
    /// One diagnostic scope over operators.
    pub struct OperatorDiagnostics at "runtime.operator_diagnostics" {
        schema_version: Option<u32> = Unit::Version, Version, Scope, "scope exit",
            "Version of what a scope over profiled forwards reports.",
            "A reader refuses a newer version.";
        status: Option<String> = Unit::Label, Label, Scope, "scope exit",
            "`disabled`, `not_finished`, `failed`, `incomplete`, `cuda_activity_unavailable` or `complete`.",
            "Incomplete: a requested call never came.";
        module_path: Option<String> = Unit::Text, Label, Scope, "scope entry",
            "Module whose forwards are sampled.",
            "One block does not stand for all.";
        requested_invocations: Option<Vec<u64>> = Unit::Index, Identity, Scope, "scope entry",
            "Calls that were to be sampled.",
            "At most four, below 32.";
        observed_invocations: Option<u64> = Unit::Count("calls"), Measure, Scope, "scope exit",
            "Calls of the module while the scope was open.",
            "Fewer than requested indexes need: the run was too short.";
        use_cuda: Option<bool> = Unit::Flag, Flag, Scope, "scope entry",
            "Whether device activity was to be captured.",
            "Off: device columns mean nothing.";
        may_synchronize: Option<bool> = Unit::Flag, Flag, Scope, "scope entry",
            "Always true: starting and stopping the profiler may wait for the device.",
            "Do not time the phase around it.";
        benchmark_eligible: Option<bool> = Unit::Flag, Flag, Scope, "scope exit",
            "Always false: profiled forwards keep another rhythm.",
            "Compare samples with samples only.";
        scope: Option<String> = Unit::Label, Label, Scope, "scope exit",
            "`selected_forward_operators`.",
            "The rest of the pass is not in it.";
        samples: Option<Vec<OperatorSample>> = Unit::Structure, Structure, Scope, "scope exit",
            "The sampled calls.",
            "See its rows.";
    }
}
