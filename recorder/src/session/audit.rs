//! The session's books, checked: what must hold after every operation.

use super::state::{Inner, Offload, State};
use super::supply::lock;
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
        let in_flight = state.accounts.iter().filter(|account| account.ahead).count() as u64;
        check(ahead == hits + cancelled + in_flight, &|| {
            format!("{ahead} units were uploaded ahead, {hits} hit + {cancelled} cancelled + {in_flight} in flight")
        });
        let (owned, users) = (state.events.levels().owned, state.tickets.live() + state.running.len() as u64);
        check(state.poisoned.is_some() || owned == users, &|| format!("{owned} events are owned, {users} are in use"));
        let arena = state.arena.levels();
        check(arena.resident_bytes <= arena.ceiling_bytes, &|| {
            format!("the arena maps {} bytes, its ceiling is {}", arena.resident_bytes, arena.ceiling_bytes)
        });
        let lifetime = state.lifetime.as_ref().map_or(0, crate::memory::LifetimeBuffer::resident_bytes);
        let total = arena.resident_bytes + state.stream.resident_bytes() + lifetime;
        let ceiling = self.inner.configuration.weight_ceiling_bytes;
        check(total <= ceiling, &|| format!("weights occupy {total} bytes, the ceiling is {ceiling}"));
        self.inner.audit_units(&state, &mut check);
        self.inner.audit_parts(&state, &mut check);
        self.inner.audit_holds(&state, &mut check);
        broken.extend(self.inner.supply.iter().flat_map(|supply| lock(supply).audit()));
        broken.extend(self.inner.staged.iter().flat_map(|staged| lock(staged).audit()));
        broken
    }
}

impl Inner {
    fn audit_units(&self, state: &State, check: &mut impl FnMut(bool, &dyn Fn() -> String)) {
        let in_use: BTreeSet<EventId> = state.running.iter().map(|running| running.event).collect();
        check(in_use.len() == state.running.len(), &|| "two works share one event".to_string());
        for (unit, (plan, account)) in self.units.iter().zip(&state.accounts).enumerate() {
            let works = state.running.iter().filter(|running| running.unit == unit).count() as u64;
            check(account.pins >= works + account.guards, &|| {
                format!("unit {:?} has {} pins, {} guards and {works} works", plan.name, account.pins, account.guards)
            });
            check(!account.ahead || self.rules.paged || account.ahead_parts == plan.streamed_parts, &|| {
                format!("unit {:?} is ahead with {} of {} parts", plan.name, account.ahead_parts, plan.streamed_parts)
            });
        }
    }

    /// Where nothing is under way, nothing is held.
    fn audit_holds(&self, state: &State, check: &mut impl FnMut(bool, &dyn Fn() -> String)) {
        check(state.upload_holds.len() as u64 <= state.tickets.live(), &|| {
            format!("{} uploads hold memory, {} are in flight", state.upload_holds.len(), state.tickets.live())
        });
        let ahead = state.accounts.iter().filter(|account| account.ahead).count();
        let guards: u64 = state.accounts.iter().map(|account| account.guards).sum();
        check(!self.rules.paged || guards > 0 || ahead == state.paged_ahead.len(), &|| {
            format!("{} parts are ahead in the arena, {ahead} units by their accounts", state.paged_ahead.len())
        });
        let idle = guards == 0 && state.running.is_empty() && state.tickets.live() == 0 && state.paged_ahead.is_empty();
        let (held, temporary) = (state.arena.held_bytes(), state.temporaries.held_bytes());
        check(!idle || state.poisoned.is_some() || (held == 0 && temporary == 0), &|| {
            format!("nothing is under way, but {held} bytes of the arena and {temporary} temporary bytes are held")
        });
    }

    fn audit_parts(&self, state: &State, check: &mut impl FnMut(bool, &dyn Fn() -> String)) {
        let counters = &self.counters;
        let uploaded = counters.ahead_parts.get();
        let (hits, cancelled) = (counters.ahead_part_hits.get(), counters.ahead_cancelled_parts.get());
        let in_flight = state.stream.ahead().len() as u64;
        check(uploaded == hits + cancelled + in_flight, &|| {
            format!("{uploaded} parts were uploaded ahead, {hits} hit + {cancelled} cancelled + {in_flight} in flight")
        });
        let accounted: u64 = state.accounts.iter().map(|account| account.ahead_parts).sum();
        check(accounted == in_flight, &|| format!("{in_flight} parts are ahead, {accounted} in the units' accounts"));
        for (part, (plan, residence)) in self.parts.iter().zip(&state.residence).enumerate() {
            let streamed = state.stream.find(part).is_some();
            check(!(plan.resident && streamed), &|| format!("resident part {part} lies in stream memory"));
            let may = plan.resident || self.rules.paged;
            check(residence.generation.is_none() || may, &|| format!("streamed part {part} lies in the arena"));
        }
    }
}
