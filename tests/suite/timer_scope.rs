//! The execution timer and the native timeline: every status, waits that were asked for, one owner a context.
//!
//! Proves: waits at steps and at a snapshot are exactly the ones asked for; a status never invents a time; markers in flight stay with
//! their owner, keep the context taken when it goes, and are given back once the device has passed them.

use crate::support::ledger::{Ledger, call_nanoseconds};
use crate::support::tiny;
use ddo_recorder::driver::{Driver, Faulty, HostMode, Script};
use ddo_recorder::meter::FakeClock;
use ddo_recorder::{
    Ceiling, DriverErrorKind, Error, HostDriver, HostOptions, Offload, OffloadConfig, SnapshotOptions, TimerOptions, Timing,
    enable_offload,
};
use ddo_schemas::sections::ExecutionTiming;
use ddo_schemas::timeline::{NativeTimeline, SampleStatus};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const UNITS: u64 = 4;
const STEPS: u64 = 3;
const TIMED: TimerOptions = TimerOptions { enabled: true, native_units: false, native_capacity: 1, diagnostic_step_wait: false };
const WINDOWS: TimerOptions = TimerOptions { native_units: true, native_capacity: 256, ..TIMED };
const WAITS: TimerOptions = TimerOptions { diagnostic_step_wait: true, ..WINDOWS };

/// A stepped device, where nothing happens unless the host waits, below a driver that counts and fails as told.
struct Device {
    faulty: Arc<Faulty>,
    ledger: Arc<Ledger>,
    clock: Arc<FakeClock>,
}

impl Device {
    fn new() -> Device {
        let options = HostOptions { mode: HostMode::Stepped, page_bytes: 4096, ..HostOptions::default() };
        let faulty = Faulty::new(HostDriver::new(options).expect("a host driver"), Script::default());
        let ledger = Ledger::over(Arc::<Faulty>::clone(&faulty), u64::MAX);
        let clock = Arc::new(FakeClock::default());
        ledger.take_time_on(&clock);
        Device { faulty, ledger, clock }
    }

    fn attach(&self) -> Offload {
        let driver: Arc<dyn Driver> = Arc::<Ledger>::clone(&self.ledger);
        let (ceiling, clock) = (Ceiling::Bytes(3 * tiny::UNIT_BYTES), Arc::<FakeClock>::clone(&self.clock));
        enable_offload(tiny::component(UNITS), OffloadConfig { ceiling, clock, ..OffloadConfig::new(driver) }).expect("attached")
    }

    fn calls(&self, call: &str) -> u64 {
        self.ledger.seen().calls.get(call).copied().unwrap_or_default()
    }

    /// Lets some calls of a name through and fails the next ones.
    fn fail(&self, call: &'static str, after: usize, times: usize) {
        let mut answers = VecDeque::from(vec![None; after]);
        answers.extend(vec![Some(DriverErrorKind::Other(700)); times]);
        self.faulty.follow(Script { by_name: BTreeMap::from([(call, answers)]), ..Script::default() });
    }

    fn close(&self, offload: &Offload) {
        let closed = offload.close(Duration::from_secs(1)).expect("closes");
        assert_eq!((closed.quarantined_bytes, closed.errors), (0, Vec::new()));
    }
}

fn steps(offload: &Offload) {
    for _ in 0..STEPS {
        let state = Arc::new(Mutex::new(1));
        for unit in 0..UNITS {
            tiny::submit(offload, unit, &state, Duration::from_nanos(700)).expect("submitted");
        }
        offload.mark_step().expect("a step");
    }
}

fn read(offload: &Offload, timing: &Timing, wait: bool) -> (ExecutionTiming, Option<NativeTimeline>) {
    let options = SnapshotOptions { timing: Some(timing), wait, ..SnapshotOptions::default() };
    let runtime = offload.metrics_snapshot(options).expect("a report").runtime;
    (runtime.execution_timing.expect("attached"), runtime.native_timeline)
}

fn timeline(offload: &Offload, timing: &Timing) -> NativeTimeline {
    read(offload, timing, false).1.expect("recorded")
}

#[test]
fn every_status_of_a_timer_is_reached() {
    let device = Device::new();
    let offload = device.attach();
    let off = offload.execution_timer(TimerOptions::default()).expect("off").finish().expect("off");
    assert_eq!(read(&offload, &off, true).0.status, "disabled", "and there is nothing to wait for");
    let given_up = {
        let timer = offload.execution_timer(TIMED).expect("starts");
        steps(&offload);
        timer.timing()
    };
    let (open, _) = read(&offload, &given_up, true);
    assert_eq!((open.status.as_str(), open.step_count, open.phase_seconds), ("not_finished", Some(STEPS), None));

    let timer = offload.execution_timer(TIMED).expect("the one given up is gone");
    steps(&offload);
    let timing = timer.finish().expect("finishes");
    let (pending, _) = read(&offload, &timing, false);
    assert_eq!((pending.status.as_str(), pending.step_count, pending.step_seconds), ("pending", Some(STEPS), None));
    let before = device.ledger.seen().calls;
    let (complete, _) = read(&offload, &timing, true);
    let after = device.ledger.seen().calls;
    let waits = ["event_synchronize", "stream_synchronize", "context_synchronize", "event_wait"];
    let added = waits.map(|call| after.get(call).copied().unwrap_or_default() - before.get(call).copied().unwrap_or_default());
    assert_eq!((complete.status.as_str(), added), ("complete", [1, 0, 0, 0]), "the last marker and nothing else");
    assert_eq!(complete.diagnostic_step_wait, None);
    let seconds: Vec<f64> = complete.step_seconds.expect("complete").iter().map(|step| step.0).collect();
    let sum = seconds.iter().sum::<f64>() + complete.tail_seconds.expect("complete").0;
    assert!(seconds.len() as u64 == STEPS && (sum - complete.phase_seconds.expect("complete").0).abs() < 1e-12);
    assert_eq!(complete.steady_state_seconds_per_step.expect("three steps").0, (seconds[1] + seconds[2]) / 2.0);

    let failed = offload.execution_timer(TIMED).expect("starts").finish_failed().expect("ends");
    let (failed, _) = read(&offload, &failed, true);
    assert!(failed.failed && failed.status == "complete");
    device.close(&offload);
}

#[test]
fn a_step_wait_waits_for_its_own_marker_once_a_step() {
    let device = Device::new();
    let offload = device.attach();
    let timer = offload.execution_timer(WAITS).expect("starts");
    steps(&offload);
    let timing = timer.finish().expect("finishes");
    let (found, windows) = read(&offload, &timing, false);
    let wait = found.diagnostic_step_wait.expect("asked for");
    assert_eq!((wait.enabled, wait.calls, wait.benchmark_eligible), (Some(true), Some(STEPS), Some(false)));
    assert_eq!(wait.scope.as_deref(), Some("compute_boundary_event_host_wait"));
    let exact = (STEPS * call_nanoseconds("event_synchronize")) as f64 / 1e9;
    assert_eq!((wait.host_seconds.expect("measured").0, device.calls("event_synchronize")), (exact, STEPS));
    assert_eq!(["stream_synchronize", "context_synchronize"].map(|call| device.calls(call)), [0, 0], "uploads are not drained");
    assert!(windows.is_some_and(|timeline| timeline.status == "pending"), "what is behind the last boundary goes on");
    offload.wait_idle().expect("idle");
    drop(timing);
    device.close(&offload);
    device.ledger.seen().assert_balanced();
}

#[test]
fn a_wait_that_fails_is_counted_and_told_at_the_end() {
    let device = Device::new();
    let offload = device.attach();
    let timer = offload.execution_timer(WAITS).expect("starts");
    let seen = timer.timing();
    device.fail("event_synchronize", 1, 1);
    steps(&offload);
    let error = timer.finish().expect_err("told");
    assert!(matches!(&error, Error::Driver(error) if error.call == "event_synchronize"), "{error}");
    offload.wait_idle().expect("idle");
    let (found, _) = read(&offload, &seen, false);
    assert_eq!(found.diagnostic_step_wait.expect("asked for").calls, Some(STEPS), "the work went on");
    drop(seen);
    device.close(&offload);
}

#[test]
fn every_status_of_a_timeline_is_reached() {
    let device = Device::new();
    let offload = device.attach();
    let timer = offload.execution_timer(WINDOWS).expect("starts");
    steps(&offload);
    assert_eq!(timeline(&offload, &timer.timing()).status, "pending", "before the end");
    let timing = timer.finish().expect("finishes");
    let pending = timeline(&offload, &timing);
    assert_eq!((pending.status.as_str(), pending.event_cleanup.as_deref()), ("pending", Some("retained")));
    assert!(pending.pending > 0 && pending.window_summary.is_none());
    let without_times = pending.samples.iter().filter(|sample| sample.status == SampleStatus::Pending);
    assert!(
        without_times.clone().count() as u64 == pending.pending
            && without_times.clone().all(|sample| sample.start_seconds.is_none())
    );
    offload.wait_idle().expect("idle");
    let complete = timeline(&offload, &timing);
    assert_eq!((complete.status.as_str(), complete.event_cleanup.as_deref()), ("complete", Some("released")));
    assert!(complete.warm_window_summary.is_some() && complete.resolution_seconds.is_some() && complete.pending == 0);

    let timer = offload.execution_timer(TimerOptions { native_capacity: 2, ..WINDOWS }).expect("the context is free");
    steps(&offload);
    let timing = timer.finish().expect("finishes");
    offload.wait_idle().expect("idle");
    let truncated = timeline(&offload, &timing);
    assert_eq!((truncated.status.as_str(), truncated.samples.len(), truncated.capacity), ("truncated", 2, 2));
    assert!(truncated.dropped > 0 && truncated.window_summary.is_none());

    let timer = offload.execution_timer(WINDOWS).expect("starts");
    // The first record of a step belongs to a window, its second to another one.
    device.fail("event_record", 5, 1);
    steps(&offload);
    let timing = timer.finish();
    offload.wait_idle().expect("idle");
    let timing = timing.expect("the failed marker was a window's");
    let failed = timeline(&offload, &timing);
    assert_eq!((failed.status.as_str(), failed.failures, failed.event_cleanup.as_deref()), ("failed", 1, Some("retained")));
    assert_eq!(failed.samples.iter().filter(|sample| sample.status == SampleStatus::Failed).count(), 1);
    drop(timing);
    device.close(&offload);
    device.ledger.seen().assert_balanced();
}

fn refusal(result: ddo_recorder::Result<ddo_recorder::ExecutionTimer>) -> (&'static str, u64, u64) {
    match result {
        Err(Error::Refused(refusal)) => (refusal.code, refusal.got, refusal.limit),
        other => panic!("no refusal: {other:?}"),
    }
}

#[test]
fn a_context_has_one_timeline_at_a_time() {
    let device = Device::new();
    let (one, two) = (device.attach(), device.attach());
    let timer = one.execution_timer(WINDOWS).expect("starts");
    assert_eq!(refusal(one.execution_timer(WINDOWS)), ("timer_in_use", 2, 1));
    assert_eq!(refusal(two.execution_timer(WINDOWS)), ("timeline_in_use", 2, 1));
    two.execution_timer(TIMED).expect("markers of steps alone are the session's own").finish().expect("ends");
    steps(&one);
    let timing = timer.finish().expect("finishes");
    assert_eq!(refusal(two.execution_timer(WINDOWS)), ("timeline_in_use", 2, 1), "its markers are in flight");
    one.wait_idle().expect("idle");
    assert_eq!(timeline(&one, &timing).status, "complete");
    // All markers were given back, so the context is free though the timing lives.
    two.execution_timer(WINDOWS).expect("free").finish().expect("ends");
    let other = Device::new().attach();
    other.execution_timer(WINDOWS).expect("another context").finish().expect("ends");
    two.wait_idle().expect("idle");
    device.close(&one);
    device.close(&two);
    device.ledger.seen().assert_balanced();
}

#[test]
fn an_abandoned_timeline_keeps_its_context_until_the_device_has_passed_it() {
    let device = Device::new();
    let (one, two) = (device.attach(), device.attach());
    let abandon = |offload: &Offload| {
        let timer = offload.execution_timer(WINDOWS).expect("starts");
        steps(offload);
        drop(timer);
    };
    abandon(&one);
    let (code, left, limit) = refusal(two.execution_timer(WINDOWS));
    assert!(code == "timeline_retained" && left > 0 && limit == 0, "{code} {left}");
    one.wait_idle().expect("idle");
    abandon(&two);
    assert_eq!(refusal(one.execution_timer(WINDOWS)).0, "timeline_retained");
    device.close(&two);
    one.execution_timer(WINDOWS).expect("the close gave the markers back").finish().expect("ends");
    one.wait_idle().expect("idle");
    device.close(&one);
    device.ledger.seen().assert_balanced();
}

#[test]
fn markers_that_cannot_be_given_back_keep_the_context_too() {
    let device = Device::new();
    let offload = device.attach();
    let timer = offload.execution_timer(WINDOWS).expect("starts");
    steps(&offload);
    let timing = timer.finish().expect("finishes");
    offload.wait_idle().expect("idle");
    device.fail("event_destroy", 0, 10_000);
    let options = SnapshotOptions { timing: Some(&timing), ..SnapshotOptions::default() };
    // The markers of steps cannot be given back either, which is the timer's own error.
    let error = offload.metrics_snapshot(options).expect_err("told");
    assert_eq!(error.code(), "driver_other");
    assert_eq!(timeline(&offload, &timing).event_cleanup.as_deref(), Some("retained"));
    drop(timing);
    assert_eq!(refusal(offload.execution_timer(WINDOWS)).0, "timeline_retained");
    device.faulty.follow(Script::default());
    offload.execution_timer(WINDOWS).expect("given back at last").finish().expect("ends");
}

#[test]
fn what_cannot_be_is_refused_with_its_numbers() {
    let device = Device::new();
    let offload = device.attach();
    let calls = device.ledger.seen().calls;
    let invalid = |options: TimerOptions, part: &str| {
        let error = offload.execution_timer(options).expect_err("cannot be");
        assert!(error.code() == "invalid" && error.to_string().contains(part), "{error}");
    };
    for capacity in [0, 8193, u64::MAX] {
        let part = format!("native_capacity is {capacity}; it must be 1 to 8192");
        invalid(TimerOptions { native_capacity: capacity, ..WINDOWS }, &part);
    }
    invalid(TimerOptions { enabled: false, ..WINDOWS }, "native units need timing");
    invalid(TimerOptions { native_units: false, ..WAITS }, "diagnostic_step_wait needs native_units");
    invalid(TimerOptions { enabled: false, native_units: false, ..WAITS }, "diagnostic_step_wait needs native_units");
    let wait = SnapshotOptions { wait: true, ..SnapshotOptions::default() };
    assert_eq!(offload.metrics_snapshot(wait).expect_err("nothing to wait for").code(), "invalid");
    assert_eq!(device.ledger.seen().calls, calls, "refused before the driver hears of it");
    for capacity in [1, 8192] {
        offload.execution_timer(TimerOptions { native_capacity: capacity, ..WINDOWS }).expect("within").finish().expect("ends");
        offload.wait_idle().expect("idle");
    }
    let timing = offload.execution_timer(TIMED).expect("starts").finish().expect("ends");
    let other = Device::new().attach();
    let options = SnapshotOptions { timing: Some(&timing), ..SnapshotOptions::default() };
    assert!(other.metrics_snapshot(options).expect_err("another session's").to_string().contains("another session"));
}
