//! Broken input on purpose: "Does any sequence of bytes stop the analyzer, or make it say what is no JSON?"
//!
//! May use every room; nothing of the product uses it. Invariants: touches no file; an answer is the same each time.

use crate::analysis::{self, delta, reconcile};
use crate::output::perfetto::{self, Align, TraceOptions};
use crate::output::{check, memory_table, operators, profile, summary, text};
use crate::run::Run;
use crate::{error::Error, ingest, output};
use std::collections::BTreeMap;

/// Most rows that a fuzzed input may have for its tables to be written.
const MAX_ROWS: usize = 20_000;

/// Rows of a top table.
const TOP: usize = 5;

/// Reads contents under these names and writes every result to memory.
///
/// # Errors
/// Where a result is no valid JSON, or a second reading of the same bytes gives another result.
pub fn documents(contents: &[(&str, &[u8])]) -> Result<(), String> {
    let first = results(contents)?;
    let second = results(contents)?;
    let differing = first.iter().find(|(name, bytes)| second.get(*name) != Some(bytes));
    match differing {
        Some((name, _)) => Err(format!("{name} differs between two readings of the same bytes")),
        None if first.len() != second.len() => Err("only one of two readings of the same bytes has results".into()),
        None => Ok(()),
    }
}

fn results(contents: &[(&str, &[u8])]) -> Result<BTreeMap<&'static str, Vec<u8>>, String> {
    let run = match ingest::load_held(contents) {
        Ok(run) => run,
        Err(error) => return Ok(BTreeMap::from([("error", error.to_string().into_bytes())])),
    };
    written(&run).map_err(|error| error.to_string())?.into_iter().map(|(name, bytes)| checked(name, bytes)).collect()
}

/// JSON must be JSON again: a number that is not finite would not be.
fn checked(name: &'static str, bytes: Vec<u8>) -> Result<(&'static str, Vec<u8>), String> {
    if name.ends_with(".json")
        && let Err(error) = serde_json::from_slice::<serde_json::Value>(&bytes)
    {
        return Err(format!("{name} is no JSON: {error}"));
    }
    Ok((name, bytes))
}

fn json(value: &serde_json::Value, out: &mut Vec<u8>) -> Result<(), Error> {
    out.extend(value.to_string().into_bytes());
    Ok(())
}

fn written(run: &Run) -> Result<BTreeMap<&'static str, Vec<u8>>, Error> {
    let judged = analysis::judge(run);
    let mut results = BTreeMap::new();
    let mut put = |name: &'static str, fill: &dyn Fn(&mut Vec<u8>) -> Result<(), Error>| {
        let mut bytes = Vec::new();
        fill(&mut bytes)?;
        results.insert(name, bytes);
        Ok::<(), Error>(())
    };
    put("screen", &|out| {
        out.extend(text::screen(run, &judged.findings, None).into_bytes());
        Ok(())
    })?;
    put("profile", &|out| {
        out.extend(profile::of(run).into_bytes());
        Ok(())
    })?;
    put("findings", &|out| {
        out.extend(judged.findings.iter().flat_map(|finding| finding.to_string().into_bytes()));
        Ok(())
    })?;
    put("summary.json", &|out| summary::write(&summary::of(run, judged.findings.clone(), BTreeMap::new()), out))?;
    for (name, align) in [("trace", Align::Recorded), ("trace, aligned", Align::Steps)] {
        put(name, &|out| {
            perfetto::write_noticed(run, &judged.noticed, &TraceOptions { annotate: true, align }, out).map(|_| ())
        })?;
    }
    put("check.json", &|out| check::write(&check::document(&judged.checks), out))?;
    put("memory.json", &|out| json(&memory_table::json(run), out))?;
    put("operators.json", &|out| json(&operators::json(run, TOP), out))?;
    put("tables", &|out| {
        out.extend(memory_table::text(run).into_bytes());
        out.extend(operators::tables(run, TOP, operators::Form::Text).into_bytes());
        Ok(())
    })?;
    for component in run.all().flat_map(|run| &run.components) {
        if let Ok(choice) = reconcile::choose(component, None) {
            let reconciled = reconcile::of(&component.name, &choice);
            put("reconciliation.json", &|out| output::reconcile::write(&reconciled.document, out))?;
            put("reconciliation.md", &|out| {
                out.extend(output::reconcile::markdown(&reconciled).into_bytes());
                Ok(())
            })?;
        }
    }
    let pairs = delta::pairs(run);
    if pairs.iter().map(delta::Pair::len).sum::<usize>() <= MAX_ROWS {
        put("deltas.json", &|out| output::delta::json(&pairs, out))?;
        put("deltas.csv", &|out| output::delta::csv(&pairs, out))?;
        put("deltas.md", &|out| {
            out.extend(output::delta::markdown(run, &pairs, output::delta::Detail::All).into_bytes());
            Ok(())
        })?;
    }
    Ok(results)
}
