//! Uploading units, on demand and ahead.

use super::marks::window;
use super::state::{Inner, State, Upload};
use crate::driver::DeviceAddress;
use crate::error::{Error, Result};
use crate::transfer::{Ticket, UnitBatch};
use ddo_schemas::timeline::SampleKind;
use std::sync::Arc;

impl Inner {
    /// Queues a unit's copies into its place, behind the last work that reads there.
    pub(super) fn upload(&self, state: &mut State, unit: usize, place: DeviceAddress, slot: Option<usize>) -> Result<()> {
        let clock = &*self.clock;
        let batch = self.counters.dma_enqueue.time(clock, || {
            self.counters.transport_total.time(clock, || {
                let batch = self.counters.transport_prepare.time(clock, || self.batch(state, unit))?;
                self.await_consumers(state, unit, slot)?;
                self.counters.transport_submit.time(clock, || self.submit(state, unit, &batch, place, slot))?;
                Ok::<_, Error>(batch)
            })
        })?;
        self.counters.batch_submissions.add(1);
        self.counters.copies.add(batch.copies());
        self.counters.uploads.add(batch.tensors());
        self.counters.file_uploads.add(batch.file_tensors());
        self.counters.upload_bytes.add(batch.bytes());
        if batch.file_tensors() > 0 {
            self.counters.file_upload_bytes.add(batch.bytes());
        }
        Ok(())
    }

    /// The unit's batch, built on first use.
    fn batch(&self, state: &mut State, unit: usize) -> Result<Arc<UnitBatch>> {
        if let Some(batch) = state.batches.get(unit).and_then(Option::as_ref) {
            return Ok(Arc::clone(batch));
        }
        let plan = self.plan(unit)?;
        let batch = self.counters.transport_create.time(&*self.clock, || UnitBatch::new(&plan.batch, &self.sources));
        let outside = || Error::invalid(format!("unit {:?}", plan.name), "a tensor lies outside its source".to_string());
        let batch = Arc::new(batch.ok_or_else(outside)?);
        if let Some(entry) = state.batches.get_mut(unit) {
            *entry = Some(Arc::clone(&batch));
        }
        Ok(batch)
    }

    /// Makes the upload stream wait for all work that still reads the slot.
    fn await_consumers(&self, state: &mut State, unit: usize, slot: Option<usize>) -> Result<()> {
        let Some(slot) = slot else { return Ok(()) };
        let consumers = state.slots.take_consumers(slot);
        if consumers.is_empty() {
            return Ok(());
        }
        let wait = || consumers.iter().try_for_each(|(_, event)| self.driver.stream_wait_event(self.upload, *event));
        let waited = window(&self.marks, SampleKind::UploadSlotDependency, unit, None, self.upload, wait);
        if waited.is_err() {
            state.slots.restore_consumers(slot, consumers);
        }
        Ok(waited?)
    }

    fn submit(&self, state: &mut State, unit: usize, batch: &UnitBatch, place: DeviceAddress, slot: Option<usize>) -> Result<()> {
        let event = state.events.take()?;
        let copy = || batch.submit(&*self.driver, place, self.upload);
        let submitted = window(&self.marks, SampleKind::UploadBatchWindow, unit, Some(batch.bytes()), self.upload, copy);
        if let Err((0, error)) = submitted {
            // Nothing was queued: nothing to prove.
            state.events.give(event)?;
            return Err(error.into());
        }
        // Behind a part of the copies, too: the fence proves when the place is quiet again.
        if let Err(error) = self.driver.event_record(event, self.upload) {
            self.quarantine(state, unit, slot);
            state.poison(&error);
            return Err(error.into());
        }
        state.tickets.push(Ticket { event, owner: unit });
        if let Err((_, error)) = submitted {
            return Err(error.into());
        }
        if let Some(residence) = state.residence.get_mut(unit) {
            residence.upload = Some(Upload { event, awaited_by: Vec::new() });
        }
        Ok(())
    }

    /// Keeps a place out of use whose end of use cannot be proven.
    pub(super) fn quarantine(&self, state: &mut State, unit: usize, slot: Option<usize>) {
        match slot {
            Some(slot) => state.slots.quarantine(slot),
            None => state.quarantined_arena_bytes += self.units.get(unit).map_or(0, |plan| plan.span_bytes),
        }
    }

    /// Uploads the units expected next, as many as the depth allows. A slot that cannot be had is a skip, never a
    /// wait; a failure is raised by the next call.
    pub(super) fn look_ahead(&self, state: &mut State) {
        if self.look_ahead_depth == 0 || state.poisoned.is_some() || state.deferred.is_some() {
            return;
        }
        let streamed = |unit: &usize| self.units.get(*unit).is_some_and(|plan| !plan.resident);
        let wanted: Vec<usize> = state.order.ahead().filter(streamed).take(self.look_ahead_depth as usize).collect();
        for unit in &wanted {
            if state.slots.find(*unit).is_some() {
                continue;
            }
            let Some(slot) = state.slots.choose(&wanted) else {
                self.counters.ahead_skips.add(1);
                return;
            };
            if let Err(error) = self.fill_slot(state, *unit, slot, true) {
                state.deferred = Some(error);
                return;
            }
            self.counters.ahead_units.add(1);
        }
    }
}
