//! Versions of everything that is written. A reader refuses what is newer than it knows, by name.

/// Version of the report envelope.
pub const REPORT: u32 = 1;
/// Version of a journal record's wrapper.
pub const JOURNAL: u32 = 1;
/// Version of the execution timing structure.
pub const EXECUTION_TIMING: u32 = 1;
/// Version of the native timeline structure.
pub const NATIVE_TIMELINE: u32 = 1;
/// Version of the allocation diagnostics structure.
pub const ALLOCATION_DIAGNOSTICS: u32 = 1;
/// Version of what operator diagnostics report.
pub const OPERATOR_DIAGNOSTICS: u32 = 1;
/// Version of the run manifest and its seal.
pub const MANIFEST: u32 = 1;
/// Version of the settings handed from `ddo-record` to an embedded recorder.
pub const SETTINGS: u32 = 1;
/// Version of one line of `memory.ndjson`.
pub const MEMORY_SAMPLE: u32 = 1;
/// Version of one line of `host.ndjson`.
pub const HOST_EVENT: u32 = 1;
/// Version of `summary.json`.
pub const SUMMARY: u32 = 1;

/// Version of `reconciliation.json`.
pub const RECONCILIATION: u32 = 1;
/// Version of `deltas.json`.
pub const DELTAS: u32 = 1;
/// Version of `check.json`.
pub const CHECK: u32 = 1;
/// Version of `verdict.json`.
pub const VERDICT: u32 = 1;

/// A document that is newer than this reader.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} has schema version {got}; this reader knows versions up to {newest}")]
pub struct TooNew {
    /// The kind of document.
    pub what: &'static str,
    /// The version found.
    pub got: u64,
    /// The newest version known.
    pub newest: u32,
}

/// Accepts a version from 1 to `newest`.
///
/// # Errors
/// [`TooNew`] for anything else; zero is treated like an unknown version.
pub fn check(what: &'static str, got: u64, newest: u32) -> Result<(), TooNew> {
    if (1..=u64::from(newest)).contains(&got) { Ok(()) } else { Err(TooNew { what, got, newest }) }
}
