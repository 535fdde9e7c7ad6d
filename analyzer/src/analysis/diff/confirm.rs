//! A second batch of runs: "Was it an accident?"
//!
//! Uses the comparison. Invariants: only numbers that chance can move are tested again, on the new runs alone; what does not show
//! again is no regression; a broken rule needs no second look.

use super::{Comparison, DiffOptions, Difference, Side, Verdict, Word, compare, conclude, differences};
use std::collections::BTreeSet;

/// The regressions that a second batch can clear; empty where there are none.
pub fn to_confirm(comparison: &Comparison) -> BTreeSet<String> {
    let failed = |metric: &&super::Metric| metric.gated && metric.verdict.is_worse() && metric.is_chance();
    comparison.metrics.iter().filter(failed).map(|metric| metric.path.clone()).collect()
}

/// Tests the regressions of a comparison of `first` again, on a fresh batch alone.
pub fn confirm(
    mut comparison: Comparison,
    first: (&[Side], &[Side]),
    fresh: (&[Side], &[Side]),
    options: &DiffOptions,
) -> Comparison {
    let failed = to_confirm(&comparison);
    if failed.is_empty() {
        return comparison;
    }
    let other = unlike(first, fresh, options);
    let refused: Vec<String> =
        other.iter().filter(|one| !one.allowed).map(|one| format!("second batch: {}: {}", one.field, one.text)).collect();
    if !refused.is_empty() {
        comparison.differences.extend(other);
        (comparison.verdict, comparison.comparable, comparison.reasons) = (Verdict::NotComparable, false, refused);
        return comparison;
    }
    let again = compare(fresh.0, fresh.1, &DiffOptions { only: Some(failed.clone()), ..options.clone() });
    let mut shown_again = false;
    for metric in comparison.metrics.iter_mut().filter(|metric| failed.contains(&metric.path)) {
        let Some(second) = again.metrics.iter().find(|second| second.path == metric.path) else { continue };
        let percent = second.change_percent.map_or_else(|| "no percentage".into(), |percent| format!("{percent:+.1} %"));
        (metric.verdict, metric.reason) = match second.verdict {
            word if word.is_worse() => {
                shown_again = true;
                (word, format!("confirmed by a second batch: {percent}"))
            }
            Word::Inconclusive | Word::Missing => {
                (Word::Inconclusive, format!("the second batch cannot say: {percent}; {}", second.reason))
            }
            _ => (Word::Same, format!("not confirmed by a second batch: {percent}")),
        };
    }
    comparison.confirmed = Some(shown_again);
    comparison.metrics.sort_by(super::order);
    conclude(&mut comparison, false);
    comparison
}

/// Why a second batch is no second batch: it differs from the first, or repeats its runs.
fn unlike(first: (&[Side], &[Side]), fresh: (&[Side], &[Side]), options: &DiffOptions) -> Vec<Difference> {
    let reference = first.0.get(..1).unwrap_or_default();
    let all: Vec<Side> = fresh.0.iter().chain(fresh.1).cloned().collect();
    let mut found = differences(reference, &all, &options.allow);
    let old = |side: &&Side| first.0.iter().chain(first.1).any(|old| old.started == side.started && old.figures == side.figures);
    if let Some(side) = all.iter().find(old) {
        let text = format!("{} is a run of the first batch; record new ones", side.name);
        found.push(Difference { field: "confirm".into(), text, allowed: false });
    }
    found
}
