//! Closing: completion proof, unmap, release, addresses, events, streams - in this order, written here once.

use super::state::{Inner, Offload, State};
use super::supply::{lock, release};
use crate::driver::{DriverResult, EventId, collect_abandoned};
use crate::error::{Error, Result};
use crate::limits::MAX_WAIT_SECONDS;
use crate::memory::LifetimeBuffer;
use std::time::{Duration, Instant};

/// How a session ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CloseReport {
    /// Weight memory given back, in bytes.
    pub released_bytes: u64,
    /// Weight memory kept because the end of its use could not be proven or it could not be given back, in bytes.
    pub quarantined_bytes: u64,
    /// Units uploaded ahead that nobody asked for.
    pub cancelled_units: u64,
    /// What went wrong, first failure first.
    pub errors: Vec<String>,
}

impl Offload {
    /// Ends the session. Work in flight is waited for, at most until the deadline; what cannot be proven complete by
    /// then is kept out of use and reported. Closing twice is an error.
    ///
    /// # Errors
    /// A refusal while guards are in hand; [`Error::Closed`] the second time.
    ///
    /// # Cost
    /// Waits for queued work, at most `deadline`.
    pub fn close(&self, deadline: Duration) -> Result<CloseReport> {
        let inner = &self.inner;
        let start = Instant::now();
        let (mut report, before, works) = inner.begin_close()?;
        // Without the lock: snapshots, collections and guards of other threads do not wait for this.
        inner.registrar.iter().for_each(|registrar| registrar.stop());
        let drained = inner.drain(start, deadline, &works);
        if !inner.end_registering(deadline.saturating_sub(start.elapsed())) {
            report.errors.push(format!("a registration is still under way after {:.3} s", start.elapsed().as_secs_f64()));
        }
        let mut state = inner.lock();
        for event in works {
            report.errors.extend(state.events.end_wait(event).err().map(|error| error.to_string()));
        }
        let proven = drained.and_then(|drained| {
            state.reap(&*inner.driver, true).map(|_| drained && state.tickets.live() == 0 && state.running.is_empty())
        });
        report.errors.extend(state.deferred.take().map(|error| error.to_string()));
        if !matches!(proven, Ok(true)) {
            inner.supply.iter().for_each(|supply| lock(supply).stop());
        }
        match proven {
            Ok(true) => inner.give_back(&mut state, &mut report),
            Ok(false) => report.errors.push(format!("work is still in flight after {:.3} s", start.elapsed().as_secs_f64())),
            Err(error) => report.errors.push(error.to_string()),
        }
        inner.report_job_failures(&mut report);
        report.quarantined_bytes = weight_bytes(&state) + inner.book.lost_bytes.get();
        report.released_bytes = before.saturating_sub(report.quarantined_bytes);
        Ok(report)
    }
}

fn weight_bytes(state: &State) -> u64 {
    let lifetime = state.lifetime.as_ref().map_or(0, LifetimeBuffer::resident_bytes);
    let units = state.arena.levels().resident_bytes + state.stream.resident_bytes() + state.temporaries.levels().resident_bytes;
    units + lifetime
}

impl Inner {
    /// Ends the session for everybody else. Gives the report so far, the bytes under weights, and the events of work
    /// in flight.
    fn begin_close(&self) -> Result<(CloseReport, u64, Vec<EventId>)> {
        let mut state = self.lock();
        if state.closed {
            return Err(Error::Closed { what: "the session" });
        }
        let held = state.accounts.iter().map(|account| account.pins).sum::<u64>();
        let guards = held.saturating_sub(state.running.len() as u64 + state.waiting);
        if guards > 0 && state.poisoned.is_none() {
            return Err(Error::refused("guards_in_hand", "units in hand while closing", guards, 0, "guards"));
        }
        state.closed = true;
        // What follows proves that uploads have ended.
        let paged = self.cancel_paged(&mut state, None, false)?;
        let cancelled_units = self.cancel_ahead(&mut state, None) + paged;
        let mut report = CloseReport { cancelled_units, ..CloseReport::default() };
        report.errors.extend(state.poisoned.clone());
        report.errors.extend(state.deferred.take().map(|error| error.to_string()));
        self.report_job_failures(&mut report);
        let before = weight_bytes(&state) + self.book.lost_bytes.get();
        let works: Vec<EventId> = state.running.iter().map(|running| running.event).collect();
        works.iter().for_each(|event| state.events.begin_wait(*event));
        Ok((report, before, works))
    }

    fn report_job_failures(&self, report: &mut CloseReport) {
        while let Some((unit, reason)) = self.failures.take_first() {
            report.errors.push(format!("work of unit {unit:?} failed: {reason}"));
        }
    }

    /// Waits until both streams have run everything and all works have ended, on whatever stream; false when the
    /// deadline passes first.
    fn drain(&self, start: Instant, deadline: Duration, works: &[EventId]) -> Result<bool> {
        let rest = || deadline.saturating_sub(start.elapsed()).min(Duration::from_secs(MAX_WAIT_SECONDS));
        let fence = self.driver.event_create(false)?;
        let drained: Result<bool> = [self.compute, self.upload].into_iter().try_fold(true, |all, stream| {
            self.driver.event_record(fence, stream)?;
            Ok(all && self.driver.event_wait(fence, rest())?)
        });
        let drained = drained
            .and_then(|drained| works.iter().try_fold(drained, |all, event| Ok(all && self.driver.event_wait(*event, rest())?)));
        let destroyed = self.driver.event_destroy(fence);
        let drained = drained?;
        destroyed?;
        Ok(drained)
    }

    fn give_back(&self, state: &mut State, report: &mut CloseReport) {
        self.give_up_learning(state);
        let mut keep = |result: DriverResult<()>| report.errors.extend(result.err().map(|error| error.to_string()));
        keep(state.stream.release());
        keep(state.temporaries.release());
        if state.quarantined_arena_bytes == 0 {
            keep(state.arena.release());
        }
        keep(state.lifetime.as_mut().map_or(Ok(()), LifetimeBuffer::release));
        keep(release(self.supply.as_ref(), self.staged.as_ref()));
        keep(state.registrations.release());
        for event in std::mem::take(&mut state.leftover_events) {
            keep(self.driver.event_destroy(event));
        }
        keep(state.events.close());
        // Both streams have run dry: what an abandoned timeline left there has been passed.
        collect_abandoned(&self.facts);
        keep(self.driver.stream_destroy(self.upload));
        keep(self.driver.stream_destroy(self.compute));
    }
}

impl Drop for Inner {
    /// A session that was never closed gives back what is proven idle and leaves the rest alone: nothing is waited for.
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(std::sync::PoisonError::into_inner);
        if state.closed {
            return;
        }
        if let Some(registrar) = &self.registrar {
            registrar.abandon(Duration::ZERO).rest.into_iter().for_each(|segment| state.registrations.adopt(segment));
        }
        let idle = state.reap(&*self.driver, true).is_ok() && state.tickets.live() == 0 && state.running.is_empty();
        if idle && state.poisoned.is_none() {
            let supply = release(self.supply.as_ref(), self.staged.as_ref());
            let lifetime = state.lifetime.as_mut().map_or(Ok(()), LifetimeBuffer::release);
            let memory = state.stream.release().and(state.temporaries.release()).and(lifetime);
            let memory = memory.and(state.arena.release()).and(state.registrations.release());
            let _ = supply.and(memory).and(state.events.close());
        }
        // A stream that still has work ends after it; only an idle one is joined without waiting.
        if idle {
            let _ = self.driver.stream_destroy(self.upload).and(self.driver.stream_destroy(self.compute));
        }
    }
}
