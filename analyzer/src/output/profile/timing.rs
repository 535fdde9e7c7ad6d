//! Times on the streams: "How long did a step take, and how fast could it be?"
//!
//! Uses `document` and the steps, windows and floor of `analysis`. Invariants: times of a failed timer are not shown; windows are never called engine
//! activity; an efficiency needs both terms of the floor and a run that was no diagnosis.

use super::document::{Document, Form, Line, UNAVAILABLE, decimals};
use crate::analysis::{floor, steps, windows};
use crate::run::Scalar;
use ddo_schemas::summary::FloorTerm;
use ddo_schemas::timeline::SampleKind;

const TIMING: &str = "runtime.execution_timing";

fn timing(name: &str) -> String {
    format!("{TIMING}.{name}")
}

/// What the times' names begin with: markers of the host driver are none of CUDA.
fn clock(document: &Document<'_>) -> &'static str {
    match document.get(&timing("clock")) {
        Some(Scalar::Text(clock)) if clock == "cuda_event" => "cuda",
        _ => "stream",
    }
}

/// The timer of the compute stream.
pub(super) fn timer(document: &Document<'_>, lines: &mut Vec<String>) {
    let clock = clock(document);
    Line::new(document, &format!("{clock}_timing"))
        .bare(&timing("status"))
        .pair("scope", &timing("scope"), Form::Plain)
        .end("", lines);
    let wait = |name: &str| timing(&format!("diagnostic_step_wait.{name}"));
    if document.get(&wait("enabled")) == Some(Scalar::Bool(true)) {
        Line::new(document, "diagnostic_step_wait")
            .pair("calls", &wait("calls"), Form::Plain)
            .pair("host_s", &wait("host_seconds"), Form::Seconds)
            .end("the host waited at every step; not a benchmark", lines);
    }
    if document.get(&timing("failed")) == Some(Scalar::Bool(true)) {
        lines.push(format!("{clock}_phase_seconds={UNAVAILABLE} (the timed phase failed; its times are not used)"));
        return;
    }
    Line::new(document, &format!("{clock}_phase_seconds"))
        .lead(&timing("phase_seconds"), Form::Seconds)
        .optional("tail_seconds", &timing("tail_seconds"), Form::Seconds)
        .end("", lines);
    Line::new(document, &format!("{clock}_steady_state_seconds_per_step"))
        .lead(&timing("steady_state_seconds_per_step"), Form::Seconds)
        .end("", lines);
}

/// The native timeline, and the rate of its upload windows.
pub(super) fn timeline(document: &Document<'_>, lines: &mut Vec<String>) {
    let path = |name: &str| format!("runtime.native_timeline.{name}");
    let Some(timeline) = document.report.and_then(|report| report.timeline.as_ref()) else {
        return Line::new(document, "native_timeline")
            .lead(&path("status"), Form::Plain)
            .end("its samples could not be read", lines);
    };
    Line::new(document, "native_timeline")
        .bare(&path("status"))
        .word(&format!("samples={}", timeline.recorded.samples.len()))
        .pair("dropped", &path("dropped"), Form::Plain)
        .end("stream windows, not engine activity", lines);
    let Some(uploads) = windows::warm_uploads(timeline) else {
        let any = windows::by_kind(timeline).iter().any(|figures| figures.kind == SampleKind::UploadBatchWindow);
        let why = if any { "no upload windows between complete markers of warm steps" } else { "no upload windows" };
        return lines.push(format!("upload_window_rate={UNAVAILABLE} ({why})"));
    };
    let rate = uploads.rate.map_or_else(|| UNAVAILABLE.into(), floor::human_rate);
    let bytes = uploads.bytes.map_or_else(|| UNAVAILABLE.into(), |bytes| bytes.to_string());
    let seconds = |ns: i64| decimals(ns as f64 / 1e9, 6);
    lines.push(format!(
        "upload_window_rate={rate} windows={} bytes={bytes} open_s={} none_open_s={} (warm steps; {})",
        uploads.windows,
        seconds(uploads.union_ns),
        seconds(uploads.idle_ns),
        windows::RATE_LABEL
    ));
}

/// The least that a step could take, and how near it is.
pub(super) fn floor(document: &Document<'_>, lines: &mut Vec<String>) {
    let attached = document.report.is_none_or(|report| report.has_counters() || report.timing.is_some());
    if !attached {
        return;
    }
    let found = floor::of(document.component, &steps::of(document.component));
    let efficiency = match found.efficiency {
        _ if found.diagnostic => format!("{UNAVAILABLE} (a diagnostic run)"),
        Some(efficiency) => format!("{:.1}%", efficiency * 100.0),
        None => UNAVAILABLE.into(),
    };
    match found.seconds {
        Some(seconds) => lines.push(format!("floor_seconds_per_step={} efficiency={efficiency}", decimals(seconds, 6))),
        None => lines.push(format!("floor_seconds_per_step={UNAVAILABLE} (both the compute and the upload term must be known)")),
    }
    let terms = [("compute", &found.terms.compute), ("upload", &found.terms.upload), ("disk", &found.terms.disk)];
    lines.extend(terms.map(|(name, term)| format!("floor_{name}={}", in_words(term))));
}

fn in_words(term: &FloorTerm) -> String {
    match term.seconds.0 {
        Some(seconds) => format!("{} ({}: {})", decimals(seconds.0, 6), term.origin, term.basis),
        None => format!("{UNAVAILABLE} ({})", term.basis),
    }
}
