//! The delta tables: "What changed, for people and for machines?"
//!
//! Uses `analysis::delta` for every row. Invariants: all forms show the same rows; machines get every row with exact values, people
//! get what changed with units; what was left out is counted.

mod cells;
mod csv;
mod json;
mod page;
mod render;

pub use page::Detail;
pub use render::{markdown, terminal};

use super::files::Folder;
use crate::analysis::delta::{self, Pair, Unmatched};
use crate::error::Error;
use crate::limits::MAX_DELTA_ROWS;
use crate::run::Run;
use ddo_schemas::deltas::DeltaScope;
use std::io::Write;

/// Kinds and file names of the tables, as `summary.json` lists them.
pub const FILES: [(&str, &str); 3] = [("deltas", "deltas.json"), ("deltas_csv", "deltas.csv"), ("deltas_markdown", "deltas.md")];

/// Which pairs of documents are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only this component.
    pub component: Option<String>,
    /// Only these two documents.
    pub between: Option<(String, String)>,
}

/// The pairs of a run that a selection names.
///
/// # Errors
/// When it names something that is not there.
pub fn select<'a>(run: &'a Run, selection: &Selection) -> Result<Vec<Pair<'a>>, Error> {
    let wanted = selection.component.as_deref();
    if let Some(name) = wanted.filter(|name| run.components.iter().all(|component| component.name != *name)) {
        let components = run.components.iter().map(|component| component.name.clone()).collect();
        return Err(Error::UnknownComponent { name: name.into(), components });
    }
    if let Some((from, to)) = &selection.between {
        let pair = delta::between(run, wanted, from, to).map_err(unmatched)?;
        return Ok(vec![pair]);
    }
    let mut pairs = delta::pairs(run);
    pairs.retain(|pair| wanted.is_none() || pair.component == wanted);
    Ok(pairs)
}

/// A name that fits no document, as an error.
pub(super) fn unmatched(unmatched: Unmatched) -> Error {
    match unmatched {
        Unmatched::Nothing { name, files } => Error::UnknownDocument { name, files },
        Unmatched::Several { name, files } => Error::AmbiguousDocument { name, files },
        Unmatched::Backwards { from, to } => Error::Backwards { from, to },
    }
}

/// Writes the tables of all pairs into a folder.
///
/// # Errors
/// When a file cannot be written.
pub fn write_files(run: &Run, pairs: &[Pair<'_>], folder: &Folder) -> Result<(), Error> {
    let [(_, json_file), (_, csv_file), (_, markdown_file)] = FILES;
    folder.write(json_file, |out| json(pairs, out))?;
    write_csv(pairs, folder, csv_file)?;
    folder.write(markdown_file, |out| {
        let text = markdown(run, pairs, Detail::Page);
        out.write_all(text.as_bytes()).map_err(Error::Output)
    })
}

fn write_csv(pairs: &[Pair<'_>], folder: &Folder, name: &str) -> Result<(), Error> {
    folder.write(name, |out| csv(pairs, out))
}

/// Writes `deltas.csv` alone.
///
/// # Errors
/// When it cannot be written.
pub fn write_csv_file(pairs: &[Pair<'_>], folder: &Folder) -> Result<(), Error> {
    let [_, (_, name), _] = FILES;
    write_csv(pairs, folder, name)
}

/// All rows as JSON.
///
/// # Errors
/// When they cannot be written.
pub fn json(pairs: &[Pair<'_>], out: &mut dyn Write) -> Result<(), Error> {
    let (kept, left_out) = within_limit(pairs, MAX_DELTA_ROWS);
    json::write(&kept, left_out, out)
}

/// All rows as CSV (RFC 4180).
///
/// # Errors
/// When they cannot be written.
pub fn csv(pairs: &[Pair<'_>], out: &mut dyn Write) -> Result<(), Error> {
    let (kept, _) = within_limit(pairs, MAX_DELTA_ROWS);
    csv::write(&kept, out)
}

/// The pairs that fit a number of rows, and how many rows do not: the last steps go first.
fn within_limit<'p, 'a>(pairs: &'p [Pair<'a>], limit: usize) -> (Vec<&'p Pair<'a>>, usize) {
    let all: usize = pairs.iter().map(Pair::len).sum();
    let others: usize = pairs.iter().filter(|pair| pair.scope != DeltaScope::Step).map(Pair::len).sum();
    let mut room = limit.saturating_sub(others);
    let mut full = false;
    let kept: Vec<&Pair<'_>> = pairs
        .iter()
        .filter(|pair| {
            if pair.scope != DeltaScope::Step {
                return true;
            }
            full |= pair.len() > room;
            if !full {
                room -= pair.len();
            }
            !full
        })
        .collect();
    let held: usize = kept.iter().map(|pair| pair.len()).sum();
    (kept, all - held)
}

#[cfg(test)]
mod tests;
