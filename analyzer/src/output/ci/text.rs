//! One screen for people: "Is it worse, and where?"
//!
//! Uses the declared document. Invariants: at most the columns of a printed page; the answer is the first line.

use super::words::{DIAGNOSIS, chance, change, diagnosed, headline, is_open, is_worse, median_of, side};
use crate::limits::{MAX_SHOWN_CHANGES, MAX_SHOWN_REASONS, TEXT_COLUMNS};
use crate::run::shorten_to;
use ddo_schemas::verdict::{ComparedMetric, VerdictDocument};
use std::fmt::Write;

/// Columns of a metric's name.
const NAME_COLUMNS: usize = 50;

/// The verdict as text.
pub fn text(verdict: &VerdictDocument) -> String {
    let mut out = format!("{}\n", shorten_to(&headline(verdict), TEXT_COLUMNS + 40));
    for reason in verdict.reasons.iter().take(MAX_SHOWN_REASONS) {
        let _ = writeln!(out, "  {}", shorten_to(reason, 2 * TEXT_COLUMNS));
    }
    let more = verdict.reasons.len().saturating_sub(MAX_SHOWN_REASONS);
    if more > 0 {
        let _ = writeln!(out, "  and {more} more; --json has all");
    }
    for left_out in &verdict.runs.left_out {
        let _ = writeln!(out, "  left out: {}", shorten_to(left_out, 2 * TEXT_COLUMNS));
    }
    diagnosis(&mut out, verdict);
    let telling = |metric: &&ComparedMetric| {
        metric.gated && (is_worse(metric) || is_open(metric) || matches!(metric.class.as_str(), "time" | "gauge"))
    };
    let rows: Vec<&ComparedMetric> = verdict.metrics.iter().filter(telling).collect();
    if !rows.is_empty() {
        let _ = writeln!(
            out,
            "\n{:<NAME_COLUMNS$} {:>12} {:>12} {:>9}  verdict",
            "gated times and sizes", "base", "candidate", "change"
        );
    }
    for metric in rows {
        let p = chance(metric);
        let p = if p.is_empty() { p } else { format!(" (p {p})") };
        let _ = writeln!(
            out,
            "{:<NAME_COLUMNS$} {:>12} {:>12} {:>9}  {}{p}",
            ending(&metric.path),
            side(metric, &metric.base),
            side(metric, &metric.candidate),
            change(metric),
            metric.verdict
        );
    }
    out
}

/// What a diagnosis changed between two sides that differ in nothing else.
fn diagnosis(out: &mut String, verdict: &VerdictDocument) {
    let rows = diagnosed(verdict);
    if rows.is_empty() {
        return;
    }
    let _ = writeln!(out, "\n{DIAGNOSIS}\n{:<NAME_COLUMNS$} {:>12} {:>12} {:>9}", "", "base", "candidate", "change");
    for one in rows.iter().take(MAX_SHOWN_CHANGES) {
        let percent = one.change_percent.0.map_or_else(|| "none".into(), |percent| format!("{:+.1} %", percent.0));
        let (base, candidate) = (median_of(one.base, &one.unit), median_of(one.candidate, &one.unit));
        let _ = writeln!(out, "{:<NAME_COLUMNS$} {base:>12} {candidate:>12} {percent:>9}", ending(&one.path));
    }
    let more = rows.len().saturating_sub(MAX_SHOWN_CHANGES);
    if more > 0 {
        let _ = writeln!(out, "and {more} more; --json has all");
    }
}

/// The end of a path says most.
fn ending(path: &str) -> String {
    let count = path.chars().count();
    if count <= NAME_COLUMNS {
        return shorten_to(path, NAME_COLUMNS);
    }
    let kept: String = path.chars().skip(count - (NAME_COLUMNS - 3)).collect();
    format!("...{}", shorten_to(kept.trim_start_matches('.'), NAME_COLUMNS))
}
