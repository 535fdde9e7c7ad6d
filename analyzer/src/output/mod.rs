//! "How do we show it?" Trace, tables, summary for machines, one screen for people.
//!
//! It may use `analysis` and `run`, besides `limits` and `error`. Invariants: the same input gives the same bytes; files appear whole or not at all;
//! nothing is written inside the input or the journal around it.

pub mod ci;
pub mod dataset;
pub mod delta;
pub mod explain;
pub mod files;
pub mod perfetto;
pub mod summary;
pub mod text;

use crate::analysis;
use crate::error::Error;
use crate::run::Run;
use ddo_schemas::summary::Summary;
use files::Folder;
use perfetto::{TraceOptions, TraceStats};
use std::path::{Path, PathBuf};

/// File name of the trace.
pub const TRACE_FILE: &str = "run.perfetto-trace";
/// File name of the summary.
pub const SUMMARY_FILE: &str = "summary.json";

/// What a run of the analyzer writes, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The output folder; `<input>.analysis` beside the input, or beside the journal around it, unless given.
    pub out: Option<PathBuf>,
    /// Replace the analyzer's own files in a folder that is not empty.
    pub force: bool,
    /// What the trace contains.
    pub trace: TraceOptions,
}

/// Writes the trace, the delta tables, the dataset and `summary.json` of a run that was read from `input`.
///
/// # Errors
/// When the output folder is not free, or cannot be written.
pub fn write_all(run: &Run, input: &Path, options: &Options) -> Result<(Summary, PathBuf), Error> {
    let folder = Folder::open(input, options.out.as_deref(), options.force)?;
    write_trace_file(run, &folder, &options.trace)?;
    let pairs = analysis::delta::pairs(run);
    delta::write_files(run, &pairs, &folder)?;
    dataset::write(run, &pairs, &folder)?;
    let outputs =
        [("summary", SUMMARY_FILE), ("trace", TRACE_FILE), ("dataset", dataset::FOLDER)].into_iter().chain(delta::FILES);
    let summary = summary::of(run, outputs.map(|(kind, name)| (kind.to_string(), name.to_string())).collect());
    folder.write(SUMMARY_FILE, |out| summary::write(&summary, out))?;
    Ok((summary, folder.path))
}

/// Writes only the trace; returns its path and contents in numbers.
///
/// # Errors
/// When the output folder is not free, or cannot be written.
pub fn write_trace(run: &Run, input: &Path, options: &Options) -> Result<(PathBuf, TraceStats), Error> {
    let folder = Folder::open(input, options.out.as_deref(), options.force)?;
    let stats = write_trace_file(run, &folder, &options.trace)?;
    Ok((folder.path.join(TRACE_FILE), stats))
}

fn write_trace_file(run: &Run, folder: &Folder, options: &TraceOptions) -> Result<TraceStats, Error> {
    folder.write(TRACE_FILE, |out| perfetto::write(run, options, out))
}
