//! Generations with one loaded model: "What did a host observe of each?"
//!
//! Uses the reports of this room. Invariants: a time that was not recorded is `None`; a generation without a timer has no report.

use super::LoadedReport;

/// One generation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Generation {
    /// The file, relative to the input.
    pub file: String,
    /// The component whose model was loaded once, where the report or the folder names it.
    pub component: Option<String>,
    /// Which one it was, from zero.
    pub index: Option<u64>,
    /// Host time from the preparation of its input to the readback of its result.
    pub elapsed_seconds: Option<f64>,
    /// The report with its timer; its counters run on from generation to generation.
    pub report: Option<Box<LoadedReport>>,
}
