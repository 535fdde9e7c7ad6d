//! The sources `ring` and `retained`: the same bits as with everything resident, counters against an independent count,
//! ceilings to the byte, refusals before anything is taken, and files that change.

use crate::support::ledger::Ledger;
use crate::support::mosaic::Mosaic;
use crate::support::tiny::component_of;
use crate::support::{Scratch, scratch};
use ddo_recorder::driver::HostMode;
use ddo_recorder::memory::{HostReading, HostReadings, HostTotals};
use ddo_recorder::{
    Ceiling, HostBudget, HostMemorySettings, HostOptions, LaunchScope, Offload, OffloadConfig, RegistrationPolicy, ResidencyMode,
    SnapshotOptions, SourceChoice, enable_offload,
};
use ddo_schemas::sections::Vmm;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PAGE: u64 = 4096;
const WINDOW: u64 = 64 << 10;

/// Four units of two tensors of 32 KiB: four windows of 64 KiB and the rest of the file, since the header moves them.
fn mosaic() -> Mosaic {
    Mosaic::even(4, 2, WINDOW / 2)
}

/// A host with a fixed amount left, or one that does not tell.
#[derive(Debug, Default)]
struct Host(Mutex<Option<HostReading>>);

impl Host {
    fn has(bytes: u64) -> Arc<Host> {
        Arc::new(Host(Mutex::new(Some(HostReading { ram_bytes: bytes, commit_bytes: bytes }))))
    }

    fn now_has(&self, reading: Option<HostReading>) {
        *self.0.lock().expect("no test panics here") = reading;
    }
}

impl HostReadings for Host {
    fn read(&self) -> Option<HostReading> {
        *self.0.lock().expect("no test panics here")
    }
}

pub(crate) struct Bench {
    pub(crate) mosaic: Mosaic,
    pub(crate) path: PathBuf,
    budget: Arc<HostBudget>,
    ledger: Arc<Ledger>,
    _folder: Scratch,
}

impl Bench {
    pub(crate) fn new(name: &str, registration_limit_bytes: Option<u64>) -> Bench {
        let (folder, mosaic) = (scratch(name), mosaic());
        let path = mosaic.checkpoint(folder.path());
        let options = HostOptions {
            mode: HostMode::Stepped,
            page_bytes: PAGE,
            link_bytes_per_second: Some(1_000_000_000),
            registration_limit_bytes,
            ..HostOptions::default()
        };
        let ledger = Ledger::new(options, 5 * WINDOW);
        Bench { mosaic, path, budget: Arc::default(), ledger, _folder: folder }
    }

    /// A ceiling of two tensors: everything is streamed.
    pub(crate) fn config(&self, source: SourceChoice, host: HostMemorySettings) -> OffloadConfig {
        OffloadConfig {
            ceiling: Ceiling::Bytes(WINDOW),
            source,
            residency: ResidencyMode::Parts,
            launches: LaunchScope::Parts,
            part_bytes: 1,
            host,
            host_budget: Arc::clone(&self.budget),
            host_readings: Host::has(1 << 40),
            ..OffloadConfig::new(Arc::<Ledger>::clone(&self.ledger))
        }
    }

    pub(crate) fn attach(&self, source: SourceChoice, host: HostMemorySettings) -> ddo_recorder::Result<Offload> {
        enable_offload(component_of(&self.path), self.config(source, host))
    }

    pub(crate) fn pass(&self, offload: &Offload) -> ddo_recorder::Result<()> {
        let state = Arc::new(Mutex::new(1));
        for unit in 0..self.mosaic.sizes.len() {
            self.mosaic.submit(offload, unit, &state, Duration::from_nanos(5000), LaunchScope::Parts)?;
        }
        offload.mark_step()?;
        offload.wait_stream(offload.compute_stream())?;
        let order: Vec<usize> = (0..self.mosaic.sizes.len()).collect();
        assert_eq!(*state.lock().expect("jobs do not panic"), self.mosaic.reference(&order), "the same bits");
        assert_eq!(offload.audit(), Vec::<String>::new());
        Ok(())
    }

    pub(crate) fn close(&self, offload: &Offload) {
        let closed = offload.close(Duration::from_secs(1)).expect("closes");
        assert_eq!(closed.errors, Vec::<String>::new());
        self.ledger.seen().assert_balanced();
        assert_eq!(self.budget.totals(), HostTotals::default());
    }
}

/// Two slots of two pages.
pub(crate) fn ring() -> HostMemorySettings {
    HostMemorySettings { staging_bytes: 4 * PAGE, staging_slot_bytes: 2 * PAGE, readers: 2, ..HostMemorySettings::default() }
}

pub(crate) fn retained(windows: u64, registered: u64) -> HostMemorySettings {
    HostMemorySettings { retained_slot_bytes: WINDOW, retained_slots: windows, registered_bytes: registered * WINDOW, ..ring() }
}

fn vmm(offload: &Offload) -> Vmm {
    offload.wait_idle().expect("idle");
    let options = SnapshotOptions { collect_completed: true, ..SnapshotOptions::default() };
    offload.metrics_snapshot(options).expect("a report").runtime.vmm.expect("attached")
}

/// Bytes of all weights, every one of which each pass uploads, but for what was uploaded ahead for the next.
fn model() -> u64 {
    mosaic().total_bytes()
}

#[test]
fn the_ring_reads_every_upload_and_counts_it() {
    let bench = Bench::new("sources-ring", None);
    let offload = bench.attach(SourceChoice::Ring, ring()).expect("attached");
    let first = vmm(&offload);
    assert_eq!(first.ring.fast_native_transport_read_bytes, Some(0), "nothing is read before it is asked for");
    assert_eq!(
        (first.ring.fast_native_transport_source_workers, first.ring.fast_native_transport_slot_waits),
        (Some(2), Some(0))
    );
    (0..3).for_each(|_| bench.pass(&offload).expect("a pass"));
    let report = vmm(&offload);
    let copied = bench.ledger.seen().copied_bytes;
    assert!(copied >= 3 * model());
    assert_eq!(report.ring.fast_native_transport_read_bytes, Some(copied), "everything passes through the ring");
    let chunks = copied / (2 * PAGE);
    let read = report.ring.fast_native_transport_source_read_bytes.expect("read");
    assert!((copied..=copied + 4 * PAGE).contains(&read), "{read} bytes read, at most a ring more than {copied}");
    assert_eq!(report.tickets.fast_transfer_copies, Some(chunks), "one copy a chunk");
    assert!(report.ring.fast_native_transport_slot_waits.expect("counted") > 0, "two slots of 8 KiB are soon full");
    assert_eq!(report.ring.fast_native_transport_source_read_failures, Some(0));
    assert_eq!(report.sources.fast_mapped_source_dma_bytes, None);
    assert_eq!(report.source_cache.fast_source_cache_hits, None, "nothing is kept");
    assert!(report.transport.fast_native_transport_source_prepare_calls.expect("counted") > 0);
    bench.close(&offload);
}

#[test]
fn a_cpu_source_and_a_mapped_one_have_no_ring() {
    let bench = Bench::new("sources-none", None);
    for source in [SourceChoice::Cpu, SourceChoice::Mapped] {
        let offload = bench.attach(source, ring()).expect("attached");
        bench.pass(&offload).expect("a pass");
        let report = vmm(&offload);
        assert_eq!(
            (report.ring.fast_native_transport_read_bytes, report.bridge.fast_source_cache_batch_bridge_submit_total_calls),
            (None, None)
        );
        bench.close(&offload);
    }
}

#[test]
fn retained_storage_reads_the_file_once_and_uploads_straight_out_of_it() {
    let bench = Bench::new("sources-retained", None);
    let offload = bench.attach(SourceChoice::Retained, retained(5, 0)).expect("attached");
    (0..3).for_each(|_| bench.pass(&offload).expect("a pass"));
    let report = vmm(&offload);
    let (cache, length) = (&report.source_cache, std::fs::metadata(&bench.path).expect("the file").len());
    let copied = bench.ledger.seen().copied_bytes;
    assert_eq!(cache.fast_source_cache_source_read_bytes, Some(length), "each window once, cut at the end of the file");
    assert_eq!((cache.fast_source_cache_misses, cache.fast_source_cache_bypasses), (Some(5), Some(0)));
    assert_eq!((cache.fast_source_cache_dma_bytes, cache.fast_source_cache_ring_fallback_bytes), (Some(copied), Some(0)));
    assert_eq!(
        (cache.fast_source_cache_committed_bytes, cache.fast_source_cache_retained_bytes),
        (Some(5 * WINDOW), Some(length))
    );
    assert_eq!((cache.fast_source_cache_registrations, cache.fast_source_cache_registered_bytes), (Some(5), Some(5 * WINDOW)));
    assert_eq!(cache.fast_source_cache_host_copy_bytes, Some(0));
    let events = &report.source_events;
    let (created, reused) = (events.fast_source_cache_events_created, events.fast_source_cache_events_reused);
    assert_eq!(created.zip(reused).map(|(a, b)| a + b), report.tickets.fast_transfer_copies, "an event a direct copy");
    assert!(events.fast_source_cache_pooled_events > Some(0));
    assert_eq!(events.fast_source_cache_source_dispatcher_window_limit, Some(2), "two readers");
    assert!((1..=2).contains(&events.fast_source_cache_source_dispatcher_peak_windows.expect("counted")));
    assert_eq!(events.fast_source_cache_source_dispatcher_owned_windows, Some(0), "drained");
    let (bridge, transport) = (&report.bridge, &report.transport);
    let calls = transport.fast_native_transport_batch_transport_submit_calls;
    for same in [
        bridge.fast_source_cache_batch_bridge_submit_total_calls,
        bridge.fast_source_cache_batch_bridge_submit_prepare_calls,
        bridge.fast_source_cache_batch_bridge_submit_ffi_calls,
        bridge.fast_source_cache_batch_bridge_submit_result_calls,
        cache.fast_source_cache_batch_submissions,
    ] {
        assert_eq!(same, calls);
    }
    assert_eq!(bridge.fast_source_cache_batch_bridge_create_ffi_calls, Some(8), "one a part");
    bench.close(&offload);
}

#[test]
fn a_batch_owns_the_event_behind_its_submission_until_the_end_is_proven() {
    let bench = Bench::new("sources-events", None);
    let offload = bench.attach(SourceChoice::Retained, retained(5, 0)).expect("attached");
    let events = || {
        let vmm = offload.metrics_snapshot(SnapshotOptions::default()).expect("a report").runtime.vmm.expect("attached");
        vmm.source_events.fast_source_cache_batch_completion_events
    };
    assert_eq!(events(), Some(0));
    let guard = offload.unit(bench.mosaic.id(&offload, 0)).expect("a unit");
    for submitted in 1..=2 {
        guard.view(&bench.mosaic.name(submitted - 1)).expect("on its way");
        assert_eq!(events(), Some(submitted as u64), "on virtual time nothing ends unless somebody waits");
    }
    drop(guard);
    (0..2).for_each(|_| bench.pass(&offload).expect("a pass"));
    assert!(events() > Some(0), "what is ahead of the next pass");
    offload.wait_idle().expect("idle");
    offload.collect().expect("collected");
    assert_eq!(events(), Some(0));
    bench.pass(&offload).expect("a pass");
    bench.close(&offload);
    assert_eq!(events(), Some(0), "after close");
}

/// C16 and the stable subset: what may not be registered goes through the ring, out of contents that are not read again.
#[test]
fn what_is_not_registered_passes_through_the_ring_without_another_read() {
    let by_ceiling = Bench::new("sources-subset", None);
    let limit = 4 * PAGE + 2 * WINDOW;
    let by_device = Bench::new("sources-device", Some(limit));
    for (bench, host) in [(&by_ceiling, retained(5, 2)), (&by_device, retained(5, 0))] {
        let offload = bench.attach(SourceChoice::Retained, host).expect("attached");
        (0..4).for_each(|_| bench.pass(&offload).expect("a pass"));
        let report = vmm(&offload);
        let (cache, copied) = (&report.source_cache, bench.ledger.seen().copied_bytes);
        assert_eq!((cache.fast_source_cache_registrations, cache.fast_source_cache_unregistrations), (Some(2), Some(0)));
        assert_eq!((cache.fast_source_cache_registered_bytes, cache.fast_source_cache_misses), (Some(2 * WINDOW), Some(5)));
        let length = std::fs::metadata(&bench.path).expect("the file").len();
        assert_eq!(cache.fast_source_cache_source_read_bytes, Some(length), "no reread");
        assert_eq!(cache.fast_source_cache_dma_bytes, Some(copied));
        let fallback = cache.fast_source_cache_ring_fallback_bytes.expect("counted");
        assert!(fallback > copied / 4 && fallback < copied, "{fallback} of {copied}");
        let host_copied = cache.fast_source_cache_host_copy_bytes.expect("counted");
        assert!((fallback..=fallback + 4 * PAGE).contains(&host_copied), "at most a ring more than {fallback}: {host_copied}");
        assert_eq!(report.ring.fast_native_transport_read_bytes, Some(0), "the ring read no file");
        assert_eq!(bench.ledger.seen().peak_registered_bytes, limit);
        bench.close(&offload);
    }
}

/// The same for a file that is mapped and registered in place: below a ceiling the rest is read through the ring.
#[test]
fn a_mapped_file_is_registered_up_to_a_ceiling_and_the_rest_passes_through_the_ring() {
    const SEGMENT: u64 = 64 << 20;
    let (folder, mosaic) = (scratch("sources-mapped"), Mosaic::even(3, 1, 3 * SEGMENT / 4));
    let path = mosaic.checkpoint(folder.path());
    let ledger = Ledger::new(HostOptions { page_bytes: PAGE, ..HostOptions::default() }, 2 * SEGMENT);
    let budget = Arc::new(HostBudget::default());
    let config = |registered_bytes, process_limit_bytes| OffloadConfig {
        ceiling: Ceiling::Bytes(SEGMENT),
        source: SourceChoice::Mapped,
        residency: ResidencyMode::Parts,
        launches: LaunchScope::Parts,
        host: HostMemorySettings {
            registered_bytes,
            process_limit_bytes,
            staging_bytes: 4 << 20,
            ..HostMemorySettings::default()
        },
        host_budget: Arc::clone(&budget),
        ..OffloadConfig::new(Arc::<Ledger>::clone(&ledger))
    };
    let uneven = enable_offload(component_of(&path), config(SEGMENT + 1, u64::MAX)).map(|_| ()).expect_err("no whole segment");
    assert_eq!(uneven.code(), "registered_not_whole");
    let offload = enable_offload(component_of(&path), config(SEGMENT, u64::MAX)).expect("attached");
    assert_eq!(ledger.seen().registered_bytes, SEGMENT + (4 << 20), "one of three segments, and the ring");
    assert_eq!((budget.totals().registered_bytes, budget.totals().staging_bytes), (SEGMENT, 4 << 20));
    let state = Arc::new(Mutex::new(1));
    for unit in 0..3 {
        mosaic.submit(&offload, unit, &state, Duration::ZERO, LaunchScope::Parts).expect("submitted");
    }
    offload.mark_step().expect("a step");
    offload.wait_stream(offload.compute_stream()).expect("done");
    assert_eq!(*state.lock().expect("jobs do not panic"), mosaic.reference(&[0, 1, 2]), "the same bits");
    let report = vmm(&offload);
    let (direct, ringed) = (report.sources.fast_mapped_source_dma_bytes, report.ring.fast_native_transport_read_bytes);
    assert_eq!(direct.zip(ringed).map(|(a, b)| a + b), Some(ledger.seen().copied_bytes));
    assert!(direct > Some(0) && ringed > Some(0), "{direct:?} {ringed:?}");
    assert_eq!(report.sources.fast_mapped_source_registered_bytes, Some(SEGMENT));
    assert_eq!(offload.close(Duration::from_secs(5)).expect("closes").errors, Vec::<String>::new());
    ledger.seen().assert_balanced();
    // Without a ceiling of its own, the limit of the process ends registration; the rest is copied unregistered.
    let offload = enable_offload(component_of(&path), config(0, 2 * SEGMENT)).expect("attached");
    assert_eq!(budget.totals().registered_bytes, 2 * SEGMENT);
    assert_eq!(offload.close(Duration::from_secs(5)).expect("closes").errors, Vec::<String>::new());
    assert_eq!(budget.totals(), HostTotals::default());
}

#[test]
fn recycling_moves_one_registration_around_and_reads_nothing_again() {
    let bench = Bench::new("sources-recycle", None);
    let host = HostMemorySettings { registration: RegistrationPolicy::Recycle, ..retained(5, 1) };
    let offload = bench.attach(SourceChoice::Retained, host).expect("attached");
    (0..3).for_each(|_| bench.pass(&offload).expect("a pass"));
    let report = vmm(&offload);
    let cache = &report.source_cache;
    let length = std::fs::metadata(&bench.path).expect("the file").len();
    assert_eq!((cache.fast_source_cache_source_read_bytes, cache.fast_source_cache_misses), (Some(length), Some(5)));
    let (registrations, ended) = (cache.fast_source_cache_registrations, cache.fast_source_cache_unregistrations);
    assert!(registrations > Some(10), "{registrations:?}: five windows in each of three passes");
    assert_eq!(registrations, ended.map(|ended| ended + 1), "one is left");
    assert!(cache.fast_source_cache_registration_waits > Some(0), "a copy has to end first");
    assert_eq!(cache.fast_source_cache_ring_fallback_bytes, Some(0));
    assert_eq!(bench.ledger.seen().peak_registered_bytes, 4 * PAGE + WINDOW);
    bench.close(&offload);
}

/// C17: what is committed are whole segments, however little of one is filled; ceilings count those.
#[test]
fn ceilings_count_whole_segments_not_payload() {
    let bench = Bench::new("sources-committed", None);
    let offload = bench.attach(SourceChoice::Retained, retained(3, 0)).expect("attached");
    (0..2).for_each(|_| bench.pass(&offload).expect("a pass"));
    let report = vmm(&offload);
    let cache = &report.source_cache;
    assert_eq!(
        (cache.fast_source_cache_capacity_bytes, cache.fast_source_cache_committed_bytes),
        (Some(3 * WINDOW), Some(3 * WINDOW))
    );
    assert!(cache.fast_source_cache_retained_bytes < Some(3 * WINDOW), "the last window ends with the file");
    assert_eq!(cache.fast_source_cache_misses, Some(3));
    assert!(cache.fast_source_cache_bypasses > Some(0));
    let bypassed = cache.fast_source_cache_batch_bypass_bytes.expect("counted");
    assert_eq!(report.ring.fast_native_transport_read_bytes, Some(bypassed), "what is not kept is read for each upload");
    let copied = bench.ledger.seen().copied_bytes;
    assert_eq!(cache.fast_source_cache_dma_bytes.map(|kept| kept + bypassed), Some(copied));
    bench.close(&offload);
}

#[test]
fn two_components_share_the_limit_of_the_process() {
    let bench = Bench::new("sources-process", None);
    let staging = 4 * PAGE;
    let limit = |bytes: u64| HostMemorySettings { process_limit_bytes: bytes, ..retained(5, 0) };
    let first = bench.attach(SourceChoice::Retained, limit(2 * staging + 5 * WINDOW)).expect("attached");
    let second = bench.attach(SourceChoice::Retained, limit(2 * staging + 5 * WINDOW)).expect("attached");
    assert_eq!(bench.budget.totals().staging_bytes, 2 * staging);
    // A third ring at the limit is admitted, one byte less of a limit refuses it before anything is taken.
    let before = bench.ledger.seen().calls.clone();
    let error =
        bench.attach(SourceChoice::Ring, HostMemorySettings { process_limit_bytes: 3 * staging - 1, ..ring() }).map(|_| ());
    let Err(ddo_recorder::Error::Refused(refusal)) = error else { panic!("{error:?}") };
    assert_eq!((refusal.code, refusal.got, refusal.limit), ("process_registered_limit", 3 * staging, 3 * staging - 1));
    let after = bench.ledger.seen().calls;
    let registers = |calls: &std::collections::BTreeMap<&str, u64>| calls.get("host_register").copied();
    assert_eq!((registers(&before), bench.budget.totals().staging_bytes), (registers(&after), 2 * staging));
    let third =
        bench.attach(SourceChoice::Ring, HostMemorySettings { process_limit_bytes: 3 * staging, ..ring() }).expect("at it");
    assert!(third.close(Duration::from_secs(1)).expect("closes").errors.is_empty());
    (0..2).for_each(|_| bench.pass(&first).expect("a pass"));
    (0..2).for_each(|_| bench.pass(&second).expect("a pass"));
    let (one, two) = (vmm(&first).source_cache, vmm(&second).source_cache);
    assert_eq!((one.fast_source_cache_registered_bytes, two.fast_source_cache_registered_bytes), (Some(5 * WINDOW), Some(0)));
    assert_eq!(two.fast_source_cache_process_registered_bytes, Some(5 * WINDOW));
    assert_eq!(two.fast_source_cache_process_committed_bytes, Some(10 * WINDOW));
    assert_eq!(two.fast_source_cache_process_staging_registered_bytes, Some(2 * staging));
    assert!(two.fast_source_cache_ring_fallback_bytes > Some(0));
    assert!(first.close(Duration::from_secs(1)).expect("closes").errors.is_empty());
    (0..2).for_each(|_| bench.pass(&second).expect("a pass"));
    bench.close(&second);
}

#[test]
fn pressure_stops_growth_gives_back_what_nobody_uses_and_is_recorded() {
    let bench = Bench::new("sources-pressure", None);
    let host = Host::has(1 << 40);
    let settings = HostMemorySettings { headroom_bytes: 10 * WINDOW, ..retained(5, 0) };
    let config = OffloadConfig { host_readings: Arc::<Host>::clone(&host), ..bench.config(SourceChoice::Retained, settings) };
    let offload = enable_offload(component_of(&bench.path), config).expect("attached");
    // Room for three windows: the fourth finds too little.
    let left = |windows: u64| Some(HostReading { ram_bytes: windows * WINDOW, commit_bytes: 1 << 40 });
    bench.pass(&offload).expect("a pass");
    let full = vmm(&offload);
    assert_eq!(full.source_cache.fast_source_cache_committed_bytes, Some(5 * WINDOW));
    assert_eq!(full.pressure.fast_source_cache_pressure_observation_entries, Some(0));
    assert_eq!(full.pressure.fast_source_cache_pressure_observation_valid_observations, Some(5));
    offload.close(Duration::from_secs(1)).expect("closes");

    host.now_has(left(9));
    let config = OffloadConfig { host_readings: Arc::<Host>::clone(&host), ..bench.config(SourceChoice::Retained, settings) };
    let offload = enable_offload(component_of(&bench.path), config).expect("attached");
    (0..2).for_each(|_| bench.pass(&offload).expect("a pass without storage"));
    let starved = vmm(&offload);
    let seen = &starved.pressure;
    assert_eq!(
        (starved.source_cache.fast_source_cache_misses, starved.source_cache.fast_source_cache_committed_bytes),
        (Some(0), Some(0))
    );
    assert_eq!(
        (seen.fast_source_cache_pressure_observation_entries, seen.fast_source_cache_pressure_observation_last_reason),
        (Some(1), Some(1))
    );
    assert_eq!(seen.fast_source_cache_pressure_observation_last_entry_ram_bytes, Some(9 * WINDOW));
    assert_eq!(starved.source_cache.fast_source_cache_pressure_suspended, Some(1));
    assert!(starved.source_cache.fast_source_cache_pressure_blocked_requests > Some(0));
    // Between the thresholds growth stays suspended; above the higher one it resumes.
    host.now_has(left(12));
    bench.pass(&offload).expect("a pass");
    assert_eq!(vmm(&offload).pressure.fast_source_cache_pressure_observation_recoveries, Some(0));
    host.now_has(left(14));
    (0..2).for_each(|_| bench.pass(&offload).expect("a pass"));
    let recovered = vmm(&offload);
    assert_eq!(recovered.pressure.fast_source_cache_pressure_observation_recoveries, Some(1));
    assert_eq!(recovered.source_cache.fast_source_cache_pressure_suspended, Some(0));
    assert!(recovered.source_cache.fast_source_cache_misses > Some(0));
    bench.close(&offload);
}

#[test]
fn bad_settings_are_refused_with_got_and_limit_before_anything_is_taken() {
    let bench = Bench::new("sources-refused", None);
    let refused = |source, change: &dyn Fn(&mut HostMemorySettings)| {
        let mut host = ring();
        change(&mut host);
        bench.attach(source, host).map(|_| ()).expect_err("refused").code()
    };
    let kept = SourceChoice::Retained;
    assert_eq!(refused(kept, &|_| {}), "retained_without_ceiling");
    assert_eq!(refused(kept, &|host| host.retained_slot_bytes = WINDOW), "retained_slots_incomplete");
    assert_eq!(refused(kept, &|host| host.retained_slots = 1), "retained_slots_incomplete");
    assert_eq!(refused(kept, &|host| (host.retained_bytes, host.registered_bytes) = (1 << 30, 1 << 20)), "registered_not_whole");
    assert_eq!(
        refused(kept, &|host| (host.retained_bytes, host.registered_bytes) = (1 << 30, 2 << 30)),
        "registered_above_retained"
    );
    assert_eq!(refused(SourceChoice::Ring, &|host| host.registered_bytes = WINDOW), "registered_without_retained");
    assert_eq!(refused(SourceChoice::Ring, &|host| host.staging_bytes = 0), "staging_too_small");
    assert_eq!(refused(SourceChoice::Ring, &|host| host.retained_bytes = 1), "invalid");
    assert_eq!(refused(SourceChoice::Mapped, &|host| host.retained_bytes = 1), "invalid");
    assert_eq!(bench.ledger.seen().calls.len(), 0, "no driver call was made");
    let in_memory = enable_offload(mosaic().component(), bench.config(SourceChoice::Ring, ring()));
    assert_eq!(in_memory.map(|_| ()).expect_err("no file").code(), "unsupported");
    let auto = bench.attach(SourceChoice::Auto, retained(2, 0)).expect("attached");
    assert!(vmm(&auto).source_cache.fast_source_cache_capacity_bytes.is_some(), "a retained ceiling selects its source");
    bench.close(&auto);
}

#[test]
fn a_ring_that_cannot_be_registered_leaves_nothing_behind() {
    let bench = Bench::new("sources-no-ring", Some(3 * PAGE));
    let error = bench.attach(SourceChoice::Ring, ring()).map(|_| ()).expect_err("two slots need four pages");
    assert_eq!(error.code(), "driver_out_of_memory");
    bench.ledger.seen().assert_balanced();
    assert_eq!(bench.budget.totals(), HostTotals::default());
}

#[test]
fn changed_shortened_and_vanished_files_are_typed_and_nothing_stays_half_owned() {
    type Harm = fn(&std::path::Path);
    let shorten: Harm = |path| {
        let file = std::fs::OpenOptions::new().write(true).open(path).expect("there");
        file.set_len(file.metadata().expect("there").len() - 1000).expect("shortened");
    };
    let rewrite: Harm = |path| {
        let file = std::fs::OpenOptions::new().write(true).open(path).expect("there");
        let times = std::fs::FileTimes::new().set_modified(std::time::SystemTime::UNIX_EPOCH);
        file.set_times(times).expect("another time");
    };
    let remove: Harm = |path| std::fs::remove_file(path).expect("removed");
    let replace: Harm = |path| {
        let other = path.with_extension("other");
        std::fs::copy(path, &other).expect("copied");
        std::fs::rename(other, path).expect("replaced");
    };
    for (name, harm, code) in [
        ("shorten", shorten, "source_changed"),
        ("rewrite", rewrite, "source_changed"),
        ("remove", remove, "source_vanished"),
        ("replace", replace, "source_vanished"),
    ] {
        for (source, host) in [(SourceChoice::Ring, ring()), (SourceChoice::Retained, retained(2, 1))] {
            let bench = Bench::new(&format!("sources-{name}"), None);
            let offload = bench.attach(source, host).expect("attached");
            let guard = offload.unit(bench.mosaic.id(&offload, 0)).expect("a unit");
            guard.view(&bench.mosaic.name(0)).expect("read");
            drop(guard);
            harm(&bench.path);
            let error = bench.pass(&offload).expect_err(name);
            assert_eq!(error.code(), code, "{name}: {error}");
            assert_eq!(offload.audit(), Vec::<String>::new());
            let closed = offload.close(Duration::from_secs(1)).expect("closes");
            assert_eq!(closed.quarantined_bytes, 0);
            bench.ledger.seen().assert_balanced();
            assert_eq!(bench.budget.totals(), HostTotals::default());
        }
    }
}

#[test]
fn a_wrong_guess_of_the_first_pass_costs_reads_not_bits() {
    let bench = Bench::new("sources-guess", None);
    let host = HostMemorySettings { staging_bytes: 64 * PAGE, ..ring() };
    let offload = bench.attach(SourceChoice::Ring, host).expect("attached");
    let state = Arc::new(Mutex::new(1));
    let order = [3, 1, 2, 0];
    for unit in order {
        bench.mosaic.submit(&offload, unit, &state, Duration::ZERO, LaunchScope::Parts).expect("submitted");
    }
    offload.mark_step().expect("a step");
    offload.wait_stream(offload.compute_stream()).expect("done");
    assert_eq!(*state.lock().expect("jobs do not panic"), bench.mosaic.reference(&order));
    let report = vmm(&offload);
    let asked = report.ring.fast_native_transport_read_bytes.expect("counted");
    assert_eq!(asked, bench.ledger.seen().copied_bytes);
    assert!(
        report.ring.fast_native_transport_source_read_bytes.expect("counted") >= asked,
        "what was guessed wrong comes on top"
    );
    bench.close(&offload);
}
