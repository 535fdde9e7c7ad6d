//! Handing work to a stream: the guard's pin moves into the work and returns when its end is proven.

use super::marks::window;
use super::state::{Inner, Offload, Running, State};
use super::unit::UnitGuard;
use crate::driver::{Grant, Job, Launch, StreamId};
use crate::error::{Error, Result};
use ddo_schemas::timeline::SampleKind;
use std::sync::Arc;

impl Offload {
    /// Queues work that reads a pinned unit, behind the unit's upload. Afterwards the units expected next are
    /// uploaded ahead.
    ///
    /// # Errors
    /// A guard of another session, the driver's errors, what went wrong since the last call. The pin is let go then.
    pub fn launch(&self, stream: StreamId, mut guard: UnitGuard, job: Job) -> Result<()> {
        let inner = &self.inner;
        if !Arc::ptr_eq(inner, &guard.inner) {
            return Err(Error::invalid("guard", "it belongs to another session"));
        }
        let mut state = inner.open()?;
        inner.await_upload(&mut state, stream, guard.unit)?;
        let event = state.events.take()?;
        if let Err(error) = inner.queue(stream, &guard, job) {
            state.events.give(event)?;
            return Err(error);
        }
        guard.armed = false;
        if let Err(error) = inner.driver.event_record(event, stream) {
            // The work runs, but its end will not be known: the place stays out of use and the pin stays taken.
            inner.quarantine(&mut state, guard.unit, guard.slot);
            state.poison(&error);
            return Err(error.into());
        }
        state.running.push_back(Running { unit: guard.unit, event });
        if let Some(slot) = guard.slot {
            state.slots.unguard(slot, Some((stream, event)));
        }
        inner.look_ahead(&mut state);
        Ok(())
    }
}

impl Inner {
    /// Makes the stream wait for the unit's upload, once for each upload and stream.
    fn await_upload(&self, state: &mut State, stream: StreamId, unit: usize) -> Result<()> {
        let Some(upload) = state.residence.get_mut(unit).and_then(|residence| residence.upload.as_mut()) else { return Ok(()) };
        if upload.awaited_by.contains(&stream) {
            return Ok(());
        }
        let wait = || self.driver.stream_wait_event(stream, upload.event);
        window(&self.marks, SampleKind::ComputeUploadDependency, unit, None, stream, wait)?;
        upload.awaited_by.push(stream);
        self.counters.compute_wait_events.add(1);
        Ok(())
    }

    fn queue(&self, stream: StreamId, guard: &UnitGuard, job: Job) -> Result<()> {
        let plan = self.plan(guard.unit)?;
        let launch = Launch {
            job,
            grants: vec![Grant::new(guard.place, plan.span_bytes)],
            unit: Arc::clone(&plan.name),
            failures: Arc::clone(&self.failures),
        };
        let queue = || self.driver.launch(stream, launch);
        Ok(window(&self.marks, SampleKind::ExecutionUnitWindow, guard.unit, None, stream, queue)?)
    }
}
