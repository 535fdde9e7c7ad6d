//! Figures from windows: "What did the streams pass through?"
//!
//! Uses `run` and `overlap`. Invariants: window geometry is never called engine activity; the rate is a lower bound
//! with its label; bytes are a sum only where every window has them.

use super::overlap::{clip, union};
use crate::limits::{SLOWEST_UNITS, TAIL_SHARE};
use crate::run::{Timeline, Window};
use ddo_schemas::timeline::{END_MARKER, SampleKind};
use std::collections::BTreeMap;

/// The label that travels with [`Uploads::rate`].
pub const RATE_LABEL: &str = "window geometry, a lower bound, not a DMA rate";

/// Windows of one kind.
#[derive(Clone, Debug, PartialEq)]
pub struct KindFigures {
    /// The kind.
    pub kind: SampleKind,
    /// Complete windows.
    pub count: usize,
    /// Time in which at least one was open.
    pub union_ns: i64,
    /// Payload of all of them; `None` unless every one has it.
    pub bytes: Option<u64>,
}

/// Upload windows of the warm steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Uploads {
    /// Windows that were open at some time in the span.
    pub windows: usize,
    /// Those of them that ended in the span.
    pub ended: usize,
    /// Payload of those that ended in the span; `None` unless every one has it.
    pub bytes: Option<u64>,
    /// Time of the span in which at least one was open.
    pub union_ns: i64,
    /// Time of the span in which none was open.
    pub idle_ns: i64,
    /// The span that both refer to.
    pub span_ns: i64,
    /// Steps in the span, where the markers count them.
    pub steps: Option<u64>,
    /// `upload_window_rate` in bytes per second: see [`RATE_LABEL`].
    pub rate: Option<f64>,
}

/// Forward windows of one unit.
#[derive(Clone, Debug, PartialEq)]
pub struct UnitFigures {
    /// Module name, or the run-local number.
    pub name: String,
    /// Windows.
    pub count: usize,
    /// Mean length.
    pub mean_ns: i64,
    /// Longest.
    pub max_ns: i64,
}

/// Complete windows by kind; kinds without any are left out.
pub fn by_kind(timeline: &Timeline) -> Vec<KindFigures> {
    let figures = SampleKind::WINDOWS.into_iter().map(|kind| {
        let windows: Vec<&Window> = timeline.windows.iter().filter(|w| w.kind == kind && w.times().is_some()).collect();
        let bytes = windows.iter().map(|window| window.bytes).try_fold(0_u64, |sum, bytes| sum.checked_add(bytes?));
        KindFigures { kind, count: windows.len(), union_ns: union(&timeline.intervals(kind)), bytes }
    });
    figures.filter(|figures| figures.count > 0).collect()
}

/// The number of the last step marker, complete or not; the marker that ends the phase is none of a step.
fn last_step(timeline: &Timeline) -> Option<u64> {
    let step = |window: &&Window| window.kind == SampleKind::StepMarker && window.unit != END_MARKER;
    timeline.windows.iter().filter(step).map(|window| window.unit).max()
}

/// From the end of the first step to the end of the last one, where both markers are complete.
///
/// What follows the last step is no step: see [`tail`].
pub fn warm_span(timeline: &Timeline) -> Option<(i64, i64)> {
    let (start, end) = (timeline.marker(1)?.0, timeline.marker(last_step(timeline)?)?.0);
    (start < end).then_some((start, end))
}

/// Time from the end of the last step to the end of the phase, where it is a relevant share of the phase.
pub fn tail(timeline: &Timeline) -> Option<i64> {
    let (start, last) = (timeline.marker(0)?.0, timeline.marker(last_step(timeline)?)?.0);
    let end = timeline.marker(END_MARKER)?.0;
    let tail = end - last;
    (tail > 0 && tail as f64 > TAIL_SHARE * (end - start) as f64).then_some(tail)
}

/// Upload windows of the warm span: all that were open in it, and the payload of those that ended in it.
pub fn warm_uploads(timeline: &Timeline) -> Option<Uploads> {
    let span = warm_span(timeline)?;
    let all = timeline.intervals(SampleKind::UploadBatchWindow);
    let windows = all.iter().filter(|(start, end)| *start < span.1 && *end > span.0).count();
    if windows == 0 {
        return None;
    }
    let inside = |window: &&Window| {
        window.kind == SampleKind::UploadBatchWindow && window.times().is_some_and(|(_, end)| end > span.0 && end <= span.1)
    };
    let ended: Vec<&Window> = timeline.windows.iter().filter(inside).collect();
    // Whole windows, also what lies before the span: the payload took all of it.
    let own: Vec<(i64, i64)> = ended.iter().filter_map(|window| window.times()).collect();
    let open = union(&clip(&all, span));
    let bytes = ended.iter().map(|window| window.bytes).try_fold(0_u64, |sum, bytes| sum.checked_add(bytes?));
    let own_union = union(&own);
    let rate = bytes.filter(|_| own_union > 0).map(|bytes| bytes as f64 / (own_union as f64 / 1e9));
    let span_ns = span.1 - span.0;
    let steps = last_step(timeline).and_then(|last| last.checked_sub(1)).filter(|steps| *steps > 0);
    Some(Uploads { windows, ended: ended.len(), bytes, union_ns: open, idle_ns: span_ns - open, span_ns, steps, rate })
}

/// Units by the mean length of their forward windows, slowest first.
pub fn slowest_units(timeline: &Timeline) -> Vec<UnitFigures> {
    let mut units: BTreeMap<u64, (usize, i64, i64)> = BTreeMap::new();
    for window in timeline.windows.iter().filter(|window| window.kind == SampleKind::ExecutionUnitWindow) {
        if let Some((start, end)) = window.times() {
            let entry = units.entry(window.unit).or_insert((0, 0, 0));
            *entry = (entry.0 + 1, entry.1.saturating_add(end - start), entry.2.max(end - start));
        }
    }
    let mut figures: Vec<UnitFigures> = units
        .into_iter()
        .map(|(unit, (count, sum, max_ns))| UnitFigures {
            name: timeline.unit_name(unit).map_or_else(|| format!("unit {unit}"), str::to_string),
            count,
            mean_ns: sum / count.max(1) as i64,
            max_ns,
        })
        .collect();
    figures.sort_by(|a, b| b.mean_ns.cmp(&a.mean_ns).then(a.name.cmp(&b.name)));
    figures.truncate(SLOWEST_UNITS);
    figures
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Marker or upload window from and to a second.
    fn sample(kind: &str, unit: u64, from: f64, to: f64) -> serde_json::Value {
        json!({"sequence": 1, "unit": unit, "stream": 1, "bytes": 10, "kind": kind, "status": "complete",
            "start_seconds": from, "end_seconds": to})
    }

    fn timeline(end: f64, uploads: &[(f64, f64)]) -> Timeline {
        let mut samples: Vec<_> = (0..4_u64).map(|at| sample("step_marker", at, at as f64, at as f64)).collect();
        samples.push(sample("step_marker", END_MARKER, end, end));
        samples.extend(uploads.iter().map(|(from, to)| sample("upload_batch_window", 0, *from, *to)));
        let recorded = json!({"schema_version": 1, "clock": "host_stream", "unit": "seconds", "scope": "s", "status": "complete",
            "capacity": 64, "dropped": 0, "failures": 0, "pending": 0, "samples": samples, "execution_units": {}});
        Timeline::new(serde_json::from_value(recorded).expect("a timeline"))
    }

    #[test]
    fn the_warm_span_ends_with_the_last_step() {
        let timeline = timeline(103.0, &[(1.5, 2.5)]);
        assert_eq!(warm_span(&timeline), Some((1_000_000_000, 3_000_000_000)));
        let uploads = warm_uploads(&timeline).expect("uploads");
        assert_eq!((uploads.idle_ns, uploads.steps), (1_000_000_000, Some(2)));
        assert_eq!(tail(&timeline), Some(100_000_000_000));
    }

    #[test]
    fn a_short_tail_is_not_named() {
        assert_eq!(tail(&timeline(3.01, &[])), None);
    }

    #[test]
    fn windows_that_cross_an_edge_count_and_their_bytes_where_they_end() {
        let uploads =
            warm_uploads(&timeline(4.0, &[(0.0, 0.5), (0.5, 1.5), (1.5, 2.0), (2.5, 3.5), (3.5, 3.9)])).expect("uploads");
        assert_eq!((uploads.windows, uploads.ended, uploads.bytes), (3, 2, Some(20)));
        assert_eq!((uploads.union_ns, uploads.idle_ns), (1_500_000_000, 500_000_000));
        assert_eq!(uploads.rate, Some(20.0 / 1.5), "payload over the whole windows");
    }
}
