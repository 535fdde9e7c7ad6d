//! Geometry of windows: unions and intersections in seconds.

use ddo_schemas::Seconds;
use ddo_schemas::timeline::{END_MARKER, Sample, SampleKind, UnionSeconds, WindowSummary};

/// Half-open intervals, sorted and free of overlap.
type Intervals = Vec<(f64, f64)>;

fn merge(mut intervals: Intervals) -> Intervals {
    intervals.retain(|(start, end)| end > start);
    intervals.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.total_cmp(&b.1)));
    let mut merged: Intervals = Vec::new();
    for (start, end) in intervals {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    merged
}

fn length(intervals: &[(f64, f64)]) -> f64 {
    intervals.iter().map(|(start, end)| end - start).sum()
}

fn intersection(a: &[(f64, f64)], b: &[(f64, f64)]) -> f64 {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut total = 0.0;
    while let (Some((a_start, a_end)), Some((b_start, b_end))) = (a.peek(), b.peek()) {
        total += (a_end.min(*b_end) - a_start.max(*b_start)).max(0.0);
        if a_end < b_end {
            a.next();
        } else {
            b.next();
        }
    }
    total
}

fn of_kind(samples: &[Sample], kind: SampleKind, from: f64, to: f64) -> Intervals {
    let times =
        samples.iter().filter(|sample| sample.kind == kind).filter_map(|sample| sample.start_seconds.zip(sample.end_seconds));
    merge(times.map(|(start, end)| (start.0.max(from), end.0.min(to))).collect())
}

/// Summarises complete windows between two times.
fn summarise(samples: &[Sample], from: f64, to: f64) -> WindowSummary {
    let kind = |kind| of_kind(samples, kind, from, to);
    let uploads = kind(SampleKind::UploadBatchWindow);
    let units = kind(SampleKind::ExecutionUnitWindow);
    WindowSummary {
        scope: "window_geometry_not_engine_activity".into(),
        upload_execution_window_intersection_seconds: Seconds(intersection(&uploads, &units)),
        union_seconds: UnionSeconds {
            upload_batch_window: Seconds(length(&uploads)),
            compute_upload_dependency: Seconds(length(&kind(SampleKind::ComputeUploadDependency))),
            upload_slot_dependency: Seconds(length(&kind(SampleKind::UploadSlotDependency))),
            execution_unit_window: Seconds(length(&units)),
        },
    }
}

/// The summary of all windows.
pub(super) fn summary(samples: &[Sample]) -> WindowSummary {
    summarise(samples, f64::NEG_INFINITY, f64::INFINITY)
}

/// The summary from the end of the first step to the end of the phase; `None` without both markers.
pub(super) fn warm_summary(samples: &[Sample]) -> Option<WindowSummary> {
    let marker = |unit: u64| {
        let found = samples.iter().find(|sample| sample.kind == SampleKind::StepMarker && sample.unit == unit);
        found.and_then(|sample| sample.start_seconds)
    };
    Some(summarise(samples, marker(1)?.0, marker(END_MARKER)?.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unions_count_overlap_once_and_drop_empty_windows() {
        let merged = merge(vec![(3.0, 4.0), (0.0, 2.0), (1.0, 2.5), (5.0, 5.0), (7.0, 6.0)]);
        assert_eq!(merged, [(0.0, 2.5), (3.0, 4.0)]);
        assert_eq!(length(&merged), 3.5);
        assert_eq!(intersection(&merged, &[(2.0, 3.25), (3.5, 9.0)]), 0.5 + 0.25 + 0.5);
    }
}
