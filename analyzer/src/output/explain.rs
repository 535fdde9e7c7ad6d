//! The catalogue for people and machines: "What is this number?"
//!
//! Uses the catalogue only. Invariant: every row comes from its declaration; nothing is explained twice.

use crate::error::Error;
use crate::limits::SUGGESTIONS;
use ddo_schemas::catalogue::{self, Row, TABLES};
use ddo_schemas::{scope, words};
use serde_json::{Value, json};
use std::fmt::Write;

/// Rows for a full path, or for the last part of one.
///
/// # Errors
/// When no row has that name; with the nearest names.
pub fn look_up(name: &str) -> Result<Vec<&'static Row>, Error> {
    let mut rows = catalogue::find_by_suffix(name);
    if rows.is_empty() || name.contains('.') {
        rows = catalogue::find(name).into_iter().collect();
    }
    if rows.is_empty() {
        rows = catalogue::find_by_suffix(name);
    }
    if rows.is_empty() {
        return Err(Error::UnknownField { name: crate::run::shorten(name), closest: closest(name) });
    }
    Ok(rows)
}

/// Rows as text.
pub fn text(rows: &[&Row]) -> String {
    let mut out = String::new();
    for (at, row) in rows.iter().enumerate() {
        let field = row.field;
        let gap = if at == 0 { "" } else { "\n" };
        let may = if field.required { "" } else { ", may be absent" };
        let kind = format!("{:?}, lifetime {:?}", field.kind, field.lifetime).to_lowercase();
        // Writing to a string cannot fail.
        let _ = write!(
            out,
            "{gap}{}\n  unit        {}\n  kind        {kind}{may}\n  collected   {}\n  meaning     {}\n  what to do  {}\n",
            row.path, field.unit, field.boundary, field.meaning, field.action
        );
        let rules = words::rules(field).join("; ");
        let more = [("rules", Some(rules).filter(|rules| !rules.is_empty())), ("nesting", words::nesting(&row.path))];
        for (label, text) in more {
            let _ = text.map_or(Ok(()), |text| writeln!(out, "  {label:<11} {text}"));
        }
    }
    out
}

/// Rows as JSON.
pub fn json(rows: &[&Row]) -> Value {
    let row = |row: &&Row| {
        let field = row.field;
        json!({
            "path": row.path, "unit": field.unit.name(), "kind": field.kind, "lifetime": field.lifetime,
            "boundary": field.boundary, "meaning": field.meaning, "action": field.action, "required": field.required,
            "gate": field.gate, "deterministic": field.deterministic, "meaningful_if": field.meaningful_if, "rate": field.rate,
            "nesting": nesting(&row.path),
        })
    };
    Value::Array(rows.iter().map(row).collect())
}

/// The scopes around and inside the time that a path holds, as JSON; null where it holds none.
fn nesting(path: &str) -> Value {
    let Some(scope) = scope::of_seconds(path) else { return Value::Null };
    let relation = |name: &str, inside: &scope::Inside| json!({"scope": name, "nature": inside.nature, "route": inside.route});
    let around: Vec<Value> = scope.inside.iter().map(|inside| relation(inside.parent, inside)).collect();
    let within: Vec<Value> = scope::children(scope.name).map(|(child, inside)| relation(child.name, inside)).collect();
    json!({"scope": scope.name, "calls": scope.calls, "inside": around, "contains": within})
}

/// Every row.
pub fn all() -> Vec<&'static Row> {
    catalogue::rows().iter().collect()
}

/// Every row as a list by table.
pub fn all_text() -> String {
    let mut out = String::new();
    for table in TABLES {
        let _ = writeln!(out, "{}", table.title);
        for field in table.fields {
            let _ = writeln!(out, "  {} [{}]\n      {}", field.path, field.unit, field.meaning);
        }
    }
    out
}

/// The names nearest to `name`: by the last part of each path.
fn closest(name: &str) -> Vec<String> {
    let wanted = last_part(name);
    let mut scored: Vec<(usize, &str)> = catalogue::rows()
        .iter()
        .map(|row| (distance(wanted, last_part(&row.path)), row.path.as_str()))
        .filter(|(score, path)| *score <= wanted.len() / 2 || last_part(path).contains(wanted))
        .collect();
    scored.sort_unstable();
    scored.into_iter().take(SUGGESTIONS).map(|(_, path)| path.to_string()).collect()
}

fn last_part(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// Edits between two words (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut next = vec![i + 1];
        for ((y, above_left), above) in b.iter().zip(&row).zip(row.iter().skip(1)) {
            let left = next.last().copied().unwrap_or(i + 1);
            next.push((above_left + usize::from(x != *y)).min(above + 1).min(left + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or(b.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_and_nesting_reach_people_and_machines() {
        let rows = look_up("fast_source_cache_batch_reap_seconds").expect("known");
        let people = text(&rows);
        assert!(people.contains("  nesting     inside, partly outside `fast_source_cache_batch_submit`"), "{people}");
        let machines = json(&rows);
        assert_eq!(machines[0]["nesting"]["inside"][0]["nature"], "partly_outside");
        assert_eq!(machines[0]["nesting"]["contains"][0]["scope"], "fast_source_cache_close_total");
        let rows = look_up("fast_dma_enqueue_bytes").expect("known");
        assert!(text(&rows).contains("  rules       divided by `fast_dma_enqueue_seconds`"), "{}", text(&rows));
        let machines = json(&rows);
        assert_eq!(machines[0]["rate"], json!({"seconds": "fast_dma_enqueue_seconds", "scope": "enqueue"}));
        assert_eq!((&machines[0]["gate"], &machines[0]["nesting"]), (&json!("unrated"), &Value::Null));
    }

    #[test]
    fn short_names_full_paths_and_typing_errors() {
        assert_eq!(look_up("runtime.vmm.fast_faults").expect("known").len(), 1);
        assert_eq!(look_up("fast_faults").expect("known").len(), 1);
        assert!(look_up("schema_version").expect("known").len() > 1);
        let error = look_up("fast_fautls").expect_err("unknown").to_string();
        assert!(error.contains("fast_faults"), "{error}");
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
