//! Whole units in the arena, brought in when they are asked for: the least recently used pages make room.
//!
//! A range in the arena is held by guards, by work, by uploads in flight and by look-ahead. When all pages under the
//! ceiling are held, the host waits for the oldest work that holds some, and for nothing else.

use super::place::HeldPart;
use super::state::{Inner, PartPlan, State};
use super::upload::Destination;
use crate::driver::EventId;
use crate::error::{Admission, Error, Refusal, Result};
use crate::memory::{DEVICE_MEMORY, DEVICE_RESERVE, TemporaryId};
use crate::plan::Arrival;
use std::ops::Range;

/// What keeps memory outside stream memory where it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ArenaHold {
    /// A range of the arena.
    Pages(Range<u64>),
    /// Memory that stands in for it.
    Temporary(TemporaryId),
}

/// What asking for parts came to.
pub(super) enum Taken {
    /// They are in hand.
    Held(Vec<HeldPart>),
    /// They will fit once this event has passed.
    Busy(EventId),
}

/// A part and where it is to go.
#[derive(Clone, Copy)]
struct Asked<'a> {
    part: usize,
    plan: &'a PartPlan,
}

impl PartPlan {
    /// Its bytes in the arena.
    pub(super) fn range(&self) -> Range<u64> {
        self.arena_start..self.arena_start + self.span_bytes
    }
}

impl State {
    pub(super) fn hold(&mut self, hold: &ArenaHold) {
        match hold {
            ArenaHold::Pages(range) => self.arena.hold(range),
            ArenaHold::Temporary(id) => self.temporaries.hold(*id),
        }
    }

    /// Lets something go. Memory that cannot be given back stays counted.
    pub(super) fn let_go_hold(&mut self, hold: &ArenaHold) -> Result<()> {
        match hold {
            ArenaHold::Pages(range) => self.arena.let_go(range),
            ArenaHold::Temporary(id) => self.temporaries.let_go(*id)?,
        }
        Ok(())
    }

    /// The same; a failure to give memory back is raised by the next call, since nothing is wrong with the proof.
    pub(super) fn let_go_or_defer(&mut self, hold: &ArenaHold) {
        if let Err(error) = self.let_go_hold(hold) {
            self.deferred.get_or_insert(error);
        }
    }

    /// The oldest work or upload whose end would let some memory go.
    fn oldest_in_flight(&self) -> Option<EventId> {
        self.running.front().map(|running| running.event).or_else(|| self.tickets.oldest())
    }
}

impl Inner {
    /// Whether a part's contents are in the arena. A reading, no promise.
    pub(super) fn is_in_arena(&self, state: &State, part: usize) -> bool {
        let (Some(plan), Some(residence)) = (self.parts.get(part), state.residence.get(part)) else { return false };
        residence.generation.is_some() && residence.generation == state.arena.generation(&plan.range())
    }

    /// Takes a unit that comes and goes in the arena into hand.
    pub(super) fn take_paged(&self, state: &mut State, part: usize) -> Result<Taken> {
        let plan = self.part(part)?;
        if state.order.foresee(part, 0) == Arrival::Mismatch
            && let Err(error) = self.cancel_paged(state, Some(part), true)
        {
            // The part itself was counted as asked for.
            if state.paged_ahead.remove(&part) {
                state.arena.let_go(&plan.range());
            }
            return Err(error);
        }
        let hold = match self.bring_in(state, Asked { part, plan })? {
            Ok(hold) => hold,
            Err(event) => return Ok(Taken::Busy(event)),
        };
        state.order.arrive(part);
        self.read_ahead(state);
        Ok(Taken::Held(vec![HeldPart { part, key: None, hold: Some(hold), released: Vec::new() }]))
    }

    /// What holds the part from here on, or the event to wait for.
    fn bring_in(&self, state: &mut State, asked: Asked<'_>) -> Result<std::result::Result<ArenaHold, EventId>> {
        let Asked { part, plan } = asked;
        let hold = ArenaHold::Pages(plan.range());
        if state.paged_ahead.remove(&part) {
            // Its consumer inherits what look-ahead holds.
            return Ok(Ok(hold));
        }
        if self.is_in_arena(state, part) {
            self.counters.signature_hits.add(plan.batch.len() as u64);
            state.hold(&hold);
            return Ok(Ok(hold));
        }
        loop {
            let refusal = match self.fault(state, &plan.range())? {
                Admission::Granted => break,
                Admission::Refused(refusal) => refusal,
            };
            if !state.arena.waits_for_others(&plan.range()) {
                return self.declined(state, asked, refusal).map(Ok);
            }
            if let Some(event) = state.oldest_in_flight() {
                return Ok(Err(event));
            }
            // Look-ahead gives way to demand.
            if state.paged_ahead.is_empty() {
                return self.declined(state, asked, refusal).map(Ok);
            }
            self.cancel_paged(state, None, true)?;
        }
        self.fill_range(state, asked, &hold)?;
        Ok(Ok(hold))
    }

    pub(super) fn fault(&self, state: &mut State, range: &Range<u64>) -> Result<Admission> {
        let faulted = self.call_meter.fault_range(&*self.clock, || state.arena.fault(range));
        faulted.map_err(|error| {
            self.counters.fault_failures.add(1);
            Error::Driver(error)
        })
    }

    /// Counts a refusal by its cause.
    pub(super) fn note_declined(&self, refusal: &Refusal) {
        self.counters.fault_failures.add(1);
        let cause = match refusal.code {
            DEVICE_RESERVE => &self.counters.reserve_admission_failures,
            DEVICE_MEMORY => &self.counters.device_admission_failures,
            _ => &self.counters.capacity_admission_failures,
        };
        cause.add(1);
    }

    /// Uploads a part into its range, which has memory, and holds it.
    fn fill_range(&self, state: &mut State, Asked { part, plan }: Asked<'_>, hold: &ArenaHold) -> Result<()> {
        state.hold(hold);
        let to = Destination::Arena(state.arena.address(plan.arena_start), Some(hold.clone()));
        if let Err(error) = self.upload(state, part, &to) {
            state.let_go_hold(hold)?;
            return Err(error);
        }
        let generation = state.arena.generation(&plan.range());
        if let Some(residence) = state.residence.get_mut(part) {
            residence.generation = generation;
        }
        self.counters.batch_submissions.add(1);
        Ok(())
    }

    /// A refusal, or memory outside the ceiling where that is allowed.
    fn declined(&self, state: &mut State, Asked { part, plan }: Asked<'_>, refusal: Refusal) -> Result<ArenaHold> {
        self.note_declined(&refusal);
        if !self.rules.fault_fallback {
            return Err(Error::Refused(refusal));
        }
        let (id, place) = state.temporaries.admit(plan.span_bytes)?;
        let hold = ArenaHold::Temporary(id);
        if let Err(error) = self.upload(state, part, &Destination::Temporary(place, hold.clone())) {
            // The first failure is the one that is told; the memory stays counted until the end.
            let _ = state.let_go_hold(&hold);
            return Err(error);
        }
        self.counters.temporary_tensors.add(plan.batch.len() as u64);
        self.counters.temporary_bytes.add(plan.payload_bytes);
        Ok(hold)
    }

    /// Brings in the units expected next as far as memory can be had without waiting.
    pub(super) fn page_ahead(&self, state: &mut State) -> Result<()> {
        state.reap(&*self.driver, false)?;
        let expected: Vec<usize> = (0..).map_while(|later| state.order.ahead(later)).take(self.rules.depth as usize).collect();
        for part in expected {
            let plan = self.part(part)?;
            let in_hand = state.accounts.get(plan.unit).is_some_and(|account| account.guards > 0);
            if in_hand || state.paged_ahead.contains(&part) {
                continue;
            }
            let hold = ArenaHold::Pages(plan.range());
            if self.is_in_arena(state, part) {
                state.hold(&hold);
            } else {
                match self.fault(state, &plan.range())? {
                    Admission::Granted => self.fill_range(state, Asked { part, plan }, &hold)?,
                    Admission::Refused(_) => {
                        self.counters.ahead_skips.add(1);
                        return Ok(());
                    }
                }
            }
            state.paged_ahead.insert(part);
            self.counters.ahead_units.add(1);
            if let Some(account) = state.accounts.get_mut(plan.unit) {
                account.ahead = true;
            }
        }
        Ok(())
    }

    /// Gives up what was brought in ahead, except for one part; how many units. Their uploads are waited for first
    /// (`drain`), unless what follows proves that they have ended.
    pub(super) fn cancel_paged(&self, state: &mut State, keep: Option<usize>, drain: bool) -> Result<u64> {
        let cancelled: Vec<usize> = state.paged_ahead.iter().copied().filter(|part| Some(*part) != keep).collect();
        if drain && cancelled.iter().any(|part| state.residence.get(*part).is_some_and(|residence| residence.upload.is_some())) {
            self.driver.stream_synchronize(self.upload)?;
        }
        let mut units = 0;
        for part in &cancelled {
            state.paged_ahead.remove(part);
            let plan = self.part(*part)?;
            state.arena.let_go(&plan.range());
            let account = state.accounts.get_mut(plan.unit);
            units += u64::from(account.is_some_and(|account| std::mem::take(&mut account.ahead)));
        }
        self.counters.ahead_cancelled.add(units);
        Ok(units)
    }
}
