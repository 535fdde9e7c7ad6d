//! Handing work to a stream: what it reads stays pinned until its end is proven.

use super::marks::OpenWindow;
use super::state::{Inner, Offload, Running, State};
use super::unit::{Hand, UnitGuard};
use crate::driver::{Grant, Job, Launch, StreamId};
use crate::error::{Error, Result};
use crate::memory::Consumer;
use crate::plan::Places;
use ddo_schemas::timeline::SampleKind;
use std::sync::Arc;

impl Offload {
    /// Queues the last work of a pinned unit, behind the uploads of what the guard has in hand, and ends the guard.
    /// Afterwards the parts expected next are uploaded ahead.
    ///
    /// # Errors
    /// A guard of another session, the driver's errors, what went wrong since the last call. The guard ends then, too.
    pub fn launch(&self, stream: StreamId, guard: UnitGuard, job: Job) -> Result<()> {
        let mut state = self.open_for(&guard)?;
        let launched = self.inner.launch(&mut state, stream, &guard, job);
        guard.end(&mut state);
        launched?;
        self.inner.look_ahead(&mut state);
        Ok(())
    }

    /// Queues work that reads what the guard has in hand, behind the uploads of exactly that, and keeps the guard.
    /// Afterwards the parts expected next are uploaded ahead.
    ///
    /// A host that asks for the view of one tensor, launches what reads it, and releases it, lets later parts of the
    /// same unit arrive while earlier ones compute.
    ///
    /// # Errors
    /// A guard of another session, the driver's errors, what went wrong since the last call.
    pub fn launch_part(&self, stream: StreamId, guard: &UnitGuard, job: Job) -> Result<()> {
        let mut state = self.open_for(guard)?;
        self.inner.launch(&mut state, stream, guard, job)?;
        self.inner.look_ahead(&mut state);
        Ok(())
    }

    fn open_for(&self, guard: &UnitGuard) -> Result<std::sync::MutexGuard<'_, State>> {
        if !Arc::ptr_eq(&self.inner, &guard.inner) {
            return Err(Error::invalid("guard", "it belongs to another session"));
        }
        self.inner.open()
    }
}

impl Inner {
    fn launch(&self, state: &mut State, stream: StreamId, guard: &UnitGuard, job: Job) -> Result<()> {
        let mut hand = guard.hand();
        let classic = matches!(*state.stream, Places::Slots(_));
        let open = |hand: &mut Hand| {
            if !std::mem::replace(&mut hand.launched, true) {
                hand.window = OpenWindow::open(&self.marks, SampleKind::ExecutionUnitWindow, guard.unit, stream);
            }
        };
        // Parts are waited for inside the window of their unit, whole units before it.
        if !classic {
            open(&mut hand);
        }
        for held in &hand.parts {
            self.await_upload(state, stream, guard.unit, held.part)?;
        }
        if classic {
            open(&mut hand);
        }
        let grants = self.grants(state, &hand)?;
        let name = Arc::clone(&self.plan(guard.unit)?.name);
        let event = state.events.take()?;
        let launch = Launch { job, grants, unit: name, failures: Arc::clone(&self.failures) };
        let begun = self.begin_span(state, stream);
        let launched = self.driver.launch(stream, launch);
        self.end_work(state, begun, guard.unit);
        if let Err(error) = launched {
            state.events.give(event)?;
            return Err(error.into());
        }
        if let Some(account) = state.accounts.get_mut(guard.unit) {
            account.pins += 1;
        }
        if let Err(error) = self.driver.event_record(event, stream) {
            // The work runs, but its end will not be known: its places stay out of use and its pin stays taken.
            for held in &hand.parts {
                self.quarantine(state, held.part, held.key, held.hold.as_ref());
            }
            if let Some(buffer) = &mut state.lifetime {
                buffer.quarantine();
            }
            state.poison(&error);
            return Err(error.into());
        }
        let places: Vec<_> = hand.parts.iter().filter_map(|held| held.key).collect();
        for key in &places {
            state.stream.note_consumer(*key, Consumer { stream, event });
        }
        let holds: Vec<_> = hand.parts.iter().filter_map(|held| held.hold.clone()).collect();
        holds.iter().for_each(|hold| state.hold(hold));
        state.running.push_back(Running { unit: guard.unit, event, places, holds });
        Ok(())
    }

    fn grants(&self, state: &State, hand: &Hand) -> Result<Vec<Grant>> {
        let grant = |held: &super::place::HeldPart| {
            let plan = self.part(held.part)?;
            Ok(Grant::new(self.place_of(state, held)?, plan.span_bytes))
        };
        hand.parts.iter().map(grant).chain(self.lifetime_grant(state).map(Ok)).collect()
    }

    /// Makes the stream wait for a part's upload, once for each upload and stream.
    fn await_upload(&self, state: &mut State, stream: StreamId, unit: usize, part: usize) -> Result<()> {
        let Some(upload) = state.residence.get_mut(part).and_then(|residence| residence.upload.as_mut()) else { return Ok(()) };
        if upload.awaited_by.contains(&stream) {
            return Ok(());
        }
        let window = OpenWindow::open(&self.marks, SampleKind::ComputeUploadDependency, unit, stream);
        let waited = self.driver.stream_wait_event(stream, upload.event);
        if let Some(window) = window {
            window.close();
        }
        waited?;
        upload.awaited_by.push(stream);
        self.counters.compute_wait_events.add(1);
        Ok(())
    }
}
