//! Diagnostic scopes: "What did the driver calls and the operators take?"
//!
//! Uses `document`. Invariants: host times are called host times; steps and invocations are numbered from one, as people count; a scope that did not complete shows
//! its status and no invented rows.

use super::document::{Document, Form, UNAVAILABLE, decimals, show};
use crate::limits::{PROFILE_ALLOCATION_STEPS, PROFILE_OPERATOR_ROWS};
use crate::run::{AllocationStep, OperatorRow, OperatorSample, Scalar, shorten};

/// Names in a line, and the counters behind them.
const ALWAYS: [(&str, &str); 5] = [
    ("create_s", "create_host_seconds"),
    ("map_s", "map_host_seconds"),
    ("access_s", "access_host_seconds"),
    ("unmap_s", "unmap_host_seconds"),
    ("release_s", "release_host_seconds"),
];

/// Newer native counters; older scopes lack them.
const NEWER: [(&str, &str, Form); 3] = [
    ("access_retry_sync_s", "access_retry_sync_host_seconds", Form::Seconds),
    ("fault_range_s", "fault_range_host_seconds", Form::Seconds),
    ("access_not_ready_calls", "access_return_not_ready_calls", Form::Plain),
];

fn word(value: Option<&str>) -> String {
    value.map_or_else(|| UNAVAILABLE.into(), shorten)
}

fn seconds(value: Option<f64>) -> String {
    value.map_or_else(|| UNAVAILABLE.into(), |value| decimals(value, 6))
}

fn count(value: Option<u64>) -> String {
    value.map_or_else(|| UNAVAILABLE.into(), |value| value.to_string())
}

/// A zero-based number as people count.
fn ordinal(value: Option<u64>) -> String {
    count(value.and_then(|value| value.checked_add(1)))
}

/// Driver calls of the memory of a phase, by step.
pub(super) fn allocation(document: &Document<'_>, lines: &mut Vec<String>) {
    let Some(found) = document.report.and_then(|report| report.allocation.as_ref()) else { return };
    lines.push(format!(
        "allocation_diagnostics={} steps={} host_scope_s={} (host time of driver calls; not a benchmark)",
        word(found.status.as_deref()),
        found.steps.len(),
        seconds(found.host_scope_seconds)
    ));
    lines.extend(found.steps.iter().take(PROFILE_ALLOCATION_STEPS).map(step));
    let rest = found.steps.len().saturating_sub(PROFILE_ALLOCATION_STEPS);
    if rest > 0 {
        lines.push(format!("allocation_steps_left_out={rest}"));
    }
}

fn step(step: &AllocationStep) -> String {
    let value = |name: &str, form: Form| step.driver_delta.get(name).map(|value: &Scalar| show(value, form));
    let mut text = format!("allocation_step={} host_submit_s={}", ordinal(step.step), seconds(step.host_submission_seconds));
    for (name, field) in ALWAYS {
        let shown = value(field, Form::Seconds).unwrap_or_else(|| UNAVAILABLE.into());
        text.push_str(&format!(" {name}={shown}"));
    }
    for (name, field, form) in NEWER {
        if let Some(shown) = value(field, form) {
            text.push_str(&format!(" {name}={shown}"));
        }
    }
    text
}

/// Profiled forwards of one module.
pub(super) fn operators(document: &Document<'_>, lines: &mut Vec<String>) {
    let Some(found) = document.report.and_then(|report| report.operators.as_ref()) else { return };
    lines.push(format!(
        "operator_diagnostics={} module={} observed={} (selected forwards under a profiler; not a benchmark)",
        word(found.status.as_deref()),
        word(found.module_path.as_deref()),
        count(found.observed)
    ));
    for sample in &found.samples {
        lines.push(invocation(sample));
        lines.extend(sample.top_host.iter().take(PROFILE_OPERATOR_ROWS).map(host_row));
        lines.extend(sample.top_device.iter().take(PROFILE_OPERATOR_ROWS).map(device_row));
    }
}

fn invocation(sample: &OperatorSample) -> String {
    format!(
        "operator_invocation={} forward_host_s={} profiler_stop_s={} operators={} device_events={}",
        ordinal(sample.invocation),
        seconds(sample.host_forward_seconds),
        seconds(sample.profiler_stop_seconds),
        count(sample.operator_count),
        count(sample.device_activity_events)
    )
}

fn host_row(row: &OperatorRow) -> String {
    let (own, all) = (seconds(row.self_host_seconds), seconds(row.host_seconds));
    format!("  top_host={} calls={} self_s={own} total_s={all}", shorten(&row.name), count(row.calls))
}

fn device_row(row: &OperatorRow) -> String {
    let (own, all) = (seconds(row.self_device_seconds), seconds(row.device_seconds));
    format!("  top_device={} calls={} self_s={own} total_s={all}", shorten(&row.name), count(row.calls))
}
