//! The catalogue for people and machines: "What is this number?"
//!
//! Uses the catalogue only. Invariant: every row comes from its declaration; nothing is explained twice.

use crate::error::Error;
use crate::limits::SUGGESTIONS;
use ddo_schemas::catalogue::{self, Row, TABLES};
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
        })
    };
    Value::Array(rows.iter().map(row).collect())
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
    fn short_names_full_paths_and_typing_errors() {
        assert_eq!(look_up("runtime.vmm.fast_faults").expect("known").len(), 1);
        assert_eq!(look_up("fast_faults").expect("known").len(), 1);
        assert!(look_up("schema_version").expect("known").len() > 1);
        let error = look_up("fast_fautls").expect_err("unknown").to_string();
        assert!(error.contains("fast_faults"), "{error}");
        assert_eq!(distance("kitten", "sitting"), 3);
    }
}
