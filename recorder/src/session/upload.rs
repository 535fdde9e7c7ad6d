//! Uploading parts, on demand and ahead.

use super::marks::window;
use super::paged::ArenaHold;
use super::state::{Inner, State, Upload as LatestUpload};
use super::supply::lock;
use crate::driver::{DeviceAddress, DriverResult, EventId};
use crate::error::{Error, Result};
use crate::memory::{Consumer, StreamClaim};
use crate::meter::HostScope;
use crate::plan::{Blocked, Holding, PlaceKey, Places, Want};
use crate::transfer::{Carrier, PartBatch, Stage, Stopped, Ticket};
use ddo_schemas::timeline::SampleKind;
use std::sync::Arc;

/// Where an upload goes.
pub(super) enum Destination {
    /// The part's place in the arena, and what holds it while the upload runs where parts come and go.
    Arena(DeviceAddress, Option<ArenaHold>),
    /// Memory that stands in for the arena's, and what holds it.
    Temporary(DeviceAddress, ArenaHold),
    /// A place in stream memory that is taken once the first copies may start.
    Stream(StreamClaim),
}

/// What is uploaded, where to, and the event behind it where that comes from outside.
type Upload<'a> = (usize, &'a Destination, Option<EventId>);

/// How far the copies of an upload have come.
struct Progress {
    /// Stages whose consumers are waited for.
    stages: usize,
    copies: u64,
    outcome: Result<()>,
}

impl Destination {
    fn key(&self) -> Option<PlaceKey> {
        if let Destination::Stream(claim) = self { Some(claim.key()) } else { None }
    }

    fn hold(&self) -> Option<&ArenaHold> {
        match self {
            Destination::Arena(_, hold) => hold.as_ref(),
            Destination::Temporary(_, hold) => Some(hold),
            Destination::Stream(_) => None,
        }
    }
}

impl Inner {
    /// Queues a part's copies into its place, behind the last work that reads there.
    pub(super) fn upload(&self, state: &mut State, part: usize, to: &Destination) -> Result<()> {
        let aside = || self.staged.as_ref().map_or(0, |staged| lock(staged).aside_nanoseconds());
        let (start, aside_before) = (self.clock.now(), aside());
        let uploaded = match to {
            Destination::Stream(_) => {
                let sent = self.transport(state, part, to, None);
                sent.and_then(|(batch, progress)| progress.outcome.map(|()| (batch, progress.copies)))
            }
            _ => self.through_upload_stream(state, part, to),
        };
        // Waiting for staging slots and filling them is no enqueueing; both have times of their own.
        self.counters.dma_enqueue.add_but(&*self.clock, start, aside() - aside_before);
        let (batch, copies) = uploaded?;
        self.counters.copies.add(copies);
        self.counters.enqueue_bytes.add(batch.bytes());
        self.counters.file_enqueue_bytes.add(if batch.file_tensors() > 0 { batch.bytes() } else { 0 });
        if matches!(to, Destination::Temporary(..)) {
            return Ok(());
        }
        self.counters.uploads.add(batch.tensors());
        self.counters.file_uploads.add(batch.file_tensors());
        self.counters.upload_bytes.add(batch.bytes());
        if batch.file_tensors() > 0 {
            self.counters.file_upload_bytes.add(batch.bytes());
        }
        Ok(())
    }

    /// Uploads outside stream memory: the proof of their end is made ready before, and set behind, all that transports.
    fn through_upload_stream(&self, state: &mut State, part: usize, to: &Destination) -> Result<(Arc<PartBatch>, u64)> {
        let (clock, scopes) = (&*self.clock, &self.counters.upload_stream);
        let event = scopes.enter.time(clock, || state.events.take());
        let sent = scopes.body.time(clock, || match &event {
            Ok(event) => self.transport(state, part, to, Some(*event)),
            Err(error) => Err(error.clone().into()),
        });
        scopes.exit.time(clock, || match (event, sent) {
            (Ok(event), Ok((batch, progress))) => self.prove(state, part, to, event, progress).map(|copies| (batch, copies)),
            (Ok(event), Err(error)) => {
                state.events.give(event)?;
                Err(error)
            }
            (Err(_), sent) => sent.map(|(batch, progress)| (batch, progress.copies)),
        })
    }

    /// Finds the part's batch and queues its copies. An error means that nothing was queued.
    fn transport(
        &self,
        state: &mut State,
        part: usize,
        to: &Destination,
        event: Option<EventId>,
    ) -> Result<(Arc<PartBatch>, Progress)> {
        let clock = &*self.clock;
        self.counters.transport_total.time(clock, || {
            let batch = self.counters.transport_prepare.time(clock, || self.batch(state, part))?;
            let fences = if let Destination::Stream(claim) = to { claim.fences() } else { &[] };
            let stages = batch.stages(fences, self.rules.least_stage_bytes);
            let submit = || self.submit(state, (part, to, event), &batch, &stages);
            let progress = self.counters.transport_submit.time(clock, submit)?;
            Ok((batch, progress))
        })
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

    /// Queues waits and copies. With an event from outside, its owner sets it behind them.
    fn submit(&self, state: &mut State, upload: Upload<'_>, batch: &PartBatch, stages: &[Stage]) -> Result<Progress> {
        let Some(supply) = &self.supply else {
            let mut staged = self.staged.as_ref().map(lock);
            let carrier = staged.as_deref_mut().map_or(Carrier::Direct, Carrier::Staged);
            return self.submit_to(state, upload, stages, (carrier, batch));
        };
        let (clock, bridge) = (&*self.clock, &self.counters.bridge);
        let submitted = bridge.submit_total.time(clock, || {
            let mut supply = bridge.submit_lock_wait.time(clock, || lock(supply));
            self.submit_to(state, upload, stages, (Carrier::Supply(&mut supply), batch))
        });
        let whole = submitted.as_ref().is_ok_and(|progress| progress.outcome.is_ok());
        self.counters.source_submissions.add(u64::from(whole));
        submitted
    }

    /// A scope that only submissions with a supply have.
    fn bridged<T>(&self, is_on: bool, scope: &HostScope, work: impl FnOnce() -> T) -> T {
        if is_on { scope.time(&*self.clock, work) } else { work() }
    }

    fn submit_to(
        &self,
        state: &mut State,
        (part, to, given): Upload<'_>,
        stages: &[Stage],
        (mut carrier, batch): (Carrier<'_>, &PartBatch),
    ) -> Result<Progress> {
        let unit = self.part(part)?.unit;
        let (bridge, is_on) = (&self.counters.bridge, matches!(carrier, Carrier::Supply(_)));
        let (place, event) = self.bridged(is_on, &bridge.submit_prepare, || {
            let first = stages.first().map(|stage| stage.consumers.as_slice()).unwrap_or_default();
            self.await_consumers(unit, first)?;
            let place = match to {
                Destination::Arena(place, _) | Destination::Temporary(place, _) => *place,
                Destination::Stream(claim) => {
                    state.stream.commit(claim);
                    state.stream.address(claim.key())
                }
            };
            Ok::<_, Error>((place, given.map_or_else(|| state.events.take(), Ok)))
        })?;
        let progress = match &event {
            Err(_) => Progress { stages: 1, copies: 0, outcome: Ok(()) },
            Ok(_) if is_on => bridge.submit_call.time(&*self.clock, || {
                bridge.native_submit.time(&*self.clock, || self.queue_supplied(state, part, stages, place, (&mut carrier, batch)))
            }),
            Ok(_) => self.queue_copies(state, unit, stages, place, &mut carrier),
        };
        self.bridged(is_on, &bridge.submit_result, || {
            if let Some(key) = to.key() {
                // Whatever was not reached has still to be waited for by somebody.
                let rest = stages.iter().skip(progress.stages).flat_map(|stage| stage.consumers.iter().copied());
                state.stream.owe(key, rest);
            }
            let (event, reached) = (event?, progress.stages);
            if given.is_some() {
                return Ok(progress);
            }
            self.prove(state, part, to, event, progress).map(|copies| Progress { stages: reached, copies, outcome: Ok(()) })
        })
    }

    /// Queues copies whose bytes are read first.
    fn queue_supplied(
        &self,
        state: &mut State,
        part: usize,
        stages: &[Stage],
        place: DeviceAddress,
        (carrier, batch): (&mut Carrier<'_>, &PartBatch),
    ) -> Progress {
        if let Carrier::Supply(supply) = carrier {
            match supply.collect(false).and_then(|()| supply.begin(part, batch)) {
                Ok(as_expected) => state.guess_is_wrong |= !as_expected,
                Err(error) => return Progress { stages: 1, copies: 0, outcome: Err(error) },
            }
        }
        let unit = self.parts.get(part).map_or(0, |plan| plan.unit);
        self.queue_copies(state, unit, stages, place, carrier)
    }

    /// Sets the event behind what was queued: it proves when the place is quiet again. The number of copies.
    fn prove(&self, state: &mut State, part: usize, to: &Destination, event: EventId, progress: Progress) -> Result<u64> {
        let is_held = to.hold().is_some();
        if let Progress { copies: 0, outcome: Err(error), .. } = progress {
            if is_held {
                // Memory that comes and goes is proven quiet all the same: a call that failed may have queued a part.
                return self.prove(state, part, to, event, Progress { stages: 1, copies: 1, outcome: Err(error) });
            }
            // Nothing was queued: nothing to prove.
            state.events.give(event)?;
            return Err(error);
        }
        // Behind a part of the copies, too.
        if let Err(error) = self.driver.event_record(event, self.upload) {
            self.quarantine(state, part, to.key(), to.hold());
            state.poison(&error);
            return Err(error.into());
        }
        state.tickets.push(Ticket { event, owner: part });
        if let Some(hold) = to.hold() {
            state.hold(hold);
            state.upload_holds.insert(event, hold.clone());
        }
        progress.outcome?;
        if let Some(residence) = state.residence.get_mut(part) {
            residence.upload = Some(LatestUpload { event, awaited_by: Vec::new() });
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
        carrier: &mut Carrier<'_>,
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
            // Filling staging slots lies between the copies: such a span tells nothing of the link.
            let begun = if matches!(carrier, Carrier::Staged(_)) { None } else { self.begin_span(state, self.upload) };
            let copy = || stage.submit(&*self.driver, place, self.upload, carrier);
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
    pub(super) fn quarantine(&self, state: &mut State, part: usize, key: Option<PlaceKey>, hold: Option<&ArenaHold>) {
        match (key, hold) {
            (Some(key), _) => state.stream.quarantine(key),
            (None, Some(ArenaHold::Temporary(id))) => state.temporaries.quarantine(*id),
            (None, _) => state.quarantined_arena_bytes += self.parts.get(part).map_or(0, |plan| plan.span_bytes),
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
        if self.rules.depth > 0 && state.poisoned.is_none() && state.deferred.is_none() {
            if !self.rules.paged {
                self.upload_ahead(state);
            } else if let Err(error) = self.page_ahead(state) {
                state.deferred = Some(error);
            }
        }
        self.read_ahead(state);
    }

    fn upload_ahead(&self, state: &mut State) {
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
