//! The native timeline: a fixed number of event pairs, each used for one window.

use super::windows;
use crate::driver::{DeviceFacts, Driver, DriverResult, EventId, MarkerClaim, MarkersBusy, StreamId};
use crate::error::{Error, Result};
use crate::meter::Clock;
use crate::session::MarkToken;
use ddo_schemas::timeline::{END_MARKER, NativeTimeline, Sample, SampleKind, SampleStatus};
use ddo_schemas::{Nullable, Seconds, version};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// How far a window has come.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Progress {
    /// The second marker is not recorded yet.
    Open,
    /// Both markers are recorded.
    Closed,
    /// A marker failed.
    Failed,
    /// Times are known; both events are given back.
    Resolved { start: f64, end: f64 },
}

#[derive(Debug)]
struct Window {
    kind: SampleKind,
    unit: u64,
    bytes: Option<u64>,
    stream: StreamId,
    /// The two markers, until they are given back.
    events: Option<(EventId, EventId)>,
    progress: Progress,
}

#[derive(Debug, Default)]
struct Slots {
    /// Event pairs that no window has used.
    unused: Vec<(EventId, EventId)>,
    windows: Vec<Window>,
    dropped: u64,
    failures: u64,
    sealed: bool,
    epoch_released: bool,
    /// Marker events that could not be given back yet.
    unreturned: Vec<EventId>,
    resolution: Option<f64>,
    /// The right to mark the context, until every marker has been given back.
    claim: Option<MarkerClaim>,
}

/// One timeline, from opening to release.
#[derive(Debug)]
pub(super) struct Timeline {
    driver: Arc<dyn Driver>,
    facts: DeviceFacts,
    capacity: u64,
    epoch: EventId,
    epoch_host: (f64, f64),
    stream: StreamId,
    slots: Mutex<Slots>,
}

/// Destroys all events, whatever fails on the way; those that failed.
fn release(driver: &dyn Driver, events: impl IntoIterator<Item = EventId>) -> Vec<EventId> {
    events.into_iter().filter(|event| driver.event_destroy(*event).is_err()).collect()
}

/// The refusal of a context that somebody else marks.
fn refusal(busy: MarkersBusy) -> Error {
    match busy {
        MarkersBusy::Live => Error::refused("timeline_in_use", "native timelines of one context at a time", 2, 1, "timelines"),
        MarkersBusy::Abandoned(left) => {
            let what = "markers of an earlier timeline that the device has not passed";
            Error::refused("timeline_retained", what, left, 0, "markers")
        }
    }
}

impl Timeline {
    /// Creates all events and records the epoch and the start marker on the stream.
    pub(super) fn open(
        driver: Arc<dyn Driver>,
        facts: DeviceFacts,
        clock: &dyn Clock,
        capacity: u64,
        stream: StreamId,
    ) -> Result<Timeline> {
        let claim = MarkerClaim::new(&facts).map_err(refusal)?;
        let mut created = Vec::new();
        let made = (0..capacity * 2 + 1).try_for_each(|_| driver.event_create(true).map(|event| created.push(event)));
        let epoch = created.pop();
        let (Ok(()), Some(epoch)) = (made.clone(), epoch) else {
            let kept = release(&*driver, created.into_iter().chain(epoch));
            claim.abandon(driver, kept);
            return Err(made.err().unwrap_or_else(unreachable_event).into());
        };
        let before = clock.now().seconds();
        let recorded = driver.event_record(epoch, stream);
        let after = clock.now().seconds();
        if let Err(error) = recorded {
            let kept = release(&*driver, created.into_iter().chain([epoch]));
            claim.abandon(driver, kept);
            return Err(error.into());
        }
        let (begins, ends) = created.split_at(capacity as usize);
        let unused = begins.iter().copied().zip(ends.iter().copied()).rev().collect();
        let slots = Mutex::new(Slots { unused, claim: Some(claim), ..Slots::default() });
        let timeline = Timeline { driver, facts, capacity, epoch, epoch_host: (before, after), stream, slots };
        timeline.mark(0);
        Ok(timeline)
    }

    /// The event that times count from.
    pub(super) fn epoch(&self) -> EventId {
        self.epoch
    }

    fn lock(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn begin(&self, kind: SampleKind, unit: u64, bytes: Option<u64>, stream: StreamId) -> Option<MarkToken> {
        let mut slots = self.lock();
        if slots.sealed {
            return None;
        }
        let Some((begin, end)) = slots.unused.pop() else {
            slots.dropped += 1;
            return None;
        };
        let recorded = self.driver.event_record(begin, stream);
        let progress = if recorded.is_ok() { Progress::Open } else { Progress::Failed };
        slots.failures += u64::from(recorded.is_err());
        slots.windows.push(Window { kind, unit, bytes, stream, events: Some((begin, end)), progress });
        Some(MarkToken(slots.windows.len() as u64 - 1))
    }

    pub(super) fn end(&self, token: MarkToken, stream: StreamId) {
        let mut slots = self.lock();
        let Some(window) = slots.windows.get_mut(token.0 as usize) else { return };
        let (Progress::Open, Some((_, end))) = (window.progress, window.events) else { return };
        let recorded = self.driver.event_record(end, stream);
        window.progress = if recorded.is_ok() { Progress::Closed } else { Progress::Failed };
        slots.failures += u64::from(recorded.is_err());
    }

    /// Marks a step boundary: 0 the start, k the end of step k.
    pub(super) fn mark(&self, unit: u64) {
        if let Some(token) = self.begin(SampleKind::StepMarker, unit, None, self.stream) {
            self.end(token, self.stream);
        }
    }

    /// Records the end marker; later windows are not taken.
    pub(super) fn seal(&self) {
        self.mark(END_MARKER);
        self.lock().sealed = true;
    }

    /// Asks which windows are done, without waiting, and gives their events back.
    fn resolve(&self, slots: &mut Slots) {
        let Slots { windows, resolution, unreturned, .. } = slots;
        for window in windows.iter_mut().filter(|window| window.progress == Progress::Closed) {
            let Some((begin, end)) = window.events else { continue };
            match self.times(begin, end) {
                Ok(None) => {}
                Ok(Some((start, end_time, step))) if start.is_finite() && end_time >= start => {
                    *resolution = Some(resolution.map_or(step, |known| known.max(step)));
                    window.progress = Progress::Resolved { start, end: end_time };
                    window.events = None;
                    unreturned.extend(release(&*self.driver, [begin, end]));
                }
                Ok(Some(_)) | Err(_) => window.progress = Progress::Failed,
            }
        }
    }

    fn times(&self, begin: EventId, end: EventId) -> DriverResult<Option<(f64, f64, f64)>> {
        if !self.driver.event_query(end)? {
            return Ok(None);
        }
        let start = self.driver.event_elapsed(self.epoch, begin)?;
        let end = self.driver.event_elapsed(self.epoch, end)?;
        Ok(Some((start.seconds, end.seconds, end.resolution_seconds)))
    }

    /// After sealing: gives back what no window needs any more. True when nothing is left, and the context is free.
    /// Markers of pending and of failed windows are retained.
    fn clean_up(&self, slots: &mut Slots) -> bool {
        let unused = std::mem::take(&mut slots.unused);
        let again = std::mem::take(&mut slots.unreturned);
        let idle = again.into_iter().chain(unused.into_iter().flat_map(|(begin, end)| [begin, end]));
        slots.unreturned = release(&*self.driver, idle);
        let retained = slots.windows.iter().any(|window| window.events.is_some());
        if !retained && !slots.epoch_released {
            slots.epoch_released = true;
            slots.unreturned.extend(release(&*self.driver, [self.epoch]));
        }
        let released = !retained && slots.unreturned.is_empty();
        if released {
            slots.claim = None;
        }
        released
    }

    /// The markers that an owner who goes leaves behind: those in flight, and those that could not be given back.
    fn leave(&self, slots: &mut Slots) -> Vec<EventId> {
        self.resolve(slots);
        if self.clean_up(slots) {
            return Vec::new();
        }
        let mut left = std::mem::take(&mut slots.unreturned);
        for window in &mut slots.windows {
            let events = window.events.take().into_iter().flat_map(|(begin, end)| [begin, end]);
            if window.progress == Progress::Failed {
                // A marker that failed is never asked again; the device lets go of it once it has passed it.
                left.extend(release(&*self.driver, events));
            } else {
                left.extend(events);
            }
        }
        if !slots.epoch_released {
            left.extend(release(&*self.driver, [self.epoch]));
        }
        left
    }

    /// The report. Never waits.
    pub(super) fn report(&self, execution_units: BTreeMap<String, String>) -> NativeTimeline {
        let mut slots = self.lock();
        self.resolve(&mut slots);
        let samples: Vec<Sample> = slots.windows.iter().enumerate().map(|(index, window)| sample(index, window)).collect();
        let pending = samples.iter().filter(|sample| sample.status == SampleStatus::Pending).count() as u64;
        let failed = slots.failures > 0 || samples.iter().any(|sample| sample.status == SampleStatus::Failed);
        let status = match () {
            () if failed => "failed",
            () if slots.dropped > 0 => "truncated",
            () if pending > 0 || !slots.sealed => "pending",
            () => "complete",
        };
        let complete = status == "complete";
        let event_cleanup = slots.sealed.then(|| if self.clean_up(&mut slots) { "released" } else { "retained" }.to_string());
        NativeTimeline {
            schema_version: version::NATIVE_TIMELINE,
            clock: self.facts.clock.into(),
            unit: "seconds".into(),
            scope: "native_stream_windows_not_engine_activity".into(),
            status: status.into(),
            capacity: self.capacity,
            dropped: slots.dropped,
            failures: slots.failures,
            pending,
            window_summary: complete.then(|| windows::summary(&samples)),
            warm_window_summary: if complete { windows::warm_summary(&samples) } else { None },
            samples,
            execution_units,
            event_cleanup,
            resolution_seconds: slots.resolution.map(Seconds),
            epoch_host_before_seconds: Some(Seconds(self.epoch_host.0)),
            epoch_host_after_seconds: Some(Seconds(self.epoch_host.1)),
        }
    }
}

/// Creating events succeeded, yet none is there: cannot happen, and must not be a panic.
fn unreachable_event() -> crate::driver::DriverError {
    crate::driver::DriverError::new("event_create", crate::driver::DriverErrorKind::InvalidValue, "no event was created")
}

fn sample(index: usize, window: &Window) -> Sample {
    let (status, start, end) = match window.progress {
        Progress::Open | Progress::Closed => (SampleStatus::Pending, None, None),
        Progress::Failed => (SampleStatus::Failed, None, None),
        Progress::Resolved { start, end } => (SampleStatus::Complete, Some(Seconds(start)), Some(Seconds(end))),
    };
    Sample {
        sequence: index as u64 + 1,
        unit: window.unit,
        stream: window.stream.0,
        bytes: Nullable(window.bytes),
        kind: window.kind,
        status,
        start_seconds: start,
        end_seconds: end,
    }
}

impl Drop for Timeline {
    /// Gives back what is done; markers in flight keep the context taken until the device has passed them.
    fn drop(&mut self) {
        let mut slots = std::mem::take(&mut *self.lock());
        let left = self.leave(&mut slots);
        if let Some(claim) = slots.claim.take() {
            claim.abandon(Arc::clone(&self.driver), left);
        }
    }
}
