//! Figures from windows: "What did the streams pass through?"
//!
//! Uses `run` and `overlap`. Invariants: window geometry is never called engine activity; the rate is a lower bound
//! with its label; bytes are a sum only where every window has them.

use super::overlap::{clip, union};
use crate::limits::SLOWEST_UNITS;
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
    /// Windows.
    pub windows: usize,
    /// Payload; `None` unless every window has it.
    pub bytes: Option<u64>,
    /// Time in which at least one was open.
    pub union_ns: i64,
    /// Time in which none was open.
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

/// From the start of the second step to the end of the phase, where both markers are complete.
pub fn warm_span(timeline: &Timeline) -> Option<(i64, i64)> {
    let (start, end) = (timeline.marker(1)?.0, timeline.marker(END_MARKER)?.0);
    (start < end).then_some((start, end))
}

/// Upload windows that lie in the warm span.
pub fn warm_uploads(timeline: &Timeline) -> Option<Uploads> {
    let span = warm_span(timeline)?;
    let inside = |window: &&Window| {
        window.kind == SampleKind::UploadBatchWindow
            && window.times().is_some_and(|(start, end)| start >= span.0 && end <= span.1)
    };
    let windows: Vec<&Window> = timeline.windows.iter().filter(inside).collect();
    if windows.is_empty() {
        return None;
    }
    let own: Vec<(i64, i64)> = windows.iter().filter_map(|window| window.times()).collect();
    let open = union(&clip(&timeline.intervals(SampleKind::UploadBatchWindow), span));
    let bytes = windows.iter().map(|window| window.bytes).try_fold(0_u64, |sum, bytes| sum.checked_add(bytes?));
    let own_union = union(&own);
    let rate = bytes.filter(|_| own_union > 0).map(|bytes| bytes as f64 / (own_union as f64 / 1e9));
    let last = timeline.windows.iter().filter(|w| w.kind == SampleKind::StepMarker && w.unit != END_MARKER).map(|w| w.unit).max();
    let span_ns = span.1 - span.0;
    let steps = last.and_then(|last| last.checked_sub(1)).filter(|steps| *steps > 0);
    Some(Uploads { windows: windows.len(), bytes, union_ns: open, idle_ns: span_ns - open, span_ns, steps, rate })
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
