//! The execution timer: markers on the compute stream, and on request the native timeline.

use super::timeline::Timeline;
use crate::driver::{Driver, DriverError, DriverResult, EventId, StreamId};
use crate::error::{Error, Result};
use crate::meter::{Clock, HostScope};
use crate::session::{Inner, MarkToken, Marks, Offload, StepToken};
use ddo_schemas::sections::{ExecutionTiming, StepWait};
use ddo_schemas::settings::{DEFAULT_TIMELINE_CAPACITY, MAX_TIMELINE_CAPACITY};
use ddo_schemas::timeline::{NativeTimeline, SampleKind};
use ddo_schemas::{Seconds, version};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a timer records. Off by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimerOptions {
    /// Whether markers are recorded at all.
    pub enabled: bool,
    /// Whether windows of units and uploads are recorded too; needs `enabled`.
    pub native_units: bool,
    /// Windows that fit, 1 to 8192.
    pub native_capacity: u64,
    /// Whether the host waits for the compute stream at the end of every step, to see what another rhythm changes; needs
    /// `native_units`. Such a run is not a benchmark.
    pub diagnostic_step_wait: bool,
}

impl Default for TimerOptions {
    fn default() -> TimerOptions {
        TimerOptions {
            enabled: false,
            native_units: false,
            native_capacity: DEFAULT_TIMELINE_CAPACITY,
            diagnostic_step_wait: false,
        }
    }
}

/// Intervals of a phase whose last marker has been passed.
#[derive(Clone, Debug)]
struct Measured {
    phase: f64,
    steps: Vec<f64>,
    tail: f64,
    resolution: f64,
}

#[derive(Debug, Default)]
struct Markers {
    /// Start, one a step, and the end once finished.
    events: Vec<EventId>,
    finished: bool,
    failed: bool,
    measured: Option<Measured>,
    error: Option<DriverError>,
}

/// One timed phase, shared by the running timer, the session's marks and the finished timing.
#[derive(Debug)]
struct Phase {
    session_id: String,
    driver: Arc<dyn Driver>,
    host_clock: Arc<dyn Clock>,
    clock: &'static str,
    stream: StreamId,
    markers: Mutex<Markers>,
    timeline: Option<Timeline>,
    /// Waits at step boundaries, where they were asked for.
    step_wait: Option<HostScope>,
}

impl Phase {
    fn lock(&self) -> MutexGuard<'_, Markers> {
        self.markers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn record(&self) -> DriverResult<EventId> {
        let event = self.driver.event_create(true)?;
        match self.driver.event_record(event, self.stream) {
            Ok(()) => Ok(event),
            Err(error) => self.driver.event_destroy(event).and(Err(error)),
        }
    }

    fn mark(&self) -> Option<EventId> {
        match self.record() {
            Ok(event) => {
                self.lock().events.push(event);
                Some(event)
            }
            Err(error) => {
                self.note(error);
                None
            }
        }
    }

    /// Keeps the first failure for the end of the phase.
    fn note(&self, error: DriverError) {
        let mut markers = self.lock();
        markers.error = markers.error.take().or(Some(error));
    }

    /// Blocks until the last marker of a finished phase has been passed; nothing else is waited for.
    fn wait(&self) -> DriverResult<()> {
        let markers = self.lock();
        let last = markers.events.last().copied().filter(|_| markers.finished && markers.measured.is_none());
        drop(markers);
        last.map_or(Ok(()), |event| self.driver.event_synchronize(event))
    }

    /// Marked steps.
    fn step_count(markers: &Markers) -> u64 {
        (markers.events.len() as u64).saturating_sub(if markers.finished { 2 } else { 1 })
    }

    /// Reads the intervals once the last marker has been passed. Never waits.
    fn measure(&self, markers: &mut Markers) -> DriverResult<()> {
        let (Some(first), Some(last)) = (markers.events.first().copied(), markers.events.last().copied()) else { return Ok(()) };
        if !markers.finished || markers.measured.is_some() || !self.driver.event_query(last)? {
            return Ok(());
        }
        let mut intervals = Vec::new();
        for pair in markers.events.windows(2) {
            if let [from, to] = pair {
                intervals.push(self.driver.event_elapsed(*from, *to)?.seconds);
            }
        }
        let phase = self.driver.event_elapsed(first, last)?;
        let tail = intervals.pop().unwrap_or_default();
        markers.measured = Some(Measured { phase: phase.seconds, steps: intervals, tail, resolution: phase.resolution_seconds });
        markers.events.drain(..).try_for_each(|event| self.driver.event_destroy(event))
    }

    fn timing(&self) -> Result<ExecutionTiming> {
        let mut markers = self.lock();
        self.measure(&mut markers)?;
        let mut timing = base(self.clock, "not_finished");
        timing.failed = markers.failed;
        timing.diagnostic_step_wait = self.step_wait.as_ref().map(|waits| StepWait {
            enabled: Some(true),
            scope: Some("compute_boundary_event_host_wait".into()),
            calls: Some(waits.calls()),
            host_seconds: Some(Seconds(waits.seconds())),
            benchmark_eligible: Some(false),
        });
        if let Some(measured) = &markers.measured {
            let seconds: Vec<Seconds> = measured.steps.iter().copied().map(Seconds).collect();
            let warm = measured.steps.get(1..).filter(|warm| !warm.is_empty());
            timing.status = "complete".into();
            timing.stream = Some(self.stream.0);
            timing.phase_seconds = Some(Seconds(measured.phase));
            timing.tail_seconds = Some(Seconds(measured.tail));
            timing.steady_state_seconds_per_step = warm.map(|warm| Seconds(warm.iter().sum::<f64>() / warm.len() as f64));
            timing.step_seconds = Some(seconds);
            timing.resolution_seconds = Some(Seconds(measured.resolution));
        } else {
            timing.status = if markers.finished { "pending" } else { "not_finished" }.into();
            timing.step_count = Some(Phase::step_count(&markers));
        }
        Ok(timing)
    }
}

fn base(clock: &str, status: &str) -> ExecutionTiming {
    ExecutionTiming {
        schema_version: version::EXECUTION_TIMING,
        clock: clock.into(),
        unit: "seconds".into(),
        scope: "compute_stream_with_dependencies".into(),
        failed: false,
        status: status.into(),
        step_count: None,
        stream: None,
        phase_seconds: None,
        step_seconds: None,
        steady_state_seconds_per_step: None,
        tail_seconds: None,
        resolution_seconds: None,
        diagnostic_step_wait: None,
    }
}

impl Marks for Phase {
    fn begin(&self, kind: SampleKind, unit: u64, bytes: Option<u64>, stream: StreamId) -> Option<MarkToken> {
        self.timeline.as_ref()?.begin(kind, unit, bytes, stream)
    }

    fn end(&self, token: MarkToken, stream: StreamId) {
        if let Some(timeline) = &self.timeline {
            timeline.end(token, stream);
        }
    }

    fn step(&self) -> Option<StepToken> {
        let marked = self.mark();
        if let Some(timeline) = &self.timeline {
            timeline.mark(Phase::step_count(&self.lock()));
        }
        marked.filter(|_| self.step_wait.is_some()).map(StepToken)
    }

    fn wait(&self, step: StepToken) {
        let Some(waits) = &self.step_wait else { return };
        if let Err(error) = waits.time(&*self.host_clock, || self.driver.event_synchronize(step.0)) {
            self.note(error);
        }
    }
}

impl Drop for Phase {
    /// Gives markers back; those in flight are left to the device.
    fn drop(&mut self) {
        let markers = self.markers.get_mut().unwrap_or_else(PoisonError::into_inner);
        for event in markers.events.drain(..) {
            let _ = self.driver.event_destroy(event);
        }
    }
}

/// A running timer. Ends with [`ExecutionTimer::finish`]; dropped earlier, its phase stays `not_finished`.
#[derive(Debug)]
#[must_use = "a timer measures until it is finished"]
pub struct ExecutionTimer {
    inner: Arc<Inner>,
    phase: Option<Arc<Phase>>,
}

impl Offload {
    /// Starts timing a phase on the compute stream. Disabled, it makes no driver call.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a switch without the one that it depends on or a capacity outside its limits; a refusal
    /// while another timer runs, or while the markers of another timeline keep the context; the driver's errors.
    pub fn execution_timer(&self, options: TimerOptions) -> Result<ExecutionTimer> {
        if options.native_units && !options.enabled {
            return Err(Error::invalid("timer options", "native units need timing; enable both"));
        }
        if options.diagnostic_step_wait && !options.native_units {
            return Err(Error::invalid("timer options", "diagnostic_step_wait needs native_units; enable both"));
        }
        if !options.enabled {
            return Ok(ExecutionTimer { inner: Arc::clone(&self.inner), phase: None });
        }
        if options.native_units && !(1..=MAX_TIMELINE_CAPACITY).contains(&options.native_capacity) {
            let reason = format!("native_capacity is {}; it must be 1 to {MAX_TIMELINE_CAPACITY}", options.native_capacity);
            return Err(Error::invalid("timer options", reason));
        }
        if self.inner.marks.get().is_some() {
            return Err(Error::refused("timer_in_use", "timers of one component at a time", 2, 1, "timers"));
        }
        let inner = Arc::clone(&self.inner);
        let driver = Arc::clone(&inner.driver);
        let timeline = if options.native_units {
            let (facts, capacity) = (inner.facts.clone(), options.native_capacity);
            Some(Timeline::open(Arc::clone(&driver), facts, &*inner.clock, capacity, inner.compute)?)
        } else {
            None
        };
        let phase = Phase {
            session_id: inner.session_id.clone(),
            driver,
            host_clock: Arc::clone(&inner.clock),
            clock: inner.facts.clock,
            stream: inner.compute,
            markers: Mutex::default(),
            timeline,
            step_wait: options.diagnostic_step_wait.then(HostScope::default),
        };
        let start = phase.record()?;
        phase.lock().events.push(start);
        let phase = Arc::new(phase);
        let marks: Arc<dyn Marks> = Arc::<Phase>::clone(&phase);
        if !inner.marks.install(marks) {
            return Err(Error::refused("timer_in_use", "timers of one component at a time", 2, 1, "timers"));
        }
        Ok(ExecutionTimer { inner, phase: Some(phase) })
    }
}

impl ExecutionTimer {
    /// The timing as it stands; a snapshot with it says `not_finished` until the end.
    pub fn timing(&self) -> Timing {
        Timing { phase: self.phase.clone() }
    }

    /// The event that the native timeline's times count from, for tools that align another clock with it. It stays until the
    /// timer is finished and every window is resolved.
    pub fn timeline_epoch(&self) -> Option<EventId> {
        Some(self.phase.as_ref()?.timeline.as_ref()?.epoch())
    }

    /// Ends the phase: records the last marker, waits for nothing.
    ///
    /// # Errors
    /// The first driver error met while marking.
    pub fn finish(self) -> Result<Timing> {
        self.end(false)
    }

    /// Ends a phase whose work failed; its intervals are marked so.
    ///
    /// # Errors
    /// The first driver error met while marking.
    pub fn finish_failed(self) -> Result<Timing> {
        self.end(true)
    }

    fn end(mut self, failed: bool) -> Result<Timing> {
        let Some(phase) = self.phase.take() else { return Ok(Timing { phase: None }) };
        self.inner.marks.remove();
        // The timer's last marker lies behind the timeline's, so that who waits for it has waited for both.
        if let Some(timeline) = &phase.timeline {
            timeline.seal();
        }
        phase.mark();
        let mut markers = phase.lock();
        markers.finished = true;
        markers.failed = failed;
        let error = markers.error.take();
        drop(markers);
        match error {
            Some(error) => Err(error.into()),
            None => Ok(Timing { phase: Some(phase) }),
        }
    }
}

impl Drop for ExecutionTimer {
    fn drop(&mut self) {
        if self.phase.is_some() {
            self.inner.marks.remove();
        }
    }
}

/// A finished phase, to be attached to a snapshot.
#[derive(Clone, Debug)]
pub struct Timing {
    phase: Option<Arc<Phase>>,
}

impl Timing {
    /// The intervals; with `wait`, those of a finished phase after its last marker has been passed.
    ///
    /// # Errors
    /// [`Error::Invalid`] when the timing belongs to another session; the driver's.
    pub(super) fn execution(&self, inner: &Inner, wait: bool) -> Result<ExecutionTiming> {
        let Some(phase) = &self.phase else { return Ok(base(inner.facts.clock, "disabled")) };
        if phase.session_id != inner.session_id {
            return Err(Error::invalid("timing", "it belongs to another session"));
        }
        if wait {
            phase.wait()?;
        }
        phase.timing()
    }

    pub(super) fn timeline(&self, offload: &Offload) -> Option<NativeTimeline> {
        let timeline = self.phase.as_ref()?.timeline.as_ref()?;
        let units = offload.units().iter().map(|unit| (unit.id.number().to_string(), unit.name.clone()));
        Some(timeline.report(units.collect()))
    }
}
