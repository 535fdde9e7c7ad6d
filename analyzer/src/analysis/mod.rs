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

use crate::run::{Component, LoadedReport, Run};
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
        all.extend(diagnosed(component));
        for report in &component.reports {
            all.extend(overlap::verify(report));
            all.extend(overlap::straddling(report));
        }
    }
    all.extend(run.operators.iter().flat_map(operators::findings));
    all.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    all
}

/// That reports of a component are for a diagnosis, by the scopes that were open: at the one that speaks for it, else at the first.
fn diagnosed(component: &Component) -> Option<Finding> {
    let mut reports: Vec<&LoadedReport> = component.reports.iter().filter(|report| report.is_diagnostic()).collect();
    let leads = |report: &&LoadedReport| Run::leading_report(component).is_some_and(|leading| std::ptr::eq(leading, *report));
    reports.sort_by_key(|report| !leads(report));
    let (first, others) = reports.split_first()?;
    let names: Vec<&str> = first.diagnostic_scopes().iter().map(|scope| scope.rsplit('.').next().unwrap_or(scope)).collect();
    let more = if others.is_empty() {
        String::new()
    } else {
        format!(" ({} more reports of the component are none either)", others.len())
    };
    let were = if names.len() == 1 { "was" } else { "were" };
    let text = format!("is not a benchmark: {} {were} on while it ran{more}", names.join(" and "));
    Some(Finding::note("not_a_benchmark", &first.file, text))
}

/// True when a finding is more than a note.
pub fn is_serious(finding: &Finding) -> bool {
    finding.severity > Severity::Note
}
