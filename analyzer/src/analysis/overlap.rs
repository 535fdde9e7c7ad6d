//! Lengths of overlapping windows: "For how long was at least one open?"
//!
//! Uses `run`. Invariants: intervals of zero or negative length are dropped before merging; integers are for drawing
//! and for figures, recorded summaries are checked in the floats that they were made from.

use crate::limits::{OVERLAP_TOLERANCE_NS, SUMMARY_TOLERANCE};
use crate::run::{LoadedReport, Timeline, nanoseconds};
use ddo_schemas::Finding;
use ddo_schemas::timeline::{END_MARKER, SampleKind, SampleStatus, UnionSeconds, WindowSummary};
use std::collections::{BTreeMap, BTreeSet};

/// A number that intervals are measured in.
pub trait Instant: Copy + PartialOrd + std::ops::Sub<Output = Self> + std::ops::Add<Output = Self> + Default {
    /// Total order for sorting.
    fn order(&self, other: &Self) -> std::cmp::Ordering;
}

impl Instant for i64 {
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        self.cmp(other)
    }
}

impl Instant for f64 {
    fn order(&self, other: &Self) -> std::cmp::Ordering {
        self.total_cmp(other)
    }
}

/// Merges intervals into disjoint ones in order.
pub fn merge<T: Instant>(intervals: &[(T, T)]) -> Vec<(T, T)> {
    let mut sorted: Vec<(T, T)> = intervals.iter().copied().filter(|(start, end)| start < end).collect();
    sorted.sort_by(|a, b| a.0.order(&b.0).then(a.1.order(&b.1)));
    let mut merged: Vec<(T, T)> = Vec::new();
    for (start, end) in sorted {
        match merged.last_mut() {
            Some(last) if start <= last.1 => {
                if end > last.1 {
                    last.1 = end;
                }
            }
            _ => merged.push((start, end)),
        }
    }
    merged
}

/// Length of the union.
pub fn union<T: Instant>(intervals: &[(T, T)]) -> T {
    merge(intervals).into_iter().fold(T::default(), |sum, (start, end)| sum + (end - start))
}

/// Length of the time in which an interval of each side is open.
pub fn intersection<T: Instant>(left: &[(T, T)], right: &[(T, T)]) -> T {
    let (left, right) = (merge(left), merge(right));
    let (mut l, mut r) = (left.iter().peekable(), right.iter().peekable());
    let mut sum = T::default();
    while let (Some(a), Some(b)) = (l.peek(), r.peek()) {
        let start = if a.0 > b.0 { a.0 } else { b.0 };
        let end = if a.1 < b.1 { a.1 } else { b.1 };
        if start < end {
            sum = sum + (end - start);
        }
        if a.1 < b.1 {
            l.next()
        } else {
            r.next()
        };
    }
    sum
}

/// Cuts intervals to a span.
pub fn clip<T: Instant>(intervals: &[(T, T)], span: (T, T)) -> Vec<(T, T)> {
    let cut = |(start, end): &(T, T)| {
        let start = if *start > span.0 { *start } else { span.0 };
        let end = if *end < span.1 { *end } else { span.1 };
        (start < end).then_some((start, end))
    };
    intervals.iter().filter_map(cut).collect()
}

/// How far two windows may straddle before it counts: 1 us, or twice what the clock can tell apart.
///
/// Event times come as f32; their resolution at the latest marker is recorded, and is the coarsest of the timeline.
/// Drawing does not use it: windows that straddle at all get lanes of their own, with exact times.
pub fn tolerance_ns(timeline: &Timeline) -> i64 {
    let resolution = timeline.recorded.resolution_seconds.and_then(|seconds| nanoseconds(seconds.0));
    resolution.map_or(OVERLAP_TOLERANCE_NS, |resolution| resolution.saturating_mul(2).max(OVERLAP_TOLERANCE_NS))
}

/// Windows that straddle an earlier one of their kind and stream by more than the tolerance at every edge.
pub fn count_straddling(timeline: &Timeline) -> usize {
    let tolerance = tolerance_ns(timeline);
    let mut groups: BTreeMap<(u64, SampleKind), Vec<(i64, i64)>> = BTreeMap::new();
    for window in timeline.windows.iter().filter(|window| SampleKind::WINDOWS.contains(&window.kind)) {
        groups.entry((window.stream, window.kind)).or_default().extend(window.times());
    }
    groups.into_values().map(|windows| straddling_in(windows, tolerance)).sum()
}

fn straddling_in(mut windows: Vec<(i64, i64)>, tolerance: i64) -> usize {
    windows.sort_unstable();
    // Ends of the windows that began early enough to be straddled.
    let mut ends = BTreeSet::new();
    let mut begun = windows.iter().peekable();
    let mut count = 0;
    for (start, end) in &windows {
        while let Some((_, earlier_end)) = begun.next_if(|(earlier, _)| *earlier < start.saturating_sub(tolerance)) {
            ends.insert(*earlier_end);
        }
        let (from, to) = (start.saturating_add(tolerance).saturating_add(1), end.saturating_sub(tolerance));
        if from < to && ends.range(from..to).next().is_some() {
            count += 1;
        }
    }
    count
}

/// A note where windows of one kind on one stream straddle.
pub fn straddling(report: &LoadedReport) -> Option<Finding> {
    let timeline = report.timeline.as_ref()?;
    let count = count_straddling(timeline);
    let text = format!(
        "{count} window(s) straddle an earlier one of their kind on the same stream by more than {} ns; \
         they are drawn on lanes of their own",
        tolerance_ns(timeline)
    );
    (count > 0).then(|| Finding::note("timeline_windows_straddle", &report.file, text))
}

/// Compares the recorded summaries of a report's timeline with recomputed ones.
pub fn verify(report: &LoadedReport) -> Vec<Finding> {
    let Some(timeline) = &report.timeline else { return Vec::new() };
    let mut findings = Vec::new();
    if let Some(summary) = &timeline.recorded.window_summary {
        compare(timeline, summary, &[None], "window_summary", &report.file, &mut findings);
    }
    if let Some(summary) = &timeline.recorded.warm_window_summary {
        let spans = warm_spans(timeline);
        if spans.is_empty() {
            let text = "warm_window_summary is given, but the markers that it refers to are not";
            findings.push(Finding::error("summary_without_markers", &report.file, text));
        } else {
            compare(timeline, summary, &spans, "warm_window_summary", &report.file, &mut findings);
        }
    }
    findings
}

/// Seconds from and to; `None` for everything.
type Span = Option<(f64, f64)>;

/// The warm span in seconds. A marker is itself a window; recorders may cut at either edge, so all are accepted.
fn warm_spans(timeline: &Timeline) -> Vec<Span> {
    let marker = |unit: u64| {
        let found = timeline.recorded.samples.iter().find(|sample| {
            sample.kind == SampleKind::StepMarker && sample.unit == unit && sample.status == SampleStatus::Complete
        })?;
        Some([found.start_seconds?.0, found.end_seconds?.0])
    };
    let (Some(first), Some(last)) = (marker(1), marker(END_MARKER)) else { return Vec::new() };
    first.iter().flat_map(|from| last.iter().map(|to| Some((*from, *to)))).collect()
}

fn compare(timeline: &Timeline, recorded: &WindowSummary, spans: &[Span], name: &str, place: &str, findings: &mut Vec<Finding>) {
    let intervals = |kind: SampleKind, span: &Span| {
        let all: Vec<(f64, f64)> = timeline
            .recorded
            .samples
            .iter()
            .filter(|sample| sample.kind == kind && sample.status == SampleStatus::Complete)
            .filter_map(|sample| Some((sample.start_seconds?.0, sample.end_seconds?.0)))
            .collect();
        span.map_or(all.clone(), |span| clip(&all, span))
    };
    let mut check = |what: &str, recorded: f64, recompute: &dyn Fn(&Span) -> f64| {
        let candidates: Vec<f64> = spans.iter().map(recompute).collect();
        if !candidates.iter().any(|value| agrees(*value, recorded)) {
            let value = candidates.first().copied().unwrap_or_default();
            let text = format!("{name}: {what} is recorded as {recorded} s, its windows give {value} s");
            findings.push(Finding::error("summary_differs", place, text));
        }
    };
    for kind in SampleKind::WINDOWS {
        if let Some(seconds) = of_kind(&recorded.union_seconds, kind) {
            check(kind.name(), seconds, &|span| union(&intervals(kind, span)));
        }
    }
    check("upload_execution_window_intersection_seconds", recorded.upload_execution_window_intersection_seconds.0, &|span| {
        intersection(&intervals(SampleKind::UploadBatchWindow, span), &intervals(SampleKind::ExecutionUnitWindow, span))
    });
}

fn of_kind(unions: &UnionSeconds, kind: SampleKind) -> Option<f64> {
    match kind {
        SampleKind::UploadBatchWindow => Some(unions.upload_batch_window.0),
        SampleKind::ComputeUploadDependency => Some(unions.compute_upload_dependency.0),
        SampleKind::UploadSlotDependency => Some(unions.upload_slot_dependency.0),
        SampleKind::ExecutionUnitWindow => Some(unions.execution_unit_window.0),
        SampleKind::StepMarker => None,
    }
}

fn agrees(a: f64, b: f64) -> bool {
    let difference = (a - b).abs();
    difference <= SUMMARY_TOLERANCE || difference <= SUMMARY_TOLERANCE * a.abs().max(b.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unions_count_overlap_once_and_drop_empty_windows() {
        assert_eq!(union(&[(0, 10), (5, 15), (20, 30), (25, 26), (40, 40), (50, 45)]), 25);
        assert_eq!(union::<i64>(&[]), 0);
        assert_eq!(union(&[(-5, 5), (5, 6)]), 11);
    }

    #[test]
    fn intersections_agree_with_a_count_of_single_nanoseconds() {
        let mut state = 7_u64;
        let mut next = |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % limit) as i64
        };
        for _ in 0..200 {
            let mut side = || {
                (0..6)
                    .map(|_| {
                        let start = next(60);
                        (start, start + next(12))
                    })
                    .collect::<Vec<(i64, i64)>>()
            };
            let (left, right) = (side(), side());
            let open = |side: &[(i64, i64)], at: i64| side.iter().any(|(start, end)| *start <= at && at < *end);
            let both = (0..80).filter(|at| open(&left, *at) && open(&right, *at)).count() as i64;
            assert_eq!(intersection(&left, &right), both, "{left:?} {right:?}");
        }
    }

    #[test]
    fn straddles_are_counted_beyond_the_tolerance_only() {
        assert_eq!(straddling_in(vec![(0, 100), (50, 150)], 10), 1);
        assert_eq!(straddling_in(vec![(0, 100), (91, 150)], 10), 0, "overlaps by 9");
        assert_eq!(straddling_in(vec![(0, 100), (9, 150)], 10), 0, "starts together, within the tolerance");
        assert_eq!(straddling_in(vec![(0, 100), (50, 109)], 10), 0, "nested, within the tolerance");
        assert_eq!(straddling_in(vec![(0, 100), (20, 80), (30, 90), (200, 300)], 5), 1);
        let mut state = 3_u64;
        let mut next = |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % limit) as i64
        };
        for _ in 0..300 {
            let windows: Vec<(i64, i64)> = (0..12)
                .map(|_| {
                    let start = next(60);
                    (start, start + next(30))
                })
                .collect();
            let tolerance = next(4);
            let straddled =
                |b: &&(i64, i64)| windows.iter().any(|a| b.0 - a.0 > tolerance && a.1 - b.0 > tolerance && b.1 - a.1 > tolerance);
            let slow = windows.iter().filter(straddled).count();
            assert_eq!(straddling_in(windows.clone(), tolerance), slow, "{windows:?} {tolerance}");
        }
    }

    #[test]
    fn clipping_keeps_what_is_inside() {
        assert_eq!(clip(&[(0, 5), (4, 12), (20, 30)], (3, 10)), [(3, 5), (4, 10)]);
    }
}
