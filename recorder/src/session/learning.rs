//! What does a pass cost? One early pass is timed on the device: the work of each unit, and the copies.
//!
//! Two timing events stand around each launch and each upload of one pass: the third, the first one after the pipeline has
//! filled, or a later one, the first that begins with nothing left to register. They are read once they have passed, never
//! waited for, and given back. A failing event ends the learning, never the run.

use super::state::{Inner, Offload, State};
use crate::config::MeasuredCosts;
use crate::driver::{DriverResult, EventId, StreamId};
use crate::limits::{LEARNED_PASS, MAX_LEARNED_SPANS, MIN_LEARNED_COPY_BYTES};
use crate::plan::LinkModel;
use std::collections::BTreeMap;
use std::time::Duration;

/// What a span of device time was spent on.
#[derive(Clone, Copy, Debug)]
enum Spent {
    /// Work of a unit.
    Work(usize),
    /// A copy of that many bytes.
    Copy(u64),
}

/// One timed span; opaque outside.
#[derive(Debug)]
pub(crate) struct TimedSpan {
    spent: Spent,
    start: EventId,
    end: EventId,
}

/// What is known about the costs of a pass.
#[derive(Debug, Default)]
pub(crate) enum Learning {
    /// The pass has not come yet.
    #[default]
    Ahead,
    /// The pass of that number runs, or its events have not all passed.
    Timing(u64, Vec<TimedSpan>),
    /// Known.
    Known(MeasuredCosts),
    /// Given up: an event failed, or there was too much of it.
    GivenUp,
}

impl Learning {
    fn is_timing(&self, pass: u64) -> bool {
        matches!(self, Learning::Timing(timed, _) if *timed == pass)
    }
}

/// A span that has begun.
#[derive(Debug)]
pub(super) struct Begun {
    start: EventId,
    stream: StreamId,
}

impl Inner {
    /// Times the pass that begins now, if it is the one to be timed.
    pub(super) fn choose_timed_pass(&self, state: &mut State) {
        let due = self.rules.learns && matches!(state.learning, Learning::Ahead) && state.order.passes() >= LEARNED_PASS;
        if due && self.has_registered() {
            state.learning = Learning::Timing(state.order.passes(), Vec::new());
        }
    }

    /// Begins a span where the pass is timed.
    pub(super) fn begin_span(&self, state: &mut State, stream: StreamId) -> Option<Begun> {
        if !state.learning.is_timing(state.order.passes()) {
            return None;
        }
        match self.timing_event(state, stream) {
            Ok(start) => Some(Begun { start, stream }),
            Err(_) => {
                self.give_up_learning(state);
                None
            }
        }
    }

    pub(super) fn end_work(&self, state: &mut State, begun: Option<Begun>, unit: usize) {
        self.end_span(state, begun, Spent::Work(unit));
    }

    pub(super) fn end_copy(&self, state: &mut State, begun: Option<Begun>, bytes: u64) {
        self.end_span(state, begun, Spent::Copy(bytes));
    }

    fn end_span(&self, state: &mut State, begun: Option<Begun>, spent: Spent) {
        let Some(Begun { start, stream }) = begun else { return };
        let end = self.timing_event(state, stream);
        match (&mut state.learning, end) {
            (Learning::Timing(_, spans), Ok(end)) if spans.len() < MAX_LEARNED_SPANS => {
                spans.push(TimedSpan { spent, start, end });
            }
            (_, end) => {
                self.destroy(state, std::iter::once(start).chain(end));
                self.give_up_learning(state);
            }
        }
    }

    /// Reads the timed pass once it is over and its events have passed. Never waits.
    pub(super) fn learn(&self, state: &mut State) {
        let Learning::Timing(timed, spans) = &state.learning else { return };
        if state.order.passes() <= *timed {
            return;
        }
        let passed = |event: EventId| self.driver.event_query(event);
        let last = |work: bool| spans.iter().rev().find(|span| matches!(span.spent, Spent::Work(_)) == work);
        // Streams run in order: the last event of each tells for all.
        let over = [true, false].into_iter().filter_map(last).map(|span| passed(span.end)).collect::<DriverResult<Vec<bool>>>();
        match over {
            Ok(over) if over.iter().all(|over| *over) => {}
            Ok(_) => return,
            Err(_) => return self.give_up_learning(state),
        }
        let known = self.read_spans(spans);
        self.give_up_learning(state);
        if let Some(known) = known {
            state.learning = Learning::Known(known);
        }
    }

    /// Destroys the events of the timed pass.
    pub(super) fn give_up_learning(&self, state: &mut State) {
        if let Learning::Timing(_, spans) = std::mem::replace(&mut state.learning, Learning::GivenUp) {
            self.destroy(state, spans.iter().flat_map(|span| [span.start, span.end]));
        }
    }

    fn destroy(&self, state: &mut State, events: impl IntoIterator<Item = EventId>) {
        for event in events {
            if self.driver.event_destroy(event).is_err() {
                state.leftover_events.push(event);
            }
        }
    }

    fn timing_event(&self, state: &mut State, stream: StreamId) -> DriverResult<EventId> {
        let event = self.driver.event_create(true)?;
        self.driver.event_record(event, stream).inspect_err(|_| self.destroy(state, [event]))?;
        Ok(event)
    }

    fn read_spans(&self, spans: &[TimedSpan]) -> Option<MeasuredCosts> {
        let mut unit_seconds = BTreeMap::new();
        // Copies large enough to tell of the link's rate, and all of them.
        let (mut large, mut all) = ((0u64, 0.0), (0u64, 0.0));
        for span in spans {
            let seconds = self.driver.event_elapsed(span.start, span.end).ok()?.seconds;
            match span.spent {
                Spent::Work(unit) => *unit_seconds.entry(self.units.get(unit)?.name.to_string()).or_insert(0.0) += seconds,
                Spent::Copy(bytes) => {
                    all = (all.0 + bytes, all.1 + seconds);
                    if bytes >= MIN_LEARNED_COPY_BYTES {
                        large = (large.0 + bytes, large.1 + seconds);
                    }
                }
            }
        }
        let (bytes, seconds) = if large.0 > 0 { large } else { all };
        let rate = (seconds > 0.0).then(|| bytes as f64 / seconds)?;
        Some(MeasuredCosts { unit_seconds, link_bytes_per_second: rate as u64 })
    }
}

/// A step as it should be, from what an early pass of this session cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct PassForecast {
    /// Seconds of all units' work.
    pub(crate) work_seconds: f64,
    /// Bytes a second over the busy link.
    pub(crate) link_bytes_per_second: u64,
    /// Seconds of a steady step with the session's plan.
    pub(crate) step_seconds: Option<f64>,
    /// `max(work, bytes / rate)`.
    pub(crate) floor_seconds: f64,
}

impl Offload {
    /// What the timed pass cost; `None` until it is over, and where nothing is streamed. A later attachment plans with
    /// it: see [`crate::OffloadConfig::measured`].
    pub fn measured_costs(&self) -> Option<MeasuredCosts> {
        let mut state = self.inner.lock();
        self.inner.learn(&mut state);
        match &state.learning {
            Learning::Known(costs) => Some(costs.clone()),
            _ => None,
        }
    }

    /// Bytes that any plan has to stream under the ceiling.
    pub(crate) fn must_stream_bytes(&self) -> u64 {
        let managed: u64 = self.inner.infos.iter().map(|info| info.bytes).sum();
        let for_units = self.inner.configuration.weight_ceiling_bytes.saturating_sub(self.inner.fixed.lifetime_charge_bytes);
        managed.saturating_sub(for_units)
    }

    /// The forecast of a step, once a pass was measured.
    pub(crate) fn pass_forecast(&self) -> Option<PassForecast> {
        if let Some(forecast) = self.inner.forecast.get() {
            return Some(*forecast);
        }
        let forecast = self.forecast_from(&self.measured_costs()?);
        Some(*self.inner.forecast.get_or_init(|| forecast))
    }

    fn forecast_from(&self, costs: &MeasuredCosts) -> PassForecast {
        let inner = &self.inner;
        let rate = costs.link_bytes_per_second.max(1);
        let link = LinkModel { bytes_per_second: Some(rate), latency_ns: 0 };
        let by_name: BTreeMap<&str, _> =
            inner.units.iter().zip(&inner.infos).map(|(plan, info)| (&*plan.name, (plan, info))).collect();
        let work = |unit: &str, tensor: &str| {
            let of_unit = costs.unit_seconds.get(unit).copied().unwrap_or_default();
            let (bytes, all) = by_name
                .get(unit)
                .map_or((0, 0), |(plan, info)| (plan.tensors.get(tensor).map_or(0, |place| place.bytes), info.bytes));
            Duration::try_from_secs_f64(of_unit * bytes as f64 / all.max(1) as f64).unwrap_or_default()
        };
        let (warm, counted) = crate::limits::FORECAST_PASSES;
        let ends = self.predict(link, work, (warm + counted) as usize);
        let step_seconds = ends.and_then(|ends| {
            let before = ends.get((warm as usize).checked_sub(1)?)?;
            Some((ends.last()?.as_secs_f64() - before.as_secs_f64()) / counted as f64)
        });
        let work_seconds: f64 = costs.unit_seconds.values().sum();
        let floor_seconds = work_seconds.max(self.must_stream_bytes() as f64 / rate as f64);
        PassForecast { work_seconds, link_bytes_per_second: rate, step_seconds, floor_seconds }
    }
}
