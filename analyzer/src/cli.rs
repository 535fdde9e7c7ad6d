//! The command line: "What was asked for?"
//!
//! Uses every room through its public face. Invariants: findings and results go to standard output, errors to
//! standard error; a reader that goes away ends the program quietly; a subcommand's word wins over a folder of the
//! same name (`./trace` is the folder).

mod allocation;
mod check;
mod completions;
mod delta;
mod diff;
mod export;
mod memory;
mod operators;
mod profile;
mod reconcile;

use crate::analysis;
use crate::error::Error;
use crate::ingest;
use crate::limits::PROGRESS_FILES;
use crate::output::perfetto::{self, Align, TraceOptions};
use crate::output::{self, Options, explain, summary, text};
use crate::run::Run;
use clap::{Args, Parser, Subcommand};
use ddo_schemas::Finding;
use indicatif::ProgressBar;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Exit code of `check` when one fails, and of `--strict` when a finding is a warning or an error.
const EXIT_DATA_QUALITY: u8 = 5;

/// Turns a journal folder into a Perfetto trace, a summary for machines and one screen for people.
#[derive(Debug, Parser)]
#[command(
    name = "ddo-analyze",
    version,
    max_term_width = 100,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
#[command(after_help = "Examples:\n  \
    ddo-analyze ddo-journal-20260101T120000Z\n      \
    trace, summary and plots beside the folder, one screen here\n  \
    ddo-analyze memory runs/a --out runs/a.memory\n      \
    peaks by kind, phase and step; plots as SVG and PNG\n  \
    ddo-analyze explain fast_faults\n      \
    what a field means and what to look at next\n\n\
    A subcommand's word wins over a folder of that name; write ./trace for the folder.\n\
    Exit codes: 0 fine, findings included; 2 usage, I/O or nothing usable; 5 a failed\n\
    check, or findings with --strict; diff has 1, 3 and 4 for itself.\n\
    DDO_LOG=debug logs to standard error.")]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    analyze: Analyze,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write only the Perfetto trace.
    Trace(Analyze),
    /// Show what changed between records, from first to last, and between reports.
    Delta(delta::Delta),
    /// Compare two sets of runs: slower, bigger or less safe?
    Diff(diff::Diff),
    /// Write the delta tables as a Parquet dataset and as CSV.
    Export(export::Export),
    /// Say which host time lies in which, and what stays unexplained.
    Reconcile(reconcile::Arguments),
    /// Say whether the numbers add up; exit with 5 where they do not.
    Check(check::Arguments),
    /// Print what cost the most in operator traces of a profiler.
    Operators(operators::Operators),
    /// Show which driver calls memory cost in each step of a diagnostic run.
    Allocation(allocation::Allocation),
    /// Say how much memory the run held, by kind, phase and step.
    Memory(memory::Memory),
    /// Show one report in a few lines, in a fixed order and with the caveats of its figures.
    Profile(profile::Profile),
    /// Say what a field means.
    Explain(Explain),
    /// Print completions for a shell.
    Completions(completions::Completions),
    /// Print the manual page.
    Man,
    /// Encode slices to memory and print the rate as one line of JSON.
    #[command(hide = true)]
    BenchEncode {
        /// How many slices.
        slices: u64,
    },
}

#[derive(Debug, Args)]
struct Analyze {
    /// The folder that ddo-record wrote, a bare folder of journal records, one file of them, or an operator trace in
    /// Chrome's format, packed or not.
    #[arg(value_name = "DIR", required = true)]
    input: Option<PathBuf>,
    /// Folder for the results [default: DIR.analysis beside DIR; for a part of a
    /// journal beside the journal, such as DIR.reports.final.json.analysis]. Never inside the journal.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace the analyzer's own files in a folder that is not empty.
    #[arg(long)]
    force: bool,
    /// Exit with 5 when a finding is a warning or an error.
    #[arg(long)]
    strict: bool,
    /// Add sequence, unit and bytes to every window of the trace.
    #[arg(long)]
    annotate: bool,
    /// Align timelines and journals that record no common clock.
    #[arg(long, value_enum, value_name = "HOW", default_value_t = Align::Recorded)]
    align: Align,
    /// Print JSON alone.
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Explain {
    /// Full path or last part of it, such as fast_faults.
    #[arg(value_name = "FIELD", required_unless_present = "all")]
    field: Option<String>,
    /// Every field.
    #[arg(long, conflicts_with = "field")]
    all: bool,
    /// Print JSON alone.
    #[arg(long)]
    json: bool,
}

/// Runs the program with the given words; returns its exit code.
pub fn main(words: impl IntoIterator<Item = OsString>, out: &mut dyn Write) -> u8 {
    let cli = match Cli::try_parse_from(words) {
        Ok(cli) => cli,
        Err(error) => {
            // Help for a reader that went away is no failure.
            let _ = error.print();
            return u8::try_from(error.exit_code()).unwrap_or(2);
        }
    };
    let result = match cli.command {
        None => all(&cli.analyze, out),
        Some(Command::Trace(arguments)) => trace(&arguments, out),
        Some(Command::Delta(arguments)) => delta::run(&arguments, out),
        Some(Command::Diff(arguments)) => diff::run(&arguments, out),
        Some(Command::Export(arguments)) => export::run(&arguments, out),
        Some(Command::Reconcile(arguments)) => reconcile::run(&arguments, out),
        Some(Command::Check(arguments)) => check::run(&arguments, out),
        Some(Command::Operators(arguments)) => operators::run(&arguments, out),
        Some(Command::Allocation(arguments)) => allocation::run(&arguments, out),
        Some(Command::Memory(arguments)) => memory::run(&arguments, out),
        Some(Command::Profile(arguments)) => profile::run(&arguments, out),
        Some(Command::Explain(arguments)) => explain_fields(&arguments, out),
        Some(Command::Completions(arguments)) => completions::run(&arguments, out),
        Some(Command::Man) => completions::man(out),
        Some(Command::BenchEncode { slices }) => bench_encode(slices, out),
    };
    let result = result.and_then(|code| out.flush().map(|()| code).map_err(Error::Output));
    match result {
        Ok(code) => code,
        Err(error) if error.is_closed_pipe() => 0,
        Err(error) => {
            let _ = writeln!(io::stderr(), "ddo-analyze: {error}");
            error.exit_code()
        }
    }
}

fn all(arguments: &Analyze, out: &mut dyn Write) -> Result<u8, Error> {
    let Some(input) = &arguments.input else { return Ok(2) };
    let run = load(input)?;
    let written = output::write_all(&run, input, &options(arguments))?;
    if let Some(large) = written.summary.findings.iter().find(|finding| finding.code == perfetto::TOO_LARGE) {
        let _ = writeln!(io::stderr(), "{large}");
    }
    if arguments.json {
        summary::write(&written.summary, out)?;
    } else {
        print(out, &text::screen(&run, &written.findings, Some(&written.folder)))?;
    }
    Ok(exit_code(arguments, &written.findings))
}

/// Reads the input; long reading shows its progress where standard error is a terminal.
fn load(input: &Path) -> Result<Run, Error> {
    let mut bar: Option<ProgressBar> = None;
    let visible = io::stderr().is_terminal();
    let run = ingest::load_watched(input, &mut |done, files| {
        if visible && files > PROGRESS_FILES {
            bar.get_or_insert_with(|| ProgressBar::new(files as u64).with_message("reading")).set_position(done as u64);
        }
    });
    if let Some(bar) = bar {
        bar.finish_and_clear();
    }
    run
}

fn trace(arguments: &Analyze, out: &mut dyn Write) -> Result<u8, Error> {
    let Some(input) = &arguments.input else { return Ok(2) };
    let run = load(input)?;
    let (path, stats) = output::write_trace(&run, input, &options(arguments))?;
    let found = analysis::findings(&run);
    let mut findings = found.clone();
    findings.extend(perfetto::too_large(stats.bytes));
    if arguments.json {
        let line = serde_json::json!({
            "trace": path.display().to_string(), "bytes": stats.bytes, "tracks": stats.tracks, "slices": stats.slices,
            "instants": stats.instants, "counter_values": stats.counter_values, "flows": stats.flows,
            "shift_ns": stats.shift_ns, "findings": findings,
        });
        print(out, &format!("{line}\n"))?;
    } else {
        for finding in findings.iter().filter(|finding| analysis::is_serious(finding)).take(crate::limits::MAX_PRINTED_FINDINGS) {
            print(out, &format!("{}\n", crate::run::shorten_to(&finding.to_string(), 2 * crate::limits::TEXT_COLUMNS)))?;
        }
        let counts = format!(
            "{} slices, {} instants, {} counter values, {} arrows on {} tracks, {} bytes",
            stats.slices, stats.instants, stats.counter_values, stats.flows, stats.tracks, stats.bytes
        );
        print(out, &format!("{}\n{counts}\nopen it in https://ui.perfetto.dev\n", path.display()))?;
    }
    Ok(exit_code(arguments, &found))
}

fn options(arguments: &Analyze) -> Options {
    let trace = TraceOptions { annotate: arguments.annotate, align: arguments.align };
    Options { out: arguments.out.clone(), force: arguments.force, trace }
}

fn exit_code(arguments: &Analyze, findings: &[Finding]) -> u8 {
    let serious = arguments.strict && findings.iter().any(analysis::is_serious);
    if serious { EXIT_DATA_QUALITY } else { 0 }
}

fn explain_fields(arguments: &Explain, out: &mut dyn Write) -> Result<u8, Error> {
    let rows = match &arguments.field {
        Some(field) => explain::look_up(field)?,
        None => explain::all(),
    };
    if arguments.json {
        let json = serde_json::to_string_pretty(&explain::json(&rows));
        let json = json.map_err(|source| Error::Json { what: "the catalogue", source })?;
        print(out, &format!("{json}\n"))?;
    } else if arguments.all {
        print(out, &explain::all_text())?;
    } else {
        print(out, &explain::text(&rows))?;
    }
    Ok(0)
}

fn bench_encode(slices: u64, out: &mut dyn Write) -> Result<u8, Error> {
    let start = Instant::now();
    let bytes = perfetto::encode_slices(slices);
    let seconds = start.elapsed().as_secs_f64();
    let per = |count: u64, of: f64| if of > 0.0 { Some(count as f64 / of) } else { None };
    let events = slices.saturating_mul(2);
    let line = serde_json::json!({
        "slices": slices, "events": events, "bytes": bytes, "seconds": seconds,
        "events_per_second": per(events, seconds), "bytes_per_slice": per(bytes, slices as f64),
    });
    print(out, &format!("{line}\n"))?;
    Ok(0)
}

fn print(out: &mut dyn Write, text: &str) -> Result<(), Error> {
    out.write_all(text.as_bytes()).map_err(Error::Output)
}

#[cfg(test)]
mod tests;
