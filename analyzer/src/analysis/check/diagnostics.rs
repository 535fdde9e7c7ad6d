//! Checks of allocation and operator diagnostics: "Do the parts of a diagnostic scope agree?"
//!
//! Uses the recorded structures. Invariant: counters that are read while others count are held to a named tolerance, all
//! others exactly.

use super::facts::{Found, items, whole_at};
use crate::run::LoadedReport;
use serde_json::Value;

const ALLOCATION: &str = "runtime.allocation_diagnostics";
const OPERATORS: &str = "runtime.operator_diagnostics";

/// Threads that may be between a call and its category while the counters are read.
const CONCURRENT_CALLS: i128 = 16;
/// Rows that a top list keeps.
const TOP_ROWS: usize = 40;
/// Accepted excess of an own time over the inclusive one: microseconds become seconds in f64.
const ROW_TOLERANCE: f64 = 1e-9;

const RETURNS: [&str; 4] = [
    "access_return_success_calls",
    "access_return_not_ready_calls",
    "access_return_out_of_memory_calls",
    "access_return_other_calls",
];

fn recorded<'a>(report: &'a LoadedReport, scope: &str) -> &'a Value {
    report.diagnostics.get(scope).unwrap_or(&Value::Null)
}

/// The total and every step: a list of (path, counters).
fn deltas(report: &LoadedReport) -> Vec<(String, &Value)> {
    let all = recorded(report, "allocation_diagnostics");
    let total = all.get("total_delta").map(|delta| (format!("{ALLOCATION}.total_delta"), delta));
    let steps = items(all, "/steps")
        .iter()
        .enumerate()
        .filter_map(|(at, step)| Some((format!("{ALLOCATION}.steps[{at}].driver_delta"), step.get("driver_delta")?)));
    total.into_iter().chain(steps).collect()
}

/// Return categories are counted beside the calls, without a lock, so they may differ by the calls under way.
pub(super) fn calls(report: &LoadedReport) -> Vec<Found> {
    let mut found = Vec::new();
    for (path, delta) in deltas(report) {
        for (name, failed) in delta.as_object().into_iter().flatten().filter(|(name, _)| name.ends_with("_failed_calls")) {
            let around = name.replace("_failed_calls", "_calls");
            let (Some(failed), Some(calls)) = (failed.as_u64(), whole_at(delta, &format!("/{around}"))) else { continue };
            found.push(Found::at_most(&format!("{path}.{name}"), calls, &around, failed.into()));
        }
        let returns: Option<i128> = RETURNS.iter().map(|name| whole_at(delta, &format!("/{name}"))).sum();
        if let (Some(returns), Some(calls)) = (returns, whole_at(delta, "/access_calls")) {
            let ok = (returns - calls).abs() <= CONCURRENT_CALLS;
            let expected = format!("{returns}, within {CONCURRENT_CALLS} concurrent calls");
            found.push(Found::that(&format!("{path}.access_calls"), expected, calls.to_string(), ok));
        }
    }
    found
}

/// What happens after the last marked step, such as the readback, is part of the whole and of no step. So the steps add up
/// to the whole only where nothing follows them, and to less elsewhere.
pub(super) fn steps(report: &LoadedReport) -> Vec<Found> {
    let steps = items(recorded(report, "allocation_diagnostics"), "/steps");
    let Some(total) = recorded(report, "allocation_diagnostics").get("total_delta").and_then(Value::as_object) else {
        return Vec::new();
    };
    if steps.is_empty() {
        return Vec::new();
    }
    let mut found = Vec::new();
    for (name, value) in total.iter().filter(|(_, value)| value.is_u64()) {
        let parts: Option<i128> = steps.iter().map(|step| whole_at(step, &format!("/driver_delta/{name}"))).sum();
        let field = format!("{ALLOCATION}.steps[].driver_delta.{name}");
        match (parts, value.as_u64()) {
            (Some(parts), Some(whole)) => found.push(Found::at_most(&field, whole.into(), "total_delta", parts)),
            _ => found.push(Found::unavailable(&field, std::slice::from_ref(name))),
        }
    }
    found
}

pub(super) fn rows(report: &LoadedReport) -> Vec<Found> {
    let mut found = Vec::new();
    for (at, sample) in items(recorded(report, "operator_diagnostics"), "/samples").iter().enumerate() {
        for list in ["top_host", "top_device", "child_ranges"] {
            let rows = items(sample, &format!("/{list}"));
            let exceeds = |row: &&Value, own: &str, all: &str| {
                let number = |name: &str| row.get(name).and_then(Value::as_f64);
                matches!((number(own), number(all)), (Some(own), Some(all)) if own > all + ROW_TOLERANCE)
            };
            let wrong = |row: &&Value| {
                exceeds(row, "self_host_seconds", "host_seconds") || exceeds(row, "self_device_seconds", "device_seconds")
            };
            let field = format!("{OPERATORS}.samples[{at}].{list}");
            let first = rows.iter().find(wrong).and_then(|row| row.get("name")).and_then(Value::as_str);
            let got = first.map_or_else(|| format!("{} rows", rows.len()), |name| format!("more in {name}"));
            found.push(Found::that(&field, "own time within inclusive time", got, first.is_none()));
            if list != "child_ranges" {
                found.push(Found::at_most(&field, TOP_ROWS as i128, "rows of a top list", rows.len() as i128));
            }
        }
    }
    found
}

pub(super) fn samples(report: &LoadedReport) -> Vec<Found> {
    let all = recorded(report, "operator_diagnostics");
    let Some(status) = all.get("status").and_then(Value::as_str) else { return Vec::new() };
    let numbers =
        |list: &[Value], pointer: &str| -> Vec<i128> { list.iter().filter_map(|item| whole_at(item, pointer)).collect() };
    let requested = numbers(items(all, "/requested_invocations"), "");
    let captured = numbers(items(all, "/samples"), "/invocation_index");
    let mut found = Vec::new();
    let asked = captured.iter().all(|index| requested.contains(index));
    let field = format!("{OPERATORS}.samples[].invocation_index");
    found.push(Found::that(&field, format!("some of {requested:?}"), format!("{captured:?}"), asked));
    if let (Some(observed), Some(last)) = (whole_at(all, "/observed_invocations"), captured.iter().max()) {
        found.push(Found::at_most(&field, observed - 1, "observed_invocations - 1", *last));
    }
    if status == "complete" {
        let whole = requested.iter().all(|index| captured.contains(index));
        let got = format!("{} of {}", captured.len(), requested.len());
        found.push(Found::that(&format!("{OPERATORS}.status"), "every requested capture", got, whole));
    }
    found
}
