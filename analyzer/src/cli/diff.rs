//! `ddo-analyze diff`: "Did the change make it slower, bigger or less safe?"
//!
//! Uses `ingest`, `analysis::diff` and `output::ci`. Invariants: a run is read, reduced to its numbers and dropped; a run that
//! cannot be used is named, and left out only where that was allowed.

mod sides;

use super::print;
use crate::analysis::diff::{self, DiffOptions, Gates};
use crate::error::Error;
use crate::limits::MAX_GATES_BYTES;
use crate::output::ci;
use crate::output::files::Folder;
use clap::Args;
use sides::{Loader, batch};
use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// File that a calibration is written to.
const CALIBRATION_FILE: &str = "calibration.toml";

#[derive(Debug, Args)]
#[command(
    override_usage = "ddo-analyze diff [OPTIONS] BASE... -- CANDIDATE...\n       ddo-analyze diff --calibrate DIR... [--out DIR]"
)]
#[command(
    after_help = "Exit codes: 0 same or improved, 1 regression, 2 usage or unreadable input, 3 not comparable, 4 inconclusive \
    with --strict.\nRecord runs with: ddo-record --repeat 5 --out DIR --interleave 'BASE COMMAND' -- CANDIDATE COMMAND"
)]
pub(super) struct Diff {
    /// Runs before the change: folders of ddo-record, or folders that hold such folders.
    #[arg(value_name = "BASE", required_unless_present = "calibrate")]
    base: Vec<PathBuf>,
    /// Runs with the change.
    #[arg(value_name = "CANDIDATE", last = true)]
    candidate: Vec<PathBuf>,
    /// Gates file (TOML): metrics, rules, thresholds, owners, measured noise.
    #[arg(long, value_name = "FILE")]
    gates: Option<PathBuf>,
    /// Compare although this field differs; every output then says that the runs are not comparable. Repeatable.
    #[arg(long, value_name = "FIELD")]
    allow: Vec<String>,
    /// Leave out runs that failed or cannot be read, by name, instead of refusing.
    #[arg(long)]
    allow_missing_runs: bool,
    /// Measure the noise of equal runs and use it as threshold; alone, print it as part of a gates file. Repeatable.
    #[arg(long, value_name = "DIR")]
    calibrate: Vec<PathBuf>,
    /// A second batch of runs, DIR/base-* and DIR/candidate-*: only what is worse there, too, stays a regression.
    #[arg(long, value_name = "DIR")]
    confirm: Option<PathBuf>,
    /// Exit with 4 when the answer is inconclusive.
    #[arg(long)]
    strict: bool,
    /// Print JSON alone.
    #[arg(long, conflicts_with_all = ["markdown", "annotations"])]
    json: bool,
    /// Print Markdown, for a job summary.
    #[arg(long, conflicts_with = "annotations")]
    markdown: bool,
    /// Print workflow annotations.
    #[arg(long)]
    annotations: bool,
    /// Also write verdict.json, verdict.md, verdict.junit.xml and verdict.sarif to this folder. Never inside a run.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace the analyzer's own files in a folder that is not empty.
    #[arg(long)]
    force: bool,
}

/// Compares the runs; prints the verdict, and writes it where a folder is named.
pub(super) fn run(arguments: &Diff, out: &mut dyn Write) -> Result<u8, Error> {
    let mut gates = match &arguments.gates {
        Some(path) => read_gates(path)?,
        None => Gates::default(),
    };
    let mut loader = Loader { allow_missing: arguments.allow_missing_runs, left_out: Vec::new() };
    let allow = arguments.allow.iter().cloned().collect();
    if !arguments.calibrate.is_empty() {
        let equal = loader.load("calibration", &arguments.calibrate)?;
        let measured = diff::calibrate(&equal, &allow).map_err(|error| Error::Calibration(error.to_string()))?;
        if arguments.base.is_empty() {
            return calibration(arguments, &measured, out);
        }
        gates.calibration.extend(measured.thresholds);
    }
    if arguments.candidate.is_empty() {
        return Err(Error::NoRuns { side: "candidate" });
    }
    let mut base = loader.load("base", &arguments.base)?;
    let mut candidate = loader.load("candidate", &arguments.candidate)?;
    sides::tell_apart(&mut base, &arguments.base, &mut candidate, &arguments.candidate);
    let options = DiffOptions { gates, allow, only: None };
    let mut comparison = diff::compare(&base, &candidate, &options);
    if let Some(folder) = &arguments.confirm {
        let (fresh_base, fresh_candidate) = batch(folder)?;
        let fresh_base = loader.load("base", &fresh_base)?;
        let fresh_candidate = loader.load("candidate", &fresh_candidate)?;
        comparison = diff::confirm(comparison, (&base, &candidate), (&fresh_base, &fresh_candidate), &options);
    }
    comparison.left_out = loader.left_out;
    let verdict = ci::document(&comparison, arguments.strict);
    if let Some(folder) = open(arguments)? {
        ci::write_files(&verdict, &folder)?;
    }
    let text = match (arguments.json, arguments.markdown, arguments.annotations) {
        (true, _, _) => ci::json(&verdict)?,
        (_, true, _) => ci::markdown(&verdict),
        (_, _, true) => ci::annotations(&verdict),
        _ => ci::text(&verdict),
    };
    print(out, &text)?;
    Ok(comparison.verdict.exit_code(arguments.strict))
}

/// The output folder, which may not lie inside any of the inputs.
fn open(arguments: &Diff) -> Result<Option<Folder>, Error> {
    let Some(folder) = &arguments.out else { return Ok(None) };
    let lists = [&arguments.base, &arguments.candidate, &arguments.calibrate];
    let inputs: Vec<&PathBuf> = lists.into_iter().flatten().chain(&arguments.confirm).collect();
    for input in &inputs {
        Folder::outside(folder, input)?;
    }
    inputs.first().map(|input| Folder::open(input, Some(folder), arguments.force)).transpose()
}

fn read_gates(path: &Path) -> Result<Gates, Error> {
    let file = fs::File::open(path).map_err(|source| Error::read(path, source))?;
    let mut text = String::new();
    let limit = MAX_GATES_BYTES + 1;
    file.take(limit).read_to_string(&mut text).map_err(|source| Error::read(path, source))?;
    let refused = |reason: String| Error::Gates { path: path.into(), reason };
    if text.len() as u64 == limit {
        return Err(refused(format!("it is larger than {MAX_GATES_BYTES} bytes")));
    }
    Gates::parse(&text).map_err(|error| refused(error.to_string()))
}

/// Prints measured noise as part of a gates file.
fn calibration(arguments: &Diff, measured: &diff::Calibration, out: &mut dyn Write) -> Result<u8, Error> {
    let table = BTreeMap::from([("calibration", &measured.thresholds)]);
    let text = toml::to_string(&table).map_err(|error| Error::Calibration(error.to_string()))?;
    let text = format!(
        "# Measured from {} runs of one state: percent that 95 of 100 random halves stay within, at least {:.0}.\n{text}",
        measured.runs,
        diff::THRESHOLD_INTERLEAVED * 100.0
    );
    if let Some(folder) = open(arguments)? {
        folder.write(CALIBRATION_FILE, |out| out.write_all(text.as_bytes()).map_err(Error::Output))?;
    }
    if arguments.json {
        let line = serde_json::json!({"runs": measured.runs, "calibration": measured.thresholds});
        print(out, &format!("{line}\n"))?;
    } else {
        print(out, &text)?;
    }
    Ok(0)
}
