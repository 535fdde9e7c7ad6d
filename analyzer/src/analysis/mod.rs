//! "What does it mean?" Pure functions over a run.
//!
//! It may use `run` and the catalogue, besides `limits`. Invariants: no files; nothing is estimated in silence: a value that does not follow
//! from the run is `None` with the reason beside it; kinds of windows are never added together.

pub mod alignment;
pub mod bound;
pub mod check;
pub mod delta;
pub mod diff;
pub mod driver_calls;
pub mod estimate;
pub mod floor;
pub mod generations;
pub mod lookahead;
pub mod memory;
pub mod memory_series;
pub mod operators;
pub mod overlap;
pub mod reconcile;
pub mod steps;
pub mod windows;

use crate::run::{LoadedReport, Run};
use ddo_schemas::{Finding, Severity};

/// All findings of a run, the gravest first: those made while reading, those that follow from the values, failed checks.
pub fn findings(run: &Run) -> Vec<Finding> {
    let mut all = noticed(run);
    all.extend(check::findings(run));
    all.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    all
}

/// The findings without the checks: what belongs to a place on a time axis.
pub fn noticed(run: &Run) -> Vec<Finding> {
    let mut all = run.findings.clone();
    all.extend(run.all().flat_map(alignment::implausible));
    all.extend(run.all().flat_map(delta::beyond_the_tables));
    for component in run.all().flat_map(|run| &run.components) {
        all.extend(delta::resets(component));
        all.extend(memory::above_ceiling(component));
        all.extend(bound::contradicted_rate(component));
        for report in &component.reports {
            all.extend(diagnosed(report));
            all.extend(overlap::verify(report));
            all.extend(overlap::straddling(report));
        }
    }
    all.extend(run.operators.iter().flat_map(operators::findings));
    all.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    all
}

/// That a report is for a diagnosis, by the scopes that were open.
fn diagnosed(report: &LoadedReport) -> Option<Finding> {
    let scopes = report.diagnostic_scopes();
    let names: Vec<&str> = scopes.iter().map(|scope| scope.rsplit('.').next().unwrap_or(scope)).collect();
    let text = format!("is not a benchmark: {} was on while it ran", names.join(" and "));
    (!names.is_empty()).then(|| Finding::note("not_a_benchmark", &report.file, text))
}

/// True when a finding is more than a note.
pub fn is_serious(finding: &Finding) -> bool {
    finding.severity > Severity::Note
}
