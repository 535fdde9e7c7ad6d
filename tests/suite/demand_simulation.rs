//! Units that come and go in the arena, on virtual time: whatever the sizes, the order and the interleaving, the same bits
//! and balanced books; and the arena's pages against a model that is too simple to be wrong.
//!
//! A failing seed is printed; `DDO_SEED=N` replays it alone, `DDO_SEEDS=COUNT` runs that many.

use crate::support::ledger::Ledger;
use crate::support::lives::{self, driver, each_seed};
use crate::support::mosaic::Mosaic;
use ddo_recorder::driver::{Driver, Priority};
use ddo_recorder::plan::{Pages, Shortage, Supply};
use ddo_recorder::{Ceiling, LaunchScope, Offload, OffloadConfig, ResidencyMode, SnapshotOptions, UnitGuard, enable_offload};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PAGE: u64 = 4096;

/// Bytes of a unit in the arena and where it starts, by the rules of the layout: 512 bytes between tensors.
fn layout(mosaic: &Mosaic) -> Vec<Range<u64>> {
    let mut end = 0u64;
    let place = |sizes: &Vec<u64>| {
        let start = end.next_multiple_of(512);
        let bytes = sizes.iter().fold(0u64, |bytes, size| bytes.next_multiple_of(512) + size);
        end = start + bytes;
        start..end
    };
    mosaic.sizes.iter().map(place).collect()
}

fn pages_of(range: &Range<u64>) -> Range<usize> {
    (range.start / PAGE) as usize..range.end.div_ceil(PAGE) as usize
}

struct Life {
    mosaic: Mosaic,
    offload: Offload,
    fallback: bool,
    rng: fastrand::Rng,
}

impl Life {
    fn audit(&self) {
        assert_eq!(self.offload.audit(), Vec::<String>::new(), "conservation");
    }

    /// A unit beside others in hand: without a fallback it may be declined, by the ceiling alone.
    fn beside(&mut self) -> Option<UnitGuard> {
        let unit = self.rng.usize(..self.mosaic.sizes.len());
        match self.offload.unit(self.mosaic.id(&self.offload, unit)) {
            Ok(guard) => Some(guard),
            Err(error) => {
                assert!(!self.fallback && error.code() == "arena_ceiling", "{error}");
                None
            }
        }
    }

    fn step(&mut self, second: Option<ddo_recorder::StreamId>) {
        let mut order: Vec<usize> = (0..self.mosaic.sizes.len()).collect();
        if self.rng.u8(..4) == 0 {
            self.rng.shuffle(&mut order);
        }
        let state = Arc::new(Mutex::new(1));
        for unit in &order {
            if self.rng.u8(..10) == 0 {
                let first = self.beside();
                self.audit();
                let both = self.beside();
                self.audit();
                drop((first, both));
                self.audit();
            }
            if let Some(second) = second {
                let tensor = self.rng.usize(..self.mosaic.sizes[*unit].len());
                let lasting = Duration::from_nanos(self.rng.u64(0..40_000));
                self.mosaic.check_on(&self.offload, second, *unit, tensor, lasting).expect("submitted");
                self.audit();
            }
            let lasting = Duration::from_nanos(self.rng.u64(0..20_000));
            self.mosaic.submit(&self.offload, *unit, &state, lasting, LaunchScope::Units).expect("submitted");
            self.audit();
            if self.rng.u8(..10) == 0 {
                self.offload.collect().expect("collected");
                self.audit();
            }
        }
        self.offload.mark_step().expect("a step");
        self.audit();
        if self.rng.bool() {
            self.offload.wait_stream(self.offload.compute_stream()).expect("done");
            let got = *state.lock().expect("jobs do not panic");
            assert_eq!(got, self.mosaic.reference(&order), "the same bits as without a runtime");
        }
    }
}

/// One random life of a component; panics when anything is wrong.
fn life(seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mosaic = Mosaic::random(&mut rng);
    let fallback = rng.u8(..3) == 0;
    let least = layout(&mosaic).iter().map(|range| pages_of(range).len() as u64).max().unwrap_or_default();
    let pages = if fallback { rng.u64(0..=least) + 1 } else { least + rng.u64(0..6) };
    let ledger = Ledger::over(driver(seed, &mut rng), if fallback { u64::MAX } else { pages * PAGE });
    let config = OffloadConfig {
        ceiling: Ceiling::Bytes(pages * PAGE + rng.u64(0..PAGE)),
        residency: ResidencyMode::Demand,
        fault_fallback: fallback,
        look_ahead: rng.u8(..8) > 0,
        ..OffloadConfig::new(Arc::<Ledger>::clone(&ledger))
    };
    let offload = enable_offload(mosaic.component(), config).expect("attached");
    // In some lives a second stream reads some of the same tensors; it takes no part in the result.
    let second = (rng.u8(..3) == 0).then(|| ledger.stream_create(Priority::Normal).expect("a stream"));
    let steps = rng.u64(2..5);
    let mut life = Life { mosaic, offload, fallback, rng };
    for _ in 0..steps {
        life.step(second);
    }
    if let Some(second) = second {
        life.offload.wait_stream(second).expect("the second stream read the right weights");
    }
    life.offload.wait_idle().expect("idle");
    let options = SnapshotOptions { collect_completed: true, timing: None, ..SnapshotOptions::default() };
    let vmm = life.offload.metrics_snapshot(options).expect("a report").runtime.vmm.expect("attached");
    let seen = ledger.seen();
    assert_eq!((vmm.tickets.fast_transfer_live_tickets, vmm.arena.fast_pinned_units), (Some(0), Some(0)));
    assert_eq!(vmm.uploads.fast_dma_enqueue_bytes, Some(seen.copied_bytes), "every copied byte is counted");
    let temporary = vmm.admission.fast_temporary_bytes.expect("count");
    assert_eq!(vmm.uploads.fast_upload_bytes.expect("count") + temporary, seen.copied_bytes);
    assert_eq!(vmm.arena.fast_resident_bytes, Some(seen.mapped_bytes), "what is mapped is what is told");
    lives::end(&life.offload, &ledger, second);
}

#[test]
fn five_thousand_lives_on_demand_give_the_same_bits_and_balanced_books() {
    each_seed(5_000, life);
}

/// What a page is in the simplest model.
#[derive(Clone, Copy, Debug, Default)]
struct Simple {
    /// How often it got memory; even a page that lost it keeps the number.
    gained: u64,
    mapped: bool,
    used: u64,
    holds: u64,
}

/// All pages, and a clock; whoever is to lose memory is found by looking at every page.
#[derive(Debug, Default)]
struct Model {
    pages: Vec<Simple>,
    clock: u64,
}

impl Model {
    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn gain(&mut self, page: usize) {
        let used = self.tick();
        let entry = &mut self.pages[page];
        *entry = Simple { gained: entry.gained + 1, mapped: true, used, holds: entry.holds };
    }

    fn victims(&self, range: &Range<usize>) -> Vec<usize> {
        let idle = |(index, page): &(usize, &Simple)| page.mapped && page.holds == 0 && !range.contains(index);
        let mut idle: Vec<(u64, usize)> =
            self.pages.iter().enumerate().filter(idle).map(|(index, page)| (page.used, index)).collect();
        idle.sort_unstable();
        idle.into_iter().map(|(_, index)| index).collect()
    }

    fn missing(&self, range: &Range<usize>) -> Vec<usize> {
        range.clone().filter(|page| !self.pages[*page].mapped).collect()
    }
}

fn pages_life(seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let count = rng.usize(1..20);
    let capacity = rng.u64(1..=count as u64);
    let (mut pages, mut model) = (Pages::new(count, capacity), Model { pages: vec![Simple::default(); count], clock: 0 });
    let mut held: Vec<Range<usize>> = Vec::new();
    let mut remembered: Vec<(Range<usize>, u64, Vec<u64>)> = Vec::new();
    for _ in 0..200 {
        let start = rng.usize(..count);
        let range = start..rng.usize(start..=count);
        match rng.u8(..4) {
            0 | 1 => {
                let (fresh, reuse) = (if rng.u8(..4) == 0 { rng.u64(..3) } else { u64::MAX }, rng.u8(..5) > 0);
                let (missing, victims) = (model.missing(&range), if reuse { model.victims(&range) } else { Vec::new() });
                let mapped = model.pages.iter().filter(|page| page.mapped).count() as u64;
                let new = (missing.len() as u64).min(fresh).min(capacity - mapped) as usize;
                match pages.plan(range.clone(), fresh, reuse) {
                    Err(Shortage::TooLarge) => assert!(range.len() as u64 > capacity),
                    Err(Shortage::Held) => assert!(missing.len() - new > victims.len()),
                    Ok(plan) => {
                        let first = missing.iter().take(new).map(|page| Supply::Fresh { page: *page });
                        let rest =
                            missing.iter().skip(new).zip(&victims).map(|(to, from)| Supply::Moved { from: *from, to: *to });
                        assert_eq!(plan, first.chain(rest).collect::<Vec<_>>());
                        for supply in plan {
                            let page = match supply {
                                Supply::Fresh { page } => page,
                                Supply::Moved { from, to } => {
                                    assert_eq!(model.pages[from].holds, 0, "what is held keeps its memory");
                                    pages.lose(from);
                                    model.pages[from].mapped = false;
                                    to
                                }
                            };
                            pages.gain(page);
                            model.gain(page);
                        }
                        pages.hold(range.clone());
                        let used = model.tick();
                        model.pages[range.clone()].iter_mut().for_each(|page| (page.holds, page.used) = (page.holds + 1, used));
                        held.push(range);
                    }
                }
            }
            2 if !held.is_empty() => {
                let range = held.swap_remove(rng.usize(..held.len()));
                pages.let_go(range.clone());
                model.pages[range].iter_mut().for_each(|page| page.holds -= 1);
            }
            _ => {
                if let Some(generation) = pages.generation(range.clone()) {
                    let gained = model.pages[range.clone()].iter().map(|page| page.gained).collect();
                    remembered.push((range, generation, gained));
                }
            }
        }
        let mapped = model.pages.iter().filter(|page| page.mapped);
        assert_eq!(pages.resident(), mapped.clone().count() as u64);
        assert_eq!(pages.held(), mapped.filter(|page| page.holds > 0).count() as u64);
        assert!(pages.resident() <= capacity);
        for (range, generation, gained) in &remembered {
            let all = model.pages[range.clone()].iter();
            let unchanged = all.clone().all(|page| page.mapped) && all.map(|page| page.gained).eq(gained.iter().copied());
            let told = pages.generation(range.clone()) == Some(*generation);
            assert_eq!(told, unchanged, "the generation of {range:?} tells whether its contents are there");
        }
    }
}

#[test]
fn pages_agree_with_the_simplest_model() {
    each_seed(2_000, pages_life);
}

/// Without look-ahead, and with a host that waits for each unit, what is uploaded follows from the pages alone.
fn counted_life(seed: u64) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mosaic = Mosaic::random(&mut rng);
    let ranges = layout(&mosaic);
    let least = ranges.iter().map(|range| pages_of(range).len() as u64).max().unwrap_or_default();
    let capacity = least + rng.u64(0..6);
    let ledger = Ledger::over(driver(seed, &mut rng), capacity * PAGE);
    let config = OffloadConfig {
        ceiling: Ceiling::Bytes(capacity * PAGE),
        residency: ResidencyMode::Demand,
        look_ahead: false,
        ..OffloadConfig::new(Arc::<Ledger>::clone(&ledger))
    };
    let offload = enable_offload(mosaic.component(), config).expect("attached");
    let mut model = Model { pages: vec![Simple::default(); ranges.last().map_or(0, |range| pages_of(range).end)], clock: 0 };
    let mut uploaded: Vec<Option<Vec<u64>>> = vec![None; ranges.len()];
    let (mut tensors, mut hits, mut evicted, mut gained) = (0, 0, 0, 0);
    let state = Arc::new(Mutex::new(1));
    for _ in 0..rng.u64(5..30) {
        let unit = rng.usize(..ranges.len());
        let pages = pages_of(&ranges[unit]);
        let here = |model: &Model| model.pages[pages.clone()].iter().map(|page| page.gained).collect::<Vec<u64>>();
        let own = mosaic.sizes[unit].len() as u64;
        if model.missing(&pages).is_empty() && uploaded[unit].as_ref() == Some(&here(&model)) {
            hits += own;
        } else {
            for page in model.missing(&pages) {
                if model.pages.iter().filter(|page| page.mapped).count() as u64 == capacity {
                    let victim = *model.victims(&pages).first().expect("nothing is held");
                    model.pages[victim].mapped = false;
                    evicted += 1;
                }
                model.gain(page);
                gained += 1;
            }
            uploaded[unit] = Some(here(&model));
            tensors += own;
        }
        let used = model.tick();
        model.pages[pages].iter_mut().for_each(|page| page.used = used);
        mosaic.submit(&offload, unit, &state, Duration::from_nanos(100), LaunchScope::Units).expect("submitted");
        offload.wait_idle().expect("idle");
        offload.collect().expect("collected");
    }
    let vmm = offload.metrics_snapshot(SnapshotOptions::default()).expect("a report").runtime.vmm.expect("attached");
    assert_eq!((vmm.uploads.fast_uploads, vmm.arena.fast_signature_hits), (Some(tensors), Some(hits)));
    assert_eq!((vmm.arena.fast_arena_evicted_pages, vmm.arena.fast_arena_materialized_pages), (Some(evicted), Some(gained)));
    assert_eq!(vmm.arena.fast_arena_reused_pages, Some(evicted), "memory is made anew only below the ceiling");
    offload.close(Duration::from_secs(1)).expect("closes");
    ledger.seen().assert_balanced();
}

#[test]
fn uploads_hits_and_evictions_follow_from_the_least_recently_used_pages() {
    each_seed(2_000, counted_life);
}
