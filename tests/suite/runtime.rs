//! The classic mode on the host driver: same bits under any ceiling, ledgers balanced, refusals typed.

use crate::support::ledger::Ledger;
use crate::support::small::{UNIT_ELEMENTS, component, config, id, pass, reference, submit};
use ddo_recorder::{
    Ceiling, Error, HostOptions, Job, Offload, OffloadConfig, ResidencyMode, SnapshotOptions, SourceChoice, enable_offload,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const UNIT: u64 = UNIT_ELEMENTS * 4;
const PAGE: u64 = 4096;

fn options() -> HostOptions {
    HostOptions { page_bytes: PAGE, ..HostOptions::default() }
}

fn attach(units: u64, ceiling: u64, slots: u64) -> (Arc<Ledger>, Offload) {
    let ledger = Ledger::new(options(), ceiling);
    let config = config(Arc::<Ledger>::clone(&ledger));
    let config = OffloadConfig { ceiling: Ceiling::Bytes(ceiling), residency: ResidencyMode::Classic, slots, ..config };
    let offload = enable_offload(component(units), config).expect("attached");
    (ledger, offload)
}

fn close(ledger: &Ledger, offload: &Offload) {
    let report = offload.close(Duration::from_secs(10)).expect("closes");
    assert_eq!((report.quarantined_bytes, report.errors.len()), (0, 0), "{report:?}");
    ledger.seen().assert_balanced();
}

fn vmm(offload: &Offload) -> ddo_schemas::sections::Vmm {
    let options = SnapshotOptions { collect_completed: true, timing: None, ..SnapshotOptions::default() };
    offload.metrics_snapshot(options).expect("a report").runtime.vmm.expect("attached")
}

#[test]
fn every_ceiling_gives_the_same_bits_and_holds() {
    let order: Vec<u64> = (0..9).collect();
    let want = reference(&order);
    for slots in [2, 3, 5] {
        for extra in [0, 1, UNIT, 3 * UNIT + 5, 9 * UNIT] {
            let ceiling = slots * UNIT + extra;
            let (ledger, offload) = attach(9, ceiling, slots);
            for step in 0..5 {
                assert_eq!(pass(&offload, &order).expect("a pass"), want, "step {step}, {slots} slots, ceiling {ceiling}");
            }
            offload.wait_idle().expect("idle");
            let vmm = vmm(&offload);
            assert!(vmm.arena.fast_total_weight_resident_bytes.expect("gauge") <= ceiling);
            assert_eq!(vmm.tickets.fast_transfer_live_tickets, Some(0));
            assert_eq!(vmm.arena.fast_pinned_units, Some(0));
            let (units, hits, cancelled) = (
                vmm.look_ahead.fast_gpu_prefetch_units,
                vmm.look_ahead.fast_gpu_prefetch_hits,
                vmm.look_ahead.fast_gpu_prefetch_cancelled_units,
            );
            let in_flight = vmm.look_ahead.fast_gpu_prefetch_in_flight_units.expect("gauge");
            assert_eq!(units.expect("count"), hits.expect("count") + cancelled.expect("count") + in_flight);
            assert_eq!(ledger.seen().copied_bytes, vmm.uploads.fast_upload_bytes.expect("count"), "every copied byte is counted");
            close(&ledger, &offload);
        }
    }
}

#[test]
fn look_ahead_hits_every_streamed_unit_after_the_first_pass_and_wraps() {
    let (ledger, offload) = attach(6, 2 * UNIT, 2);
    let order: Vec<u64> = (0..6).collect();
    for _ in 0..4 {
        pass(&offload, &order).expect("a pass");
    }
    let vmm = vmm(&offload);
    assert_eq!(vmm.look_ahead.fast_gpu_prefetch_hits, Some(18), "three passes of six, the first of each found by wrapping");
    assert_eq!(vmm.buffers.fast_execution_buffer_uploads, Some(25), "four passes of six and one ahead of the fifth");
    assert_eq!(vmm.look_ahead.fast_gpu_prefetch_in_flight_units, Some(1));
    assert_eq!(vmm.look_ahead.fast_execution_plan_mismatches, Some(0));
    assert_eq!(vmm.uploads.fast_compute_wait_events, Some(24), "each consumed upload is waited for");
    close(&ledger, &offload);
}

#[test]
fn residents_are_uploaded_once() {
    let (ledger, offload) = attach(6, 5 * UNIT, 2);
    let order: Vec<u64> = (0..6).collect();
    for _ in 0..3 {
        pass(&offload, &order).expect("a pass");
    }
    let residents = offload.units().iter().filter(|unit| unit.resident).count() as u64;
    assert!(residents >= 2, "{:?}", offload.units());
    let vmm = vmm(&offload);
    assert_eq!(vmm.arena.fast_faults, Some(residents));
    assert_eq!(vmm.arena.fast_signature_hits, Some(residents * 2 * 2), "two tensors each, in two later passes");
    close(&ledger, &offload);
}

#[test]
fn another_order_is_counted_cancels_look_ahead_and_stays_right() {
    let (ledger, offload) = attach(6, 3 * UNIT, 3);
    let (usual, other) = ([0, 1, 2, 3, 4, 5], [0, 2, 1, 5, 3, 4]);
    for order in [usual, usual, other, usual, usual, usual] {
        assert_eq!(pass(&offload, &order).expect("a pass"), reference(&order));
    }
    let vmm = vmm(&offload);
    assert_eq!(vmm.look_ahead.fast_execution_plan_mismatches, Some(2), "to the other order and back");
    assert!(vmm.look_ahead.fast_gpu_prefetch_cancelled_units.expect("count") > 0);
    close(&ledger, &offload);
}

#[test]
fn work_on_a_second_stream_waits_for_its_own_uploads() {
    use ddo_recorder::driver::{Driver, Priority};
    let (ledger, offload) = attach(4, 2 * UNIT, 2);
    let second = ledger.stream_create(Priority::Normal).expect("a stream");
    for _ in 0..20 {
        let state = Arc::new(Mutex::new(1));
        for unit in 0..4 {
            submit(&offload, second, unit, &state).expect("submitted");
        }
        offload.mark_step().expect("a step");
        offload.wait_stream(second).expect("done");
        assert_eq!(*state.lock().expect("jobs do not panic"), reference(&[0, 1, 2, 3]));
    }
    offload.collect().expect("collected");
    ledger.stream_destroy(second).expect("destroyed");
    close(&ledger, &offload);
}

#[test]
fn one_corrupted_streamed_byte_changes_the_result() {
    let (ledger, offload) = attach(6, 2 * UNIT, 2);
    let order: Vec<u64> = (0..6).collect();
    ledger.corrupt_byte(4 * UNIT + 1234);
    assert_ne!(pass(&offload, &order).expect("a pass"), reference(&order));
    assert_eq!(pass(&offload, &order).expect("a pass"), reference(&order), "the next upload is whole again");
    close(&ledger, &offload);
}

#[test]
fn a_ceiling_below_two_slots_is_refused_before_anything_is_taken() {
    let ledger = Ledger::new(options(), 0);
    let config = config(Arc::<Ledger>::clone(&ledger));
    let config = OffloadConfig { ceiling: Ceiling::Bytes(2 * UNIT - 1), residency: ResidencyMode::Classic, ..config };
    let error = enable_offload(component(6), config).expect_err("too small");
    let Error::Refused(refusal) = &error else { panic!("{error}") };
    assert_eq!(
        (refusal.code, refusal.got, refusal.limit, refusal.unit),
        ("weight_ceiling_below_slots", 2 * UNIT - 1, 2 * UNIT, "bytes")
    );
    assert!(ledger.seen().calls.is_empty(), "{:?}", ledger.seen().calls);
}

#[test]
fn settings_that_cannot_be_met_are_typed() {
    let try_with = |change: &dyn Fn(&mut OffloadConfig)| {
        let mut config = config(Ledger::new(options(), u64::MAX));
        change(&mut config);
        enable_offload(component(3), config).map(|_| ()).expect_err("refused").code()
    };
    assert_eq!(try_with(&|c| c.slots = 1), "execution_slots_out_of_range");
    assert_eq!(try_with(&|c| c.slots = 65), "execution_slots_out_of_range");
    assert_eq!(try_with(&|c| c.ceiling = Ceiling::Percent(0.0)), "invalid");
    assert_eq!(try_with(&|c| c.source = SourceChoice::Mapped), "unsupported");
    assert_eq!("disk".parse::<SourceChoice>().expect_err("no source").code(), "invalid");
    let empty = ddo_recorder::Component::from_tensors("none", Vec::new(), |_| None).expect("an empty tree");
    assert_eq!(enable_offload(empty, config(Ledger::new(options(), 0))).map(|_| ()).expect_err("no units").code(), "invalid");
}

#[test]
fn more_guards_than_slots_are_refused_not_waited_for() {
    let (ledger, offload) = attach(6, 2 * UNIT, 2);
    let guards = [0, 1].map(|unit| offload.unit(id(&offload, unit)).expect("a slot"));
    let error = offload.unit(id(&offload, 2)).expect_err("both slots are in hand");
    assert_eq!(error.code(), "execution_slots_in_hand");
    assert_eq!(offload.close(Duration::from_secs(1)).expect_err("guards").code(), "guards_in_hand");
    drop(guards);
    assert!(offload.unit(id(&offload, 2)).is_ok());
    close(&ledger, &offload);
}

#[test]
fn a_view_outside_its_pin_cannot_be_read() {
    let (ledger, offload) = attach(6, 2 * UNIT, 2);
    let stale = offload.unit(id(&offload, 0)).expect("a unit").view("a.weight").expect("a tensor");
    let guard = offload.unit(id(&offload, 1)).expect("a unit");
    assert_eq!(guard.view("c.weight").expect_err("no such tensor").code(), "unknown_name");
    offload
        .launch(offload.compute_stream(), guard, Job::host(move |context| context.slice::<f32>(&stale).map(|_| ())))
        .expect("queued");
    let error = offload.wait_stream(offload.compute_stream()).expect_err("the job failed");
    assert_eq!(error.code(), "job_failed");
    assert!(error.to_string().contains("not pinned"), "{error}");
    close(&ledger, &offload);
}

#[test]
fn a_failing_or_panicking_job_is_an_error_and_the_session_goes_on() {
    let (ledger, offload) = attach(4, 2 * UNIT, 2);
    for job in [Job::host(|_| Err(ddo_recorder::JobError::new("no"))), Job::host(|_| panic!("never mind"))] {
        let guard = offload.unit(id(&offload, 0)).expect("a unit");
        offload.launch(offload.compute_stream(), guard, job).expect("queued");
        assert_eq!(offload.wait_stream(offload.compute_stream()).expect_err("failed").code(), "job_failed");
    }
    assert_eq!(pass(&offload, &[0, 1, 2, 3]).expect("a pass"), reference(&[0, 1, 2, 3]));
    close(&ledger, &offload);
    assert_eq!(offload.unit(id(&offload, 0)).expect_err("closed").code(), "closed");
    assert_eq!(offload.close(Duration::ZERO).expect_err("twice").code(), "closed");
}

#[test]
fn closing_before_work_ends_keeps_its_memory() {
    let (ledger, offload) = attach(4, 2 * UNIT, 2);
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let guard = offload.unit(id(&offload, 0)).expect("a unit");
    let job = Job::host(move |_| wait.recv().map_err(|error| ddo_recorder::JobError::new(error.to_string())));
    offload.launch(offload.compute_stream(), guard, job).expect("queued");
    let report = offload.close(Duration::from_millis(20)).expect("reports");
    assert_eq!(report.quarantined_bytes, 2 * UNIT);
    assert!(report.errors.iter().any(|error| error.contains("in flight")), "{report:?}");
    assert_eq!(ledger.seen().mapped_bytes, 2 * UNIT, "nothing was unmapped under the job");
    release.send(()).expect("the job still waits");
    offload.wait_stream(offload.compute_stream()).expect("the job ends well");
}

#[test]
fn dropping_an_idle_session_gives_everything_back() {
    let (ledger, offload) = attach(4, 2 * UNIT, 2);
    pass(&offload, &[0, 1, 2, 3]).expect("a pass");
    offload.wait_idle().expect("idle");
    drop(offload);
    ledger.seen().assert_balanced();
}

#[test]
fn a_refused_request_leaves_the_learned_order_alone() {
    let (ledger, offload) = attach(6, 2 * UNIT, 2);
    let order: Vec<u64> = (0..6).collect();
    pass(&offload, &order).expect("a pass");
    let guards = [0, 1].map(|unit| offload.unit(id(&offload, unit)).expect("a slot"));
    assert_eq!(offload.unit(id(&offload, 2)).expect_err("both slots are in hand").code(), "execution_slots_in_hand");
    let state = Arc::new(Mutex::new(1));
    drop(guards);
    for unit in 2..6 {
        submit(&offload, offload.compute_stream(), unit, &state).expect("submitted");
    }
    offload.mark_step().expect("a step");
    assert_eq!(vmm(&offload).look_ahead.fast_execution_plan_mismatches, Some(0), "0 and 1 in hand, then 2 to 5, as learned");
    offload.wait_idle().expect("idle");
    close(&ledger, &offload);
}

#[test]
fn closing_waits_for_other_streams_and_tells_late_failures() {
    use ddo_recorder::driver::{Driver, Priority};
    let (ledger, offload) = attach(4, 2 * UNIT, 2);
    let second = ledger.stream_create(Priority::Normal).expect("a stream");
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let guard = offload.unit(id(&offload, 0)).expect("a unit");
    let job = Job::host(move |_| {
        wait.recv().map_err(|_| ddo_recorder::JobError::new("never released")).and(Err(ddo_recorder::JobError::new("late")))
    });
    offload.launch(second, guard, job).expect("queued");
    let closing = {
        let offload = offload.clone();
        // The unit that is asked for below may be in hand at this moment: then again.
        std::thread::spawn(move || {
            loop {
                match offload.close(Duration::MAX) {
                    Ok(report) => break report,
                    Err(error) => assert_eq!(error.code(), "guards_in_hand"),
                }
            }
        })
    };
    // A snapshot is not held up by a close that waits, and shows when the close has begun.
    while offload.unit(id(&offload, 1)).map(drop).is_ok() {
        std::thread::yield_now();
    }
    offload.metrics_snapshot(SnapshotOptions::default()).expect("a report while closing");
    release.send(()).expect("the job waits");
    let report = closing.join().expect("no panic");
    assert_eq!(report.quarantined_bytes, 0);
    assert!(report.errors.iter().any(|error| error.contains("late")), "{report:?}");
    ledger.stream_destroy(second).expect("destroyed");
    ledger.seen().assert_balanced();
}
