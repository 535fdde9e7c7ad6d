//! Generations with one loaded model: "What did a host observe of each?"
//!
//! Uses nothing else. Invariants: a time that was not recorded is `None`; a generation without a timer has no report.

/// One generation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Generation {
    /// The component whose model was loaded once, where the report or the folder names it.
    pub component: Option<String>,
    /// Which one it was, from zero.
    pub index: Option<u64>,
    /// Host time from the preparation of its input to the readback of its result.
    pub elapsed_seconds: Option<f64>,
    /// File of the component's report with its timer; the report's counters run on from generation to generation.
    pub report: Option<String>,
}
