//! Allocation diagnostics: exact counts by step, every status, one owner in a process.
//!
//! Proves: each step's calls, failures, host times and answers are those that the driver itself counted between the same
//! boundaries, over random passes, failures and a second session in the same process; a scope is given back by a body
//! that fails or panics and the body's error is kept; what cannot be had is refused with its numbers.

use crate::support::ledger::{Ledger, Seen, call_nanoseconds};
use crate::support::tiny;
use ddo_recorder::driver::{CallMeter, Driver, Faulty, HostMode, Script};
use ddo_recorder::meter::FakeClock;
use ddo_recorder::{
    AllocationOptions, AllocationRecord, Ceiling, DriverErrorKind, Error, HostDriver, HostOptions, Offload, OffloadConfig,
    ResidencyMode, SnapshotOptions, enable_offload,
};
use ddo_schemas::sections::{AllocationDiagnostics, DriverDelta};
use proptest::prelude::*;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PAGE: u64 = 4096;
const ON: AllocationOptions = AllocationOptions { enabled: true };

/// A driver that counts its calls, fails as told, and takes time on a clock of its own.
struct Bench {
    faulty: Arc<Faulty>,
    ledger: Arc<Ledger>,
    clock: Arc<FakeClock>,
    meter: Arc<CallMeter>,
}

impl Bench {
    fn new(mode: HostMode) -> Bench {
        let host = HostDriver::new(HostOptions { mode, page_bytes: PAGE, ..HostOptions::default() }).expect("a host driver");
        let faulty = Faulty::new(host, Script::default());
        let ledger = Ledger::over(Arc::<Faulty>::clone(&faulty), u64::MAX);
        let clock = Arc::new(FakeClock::default());
        ledger.take_time_on(&clock);
        Bench { faulty, ledger, clock, meter: Arc::default() }
    }

    fn attach(&self, units: u64, ceiling: u64, residency: ResidencyMode) -> Offload {
        let driver: Arc<dyn Driver> = Arc::<Ledger>::clone(&self.ledger);
        let config = OffloadConfig { ceiling: Ceiling::Bytes(ceiling), residency, ..OffloadConfig::new(driver) };
        let (clock, call_meter) = (Arc::<FakeClock>::clone(&self.clock), Arc::clone(&self.meter));
        enable_offload(tiny::component(units), OffloadConfig { clock, call_meter, ..config }).expect("attached")
    }
}

fn report(offload: &Offload, record: &AllocationRecord) -> AllocationDiagnostics {
    let options = SnapshotOptions { allocation: Some(record), ..SnapshotOptions::default() };
    offload.metrics_snapshot(options).expect("a report").runtime.allocation_diagnostics.expect("attached")
}

fn status(offload: &Offload, record: &AllocationRecord) -> String {
    report(offload, record).status.expect("always")
}

/// One thing that a host does.
#[derive(Clone, Debug)]
enum Act {
    /// Runs a unit.
    Unit(u64),
    /// Runs a unit while access answers not ready this many times.
    NotReady(u64, usize),
    /// Runs a unit while there is no memory.
    NoMemory(u64),
    /// Attaches and closes another component in the same process.
    Another,
    /// Ends the step.
    Step,
}

fn act() -> impl Strategy<Value = Act> {
    let unit = 0..12u64;
    prop_oneof![
        6 => unit.clone().prop_map(Act::Unit),
        2 => (unit.clone(), 1..7usize).prop_map(|(unit, times)| Act::NotReady(unit, times)),
        1 => unit.prop_map(Act::NoMemory),
        1 => Just(Act::Another),
        4 => Just(Act::Step),
    ]
}

fn fail_next(bench: &Bench, call: &'static str, kind: DriverErrorKind, times: usize) {
    let by_name = BTreeMap::from([(call, VecDeque::from(vec![Some(kind); times]))]);
    bench.faulty.follow(Script { by_name, ..Script::default() });
}

fn run(offload: &Offload, unit: u64) {
    let state = Arc::new(Mutex::new(1));
    // Failures are part of the story; what they cost is counted.
    let _ = tiny::submit(offload, unit, &state, Duration::ZERO);
}

fn perform(bench: &Bench, offload: &Offload, act: &Act) {
    match act {
        Act::Unit(unit) => run(offload, *unit),
        Act::NotReady(unit, times) => {
            fail_next(bench, "memory_set_access", DriverErrorKind::NotReady, *times);
            run(offload, *unit);
        }
        Act::NoMemory(unit) => {
            fail_next(bench, "memory_create", DriverErrorKind::OutOfMemory, 1);
            run(offload, *unit);
        }
        Act::Another => {
            let another = bench.attach(3, 2 * PAGE, ResidencyMode::Classic);
            run(&another, 0);
            another.close(Duration::from_secs(1)).expect("closes");
        }
        Act::Step => {}
    }
    bench.faulty.follow(Script::default());
}

/// The rows of a difference against two readings of the driver's own counts.
fn compare(delta: &DriverDelta, before: &Seen, after: &Seen) -> Result<(), TestCaseError> {
    let count = |of: fn(&Seen) -> &BTreeMap<&'static str, u64>, call: &str| {
        let get = |seen: &Seen| of(seen).get(call).copied().unwrap_or_default();
        get(after) - get(before)
    };
    let calls = |call: &str| count(|seen| &seen.calls, call);
    let failed = |call: &str| count(|seen| &seen.failed, call);
    let rows = [
        ("memory_create", delta.create_calls, delta.create_host_seconds, delta.create_failed_calls),
        ("memory_map", delta.map_calls, delta.map_host_seconds, delta.map_failed_calls),
        ("memory_set_access", delta.access_calls, delta.access_host_seconds, delta.access_failed_calls),
        ("memory_unmap", delta.unmap_calls, delta.unmap_host_seconds, delta.unmap_failed_calls),
        ("memory_release", delta.release_calls, delta.release_host_seconds, delta.release_failed_calls),
        ("address_reserve", delta.reserve_calls, delta.reserve_host_seconds, delta.reserve_failed_calls),
        ("address_free", delta.address_free_calls, delta.address_free_host_seconds, delta.address_free_failed_calls),
        (
            "context_synchronize",
            delta.access_retry_sync_calls,
            delta.access_retry_sync_host_seconds,
            delta.access_retry_sync_failed_calls,
        ),
    ];
    for (call, counted, seconds, failures) in rows {
        prop_assert_eq!((counted, failures), (Some(calls(call)), Some(failed(call))), "{}", call);
        let exact = (calls(call) * call_nanoseconds(call)) as f64 / 1e9;
        prop_assert_eq!(seconds.expect("measured").0, exact, "{}", call);
    }
    let returns = [
        delta.access_return_success_calls,
        delta.access_return_not_ready_calls,
        delta.access_return_out_of_memory_calls,
        delta.access_return_other_calls,
    ];
    prop_assert_eq!(returns.into_iter().flatten().sum::<u64>(), calls("memory_set_access"));
    prop_assert_eq!(returns[1], Some(failed("memory_set_access")), "the only failure of access here");
    // There is no span pool: its rows are unavailable, never zero.
    prop_assert_eq!((delta.pool_reuse_calls, delta.pool_new_backings), (None, None));
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_step_counts_what_the_driver_counts(
        acts in prop::collection::vec(act(), 1..60),
        seed in any::<u64>(),
        resident in 2..12u64,
        parts in any::<bool>(),
    ) {
        let bench = Bench::new(HostMode::Interleaved { seed });
        let residency = if parts { ResidencyMode::Parts } else { ResidencyMode::Classic };
        let offload = bench.attach(12, resident * PAGE, residency);
        let scope = offload.allocation_diagnostics(ON).expect("free");
        let entry = bench.ledger.seen();
        let mut boundaries = vec![entry.clone()];
        for act in &acts {
            perform(&bench, &offload, act);
            if matches!(act, Act::Step) {
                let boundary = bench.ledger.seen();
                if offload.mark_step().is_ok() {
                    boundaries.push(boundary);
                }
            }
        }
        let end = bench.ledger.seen();
        let found = report(&offload, &scope.finish());
        prop_assert_eq!((found.status.as_deref(), found.native_schema_version), (Some("complete"), Some(2)));
        let steps = found.steps.expect("a list");
        prop_assert_eq!(steps.len() + 1, boundaries.len());
        for (step, pair) in steps.iter().zip(boundaries.windows(2)) {
            compare(step.driver_delta.as_ref().expect("counted"), &pair[0], &pair[1])?;
        }
        compare(found.total_delta.as_ref().expect("counted"), &entry, &end)?;
        let faults = |delta: &DriverDelta| delta.fault_range_calls.expect("counted");
        let parts: u64 = steps.iter().filter_map(|step| step.driver_delta.as_ref()).map(faults).sum();
        prop_assert!(parts <= faults(found.total_delta.as_ref().expect("counted")));
        let indexes: Vec<_> = steps.iter().map(|step| step.step_index).collect();
        prop_assert_eq!(indexes, (0..steps.len() as u64).map(Some).collect::<Vec<_>>());
    }
}

/// A fault encloses its driver calls and the waits between their tries, so its time is theirs; only residents fault.
#[test]
fn faults_enclose_their_driver_calls() {
    let bench = Bench::new(HostMode::Stepped);
    let offload = bench.attach(4, 4 * PAGE, ResidencyMode::Classic);
    let scope = offload.allocation_diagnostics(ON).expect("free");
    for pass in 0..2 {
        for unit in 0..4 {
            if pass == 0 && unit == 1 {
                fail_next(&bench, "memory_set_access", DriverErrorKind::NotReady, 2);
            }
            run(&offload, unit);
        }
        offload.mark_step().expect("a step");
    }
    let found = report(&offload, &scope.finish());
    let [cold, warm] = &found.steps.expect("two steps")[..] else { panic!("two steps") };
    let delta = cold.driver_delta.as_ref().expect("counted");
    assert_eq!((delta.fault_range_calls, delta.create_calls, delta.access_calls), (Some(4), Some(4), Some(6)));
    assert_eq!((delta.access_retry_sync_calls, delta.access_return_not_ready_calls), (Some(2), Some(2)));
    let parts =
        [delta.create_host_seconds, delta.map_host_seconds, delta.access_host_seconds, delta.access_retry_sync_host_seconds];
    let inside: f64 = parts.iter().flatten().map(|seconds| seconds.0).sum();
    let around = delta.fault_range_host_seconds.expect("measured").0;
    assert!((around - inside).abs() < 1e-12, "{around} around {inside}");
    let warm = warm.driver_delta.as_ref().expect("counted");
    assert_eq!((warm.fault_range_calls, warm.create_calls, warm.access_retry_sync_calls), (Some(0), Some(0), Some(0)));
    assert!(found.host_scope_seconds.expect("measured").0 > around);
}

#[test]
fn every_status_is_reached() {
    let bench = Bench::new(HostMode::Stepped);
    let offload = bench.attach(2, 2 * PAGE, ResidencyMode::Classic);
    let calls = bench.ledger.seen().calls;
    let off = offload.allocation_diagnostics(AllocationOptions::default()).expect("off");
    let scope = offload.allocation_diagnostics(ON).expect("off took nothing");
    let off = report(&offload, &off.finish());
    assert_eq!((off.status.as_deref(), off.failed, off.native_schema_version), (Some("disabled"), Some(false), None));
    assert_eq!((off.steps, off.total_delta, off.benchmark_eligible), (None, None, Some(false)));

    let running = scope.record();
    assert_eq!(status(&offload, &running), "not_finished");
    drop(scope);
    assert_eq!(status(&offload, &running), "not_finished", "given up is not finished");

    let scope = offload.allocation_diagnostics(ON).expect("given back by the drop");
    let (result, failed) = scope.around(|| Err::<(), _>("the model's own error"));
    assert_eq!(result, Err("the model's own error"));
    let failed = report(&offload, &failed);
    assert_eq!((failed.status.as_deref(), failed.failed), (Some("failed"), Some(true)));
    assert_eq!((failed.error.as_deref(), failed.total_delta), (Some("the model's own error"), None));

    let scope = offload.allocation_diagnostics(ON).expect("given back by a failing body");
    let (result, complete) = scope.around(|| Ok::<_, Error>(7));
    assert_eq!((result.expect("went well"), status(&offload, &complete).as_str()), (7, "complete"));
    assert_eq!(bench.ledger.seen().calls, calls, "no scope calls the driver");
}

#[test]
fn a_panic_gives_the_scope_back() {
    let bench = Bench::new(HostMode::Stepped);
    let offload = bench.attach(2, 2 * PAGE, ResidencyMode::Classic);
    let scope = offload.allocation_diagnostics(ON).expect("free");
    let record = scope.record();
    let body =
        std::panic::AssertUnwindSafe(|| scope.around(|| -> Result<(), Error> { std::panic::resume_unwind(Box::new("stop")) }));
    assert!(std::panic::catch_unwind(body).is_err());
    assert_eq!(status(&offload, &record), "not_finished");
    assert_eq!(status(&offload, &offload.allocation_diagnostics(ON).expect("given back").finish()), "complete");
}

#[test]
fn one_scope_in_a_process_and_none_of_a_closed_session() {
    let bench = Bench::new(HostMode::Stepped);
    let (one, two) = (bench.attach(2, 2 * PAGE, ResidencyMode::Classic), bench.attach(2, 2 * PAGE, ResidencyMode::Classic));
    let scope = one.allocation_diagnostics(ON).expect("free");
    for other in [&one, &two] {
        let Err(Error::Refused(refusal)) = other.allocation_diagnostics(ON) else { panic!("a second scope") };
        assert_eq!((refusal.code, refusal.got, refusal.limit, refusal.unit), ("allocation_diagnostics_in_use", 2, 1, "scopes"));
    }
    let record = scope.finish();
    let options = SnapshotOptions { allocation: Some(&record), ..SnapshotOptions::default() };
    assert_eq!(two.metrics_snapshot(options).expect_err("another session's scope").code(), "invalid");
    one.close(Duration::from_secs(1)).expect("closes");
    assert_eq!(one.allocation_diagnostics(ON).expect_err("closed").code(), "closed");
    assert_eq!(status(&one, &record), "complete", "a record outlives its session");
    assert_eq!(status(&two, &two.allocation_diagnostics(ON).expect("free").finish()), "complete");
}

#[test]
fn sessions_share_the_meter_of_their_process() {
    let driver = || HostDriver::new(HostOptions::default()).expect("a host driver");
    let (one, two) = (OffloadConfig::new(driver()), OffloadConfig::new(driver()));
    assert!(Arc::ptr_eq(&one.call_meter, &two.call_meter));
    assert!(Arc::ptr_eq(&one.call_meter, &CallMeter::of_process()));
}

#[test]
fn steps_are_bounded() {
    let bench = Bench::new(HostMode::Stepped);
    let offload = bench.attach(1, PAGE, ResidencyMode::Classic);
    let scope = offload.allocation_diagnostics(ON).expect("free");
    let most = ddo_recorder::limits::MAX_ALLOCATION_STEPS;
    for _ in 0..most + 2 {
        offload.mark_step().expect("a step");
    }
    let found = report(&offload, &scope.finish());
    let wanted = format!("{} steps were marked in the scope; the limit is {most}", most + 2);
    assert_eq!((found.status.as_deref(), found.error, found.steps), (Some("failed"), Some(wanted), None));
}
