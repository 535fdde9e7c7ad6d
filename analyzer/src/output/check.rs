//! `check.json` and the checks for people: "Which numbers do not add up?"
//!
//! Uses `analysis`. Invariants: failures come first; what could not be judged is counted and never called a pass; the names
//! and statements are those of the one table.

use crate::analysis::check::{self, CHECKS, Outcome};
use crate::error::Error;
use crate::limits::{MAX_FINDINGS_PER_CODE, TEXT_COLUMNS};
use crate::run::{shorten, shorten_to};
use ddo_schemas::check::{Check, CheckResult};
use ddo_schemas::unit::Nullable;
use std::fmt::Write as _;
use std::io::Write;

/// The document of the checks that were made of a run.
pub fn document(outcomes: &[Outcome]) -> Check {
    let results: Vec<CheckResult> = outcomes.iter().map(result).collect();
    Check { schema_version: Check::VERSION, ok: results.iter().all(|result| result.ok.0 != Some(false)), checks: results }
}

fn result(outcome: &Outcome) -> CheckResult {
    CheckResult {
        name: outcome.name.to_string(),
        place: shorten_to(&outcome.place, 2 * TEXT_COLUMNS),
        expected: outcome.expected.clone(),
        got: outcome.got.clone(),
        ok: Nullable(outcome.ok),
    }
}

/// Writes the document as indented JSON with a final newline.
///
/// # Errors
/// When it cannot be written.
pub fn write(document: &Check, out: &mut dyn Write) -> Result<(), Error> {
    let text = serde_json::to_string_pretty(document).map_err(|source| Error::Json { what: "the checks", source })?;
    out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).map_err(Error::Output)
}

/// Failures, then counts; with `all` every check with its statement and where it was made.
pub fn text(document: &Check, all: bool) -> String {
    let of = |name: &'static str| document.checks.iter().filter(move |result| result.name == name);
    let mut out = String::new();
    let (mut failed, mut held, mut open) = ((0, 0), (0, 0), 0);
    for row in CHECKS {
        let places = |ok: Option<bool>| of(row.name).filter(move |result| result.ok.0 == ok).count();
        let (wrong, right) = (places(Some(false)), places(Some(true)));
        match (wrong, right) {
            (0, 0) => open += 1,
            (0, right) => held = (held.0 + 1, held.1 + right),
            (wrong, _) => {
                failed = (failed.0 + 1, failed.1 + wrong);
                let _ = writeln!(out, "FAILED  {}: {}", row.name, row.asserts);
                for result in of(row.name).filter(|result| result.ok.0 == Some(false)).take(MAX_FINDINGS_PER_CODE) {
                    let _ = writeln!(out, "        {}", cut(&result.place, 8));
                    let (expected, got) = (check::shown(&result.expected), check::shown(&result.got));
                    let _ = writeln!(out, "          expected  {}", cut(&expected, 20));
                    let _ = writeln!(out, "          got       {}", cut(&got, 20));
                }
            }
        }
    }
    if all {
        list(document, &mut out);
    }
    let many = |count: usize, one: &str, more: &str| format!("{count} {}", if count == 1 { one } else { more });
    let checks = |count: usize, one: &str, more: &str| many(count, &format!("check {one}"), &format!("checks {more}"));
    let places = |count: usize| many(count, "place", "places");
    if failed.0 > 0 {
        let _ = writeln!(out, "{} at {}", checks(failed.0, "fails", "fail"), places(failed.1));
    }
    let _ = writeln!(out, "{} at {}", checks(held.0, "holds", "hold"), places(held.1));
    if open > 0 {
        let hint = if all { "" } else { "; --all lists them" };
        let _ = writeln!(out, "{} not be judged: what they read was not recorded{hint}", checks(open, "could", "could"));
    }
    out
}

/// Every check: holds, fails, or could not be judged, and in how many places.
fn list(document: &Check, out: &mut String) {
    for row in CHECKS {
        let results: Vec<&CheckResult> = document.checks.iter().filter(|result| result.name == row.name).collect();
        let count = |ok: Option<bool>| results.iter().filter(|result| result.ok.0 == ok).count();
        let word = match (count(Some(false)), count(Some(true))) {
            (0, 0) => "open",
            (0, _) => "holds",
            _ => "FAILED",
        };
        let _ = writeln!(out, "{word:<7} {}\n        {}", row.name, cut(row.asserts, 8));
        for result in results {
            let sign = result.ok.0.map_or("?", |ok| if ok { "+" } else { "!" });
            let _ = writeln!(out, "          {sign} {}", cut(&result.place, 12));
        }
    }
    out.push('\n');
}

/// Cuts to what is left of a line behind an indent.
fn cut(text: &str, indent: usize) -> String {
    shorten_to(&shorten(text), TEXT_COLUMNS - indent)
}
