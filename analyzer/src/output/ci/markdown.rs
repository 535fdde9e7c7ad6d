//! Markdown for a job summary: "What does a person see first?"
//!
//! Uses the declared document. Invariants: worse numbers lead; a cell cannot end its row or its table; nothing of an input becomes
//! markup.

use super::words::{DIAGNOSIS, chance, change, diagnosed, headline, is_open, is_worse, median_of, moved, side};
use crate::limits::{MAX_SHOWN_CHANGES, MAX_SHOWN_REASONS};
use ddo_schemas::verdict::{ComparedMetric, VerdictDocument};
use std::fmt::Write;

/// The verdict as Markdown.
pub fn markdown(verdict: &VerdictDocument) -> String {
    let mut out = format!("# Comparison: {}\n\n{}.\n", verdict.verdict.name().replace('_', " "), headline(verdict));
    if !verdict.comparable {
        out.push_str("\nThe two sides are not one experiment:\n\n");
        for one in &verdict.differences {
            let waived = if one.allowed { " (allowed)" } else { "" };
            let _ = writeln!(out, "- {}: {}{waived}", code(&one.field), plain(&one.text));
        }
    } else if !verdict.reasons.is_empty() {
        out.push('\n');
        for reason in verdict.reasons.iter().take(MAX_SHOWN_REASONS) {
            let _ = writeln!(out, "- {}", plain(reason));
        }
        let more = verdict.reasons.len().saturating_sub(MAX_SHOWN_REASONS);
        if more > 0 {
            let _ = writeln!(out, "- and {more} more, in `verdict.json`");
        }
    }
    for left_out in &verdict.runs.left_out {
        let _ = writeln!(out, "- left out: {}", plain(left_out));
    }
    let changes = diagnosed(verdict);
    if !changes.is_empty() {
        let _ = write!(out, "\n## {DIAGNOSIS}\n\n| metric | base | candidate | change |\n|---|---:|---:|---:|\n");
    }
    for one in changes.iter().take(MAX_SHOWN_CHANGES) {
        let percent = one.change_percent.0.map_or_else(|| "none".into(), |percent| format!("{:+.1} %", percent.0));
        let (base, candidate) = (median_of(one.base, &one.unit), median_of(one.candidate, &one.unit));
        let _ = writeln!(out, "| {} | {base} | {candidate} | {percent} |", code(&one.path));
    }
    let gated: Vec<&ComparedMetric> = verdict.metrics.iter().filter(|metric| metric.gated).collect();
    let telling = |metric: &&&ComparedMetric| {
        is_worse(metric) || is_open(metric) || metric.verdict == "improved" || matches!(metric.class.as_str(), "time" | "gauge")
    };
    table(&mut out, "Gated numbers", gated.iter().filter(telling).copied());
    let quiet = gated.iter().filter(|metric| !telling(metric)).count();
    if quiet > 0 {
        let _ = writeln!(out, "\n{quiet} more gated counts and sizes are within their rules.");
    }
    let moved = moved(verdict);
    table(&mut out, "Changed, not gated", moved.iter().take(MAX_SHOWN_CHANGES).copied());
    let more = moved.len().saturating_sub(MAX_SHOWN_CHANGES);
    if more > 0 {
        let _ = writeln!(out, "\n{more} more changed numbers are in `verdict.json`.");
    }
    out
}

fn table<'a>(out: &mut String, title: &str, metrics: impl Iterator<Item = &'a ComparedMetric>) {
    let mut rows = metrics.peekable();
    if rows.peek().is_none() {
        return;
    }
    let _ = write!(out, "\n## {title}\n\n| metric | base | candidate | change | p | verdict |\n|---|---:|---:|---:|---:|---|\n");
    for metric in rows {
        let owner = metric.owner.0.as_ref().map_or_else(String::new, |owner| format!(" ({})", plain(owner)));
        let word = if is_worse(metric) && metric.gated { format!("**{}**", metric.verdict) } else { metric.verdict.clone() };
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {word}{owner} |",
            code(&metric.path),
            side(metric, &metric.base),
            side(metric, &metric.candidate),
            change(metric),
            chance(metric)
        );
    }
}

/// A name as code: no backtick ends it, no bar ends its cell.
fn code(text: &str) -> String {
    let safe: String = crate::run::shorten(text).replace('`', "'").replace('|', "\\|");
    format!("`{safe}`")
}

/// Text in which nothing is markup.
fn plain(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in crate::run::shorten_to(text, 4 * crate::limits::MAX_SHOWN_CHARS).chars() {
        match c {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '`' => out.push('\''),
            '\\' | '|' | '*' | '_' | '[' | ']' | '!' | '#' | '~' => out.extend(['\\', c]),
            c => out.push(c),
        }
    }
    out
}
