//! Uploading parts, on demand and ahead.

use super::marks::window;
use super::state::{Inner, State, Upload};
use super::supply::lock;
use crate::driver::{DeviceAddress, DriverResult, EventId};
use crate::error::{Error, Result};
use crate::memory::{Consumer, StreamClaim};
use crate::meter::HostScope;
use crate::plan::{Blocked, Holding, PlaceKey, Places, Want};
use crate::transfer::{PartBatch, Stage, Stopped, Supply, Ticket};
use ddo_schemas::timeline::SampleKind;
use std::sync::Arc;

/// Where an upload goes.
pub(super) enum Destination {
    /// The part's place in the arena.
    Arena(DeviceAddress),
    /// A place in stream memory that is taken once the first copies may start.
    Stream(StreamClaim),
}

/// How far the copies of an upload have come.
struct Progress {
    /// Stages whose consumers are waited for.
    stages: usize,
    copies: u64,
    outcome: Result<()>,
}

impl Inner {
    /// Queues a part's copies into its place, behind the last work that reads there.
    pub(super) fn upload(&self, state: &mut State, part: usize, to: &Destination) -> Result<()> {
        let clock = &*self.clock;
        let (batch, copies) = self.counters.dma_enqueue.time(clock, || {
            self.counters.transport_total.time(clock, || {
                let batch = self.counters.transport_prepare.time(clock, || self.batch(state, part))?;
                let fences = if let Destination::Stream(claim) = to { claim.fences() } else { &[] };
                let stages = batch.stages(fences, self.rules.least_stage_bytes);
                let copies = self.counters.transport_submit.time(clock, || self.submit(state, part, &batch, &stages, to))?;
                Ok::<_, Error>((batch, copies))
            })
        })?;
        self.counters.copies.add(copies);
        self.counters.uploads.add(batch.tensors());
        self.counters.file_uploads.add(batch.file_tensors());
        self.counters.upload_bytes.add(batch.bytes());
        if batch.file_tensors() > 0 {
            self.counters.file_upload_bytes.add(batch.bytes());
        }
        Ok(())
    }

    /// The part's batch, built on first use and once more of its bytes are registered.
    pub(super) fn batch(&self, state: &mut State, part: usize) -> Result<Arc<PartBatch>> {
        self.renew_batch(state, part);
        if let Some(batch) = state.batches.get(part).and_then(Option::as_ref) {
            return Ok(Arc::clone(batch));
        }
        let plan = self.part(part)?;
        let (clock, bridge) = (&*self.clock, &self.counters.bridge);
        let create = || bridge.create_call.time(clock, || PartBatch::new(&plan.batch, &self.sources, &state.registrations));
        let batch = self.counters.transport_create.time(clock, || bridge.create_total.time(clock, create));
        let name = || self.units.get(plan.unit).map_or_else(String::new, |unit| unit.name.to_string());
        let outside = || Error::invalid(format!("unit {:?}", name()), "a tensor lies outside its source".to_string());
        let batch = Arc::new(batch.ok_or_else(outside)?);
        if let Some(entry) = state.batches.get_mut(part) {
            *entry = Some(Arc::clone(&batch));
        }
        Ok(batch)
    }

    /// Makes the upload stream wait for work that still reads a place.
    fn await_consumers(&self, unit: usize, consumers: &[Consumer]) -> DriverResult<()> {
        if consumers.is_empty() {
            return Ok(());
        }
        let wait = || consumers.iter().try_for_each(|consumer| self.driver.stream_wait_event(self.upload, consumer.event));
        window(&self.marks, SampleKind::UploadSlotDependency, unit, None, self.upload, wait)
    }

    /// Queues waits and copies; the number of copies.
    fn submit(&self, state: &mut State, part: usize, batch: &PartBatch, stages: &[Stage], to: &Destination) -> Result<u64> {
        let Some(supply) = &self.supply else { return self.submit_to(state, part, stages, to, None) };
        let (clock, bridge) = (&*self.clock, &self.counters.bridge);
        let submitted = bridge.submit_total.time(clock, || {
            let mut supply = bridge.submit_lock_wait.time(clock, || lock(supply));
            self.submit_to(state, part, stages, to, Some((&mut supply, batch)))
        });
        self.counters.source_submissions.add(u64::from(submitted.is_ok()));
        submitted
    }

    /// A scope that only submissions with a supply have.
    fn bridged<T>(&self, is_on: bool, scope: &HostScope, work: impl FnOnce() -> T) -> T {
        if is_on { scope.time(&*self.clock, work) } else { work() }
    }

    fn submit_to(
        &self,
        state: &mut State,
        part: usize,
        stages: &[Stage],
        to: &Destination,
        supply: Option<(&mut Supply, &PartBatch)>,
    ) -> Result<u64> {
        let unit = self.part(part)?.unit;
        let (bridge, is_on) = (&self.counters.bridge, supply.is_some());
        let (place, key, event) = self.bridged(is_on, &bridge.submit_prepare, || {
            let first = stages.first().map(|stage| stage.consumers.as_slice()).unwrap_or_default();
            self.await_consumers(unit, first)?;
            let (place, key) = match to {
                Destination::Arena(place) => (*place, None),
                Destination::Stream(claim) => {
                    state.stream.commit(claim);
                    (state.stream.address(claim.key()), Some(claim.key()))
                }
            };
            Ok::<_, Error>((place, key, state.events.take()))
        })?;
        let progress = match (&event, supply) {
            (Err(_), _) => Progress { stages: 1, copies: 0, outcome: Ok(()) },
            (Ok(_), None) => self.queue_copies(state, unit, stages, place, None),
            (Ok(_), Some((supply, batch))) => bridge.submit_call.time(&*self.clock, || {
                bridge.native_submit.time(&*self.clock, || self.queue_supplied(state, part, stages, place, (supply, batch)))
            }),
        };
        self.bridged(is_on, &bridge.submit_result, || self.conclude(state, part, stages, key, event, progress))
    }

    /// Queues copies whose bytes are read first.
    fn queue_supplied(
        &self,
        state: &mut State,
        part: usize,
        stages: &[Stage],
        place: DeviceAddress,
        (supply, batch): (&mut Supply, &PartBatch),
    ) -> Progress {
        let begun = supply.collect(false).and_then(|()| supply.begin(part, batch.extents()));
        match begun {
            Ok(as_expected) => state.guess_is_wrong |= !as_expected,
            Err(error) => return Progress { stages: 1, copies: 0, outcome: Err(error) },
        }
        let unit = self.parts.get(part).map_or(0, |plan| plan.unit);
        self.queue_copies(state, unit, stages, place, Some(supply))
    }

    /// Settles what a submission came to: who is still waited for, and what proves its end.
    fn conclude(
        &self,
        state: &mut State,
        part: usize,
        stages: &[Stage],
        key: Option<PlaceKey>,
        event: DriverResult<EventId>,
        progress: Progress,
    ) -> Result<u64> {
        if let Some(key) = key {
            // Whatever was not reached has still to be waited for by somebody.
            let rest = stages.iter().skip(progress.stages).flat_map(|stage| stage.consumers.iter().copied());
            state.stream.owe(key, rest);
        }
        let event = event?;
        if let Progress { copies: 0, outcome: Err(error), .. } = progress {
            // Nothing was queued: nothing to prove.
            state.events.give(event)?;
            return Err(error);
        }
        // Behind a part of the copies, too: the fence proves when the place is quiet again.
        if let Err(error) = self.driver.event_record(event, self.upload) {
            self.quarantine(state, part, key);
            state.poison(&error);
            return Err(error.into());
        }
        state.tickets.push(Ticket { event, owner: part });
        progress.outcome?;
        if let Some(residence) = state.residence.get_mut(part) {
            residence.upload = Some(Upload { event, awaited_by: Vec::new() });
        }
        Ok(progress.copies)
    }

    /// Queues the stages; the consumers of the first are waited for already.
    fn queue_copies(
        &self,
        state: &mut State,
        unit: usize,
        stages: &[Stage],
        place: DeviceAddress,
        mut supply: Option<&mut Supply>,
    ) -> Progress {
        let mut progress = Progress { stages: 1, copies: 0, outcome: Ok(()) };
        for (index, stage) in stages.iter().enumerate() {
            if index > 0 {
                progress.outcome = self.await_consumers(unit, &stage.consumers).map_err(Error::from);
                if progress.outcome.is_err() {
                    return progress;
                }
                progress.stages = index + 1;
            }
            let begun = self.begin_span(state, self.upload);
            let copy = || stage.submit(&*self.driver, place, self.upload, supply.as_deref_mut());
            let submitted = window(&self.marks, SampleKind::UploadBatchWindow, unit, Some(stage.bytes()), self.upload, copy);
            self.end_copy(state, begun, stage.bytes());
            match submitted {
                Ok(copies) => progress.copies += copies,
                Err(Stopped { queued, error }) => {
                    progress.copies += queued;
                    progress.outcome = Err(error);
                    return progress;
                }
            }
        }
        progress
    }

    /// Keeps a place out of use whose end of use cannot be proven.
    pub(super) fn quarantine(&self, state: &mut State, part: usize, key: Option<PlaceKey>) {
        match key {
            Some(key) => state.stream.quarantine(key),
            None => state.quarantined_arena_bytes += self.parts.get(part).map_or(0, |plan| plan.span_bytes),
        }
    }

    /// Uploads a part into stream memory and notes what the place holds.
    pub(super) fn fill(&self, state: &mut State, part: usize, claim: StreamClaim, ahead: bool) -> Result<PlaceKey> {
        let key = claim.key();
        self.upload(state, part, &Destination::Stream(claim))?;
        let holding = Holding { owner: part, ahead };
        state.stream.hold(key, holding);
        self.note_streamed(state, part, holding);
        self.read_ahead(state);
        Ok(key)
    }

    /// Uploads the parts expected next, as many as the depth and the memory allow. A place that cannot be had is a
    /// skip, never a wait; a failure is raised by the next call.
    pub(super) fn look_ahead(&self, state: &mut State) {
        self.upload_ahead(state);
        self.read_ahead(state);
    }

    fn upload_ahead(&self, state: &mut State) {
        if self.rules.depth == 0 || state.poisoned.is_some() || state.deferred.is_some() {
            return;
        }
        let wanted = self.wanted(state);
        for (index, part) in wanted.iter().enumerate() {
            if state.stream.find(*part).is_some() {
                continue;
            }
            let bytes = self.parts.get(*part).map_or(0, |plan| plan.span_bytes);
            // Slots can be chosen among; the ring goes on in its own order, and only what comes sooner is kept.
            let keep = match *state.stream {
                Places::Slots(_) => wanted.as_slice(),
                Places::Ring(_) => wanted.get(..index).unwrap_or_default(),
            };
            let claim = match state.stream.survey(&Want { bytes, keep, past_ahead: false }) {
                Ok(claim) => claim,
                Err(blocked) => {
                    self.counters.ahead_skips.add(u64::from(blocked == Blocked::InHand));
                    return;
                }
            };
            if let Err(error) = self.fill(state, *part, claim, true) {
                state.deferred = Some(error);
                return;
            }
        }
    }

    /// The streamed parts expected next, as many as may be uploaded ahead, and no more bytes than there is memory.
    fn wanted(&self, state: &State) -> Vec<usize> {
        let (mut wanted, mut bytes) = (Vec::new(), 0u64);
        let expected = (0..).map_while(|later| state.order.ahead(later));
        for part in expected {
            let Some(plan) = self.parts.get(part).filter(|plan| !plan.resident) else { continue };
            bytes = bytes.saturating_add(plan.span_bytes);
            if wanted.len() as u64 >= self.rules.depth || (bytes > state.stream.capacity_bytes() && !wanted.is_empty()) {
                break;
            }
            wanted.push(part);
        }
        wanted
    }
}
