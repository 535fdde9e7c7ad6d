//! `ddo-analyze`: turns a journal folder into a Perfetto trace, a summary for machines and one screen for people.
//!
//! A pipeline of four rooms; an arrow points to what may be used:
//!
//! ```text
//!  output -> analysis -> run <- ingest
//! ```
//!
//! | module | question |
//! |---|---|
//! | [`ingest`] | what did we find on disk? (reads files; values and findings) |
//! | [`run`] | what happened? (plain values) |
//! | [`analysis`] | what does it mean? (pure) |
//! | [`output`] | how do we show it? (trace, tables, summary, terminal) |
//! | [`cli`] | what was asked for? |
//! | [`limits`], [`error`] | every bound, the error type |
//!
//! Invariants: input is never trusted and never fatal per file; absent is never zero; integers stay exact; the same
//! input gives the same bytes; the input is never written to.

pub mod analysis;
pub mod cli;
pub mod error;
#[doc(hidden)]
pub mod fuzz;
pub mod ingest;
pub mod limits;
pub mod output;
pub mod run;

pub use error::Error;
pub use output::Options;

use ddo_schemas::summary::Summary;
use std::path::Path;

/// Does everything: reads a folder, writes the trace, the tables and `summary.json`, and returns the summary.
///
/// # Errors
/// When nothing in the input is usable, or the output cannot be written.
pub fn analyze(path: &Path, options: &Options) -> Result<Summary, Error> {
    let run = ingest::load(path)?;
    output::write_all(&run, path, options).map(|written| written.summary)
}
