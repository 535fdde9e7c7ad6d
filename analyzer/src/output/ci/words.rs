//! Words that all forms share: "How is a number said to people?"
//!
//! Uses the declared document. Invariants: the unit stands with the number; what is missing is said, never shown as zero.

use crate::analysis::diff::classes::plain;
use ddo_schemas::Ratio;
use ddo_schemas::scalar::JsonScalar;
use ddo_schemas::unit::{Nullable, human_bytes};
use ddo_schemas::verdict::{Answer, ComparedMetric, DiagnosticChange, VerdictDocument};

/// True for an answer that makes a gate fail.
pub(super) fn is_worse(metric: &ComparedMetric) -> bool {
    matches!(metric.verdict.as_str(), "regression" | "new")
}

/// True where nothing could be said.
pub(super) fn is_open(metric: &ComparedMetric) -> bool {
    matches!(metric.verdict.as_str(), "inconclusive" | "missing")
}

/// The middle of a side with its unit.
pub(super) fn side(metric: &ComparedMetric, values: &[JsonScalar]) -> String {
    let numbers: Vec<f64> = values
        .iter()
        .filter_map(|value| match value {
            JsonScalar::Integer(value) => Some(*value as f64),
            JsonScalar::Real(value) => Some(*value),
            _ => None,
        })
        .collect();
    match crate::analysis::diff::statistics::median(&numbers) {
        Some(middle) => amount(middle, &metric.unit),
        None => "unavailable".into(),
    }
}

/// A number with its unit.
pub(super) fn amount(value: f64, unit: &str) -> String {
    match unit {
        "seconds" if value.abs() >= 1.0 => format!("{value:.3} s"),
        "seconds" => format!("{:.3} ms", value * 1e3),
        "bytes" if value >= 0.0 => human_bytes(value as u64),
        _ if value.fract() == 0.0 => format!("{value:.0}"),
        _ => format!("{value:.4}"),
    }
}

/// The change in percent, or a word for why there is none.
pub(super) fn change(metric: &ComparedMetric) -> String {
    match (metric.change_percent.0, metric.verdict.as_str()) {
        (Some(percent), _) => format!("{:+.1} %", percent.0),
        (None, "new") => "new".into(),
        (None, "missing" | "inconclusive") => "unavailable".into(),
        (None, _) => "none".into(),
    }
}

/// The chance, where a test was made.
pub(super) fn chance(metric: &ComparedMetric) -> String {
    metric.p.0.map_or_else(String::new, |p| format!("{:.4}", p.0))
}

/// The answer in one line.
pub(super) fn headline(verdict: &VerdictDocument) -> String {
    let gated = verdict.metrics.iter().filter(|metric| metric.gated);
    let (worse, open) =
        (gated.clone().filter(|metric| is_worse(metric)).count(), gated.clone().filter(|metric| is_open(metric)).count());
    let runs = format!(
        "{} base and {} candidate runs{}",
        verdict.runs.base.len(),
        verdict.runs.candidate.len(),
        if verdict.runs.interleaved { ", interleaved" } else { "" }
    );
    let gated = gated.count();
    match verdict.verdict {
        Answer::NotComparable => format!("not comparable; {runs}"),
        answer => {
            let label = if verdict.comparable { "" } else { " (NOT COMPARABLE, allowed)" };
            format!("{}{label}: {worse} of {gated} gated numbers are worse, {open} cannot be judged; {runs}", answer.name())
        }
    }
}

/// What leads the table of a diagnosis: steps, then windows, then what the scopes say about themselves.
const OF_A_DIAGNOSIS: [&str; 5] = [
    "runtime.execution_timing.diagnostic_step_wait.",
    "runtime.execution_timing.",
    "runtime.native_timeline.",
    "journal.",
    "runtime.allocation_diagnostics.",
];

/// Headline of the table of a diagnosis.
pub(super) const DIAGNOSIS: &str = "what the diagnosis changed (not a benchmark: medians, no verdict)";

/// What a diagnosis changed, the most telling first; numbers of single units and those that did not move are left to the document.
pub(super) fn diagnosed(verdict: &VerdictDocument) -> Vec<&DiagnosticChange> {
    let place = |one: &DiagnosticChange| OF_A_DIAGNOSIS.iter().position(|begin| plain(&one.path).starts_with(begin));
    let moved = |one: &&DiagnosticChange| {
        let both = one.base.0.is_some() && one.candidate.0.is_some();
        let zero = [one.base.0, one.candidate.0].into_iter().flatten().all(|value| value.0 == 0.0);
        !zero && (!both || one.base.0 != one.candidate.0) && place(one).is_some()
    };
    let mut rows: Vec<&DiagnosticChange> = verdict.diagnostic_changes.iter().flatten().filter(moved).collect();
    rows.sort_by(|a, b| place(a).cmp(&place(b)).then_with(|| a.path.cmp(&b.path)));
    rows
}

/// A side of such a change with its unit.
pub(super) fn median_of(value: Nullable<Ratio>, unit: &str) -> String {
    value.0.map_or_else(|| "none".into(), |value| amount(value.0, unit))
}

/// Ungated numbers that changed, the largest change first.
pub(super) fn moved(verdict: &VerdictDocument) -> Vec<&ComparedMetric> {
    let mut moved: Vec<&ComparedMetric> = verdict
        .metrics
        .iter()
        .filter(|metric| !metric.gated && metric.verdict != "same" && metric.verdict != "inconclusive")
        .collect();
    let size = |metric: &ComparedMetric| metric.change_percent.0.map_or(f64::INFINITY, |percent| percent.0.abs());
    moved.sort_by(|a, b| size(b).total_cmp(&size(a)).then_with(|| a.path.cmp(&b.path)));
    moved
}
