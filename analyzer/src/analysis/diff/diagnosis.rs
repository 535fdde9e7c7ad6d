//! What a diagnostic switch changed: "Two runs that differ in nothing else: how do their numbers differ?"
//!
//! Uses the figures of both sides. Invariants: there is no verdict, no test and no gate, since such runs are no benchmarks; a table is
//! made only where nothing but the diagnosis keeps the runs apart; a number of one side only has no partner, and none is invented.

use super::figures::Figures;
use super::{Difference, Side, statistics};
use crate::run::{Component, LoadedReport, Run, Scalar};
use ddo_schemas::{Unit, catalogue};
use std::collections::BTreeSet;

/// Marks and settings that only say that a run was diagnosed.
const ONLY_DIAGNOSED: [&str; 4] =
    ["benchmark_eligible", "settings.diagnostic_step_wait", "settings.allocation_diagnostics", "settings.operator_diagnostics"];

/// What a scope that changes what it measures says about itself.
const OF_SCOPES: [&str; 2] = ["runtime.execution_timing.diagnostic_step_wait.", "runtime.allocation_diagnostics.total_delta."];

/// A number on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Its path.
    pub path: String,
    /// What it is counted in.
    pub unit: Unit,
    /// Median of the base's runs.
    pub base: Option<f64>,
    /// Median of the candidate's runs.
    pub candidate: Option<f64>,
    /// Difference as hundredths of the base, where there is one.
    pub change_percent: Option<f64>,
}

/// What the scopes of a run's leading reports counted, by path.
pub(super) fn scopes(run: &Run) -> Figures {
    let mut found = Figures::new();
    let single = run.components.len() <= 1;
    for component in &run.components {
        let Some(report) = Run::leading_report(component) else { continue };
        of_report(component, report, single, &mut found);
    }
    found
}

fn of_report(component: &Component, report: &LoadedReport, single: bool, found: &mut Figures) {
    for (path, value) in &report.values {
        let number = match value {
            Scalar::U64(value) => super::Number::Whole(*value),
            Scalar::F64(value) => super::Number::Fraction(*value),
            _ => continue,
        };
        if !OF_SCOPES.iter().any(|scope| path.starts_with(scope)) {
            continue;
        }
        let unit = catalogue::find(path).map_or(Unit::Structure, |row| row.field.unit);
        let named = if single { path.to_string() } else { format!("{}/{path}", component.name) };
        found.insert(named, super::Figure { value: number, unit, class: super::Class::Informative, resolution: 0.0 });
    }
}

/// The table; empty unless the refused differences are nothing but a diagnosis.
pub(super) fn changes(base: &[Side], candidate: &[Side], refused: &[&Difference]) -> Vec<Change> {
    let only =
        |one: &&Difference| ONLY_DIAGNOSED.iter().any(|field| one.field == *field || one.field.ends_with(&format!("/{field}")));
    let diagnosed = refused.iter().any(|one| one.field.ends_with("benchmark_eligible"));
    if !diagnosed || !refused.iter().all(only) {
        return Vec::new();
    }
    let all = base.iter().chain(candidate);
    let paths: BTreeSet<&str> = all.flat_map(|side| side.figures.keys().chain(side.scopes.keys())).map(String::as_str).collect();
    paths.into_iter().filter_map(|path| change(path, base, candidate)).collect()
}

fn change(path: &str, base: &[Side], candidate: &[Side]) -> Option<Change> {
    let get = |side: &Side| side.figures.get(path).or_else(|| side.scopes.get(path)).copied();
    let median = |sides: &[Side]| {
        let values: Vec<f64> = sides.iter().filter_map(get).map(|figure| figure.value.as_f64()).collect();
        // A median over fewer runs than the side has would be that of another set.
        if values.len() == sides.len() { statistics::median(&values) } else { None }
    };
    let (before, after) = (median(base), median(candidate));
    let unit = base.iter().chain(candidate).find_map(get)?.unit;
    let change_percent =
        before.zip(after).filter(|(before, _)| *before != 0.0).map(|(before, after)| (after - before) / before * 100.0);
    Some(Change { path: path.to_owned(), unit, base: before, candidate: after, change_percent })
}
