//! Journal records: "What did one step boundary say?"
//!
//! Uses `flatten` and the shared record grammar. Invariants: a record is an observation, never a result; its fixed
//! labels are checked; only leaves are kept, so that a long journal stays small.

use super::document::supported;
use super::flatten::Paths;
use super::notes::Notes;
use super::walk::Entry;
use crate::run::shorten;
use crate::run::{Record, nanoseconds};
use ddo_schemas::journal::{OBSERVATION, RecordName};
use ddo_schemas::{Finding, catalogue, version};
use serde_json::Value;

/// A record with the name of its component, where the record says it.
pub(super) struct LoadedRecord {
    /// The reduced record.
    pub(super) record: Record,
    /// `configuration.component`.
    pub(super) component: Option<String>,
    /// The session that it is about, where the record says it.
    pub(super) session_id: Option<String>,
    /// `configuration`.
    pub(super) configuration: Value,
    /// `runtime.state`.
    pub(super) state: Value,
}

/// Reads one record; `None` where it cannot be placed.
pub(super) fn read(entry: &Entry, mut value: Value, paths: &mut Paths, notes: &mut Notes) -> Option<LoadedRecord> {
    let place = entry.shown.as_str();
    supported(&value, "the journal record", version::JOURNAL, place, notes)?;
    let metrics = value.get_mut("metrics")?;
    supported(metrics, "the record's report", version::REPORT, place, notes)?;
    super::structures::refuse_newer(metrics, place, notes);
    check_labels(&value, place, notes);
    let step = step_of(entry, &value, notes)?;
    let host_elapsed_ns = elapsed(&value, place, notes);
    let metrics = value.get("metrics")?;
    let observed_ns = observed(metrics, place, notes);
    let values = paths.record(metrics);
    let component = metrics.pointer("/configuration/component").and_then(Value::as_str).map(str::to_string);
    let session_id = super::report::session_of(metrics);
    let mut part = |path: &str| value.pointer_mut(path).map_or(Value::Null, Value::take);
    let (configuration, state) = (part("/metrics/configuration"), part("/metrics/runtime/state"));
    let record = Record { file: place.into(), step, host_elapsed_ns, observed_ns, values };
    Some(LoadedRecord { record, component, session_id, configuration, state })
}

fn check_labels(value: &Value, place: &str, notes: &mut Notes) {
    if value.get("observation").and_then(Value::as_str) != Some(OBSERVATION) {
        let got = value.get("observation").map_or_else(|| "missing".into(), |label| shorten(&label.to_string()));
        notes.add(Finding::error("wrong_observation_label", place, format!("observation is {got}; it must be {OBSERVATION:?}")));
    }
    for key in ["gpu_completion_proven", "completion_collection_requested"] {
        if value.get(key) != Some(&Value::Bool(false)) {
            let got = value.get(key).map_or_else(|| "missing".into(), |label| shorten(&label.to_string()));
            let text = format!("{key} is {got}; a step boundary proves nothing, so it must be false");
            notes.add(Finding::error("wrapper_label_not_fixed", place, text));
        }
    }
    for key in value.as_object().into_iter().flat_map(|map| map.keys()) {
        if catalogue::find(&format!("journal.{key}")).is_none() {
            let text = "this field of the record's wrapper has no catalogue row";
            notes.add(Finding::note("unknown_field", shorten(&format!("journal.{key}")), text));
        }
    }
}

/// The step by the record's own word; the file name is checked against it.
fn step_of(entry: &Entry, value: &Value, notes: &mut Notes) -> Option<Option<u64>> {
    let place = entry.shown.as_str();
    let stated = match value.get("step_index") {
        Some(Value::Null) => Some(None),
        Some(index) => index.as_u64().map(Some),
        None => None,
    };
    let named = RecordName::parse(entry.name()).map(|name| match name {
        RecordName::Before => None,
        RecordName::Step(step) => Some(step),
    });
    let words = |step: Option<u64>| step.map_or_else(|| "before the first step".to_string(), |step| format!("step {step}"));
    if named.is_none() {
        let text = "holds a journal record, but no journal gives a record this name; it may be a copy";
        notes.add(Finding::warning("record_name_not_canonical", place, text));
    }
    match (stated, named) {
        (Some(stated), Some(named)) if stated != named => {
            let text = format!("the file name says {}, step_index says {}; the latter counts", words(named), words(stated));
            notes.add(Finding::error("step_index_mismatch", place, text));
            Some(stated)
        }
        (Some(stated), _) => Some(stated),
        (None, Some(named)) => {
            let text = format!("step_index is missing or no whole number; taken from the file name: {}", words(named));
            notes.add(Finding::error("step_index_missing", place, text));
            Some(named)
        }
        (None, None) => {
            notes.add(Finding::error("step_index_missing", place, "neither step_index nor the file name says which step it is"));
            None
        }
    }
}

/// When the record was taken on the manifest's clock; older records do not say it.
fn observed(metrics: &Value, place: &str, notes: &mut Notes) -> Option<i64> {
    let stated = metrics.pointer("/runtime/observed_monotonic_seconds")?;
    let observed = stated.as_f64().and_then(nanoseconds);
    if observed.is_none() {
        let text = "observed_monotonic_seconds is no usable number; the record is placed by host_elapsed_seconds";
        notes.add(Finding::warning("observed_time_unusable", place, text));
    }
    observed
}

fn elapsed(value: &Value, place: &str, notes: &mut Notes) -> Option<i64> {
    let elapsed = value.get("host_elapsed_seconds").and_then(Value::as_f64).and_then(nanoseconds);
    match elapsed {
        Some(ns) if ns >= 0 => Some(ns),
        Some(_) => {
            notes.add(Finding::error(
                "host_elapsed_negative",
                place,
                "host_elapsed_seconds is below zero; the time was not used",
            ));
            None
        }
        None => {
            notes.add(Finding::warning("host_elapsed_missing", place, "host_elapsed_seconds is missing or no number"));
            None
        }
    }
}
