//! "Why was the command not started?" The wrapper's own failures, all before the start.
//!
//! May use: std, schemas and the publication errors of `observe`.
//!
//! Invariant: every message is one line and names the thing, its value and the limit.

use crate::observe::folder::ClaimError;
use crate::observe::publish::PublishError;
use ddo_schemas::settings::BadSettings;
use std::io;
use std::path::Path;

/// A failure of the recorder before the command was started; exit code 125.
#[derive(Debug, thiserror::Error)]
pub enum WrapError {
    /// No command was given.
    #[error("no command; write it after `--`")]
    NoCommand,
    /// A word outside a closed set.
    #[error("{option} is {got:?}; it must be {allowed}")]
    UnknownWord {
        /// The option.
        option: &'static str,
        /// What was given.
        got: String,
        /// The words that exist.
        allowed: &'static str,
    },
    /// A call that is no number.
    #[error("--operator-diagnostics {text:?}: {got:?} is no index of a call; write MODULE or MODULE:0,2")]
    Invocation {
        /// The word.
        got: String,
        /// All of it.
        text: String,
    },
    /// A text that is no duration.
    #[error("--interval is {got:?}; write a number with its unit, such as 100ms or 2s")]
    NotADuration {
        /// What was given.
        got: String,
    },
    /// A duration outside its limits.
    #[error("--interval is {got}; it must be {least_ms} ms to {most_ms} ms")]
    Interval {
        /// What was given.
        got: String,
        /// The shortest, milliseconds.
        least_ms: u128,
        /// The longest, milliseconds.
        most_ms: u128,
    },
    /// A text that is no size.
    #[error("--disk-budget is {got:?}; write a whole number with its unit, such as 500MiB, 2GiB or 4GB")]
    NotASize {
        /// What was given.
        got: String,
    },
    /// A size below its limit.
    #[error("--disk-budget is {got}; it must be at least {least} bytes")]
    DiskBudget {
        /// What was given.
        got: String,
        /// The least budget, bytes.
        least: u64,
    },
    /// A component name that cannot be a folder name.
    #[error(
        "component name {got:?} (from {origin}) must be 1 to {limit} characters of A-Z a-z 0-9 . _ - and not start with a dot"
    )]
    Component {
        /// What was given.
        got: String,
        /// `command_line` or `environment`.
        origin: &'static str,
        /// The most characters.
        limit: usize,
    },
    /// A name that a redaction pattern matches: it could not be written as it is.
    #[error("{what} {got:?} matches a --redact pattern; choose another name, names are recorded as they are")]
    NameToRedact {
        /// `component name` or `label key`.
        what: &'static str,
        /// What was given.
        got: String,
    },
    /// A label that is not `K=V` within its limits.
    #[error(
        "--label {got:?} must be KEY=VALUE with a key of 1 to {key_limit} characters of A-Z a-z 0-9 . _ - and a value of at most {value_limit} bytes"
    )]
    Label {
        /// What was given.
        got: String,
        /// The most characters of the key.
        key_limit: usize,
        /// The most bytes of the value.
        value_limit: usize,
    },
    /// The same label twice.
    #[error("--label {key:?} is given twice")]
    LabelTwice {
        /// The key.
        key: String,
    },
    /// A series of no runs, or of more than anyone waits for.
    #[error("--repeat is {got}; it must be 1 to {limit}")]
    Repeats {
        /// What was given.
        got: u64,
        /// The most.
        limit: u64,
    },
    /// A series has several journal folders, so they need one around them.
    #[error("--repeat needs --out DIR, the folder around the runs")]
    SeriesWithoutFolder,
    /// A command in one word that cannot be split.
    #[error("--interleave {got:?} cannot be split into words: {reason}")]
    CommandWord {
        /// The command, as people read it.
        got: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// More of something than is allowed.
    #[error("{got} times {option}; at most {limit} are allowed")]
    TooMany {
        /// The option.
        option: &'static str,
        /// How many were given.
        got: usize,
        /// How many are allowed.
        limit: usize,
    },
    /// An empty redaction pattern would match everywhere.
    #[error("--redact needs a pattern of at least one byte")]
    EmptyPattern,
    /// The settings contradict each other or leave their limits.
    #[error("settings: {0}")]
    Settings(#[from] BadSettings),
    /// The outer settings variable cannot be used.
    #[error("environment variable {variable}: {reason}")]
    SettingsVariable {
        /// The variable.
        variable: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The journal folder exists and has something in it.
    #[error("{path}: the folder is not empty (it has {entry}); nothing is ever overwritten")]
    NotEmpty {
        /// The folder, as people read it.
        path: String,
        /// One of its entries.
        entry: String,
    },
    /// Something else has the journal folder's name.
    #[error("{path}: exists and is not a folder")]
    NotAFolder {
        /// The path, as people read it.
        path: String,
    },
    /// An operation on the journal folder failed.
    #[error("{path}: {what}: {source}")]
    Output {
        /// The file or folder, as people read it.
        path: String,
        /// What was attempted.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// No folder could be claimed.
    #[error(transparent)]
    Claim(#[from] ClaimError),
    /// The manifest could not be published.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// A document could not be serialised.
    #[error("{document} cannot be written as JSON: {source}")]
    Json {
        /// The document.
        document: &'static str,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A system facility that the wrapper needs is missing.
    #[error("{what}: {source}")]
    System {
        /// What was attempted.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

impl WrapError {
    /// An output error with the path as people read it.
    pub(super) fn output(path: &Path, what: &'static str, source: io::Error) -> WrapError {
        WrapError::Output { path: super::words::shown(path.as_os_str()), what, source }
    }

    /// A system error.
    pub(super) fn system(what: &'static str) -> impl FnOnce(io::Error) -> WrapError {
        move |source| WrapError::System { what, source }
    }
}
