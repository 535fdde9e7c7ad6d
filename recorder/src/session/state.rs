//! What a session holds, and the part of its public face that only reads.

use super::Counters;
use super::accounts::UnitAccount;
use super::backing::{Fixed, Memory};
use super::learning::{Learning, PassForecast};
use super::marks::{MarksSlot, StepsSlot};
use super::paged::ArenaHold;
use super::ranges::RangesSlot;
use crate::config::RegistrationTiming;
use crate::driver::{CallMeter, DeviceFacts, Driver, EventId, JobFailures, StreamId};
use crate::error::{Error, Result};
use crate::memory::{
    Arena, Checkpoint, HostTensor, LifetimeBuffer, MappingBook, Registrar, Registrations, Sources, StreamMemory, Temporaries,
};
use crate::meter::Clock;
use crate::plan::checkpoint::Dtype;
use crate::plan::{BatchTensor, PassOrder, PlaceKey};
use crate::transfer::{EventPool, PartBatch, Staged, Supply, TicketLedger};
use ddo_schemas::sections::{Configuration, State as StateReport};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// Names a unit inside one attached component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitId(pub(crate) usize);

impl UnitId {
    /// The run-local number that reports use.
    pub fn number(self) -> u64 {
        self.0 as u64
    }
}

/// What a host may know about a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitInfo {
    /// Its id.
    pub id: UnitId,
    /// Path of its module.
    pub name: String,
    /// Payload in bytes.
    pub bytes: u64,
    /// Whether all of it stays on the device.
    pub resident: bool,
    /// Of its payload, what every pass uploads.
    pub streamed_bytes: u64,
}

/// Where a tensor lies inside its part.
#[derive(Clone, Debug)]
pub(crate) struct TensorPlace {
    pub(crate) part: usize,
    /// Which tensor of the part it is.
    pub(crate) index: usize,
    pub(crate) offset: u64,
    pub(crate) bytes: u64,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<u64>,
}

/// What is settled about a unit at attach.
#[derive(Debug)]
pub(crate) struct UnitPlan {
    pub(crate) name: Arc<str>,
    pub(crate) parts: Range<usize>,
    /// Of the parts, those that do not stay.
    pub(crate) streamed_parts: u64,
    pub(crate) tensors: BTreeMap<String, TensorPlace>,
}

/// What is settled about a part at attach.
#[derive(Debug)]
pub(crate) struct PartPlan {
    pub(crate) unit: usize,
    pub(crate) resident: bool,
    pub(crate) arena_start: u64,
    pub(crate) span_bytes: u64,
    pub(crate) payload_bytes: u64,
    pub(crate) batch: Vec<BatchTensor>,
}

/// Bytes and rules of stream memory, as settled at attach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamRules {
    /// Parts that may be uploaded ahead; zero without look-ahead.
    pub(crate) depth: u64,
    /// Parts are placed when a view of them is asked for, not with their unit.
    pub(crate) by_part: bool,
    /// Units that do not stay come and go in the arena.
    pub(crate) paged: bool,
    /// A unit that the arena declines gets memory of its own, outside the ceiling.
    pub(crate) fault_fallback: bool,
    /// Least bytes of a copy that starts before the rest of its place is free.
    pub(crate) least_stage_bytes: u64,
    /// Whether an early pass is timed.
    pub(crate) learns: bool,
    /// Source bytes that are read before their upload, at most about so many.
    pub(crate) read_ahead_bytes: u64,
}

/// The event behind an upload, and which streams wait for it already.
#[derive(Clone, Debug)]
pub(crate) struct Upload {
    pub(crate) event: EventId,
    pub(crate) awaited_by: Vec<StreamId>,
}

/// What changes about a part.
#[derive(Debug, Default)]
pub(crate) struct Residence {
    /// The generation of its range in the arena when it was uploaded there last.
    pub(crate) generation: Option<u64>,
    /// Until its completion is proven.
    pub(crate) upload: Option<Upload>,
}

/// How far look-ahead has considered what will be asked for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LookedAhead {
    /// Requests of the session, past and expected.
    pub(crate) requests: u64,
    /// Passes that had left the order by then: afterwards other requests are expected.
    pub(crate) mismatches: u64,
}

/// Work in flight that holds a unit, and the stream memory that it reads.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) unit: usize,
    pub(crate) event: EventId,
    pub(crate) places: Vec<PlaceKey>,
    pub(crate) holds: Vec<ArenaHold>,
}

/// Everything behind the session's one lock.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) arena: Arena,
    pub(crate) stream: StreamMemory,
    pub(crate) temporaries: Temporaries,
    /// What lives as long as the component; `None` where nothing is to.
    pub(crate) lifetime: Option<LifetimeBuffer>,
    /// What uploads in flight hold, by their event.
    pub(crate) upload_holds: BTreeMap<EventId, ArenaHold>,
    /// Units whose host waits for memory in use, without the lock.
    pub(crate) waiting: u64,
    /// Parts brought into the arena ahead of their consumer.
    pub(crate) paged_ahead: BTreeSet<usize>,
    /// One for each part.
    pub(crate) residence: Vec<Residence>,
    /// One for each unit.
    pub(crate) accounts: Vec<UnitAccount>,
    pub(crate) batches: Vec<Option<Arc<PartBatch>>>,
    /// Parts of whose bytes more are registered than their batches know.
    pub(crate) outdated: BTreeSet<usize>,
    pub(crate) order: PassOrder,
    pub(crate) tickets: TicketLedger,
    pub(crate) running: VecDeque<Running>,
    pub(crate) events: EventPool,
    pub(crate) registrations: Registrations,
    pub(crate) learning: Learning,
    /// Events that could not be destroyed; tried again at the end.
    pub(crate) leftover_events: Vec<EventId>,
    /// Arena bytes that may never be used again.
    pub(crate) quarantined_arena_bytes: u64,
    /// The first failure that could not be bounded.
    pub(crate) poisoned: Option<String>,
    /// A failure of look-ahead, raised by the next call.
    pub(crate) deferred: Option<Error>,
    pub(crate) closed: bool,
    /// The first pass does not follow the component's order.
    pub(crate) guess_is_wrong: bool,
    pub(crate) looked_ahead: LookedAhead,
}

/// The session behind an [`Offload`] and its guards.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) name: String,
    pub(crate) session_id: String,
    pub(crate) driver: Arc<dyn Driver>,
    pub(crate) facts: DeviceFacts,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) compute: StreamId,
    pub(crate) upload: StreamId,
    pub(crate) units: Vec<UnitPlan>,
    pub(crate) parts: Vec<PartPlan>,
    pub(crate) infos: Vec<UnitInfo>,
    pub(crate) rules: StreamRules,
    pub(crate) sources: Sources,
    /// Reads bytes that `sources` does not hold. Locked inside the session's lock, or alone.
    pub(crate) supply: Option<Mutex<Supply>>,
    /// Staging slots that all source bytes pass through, where they do. Locked like the supply.
    pub(crate) staged: Option<Mutex<Staged>>,
    /// Registers mapped bytes. Holds no lock of the session's.
    pub(crate) registrar: Option<Arc<Registrar>>,
    /// When it does.
    pub(crate) timing: RegistrationTiming,
    pub(crate) checkpoint: Option<Checkpoint>,
    pub(crate) host: BTreeMap<String, HostTensor>,
    pub(crate) fixed: Fixed,
    pub(crate) counters: Counters,
    pub(crate) failures: Arc<JobFailures>,
    pub(crate) book: Arc<MappingBook>,
    pub(crate) steps: StepsSlot,
    pub(crate) call_meter: Arc<CallMeter>,
    pub(crate) marks: MarksSlot,
    pub(crate) ranges: RangesSlot,
    pub(crate) configuration: Configuration,
    pub(crate) state_report: StateReport,
    pub(crate) bindings: Bindings,
    pub(crate) forecast: OnceLock<PassForecast>,
    pub(crate) state: Mutex<State>,
}

/// Managed tensors by where their bytes lie.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Bindings {
    pub(crate) file: u64,
    pub(crate) file_bytes: u64,
    pub(crate) memory: u64,
    pub(crate) memory_bytes: u64,
}

impl Inner {
    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The state of a session that can still be used; raises what went wrong since the last call.
    pub(crate) fn open(&self) -> Result<MutexGuard<'_, State>> {
        let mut state = self.lock();
        if state.closed {
            return Err(Error::Closed { what: "the session" });
        }
        if let Some(first) = &state.poisoned {
            return Err(Error::Poisoned { first: first.clone() });
        }
        if let Some(error) = state.deferred.take() {
            return Err(error);
        }
        self.raise_job_failure()?;
        self.take_registered(&mut state);
        Ok(state)
    }

    pub(crate) fn raise_job_failure(&self) -> Result<()> {
        match self.failures.take_first() {
            Some((unit, reason)) => Err(Error::Job { unit, reason }),
            None => Ok(()),
        }
    }

    pub(crate) fn plan(&self, unit: usize) -> Result<&UnitPlan> {
        let place = || format!("component {:?}, which has {} units", self.name, self.units.len());
        self.units.get(unit).ok_or_else(|| Error::UnknownName { kind: "unit", name: unit.to_string(), place: place() })
    }

    pub(crate) fn part(&self, part: usize) -> Result<&PartPlan> {
        let place = || format!("component {:?}, which has {} parts", self.name, self.parts.len());
        self.parts.get(part).ok_or_else(|| Error::UnknownName { kind: "part", name: part.to_string(), place: place() })
    }
}

impl State {
    /// Nothing uploaded, nothing asked for.
    pub(crate) fn new(
        (arena, stream, lifetime): Memory,
        temporaries: Temporaries,
        events: EventPool,
        registrations: Registrations,
        (units, parts): (usize, usize),
    ) -> State {
        State {
            arena,
            stream,
            lifetime,
            temporaries,
            upload_holds: BTreeMap::new(),
            waiting: 0,
            paged_ahead: BTreeSet::new(),
            residence: (0..parts).map(|_| Residence::default()).collect(),
            accounts: (0..units).map(|_| UnitAccount::default()).collect(),
            batches: (0..parts).map(|_| None).collect(),
            outdated: BTreeSet::new(),
            order: PassOrder::default(),
            tickets: TicketLedger::default(),
            running: VecDeque::new(),
            events,
            registrations,
            learning: Learning::default(),
            leftover_events: Vec::new(),
            quarantined_arena_bytes: 0,
            poisoned: None,
            deferred: None,
            closed: false,
            guess_is_wrong: false,
            looked_ahead: LookedAhead::default(),
        }
    }

    /// Keeps the first failure whose consequences could not be bounded.
    pub(crate) fn poison(&mut self, cause: &impl ToString) {
        if self.poisoned.is_none() {
            self.poisoned = Some(cause.to_string());
        }
    }

    /// Device memory under weights that may never be used again, in bytes.
    pub(crate) fn quarantined_bytes(&self) -> u64 {
        let lifetime = self.lifetime.as_ref().map_or(0, LifetimeBuffer::quarantined_bytes);
        let units = self.quarantined_arena_bytes + self.stream.quarantined_bytes() + self.temporaries.quarantined_bytes();
        units + lifetime
    }

    /// Retires work and uploads whose end is proven. Never waits.
    ///
    /// `every` looks at all work in flight and retires uploads that nobody has asked for yet; otherwise only the
    /// oldest are looked at.
    pub(crate) fn reap(&mut self, driver: &dyn Driver, every: bool) -> Result<u64> {
        let mut kept = VecDeque::new();
        let mut outcome = Ok(());
        while let Some(running) = self.running.pop_front() {
            match driver.event_query(running.event) {
                Ok(true) => outcome = self.finish(&running),
                Ok(false) => kept.push_back(running),
                Err(error) => {
                    kept.push_back(running);
                    outcome = Err(error.into());
                }
            }
            if outcome.is_err() || (!every && !kept.is_empty()) {
                break;
            }
        }
        kept.append(&mut self.running);
        self.running = kept;
        outcome?;
        self.reap_tickets(driver, every)
    }

    fn finish(&mut self, running: &Running) -> Result<()> {
        self.stream.event_done(&running.places, running.event);
        if let Some(account) = self.accounts.get_mut(running.unit) {
            account.pins = account.pins.saturating_sub(1);
        }
        let given = self.events.give(running.event);
        running.holds.iter().for_each(|hold| self.let_go_or_defer(hold));
        Ok(given?)
    }

    fn reap_tickets(&mut self, driver: &dyn Driver, every: bool) -> Result<u64> {
        let stream = &self.stream;
        let is_ahead = |owner: usize| stream.find(owner).is_some_and(|(_, holding)| holding.ahead);
        let (retired, outcome) = self.tickets.reap(driver, &mut self.events, |ticket| every || !is_ahead(ticket.owner));
        for ticket in &retired {
            if let Some(hold) = self.upload_holds.remove(&ticket.event) {
                self.let_go_or_defer(&hold);
            }
            if let Some(residence) = self.residence.get_mut(ticket.owner)
                && residence.upload.as_ref().is_some_and(|upload| upload.event == ticket.event)
            {
                residence.upload = None;
            }
        }
        outcome?;
        Ok(retired.len() as u64)
    }
}

/// What a collection found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletionCounts {
    /// Upload tickets before.
    pub before: u64,
    /// Upload tickets after.
    pub after: u64,
    /// Retired.
    pub retired: u64,
}

/// An attached component. Cheap to clone; all clones are the same session.
#[derive(Clone, Debug)]
pub struct Offload {
    pub(crate) inner: Arc<Inner>,
}

impl Offload {
    /// Name of the component.
    pub fn component(&self) -> &str {
        &self.inner.name
    }

    /// The units, in tree order.
    pub fn units(&self) -> &[UnitInfo] {
        &self.inner.infos
    }

    /// The unit at a module path.
    pub fn unit_named(&self, name: &str) -> Option<UnitId> {
        self.inner.infos.iter().find(|info| info.name == name).map(|info| info.id)
    }

    /// The stream for compute.
    pub fn compute_stream(&self) -> StreamId {
        self.inner.compute
    }

    /// The stream for uploads.
    pub fn upload_stream(&self) -> StreamId {
        self.inner.upload
    }

    /// Device memory that streamed weights take turns in, in bytes: all slots, or the ring.
    pub fn stream_memory_bytes(&self) -> u64 {
        self.inner.lock().stream.capacity_bytes()
    }

    /// A tensor that stays on the host, by its full name.
    ///
    /// # Errors
    /// [`Error::UnknownName`].
    pub fn host_tensor(&self, name: &str) -> Result<HostTensor> {
        let place = || format!("the host tensors of component {:?}", self.inner.name);
        let found = self.inner.host.get(name).cloned();
        found.ok_or_else(|| Error::UnknownName { kind: "tensor", name: name.into(), place: place() })
    }

    /// Retires uploads and work whose end is proven; never waits. Uploads that nobody asked for yet count too.
    ///
    /// # Errors
    /// The driver's.
    pub fn collect(&self) -> Result<CompletionCounts> {
        let mut state = self.inner.lock();
        let before = state.tickets.live();
        let retired = state.reap(&*self.inner.driver, true)?;
        self.inner.collect_supply()?;
        Ok(CompletionCounts { before, after: state.tickets.live(), retired })
    }

    /// Ends a step: one complete forward of the component.
    ///
    /// The order of units seen since the last step is what look-ahead follows from here on. The checkpoint is
    /// compared with what it was at opening. It also ends a step of the timer and of the diagnostic scopes.
    ///
    /// # Errors
    /// [`Error::SourceChanged`], which also poisons the session, and whatever went wrong since the last call.
    ///
    /// # Cost
    /// Waits for nothing, unless a timer with `diagnostic_step_wait` runs.
    pub fn mark_step(&self) -> Result<()> {
        if let Some(checkpoint) = &self.inner.checkpoint
            && let Err(error) = checkpoint.check_unchanged()
        {
            self.inner.lock().poison(&error);
            return Err(error);
        }
        let mut state = self.inner.open()?;
        if let Some(steps) = self.inner.steps.get() {
            steps.step();
        }
        let marks = self.inner.marks.get();
        let wait = marks.as_ref().and_then(|marks| marks.step());
        state.order.end_pass();
        self.inner.start_registering();
        self.inner.learn(&mut state);
        self.inner.choose_timed_pass(&mut state);
        if let (Some(marks), Some(token)) = (marks, wait) {
            // Without the lock: snapshots and guards of other threads do not wait for this.
            drop(state);
            marks.wait(token);
            state = self.inner.open()?;
        }
        self.inner.look_ahead(&mut state);
        Ok(())
    }

    /// Blocks until the stream has run everything queued so far, then raises a failure of that work.
    ///
    /// # Errors
    /// The driver's, or [`Error::Job`].
    ///
    /// # Cost
    /// Waits for the stream.
    pub fn wait_stream(&self, stream: StreamId) -> Result<()> {
        self.inner.driver.stream_synchronize(stream)?;
        self.inner.raise_job_failure()
    }

    /// Blocks until everything queued so far is done, uploads made ahead included: the boundary before a report that
    /// is to be complete.
    ///
    /// # Errors
    /// The driver's, or [`Error::Job`].
    ///
    /// # Cost
    /// Waits for the compute stream, then for the upload stream.
    pub fn wait_idle(&self) -> Result<()> {
        self.inner.driver.stream_synchronize(self.inner.compute)?;
        self.inner.driver.stream_synchronize(self.inner.upload)?;
        self.inner.raise_job_failure()
    }
}
