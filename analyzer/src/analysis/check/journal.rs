//! Checks over a whole journal: "Do its records belong together?"
//!
//! Uses `run`, `delta` and what reading noticed. Invariant: only neighbours are compared, so that one restart is one failure.

use super::facts::{Facts, Found, real, text, vmm};
use crate::analysis::delta::{self, Delta};
use crate::run::{Component, Record, Run};
use ddo_schemas::scalar::JsonScalar;
use std::collections::BTreeSet;

/// Names listed of a difference.
const LISTED: usize = 4;

/// JSON has no words for such numbers; a file that uses them is not read, and reading says which.
pub(super) fn numbers_finite(run: &Run) -> Vec<Found> {
    noticed(run, &["non_finite_number"], "finite numbers only")
}

pub(super) fn labels(run: &Run) -> Vec<Found> {
    if !run.components.iter().any(|component| !component.records.is_empty()) {
        return Vec::new();
    }
    noticed(run, &["wrapper_label_not_fixed", "wrong_observation_label"], "the fixed labels")
}

fn noticed(run: &Run, codes: &[&str], expected: &str) -> Vec<Found> {
    let matching = run.findings.iter().filter(|finding| codes.contains(&finding.code.as_str()));
    let failed: Vec<Found> = matching
        .map(|finding| Found::new("", text(expected.into()), text(finding.text.clone()), false).of(&finding.place))
        .collect();
    if !failed.is_empty() {
        return failed;
    }
    let records: usize = run.components.iter().map(|component| component.records.len()).sum();
    let reports: usize = run.components.iter().map(|component| component.reports.len()).sum();
    let got = format!("{records} records and {reports} reports");
    vec![Found::new("", text(expected.into()), text(got), true)]
}

/// Pairs of neighbours.
fn neighbours(component: &Component) -> impl Iterator<Item = (&Record, &Record)> {
    component.records.iter().zip(component.records.iter().skip(1))
}

pub(super) fn same_keys(component: &Component) -> Vec<Found> {
    let keys = |record: &Record| -> BTreeSet<String> { record.values.keys().map(|key| key.to_string()).collect() };
    let mut found = Vec::new();
    for (before, after) in neighbours(component) {
        if before.values.len() == after.values.len() && before.values.keys().eq(after.values.keys()) {
            let count = after.values.len();
            let expected = text(format!("the fields of {}", before.file));
            found.push(Found::new("", expected, text(format!("the same {count} fields")), true).of(&after.file));
            continue;
        }
        let (old, new) = (keys(before), keys(after));
        let list = |from: &BTreeSet<String>, without: &BTreeSet<String>| {
            let names: Vec<&str> = from.difference(without).map(String::as_str).collect();
            let more = names.len().saturating_sub(LISTED);
            let shown = names.into_iter().take(LISTED).collect::<Vec<_>>().join(", ");
            if more > 0 { format!("{shown} and {more} more") } else { shown }
        };
        let mut parts = Vec::new();
        if old.difference(&new).next().is_some() {
            parts.push(format!("without {}", list(&old, &new)));
        }
        if new.difference(&old).next().is_some() {
            parts.push(format!("with {}", list(&new, &old)));
        }
        let expected = text(format!("the fields of {}", before.file));
        found.push(Found::new("", expected, text(parts.join("; ")), false).of(&after.file));
    }
    found
}

pub(super) fn counters(component: &Component) -> Vec<Found> {
    // The catalogue is asked once a path, not once a record.
    let counters: Vec<_> = delta::paths(component).into_iter().filter(|path| delta::is_counter(path)).collect();
    let mut failed = Vec::new();
    let mut compared = 0_usize;
    for (before, after) in neighbours(component) {
        for path in &counters {
            let (Some(earlier), Some(value)) = (before.values.get(path), after.values.get(path)) else { continue };
            compared += 1;
            if delta::subtract(Some(earlier), Some(value)) == Delta::Reset {
                let number = |value: Option<f64>| value.map_or(JsonScalar::Null, real);
                let whole = |scalar: &crate::run::Scalar| scalar.as_u64().map_or(number(scalar.as_f64()), JsonScalar::from);
                let expected = text(format!("at least {} ({})", super::shown(&whole(earlier)), before.file));
                failed.push(Found::new(path.to_string(), expected, whole(value), false).of(&after.file));
            }
        }
    }
    if failed.is_empty() && compared > 0 {
        let got = text(format!("{compared} pairs of values"));
        failed.push(Found::new("", text("no decrease".into()), got, true));
    }
    failed
}

/// There is no counter of requests, so their outcomes are only held against the record before.
pub(super) fn source_requests(component: &Component) -> Vec<Found> {
    const OUTCOMES: &[&str] =
        &[vmm!("fast_source_cache_hits"), vmm!("fast_source_cache_misses"), vmm!("fast_source_cache_bypasses")];
    let sum = |record: &Record| Facts { values: &record.values }.sum(OUTCOMES);
    let pair = |(before, after): (&Record, &Record)| match (sum(before), sum(after)) {
        (Ok(earlier), Ok(later)) => {
            let expected = text(format!("at least {earlier} ({})", before.file));
            let field = concat!(vmm!("fast_source_cache_hits"), " + misses + bypasses");
            Some(Found::new(field, expected, JsonScalar::Integer(later), later >= earlier).of(&after.file))
        }
        (Err(missing), _) | (_, Err(missing)) if missing.len() < OUTCOMES.len() => {
            Some(Found::unavailable(vmm!("fast_source_cache_hits"), &missing).of(&after.file))
        }
        _ => None,
    };
    neighbours(component).filter_map(pair).collect()
}
