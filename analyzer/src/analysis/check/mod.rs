//! Conservation checks: "Do the numbers add up?"
//!
//! Uses `run`, the catalogue, `reconcile`, `overlap` and `delta`. Invariants: [`CHECKS`] is the only list; a check names what
//! it asserts and its tolerance; whole numbers compare exactly; a value that is unavailable makes a result unavailable,
//! never a pass; a recorded run that is sound passes all of them.

mod diagnostics;
mod facts;
mod journal;
mod memory;
mod setup;
mod table;
mod timing;
mod transfer;

pub use table::CHECKS;

use crate::limits::MAX_FINDINGS_PER_CODE;
use crate::run::{Component, LoadedReport, Run, shorten};
use ddo_schemas::Finding;
use ddo_schemas::scalar::JsonScalar;
use facts::{Facts, Found};
use std::collections::BTreeMap;

/// One check of the table.
pub struct Check {
    /// Stable name.
    pub name: &'static str,
    /// What holds in a sound run.
    pub asserts: &'static str,
    /// Code of the finding that reading or another analysis already makes of a failure, so that it is not said twice.
    pub reported_as: Option<&'static str>,
    rule: Rule,
}

/// How a check is made.
enum Rule {
    /// A whole number is the sum of others, in every report and record.
    Sum { total: &'static str, parts: &'static [&'static str] },
    /// Sums that never decrease from left to right, in every report and record.
    AtMost(&'static [&'static [&'static str]]),
    /// The values of one report or record.
    Snapshot(fn(&Facts<'_>) -> Vec<Found>),
    /// One report.
    Report(fn(&LoadedReport) -> Vec<Found>),
    /// All records of a component.
    Journal(fn(&Component) -> Vec<Found>),
    /// Everything that was read.
    Run(fn(&Run) -> Vec<Found>),
}

/// The result of one check at one place.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Name of the check.
    pub name: &'static str,
    /// Report or record, and field.
    pub place: String,
    /// What the other values say.
    pub expected: JsonScalar,
    /// What was recorded.
    pub got: JsonScalar,
    /// Whether it holds; `None` where a value is unavailable.
    pub ok: Option<bool>,
}

/// Every check of a run, in the order of the table; each has at least one outcome.
pub fn all(run: &Run) -> Vec<Outcome> {
    CHECKS.iter().flat_map(|check| of(check, run)).collect()
}

/// The check of that name.
pub fn find(name: &str) -> Option<&'static Check> {
    CHECKS.iter().find(|check| check.name == name)
}

/// A finding for every failure that is not reported otherwise.
pub fn findings(outcomes: &[Outcome]) -> Vec<Finding> {
    let failed = outcomes.iter().filter(|outcome| outcome.ok == Some(false));
    let finding = |outcome: &Outcome| {
        let check = find(outcome.name).filter(|check| check.reported_as.is_none())?;
        let (expected, got) = (shown(&outcome.expected), shown(&outcome.got));
        let text = format!("{} does not hold ({}): expected {expected}, got {got}", check.name, check.asserts);
        Some(Finding::error(&format!("check_{}", check.name), outcome.place.clone(), text))
    };
    failed.filter_map(finding).collect()
}

/// A value as people read it.
pub fn shown(value: &JsonScalar) -> String {
    match value {
        JsonScalar::Null => "nothing".into(),
        JsonScalar::Flag(flag) => flag.to_string(),
        JsonScalar::Integer(number) => number.to_string(),
        JsonScalar::Real(number) => number.to_string(),
        JsonScalar::Text(text) => shorten(text),
    }
}

fn of(check: &Check, run: &Run) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    let outcome =
        |place: String, found: Found| Outcome { name: check.name, place, expected: found.expected, got: found.got, ok: found.ok };
    let at = |file: &str, found: &Found| {
        let file = if found.file.is_empty() { file } else { &found.file };
        if found.field.is_empty() { file.to_string() } else { format!("{file}: {}", found.field) }
    };
    if let Rule::Run(rule) = check.rule {
        outcomes.extend(rule(run).into_iter().map(|found| outcome(at(".", &found), found)));
    }
    for component in &run.components {
        for report in &component.reports {
            let found = report_outcomes(check, report);
            outcomes.extend(found.into_iter().map(|found| outcome(at(&report.file, &found), found)));
        }
        let mut folded = Folded::default();
        for record in &component.records {
            let facts = Facts { values: &record.values };
            for found in snapshot_outcomes(check, &facts) {
                folded.add(|found| at(&record.file, found), found);
            }
        }
        if let Rule::Journal(rule) = check.rule {
            for found in rule(component) {
                folded.add(|found| at(&component.name, found), found);
            }
        }
        outcomes.extend(folded.finish(&component.name).into_iter().map(|(place, found)| outcome(place, found)));
    }
    if outcomes.is_empty() {
        let nothing = JsonScalar::Text("nothing that this check reads was recorded".into());
        outcomes.push(Outcome { name: check.name, place: ".".into(), expected: nothing, got: JsonScalar::Null, ok: None });
    }
    outcomes
}

fn report_outcomes(check: &Check, report: &LoadedReport) -> Vec<Found> {
    match check.rule {
        Rule::Report(rule) => rule(report),
        _ => snapshot_outcomes(check, &Facts { values: &report.values }),
    }
}

fn snapshot_outcomes(check: &Check, facts: &Facts<'_>) -> Vec<Found> {
    match check.rule {
        Rule::Sum { total, parts } => sum(facts, total, parts).into_iter().collect(),
        Rule::AtMost(chain) => at_most(facts, chain),
        Rule::Snapshot(rule) => rule(facts),
        Rule::Report(_) | Rule::Journal(_) | Rule::Run(_) => Vec::new(),
    }
}

fn sum(facts: &Facts<'_>, total: &str, parts: &[&str]) -> Option<Found> {
    if !facts.recorded(total) && !parts.iter().any(|part| facts.recorded(part)) {
        return None;
    }
    Some(match (facts.sum(&[total]), facts.sum(parts)) {
        (Ok(got), Ok(expected)) => Found::equal(total, expected, got),
        (got, expected) => {
            let missing: Vec<String> = [got, expected].into_iter().filter_map(Result::err).flatten().collect();
            Found::unavailable(total, &missing)
        }
    })
}

fn at_most(facts: &Facts<'_>, chain: &[&[&str]]) -> Vec<Found> {
    if !chain.iter().flat_map(|group| group.iter()).any(|name| facts.recorded(name)) {
        return Vec::new();
    }
    let link = |pair: &[&[&str]]| {
        let [left, right] = pair else { return None };
        let field = left.first()?;
        Some(match (facts.sum(left), facts.sum(right)) {
            (Ok(got), Ok(bound)) => Found::at_most(field, bound, &right.join(" + "), got),
            (got, bound) => {
                let missing: Vec<String> = [got, bound].into_iter().filter_map(Result::err).flatten().collect();
                Found::unavailable(field, &missing)
            }
        })
    };
    chain.windows(2).filter_map(link).collect()
}

/// An outcome, which record it was first seen at, and where.
type FirstSeen = (usize, String, Found);

/// Outcomes of the records of one component. A long journal repeats itself: failures are kept one by one, up to a bound;
/// the others become one line a field.
#[derive(Default)]
struct Folded {
    failed: Vec<(String, Found)>,
    more: usize,
    /// By field: what could not be judged, and what holds. The place is that of the first, the values are those of the last.
    rest: BTreeMap<String, [Option<FirstSeen>; 2]>,
}

impl Folded {
    fn add(&mut self, place: impl FnOnce(&Found) -> String, found: Found) {
        match found.ok {
            Some(false) if self.failed.len() < MAX_FINDINGS_PER_CODE => self.failed.push((place(&found), found)),
            Some(false) => self.more += 1,
            ok => {
                if !self.rest.contains_key(&found.field) {
                    self.rest.insert(found.field.clone(), [None, None]);
                }
                let Some([open, held]) = self.rest.get_mut(&found.field) else { return };
                match if ok.is_some() { held } else { open } {
                    Some((count, _, last)) => (*count, *last) = (*count + 1, found),
                    empty => *empty = Some((1, place(&found), found)),
                }
            }
        }
    }

    fn finish(self, component: &str) -> Vec<(String, Found)> {
        let mut out = self.failed;
        if self.more > 0 {
            let found = Found::that("", "none", format!("{} more failures of this check", self.more), false);
            out.push((format!("more records of {component}"), found));
        }
        let rest =
            self.rest.into_iter().flat_map(|(field, kept)| kept.into_iter().flatten().map(move |one| (field.clone(), one)));
        for (field, (count, place, found)) in rest {
            let place = match (count, field.as_str()) {
                (1, _) => place,
                (count, "") => format!("{count} records of {component}"),
                (count, field) => format!("{count} records of {component}: {field}"),
            };
            out.push((place, found));
        }
        out
    }
}

#[cfg(test)]
mod tests;
