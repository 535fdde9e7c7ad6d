//! One JSON file: "What is it, and can it be read?"
//!
//! Uses `limits` and the shared versions. Invariant: whatever a file holds, the answer is a value or a finding that
//! names the file and, for broken JSON, the byte.

use super::notes::Notes;
use super::structures;
use super::walk::{self, Entry};
use crate::limits::{MAX_JSON_BYTES, MAX_JSON_DEPTH};
use crate::run::shorten;
use ddo_schemas::manifest::ManifestEnd;
use ddo_schemas::{Finding, version};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::io::Read;

/// What a JSON file turned out to be.
pub(super) enum Document {
    /// A journal record.
    Record(Value),
    /// A detached report.
    Report(Value),
    /// The run's manifest.
    Manifest(Value),
    /// The manifest's seal.
    Seal(Value),
    /// A structure of a report that stands alone.
    Structure(Value),
    /// The host tracker's report, or the part of it about one generation.
    Tracker(Value),
    /// The sign that the disk budget was reached; the seal tells the same.
    DiskStop,
    /// Operators of a profiler in Chrome's format.
    OperatorTrace,
    /// Something else.
    Unknown,
}

impl Document {
    /// Recognises a document by its keys.
    pub(super) fn recognise(value: Value) -> Document {
        let has = |key: &str| value.get(key).is_some();
        if has("traceEvents") {
            Document::OperatorTrace
        } else if has("metrics") && (has("observation") || has("step_index")) {
            Document::Record(value)
        } else if has("route") && (has("runtime") || has("configuration")) {
            Document::Report(value)
        } else if has("command") && has("clocks") {
            Document::Manifest(value)
        } else if has("status") && has("duration_seconds") {
            Document::Seal(value)
        } else if structures::alone(&value).is_some() || structures::bundle(&value) {
            Document::Structure(value)
        } else if (has("memory_monitor") && has("steps")) || has(super::generations::KEY) {
            Document::Tracker(value)
        } else if has("disk_budget_bytes") && has("journal_bytes") {
            Document::DiskStop
        } else {
            Document::Unknown
        }
    }
}

/// Reads and parses one file.
pub(super) fn read(entry: &Entry) -> Result<Value, Finding> {
    let place = || entry.shown.clone();
    if entry.bytes == 0 {
        return Err(Finding::error("empty_file", place(), "is empty; the record was lost"));
    }
    if entry.bytes > MAX_JSON_BYTES {
        let text = format!("has {} bytes; the limit is {MAX_JSON_BYTES}", entry.bytes);
        return Err(Finding::error("file_too_large", place(), text));
    }
    let mut bytes = Vec::new();
    // The file may have grown since it was listed.
    walk::open(entry)
        .and_then(|file| file.take(MAX_JSON_BYTES).read_to_end(&mut bytes))
        .map_err(|source| Finding::error("unreadable_file", place(), format!("cannot be read: {source}")))?;
    if bytes.iter().all(|byte| *byte == 0) {
        let text = format!("holds {} NUL bytes and nothing else; its contents never reached the disk", bytes.len());
        return Err(Finding::error("nul_filled_file", place(), text));
    }
    serde_json::from_slice(&bytes).map_err(|error| broken(entry, &bytes, &error))
}

fn broken(entry: &Entry, bytes: &[u8], error: &serde_json::Error) -> Finding {
    let (line, column) = (error.line(), error.column());
    let offset = offset_of(bytes, line, column);
    let words = error.to_string();
    let reason = words.split(" at line ").next().unwrap_or(&words);
    let near = bytes.get(offset.saturating_sub(1)..).unwrap_or_default();
    let non_finite = [&b"NaN"[..], b"Infinity", b"-Infinity"].iter().any(|word| near.starts_with(word))
        || reason.contains("number out of range");
    let at = format!("at byte {offset} (line {line}, column {column})");
    if non_finite {
        let text = format!("holds a number that is not finite {at}; JSON has none, so the file was not used");
        Finding::error("non_finite_number", &entry.shown, text)
    } else if reason.contains("recursion limit") {
        Finding::error("json_too_deep", &entry.shown, format!("is nested too deeply {at}; the limit is {MAX_JSON_DEPTH} levels"))
    } else if error.is_eof() {
        Finding::error("torn_json", &entry.shown, format!("ends in the middle {at}: {reason}"))
    } else {
        Finding::error("invalid_json", &entry.shown, format!("is no valid JSON {at}: {reason}"))
    }
}

/// Byte offset of a line and column as the parser counts them, both from one.
fn offset_of(bytes: &[u8], line: usize, column: usize) -> usize {
    let start = match line.checked_sub(2) {
        None => 0,
        Some(skip) => bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(skip).map_or(0, |(at, _)| at + 1),
    };
    (start + column).min(bytes.len())
}

/// Checks a version field; `None` and a finding for a document that is newer than this reader.
pub(super) fn supported(value: &Value, what: &'static str, newest: u32, place: &str, notes: &mut Notes) -> Option<()> {
    match value.get("schema_version") {
        None => {
            notes.add(Finding::warning(
                "schema_version_missing",
                place,
                format!("{what} names no schema version; read as version {newest}"),
            ));
            Some(())
        }
        Some(got) => match got.as_u64() {
            None => {
                let shown = shorten(&got.to_string());
                notes.add(Finding::error(
                    "schema_version_invalid",
                    place,
                    format!("{what} has schema version {shown}; it was not used"),
                ));
                None
            }
            Some(got) => version::check(what, got, newest)
                .map_err(|newer| notes.add(Finding::error("schema_version_unknown", place, newer.to_string())))
                .ok(),
        },
    }
}

/// Reads a document whose structure is declared.
pub(super) fn typed<T: DeserializeOwned>(
    entry: &Entry,
    value: Value,
    what: &'static str,
    newest: u32,
    notes: &mut Notes,
) -> Option<T> {
    supported(&value, what, newest, &entry.shown, notes)?;
    match serde_json::from_value(value) {
        Ok(document) => Some(document),
        Err(error) => {
            let text = format!("{what} could not be read: {}", shorten(&error.to_string()));
            notes.add(Finding::error("document_unreadable", &entry.shown, text));
            None
        }
    }
}

/// What a seal says about the end of the run.
pub(super) fn judge_seal(entry: &Entry, seal: &ManifestEnd, notes: &mut Notes) {
    match (seal.status.as_str(), seal.exit_code, seal.signal) {
        ("exited", Some(0), _) => {}
        ("exited", Some(code), _) => {
            notes.add(Finding::warning("run_failed", &entry.shown, format!("the command exited with code {code}")));
        }
        ("signaled", _, Some(signal)) => {
            notes.add(Finding::warning("run_signaled", &entry.shown, format!("signal {signal} ended the command")));
        }
        (status, _, _) => {
            let text = format!("the command did not end normally: {}", shorten(status));
            notes.add(Finding::warning("run_not_exited", &entry.shown, text));
        }
    }
    for finding in &seal.findings {
        notes.add(finding.clone());
    }
}
