//! The reconciliation for people: "Where does the host time of uploads go, and what is unexplained?"
//!
//! Uses `analysis`. Invariants: the headline comes first; what contains what is shown by indentation, so that nobody adds a
//! scope to the one around it; what is left over is called unexplained and gets no cause.

use super::text::seconds;
use crate::analysis::reconcile::{BROAD, Reconciled, Row};
use crate::error::Error;
use crate::limits::{BAR_COLUMNS, TEXT_COLUMNS};
use crate::run::shorten_to;
use ddo_schemas::catalogue;
use ddo_schemas::reconciliation::{Headline, Reconciliation, ScopeVerdict};
use ddo_schemas::scope::Nature;
use std::fmt::Write as _;
use std::io::Write;

/// Columns of an indented name.
const NAME: usize = 45;

/// Beginnings that the tree leaves out of its names, longest first.
const LEFT_OUT: [&str; 3] = ["fast_native_transport_", "fast_source_cache_", "fast_"];

/// Writes the document as indented JSON with a final newline.
///
/// # Errors
/// When it cannot be written.
pub fn write(document: &Reconciliation, out: &mut dyn Write) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(document).map_err(|source| Error::Json { what: "the reconciliation", source })?;
    out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).map_err(Error::Output)
}

/// One screen: the headline, the tree, what differs.
pub fn text(reconciled: &Reconciled) -> String {
    let document = &reconciled.document;
    let mut out = String::new();
    let component = document.component.0.as_deref().unwrap_or("component");
    item(&mut out, "scopes", &format!("host time of {component}: {}", document.interval));
    if shown(reconciled).next().is_none() {
        item(&mut out, "unavailable", "none of the scopes is recorded here; an absent scope is not one of no time");
        return out;
    }
    for (label, words) in headline(reconciled) {
        item(&mut out, label, &words);
    }
    out.push('\n');
    let _ = writeln!(out, "{:<NAME$} {:>11} {:>7} {:>11}  share of its parent", "scope", "total", "calls", "a call");
    for row in shown(reconciled) {
        line(&mut out, row);
    }
    let hidden = reconciled.rows.iter().filter(|row| row.scope.total_seconds.0.is_none()).count();
    out.push('\n');
    item(&mut out, "names", "without fast_, native_transport_ and source_cache_ at their beginning");
    if hidden > 0 {
        item(&mut out, "unavailable", &format!("{hidden} scopes are not recorded on this route; --json names them"));
    }
    for note in notes(reconciled) {
        item(&mut out, "note", &note);
    }
    out
}

/// The same as Markdown.
pub fn markdown(reconciled: &Reconciled) -> String {
    let document = &reconciled.document;
    let component = document.component.0.as_deref().unwrap_or("component");
    let mut out = format!("## Host time of {component}\n\n{}\n\n", escaped(&document.interval));
    for (label, words) in headline(reconciled) {
        let _ = writeln!(out, "- **{label}**: {}", escaped(&words));
    }
    out.push_str(
        "\n| scope | total | calls | a call | of the scope around it | left over | verdict |\n|---|--:|--:|--:|--:|--:|---|\n",
    );
    for row in shown(reconciled) {
        let indent = "&nbsp;&nbsp;".repeat(row.depth);
        let residual = row.scope.residual_seconds.0.map_or_else(String::new, |left| seconds(left.0));
        let _ = writeln!(
            out,
            "| {indent}`{}` | {} | {} | {} | {} | {residual} | {} |",
            row.scope.scope,
            row.scope.total_seconds.0.map_or_else(String::new, |total| seconds(total.0)),
            row.scope.calls.0.map_or_else(String::new, |calls| calls.to_string()),
            row.seconds_per_call.map_or_else(String::new, seconds),
            row.scope.share_of_parent.0.map_or_else(String::new, |share| percent(share.0)),
            verdict(row),
        );
    }
    out.push('\n');
    for note in notes(reconciled) {
        let _ = writeln!(out, "- {}", escaped(&note));
    }
    out
}

/// Recorded scopes; those that are not subtracted and have no time say nothing on this route.
fn shown(reconciled: &Reconciled) -> impl Iterator<Item = &Row> {
    let says = |row: &&Row| row.scope.total_seconds.0.is_some_and(|total| row.counted || row.nature.is_none() || total.0 > 0.0);
    reconciled.rows.iter().filter(says)
}

fn item(out: &mut String, label: &str, words: &str) {
    let mut line = format!("{label:<13}");
    let mut fresh = true;
    for word in words.split(' ') {
        if !fresh && line.chars().count() + 1 + word.chars().count() > TEXT_COLUMNS {
            let _ = writeln!(out, "{line}");
            line = " ".repeat(13);
            fresh = true;
        }
        if !fresh {
            line.push(' ');
        }
        line.push_str(&shorten_to(word, TEXT_COLUMNS - 13));
        fresh = false;
    }
    let _ = writeln!(out, "{line}");
}

/// What to read first, as label and words.
fn headline(reconciled: &Reconciled) -> Vec<(&'static str, String)> {
    let mut lines = Vec::new();
    match &reconciled.document.headline.0 {
        Some(found) => lines.extend(longest(reconciled, found)),
        None => lines.push(("longest", format!("unknown: no scope of {BROAD} has any time"))),
    }
    if let Some((row, left)) = reconciled.unexplained() {
        let total = row.scope.total_seconds.0.map(|total| total.0).filter(|total| *total > 0.0);
        let share = total.map_or_else(String::new, |total| format!(" ({} of it)", percent(left / total)));
        let word =
            if row.scope.verdict == ScopeVerdict::ResidualDominates { "most of its time" } else { "the largest remainder" };
        let words = format!("{} of {}{share}: {word}, and no recorded scope says what it is", seconds(left), row.scope.scope);
        lines.push(("unexplained", words));
    }
    lines
}

fn longest(reconciled: &Reconciled, found: &Headline) -> Vec<(&'static str, String)> {
    let share = found.share.0.map_or_else(String::new, |share| format!(", {} of {BROAD}", percent(share.0)));
    let row = reconciled.row(&found.scope);
    let outside = row.is_some_and(|row| row.nature == Some(Nature::PartlyOutside));
    let outside = if outside { " (it also runs outside of it)" } else { "" };
    let mut lines = vec![("longest", format!("{} takes {}{share}{outside}", found.scope, seconds(found.seconds.0)))];
    if let Some(next) = &found.next_field.0 {
        let last = next.rsplit('.').next().unwrap_or(next);
        let each = row.and_then(|row| row.scope.calls.0.zip(row.seconds_per_call));
        let each = each.map_or_else(String::new, |(calls, mean)| format!(": {calls}, {} each", seconds(mean)));
        let action = catalogue::find(next).map_or_else(String::new, |row| format!(". {}", row.field.action));
        lines.push(("look next at", format!("{last}{each}{action}")));
    }
    lines
}

fn line(out: &mut String, row: &Row) {
    let name = LEFT_OUT.iter().find_map(|start| row.scope.scope.strip_prefix(start)).unwrap_or(&row.scope.scope);
    let shown = if row.nature.is_some() && !row.counted { format!("({name})") } else { name.to_string() };
    let name = shorten_to(&format!("{}{shown}", "  ".repeat(row.depth)), NAME);
    let total = row.scope.total_seconds.0.map_or_else(|| "-".into(), |total| seconds(total.0));
    let calls = row.scope.calls.0.map_or_else(|| "-".into(), |calls| calls.to_string());
    let mean = row.seconds_per_call.map_or_else(|| "-".into(), seconds);
    let share = row.scope.share_of_parent.0.map_or_else(String::new, |share| format!("{} {}", bar(share.0), percent(share.0)));
    let _ = writeln!(out, "{}", format!("{name:<NAME$} {total:>11} {calls:>7} {mean:>11}  {share}").trim_end());
    for words in remainder(row) {
        let indent = "  ".repeat(row.depth + 1);
        let _ = writeln!(out, "{}", shorten_to(&format!("{indent}= {words}"), TEXT_COLUMNS));
    }
}

/// What is left of a scope, under its name.
fn remainder(row: &Row) -> Vec<String> {
    let left = row.scope.residual_seconds.0.map(|left| left.0);
    let share = |left: f64| {
        row.scope
            .total_seconds
            .0
            .filter(|total| total.0 > 0.0)
            .map_or_else(String::new, |total| format!(" ({})", percent(left / total.0)))
    };
    let least = if row.at_least { "at least " } else { "" };
    let levels = if row.spans_levels {
        format!("; levels between are not recorded: {}", row.scope.unavailable.len())
    } else {
        String::new()
    };
    match (row.scope.verdict, left) {
        (ScopeVerdict::ChildUnavailable, _) => {
            vec![format!("remainder unknown: {} not recorded", row.scope.unavailable.join(", "))]
        }
        (ScopeVerdict::ChildPartlyOutside, _) => {
            vec![format!("its parts take {}: some of them also run elsewhere, no defect", seconds(row.inside_seconds))]
        }
        (ScopeVerdict::ChildExceedsParent, _) => {
            vec![format!("DEFECT: its parts take {}; mixed intervals or failed calls", seconds(row.inside_seconds))]
        }
        (ScopeVerdict::ResidualDominates, Some(left)) => {
            vec![format!("{least}{}{} UNEXPLAINED, more than its parts{levels}", seconds(left), share(left))]
        }
        (ScopeVerdict::Reconciles, Some(left)) if row.inside_seconds > 0.0 || left > 0.0 => {
            vec![format!("{least}{}{} unexplained{levels}", seconds(left), share(left))]
        }
        _ => Vec::new(),
    }
}

fn verdict(row: &Row) -> String {
    let words = row.scope.verdict.name().replace('_', " ");
    match (row.counted || row.nature.is_none(), row.spans_levels) {
        (false, _) => format!("{words}; shown, not subtracted"),
        (true, true) => format!("{words}; across levels that are not recorded"),
        (true, false) => words,
    }
}

/// What a reader must know to read the tree right.
fn notes(reconciled: &Reconciled) -> Vec<String> {
    let mut notes = reconciled.document.notes.clone();
    let rows = || shown(reconciled).filter(|row| row.scope.total_seconds.0.is_some_and(|total| total.0 > 0.0));
    if rows().any(|row| row.nature.is_some() && !row.counted) {
        notes.push("a scope in brackets is shown and not subtracted: its time is also that of scopes beside it".into());
    }
    if rows().any(|row| row.nature == Some(Nature::PartlyOutside)) {
        notes.push("a remainder of at least so much: a part also runs in collection, preparation or cleanup".into());
    }
    if rows().any(|row| row.scope.scope == "fast_source_cache_source_ready") {
        let words = "source_ready is the upload's wait for a source; reading in the background runs beside it and is in no scope";
        notes.push(words.into());
    }
    notes
}

fn bar(share: f64) -> String {
    let full = (share.clamp(0.0, 1.0) * BAR_COLUMNS as f64).round() as usize;
    format!("{:<BAR_COLUMNS$}", "#".repeat(full))
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// Names of files may hold what Markdown takes for markup.
fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        if matches!(c, '|' | '<' | '>' | '*' | '`' | '[' | ']' | '\\') {
            out.push('\\');
        }
        out.push(if c.is_control() { ' ' } else { c });
    }
    out
}
