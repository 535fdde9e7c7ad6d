//! Diagnostic scopes of a report: "What did the driver calls and the operators of a phase add up to?"
//!
//! Uses `scalar`. Invariants: a row or a value that was not recorded is absent; statuses are kept as recorded, so that
//! a scope which failed is never read as one in which nothing happened; times have a length and no place on any clock.

use super::scalar::Values;

/// What an operator scope recorded about the selected forwards of one module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperatorDiagnostics {
    /// How the scope ended.
    pub status: Option<String>,
    /// The module whose forwards were selected.
    pub module_path: Option<String>,
    /// Invocations that were asked for, from zero.
    pub requested: Vec<u64>,
    /// Forwards of the module while the scope was open.
    pub observed: Option<u64>,
    /// One for each invocation that was profiled.
    pub samples: Vec<OperatorSample>,
}

/// One profiled forward.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperatorSample {
    /// Which invocation, from zero.
    pub invocation: Option<u64>,
    /// Host time inside the forward.
    pub host_forward_seconds: Option<f64>,
    /// Host time that ending the profiler took.
    pub profiler_stop_seconds: Option<f64>,
    /// The operator trace as the recorder named it; it is not looked for there.
    pub trace_path: Option<String>,
    /// Events of device activity in the trace.
    pub device_activity_events: Option<u64>,
    /// Different operators.
    pub operator_count: Option<u64>,
    /// Operators by host time, largest first.
    pub top_host: Vec<OperatorRow>,
    /// Operators by device time, largest first.
    pub top_device: Vec<OperatorRow>,
    /// Forwards of direct child modules.
    pub child_ranges: Vec<OperatorRow>,
}

/// One operator, all its calls together.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OperatorRow {
    /// Name of the operator or range.
    pub name: String,
    /// Calls.
    pub calls: Option<u64>,
    /// Host time without the operators inside.
    pub self_host_seconds: Option<f64>,
    /// Host time with them.
    pub host_seconds: Option<f64>,
    /// Device time without the operators inside.
    pub self_device_seconds: Option<f64>,
    /// Device time with them.
    pub device_seconds: Option<f64>,
}

/// What an allocation scope recorded about the driver's memory calls.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AllocationDiagnostics {
    /// How the scope ended.
    pub status: Option<String>,
    /// Whether the body failed.
    pub failed: Option<bool>,
    /// Why the scope has no values.
    pub error: Option<String>,
    /// Version of the native counters behind the scope.
    pub native_schema_version: Option<u64>,
    /// Host time from entry to exit.
    pub host_scope_seconds: Option<f64>,
    /// Between neighbouring step boundaries of the host, in recorded order.
    pub steps: Vec<AllocationStep>,
    /// From entry to exit, by the counter's name.
    pub total_delta: Values,
    /// Most that the pool had mapped since the process began.
    pub observed_peak_mapped_bytes: Option<u64>,
}

/// One step of an allocation scope.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AllocationStep {
    /// Which step, from zero.
    pub step: Option<u64>,
    /// Host time since the boundary before.
    pub host_submission_seconds: Option<f64>,
    /// What the step added, by the counter's name.
    pub driver_delta: Values,
    /// Most that the pool had mapped until then.
    pub observed_peak_mapped_bytes: Option<u64>,
}
