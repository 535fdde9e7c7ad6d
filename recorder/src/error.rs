//! Errors and refusals of the recorder.
//!
//! Who may fail how: a *refusal* means that nothing is broken and the answer is no; it carries what was asked for and
//! the limit. A *driver error* names the call. An *I/O error* carries the path. A *poisoned* session met a failure
//! whose consequences could not be bounded; it answers every later call with the first failure until it is closed.

use crate::driver::{DriverError, FileChange};
use crate::observe::publish::PublishError;
use crate::plan::checkpoint::HeaderError;
use std::io;
use std::path::{Path, PathBuf};

/// Result of the recorder's own calls.
pub type Result<T> = std::result::Result<T, Error>;

/// A typed no.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what}: got {got} {unit}, the limit is {limit} {unit} [{code}]")]
pub struct Refusal {
    /// Stable identifier.
    pub code: &'static str,
    /// What was declined, as a sentence without a full stop.
    pub what: String,
    /// What was asked for.
    pub got: u64,
    /// What is possible.
    pub limit: u64,
    /// Unit of both numbers.
    pub unit: &'static str,
}

/// The answer to a request on the hot path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Granted.
    Granted,
    /// Declined, with the limit.
    Refused(Refusal),
}

/// Everything that a call of the recorder can answer instead of a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Declined; nothing is broken.
    #[error("refused: {0}")]
    Refused(#[from] Refusal),
    /// Operators that cannot be sampled.
    #[error("{0} [bad_operators]")]
    Operators(#[from] ddo_schemas::settings::BadOperators),
    /// A part that this build does not have.
    #[error("{what} is not available: {reason} [unsupported]")]
    Unsupported {
        /// The part or setting.
        what: String,
        /// What there is instead.
        reason: String,
    },
    /// A driver call failed.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// An operation on a file or folder failed.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// A checkpoint cannot be used.
    #[error("checkpoint {}: {reason} [{code}]", path.display())]
    Checkpoint {
        /// The file or folder.
        path: PathBuf,
        /// Stable identifier.
        code: &'static str,
        /// One sentence.
        reason: String,
    },
    /// A source file is not what it was when it was opened.
    #[error("source file {} changed while it was in use: {what} was {before}, is {now} [source_changed]", path.display())]
    SourceChanged {
        /// The file.
        path: PathBuf,
        /// Which property.
        what: &'static str,
        /// Its value at opening.
        before: u64,
        /// Its value now.
        now: u64,
    },
    /// A source file was removed, or another one was put in its place.
    #[error("source file {} vanished while it was in use: no name leads to it any more [source_vanished]", path.display())]
    SourceVanished {
        /// The path that it was opened by.
        path: PathBuf,
    },
    /// A name that does not exist here.
    #[error("{kind} {name:?} does not exist in {place} [unknown_name]")]
    UnknownName {
        /// What kind of thing was looked for.
        kind: &'static str,
        /// The name.
        name: String,
        /// Where it was looked for.
        place: String,
    },
    /// A description that contradicts itself.
    #[error("{what}: {reason} [invalid]")]
    Invalid {
        /// The thing.
        what: String,
        /// Why it cannot be.
        reason: String,
    },
    /// Host-supplied work failed.
    #[error("work of unit {unit:?} failed: {reason} [job_failed]")]
    Job {
        /// Name of the unit.
        unit: String,
        /// What it said.
        reason: String,
    },
    /// The session met a failure that it could not bound.
    #[error("the session is poisoned since: {first} [poisoned]")]
    Poisoned {
        /// The first failure.
        first: String,
    },
    /// The session or scope has ended.
    #[error("{what} is closed [closed]")]
    Closed {
        /// What has ended.
        what: &'static str,
    },
    /// A file could not be published.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// A value could not be written as JSON.
    #[error("cannot write {what} as JSON: {reason} [not_serialisable]")]
    Serialise {
        /// What was to be written.
        what: String,
        /// Why it cannot be.
        reason: String,
    },
    /// Settings handed over by the environment are unusable.
    #[error("{variable}: {reason} [bad_settings]")]
    Settings {
        /// The variable.
        variable: &'static str,
        /// Why its value cannot be used.
        reason: String,
    },
}

impl Error {
    /// An I/O error with its path.
    pub(crate) fn io(action: &'static str, path: &Path, source: impl Into<io::Error>) -> Error {
        Error::Io { action, path: path.to_path_buf(), source: source.into() }
    }

    /// A source file that is not what it was at opening.
    pub(crate) fn source(path: &Path, change: FileChange) -> Error {
        let path = path.to_path_buf();
        match change {
            FileChange::Changed { what, before, now } => Error::SourceChanged { path, what, before, now },
            FileChange::Vanished => Error::SourceVanished { path },
        }
    }

    /// A refusal.
    pub(crate) fn refused(code: &'static str, what: impl Into<String>, got: u64, limit: u64, unit: &'static str) -> Error {
        Error::Refused(Refusal { code, what: what.into(), got, limit, unit })
    }

    /// A contradiction in a description.
    pub(crate) fn invalid(what: impl Into<String>, reason: impl Into<String>) -> Error {
        Error::Invalid { what: what.into(), reason: reason.into() }
    }

    /// A header error with its file.
    pub(crate) fn header(path: &Path, error: &HeaderError) -> Error {
        Error::Checkpoint { path: path.to_path_buf(), code: error.code(), reason: error.to_string() }
    }

    /// Stable identifier of the error, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Error::Refused(refusal) => refusal.code,
            Error::Operators(_) => "bad_operators",
            Error::Unsupported { .. } => "unsupported",
            Error::Driver(error) => error.code(),
            Error::Io { .. } => "io",
            Error::Checkpoint { code, .. } => code,
            Error::SourceChanged { .. } => "source_changed",
            Error::SourceVanished { .. } => "source_vanished",
            Error::UnknownName { .. } => "unknown_name",
            Error::Invalid { .. } => "invalid",
            Error::Job { .. } => "job_failed",
            Error::Poisoned { .. } => "poisoned",
            Error::Closed { .. } => "closed",
            Error::Publish(error) => error.code(),
            Error::Serialise { .. } => "not_serialisable",
            Error::Settings { .. } => "bad_settings",
        }
    }
}
