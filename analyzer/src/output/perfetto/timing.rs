//! Step times without a timeline: "How long was each step, where only the markers' distances were kept?"
//!
//! Uses `model` and `clocks`. Markers bound the steps one after the other on one stream, so they lie end to end from
//! the first marker. Invariants: a failed phase has no times; what follows the last step is no step.

use super::clocks::Shift;
use super::model::{Extra, Model, Slice};
use crate::run::nanoseconds;
use ddo_schemas::sections::ExecutionTiming;

/// Draws the steps of one phase on a track of their own.
pub(super) fn draw(model: &mut Model, timing: &ExecutionTiming, parent: u64, name: &str, shift: Shift) {
    let Some(seconds) = timing.step_seconds.as_ref().filter(|_| !timing.failed) else { return };
    let mut lengths: Vec<(String, f64)> = seconds.iter().enumerate().map(|(at, s)| (format!("step {at}"), s.0)).collect();
    if let (Some(tail), Some(last)) = (timing.tail_seconds.filter(|tail| tail.0 > 0.0), seconds.len().checked_sub(1)) {
        lengths.push((format!("after step {last}"), tail.0));
    }
    let text = "Distances between step markers on the compute stream, put end to end; no windows were recorded.";
    let mut track = None;
    let category = model.categories.id("step");
    let mut now = 0.0;
    for (name_of_step, length) in lengths {
        let next = now + length;
        let (Some(start), Some(end)) = (nanoseconds(now), nanoseconds(next)) else { return };
        if end < start {
            return;
        }
        now = next;
        let track = *track.get_or_insert_with(|| model.track(parent, name, text));
        let (start, end) = (shift.at(start), shift.at(end));
        let name = model.names.id(&name_of_step);
        model.slices.push(Slice { track, start, end, depth: 0, name, category, rank: 0, extra: Extra::default() });
    }
}
