//! Closing: completion proof, unmap, release, addresses, events, streams - in this order, written here once.

use super::state::{Inner, Offload, State};
use crate::driver::DriverResult;
use crate::error::{Error, Result};
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
        let mut state = inner.lock();
        if state.closed {
            return Err(Error::Closed { what: "the session" });
        }
        let held = state.residence.iter().map(|residence| residence.pins).sum::<u64>();
        let guards = held.saturating_sub(state.running.len() as u64);
        if guards > 0 && state.poisoned.is_none() {
            return Err(Error::refused("guards_in_hand", "units in hand while closing", guards, 0, "guards"));
        }
        state.closed = true;
        let mut report = CloseReport { cancelled_units: state.slots.cancel_ahead(None), ..CloseReport::default() };
        inner.counters.ahead_cancelled.add(report.cancelled_units);
        report.errors.extend(state.poisoned.clone());
        report.errors.extend(state.deferred.take().map(|error| error.to_string()));
        while let Some((unit, reason)) = inner.failures.take_first() {
            report.errors.push(format!("work of unit {unit:?} failed: {reason}"));
        }
        let before = weight_bytes(&state) + inner.book.lost_bytes.get();
        let proven = inner.drain(Instant::now() + deadline).and_then(|proven| {
            state.reap(&*inner.driver, true).map(|_| proven && state.tickets.live() == 0 && state.running.is_empty())
        });
        match proven {
            Ok(true) => inner.give_back(&mut state, &mut report),
            Ok(false) => report.errors.push(format!("work is still in flight after {deadline:?}")),
            Err(error) => report.errors.push(error.to_string()),
        }
        report.quarantined_bytes = weight_bytes(&state) + inner.book.lost_bytes.get();
        report.released_bytes = before.saturating_sub(report.quarantined_bytes);
        Ok(report)
    }
}

fn weight_bytes(state: &State) -> u64 {
    state.arena.levels().resident_bytes + state.slots.resident_bytes()
}

impl Inner {
    /// Waits until both streams have run everything; false when the deadline passes first.
    fn drain(&self, until: Instant) -> Result<bool> {
        let fence = self.driver.event_create(false)?;
        let drained: Result<bool> = [self.compute, self.upload].into_iter().try_fold(true, |all, stream| {
            self.driver.event_record(fence, stream)?;
            Ok(all && self.driver.event_wait(fence, until.saturating_duration_since(Instant::now()))?)
        });
        let destroyed = self.driver.event_destroy(fence);
        let drained = drained?;
        destroyed?;
        Ok(drained)
    }

    fn give_back(&self, state: &mut State, report: &mut CloseReport) {
        let mut keep = |result: DriverResult<()>| report.errors.extend(result.err().map(|error| error.to_string()));
        keep(state.slots.release());
        if state.quarantined_arena_bytes == 0 {
            keep(state.arena.release());
        }
        keep(state.registrations.release());
        keep(state.events.close());
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
        let idle = state.reap(&*self.driver, true).is_ok() && state.tickets.live() == 0 && state.running.is_empty();
        if idle && state.poisoned.is_none() {
            let _ = state.slots.release().and(state.arena.release()).and(state.registrations.release()).and(state.events.close());
        }
        // A stream that still has work ends after it; only an idle one is joined without waiting.
        if idle {
            let _ = self.driver.stream_destroy(self.upload).and(self.driver.stream_destroy(self.compute));
        }
    }
}
