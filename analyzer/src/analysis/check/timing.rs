//! Checks of step times and stream windows: "Do markers, samples and summaries tell one story?"
//!
//! Uses `run` and `overlap`. Invariant: tolerances follow from how the times were made: elapsed times of device events are
//! f32 milliseconds, so that each is rounded by up to half a unit in its last place.

use super::facts::{Found, real, text};
use crate::analysis::{overlap, steps as step_times};
use crate::run::{LoadedReport, Timeline};
use ddo_schemas::sections::ExecutionTiming;
use ddo_schemas::timeline::{END_MARKER, Sample, SampleKind, SampleStatus};
use std::collections::BTreeSet;

const TIMING: &str = "runtime.execution_timing";
const TIMELINE: &str = "runtime.native_timeline";

/// Accepted relative difference of a mean that was formed in f64 from the listed numbers.
const MEAN_TOLERANCE: f64 = 1e-9;

fn complete(timing: &ExecutionTiming) -> bool {
    timing.status == "complete" && !timing.failed
}

pub(super) fn status(report: &LoadedReport) -> Vec<Found> {
    let Some(timing) = &report.timing else { return Vec::new() };
    let given = [
        ("phase_seconds", timing.phase_seconds.is_some()),
        ("step_seconds", timing.step_seconds.is_some()),
        ("tail_seconds", timing.tail_seconds.is_some()),
    ];
    let some: Vec<&str> = given.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect();
    let done = timing.status == "complete";
    // A failed phase may have times; they are not used.
    let ok = if done { some.len() == given.len() || timing.failed } else { some.is_empty() };
    let expected = if done { "phase, steps and tail" } else { "no duration" };
    let got = format!("{} with {}", timing.status, if some.is_empty() { "none".into() } else { some.join(", ") });
    vec![Found::that(&format!("{TIMING}.status"), expected, got, ok)]
}

/// Each of the steps, the tail and the phase is the difference of two event times, and each such time is an f32: an interval
/// is off by at most one unit in the last place of the longest, `phase x 2^-23`, or by the clock's recorded resolution. The
/// recorded runs stay below a tenth of this bound.
pub(super) fn steps_and_tail(report: &LoadedReport) -> Vec<Found> {
    let Some(timing) = report.timing.as_ref().filter(|timing| complete(timing)) else { return Vec::new() };
    let field = format!("{TIMING}.phase_seconds");
    let (Some(phase), Some(steps), Some(tail)) = (timing.phase_seconds, &timing.step_seconds, timing.tail_seconds) else {
        return vec![Found::unavailable(&field, &["its steps or its tail".to_string()])];
    };
    let sum = steps.iter().map(|step| step.0).sum::<f64>() + tail.0;
    let resolution = timing.resolution_seconds.map_or(f64::default(), |seconds| seconds.0);
    let tolerance = (steps.len() + 2) as f64 * (phase.0.abs() * f64::from(f32::EPSILON)).max(resolution);
    let ok = (sum - phase.0).abs() <= tolerance;
    let expected = text(format!("{sum} s within {tolerance:.1e} s"));
    vec![Found::new(field, expected, real(phase.0), ok)]
}

pub(super) fn steady(report: &LoadedReport) -> Vec<Found> {
    let Some(timing) = report.timing.as_ref().filter(|timing| complete(timing)) else { return Vec::new() };
    let field = format!("{TIMING}.steady_state_seconds_per_step");
    let Some(steps) = &timing.step_seconds else { return vec![Found::unavailable(&field, &[format!("{TIMING}.step_seconds")])] };
    let got = timing.steady_state_seconds_per_step.map(|seconds| seconds.0);
    let Some(mean) = step_times::steady(steps) else {
        let shown = got.map_or_else(|| "none".to_string(), |seconds| format!("{seconds} s"));
        return vec![Found::that(&field, "none with fewer than two steps", shown, got.is_none())];
    };
    let Some(got) = got else { return vec![Found::that(&field, format!("{mean} s"), "none", false)] };
    let ok = (got - mean).abs() <= MEAN_TOLERANCE * mean.abs();
    vec![Found::new(field, real(mean), real(got), ok)]
}

fn all_complete(timeline: &Timeline) -> bool {
    timeline.recorded.status == "complete"
}

/// The start is marker 0 and the end has a number of its own; between them stand the steps in order. A timeline that was
/// read before its phase ended has no end yet, so the end is asked for only where the timing is complete as well.
pub(super) fn markers(report: &LoadedReport) -> Vec<Found> {
    let Some(timeline) = report.timeline.as_ref().filter(|timeline| all_complete(timeline)) else { return Vec::new() };
    let marker = |sample: &&Sample| sample.kind == SampleKind::StepMarker;
    let mut units: Vec<u64> = timeline.recorded.samples.iter().filter(marker).map(|sample| sample.unit).collect();
    units.sort_unstable();
    let ended = units.last() == Some(&END_MARKER);
    let steps = report.timing.as_ref().filter(|timing| complete(timing)).and_then(|timing| timing.step_seconds.as_ref());
    let count = match steps {
        Some(steps) => steps.len() as u64,
        None => (units.len() as u64).saturating_sub(1 + u64::from(ended)),
    };
    let mut expected: Vec<u64> = (0..=count).collect();
    if ended || steps.is_some() {
        expected.push(END_MARKER);
    }
    let words = |units: &[u64]| {
        let word = |unit: &u64| if *unit == END_MARKER { "end".to_string() } else { unit.to_string() };
        units.iter().map(word).collect::<Vec<_>>().join(" ")
    };
    let field = format!("{TIMELINE}.samples");
    vec![Found::that(&field, format!("markers {}", words(&expected)), format!("markers {}", words(&units)), units == expected)]
}

pub(super) fn timeline_status(report: &LoadedReport) -> Vec<Found> {
    let Some(timeline) = &report.timeline else { return Vec::new() };
    let recorded = &timeline.recorded;
    let has = |status: SampleStatus| recorded.samples.iter().any(|sample| sample.status == status);
    let expected = if recorded.failures > 0 || has(SampleStatus::Failed) {
        "failed"
    } else if recorded.dropped > 0 {
        "truncated"
    } else if recorded.pending > 0 || has(SampleStatus::Pending) {
        "pending"
    } else {
        "complete"
    };
    vec![Found::that(&format!("{TIMELINE}.status"), expected, recorded.status.clone(), recorded.status == expected)]
}

pub(super) fn samples(report: &LoadedReport) -> Vec<Found> {
    let Some(timeline) = &report.timeline else { return Vec::new() };
    let recorded = &timeline.recorded;
    let kept = recorded.samples.len() as i128;
    let list = format!("{TIMELINE}.samples");
    let mut found = vec![Found::at_most(&list, recorded.capacity.into(), "capacity", kept)];
    if recorded.dropped > 0 {
        found.push(Found::equal(&format!("{TIMELINE}.capacity"), kept, recorded.capacity.into()));
    }
    let pending = recorded.samples.iter().filter(|sample| sample.status == SampleStatus::Pending).count();
    found.push(Found::equal(&format!("{TIMELINE}.pending"), pending as i128, recorded.pending.into()));
    let sequences: BTreeSet<u64> = recorded.samples.iter().map(|sample| sample.sequence).collect();
    found.push(Found::equal(&format!("{list}[].sequence"), kept, sequences.len() as i128));
    let timed = |sample: &&Sample| {
        let times = (sample.start_seconds, sample.end_seconds);
        match sample.status {
            SampleStatus::Complete => matches!(times, (Some(start), Some(end)) if start.0 <= end.0),
            SampleStatus::Pending | SampleStatus::Failed => times == (None, None),
        }
    };
    let wrong = recorded.samples.iter().filter(|sample| !timed(sample)).count();
    let got = format!("{wrong} samples otherwise");
    found.push(Found::that(&format!("{list}[].start_seconds"), "times in order where complete, none elsewhere", got, wrong == 0));
    found
}

pub(super) fn summary_complete(report: &LoadedReport) -> Vec<Found> {
    let Some(timeline) = &report.timeline else { return Vec::new() };
    let recorded = &timeline.recorded;
    let mut found = Vec::new();
    if recorded.window_summary.is_some() {
        let field = format!("{TIMELINE}.window_summary");
        found.push(Found::that(&field, "a complete timeline", recorded.status.clone(), all_complete(timeline)));
    }
    if recorded.warm_window_summary.is_some() {
        let both = timeline.marker(1).is_some() && timeline.marker(END_MARKER).is_some();
        let got = format!("{}, markers {}", recorded.status, if both { "there" } else { "missing" });
        let field = format!("{TIMELINE}.warm_window_summary");
        found.push(Found::that(&field, "a complete timeline with markers 1 and end", got, all_complete(timeline) && both));
    }
    found
}

/// Within 1e-12, absolute or relative, in the numbers that the windows were recorded with.
pub(super) fn summary_recomputed(report: &LoadedReport) -> Vec<Found> {
    let Some(timeline) = &report.timeline else { return Vec::new() };
    if timeline.recorded.window_summary.is_none() && timeline.recorded.warm_window_summary.is_none() {
        return Vec::new();
    }
    let different = overlap::verify(report);
    if different.is_empty() {
        return vec![Found::that(&format!("{TIMELINE}.window_summary"), "what the windows give", "the same", true)];
    }
    let one = |finding: ddo_schemas::Finding| {
        Found::that(&format!("{TIMELINE}.window_summary"), "what the windows give", finding.text, false)
    };
    different.into_iter().map(one).collect()
}
