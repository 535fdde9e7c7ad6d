//! Mapped files that are registered beside passes: the same bits whatever is registered when, every segment once, ceilings
//! to the byte, nothing left behind, and times of passes that are told only once they are alike.
//!
//! A failing seed is printed; `DDO_SEED=N` replays it alone, `DDO_SEEDS=COUNT` runs that many.

use crate::support::ledger::Ledger;
use crate::support::lives::each_seed;
use crate::support::mosaic::Mosaic;
use crate::support::tiny::component_of;
use crate::support::{Scratch, scratch};
use ddo_recorder::driver::HostMode;
use ddo_recorder::memory::HostTotals;
use ddo_recorder::{
    Ceiling, HostBudget, HostDriver, HostMemorySettings, HostOptions, LaunchScope, Offload, OffloadConfig, RegistrationTiming,
    ResidencyMode, SnapshotOptions, SourceChoice, enable_offload,
};
use ddo_schemas::sections::Vmm;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PAGE: u64 = 4096;
const SEGMENT: u64 = 64 << 20;
const PIECE: u64 = 16 << 20;

/// What a test attaches.
struct Bench {
    mosaic: Mosaic,
    /// What a pass gives.
    right: u64,
    path: PathBuf,
    budget: Arc<HostBudget>,
    ledger: Arc<Ledger>,
    _folder: Scratch,
}

impl Bench {
    /// On virtual time, in one file for each unit.
    fn stepped(name: &str, mosaic: Mosaic) -> Bench {
        let folder = scratch(name);
        let path = mosaic.shards(folder.path(), mosaic.sizes.len());
        let link_bytes_per_second = Some(1_000_000_000);
        let options = HostOptions { mode: HostMode::Stepped, page_bytes: PAGE, link_bytes_per_second, ..HostOptions::default() };
        Bench::over(options, folder, path, mosaic)
    }

    fn over(options: HostOptions, folder: Scratch, path: PathBuf, mosaic: Mosaic) -> Bench {
        let order: Vec<usize> = (0..mosaic.sizes.len()).collect();
        let (right, ledger) = (mosaic.reference(&order), Ledger::new(options, u64::MAX));
        Bench { mosaic, right, path, budget: Arc::default(), ledger, _folder: folder }
    }

    fn config(&self, ceiling: u64, host: HostMemorySettings) -> OffloadConfig {
        OffloadConfig {
            ceiling: Ceiling::Bytes(ceiling),
            source: SourceChoice::Mapped,
            residency: ResidencyMode::Parts,
            launches: LaunchScope::Parts,
            part_bytes: 1,
            host,
            host_budget: Arc::clone(&self.budget),
            ..OffloadConfig::new(Arc::<Ledger>::clone(&self.ledger))
        }
    }

    fn attach(&self, ceiling: u64, host: HostMemorySettings) -> Offload {
        enable_offload(component_of(&self.path), self.config(ceiling, host)).expect("attached")
    }

    /// One pass; something happens before each unit.
    fn pass(&self, offload: &Offload, mut before: impl FnMut(usize)) {
        let state = Arc::new(Mutex::new(1));
        for unit in 0..self.mosaic.sizes.len() {
            before(unit);
            self.mosaic.submit(offload, unit, &state, Duration::from_nanos(700), LaunchScope::Parts).expect("submitted");
            assert_eq!(offload.audit(), Vec::<String>::new());
        }
        offload.mark_step().expect("a step");
        offload.wait_stream(offload.compute_stream()).expect("done");
        assert_eq!(*state.lock().expect("jobs do not panic"), self.right, "the same bits");
    }

    fn close(&self, offload: &Offload) {
        assert_eq!(offload.close(Duration::from_secs(10)).expect("closes").errors, Vec::<String>::new());
        self.left_nothing();
    }

    fn left_nothing(&self) {
        self.ledger.seen().assert_balanced();
        assert_eq!(self.budget.totals(), HostTotals::default());
    }
}

/// Lengths of all files of a folder.
fn lengths(folder: &Path) -> Vec<u64> {
    let files = std::fs::read_dir(folder).expect("there");
    files.map(|file| file.and_then(|file| file.metadata()).expect("a file").len()).collect()
}

fn vmm(offload: &Offload) -> Vmm {
    offload.wait_idle().expect("idle");
    let options = SnapshotOptions { collect_completed: true, ..SnapshotOptions::default() };
    offload.metrics_snapshot(options).expect("a report").runtime.vmm.expect("attached")
}

/// Registration by calls of the host, beside a ring of eight slots of two pages.
fn by_host() -> HostMemorySettings {
    HostMemorySettings {
        staging_bytes: 16 * PAGE,
        staging_slot_bytes: 2 * PAGE,
        readers: 2,
        registration_timing: RegistrationTiming::ByHost,
        ..HostMemorySettings::default()
    }
}

#[test]
fn what_is_registered_between_requests_is_copied_directly_and_nothing_read_is_thrown_away() {
    let bench = Bench::stepped("registration-turns", Mosaic::even(6, 2, 3 * PAGE));
    let offload = bench.attach(5 * PAGE, by_host());
    let length: u64 = lengths(&bench.path).iter().sum();
    assert_eq!(offload.registration().waiting_bytes, length, "nothing is registered at attach");
    let report = offload.metrics_snapshot(SnapshotOptions::default()).expect("a report");
    let decided = &report.runtime.state.planner_decisions;
    assert_eq!(decided.vmm_source_registration_timing.as_deref(), Some("host"));
    assert_eq!(report.configuration.requested_source_registration_timing.as_deref(), Some("host"));
    assert!(!report.runtime.state.setup_runtime.contains_key("vmm_fast_register_mapped_source"));
    // The last of six files first, one for each two units.
    let mut order = Vec::new();
    bench.pass(&offload, |unit| {
        if unit % 2 == 0 {
            assert!(offload.register_next());
            order.push(offload.registration().registered_bytes);
        }
    });
    assert!(order.is_sorted() && order.len() == 3, "{order:?}");
    let first = vmm(&offload);
    let (ringed, direct) = (
        first.ring.fast_native_transport_read_bytes.expect("counted"),
        first.sources.fast_mapped_source_dma_bytes.expect("counted"),
    );
    assert_eq!(ringed + direct, bench.ledger.seen().copied_bytes);
    assert!(ringed > 0 && direct > 0, "{ringed} {direct}");
    while offload.register_next() {}
    let progress = offload.registration();
    assert_eq!((progress.registered_bytes, progress.waiting_bytes, progress.refused), (length, 0, false));
    // Parts that were on their way through the ring stay so for one more pass.
    (0..2).for_each(|_| bench.pass(&offload, |_| ()));
    let settled = vmm(&offload).ring.fast_native_transport_read_bytes;
    (0..2).for_each(|_| bench.pass(&offload, |_| ()));
    let last = vmm(&offload);
    assert_eq!(last.ring.fast_native_transport_read_bytes, settled, "the ring has nothing left to do");
    assert_eq!(last.ring.fast_native_transport_source_read_bytes, settled, "nothing was read in vain");
    assert_eq!(last.sources.fast_mapped_source_registration_calls, Some(6), "a piece for each file");
    assert_eq!(
        (last.sources.fast_mapped_source_registered_bytes, last.sources.fast_mapped_source_registration_waiting_bytes),
        (Some(length), Some(0))
    );
    assert_eq!(last.sources.fast_mapped_source_registration_refusals, Some(0));
    bench.close(&offload);
}

#[test]
fn the_limit_of_the_process_admits_itself_and_declines_one_byte_more() {
    let length = |bench: &Bench| std::fs::metadata(bench.path.join("part-0.safetensors")).expect("the file").len();
    for (less, registered) in [(0, true), (1, false)] {
        let bench = Bench::stepped("registration-limit", Mosaic::even(1, 3, 3 * PAGE));
        let limit = 16 * PAGE + length(&bench) - less;
        let offload = bench.attach(4 * PAGE, HostMemorySettings { process_limit_bytes: limit, ..by_host() });
        bench.pass(&offload, |_| {
            offload.register_next();
        });
        (0..2).for_each(|_| bench.pass(&offload, |_| ()));
        let sources = vmm(&offload).sources;
        assert_eq!(sources.fast_mapped_source_registered_bytes, Some(if registered { length(&bench) } else { 0 }));
        assert_eq!(sources.fast_mapped_source_registration_refusals, Some(u64::from(!registered)));
        assert_eq!(sources.fast_mapped_source_registration_calls, Some(u64::from(registered)), "no driver call for a refusal");
        assert_eq!(offload.registration().refused, !registered);
        assert!(bench.ledger.seen().peak_registered_bytes <= limit);
        bench.close(&offload);
    }
}

#[test]
fn the_timed_pass_is_the_first_that_begins_with_nothing_left_to_register() {
    let bench = Bench::stepped("registration-learning", Mosaic::even(4, 2, 3 * PAGE));
    let config = OffloadConfig { measure: true, ..bench.config(6 * PAGE, by_host()) };
    let offload = enable_offload(component_of(&bench.path), config).expect("attached");
    (0..5).for_each(|_| bench.pass(&offload, |_| ()));
    assert_eq!(offload.measured_costs(), None, "passes are not alike yet");
    while offload.register_next() {}
    (0..3).for_each(|_| bench.pass(&offload, |_| ()));
    offload.wait_idle().expect("idle");
    assert_eq!(offload.measured_costs().expect("a pass was timed").unit_seconds.len(), 4);
    bench.close(&offload);
}

#[test]
fn a_source_that_is_not_mapped_has_no_time_of_registration() {
    let bench = Bench::stepped("registration-unused", Mosaic::even(1, 1, PAGE));
    let config = OffloadConfig { source: SourceChoice::Ring, ..bench.config(2 * PAGE, by_host()) };
    assert_eq!(enable_offload(component_of(&bench.path), config).map(|_| ()).expect_err("unused").code(), "invalid");
    let ring = HostMemorySettings { registration_timing: RegistrationTiming::Auto, ..by_host() };
    let config = OffloadConfig { source: SourceChoice::Ring, ..bench.config(2 * PAGE, ring) };
    let offload = enable_offload(component_of(&bench.path), config).expect("attached");
    assert!(offload.wait_registered(Duration::ZERO) && !offload.register_next(), "there is nothing to register");
    assert_eq!(vmm(&offload).sources.fast_mapped_source_registration_calls, None);
    bench.close(&offload);
}

/// A file of two segments on a device in real time.
fn large(name: &str, registration_bytes_per_second: Option<u64>) -> Bench {
    let (folder, mosaic) = (scratch(name), Mosaic::even(2, 1, 3 * SEGMENT / 4));
    let path = mosaic.checkpoint(folder.path());
    let options = HostOptions { page_bytes: PAGE, registration_bytes_per_second, ..HostOptions::default() };
    Bench::over(options, folder, path, mosaic)
}

fn in_background(registered_bytes: u64) -> HostMemorySettings {
    HostMemorySettings {
        staging_bytes: 4 << 20,
        staging_slot_bytes: 1 << 20,
        registered_bytes,
        registration_timing: RegistrationTiming::Background,
        ..HostMemorySettings::default()
    }
}

#[test]
fn a_thread_registers_beside_passes_up_to_every_ceiling_and_the_bits_stay() {
    let bench = large("registration-thread", None);
    let length = std::fs::metadata(&bench.path).expect("the file").len();
    for (registered, peak) in [(SEGMENT, SEGMENT), (0, length)] {
        let offload = bench.attach(SEGMENT, in_background(registered));
        bench.pass(&offload, |_| ());
        assert!(offload.wait_registered(Duration::from_secs(60)), "a host driver registers at once");
        bench.pass(&offload, |_| ());
        let report = vmm(&offload);
        let got = report.sources.fast_mapped_source_registered_bytes.expect("mapped");
        assert!(got <= peak && got + SEGMENT > peak, "{got} of {peak}");
        let pieces = got.div_ceil(PIECE);
        assert_eq!(report.sources.fast_mapped_source_registration_calls, Some(pieces));
        assert_eq!(bench.ledger.seen().calls["host_register"], pieces + 4, "the ring has four slots");
        assert!(report.sources.fast_mapped_source_dma_bytes > Some(0));
        bench.close(&offload);
        bench.ledger.forget_calls();
    }
}

#[test]
fn closing_or_dropping_ends_registering_and_leaves_nothing() {
    // A piece takes 16 ms: all of them take longer than what happens here.
    let bench = large("registration-close", Some(1 << 30));
    let offload = bench.attach(SEGMENT, in_background(0));
    bench.pass(&offload, |_| ());
    bench.close(&offload);
    assert_eq!(offload.registration().waiting_bytes, 0);
    // Dropped between two pieces of a segment.
    let host = HostMemorySettings { registration_timing: RegistrationTiming::ByHost, ..in_background(0) };
    let offload = bench.attach(SEGMENT, host);
    (0..5).for_each(|_| assert!(offload.register_next()));
    let last = std::fs::metadata(&bench.path).expect("the file").len() - SEGMENT;
    assert!(last > 2 * PIECE && last < 3 * PIECE, "three pieces, and two of the segment before it");
    assert_eq!(bench.ledger.seen().registered_bytes, last + 2 * PIECE + (4 << 20));
    drop(offload);
    bench.left_nothing();
}

/// A file of zeros that takes no room: four units of a quarter of a gibibyte.
fn vast(folder: &Path) -> PathBuf {
    let (path, bytes) = (folder.join("model.safetensors"), 1u64 << 30);
    let unit = |index: u64| {
        let (start, end) = (index * bytes / 4, (index + 1) * bytes / 4);
        format!(r#""blocks.{index}.t.weight":{{"dtype":"U8","shape":[{}],"data_offsets":[{start},{end}]}}"#, end - start)
    };
    let header = format!("{{{}}}", (0..4).map(unit).collect::<Vec<_>>().join(","));
    let mut text = (header.len() as u64).to_le_bytes().to_vec();
    text.extend(header.as_bytes());
    std::fs::write(&path, &text).expect("written");
    let file = std::fs::OpenOptions::new().write(true).open(&path).expect("there");
    file.set_len(text.len() as u64 + bytes).expect("a sparse file");
    path
}

#[test]
fn auto_registers_beside_passes_where_it_gains_and_a_ring_can_be_had() {
    let folder = scratch("registration-auto");
    let path = vast(folder.path());
    let timing = |rate: Option<u64>, readers, taken: u64| {
        let options = HostOptions { registration_bytes_per_second: rate, ..HostOptions::default() };
        let budget = Arc::new(HostBudget::default());
        budget.enter_staging(taken, u64::MAX).expect("no limit");
        let host = HostMemorySettings {
            staging_bytes: 4 << 20,
            staging_slot_bytes: 1 << 20,
            readers,
            process_limit_bytes: 8 << 20,
            ..HostMemorySettings::default()
        };
        let (ceiling, driver) = (Ceiling::Bytes(5 << 26), HostDriver::new(options).expect("a host driver"));
        let config = OffloadConfig { ceiling, host, host_budget: Arc::clone(&budget), ..OffloadConfig::new(driver) };
        let offload = enable_offload(component_of(&path), config).expect("attached");
        let (timing, rings) = (offload.registration().timing.expect("mapped"), budget.totals().staging_bytes - taken);
        // No segment fits under the limit: what is declined is declined at once.
        assert!(offload.wait_registered(Duration::from_secs(60)) && offload.registration().refused);
        assert_eq!(offload.close(Duration::from_secs(10)).expect("closes").errors, Vec::<String>::new());
        (timing, rings)
    };
    let fast = Some(1 << 40);
    assert_eq!(timing(fast, 4, 0), (RegistrationTiming::Background, 4 << 20));
    assert_eq!(timing(fast, 3, 0), (RegistrationTiming::AtAttach, 0), "too few readers");
    assert_eq!(timing(None, 4, 0), (RegistrationTiming::AtAttach, 0), "registering takes no time");
    assert_eq!(timing(fast, 4, 5 << 20), (RegistrationTiming::AtAttach, 0), "others hold what the ring needs");
}

/// One pass in a known or in another order; the host registers often or seldom.
fn step(mosaic: &Mosaic, offload: &Offload, rng: &mut fastrand::Rng, scope: LaunchScope) {
    let mut order: Vec<usize> = (0..mosaic.sizes.len()).collect();
    if rng.u8(..4) == 0 {
        rng.shuffle(&mut order);
    }
    let (state, keen) = (Arc::new(Mutex::new(1)), rng.u8(1..6));
    for unit in &order {
        if rng.u8(..keen) == 0 {
            offload.register_next();
        }
        mosaic.submit(offload, *unit, &state, Duration::from_nanos(rng.u64(0..20_000)), scope).expect("submitted");
        assert_eq!(offload.audit(), Vec::<String>::new(), "conservation");
    }
    offload.mark_step().expect("a step");
    offload.wait_stream(offload.compute_stream()).expect("done");
    assert_eq!(*state.lock().expect("jobs do not panic"), mosaic.reference(&order), "the same bits");
}

/// One random life of a component whose host registers now and then; panics when anything is wrong.
fn life(seed: u64, folder: &Path) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let sizes = (0..rng.usize(1..7)).map(|_| (0..rng.usize(1..5)).map(|_| rng.u64(1..12_000)).collect()).collect();
    let mosaic = Mosaic { sizes };
    let files = rng.usize(1..=mosaic.sizes.len());
    let path = mosaic.shards(folder, files);
    let lengths = lengths(&path);
    let all: u64 = lengths.iter().sum();
    let scope = if rng.bool() { LaunchScope::Units } else { LaunchScope::Parts };
    let largest = mosaic.sizes.iter().map(|sizes| sizes.iter().map(|bytes| bytes.next_multiple_of(512)).sum::<u64>()).max();
    let ceiling = largest.unwrap_or_default().next_multiple_of(PAGE) + rng.u64(0..=mosaic.total_bytes());
    let staging = PAGE * rng.u64(1..8);
    let limit = staging + if rng.bool() { 1 << 30 } else { rng.u64(0..=all) };
    let chosen = rng.u64(0..4);
    let driver = HostDriver::new(HostOptions {
        mode: HostMode::Interleaved { seed },
        page_bytes: PAGE,
        link_bytes_per_second: Some(1 << rng.u32(20..34)),
        // In some lives the device declines registrations.
        registration_limit_bytes: (rng.u8(..4) == 0).then(|| staging + rng.u64(0..=all)),
        ..HostOptions::default()
    });
    let ledger = Ledger::over(driver.expect("a host driver"), ceiling);
    let budget = Arc::new(HostBudget::default());
    let config = OffloadConfig {
        ceiling: Ceiling::Bytes(ceiling),
        source: SourceChoice::Mapped,
        residency: if rng.u8(..4) == 0 { ResidencyMode::Auto } else { ResidencyMode::Parts },
        launches: scope,
        part_bytes: *rng.choice(&[1, 1000, 6000]).expect("one of them"),
        look_ahead: rng.u8(..8) > 0,
        host: HostMemorySettings {
            staging_bytes: staging,
            staging_slot_bytes: PAGE,
            readers: rng.u64(1..3),
            registered_bytes: chosen * SEGMENT,
            process_limit_bytes: limit,
            registration_timing: RegistrationTiming::ByHost,
            ..HostMemorySettings::default()
        },
        host_budget: Arc::clone(&budget),
        ..OffloadConfig::new(Arc::<Ledger>::clone(&ledger))
    };
    let offload = enable_offload(component_of(&path), config).expect("attached");
    for _ in 0..rng.u64(2..6) {
        step(&mosaic, &offload, &mut rng, scope);
        let progress = offload.registration();
        assert!(progress.registered_bytes + staging <= limit, "{progress:?}");
    }
    let (vmm, seen) = (vmm(&offload), ledger.seen());
    let ways = [vmm.ring.fast_native_transport_read_bytes, vmm.sources.fast_mapped_source_dma_bytes];
    assert_eq!(ways.into_iter().flatten().sum::<u64>(), seen.copied_bytes, "every byte came one way");
    assert!(seen.peak_registered_bytes <= limit);
    let calls = vmm.sources.fast_mapped_source_registration_calls.expect("mapped");
    assert!(calls <= lengths.len() as u64 && (chosen == 0 || calls <= chosen), "{calls} calls, {chosen} segments may be");
    if rng.bool() {
        let closed = offload.close(Duration::from_secs(1)).expect("closes");
        assert_eq!((closed.quarantined_bytes, closed.errors.len()), (0, 0), "{closed:?}");
        ledger.seen().assert_balanced();
    } else {
        drop(offload);
        assert_eq!(ledger.seen().registered_bytes, 0, "a session that is dropped while idle gives back what it registered");
    }
    assert_eq!(budget.totals(), HostTotals::default(), "the process holds nothing any more");
}

#[test]
fn three_hundred_lives_of_registering_beside_passes_give_the_same_bits() {
    each_seed(300, |seed| {
        let folder = scratch("registration-life");
        life(seed, folder.path());
    });
}

#[test]
fn a_segment_is_named_once_however_many_parts_share_it() {
    let bench = Bench::stepped("registration-shared", Mosaic::even(5, 3, 1000));
    let offload = bench.attach(PAGE, by_host());
    let mut sizes = BTreeSet::new();
    while offload.register_next() {
        sizes.insert(offload.registration().registered_bytes);
    }
    assert_eq!((sizes.len(), bench.ledger.seen().calls["host_register"]), (4, 5 + 8), "five files, and eight slots");
    bench.close(&offload);
}
