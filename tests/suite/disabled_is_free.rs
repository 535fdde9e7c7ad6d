//! What is off costs nothing.
//!
//! Proves: with diagnostics off a run makes exactly the driver calls, and decides exactly what, a run decides that never mentions
//! them, allocates as often, and leaves no file and no folder; with the timer on, the calls on top are calls about events alone; with
//! allocation diagnostics on there are none.

use crate::support::ledger::Ledger;
use crate::support::small::{UNIT_ELEMENTS, component, config, id, pass, reference};
use crate::support::{ffi, scratch};
use ddo_recorder::driver::HostMode;
use ddo_recorder::{
    AllocationOptions, Ceiling, HostDriver, HostOptions, Job, JournalOptions, Offload, OffloadConfig, OperatorOptions,
    SnapshotOptions, TimerOptions, enable_offload,
};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const UNIT: u64 = UNIT_ELEMENTS * 4;
const STEPS: u64 = 4;

/// Paths of the units.
const NAMES: [&str; 6] = ["blocks.0", "blocks.1", "blocks.2", "blocks.3", "blocks.4", "blocks.5"];

/// Driver calls by name, and what was decided: counters and gauges without times.
#[derive(Debug, PartialEq)]
struct Cost {
    calls: BTreeMap<&'static str, u64>,
    decisions: serde_json::Value,
    order: Vec<String>,
}

/// Everything that a report says, without host times.
fn without_times(value: &mut serde_json::Value) {
    if let serde_json::Value::Object(map) = value {
        map.retain(|key, _| !key.ends_with("seconds") && key != "setup_runtime" && key != "session_id");
        map.values_mut().for_each(without_times);
    }
}

/// Takes one step of a run.
type Step<'a> = &'a mut dyn FnMut(u64);

/// One run. After every unit both streams are idle, so what a completion query finds depends on nothing but the order of calls.
fn run(diagnose: &dyn Fn(&Offload, Step<'_>) -> Option<ddo_recorder::Timing>) -> Cost {
    let ceiling = 3 * UNIT;
    let ledger = Ledger::new(HostOptions { page_bytes: 4096, ..HostOptions::default() }, ceiling);
    let (ceiling, call_meter) = (Ceiling::Bytes(ceiling), Arc::default());
    let config = OffloadConfig { ceiling, call_meter, ..config(Arc::<Ledger>::clone(&ledger)) };
    let offload = enable_offload(component(6), config).expect("attached");
    let mut order = Vec::new();
    let mut step = |index: u64| {
        // The third step runs in another order: look-ahead is cancelled there.
        let units: [u64; 6] = if index == 2 { [0, 2, 1, 5, 3, 4] } else { [0, 1, 2, 3, 4, 5] };
        for unit in units {
            order.push(format!("{index}: {unit}"));
            let block = offload.forward(NAMES[unit as usize]);
            let _operator = block.operator("fold");
            let guard = offload.unit(id(&offload, unit)).expect("pinned");
            offload.launch(offload.compute_stream(), guard, Job::host(|_| Ok(()))).expect("queued");
            offload.wait_idle().expect("idle");
        }
        offload.mark_step().expect("a step");
        offload.wait_idle().expect("idle");
    };
    let timing = diagnose(&offload, &mut step);
    let before_report = ledger.seen().calls;
    let report = offload
        .metrics_snapshot(SnapshotOptions { collect_completed: false, timing: timing.as_ref(), ..SnapshotOptions::default() })
        .expect("a report");
    if timing.is_none() {
        assert_eq!(ledger.seen().calls, before_report, "a snapshot without a timer asks the driver nothing");
    }
    drop(timing);
    let mut decisions = serde_json::to_value(&report.runtime).expect("JSON");
    without_times(&mut decisions);
    let map = decisions.as_object_mut().expect("a structure");
    map.remove("native_timeline");
    map.remove("execution_timing");
    map.remove("allocation_diagnostics");
    let closed = offload.close(Duration::from_secs(10)).expect("closes");
    assert_eq!((closed.quarantined_bytes, closed.errors), (0, Vec::new()));
    ledger.seen().assert_balanced();
    let mut calls = ledger.seen().calls;
    // Closing asks again and again until its fence has passed, as often as the scheduler likes: only queries before it count.
    calls.insert("event_query", before_report.get("event_query").copied().unwrap_or_default());
    Cost { calls, decisions, order }
}

fn bare() -> Cost {
    run(&|_, step| {
        (0..STEPS).for_each(step);
        None
    })
}

#[test]
fn off_makes_the_same_calls_and_decisions_and_no_folder() {
    let at = scratch("disabled");
    let folder = at.path().join("journal");
    let off = run(&|offload, step| {
        let timer = offload.execution_timer(TimerOptions::default()).expect("off");
        let scope = offload.allocation_diagnostics(AllocationOptions::default()).expect("off");
        let dir = Some(folder.clone());
        let off = OperatorOptions { module_path: Some("blocks.1".into()), output_dir: dir, ..OperatorOptions::default() };
        let operators = offload.operator_diagnostics(off).expect("off");
        let mut journal = offload.metrics_journal(&folder, JournalOptions::default());
        assert_eq!(journal.record(None).expect("off"), None);
        for index in 0..STEPS {
            step(index);
            assert_eq!(journal.record(Some(index)).expect("off"), None);
        }
        journal.finish();
        let timing = timer.finish().expect("off");
        let record = scope.finish();
        let options = SnapshotOptions { timing: Some(&timing), allocation: Some(&record), ..SnapshotOptions::default() };
        assert_eq!(operators.finish().expect("off").diagnostics().status.as_deref(), Some("disabled"));
        let report = offload.metrics_snapshot(options).expect("a report");
        assert_eq!(report.runtime.execution_timing.expect("said").status, "disabled");
        assert!(report.runtime.native_timeline.is_none());
        assert_eq!(report.runtime.allocation_diagnostics.expect("said").status.as_deref(), Some("disabled"));
        None
    });
    assert_eq!(std::fs::read_dir(at.path()).expect("there").count(), 0, "a folder was made");
    assert_eq!(off, bare());
}

#[test]
fn the_timer_adds_calls_about_events_alone() {
    let plain = bare();
    for (native_units, diagnostic_step_wait) in [(false, false), (true, false), (true, true)] {
        let timed = run(&|offload, step| {
            let options = TimerOptions { enabled: true, native_units, native_capacity: 512, diagnostic_step_wait };
            let timer = offload.execution_timer(options).expect("starts");
            (0..STEPS).for_each(step);
            let timing = timer.finish().expect("finishes");
            offload.wait_idle().expect("idle");
            Some(timing)
        });
        let mut more: BTreeMap<&str, u64> = BTreeMap::new();
        for (call, count) in &timed.calls {
            let usual = plain.calls.get(call).copied().unwrap_or_default();
            assert!(*count >= usual, "{call}: {count} calls, {usual} without a timer");
            if *count > usual {
                more.insert(call, count - usual);
            }
        }
        // The test waits for both streams once more after the timer's end.
        assert_eq!(more.remove("stream_synchronize"), Some(2));
        assert_eq!(
            more.get("event_synchronize").copied(),
            diagnostic_step_wait.then_some(STEPS),
            "only waits that were asked for"
        );
        assert!(more.contains_key("event_record") && more.keys().all(|call| call.starts_with("event_")), "{more:?}");
        assert_eq!((&timed.decisions, &timed.order), (&plain.decisions, &plain.order));
    }
}

#[test]
fn allocation_diagnostics_call_no_driver_and_change_nothing() {
    let counted = run(&|offload, step| {
        let scope = offload.allocation_diagnostics(AllocationOptions { enabled: true }).expect("free");
        (0..STEPS).for_each(step);
        let record = scope.finish();
        let options = SnapshotOptions { allocation: Some(&record), ..SnapshotOptions::default() };
        let report = offload.metrics_snapshot(options).expect("a report").runtime.allocation_diagnostics.expect("attached");
        assert_eq!(report.steps.map(|steps| steps.len() as u64), Some(STEPS));
        None
    });
    assert_eq!(counted, bare());
}

/// Allocations of the host's thread in warm steps on a device that runs only when it is waited for.
fn allocations(prepare: &dyn Fn(&Offload) -> Vec<Box<dyn std::any::Any>>) -> u64 {
    let options = HostOptions { mode: HostMode::Stepped, page_bytes: 4096, ..HostOptions::default() };
    let config = OffloadConfig { ceiling: Ceiling::Bytes(3 * UNIT), ..config(HostDriver::new(options).expect("a host driver")) };
    let offload = enable_offload(component(6), config).expect("attached");
    let kept = prepare(&offload);
    let steps = |count: u64| {
        for _ in 0..count {
            for unit in 0..6 {
                let guard = offload.unit(id(&offload, unit)).expect("pinned");
                offload.launch(offload.compute_stream(), guard, Job::host(|_| Ok(()))).expect("queued");
            }
            offload.mark_step().expect("a step");
            offload.wait_idle().expect("idle");
        }
    };
    steps(4);
    let before = ffi::allocations();
    steps(8);
    let made = ffi::allocations() - before;
    drop(kept);
    made
}

#[test]
fn off_allocates_as_often_as_never_mentioned() {
    let bare = allocations(&|_| Vec::new());
    assert!(bare > 0, "jobs are boxed");
    let off = allocations(&|offload| {
        let timer = offload.execution_timer(TimerOptions::default()).expect("off");
        let scope = offload.allocation_diagnostics(AllocationOptions::default()).expect("off");
        vec![Box::new(timer), Box::new(scope)]
    });
    assert_eq!(off, bare);
    let on = allocations(&|offload| {
        vec![Box::new(offload.execution_timer(TimerOptions { enabled: true, ..TimerOptions::default() }).expect("on"))]
    });
    assert!(on > bare, "the count sees markers: {on}, {bare} without");
}

#[test]
fn sampled_operators_change_no_decision_and_ask_for_records_alone() {
    let at = scratch("operators-calls");
    let plain = bare();
    let sampled = run(&|offload, step| {
        let scope = offload
            .operator_diagnostics(OperatorOptions {
                enabled: true,
                module_path: Some("blocks.1".into()),
                output_dir: Some(at.path().join("operators")),
                ..OperatorOptions::default()
            })
            .expect("opens");
        (0..STEPS).for_each(step);
        assert_eq!(scope.finish().expect("sampled").diagnostics().status.as_deref(), Some("complete"));
        None
    });
    let mut calls = sampled.calls;
    assert!(calls.remove("activity").is_some_and(|count| count > 0));
    assert_eq!(calls, plain.calls);
    assert_eq!((sampled.decisions, sampled.order), (plain.decisions, plain.order));
    assert_eq!(std::fs::read_dir(at.path().join("operators")).expect("made").count(), 2);
}

#[test]
fn announcing_without_a_scope_allocates_nothing() {
    let ledger = Ledger::new(HostOptions { page_bytes: 4096, ..HostOptions::default() }, u64::MAX);
    let offload = enable_offload(component(2), config(Arc::<Ledger>::clone(&ledger))).expect("attached");
    let (before, calls) = (ffi::allocations(), ledger.seen().calls);
    let counting = ffi::allocations();
    assert!(counting > before, "the counter counts: a map was cloned");
    for _ in 0..1000 {
        let block = offload.forward("blocks.1");
        let child = block.child("a");
        let _operator = child.operator("fold");
    }
    assert_eq!(ffi::allocations(), counting);
    assert_eq!(ledger.seen().calls, calls);
    offload.close(Duration::from_secs(10)).expect("closes");
}

#[test]
fn a_journal_asks_the_driver_nothing() {
    let at = scratch("journal-calls");
    let journalled = run(&|offload, step| {
        let mut journal = offload.metrics_journal(&at.path().join("journal"), JournalOptions { enabled: true });
        assert!(!at.path().join("journal").exists(), "the folder comes with the first record");
        journal.record(None).expect("published");
        for index in 0..STEPS {
            step(index);
            journal.record(Some(index)).expect("published");
        }
        None
    });
    assert_eq!(std::fs::read_dir(at.path().join("journal")).expect("there").count() as u64, STEPS + 1);
    assert_eq!(journalled, bare());
}

#[test]
fn a_host_without_a_wrapper_leaves_nothing() {
    let at = scratch("no-wrapper");
    let model = at.path().join("model.safetensors");
    let mut sample = crate::support::command("ddo-sample");
    sample.current_dir(at.path()).args(["flux_shaped", "--scale", "0.00001", "--steps", "2", "--model"]).arg(&model);
    crate::support::ran(&mut sample).ended(0);
    let names: Vec<_> = crate::support::files(at.path()).into_keys().collect();
    assert_eq!(names, [Path::new("model.safetensors")]);
}

#[test]
fn a_timed_run_computes_the_same() {
    let ledger = Ledger::new(HostOptions { page_bytes: 4096, ..HostOptions::default() }, 2 * UNIT);
    let config = OffloadConfig { ceiling: Ceiling::Bytes(2 * UNIT), ..config(Arc::<Ledger>::clone(&ledger)) };
    let offload = enable_offload(component(4), config).expect("attached");
    let timer = offload
        .execution_timer(TimerOptions { enabled: true, native_units: true, native_capacity: 1, ..TimerOptions::default() })
        .expect("starts");
    for _ in 0..3 {
        assert_eq!(pass(&offload, &[0, 1, 2, 3]).expect("a pass"), reference(&[0, 1, 2, 3]));
    }
    let timing = timer.finish().expect("finishes");
    offload.wait_idle().expect("idle");
    let report = offload
        .metrics_snapshot(SnapshotOptions { collect_completed: true, timing: Some(&timing), ..SnapshotOptions::default() })
        .expect("a report");
    let timeline = report.runtime.native_timeline.expect("recorded");
    assert_eq!((timeline.status.as_str(), timeline.samples.len()), ("truncated", 1), "a full timeline drops, it never grows");
    drop(timing);
    offload.close(Duration::from_secs(10)).expect("closes");
    ledger.seen().assert_balanced();
}
