//! The source `staged`: whatever the mode, the same bits through a few slots; each byte, wait and copy counted against an
//! independent count; refusals before anything is taken; files that change.

use crate::support::mosaic::Mosaic;
use crate::support::scratch;
use crate::support::streamed::{PAGE, Streamed, report, rows, staging};
use ddo_recorder::driver::{DeviceAddress, Driver, HostBytes, HostMode, Priority, SourceFile, StreamId};
use ddo_recorder::memory::{Extent, HostRing};
use ddo_recorder::meter::SystemClock;
use ddo_recorder::plan::RingShape;
use ddo_recorder::transfer::Staged;
use ddo_recorder::{
    Component, HostBudget, HostDriver, HostMemorySettings, HostOptions, LaunchScope, OffloadConfig, ResidencyMode, SourceChoice,
    enable_offload,
};
use ddo_schemas::Gib;
use ddo_schemas::sections::vmm::{Bridge, Ring, SourceCache, SourceTimings, Staging, Transport};
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const SOURCE: SourceChoice = SourceChoice::Staged;
/// The ceiling of the tests: three of ten tensors.
const CEILING: u64 = 12 * PAGE;

/// Five units; tensors end inside slots, at their ends, and need several.
fn mosaic() -> Mosaic {
    Mosaic { sizes: vec![vec![3 * PAGE, 700], vec![2 * PAGE], vec![5000, 4 * PAGE + 1], vec![1, 2, PAGE], vec![2 * PAGE, 9000]] }
}

fn bench(name: &str) -> Streamed {
    Streamed::new(name, mosaic(), CEILING)
}

#[test]
fn every_mode_gives_the_same_bits_from_files_and_from_memory() {
    let order = [0, 1, 2, 3, 4];
    for (residency, scope) in [
        (ResidencyMode::Classic, LaunchScope::Units),
        (ResidencyMode::Parts, LaunchScope::Units),
        (ResidencyMode::Parts, LaunchScope::Parts),
    ] {
        for (from_file, slots) in [(true, 2), (true, 5), (false, 2), (false, 3)] {
            let bench = bench("staged-modes");
            let component = if from_file { bench.component() } else { bench.mosaic.component() };
            let config = OffloadConfig { residency, launches: scope, ..bench.config(SOURCE, staging(slots)) };
            let offload = enable_offload(component, config).expect("attached");
            let empty = rows(&offload).staging;
            assert_eq!((empty.fast_shard_read_bytes, empty.fast_staging_source_copy_bytes), (Some(0), Some(0)), "nothing yet");
            (0..4).for_each(|_| bench.pass(&offload, &order, scope).expect("a pass"));
            let (vmm, seen) = (rows(&offload), bench.ledger.seen());
            let Staging { fast_shard_read_bytes: read, fast_staging_source_copy_bytes: copied, .. } = vmm.staging;
            let all = Some(seen.copied_bytes);
            assert_eq!((read, copied), if from_file { (all, Some(0)) } else { (Some(0), all) });
            assert_eq!(vmm.uploads.fast_dma_enqueue_bytes, all);
            assert_eq!(vmm.tickets.fast_transfer_copies, Some(seen.calls["copy_to_device"]));
            let waits = seen.calls.get("event_synchronize").copied().unwrap_or_default();
            assert_eq!(vmm.staging.fast_staging_slot_waits, Some(waits), "nothing else is waited for by an event");
            assert!(waits > 0 || slots == 5, "a few slots are soon busy");
            assert_eq!(seen.peak_registered_bytes, slots * 2 * PAGE, "the slots and nothing else");
            bench.close(&offload);
        }
    }
}

#[test]
fn rows_of_other_paths_are_left_out_and_decisions_say_what_there_is() {
    let bench = bench("staged-rows");
    let offload = bench.attach(SOURCE, staging(3)).expect("attached");
    bench.passes(&offload, 2);
    let found = report(&offload);
    let (vmm, decisions) = (found.runtime.vmm.expect("attached"), found.runtime.state.planner_decisions);
    let none = (Transport::default(), Bridge::default(), Ring::default(), SourceCache::default(), SourceTimings::default());
    assert_eq!((vmm.transport, vmm.bridge, vmm.ring, vmm.source_cache, vmm.source_timings), none);
    assert_eq!((vmm.look_ahead.fast_prefetch_attempts, vmm.sources.fast_mapped_source_dma_bytes), (None, None));
    assert_eq!((decisions.vmm_effective_source.as_str(), decisions.vmm.vmm_native_transport), ("staged", Some(false)));
    assert_eq!((decisions.vmm.vmm_staging_slots, decisions.vmm.vmm_native_transport_registered_capacity_bytes), (Some(3), None));
    assert_eq!(decisions.vmm.vmm_staging_buffer_gb, Some(Gib::from_bytes(6 * PAGE)));
    assert_eq!(found.configuration.requested_source, "staged");
    bench.close(&offload);
    for source in [SourceChoice::Mapped, SourceChoice::Ring, SourceChoice::Cpu] {
        let offload = bench.attach(source, staging(3)).expect("attached");
        bench.passes(&offload, 1);
        assert_eq!(rows(&offload).staging, Staging::default());
        bench.close(&offload);
    }
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_taken() {
    let bench = bench("staged-refused");
    let refused = |change: &dyn Fn(&mut HostMemorySettings)| {
        let mut host = staging(3);
        change(&mut host);
        bench.attach(SOURCE, host).map(|_| ()).expect_err("refused")
    };
    type Change<'a> = &'a dyn Fn(&mut HostMemorySettings);
    let cases: [(Change<'_>, &str, u64, u64); 7] = [
        (&|host| host.staging_bytes = 2 * PAGE, "staging_too_few_slots", 1, 2),
        (&|host| host.staging_bytes = 0, "staging_too_few_slots", 0, 2),
        (&|host| host.staging_slot_bytes = 0, "staging_slot_not_whole", 0, PAGE),
        (&|host| host.staging_slot_bytes = PAGE + 1, "staging_slot_not_whole", PAGE + 1, PAGE),
        (&|host| host.staging_slot_bytes = (64 << 20) + PAGE, "staging_slot_too_large", (64 << 20) + PAGE, 64 << 20),
        (&|host| host.staging_bytes = u64::MAX, "staging_too_many_slots", u64::MAX.div_ceil(2 * PAGE), 4096),
        (&|host| host.process_limit_bytes = 6 * PAGE - 1, "process_registered_limit", 6 * PAGE, 6 * PAGE - 1),
    ];
    for (change, code, got, limit) in cases {
        let error = refused(change);
        let ddo_recorder::Error::Refused(refusal) = error else { panic!("{code}: {error}") };
        assert_eq!((refusal.code, refusal.got, refusal.limit), (code, got, limit));
    }
    assert_eq!(refused(&|host| host.retained_bytes = 64 << 20).code(), "invalid");
    assert_eq!(refused(&|host| host.registered_bytes = 64 << 20).code(), "invalid");
    let counted = crate::support::tiny::unbacked(2, PAGE);
    let error = enable_offload(counted, bench.config(SOURCE, staging(2))).map(|_| ()).expect_err("no bytes");
    assert_eq!(error.code(), "unsupported");
    assert_eq!(bench.ledger.seen().calls.len(), 0, "no driver call was made");
}

#[test]
fn two_components_share_the_limit_of_the_process_to_the_byte() {
    let mut bench = Streamed::new("staged-process", mosaic(), 2 * CEILING);
    bench.ceiling = CEILING;
    let limited = |slots: u64, bytes: u64| HostMemorySettings { process_limit_bytes: bytes, ..staging(slots) };
    let first = bench.attach(SOURCE, limited(2, 10 * PAGE)).expect("attached");
    let refused = bench.attach(SOURCE, limited(3, 10 * PAGE - 1)).map(|_| ()).expect_err("one byte above");
    assert_eq!(refused.code(), "process_registered_limit");
    assert_eq!(bench.budget.totals().staging_bytes, 4 * PAGE);
    let second = bench.attach(SOURCE, limited(3, 10 * PAGE)).expect("at it");
    assert_eq!(bench.ledger.seen().registered_bytes, 10 * PAGE);
    for offload in [&first, &second] {
        bench.passes(offload, 1);
    }
    assert_eq!(first.close(Duration::from_secs(1)).expect("closes").errors, Vec::<String>::new());
    bench.close(&second);
}

#[test]
fn changed_and_vanished_files_are_typed_and_nothing_stays_half_owned() {
    type Harm = fn(&Path);
    let shorten: Harm = |path| {
        let file = std::fs::OpenOptions::new().write(true).open(path).expect("there");
        file.set_len(file.metadata().expect("there").len() - 1000).expect("shortened");
    };
    let rewrite: Harm = |path| {
        let file = std::fs::OpenOptions::new().write(true).open(path).expect("there");
        file.set_times(std::fs::FileTimes::new().set_modified(std::time::SystemTime::UNIX_EPOCH)).expect("another time");
    };
    let remove: Harm = |path| std::fs::remove_file(path).expect("removed");
    for (harm, code) in [(shorten, "source_changed"), (rewrite, "source_changed"), (remove, "source_vanished")] {
        let bench = bench("staged-harm");
        let offload = bench.attach(SOURCE, staging(2)).expect("attached");
        let guard = offload.unit(bench.mosaic.id(&offload, 0)).expect("a unit");
        guard.view(&bench.mosaic.name(0)).expect("read");
        drop(guard);
        let before = rows(&offload).staging.fast_shard_read_bytes;
        harm(&bench.path);
        let error = bench.pass(&offload, &[1, 2, 3, 4], LaunchScope::Parts).expect_err(code);
        assert_eq!(error.code(), code, "{error}");
        assert_eq!(rows(&offload).staging.fast_shard_read_bytes, before, "bytes of another file are never delivered");
        assert_eq!(offload.audit(), Vec::<String>::new());
        assert_eq!(offload.close(Duration::from_secs(1)).expect("closes").quarantined_bytes, 0);
        bench.ledger.seen().assert_balanced();
        assert_eq!(bench.budget.totals().staging_bytes, 0);
    }
}

#[test]
fn slots_that_cannot_be_registered_leave_nothing_behind() {
    let options = HostOptions { page_bytes: PAGE, registration_limit_bytes: Some(3 * PAGE), ..HostOptions::default() };
    let ledger = crate::support::ledger::Ledger::new(options, 0);
    let bench = bench("staged-unregistered");
    let config = OffloadConfig { driver: Arc::<_>::clone(&ledger) as Arc<dyn Driver>, ..bench.config(SOURCE, staging(2)) };
    let error = enable_offload(bench.component(), config).map(|_| ()).expect_err("two slots need four pages");
    assert_eq!(error.code(), "driver_out_of_memory");
    ledger.seen().assert_balanced();
    assert_eq!(bench.budget.totals().staging_bytes, 0);
}

/// What somebody sends through the slots.
#[derive(Clone, Debug)]
enum Act {
    /// A stretch of the file.
    File { offset: u64, bytes: u64 },
    /// Bytes of host memory.
    Held { bytes: u64 },
    /// Every copy ends.
    Drain,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0..FILE_BYTES, 1..4 * PAGE).prop_map(|(offset, bytes)| Act::File { offset, bytes: bytes.min(FILE_BYTES - offset) }),
        4 => (1..4 * PAGE).prop_map(|bytes| Act::Held { bytes }),
        1 => Just(Act::Drain),
    ]
}

const FILE_BYTES: u64 = 6 * PAGE;
/// Device memory for everything that one test sends.
const SPACE: u64 = 40 * 4 * PAGE;

/// The slots as far as waits go: how many have no copy, and of the copies, oldest first, how many have ended.
struct Model {
    idle: u64,
    ended: u64,
    running: u64,
    waits: u64,
}

impl Model {
    /// A piece takes a slot without a copy, else the oldest one; only a copy that has not ended is waited for.
    fn send(&mut self) {
        match (self.idle, self.ended) {
            (0, 0) => (self.running, self.waits) = (self.running - 1, self.waits + 1),
            (0, _) => self.ended -= 1,
            _ => self.idle -= 1,
        }
        self.running += 1;
    }
}

fn device(driver: &HostDriver) -> (DeviceAddress, StreamId) {
    let address = driver.address_reserve(SPACE).expect("reserved");
    let memory = driver.memory_create(SPACE).expect("created");
    driver.memory_map(address, SPACE, memory).expect("mapped");
    driver.memory_set_access(address, SPACE).expect("accessible");
    (address, driver.stream_create(Priority::High).expect("a stream"))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_slot_is_refilled_only_behind_its_copy_and_every_wait_is_counted(
        acts in prop::collection::vec(act(), 1..40),
        slots in 2..6u64,
    ) {
        let folder = scratch("staged-model");
        let path = folder.path().join("file");
        let contents: Vec<u8> = (0..FILE_BYTES).map(|index| (index * 31 % 253) as u8).collect();
        std::fs::write(&path, &contents).expect("written");
        let options = HostOptions { mode: HostMode::Stepped, page_bytes: PAGE, ..HostOptions::default() };
        let driver = HostDriver::new(options).expect("a host driver");
        let (address, stream) = device(&driver);
        let shared: Arc<dyn Driver> = Arc::<HostDriver>::clone(&driver);
        let (budget, shape) = (Arc::new(HostBudget::default()), RingShape { slots, slot_bytes: PAGE, readers: 0 });
        let ring = HostRing::open(Arc::clone(&shared), Arc::clone(&budget), shape, slots * PAGE).expect("opened");
        let files = Arc::new(vec![SourceFile::open(&path).expect("opens")]);
        let mut staged = Staged::new(shared, Arc::new(SystemClock), stream, ring, files);
        let mut model = Model { idle: slots, ended: 0, running: 0, waits: 0 };
        let (mut expected, mut read, mut copied, mut pieces) = (Vec::new(), 0u64, 0u64, 0u64);
        for (turn, act) in acts.iter().enumerate() {
            let to = address.offset(expected.len() as u64);
            let (bytes, sent) = match act {
                Act::Drain => {
                    driver.stream_synchronize(stream).expect("done");
                    (model.ended, model.running) = (model.ended + model.running, 0);
                    continue;
                }
                Act::File { offset, bytes } => {
                    expected.extend_from_slice(&contents[*offset as usize..(offset + bytes) as usize]);
                    read += bytes;
                    (*bytes, staged.send_file(Extent { file: 0, offset: *offset, bytes: *bytes }, to))
                }
                Act::Held { bytes } => {
                    let own: Vec<u8> = (0..*bytes).map(|index| (index + turn as u64 * 7) as u8).collect();
                    expected.extend_from_slice(&own);
                    copied += bytes;
                    (*bytes, staged.send_held(&HostBytes::new(Arc::new(own), 0, *bytes).expect("a range"), to))
                }
            };
            let needed = bytes.div_ceil(PAGE);
            prop_assert_eq!(sent.expect("no driver fails"), needed, "a copy a slot");
            (0..needed).for_each(|_| model.send());
            pieces += needed;
            let waits = staged.slots().waits();
            prop_assert_eq!(waits.calls(), model.waits);
            prop_assert_eq!(staged.audit(), Vec::<String>::new());
        }
        driver.stream_synchronize(stream).expect("done");
        let arrived = driver.read_device(address, (expected.len() as u64).max(1)).expect("read");
        prop_assert!(expected.is_empty() || arrived == expected, "every copy carries what was put in its slot for it");
        let book = staged.book();
        prop_assert_eq!((book.shard_read_bytes.get(), book.source_copy_bytes.get()), (read, copied));
        prop_assert_eq!(book.shard_read.calls() + book.source_copy.calls(), pieces);
        staged.release().expect("given back");
        prop_assert_eq!(budget.totals().staging_bytes, 0);
    }
}

#[test]
fn a_component_in_memory_needs_no_file() {
    let bench = bench("staged-memory");
    let component: Component = bench.mosaic.component();
    let offload = enable_offload(component, bench.config(SOURCE, staging(2))).expect("attached");
    bench.passes(&offload, 2);
    let vmm = rows(&offload);
    assert_eq!(vmm.sources.fast_cpu_source_dma_bytes, vmm.staging.fast_staging_source_copy_bytes);
    assert_eq!((vmm.sources.fast_file_backed_bindings, vmm.staging.fast_shard_read_seconds.map(|s| s.0)), (Some(0), Some(0.0)));
    bench.close(&offload);
}
