//! "How do we show it?" Trace, summary for machines, one screen for people.
//!
//! It may use `analysis` and `run`, besides `limits` and `error`. Invariants: the same input gives the same bytes; files appear whole or not at all;
//! nothing is written inside the input or the journal around it.

pub mod explain;
pub mod files;
pub mod memory_table;
pub mod perfetto;
pub mod plots;
pub mod summary;
pub mod text;

use crate::error::Error;
use crate::run::Run;
use ddo_schemas::summary::Summary;
use files::Folder;
use perfetto::{TraceOptions, TraceStats};
use std::path::{Path, PathBuf};

/// File name of the trace.
pub const TRACE_FILE: &str = "run.perfetto-trace";
/// Where the plot of memory lies in the output folder, without its ending.
pub const MEMORY_PLOT: &str = "plots/memory";
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

/// Writes the trace and `summary.json` of a run that was read from `input`.
///
/// # Errors
/// When the output folder is not free, or cannot be written.
pub fn write_all(run: &Run, input: &Path, options: &Options) -> Result<(Summary, PathBuf), Error> {
    let folder = Folder::open(input, options.out.as_deref(), options.force)?;
    write_trace_file(run, &folder, &options.trace)?;
    let mut outputs = vec![("summary".to_owned(), SUMMARY_FILE.to_owned()), ("trace".to_owned(), TRACE_FILE.to_owned())];
    if write_memory_plot(run, &folder)? {
        outputs.push(("memory_plot".to_owned(), format!("{MEMORY_PLOT}.svg")));
    }
    let summary = summary::of(run, outputs.into_iter().collect());
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

/// Writes the plots alone.
///
/// # Errors
/// When the output folder is not free, or cannot be written.
pub fn write_plots(run: &Run, input: &Path, out: &Path, force: bool) -> Result<(), Error> {
    let folder = Folder::open(input, Some(out), force)?;
    write_memory_plot(run, &folder).map(|_| ())
}

/// Draws memory over time; false where there is nothing to draw.
fn write_memory_plot(run: &Run, folder: &Folder) -> Result<bool, Error> {
    let Some(picture) = plots::memory::draw(run)? else { return Ok(false) };
    folder.write(&format!("{MEMORY_PLOT}.svg"), |out| out.write_all(picture.svg.as_bytes()).map_err(Error::Output))?;
    folder.write(&format!("{MEMORY_PLOT}.png"), |out| out.write_all(&picture.png).map_err(Error::Output))?;
    Ok(true)
}

fn write_trace_file(run: &Run, folder: &Folder, options: &TraceOptions) -> Result<TraceStats, Error> {
    folder.write(TRACE_FILE, |out| perfetto::write(run, options, out))
}
