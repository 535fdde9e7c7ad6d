//! Generation observations of a host tracker: "Which repeats with one model were observed?"
//!
//! Uses `report`. Invariants: an observation that cannot be read is a finding, the others still count; the number of observations is
//! bounded; a null report is no report and no finding.

use super::flatten::Paths;
use super::notes::Notes;
use super::report;
use super::walk::Entry;
use crate::limits::MAX_GENERATION_OBSERVATIONS;
use crate::run::{Generation, LoadedReport};
use ddo_schemas::Finding;
use serde_json::Value;

/// The key of the list in a tracker's report.
pub(super) const KEY: &str = "generation_observations";

/// Takes the observations out of a tracker's report, each with its report.
pub(super) fn take(
    entry: &Entry,
    tracker: &mut Value,
    paths: &mut Paths,
    notes: &mut Notes,
) -> Vec<(Generation, Option<LoadedReport>)> {
    let Some(list) = tracker.get_mut(KEY).map(Value::take).filter(|list| !list.is_null()) else { return Vec::new() };
    let Value::Array(list) = list else {
        notes.add(Finding::error("generations_unreadable", &entry.shown, format!("{KEY} is no list")));
        return Vec::new();
    };
    if list.len() > MAX_GENERATION_OBSERVATIONS {
        let (got, limit) = (list.len(), MAX_GENERATION_OBSERVATIONS);
        notes.add(Finding::error("generations_too_many", &entry.shown, format!("has {got} generations; the limit is {limit}")));
    }
    let several = list.len() > 1;
    let list = list.into_iter().take(MAX_GENERATION_OBSERVATIONS);
    list.filter_map(|one| generation(entry, one, several, paths, notes)).collect()
}

fn generation(
    entry: &Entry,
    mut one: Value,
    several: bool,
    paths: &mut Paths,
    notes: &mut Notes,
) -> Option<(Generation, Option<LoadedReport>)> {
    let index = one.get("repeat_index").and_then(Value::as_u64);
    let elapsed_seconds = one.get("elapsed_seconds").and_then(Value::as_f64).filter(|seconds| *seconds >= 0.0);
    let (Some(number), Some(_)) = (index, elapsed_seconds) else {
        let text = "holds a generation without a whole number as repeat_index or without a time as elapsed_seconds";
        notes.add(Finding::error("generation_unreadable", &entry.shown, text));
        return None;
    };
    let report = one.get_mut("ddo_report").map(Value::take).filter(|report| !report.is_null());
    let mut report = report.and_then(|report| report::read(entry, report, paths, notes));
    if let Some(report) = report.as_mut().filter(|_| several) {
        // Reports are told apart by their files.
        let stem = entry.shown.strip_suffix(".json").unwrap_or(&entry.shown);
        report.file = format!("{stem}.generation_{number:04}.json");
    }
    let named = report.as_ref().and_then(|report| report.configuration.get("component")?.as_str().map(str::to_owned));
    let component = named.or_else(|| of_folder(entry.folder()));
    let file = report.as_ref().map(|report| report.file.clone());
    Some((Generation { component, index, elapsed_seconds, report: file }, report))
}

/// The component in `generations/COMPONENT`.
fn of_folder(folder: &str) -> Option<String> {
    let (above, name) = folder.rsplit_once('/')?;
    (above == "generations" || above.ends_with("/generations")).then(|| name.to_owned())
}
