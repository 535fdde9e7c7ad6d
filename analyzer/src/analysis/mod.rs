//! "What does it mean?" Pure functions over a run.
//!
//! It may use `run` and the catalogue, besides `limits`. Invariants: no files; nothing is estimated in silence: a value that does not follow
//! from the run is `None` with the reason beside it; kinds of windows are never added together.

pub mod alignment;
pub mod bound;
pub mod check;
pub mod delta;
pub mod diff;
pub mod estimate;
pub mod floor;
pub mod lookahead;
pub mod memory;
pub mod memory_series;
pub mod operators;
pub mod overlap;
pub mod reconcile;
pub mod steps;
pub mod windows;

use crate::run::Run;
use ddo_schemas::{Finding, Severity};

/// What was found wrong with a run, once for every output: over a long journal the checks are most of the work.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Judged {
    /// Every check, in the order of the table.
    pub checks: Vec<check::Outcome>,
    /// The findings without the checks: what belongs to a place on a time axis.
    pub noticed: Vec<Finding>,
    /// All findings, the gravest first: those made while reading, those that follow from the values, failed checks.
    pub findings: Vec<Finding>,
}

/// Makes all checks of a run and collects its findings.
pub fn judge(run: &Run) -> Judged {
    let checks = check::all(run);
    let noticed = noticed(run);
    let mut findings = noticed.clone();
    findings.extend(check::findings(&checks));
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Judged { checks, noticed, findings }
}

/// The findings alone.
pub fn findings(run: &Run) -> Vec<Finding> {
    judge(run).findings
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
            all.extend(overlap::verify(report));
            all.extend(overlap::straddling(report));
        }
    }
    all.extend(run.operators.iter().flat_map(operators::findings));
    all.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    all
}

/// True when a finding is more than a note.
pub fn is_serious(finding: &Finding) -> bool {
    finding.severity > Severity::Note
}
