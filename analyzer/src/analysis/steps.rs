//! Step times: "How long does a step take, once warm?"
//!
//! Uses `run`. Invariants: the first step carries the cold work and is never part of the steady state; a steady
//! state needs at least two steps; a failed phase has no times.

use crate::run::{Component, Run};
use ddo_schemas::Seconds;

/// Steps of one component on the stream's clock.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Steps {
    /// How many; `None` when nothing says it.
    pub count: Option<u64>,
    /// Where the count comes from.
    pub counted_by: &'static str,
    /// The first step, cold work included.
    pub first_seconds: Option<f64>,
    /// Mean of the steps after the first.
    pub steady_seconds: Option<f64>,
    /// The clock of the times.
    pub clock: Option<String>,
    /// Why there are no times.
    pub reason: &'static str,
}

/// Reads the steps of a component.
pub fn of(component: &Component) -> Steps {
    let recorded = component.records.iter().filter(|record| record.step.is_some()).count() as u64;
    let mut steps = Steps { reason: "not timed: run with --gpu-timing", ..Steps::default() };
    if recorded > 0 {
        steps.count = Some(recorded);
        steps.counted_by = "journal records";
    }
    let Some(timing) = Run::leading_report(component).and_then(|report| report.timing.as_ref()) else { return steps };
    if timing.failed {
        steps.reason = "the timed phase failed";
        return steps;
    }
    let Some(seconds) = &timing.step_seconds else {
        steps.reason = "the timer's markers were not complete when the report was taken";
        if let Some(count) = timing.step_count {
            steps.count = Some(count);
            steps.counted_by = "step markers";
        }
        return steps;
    };
    steps.count = Some(seconds.len() as u64);
    steps.counted_by = "step markers";
    steps.first_seconds = seconds.first().map(|first| first.0);
    steps.clock = Some(timing.clock.clone());
    steps.steady_seconds = steady(seconds);
    steps.reason = if steps.steady_seconds.is_none() { "a steady state needs at least two steps" } else { "" };
    steps
}

/// The steady state: the mean of the steps after the first, only where there are two or more.
pub fn steady(steps: &[Seconds]) -> Option<f64> {
    let warm = steps.get(1..).filter(|warm| !warm.is_empty())?;
    Some(warm.iter().map(|step| step.0).sum::<f64>() / warm.len() as f64)
}
