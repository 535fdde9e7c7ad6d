//! Detached reports: "What did one snapshot say?"
//!
//! Uses `flatten` and the declared structures. Invariant: a part that cannot be read is a finding; the other parts
//! of the report still count.

use super::document::supported;
use super::flatten::Paths;
use super::notes::Notes;
use super::walk::Entry;
use super::{diagnostics, structures};
use crate::run::shorten;
use crate::run::{LoadedReport, Timeline, WindowState};
use ddo_schemas::sections::ExecutionTiming;
use ddo_schemas::timeline::{NativeTimeline, Sample};
use ddo_schemas::{Finding, version};
use serde_json::Value;

/// Reads one report; `None` where its version is not known.
pub(super) fn read(entry: &Entry, mut value: Value, paths: &mut Paths, notes: &mut Notes) -> Option<LoadedReport> {
    let place = entry.shown.as_str();
    supported(&value, "the report", version::REPORT, place, notes)?;
    structures::refuse_newer(&mut value, place, notes);
    let values = paths.report(&value);
    let diagnostics = diagnostics_of(&value);
    let part = |value: &mut Value, key: &str| value.get_mut("runtime").and_then(|runtime| runtime.get_mut(key)).map(Value::take);
    let timing = part(&mut value, "execution_timing").and_then(|timing| read_timing(timing, place, notes));
    let timeline = part(&mut value, "native_timeline").and_then(|timeline| read_timeline(timeline, place, notes));
    let operators = part(&mut value, "operator_diagnostics").and_then(|found| diagnostics::operators(&found, place, notes));
    let allocation = part(&mut value, "allocation_diagnostics").and_then(|found| diagnostics::allocation(&found, place, notes));
    let state = part(&mut value, "state").unwrap_or(Value::Null);
    Some(LoadedReport {
        file: place.into(),
        session_id: session_of(&value),
        route: value.get("route").and_then(Value::as_str).map(str::to_string),
        configuration: value.get_mut("configuration").map_or(Value::Null, Value::take),
        state,
        setup: value.get_mut("setup").map_or(Value::Null, Value::take),
        diagnostics,
        values,
        timing,
        timeline,
        operators,
        allocation,
    })
}

/// The diagnostic scopes of a report, kept as recorded for the checks.
fn diagnostics_of(report: &Value) -> Value {
    let runtime = report.get("runtime");
    let scope = |key: &str| Some((key.to_string(), runtime?.get(key)?.clone()));
    Value::Object(["allocation_diagnostics", "operator_diagnostics"].into_iter().filter_map(scope).collect())
}

/// The session that a report or a record's metrics name.
pub(super) fn session_of(report: &Value) -> Option<String> {
    report.pointer("/runtime/session_id").and_then(Value::as_str).map(str::to_string)
}

fn read_timing(value: Value, place: &str, notes: &mut Notes) -> Option<ExecutionTiming> {
    match serde_json::from_value::<ExecutionTiming>(value) {
        Ok(timing) => {
            if timing.failed {
                notes.add(Finding::warning(
                    "timing_failed",
                    place,
                    "the timed phase ended with an error; its times are not used",
                ));
            }
            Some(timing)
        }
        Err(error) => {
            let text = format!("the execution timing could not be read: {}", shorten(&error.to_string()));
            notes.add(Finding::error("timing_unreadable", place, text));
            None
        }
    }
}

fn read_timeline(mut value: Value, place: &str, notes: &mut Notes) -> Option<Timeline> {
    // Samples one by one, so that a broken one does not cost the others.
    let samples = value.get_mut("samples").map(|samples| std::mem::replace(samples, Value::Array(Vec::new())));
    let mut timeline = match serde_json::from_value::<NativeTimeline>(value) {
        Ok(timeline) => timeline,
        Err(error) => {
            let text = format!("the native timeline could not be read: {}", shorten(&error.to_string()));
            notes.add(Finding::error("timeline_unreadable", place, text));
            return None;
        }
    };
    let Some(Value::Array(samples)) = samples else {
        notes.add(Finding::error("timeline_unreadable", place, "samples is no list"));
        return None;
    };
    let mut bad = 0_usize;
    let mut first = String::new();
    for sample in samples {
        match serde_json::from_value::<Sample>(sample) {
            Ok(sample) => timeline.samples.push(sample),
            Err(error) => {
                bad += 1;
                if bad == 1 {
                    first = shorten(&error.to_string());
                }
            }
        }
    }
    if bad > 0 {
        let text = format!("{bad} sample(s) of the native timeline could not be read; the first: {first}");
        notes.add(Finding::error("timeline_sample_unreadable", place, text));
    }
    let timeline = Timeline::new(timeline);
    judge(&timeline, place, notes);
    Some(timeline)
}

fn judge(timeline: &Timeline, place: &str, notes: &mut Notes) {
    let recorded = &timeline.recorded;
    let count = |state: WindowState| timeline.windows.iter().filter(|window| window.state == state).count();
    if recorded.dropped > 0 {
        let without = if recorded.window_summary.is_none() { " and has no summary" } else { "" };
        let text = format!(
            "{} window(s) found no room in {} samples; the timeline is truncated{without}",
            recorded.dropped, recorded.capacity
        );
        notes.add(Finding::warning("timeline_truncated", place, text));
    }
    if recorded.status != "complete" && (recorded.window_summary.is_some() || recorded.warm_window_summary.is_some()) {
        let text = format!("has a summary, though its status is {}; only a complete timeline may", shorten(&recorded.status));
        notes.add(Finding::error("summary_of_partial_timeline", place, text));
    }
    if recorded.failures > 0 {
        notes.add(Finding::warning("timeline_failures", place, format!("{} marker call(s) failed", recorded.failures)));
    }
    for (state, code, words) in [
        (WindowState::Pending, "timeline_pending", "were still in flight when the report was taken"),
        (WindowState::Failed, "timeline_samples_failed", "failed and have no times"),
        (WindowState::Contradictory, "timeline_samples_contradict", "are called complete without usable times"),
    ] {
        let samples = count(state);
        if samples > 0 {
            notes.add(Finding::warning(code, place, format!("{samples} window(s) {words}")));
        }
    }
}
