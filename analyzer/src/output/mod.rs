//! "How do we show it?" Trace, tables, summary for machines, one screen for people.
//!
//! It may use `analysis` and `run`, besides `limits` and `error`. Invariants: the same input gives the same bytes; files appear whole or not at all;
//! nothing is written inside the input or the journal around it.

pub mod check;
pub mod ci;
pub mod dataset;
pub mod delta;
pub mod driver_calls;
pub mod explain;
pub mod files;
mod generations;
pub mod memory_table;
pub mod operators;
pub mod perfetto;
pub mod plots;
pub mod profile;
pub mod reconcile;
pub mod summary;
pub mod text;

use crate::analysis::{
    self,
    reconcile::{Reconciled, choose},
};
use crate::error::Error;
use crate::run::{Component, Run};
use ddo_schemas::Finding;
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

/// File name of the reconciliation.
pub const RECONCILIATION_FILE: &str = "reconciliation.json";
/// File name of the checks.
pub const CHECK_FILE: &str = "check.json";

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

/// What was written, and what it says.
#[derive(Debug)]
pub struct Written {
    /// The output folder.
    pub folder: PathBuf,
    /// The summary; its findings are those of the run and of the outputs.
    pub summary: Summary,
    /// The findings of the run, without those of the outputs.
    pub findings: Vec<Finding>,
}

/// Writes the trace and all documents of a run that was read from `input`.
///
/// # Errors
/// When the output folder is not free, or cannot be written.
pub fn write_all(run: &Run, input: &Path, options: &Options) -> Result<Written, Error> {
    let folder = Folder::open(input, options.out.as_deref(), options.force)?;
    let (judged, pairs) = side_by_side(|| analysis::judge(run), || analysis::delta::pairs(run));
    // The large ones are files of their own and only read the run.
    let trace = || write_trace_file(run, &judged.noticed, &folder, &options.trace);
    let tables = || side_by_side(|| delta::write_files(run, &pairs, &folder), || dataset::write(run, &pairs, &folder));
    let (stats, (deltas, dataset)) = side_by_side(trace, tables);
    let stats = stats?;
    deltas?;
    dataset?;
    let mut outputs = vec![
        ("summary", SUMMARY_FILE),
        ("trace", TRACE_FILE),
        ("check", CHECK_FILE),
        ("dataset", dataset::FOLDER),
        ("profile", profile::FILE),
    ];
    outputs.extend(delta::FILES);
    folder.write(profile::FILE, |out| out.write_all(profile::of(run).as_bytes()).map_err(Error::Output))?;
    folder.write(CHECK_FILE, |out| check::write(&check::document(&judged.checks), out))?;
    if let Some(reconciled) = reconciliation(run) {
        folder.write(RECONCILIATION_FILE, |out| reconcile::write(&reconciled.document, out))?;
        outputs.push(("reconciliation", RECONCILIATION_FILE));
    }
    let mut outputs: Vec<(String, String)> = outputs.into_iter().map(|(kind, name)| (kind.into(), name.into())).collect();
    if write_memory_plot(run, &folder)? {
        outputs.push(("memory_plot".to_owned(), format!("{MEMORY_PLOT}.svg")));
    }
    let mut summary = summary::of(run, judged.findings.clone(), outputs.into_iter().collect());
    summary.findings.extend(perfetto::too_large(stats.bytes));
    folder.write(SUMMARY_FILE, |out| summary::write(&summary, out))?;
    Ok(Written { folder: folder.path, summary, findings: judged.findings })
}

/// The component whose scopes are reconciled unless another is named: the leading one, else the first that has scopes.
pub fn reconciled_component(run: &Run) -> Option<&Component> {
    let fits = |component: &&Component| choose(component, None).is_ok();
    summary::leading_component(run).filter(fits).or_else(|| run.components.iter().find(fits))
}

/// The reconciliation of that component; `None` where no component has scopes.
fn reconciliation(run: &Run) -> Option<Reconciled> {
    let component = reconciled_component(run)?;
    let choice = choose(component, None).ok()?;
    Some(analysis::reconcile::of(&component.name, &choice))
}

/// Writes only the trace; returns its path and contents in numbers.
///
/// # Errors
/// When the output folder is not free, or cannot be written.
pub fn write_trace(run: &Run, input: &Path, options: &Options) -> Result<(PathBuf, TraceStats), Error> {
    let folder = Folder::open(input, options.out.as_deref(), options.force)?;
    let stats = write_trace_file(run, &analysis::noticed(run), &folder, &options.trace)?;
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

fn write_trace_file(run: &Run, noticed: &[Finding], folder: &Folder, options: &TraceOptions) -> Result<TraceStats, Error> {
    folder.write(TRACE_FILE, |out| perfetto::write_noticed(run, noticed, options, out))
}

/// Does two things at a time, the first in a thread of its own.
fn side_by_side<A: Send, B>(first: impl FnOnce() -> A + Send, second: impl FnOnce() -> B) -> (A, B) {
    std::thread::scope(|scope| {
        let first = scope.spawn(first);
        let second = second();
        (first.join().unwrap_or_else(|cause| std::panic::resume_unwind(cause)), second)
    })
}
