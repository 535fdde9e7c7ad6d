//! What holds memory, against models too small to be wrong.

use ddo_recorder::driver::{Driver, EventId, StreamId};
use ddo_recorder::memory::{Consumer, MappingBook, StreamMemory};
use ddo_recorder::plan::{Blocked, Holding, PlaceKey, Places, Want};
use ddo_recorder::{HostDriver, HostOptions};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Bytes that one cell of the model stands for: the alignment of places.
const CELL: u64 = 512;
const CELLS: u64 = 24;

/// One thing that a session does with the ring.
#[derive(Clone, Debug)]
enum Act {
    /// Upload some cells of an owner, ahead or on demand, and perhaps fail to wait for what is in the way.
    Upload { owner: usize, cells: u64, ahead: bool, fails: bool },
    /// Take what an owner has in the ring into hand, launch work on a stream, and perhaps keep it in hand.
    Use { owner: usize, stream: u64, keep: bool },
    /// Let everything of an owner go.
    LetGo { owner: usize },
    /// The oldest work of a stream ends.
    Done { stream: u64 },
    /// Give up what was uploaded ahead.
    Cancel,
    /// Begin at the ring's begin again.
    StartOver,
}

fn act() -> impl Strategy<Value = Act> {
    let owner = 0..6usize;
    prop_oneof![
        6 => (owner.clone(), 1..12u64, any::<bool>(), 0..8u8)
            .prop_map(|(owner, cells, ahead, fails)| Act::Upload { owner, cells, ahead, fails: fails == 0 }),
        4 => (owner.clone(), 0..2u64, any::<bool>()).prop_map(|(owner, stream, keep)| Act::Use { owner, stream, keep }),
        2 => owner.prop_map(|owner| Act::LetGo { owner }),
        2 => (0..2u64).prop_map(|stream| Act::Done { stream }),
        1 => Just(Act::Cancel),
        1 => Just(Act::StartOver),
    ]
}

/// Each cell: whose contents, and which work may still read it without the upload stream knowing.
#[derive(Clone, Debug, Default)]
struct Cell {
    owner: Option<usize>,
    readers: BTreeSet<u64>,
}

struct Model {
    cells: Vec<Cell>,
    hands: BTreeMap<usize, u32>,
    starts: BTreeMap<usize, usize>,
    ahead: BTreeSet<usize>,
    works: BTreeMap<u64, Vec<(u64, PlaceKey)>>,
    next_event: u64,
}

impl Model {
    fn of(&self, owner: usize) -> Vec<usize> {
        self.cells.iter().enumerate().filter(|(_, cell)| cell.owner == Some(owner)).map(|(index, _)| index).collect()
    }

    fn in_hand(&self, owner: usize) -> bool {
        self.hands.get(&owner).is_some_and(|count| *count > 0)
    }

    fn forget(&mut self, owner: usize) {
        self.cells.iter_mut().filter(|cell| cell.owner == Some(owner)).for_each(|cell| cell.owner = None);
        self.starts.remove(&owner);
        self.ahead.remove(&owner);
    }

    fn await_event(&mut self, event: u64) {
        self.cells.iter_mut().for_each(|cell| {
            cell.readers.remove(&event);
        });
    }
}

fn ring() -> StreamMemory {
    let options = HostOptions { page_bytes: 4096, ..HostOptions::default() };
    let driver: Arc<dyn Driver> = HostDriver::new(options).expect("a host driver");
    let book = Arc::new(MappingBook::default());
    StreamMemory::ring(driver, &book, CELLS * CELL).expect("mapped")
}

fn start_of(memory: &StreamMemory, key: PlaceKey) -> usize {
    let base = memory.address(key).0;
    (base / CELL) as usize
}

/// Uploads cells of an owner; the ring must say what is in the way and who still reads there.
fn upload(
    memory: &mut StreamMemory,
    base: usize,
    model: &mut Model,
    (owner, cells, ahead, fails): (usize, u64, bool, bool),
) -> Result<(), TestCaseError> {
    if memory.find(owner).is_some() {
        return Ok(());
    }
    let want = Want { bytes: cells * CELL, keep: &[], past_ahead: !ahead };
    let claim = match memory.survey(&want) {
        Ok(claim) => claim,
        Err(blocked) => {
            let hands = model.hands.values().any(|count| *count > 0);
            prop_assert!(blocked == Blocked::Wanted || hands, "nothing is in the way of {cells} cells");
            prop_assert!(blocked == Blocked::InHand || !model.ahead.is_empty(), "nothing was uploaded ahead");
            return Ok(());
        }
    };
    let first = start_of(memory, claim.key()) - base;
    prop_assert!(first < CELLS as usize && cells <= CELLS);
    // A place may go on at the begin of the ring.
    let place: Vec<usize> = (first..first + cells as usize).map(|cell| cell % CELLS as usize).collect();
    let fences = claim.fences().to_vec();
    for (offset, cell) in place.iter().map(|cell| &model.cells[*cell]).enumerate() {
        if let Some(there) = cell.owner {
            prop_assert!(!model.in_hand(there) && !model.ahead.contains(&there), "{there} is in hand or ahead");
        }
        for reader in &cell.readers {
            let fenced = fences.iter().any(|f| f.consumer.event.0 == *reader && f.from <= offset as u64 * CELL);
            prop_assert!(fenced, "work {reader} may still read byte {} of the place", offset as u64 * CELL);
        }
    }
    memory.commit(&claim);
    let displaced: BTreeSet<usize> = place.iter().filter_map(|cell| model.cells[*cell].owner).collect();
    displaced.into_iter().for_each(|owner| model.forget(owner));
    if fails {
        // Nothing was waited for and nothing uploaded: all of it is owed.
        memory.owe(claim.key(), fences.iter().map(|fence| fence.consumer));
        return Ok(());
    }
    fences.iter().for_each(|fence| model.await_event(fence.consumer.event.0));
    memory.hold(claim.key(), Holding { owner, ahead });
    place.iter().for_each(|cell| model.cells[*cell].owner = Some(owner));
    model.starts.insert(owner, first);
    if ahead {
        model.ahead.insert(owner);
    }
    Ok(())
}

/// Applies one act to the ring and to the model and compares them.
fn apply(memory: &mut StreamMemory, base: usize, model: &mut Model, act: &Act) -> Result<(), TestCaseError> {
    match act {
        Act::Upload { owner, cells, ahead, fails } => upload(memory, base, model, (*owner, *cells, *ahead, *fails))?,
        Act::Use { owner, stream, keep } => {
            let Some((key, holding)) = memory.find(*owner) else { return Ok(()) };
            prop_assert_eq!(holding.ahead, model.ahead.remove(owner));
            memory.consume(key);
            memory.guard(key);
            model.next_event += 1;
            let event = model.next_event;
            memory.note_consumer(key, Consumer { stream: StreamId(*stream), event: EventId(event) });
            let works = model.works.entry(*stream).or_default();
            works.push((event, key));
            let earlier: Vec<u64> = works.iter().map(|(event, _)| *event).collect();
            for index in model.of(*owner) {
                // Work of one stream runs in order: who waits for the later one has waited for the earlier one.
                model.cells[index].readers.retain(|reader| !earlier.contains(reader));
                model.cells[index].readers.insert(event);
            }
            if *keep {
                *model.hands.entry(*owner).or_default() += 1;
            } else {
                memory.unguard(key);
            }
        }
        Act::LetGo { owner } => {
            let count = model.hands.remove(owner).unwrap_or_default();
            if let Some((key, _)) = memory.find(*owner) {
                (0..count).for_each(|_| memory.unguard(key));
            }
        }
        Act::Done { stream } => {
            let works = model.works.entry(*stream).or_default();
            if !works.is_empty() {
                let (event, key) = works.remove(0);
                memory.event_done(&[key], EventId(event));
                model.await_event(event);
            }
        }
        Act::Cancel => {
            let cancelled: BTreeSet<usize> = memory.cancel_ahead(|_| false).into_iter().collect();
            prop_assert_eq!(&cancelled, &model.ahead);
            cancelled.into_iter().for_each(|owner| model.forget(owner));
        }
        Act::StartOver => {
            memory.cancel_ahead(|_| false);
            model.ahead.clone().into_iter().for_each(|owner| model.forget(owner));
            let Places::Ring(ring) = &mut **memory else { panic!("a ring") };
            ring.start_over(0..6);
            (0..6).filter(|owner| !model.in_hand(*owner)).collect::<Vec<_>>().into_iter().for_each(|owner| model.forget(owner));
        }
    }
    for owner in 0..6 {
        let found = memory.find(owner).map(|(key, _)| start_of(memory, key) - base);
        prop_assert_eq!(found, model.starts.get(&owner).copied(), "where owner {} lies", owner);
    }
    let ahead: BTreeSet<usize> = memory.ahead().into_iter().collect();
    prop_assert_eq!(&ahead, &model.ahead);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_ring_displaces_nothing_in_hand_and_fences_every_reader(acts in prop::collection::vec(act(), 1..60)) {
        let mut memory = ring();
        let base = {
            let claim = memory.survey(&Want { bytes: CELL, keep: &[], past_ahead: true }).expect("an empty ring");
            start_of(&memory, claim.key())
        };
        let cells = vec![Cell::default(); CELLS as usize];
        let mut model = Model { cells, hands: BTreeMap::new(), starts: BTreeMap::new(), ahead: BTreeSet::new(), works: BTreeMap::new(), next_event: 0 };
        for act in &acts {
            apply(&mut memory, base, &mut model, act)?;
        }
        memory.release().expect("given back");
    }
}
