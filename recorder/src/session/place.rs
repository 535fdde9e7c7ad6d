//! Finding or making a place for the contents of a part.

use super::paged::{ArenaHold, Taken};
use super::state::{Inner, State};
use super::upload::Destination;
use crate::error::{Admission, Error, Result};
use crate::memory::StreamMemory;
use crate::plan::{Arrival, PlaceKey, Places, Want};
use std::ops::Range;

/// A part in hand.
#[derive(Clone, Debug)]
pub(super) struct HeldPart {
    pub(super) part: usize,
    /// Its place in stream memory; `None` in the arena.
    pub(super) key: Option<PlaceKey>,
    /// What keeps it where it is, of a part that comes and goes in the arena.
    pub(super) hold: Option<ArenaHold>,
    /// Which of its tensors the host has released.
    pub(super) released: Vec<usize>,
}

impl Inner {
    /// Takes parts of one unit into hand, all or none, and notes them in the order of the pass. Where units come and go in
    /// the arena, the answer may be to wait for an event first.
    pub(super) fn try_take(&self, state: &mut State, parts: Range<usize>) -> Result<Taken> {
        if self.rules.paged { self.take_paged(state, parts.start) } else { self.take_parts(state, parts).map(Taken::Held) }
    }

    fn take_parts(&self, state: &mut State, parts: Range<usize>) -> Result<Vec<HeldPart>> {
        let unit = self.part(parts.start)?.unit;
        let mut foreseen = parts.clone().enumerate().map(|(later, part)| state.order.foresee(part, later));
        if foreseen.any(|arrival| arrival == Arrival::Mismatch) {
            self.cancel_ahead(state, Some(unit));
        }
        let mut held = Vec::new();
        let mut outcome = self.place_all(state, parts.clone(), &mut held);
        if outcome.as_ref().is_err_and(|error| error.code() == RING_IN_HAND) && parts.len() > 1 {
            // What is left of earlier passes may lie so that the ring has room but no stretch: lay the unit out anew.
            self.let_go(state, &held);
            held.clear();
            let streamed = |part: &usize| self.parts.get(*part).is_some_and(|plan| !plan.resident);
            self.cancel_ahead(state, None);
            if let Places::Ring(ring) = &mut *state.stream {
                ring.start_over(parts.clone().filter(streamed));
                self.counters.ring_restarts.add(1);
            }
            outcome = self.place_all(state, parts.clone(), &mut held);
        }
        if let Err(error) = outcome {
            self.let_go(state, &held);
            return Err(error);
        }
        // Only what was granted belongs to the order of the pass.
        for part in parts {
            state.order.arrive(part);
        }
        Ok(held)
    }

    fn place_all(&self, state: &mut State, parts: Range<usize>, held: &mut Vec<HeldPart>) -> Result<()> {
        for part in parts {
            let key = if self.part(part)?.resident {
                self.place_in_arena(state, part)?;
                None
            } else {
                let key = self.place_in_stream(state, part)?;
                state.stream.guard(key);
                Some(key)
            };
            held.push(HeldPart { part, key, hold: None, released: Vec::new() });
        }
        Ok(())
    }

    /// Lets parts go. A failure to give memory back is raised by the next call.
    pub(super) fn let_go(&self, state: &mut State, held: &[HeldPart]) {
        for held in held {
            if let Some(key) = held.key {
                state.stream.unguard(key);
            }
            if let Some(hold) = &held.hold {
                state.let_go_or_defer(hold);
            }
        }
    }

    /// Gives up what was uploaded ahead, except for one unit; how many units were wholly ahead.
    pub(super) fn cancel_ahead(&self, state: &mut State, keep: Option<usize>) -> u64 {
        let kept = |part: usize| keep.is_some() && self.parts.get(part).map(|plan| plan.unit) == keep;
        let cancelled = state.stream.cancel_ahead(kept);
        self.note_cancelled(state, &cancelled)
    }

    fn place_in_arena(&self, state: &mut State, part: usize) -> Result<()> {
        let plan = self.part(part)?;
        if self.is_in_arena(state, part) {
            self.counters.signature_hits.add(plan.batch.len() as u64);
            return Ok(());
        }
        let range = plan.range();
        match self.fault(state, &range)? {
            Admission::Granted => {}
            Admission::Refused(refusal) => {
                self.note_declined(&refusal);
                return Err(Error::Refused(refusal));
            }
        }
        let place = state.arena.address(plan.arena_start);
        self.upload(state, part, &Destination::Arena(place, None))?;
        let generation = state.arena.generation(&range);
        if let Some(residence) = state.residence.get_mut(part) {
            residence.generation = generation;
        }
        self.note_resident(state, part);
        self.read_ahead(state);
        Ok(())
    }

    fn place_in_stream(&self, state: &mut State, part: usize) -> Result<PlaceKey> {
        let plan = self.part(part)?;
        if let Some((key, holding)) = state.stream.find(part) {
            if holding.ahead {
                state.stream.consume(key);
                self.note_consumed(state, part);
            } else {
                self.counters.signature_hits.add(plan.batch.len() as u64);
            }
            return Ok(key);
        }
        let want = Want { bytes: plan.span_bytes, keep: &[], past_ahead: true };
        let claim = match state.stream.survey(&want) {
            Ok(claim) => claim,
            Err(_) => {
                // Look-ahead gives way to demand.
                self.cancel_ahead(state, None);
                state.stream.survey(&want).map_err(|_| in_hand(&state.stream, plan.span_bytes))?
            }
        };
        self.fill(state, part, claim, false)
    }
}

/// Code of the refusal of a ring that is in hand.
const RING_IN_HAND: &str = "stream_ring_in_hand";

/// The refusal when what is in hand leaves no place.
fn in_hand(stream: &StreamMemory, bytes: u64) -> Error {
    match &**stream {
        Places::Slots(slots) => {
            let (got, limit) = (slots.count() + 1, slots.count());
            Error::refused("execution_slots_in_hand", "streamed units in hand at the same time", got, limit, "units")
        }
        Places::Ring(ring) => {
            let got = ring.in_hand_bytes().saturating_add(bytes);
            let what = "streamed weights in hand at the same time, in one stretch for each part";
            Error::refused(RING_IN_HAND, what, got, ring.capacity_bytes(), "bytes")
        }
    }
}
