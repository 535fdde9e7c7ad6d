//! Slots, the event pool and who stays, against models too small to be wrong.

use crate::support::ledger::Ledger;
use ddo_recorder::HostOptions;
use ddo_recorder::driver::EventId;
use ddo_recorder::limits::MAX_IDLE_EVENTS;
use ddo_recorder::plan::{Holding, PlaceKey, Places, Reader, SlotPlaces, UnitSize, Want, plan_residency};
use ddo_recorder::transfer::EventPool;
use proptest::prelude::*;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Work of a stream, in its order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Work {
    stream: u8,
    number: u32,
}

impl Reader for Work {
    fn outlasts(&self, other: &Work) -> bool {
        self.stream == other.stream && self.number >= other.number
    }
}

#[derive(Clone, Debug)]
enum SlotAct {
    /// Upload an owner, ahead or on demand, sparing another.
    Fill { owner: usize, ahead: bool, keep: usize },
    /// Ask for an owner: it is in hand and read by work of a stream, and perhaps let go.
    Use { owner: usize, stream: u8, let_go: bool },
    /// Let the oldest thing in hand go.
    LetGo,
    /// All work of a stream ends.
    Done(u8),
    /// Give up what was uploaded ahead, but for one owner.
    Cancel(usize),
    /// The end of somebody's use cannot be proven.
    Quarantine(usize),
}

fn slot_act() -> impl Strategy<Value = SlotAct> {
    let owner = 0..6usize;
    prop_oneof![
        6 => (owner.clone(), any::<bool>(), owner.clone()).prop_map(|(owner, ahead, keep)| SlotAct::Fill { owner, ahead, keep }),
        5 => (owner.clone(), 0..2u8, any::<bool>()).prop_map(|(owner, stream, let_go)| SlotAct::Use { owner, stream, let_go }),
        3 => Just(SlotAct::LetGo),
        2 => (0..2u8).prop_map(SlotAct::Done),
        1 => owner.clone().prop_map(SlotAct::Cancel),
        1 => owner.prop_map(SlotAct::Quarantine),
    ]
}

#[derive(Clone, Debug, Default)]
struct Slot {
    holding: Option<(usize, bool)>,
    guards: u32,
    readers: BTreeSet<Work>,
    touched: u64,
    lost: bool,
}

/// The slots as a list; the keys that the real ones gave.
struct Slots {
    slots: Vec<Slot>,
    keys: Vec<Option<PlaceKey>>,
    in_hand: Vec<(PlaceKey, usize)>,
    clock: u64,
}

impl Slots {
    fn of(&self, owner: usize) -> Option<usize> {
        self.slots.iter().position(|slot| !slot.lost && slot.holding.is_some_and(|(held, _)| held == owner))
    }

    fn touch(&mut self, slot: usize) {
        self.clock += 1;
        self.slots[slot].touched = self.clock;
    }

    /// The slot that is taken next: free of guards, of what comes and of what is spared, untouched the longest.
    fn next(&self, keep: usize) -> Option<usize> {
        let may = |(_, slot): &(usize, &Slot)| {
            let spared = slot.holding.is_some_and(|(owner, ahead)| ahead || owner == keep);
            slot.guards == 0 && !slot.lost && !spared
        };
        self.slots.iter().enumerate().filter(may).min_by_key(|(index, slot)| (slot.touched, *index)).map(|(index, _)| index)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_slot_untouched_longest_is_taken_behind_exactly_its_readers(acts in prop::collection::vec(slot_act(), 1..80)) {
        const BYTES: u64 = 512;
        let mut places: Places<Work> = Places::Slots(SlotPlaces::new(3, BYTES));
        let mut model = Slots { slots: vec![Slot::default(); 3], keys: vec![None; 3], in_hand: Vec::new(), clock: 0 };
        let mut number = 0;
        for act in acts {
            match act {
                SlotAct::Fill { owner, ahead, keep } if places.find(owner).is_none() => {
                    let want = Want { bytes: BYTES, keep: &[keep], past_ahead: true };
                    let (survey, next) = (places.survey(&want), model.next(keep));
                    prop_assert_eq!(survey.is_ok(), next.is_some());
                    let (Ok(claim), Some(next)) = (survey, next) else { continue };
                    prop_assert!(model.keys[next].is_none_or(|known| known == claim.key()), "another slot");
                    prop_assert_eq!(places.offset(claim.key()), next as u64 * BYTES);
                    model.keys[next] = Some(claim.key());
                    let fences: BTreeSet<Work> = claim.fences().iter().map(|fence| fence.consumer).collect();
                    prop_assert_eq!(&fences, &model.slots[next].readers, "whoever still reads there, and nobody else");
                    places.commit(&claim);
                    places.hold(claim.key(), Holding { owner, ahead });
                    model.slots[next] = Slot { holding: Some((owner, ahead)), ..Slot::default() };
                    model.touch(next);
                }
                SlotAct::Use { owner, stream, let_go } => {
                    let (found, slot) = (places.find(owner), model.of(owner));
                    prop_assert_eq!(found.is_some(), slot.is_some());
                    let (Some((key, holding)), Some(slot)) = (found, slot) else { continue };
                    prop_assert_eq!(model.slots[slot].holding, Some((holding.owner, holding.ahead)));
                    number += 1;
                    let work = Work { stream, number };
                    places.consume(key);
                    places.guard(key);
                    places.note_consumer(key, work);
                    let entry = &mut model.slots[slot];
                    entry.holding = Some((owner, false));
                    entry.guards += 1;
                    entry.readers.retain(|other| other.stream != stream);
                    entry.readers.insert(work);
                    model.in_hand.push((key, slot));
                    if let_go {
                        let (key, slot) = model.in_hand.pop().expect("just pushed");
                        places.unguard(key);
                        model.slots[slot].guards -= 1;
                        model.touch(slot);
                    }
                }
                SlotAct::LetGo if !model.in_hand.is_empty() => {
                    let (key, slot) = model.in_hand.remove(0);
                    places.unguard(key);
                    model.slots[slot].guards -= 1;
                    model.touch(slot);
                }
                SlotAct::Done(stream) => {
                    let keys: Vec<PlaceKey> = model.keys.iter().flatten().copied().collect();
                    places.consumer_done(&keys, |work| work.stream == stream);
                    model.slots.iter_mut().for_each(|slot| slot.readers.retain(|work| work.stream != stream));
                }
                SlotAct::Cancel(keep) => {
                    let cancelled: BTreeSet<usize> = places.cancel_ahead(|owner| owner == keep).into_iter().collect();
                    let lost = model.slots.iter_mut().filter(|slot| slot.holding.is_some_and(|(owner, ahead)| ahead && owner != keep));
                    let lost: BTreeSet<usize> = lost.filter_map(|slot| slot.holding.take()).map(|(owner, _)| owner).collect();
                    prop_assert_eq!(cancelled, lost);
                }
                SlotAct::Quarantine(owner) => {
                    let (Some((key, _)), Some(slot)) = (places.find(owner), model.of(owner)) else { continue };
                    places.quarantine(key);
                    model.slots[slot].lost = true;
                    model.slots[slot].holding = None;
                }
                SlotAct::Fill { .. } | SlotAct::LetGo => {}
            }
            let ahead = model.slots.iter().filter_map(|slot| slot.holding).filter(|(_, ahead)| *ahead).map(|(owner, _)| owner);
            prop_assert_eq!(places.ahead().into_iter().collect::<BTreeSet<_>>(), ahead.collect::<BTreeSet<_>>());
        }
    }

    /// Somebody who waits for an event of the pool without owning it may rely on it: until the wait ends it is neither used again
    /// nor destroyed, and all others are.
    #[test]
    fn events_are_used_by_one_at_a_time_and_never_under_a_wait(acts in prop::collection::vec(0..11u8, 1..700)) {
        let ledger = Ledger::new(HostOptions::default(), 0);
        let driver: Arc<Ledger> = Arc::clone(&ledger);
        let mut pool = EventPool::new(driver);
        let (mut taken, mut free, mut parked): (Vec<EventId>, Vec<EventId>, Vec<EventId>) = Default::default();
        let mut awaited: Vec<EventId> = Vec::new();
        let (mut created, mut reused, mut destroyed) = (0, 0, 0);
        for act in acts {
            match act {
                0..=5 => {
                    let event = pool.take().expect("no driver fails");
                    prop_assert!(!taken.contains(&event) && !parked.contains(&event));
                    match free.iter().position(|other| *other == event) {
                        Some(index) => {
                            free.swap_remove(index);
                            reused += 1;
                        }
                        None => {
                            prop_assert!(free.is_empty(), "one was idle");
                            created += 1;
                        }
                    }
                    taken.push(event);
                }
                6 | 7 if !taken.is_empty() => {
                    let event = taken.swap_remove(taken.len() / 2);
                    pool.give(event).expect("no driver fails");
                    if awaited.contains(&event) {
                        parked.push(event);
                    } else if free.len() < MAX_IDLE_EVENTS {
                        free.push(event);
                    } else {
                        destroyed += 1;
                    }
                }
                8 | 9 if !taken.is_empty() => {
                    let event = taken[taken.len() / 3];
                    pool.begin_wait(event);
                    awaited.push(event);
                }
                10 if !awaited.is_empty() => {
                    let event = awaited.remove(0);
                    pool.end_wait(event).expect("no driver fails");
                    let given = parked.iter().position(|other| *other == event).filter(|_| !awaited.contains(&event));
                    if let Some(index) = given {
                        parked.swap_remove(index);
                        if free.len() < MAX_IDLE_EVENTS { free.push(event) } else { destroyed += 1 }
                    }
                }
                _ => {}
            }
            let levels = pool.levels();
            prop_assert_eq!((levels.created, levels.reused), (created, reused));
            prop_assert_eq!((levels.owned, levels.idle), (taken.len() as u64, (free.len() + parked.len()) as u64));
            prop_assert_eq!(ledger.seen().calls.get("event_destroy").copied().unwrap_or_default(), destroyed);
        }
        for event in taken {
            pool.give(event).expect("no driver fails");
        }
        pool.close().expect("no driver fails");
        ledger.seen().assert_balanced();
    }

    /// Whatever the sizes: what stays and the slots fit under the ceiling, page for page, and nothing stays that need not be
    /// streamed for lack of room.
    #[test]
    fn residents_and_slots_fit_under_the_ceiling_counted_page_by_page(
        sizes in prop::collection::vec(0..5000u64, 1..12),
        page in prop_oneof![Just(64u64), Just(512), Just(4096)],
        ceiling in 0..40_000u64,
        slots in 1..6u64,
    ) {
        let mut start = 0u64;
        let place = |bytes: &u64| {
            let unit = UnitSize { arena_start: start.next_multiple_of(512), bytes: *bytes };
            start = unit.arena_start + bytes;
            unit
        };
        let units: Vec<UnitSize> = sizes.iter().map(place).collect();
        let touched = |unit: &UnitSize| if unit.bytes == 0 { 0..0 } else { unit.arena_start / page..(unit.arena_start + unit.bytes).div_ceil(page) };
        let all: BTreeSet<u64> = units.iter().flat_map(touched).collect();
        let largest = sizes.iter().max().copied().unwrap_or_default().next_multiple_of(page);
        match plan_residency(&units, page, ceiling, slots) {
            Ok(plan) => {
                let pages: BTreeSet<u64> = units.iter().zip(&plan.resident).filter(|(_, stays)| **stays).flat_map(|(unit, _)| touched(unit)).collect();
                let arena = pages.len() as u64 * page;
                prop_assert!(arena <= plan.arena_ceiling_bytes);
                prop_assert!(plan.arena_ceiling_bytes + plan.slots * plan.slot_bytes <= ceiling);
                if all.len() as u64 * page <= ceiling {
                    prop_assert!(plan.resident.iter().all(|stays| *stays) && plan.slots == 0, "everything fits");
                } else {
                    prop_assert_eq!((plan.slots, plan.slot_bytes), (slots, largest));
                }
            }
            Err(refusal) if slots < 2 => prop_assert_eq!((refusal.got, refusal.limit), (slots, 2)),
            Err(refusal) => {
                prop_assert_eq!((refusal.got, refusal.limit), (ceiling, slots * largest));
                prop_assert!(ceiling < slots * largest);
            }
        }
    }
}
