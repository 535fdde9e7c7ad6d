//! The host memory of sources, against models too small to be wrong: ring slots, retained windows, registrations, and the
//! books of the process.

use ddo_recorder::driver::{BlockWriter, DeviceAddress, Driver, HostMode, Priority, StreamId};
use ddo_recorder::memory::{
    Direct, HostBudget, HostReading, HostReadings, HostRing, Request, Retained, RingLevels, RingSlotId, Window,
};
use ddo_recorder::meter::SystemClock;
use ddo_recorder::plan::{RetainedShape, RingShape, is_spread};
use ddo_recorder::{HostDriver, HostOptions, RegistrationPolicy};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

const PAGE: u64 = 4096;
const SLOTS: u64 = 3;

fn host() -> Arc<HostDriver> {
    let options = HostOptions { mode: HostMode::Stepped, page_bytes: PAGE, ..HostOptions::default() };
    HostDriver::new(options).expect("a host driver")
}

/// A page of device memory and a stream.
fn device(driver: &HostDriver) -> (DeviceAddress, StreamId) {
    let address = driver.address_reserve(PAGE).expect("reserved");
    let memory = driver.memory_create(PAGE).expect("created");
    driver.memory_map(address, PAGE, memory).expect("mapped");
    driver.memory_set_access(address, PAGE).expect("accessible");
    (address, driver.stream_create(Priority::High).expect("a stream"))
}

/// What somebody does with ring slots.
#[derive(Clone, Debug)]
enum RingAct {
    /// Take a slot and fill it with a number.
    Take,
    /// Give one back unused.
    Give(usize),
    /// Copy from one to the device and say so.
    Send(usize),
    /// All copies end.
    Drain,
    /// Take a slot, waiting for one.
    Wait,
}

fn ring_act() -> impl Strategy<Value = RingAct> {
    prop_oneof![
        4 => Just(RingAct::Take),
        1 => (0..8usize).prop_map(RingAct::Give),
        4 => (0..8usize).prop_map(RingAct::Send),
        1 => Just(RingAct::Drain),
        2 => Just(RingAct::Wait),
    ]
}

#[derive(Default)]
struct RingModel {
    /// Slots in hand and the number in each.
    out: Vec<(RingSlotId, u8)>,
    copying: VecDeque<RingSlotId>,
    /// Copies whose end the host has seen.
    filled: u8,
}

fn fill(model: &mut RingModel, (slot, mut writer): (RingSlotId, BlockWriter)) {
    model.filled = model.filled.wrapping_add(1);
    writer.as_mut_slice().fill(model.filled);
    model.out.push((slot, model.filled));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_ring_slot_is_written_by_one_and_never_under_a_copy(acts in prop::collection::vec(ring_act(), 1..60)) {
        let driver = host();
        let (address, stream) = device(&driver);
        let budget = Arc::new(HostBudget::default());
        let shape = RingShape { slots: SLOTS, slot_bytes: PAGE, readers: 1 };
        let shared: Arc<dyn Driver> = Arc::<HostDriver>::clone(&driver);
        let mut ring = HostRing::open(shared, Arc::clone(&budget), shape, SLOTS * PAGE).expect("opened");
        let mut model = RingModel::default();
        for act in acts {
            match act {
                RingAct::Take => {
                    // On virtual time nothing runs unless somebody waits: only a slot that is free can be had.
                    let taken = ring.take().expect("no driver fails");
                    let free = SLOTS as usize - model.out.len() - model.copying.len();
                    prop_assert!(taken.is_some() || free == 0);
                    if let Some(taken) = taken {
                        prop_assert!(model.out.iter().all(|(slot, _)| *slot != taken.0), "it is in hand");
                        model.copying.retain(|slot| *slot != taken.0);
                        fill(&mut model, taken);
                    }
                }
                RingAct::Wait => {
                    let taken = ring.wait_take(&SystemClock);
                    prop_assert_eq!(taken.is_err(), model.out.len() == SLOTS as usize, "only slots in hand cannot be waited for");
                    if let Ok(taken) = taken {
                        model.copying.retain(|slot| *slot != taken.0);
                        fill(&mut model, taken);
                    }
                }
                RingAct::Give(index) if index < model.out.len() => ring.give(model.out.remove(index).0),
                RingAct::Send(index) if index < model.out.len() => {
                    let (slot, number) = model.out.remove(index);
                    let lease = ring.lease(slot, 0, PAGE).expect("nobody writes");
                    driver.copy_to_device(address, lease, stream).expect("queued");
                    ring.sent(slot, stream).expect("recorded");
                    model.copying.push_back(slot);
                    if number % 3 == 0 {
                        let read = driver.read_device(address, PAGE).expect("read");
                        prop_assert!(read.iter().all(|byte| *byte == number), "the copy carries what was written");
                    }
                }
                RingAct::Drain => driver.stream_synchronize(stream).expect("done"),
                RingAct::Give(_) | RingAct::Send(_) => {}
            }
            let RingLevels { free, out, copying, quarantined } = ring.levels();
            prop_assert_eq!((free + out + copying, quarantined), (SLOTS, 0));
            prop_assert_eq!(out, model.out.len() as u64);
            prop_assert!(copying <= model.copying.len() as u64);
        }
        driver.stream_synchronize(stream).expect("done");
        ring.release().expect("given back");
        prop_assert_eq!(budget.totals().staging_bytes, 0);
    }
}

const SEGMENT: u64 = 4 * PAGE;
/// Windows of one file; the last one is half a segment long.
const WINDOWS: u64 = 6;

/// What somebody does with windows of two storages.
#[derive(Clone, Debug)]
enum WindowAct {
    /// Ask one storage for a window.
    Request { storage: usize, window: u64 },
    /// Make a held window directly readable.
    Direct { storage: usize, window: u64 },
    /// Use a held window.
    Hold { storage: usize, window: u64 },
    /// Stop using it.
    LetGo { storage: usize, window: u64 },
    /// The host has little or much memory left, or does not tell.
    Host { bytes: Option<u64> },
}

fn window_act() -> impl Strategy<Value = WindowAct> {
    let (storage, window) = (0..2usize, 0..WINDOWS + 1);
    prop_oneof![
        6 => (storage.clone(), window.clone()).prop_map(|(storage, window)| WindowAct::Request { storage, window }),
        5 => (storage.clone(), window.clone()).prop_map(|(storage, window)| WindowAct::Direct { storage, window }),
        2 => (storage.clone(), window.clone()).prop_map(|(storage, window)| WindowAct::Hold { storage, window }),
        2 => (storage, window).prop_map(|(storage, window)| WindowAct::LetGo { storage, window }),
        1 => prop::option::of(0..12 * SEGMENT).prop_map(|bytes| WindowAct::Host { bytes }),
    ]
}

#[derive(Debug)]
struct Host(Mutex<Option<u64>>);

impl HostReadings for Host {
    fn read(&self) -> Option<HostReading> {
        self.0.lock().expect("no test panics here").map(|bytes| HostReading { ram_bytes: bytes, commit_bytes: bytes })
    }
}

/// One storage as the model sees it.
#[derive(Default)]
struct StorageModel {
    held: BTreeSet<u64>,
    holds: BTreeMap<u64, u64>,
    counts: [u64; 3],
}

fn byte(storage: usize, window: u64) -> u8 {
    (storage as u8 + 1) * 16 + window as u8
}

fn request(
    retained: &mut Retained,
    model: &mut StorageModel,
    (storage, window): (usize, u64),
    segments: u64,
) -> Result<(), TestCaseError> {
    let wanted: BTreeSet<u64> = (0..WINDOWS).filter(|index| is_spread(*index, segments, WINDOWS)).collect();
    let name = Window { file: 0, index: window };
    let before = model.held.clone();
    let answer = retained.request(name).expect("memory can be mapped");
    // Pressure may have taken what nobody uses, and only that.
    model.held.retain(|held| retained.holds(Window { file: 0, index: *held }));
    for lost in before.difference(&model.held) {
        prop_assert_eq!(model.holds.get(lost).copied().unwrap_or_default(), 0, "window {} was in use", lost);
    }
    match answer {
        Request::Hit => {
            prop_assert!(before.contains(&window));
            model.counts[0] += 1;
        }
        Request::Miss { mut writer, offset } => {
            prop_assert!(!before.contains(&window) && (model.held.len() as u64) < segments);
            prop_assert_eq!(offset, window * SEGMENT);
            let length = if window == WINDOWS - 1 { SEGMENT / 2 } else { SEGMENT };
            prop_assert_eq!(writer.bytes(), length, "cut at the end of the file");
            writer.as_mut_slice().fill(byte(storage, window));
            drop(writer);
            retained.note_full(name);
            model.held.insert(window);
            model.counts[1] += 1;
        }
        Request::Bypass => {
            // Windows that every pass reads and that are to be held have their places reserved.
            let reserved = if wanted.contains(&window) { 0 } else { wanted.difference(&model.held).count() };
            let is_full = (model.held.len() + reserved) as u64 >= segments;
            prop_assert!(is_full || window >= WINDOWS || retained.pressure().suspended(), "there was room");
            model.counts[2] += 1;
        }
    }
    Ok(())
}

fn apply(
    storages: &mut [Retained],
    models: &mut [StorageModel],
    host: &Host,
    act: &WindowAct,
    segments: u64,
) -> Result<(), TestCaseError> {
    match act {
        WindowAct::Host { bytes } => *host.0.lock().expect("no test panics here") = *bytes,
        WindowAct::Request { storage, window } => {
            request(&mut storages[*storage], &mut models[*storage], (*storage, *window), segments)?;
        }
        WindowAct::Direct { storage, window } => {
            let (retained, model) = (&mut storages[*storage], &models[*storage]);
            let direct = retained.make_direct(Window { file: 0, index: *window }, &SystemClock).expect("no driver fails");
            prop_assert!(direct == Direct::No || model.held.contains(window), "nothing else can be registered");
            if let Direct::After(victim) = direct {
                prop_assert!(model.holds.get(&victim.index).is_some_and(|holds| *holds > 0), "nobody uses {victim:?}");
            }
        }
        WindowAct::Hold { storage, window } if models[*storage].held.contains(window) => {
            storages[*storage].hold(Window { file: 0, index: *window });
            *models[*storage].holds.entry(*window).or_default() += 1;
        }
        WindowAct::LetGo { storage, window } => {
            if let Some(holds) = models[*storage].holds.get_mut(window).filter(|holds| **holds > 0) {
                *holds -= 1;
                storages[*storage].let_go(Window { file: 0, index: *window });
            }
        }
        WindowAct::Hold { .. } => {}
    }
    Ok(())
}

/// What must hold of both storages and of the process after every act.
fn check(storages: &[Retained], models: &[StorageModel], budget: &HostBudget, limit: u64) -> Result<(), TestCaseError> {
    let (mut committed, mut registered) = (0, 0);
    for (storage, (retained, model)) in storages.iter().zip(models).enumerate() {
        let (levels, shape, book) = (retained.levels(), retained.shape(), retained.book());
        prop_assert_eq!(levels.committed_bytes, model.held.len() as u64 * SEGMENT);
        prop_assert!(levels.retained_bytes <= levels.committed_bytes && levels.committed_bytes <= levels.peak_committed_bytes);
        prop_assert!(levels.peak_committed_bytes <= shape.bytes());
        prop_assert!(levels.registered_bytes <= levels.committed_bytes);
        prop_assert!(levels.peak_registered_bytes <= shape.registered_segments * SEGMENT);
        prop_assert_eq!([book.hits.get(), book.misses.get(), book.bypasses.get()], model.counts);
        for window in &model.held {
            let length = if *window == WINDOWS - 1 { SEGMENT / 2 } else { SEGMENT };
            let lease = retained.lease(Window { file: 0, index: *window }, 0, length).expect("readable");
            let right = byte(storage, *window);
            prop_assert!(lease.as_slice().iter().all(|byte| *byte == right), "contents stay, registered or not");
        }
        committed += levels.committed_bytes;
        registered += levels.registered_bytes;
    }
    let totals = budget.totals();
    prop_assert_eq!((totals.committed_bytes, totals.registered_bytes), (committed, registered));
    prop_assert!(registered <= limit, "{} registered, the process may hold {}", registered, limit);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn windows_stay_while_used_and_every_ceiling_holds(
        acts in prop::collection::vec(window_act(), 1..80),
        (segments, registered) in (1..WINDOWS + 1).prop_flat_map(|segments| (Just(segments), 1..segments + 1)),
        recycle in any::<bool>(),
        limit in 0..10u64,
    ) {
        let driver: Arc<dyn Driver> = host();
        let (budget, limit) = (Arc::new(HostBudget::default()), limit * SEGMENT);
        let host = Arc::new(Host(Mutex::new(Some(1 << 40))));
        let registration = if recycle { RegistrationPolicy::Recycle } else { RegistrationPolicy::StableSubset };
        let shape =
            RetainedShape { segments, segment_bytes: SEGMENT, registered_segments: registered, registration, model_windows: false };
        let streamed: Vec<Window> = (0..WINDOWS).map(|index| Window { file: 0, index }).collect();
        let mut storages: Vec<Retained> = (0..2)
            .map(|_| {
                let readings: Arc<dyn HostReadings> = Arc::<Host>::clone(&host);
                let length = WINDOWS * SEGMENT - SEGMENT / 2;
                let books = (Arc::clone(&budget), limit);
                Retained::new(Arc::clone(&driver), books, (readings, SEGMENT), shape, vec![length], &streamed)
            })
            .collect();
        let mut models = [StorageModel::default(), StorageModel::default()];
        for act in &acts {
            apply(&mut storages, &mut models, &host, act, segments)?;
            check(&storages, &models, &budget, limit)?;
        }
        for retained in &mut storages {
            retained.release().expect("given back");
        }
        prop_assert_eq!(budget.totals().committed_bytes + budget.totals().registered_bytes, 0);
    }
}
