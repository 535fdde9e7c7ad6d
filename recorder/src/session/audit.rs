//! The session's books, checked: what must hold after every operation.

use super::state::{Inner, Offload, State};
use crate::driver::EventId;
use std::collections::BTreeSet;

impl Offload {
    /// Every conservation rule that does not hold at this moment, as one sentence each. Makes no driver call.
    pub fn audit(&self) -> Vec<String> {
        let state = self.inner.lock();
        let mut broken = Vec::new();
        let mut check = |holds: bool, text: &dyn Fn() -> String| {
            if !holds {
                broken.push(text());
            }
        };
        let counters = &self.inner.counters;
        let (ahead, hits, cancelled) = (counters.ahead_units.get(), counters.ahead_hits.get(), counters.ahead_cancelled.get());
        let in_flight = state.slots.ahead().len() as u64;
        check(ahead == hits + cancelled + in_flight, &|| {
            format!("{ahead} units were uploaded ahead, {hits} hit + {cancelled} cancelled + {in_flight} in flight")
        });
        let (owned, users) = (state.events.levels().owned, state.tickets.live() + state.running.len() as u64);
        check(state.poisoned.is_some() || owned == users, &|| format!("{owned} events are owned, {users} are in use"));
        let arena = state.arena.levels();
        check(arena.resident_bytes <= arena.ceiling_bytes, &|| {
            format!("the arena maps {} bytes, its ceiling is {}", arena.resident_bytes, arena.ceiling_bytes)
        });
        let (total, ceiling) =
            (arena.resident_bytes + state.slots.resident_bytes(), self.inner.configuration.weight_ceiling_bytes);
        check(total <= ceiling, &|| format!("weights occupy {total} bytes, the ceiling is {ceiling}"));
        self.inner.audit_units(&state, &mut check);
        broken
    }
}

impl Inner {
    fn audit_units(&self, state: &State, check: &mut impl FnMut(bool, &dyn Fn() -> String)) {
        let in_use: BTreeSet<EventId> = state.running.iter().map(|running| running.event).collect();
        check(in_use.len() == state.running.len(), &|| "two works share one event".to_string());
        for (unit, (plan, residence)) in self.units.iter().zip(&state.residence).enumerate() {
            let works = state.running.iter().filter(|running| running.unit == unit).count() as u64;
            check(residence.pins >= works, &|| format!("unit {:?} has {} pins and {works} works", plan.name, residence.pins));
            let in_slot = state.slots.find(unit).is_some();
            check(!(plan.resident && in_slot), &|| format!("resident unit {:?} lies in a slot", plan.name));
            check(!residence.in_arena || plan.resident, &|| format!("streamed unit {:?} lies in the arena", plan.name));
        }
    }
}
