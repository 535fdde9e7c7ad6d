//! The k-th driver call fails, for every k: nothing is freed twice, nothing is lost, what cannot be proven free is
//! reported.

use crate::support::ledger::Ledger;
use crate::support::mosaic::Mosaic;
use crate::support::rooted::Rooted;
use crate::support::{scratch, tiny};
use ddo_recorder::driver::{Driver, Faulty, HostMode, Script};
use ddo_recorder::memory::{Arena, ArenaRules, DEVICE_MEMORY, MappingBook};
use ddo_recorder::{
    Admission, Ceiling, Component, DriverErrorKind, HostBudget, HostDriver, HostOptions, JobError, LaunchScope, MakeViews,
    Offload, OffloadConfig, RegistrationPolicy, RegistrationTiming, ResidencyMode, SnapshotOptions, SourceChoice, TimerOptions,
    View, enable_offload,
};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PAGE: u64 = 4096;

fn host() -> Arc<HostDriver> {
    let options =
        HostOptions { mode: HostMode::Stepped, page_bytes: PAGE, link_bytes_per_second: Some(1 << 30), ..HostOptions::default() };
    HostDriver::new(options).expect("a host driver")
}

/// What one life with a failing call came to.
struct Outcome {
    calls: u64,
    attached: bool,
    errors: u64,
    quarantined_bytes: u64,
}

/// Submits a unit's work on a state, of some length.
type Submit<'a> = dyn Fn(&Offload, u64, &Arc<Mutex<u64>>, Duration) -> ddo_recorder::Result<()> + 'a;

/// Whose life it is.
struct Subject<'a> {
    component: &'a dyn Fn() -> Component,
    submit: &'a Submit<'a>,
    /// What a pass over units 0 to 3 gives.
    right: u64,
    ceiling: u64,
    residency: ResidencyMode,
    launches: LaunchScope,
    /// What else is set.
    settings: &'a dyn Fn(&mut OffloadConfig),
}

/// Whole units of one tensor.
fn classic(component: &dyn Fn() -> Component) -> Subject<'_> {
    Subject {
        component,
        submit: &tiny::submit,
        right: tiny::reference(&[0, 1, 2, 3]),
        ceiling: 3 * PAGE,
        residency: ResidencyMode::Classic,
        launches: LaunchScope::Units,
        settings: &|_| {},
    }
}

/// Attach, three passes, snapshot, collect, close - whatever fails on the way.
fn life_below(subject: &Subject<'_>, most: u64, diagnostics: bool, script: Script) -> Outcome {
    let gives_back = !script.and_all_later;
    let faulty = Faulty::new(host(), script);
    let ledger = Ledger::over(Arc::<Faulty>::clone(&faulty), most);
    let (ceiling, residency, launches) = (Ceiling::Bytes(subject.ceiling), subject.residency, subject.launches);
    let config = OffloadConfig::new(Arc::<Ledger>::clone(&ledger));
    let mut config = OffloadConfig { ceiling, residency, launches, part_bytes: 1, measure: diagnostics, ..config };
    (subject.settings)(&mut config);
    let Ok(offload) = enable_offload((subject.component)(), config) else {
        if gives_back {
            ledger.seen().assert_balanced();
        }
        return Outcome { calls: faulty.calls(), attached: false, errors: 1, quarantined_bytes: 0 };
    };
    let mut errors = 0;
    let options =
        TimerOptions { enabled: diagnostics, native_units: diagnostics, native_capacity: 16, ..TimerOptions::default() };
    let timer = offload.execution_timer(options).inspect_err(|_| errors += 1).ok();
    let order = [0, 1, 2, 3];
    for _ in 0..3 {
        let state = Arc::new(Mutex::new(1));
        let submitted = order.iter().all(|unit| {
            let outcome = (subject.submit)(&offload, *unit, &state, Duration::from_nanos(500));
            outcome.inspect_err(|error| assert!(!error.code().is_empty())).is_ok()
        });
        let stepped = offload.mark_step().and_then(|()| offload.wait_stream(offload.compute_stream()));
        errors += u64::from(!submitted) + u64::from(stepped.is_err());
        if submitted && stepped.is_ok() {
            assert_eq!(*state.lock().expect("jobs do not panic"), subject.right, "a pass that says it is right is right");
        }
        assert_eq!(offload.audit(), Vec::<String>::new(), "conservation");
    }
    let timing = timer.and_then(|timer| timer.finish().inspect_err(|_| errors += 1).ok());
    errors += u64::from(offload.wait_idle().is_err());
    let snapshot = SnapshotOptions { collect_completed: true, timing: timing.as_ref(), ..SnapshotOptions::default() };
    match offload.metrics_snapshot(snapshot) {
        Ok(report) => {
            let timeline = report.runtime.native_timeline;
            errors += timeline.map_or(0, |timeline| u64::from(timeline.event_cleanup.as_deref() != Some("released")));
        }
        Err(_) => errors += 1,
    }
    errors += u64::from(offload.collect().is_err());
    drop(timing);
    let report = offload.close(Duration::from_secs(1)).expect("closing reports, it does not fail");
    let seen = ledger.seen();
    assert_eq!(seen.created_bytes(), report.quarantined_bytes, "memory that is left is memory that is reported: {report:?}");
    errors += report.errors.len() as u64;
    if errors == 0 {
        seen.assert_balanced();
    }
    Outcome { calls: faulty.calls(), attached: true, errors, quarantined_bytes: report.quarantined_bytes }
}

fn every_call_fails_once(subject: &Subject<'_>, diagnostics: bool) {
    every_call_fails_once_below(subject, subject.ceiling, diagnostics);
}

/// The same with another bound on all mapped memory.
fn every_call_fails_once_below(subject: &Subject<'_>, most: u64, diagnostics: bool) {
    let life = |subject: &Subject<'_>, diagnostics, script| life_below(subject, most, diagnostics, script);
    let clean = life(subject, diagnostics, Script::default());
    assert_eq!((clean.errors, clean.quarantined_bytes), (0, 0));
    assert!(clean.calls > 60, "{} calls", clean.calls);
    let (mut refused_to_attach, mut quarantined, mut survived) = (0, 0, 0);
    for k in 1..=clean.calls {
        for kind in [DriverErrorKind::OutOfMemory, DriverErrorKind::Other(999)] {
            for and_all_later in [false, true] {
                let outcome =
                    life(subject, diagnostics, Script { fail_call: Some((k, kind)), and_all_later, ..Script::default() });
                refused_to_attach += u64::from(!outcome.attached);
                quarantined += u64::from(outcome.quarantined_bytes > 0);
                survived += u64::from(outcome.attached && outcome.quarantined_bytes == 0);
            }
        }
    }
    assert!(refused_to_attach > 0 && quarantined > 0 && survived > 0, "{refused_to_attach} {quarantined} {survived}");
}

#[test]
fn every_call_fails_once_with_all_diagnostics_off() {
    every_call_fails_once(&classic(&|| tiny::component(4)), false);
}

#[test]
fn every_call_fails_once_with_timer_and_timeline_on() {
    every_call_fails_once(&classic(&|| tiny::component(4)), true);
}

#[test]
fn every_call_fails_once_with_a_mapped_and_registered_source() {
    let folder = scratch("faults");
    let path = tiny::checkpoint(folder.path(), 4);
    every_call_fails_once(&classic(&|| tiny::component_of(&path)), false);
}

fn parts_fail_once(launches: LaunchScope, ceiling: u64, diagnostics: bool) {
    let mosaic = Mosaic { sizes: vec![vec![4096, 700], vec![5000], vec![512, 3000], vec![4096]] };
    let submit = |offload: &Offload, unit: u64, state: &Arc<Mutex<u64>>, lasting| {
        mosaic.submit(offload, unit as usize, state, lasting, launches)
    };
    let subject = Subject {
        component: &|| mosaic.component(),
        submit: &submit,
        right: mosaic.reference(&[0, 1, 2, 3]),
        ceiling,
        residency: ResidencyMode::Parts,
        launches,
        settings: &|_| {},
    };
    every_call_fails_once(&subject, diagnostics);
}

#[test]
fn every_call_fails_once_with_parts_one_after_the_other() {
    parts_fail_once(LaunchScope::Parts, 3 * PAGE, false);
    parts_fail_once(LaunchScope::Parts, 4 * PAGE, true);
}

#[test]
fn every_call_fails_once_with_parts_of_whole_units() {
    parts_fail_once(LaunchScope::Units, 3 * PAGE, false);
    parts_fail_once(LaunchScope::Units, 4 * PAGE, true);
}

/// A host whose tensors need nothing.
#[derive(Debug)]
struct Willing;

impl MakeViews for Willing {
    fn make(&self, _unit: &str, _name: &str, _view: &View) -> Result<(), JobError> {
        Ok(())
    }
}

/// Whatever fails while views are made and the root is uploaded, or later, while every work reads the root.
#[test]
fn every_call_fails_once_with_a_root_that_lives_as_long_as_the_component_and_prepared_views() {
    let rooted = Rooted {
        mosaic: Mosaic { sizes: vec![vec![4096, 700], vec![5000], vec![512, 3000], vec![4096]] },
        root: vec![3000, 2000],
    };
    let submit =
        |offload: &Offload, unit: u64, state: &Arc<Mutex<u64>>, lasting| rooted.submit(offload, unit as usize, state, lasting);
    let subject = Subject {
        component: &|| rooted.component(),
        submit: &submit,
        right: rooted.reference(&[0, 1, 2, 3]),
        ceiling: 8 * PAGE,
        residency: ResidencyMode::Classic,
        launches: LaunchScope::Units,
        settings: &|config| {
            config.lifetime_limit_bytes = 5000;
            config.prepare_views = Some(Arc::new(Willing));
        },
    };
    every_call_fails_once(&subject, false);
}

/// A file of 120,300 bytes of weights, read through two slots of a page, and perhaps kept in up to three windows.
fn streamed_fail_once(settings: &dyn Fn(&mut OffloadConfig), diagnostics: bool) {
    let mosaic = Mosaic { sizes: vec![vec![40_000, 700], vec![30_000], vec![12_288, 17_312], vec![20_000]] };
    let folder = scratch("faults-streamed");
    let path = mosaic.checkpoint(folder.path());
    let submit = |offload: &Offload, unit: u64, state: &Arc<Mutex<u64>>, lasting| {
        mosaic.submit(offload, unit as usize, state, lasting, LaunchScope::Parts)
    };
    let subject = Subject {
        component: &|| tiny::component_of(&path),
        submit: &submit,
        right: mosaic.reference(&[0, 1, 2, 3]),
        ceiling: 20 * PAGE,
        residency: ResidencyMode::Parts,
        launches: LaunchScope::Parts,
        settings,
    };
    every_call_fails_once(&subject, diagnostics);
}

/// The host registers a piece of the mapped file before each unit; until then it is read through the ring.
#[test]
fn every_call_fails_once_with_a_mapped_source_that_is_registered_beside_passes() {
    let mosaic = Mosaic { sizes: vec![vec![40_000, 700], vec![30_000], vec![12_288, 17_312], vec![20_000]] };
    let folder = scratch("faults-beside");
    let path = mosaic.shards(folder.path(), 4);
    let submit = |offload: &Offload, unit: u64, state: &Arc<Mutex<u64>>, lasting| {
        offload.register_next();
        mosaic.submit(offload, unit as usize, state, lasting, LaunchScope::Parts)
    };
    let settings = |config: &mut OffloadConfig| {
        small_ring(config, SourceChoice::Mapped);
        config.host.registration_timing = RegistrationTiming::ByHost;
    };
    let subject = Subject {
        component: &|| tiny::component_of(&path),
        submit: &submit,
        right: mosaic.reference(&[0, 1, 2, 3]),
        ceiling: 20 * PAGE,
        residency: ResidencyMode::Parts,
        launches: LaunchScope::Parts,
        settings: &settings,
    };
    every_call_fails_once(&subject, false);
}

fn small_ring(config: &mut OffloadConfig, source: SourceChoice) {
    config.source = source;
    config.host_budget = Arc::new(HostBudget::default());
    (config.host.staging_bytes, config.host.staging_slot_bytes) = (4 * PAGE, 2 * PAGE);
}

#[test]
fn every_call_fails_once_with_a_file_read_through_the_ring() {
    streamed_fail_once(&|config| small_ring(config, SourceChoice::Ring), false);
}

#[test]
fn every_call_fails_once_with_a_retained_source_that_is_partly_registered() {
    for registration in [RegistrationPolicy::StableSubset, RegistrationPolicy::Recycle] {
        let settings = |config: &mut OffloadConfig| {
            small_ring(config, SourceChoice::Retained);
            (config.host.retained_slot_bytes, config.host.retained_slots) = (64 << 10, 2);
            (config.host.registered_bytes, config.host.registration) = (64 << 10, registration);
        };
        streamed_fail_once(&settings, registration == RegistrationPolicy::Recycle);
    }
}

fn on_demand_fail_once(pages: u64, fault_fallback: bool, look_ahead: bool, diagnostics: bool) {
    let mosaic = Mosaic { sizes: vec![vec![4096, 700], vec![5000], vec![512, 3000], vec![4096]] };
    let submit = |offload: &Offload, unit: u64, state: &Arc<Mutex<u64>>, lasting| {
        mosaic.submit(offload, unit as usize, state, lasting, LaunchScope::Units)
    };
    let subject = Subject {
        component: &|| mosaic.component(),
        submit: &submit,
        right: mosaic.reference(&[0, 1, 2, 3]),
        ceiling: pages * PAGE,
        residency: ResidencyMode::Demand,
        launches: LaunchScope::Units,
        settings: &|config| (config.fault_fallback, config.look_ahead) = (fault_fallback, look_ahead),
    };
    // Temporaries are outside the ceiling: the ledger is told of the largest unit beside it.
    let most = if fault_fallback { u64::MAX } else { subject.ceiling };
    every_call_fails_once_below(&subject, most, diagnostics);
}

#[test]
fn every_call_fails_once_with_units_on_demand() {
    on_demand_fail_once(3, false, false, false);
    on_demand_fail_once(4, false, true, true);
}

#[test]
fn every_call_fails_once_with_temporaries_outside_the_ceiling() {
    on_demand_fail_once(1, true, false, false);
    on_demand_fail_once(2, true, true, false);
}

#[test]
fn every_call_fails_once_with_staging_slots() {
    streamed_fail_once(&|config| small_ring(config, SourceChoice::Staged), true);
    let mosaic = Mosaic { sizes: vec![vec![4096, 9000], vec![5000], vec![512, 3000], vec![8192]] };
    let submit = |offload: &Offload, unit: u64, state: &Arc<Mutex<u64>>, lasting| {
        mosaic.submit(offload, unit as usize, state, lasting, LaunchScope::Units)
    };
    let subject = Subject {
        component: &|| mosaic.component(),
        submit: &submit,
        right: mosaic.reference(&[0, 1, 2, 3]),
        ceiling: 8 * PAGE,
        residency: ResidencyMode::Classic,
        launches: LaunchScope::Units,
        settings: &|config| small_ring(config, SourceChoice::Staged),
    };
    every_call_fails_once(&subject, false);
}

#[test]
fn every_call_fails_once_with_units_on_demand_out_of_retained_storage() {
    let mosaic = Mosaic { sizes: vec![vec![40_000, 700], vec![30_000], vec![12_288, 17_312], vec![20_000]] };
    let folder = scratch("faults-on-demand");
    let path = mosaic.checkpoint(folder.path());
    let submit = |offload: &Offload, unit: u64, state: &Arc<Mutex<u64>>, lasting| {
        mosaic.submit(offload, unit as usize, state, lasting, LaunchScope::Units)
    };
    let retained = |config: &mut OffloadConfig| {
        small_ring(config, SourceChoice::Retained);
        (config.host.retained_slot_bytes, config.host.retained_slots) = (64 << 10, 2);
        config.fault_fallback = true;
    };
    let subject = Subject {
        component: &|| tiny::component_of(&path),
        submit: &submit,
        right: mosaic.reference(&[0, 1, 2, 3]),
        ceiling: 9 * PAGE,
        residency: ResidencyMode::Demand,
        launches: LaunchScope::Units,
        settings: &retained,
    };
    every_call_fails_once_below(&subject, u64::MAX, false);
}

fn script(answers: &[(&'static str, &[Option<DriverErrorKind>])]) -> Script {
    let by_name: BTreeMap<_, _> =
        answers.iter().map(|(name, answers)| (*name, answers.iter().copied().collect::<VecDeque<_>>())).collect();
    Script { by_name, ..Script::default() }
}

fn arena(script: Script, pages: u64) -> (Arc<Ledger>, Arc<MappingBook>, Arena) {
    let ledger = Ledger::over(Faulty::new(host(), script), pages * PAGE);
    let book = Arc::new(MappingBook::default());
    let driver: Arc<dyn Driver> = Arc::<Ledger>::clone(&ledger);
    let rules = ArenaRules { page_bytes: PAGE, ceiling_bytes: pages * PAGE, ..ArenaRules::default() };
    let arena = Arena::reserve(driver, Arc::clone(&book), pages * PAGE, rules).expect("reserved");
    (ledger, book, arena)
}

/// C13: access answers "not ready" twice while there is memory; after bounded, counted synchronisations it works.
#[test]
fn access_that_is_not_ready_is_tried_again_and_counted() {
    let not_ready = Some(DriverErrorKind::NotReady);
    let (ledger, book, mut arena) = arena(script(&[("memory_set_access", &[not_ready, not_ready, None])]), 1);
    assert_eq!(arena.fault(&(0..PAGE)).expect("works in the end"), Admission::Granted);
    assert_eq!((book.access_retry_syncs.get(), book.access_retry_failed_syncs.get()), (2, 0));
    assert_eq!((ledger.seen().calls["memory_set_access"], ledger.seen().calls["context_synchronize"]), (3, 2));
    assert_eq!(arena.levels().resident_bytes, PAGE);
    arena.release().expect("given back");
    ledger.seen().assert_balanced();
}

#[test]
fn access_that_never_gets_ready_is_given_up_and_nothing_is_left() {
    let (ledger, book, mut arena) = arena(script(&[("memory_set_access", &[Some(DriverErrorKind::NotReady); 20])]), 1);
    assert_eq!(arena.fault(&(0..PAGE)).expect_err("bounded").kind, DriverErrorKind::NotReady);
    assert_eq!(book.access_retry_syncs.get(), u64::from(ddo_recorder::limits::MAX_ACCESS_RETRIES));
    assert_eq!(ledger.seen().mapped_bytes, 0);
    arena.release().expect("given back");
    ledger.seen().assert_balanced();
}

/// C14: the second piece of memory cannot be created; the first is taken back, and a later try works.
#[test]
fn memory_created_before_a_failure_is_taken_back() {
    let out_of_memory = Some(DriverErrorKind::OutOfMemory);
    let (ledger, _, mut arena) = arena(script(&[("memory_create", &[None, None, out_of_memory])]), 3);
    // The page in the middle is there: the others are two pieces.
    assert_eq!(arena.fault(&(PAGE..2 * PAGE)).expect("one page"), Admission::Granted);
    let refused = arena.fault(&(0..3 * PAGE)).expect("a device without memory is a refusal");
    assert!(matches!(refused, Admission::Refused(refusal) if refusal.code == DEVICE_MEMORY && refusal.got == 2 * PAGE));
    let calls = ledger.seen().calls;
    assert_eq!((calls["memory_create"], calls["memory_unmap"], calls["memory_release"]), (3, 1, 1));
    assert_eq!((arena.levels().resident_bytes, ledger.seen().mapped_bytes), (PAGE, PAGE));
    assert_eq!(arena.levels().materialized_pages, 1, "what was taken back never counted");
    assert_eq!(arena.fault(&(0..3 * PAGE)).expect("the later try"), Admission::Granted);
    assert_eq!((arena.levels().resident_bytes, ledger.seen().calls["memory_create"]), (3 * PAGE, 5));
    arena.release().expect("given back");
    ledger.seen().assert_balanced();
}

/// C16: a cap on registered bytes is no failure, says its numbers, and later calls work.
#[test]
fn a_cap_on_registration_is_a_counted_fallback() {
    use ddo_recorder::memory::{Checkpoint, Registrar, SourceKind, Sources, Window};
    let folder = scratch("registration");
    let path = tiny::checkpoint(folder.path(), 4);
    let checkpoint = Checkpoint::open(&path).expect("a checkpoint");
    let length = std::fs::metadata(&path).expect("the file").len();
    let options = HostOptions { registration_limit_bytes: Some(length - 1), page_bytes: PAGE, ..HostOptions::default() };
    let ledger = Ledger::new(options, 0);
    let sources =
        Sources::open(Some(&checkpoint), std::slice::from_ref(&(0..length)), Vec::new(), SourceKind::Mapped).expect("mapped");
    let budget = Arc::new(HostBudget::default());
    let register = |windows: &[Window]| {
        let segments = windows.iter().filter_map(|window| sources.mapped_segment(*window)).collect();
        let books = (Arc::clone(&budget), u64::MAX);
        let driver = Arc::<Ledger>::clone(&ledger);
        let registrar = Registrar::new(driver, Arc::new(ddo_recorder::meter::SystemClock), books, segments, u64::MAX);
        while registrar.step() {}
        registrar
    };
    assert_eq!(register(&[Window { file: 0, index: 1 }]).refused(), None);
    assert!(!ledger.seen().calls.contains_key("host_register"), "a window behind the end is left alone");
    let registrar = register(&[Window { file: 0, index: 0 }]);
    let refused = registrar.refused().expect("over the cap");
    assert!(refused.contains(&length.to_string()) && refused.contains(&(length - 1).to_string()), "{refused}");
    assert_eq!((registrar.take().len(), budget.totals().registered_bytes), (0, 0));
    let empty = ddo_recorder::driver::HostBytes::new(Arc::new(vec![0u8; 8]), 8, 0).expect("an empty range");
    let error = ledger.host_register(&empty, ddo_recorder::driver::HostAccess::ReadOnly).expect_err("0 bytes");
    assert_eq!(error.kind, DriverErrorKind::InvalidValue);
    let small = ddo_recorder::driver::HostBytes::new(Arc::new(vec![0u8; 8]), 0, 8).expect("a range");
    let id = ledger.host_register(&small, ddo_recorder::driver::HostAccess::ReadOnly).expect("nothing sticks");
    ledger.host_unregister(id).expect("ended");

    // The whole runtime under the same cap: unregistered, and right.
    let driver: Arc<dyn Driver> = Arc::<Ledger>::clone(&Ledger::new(
        HostOptions { registration_limit_bytes: Some(0), page_bytes: PAGE, ..HostOptions::default() },
        2 * PAGE,
    ));
    let config = OffloadConfig { ceiling: Ceiling::Bytes(2 * PAGE), ..OffloadConfig::new(driver) };
    let offload = enable_offload(tiny::component_of(&path), config).expect("attached");
    let state = Arc::new(Mutex::new(1));
    for unit in 0..4 {
        tiny::submit(&offload, unit, &state, Duration::ZERO).expect("submitted");
    }
    offload.wait_idle().expect("idle");
    assert_eq!(*state.lock().expect("jobs do not panic"), tiny::reference(&[0, 1, 2, 3]));
    let report = offload.metrics_snapshot(SnapshotOptions::default()).expect("a report");
    assert_eq!(report.runtime.vmm.expect("attached").sources.fast_mapped_source_registered_bytes, Some(0));
    offload.close(Duration::from_secs(1)).expect("closes");
}
