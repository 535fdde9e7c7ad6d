//! Errors of the analyzer: "Why can nothing be shown?"
//!
//! Only what makes a whole command impossible is an error; what is wrong with one file is a finding. May use
//! `limits` and the errors of the rooms. Invariant: every I/O error carries the path.

use crate::limits::MAX_LISTED_NAMES;
use std::io;
use std::path::{Path, PathBuf};

/// Why a command could not be carried out.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A picture could not be drawn.
    #[error("a picture cannot be drawn: {reason}")]
    Plot {
        /// What the drawing library said.
        reason: String,
    },
    /// A file or folder could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// A file or folder could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// An output without a path, such as a stream in memory, failed.
    #[error("cannot write the output: {0}")]
    Output(#[source] io::Error),
    /// Nothing in the input is a record, a report, a manifest or a memory sample.
    #[error("nothing usable in {}: {reason}", path.display())]
    NothingUsable {
        /// The input.
        path: PathBuf,
        /// What was found instead.
        reason: String,
    },
    /// The input is a pipe, a socket or a device.
    #[error("{} is neither a file nor a folder", path.display())]
    NeitherFileNorFolder {
        /// The input.
        path: PathBuf,
    },
    /// The output folder already holds something.
    #[error("{} exists and is not empty; choose another --out, or --force to replace the analyzer's own files in it", path.display())]
    OutputExists {
        /// The output folder.
        path: PathBuf,
    },
    /// The output would land inside the evidence.
    #[error("{} lies inside {}, which holds the input; the analyzer never writes there", path.display(), input.display())]
    OutputInsideInput {
        /// The output folder.
        path: PathBuf,
        /// The input, or the journal around it.
        input: PathBuf,
    },
    /// The input has no name to derive the output's name from.
    #[error("cannot derive an output folder from {}; give one with --out", path.display())]
    NoOutputName {
        /// The input.
        path: PathBuf,
    },
    /// A field name that the catalogue does not have.
    #[error("no field is called {name:?}{}", suggestions(closest))]
    UnknownField {
        /// The name that was asked for.
        name: String,
        /// Fields with a similar name, nearest first.
        closest: Vec<String>,
    },
    /// No component has this name.
    #[error("no component is called {name:?}; there are: {}", listed(components))]
    UnknownComponent {
        /// The name that was asked for.
        name: String,
        /// Those of the input.
        components: Vec<String>,
    },
    /// No record or report has this name.
    #[error("no record or report is called {name:?}; there are: {}", listed(files))]
    UnknownDocument {
        /// The name that was asked for.
        name: String,
        /// Those of the input.
        files: Vec<String>,
    },
    /// Several records or reports have this name.
    #[error("{name:?} is the name of {} documents: {}; give the whole path, or --component", files.len(), listed(files))]
    AmbiguousDocument {
        /// The name that was asked for.
        name: String,
        /// Those that have it.
        files: Vec<String>,
    },
    /// The later of two records was given as the earlier one.
    #[error("{from:?} was taken after {to:?}; exchange --from and --to")]
    Backwards {
        /// Given as the earlier one.
        from: String,
        /// Given as the later one.
        to: String,
    },
    /// A run of a comparison cannot be used.
    #[error("{} cannot be used: {reason}; --allow-missing-runs leaves such runs out", path.display())]
    BrokenRun {
        /// Its folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A comparison without runs on one side.
    #[error("there are no usable runs on the side {side}; write: ddo-analyze diff BASE... -- CANDIDATE...")]
    NoRuns {
        /// Which side.
        side: &'static str,
    },
    /// More runs than a comparison holds.
    #[error("there are {got} runs on the side {side}; the limit is {limit}")]
    TooManyRuns {
        /// Which side.
        side: &'static str,
        /// How many were given.
        got: usize,
        /// The most.
        limit: usize,
    },
    /// A gates file that cannot be used.
    #[error("{}: {reason}", path.display())]
    Gates {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// No noise could be measured.
    #[error("{0}")]
    Calibration(String),
    /// The Parquet writer refused a table.
    #[error("cannot write the table {table}: {reason}")]
    Table {
        /// Which table.
        table: &'static str,
        /// What the writer said.
        reason: String,
    },
    /// Nothing that was recorded can be reconciled as asked.
    #[error(transparent)]
    Reconcile(#[from] crate::analysis::reconcile::Unfit),
    /// A value that should be representable as JSON was not.
    #[error("cannot write {what} as JSON: {source}")]
    Json {
        /// Which document.
        what: &'static str,
        /// What the serialiser said.
        source: serde_json::Error,
    },
}

/// A few names, and how many more there are.
fn listed(names: &[String]) -> String {
    let shown: Vec<&str> = names.iter().take(MAX_LISTED_NAMES).map(String::as_str).collect();
    let more = names.len().saturating_sub(MAX_LISTED_NAMES);
    let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
    if shown.is_empty() { "none".into() } else { format!("{}{rest}", shown.join(", ")) }
}

fn suggestions(closest: &[String]) -> String {
    if closest.is_empty() {
        return "; `ddo-analyze explain --all` lists them".into();
    }
    format!("; did you mean {}?", closest.join(", "))
}

impl Error {
    /// A read error with its path.
    pub fn read(path: &Path, source: io::Error) -> Error {
        Error::Read { path: path.into(), source }
    }

    /// A write error with its path.
    pub fn write(path: &Path, source: io::Error) -> Error {
        Error::Write { path: path.into(), source }
    }

    /// The exit code that a program reports for this error.
    pub fn exit_code(&self) -> u8 {
        2
    }

    /// True when the reader of our output went away, which is no failure.
    pub fn is_closed_pipe(&self) -> bool {
        match self {
            Error::Output(source) | Error::Write { source, .. } => source.kind() == io::ErrorKind::BrokenPipe,
            _ => false,
        }
    }
}
