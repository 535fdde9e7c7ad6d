//! Parts of units in a stream ring, on the host driver: same bits under any ceiling, refusals typed, rows that add up.

use crate::support::ledger::Ledger;
use crate::support::mosaic::Mosaic;
use ddo_recorder::{
    Ceiling, Error, HostOptions, Job, LaunchScope, Offload, OffloadConfig, ResidencyMode, SnapshotOptions, enable_offload,
};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PAGE: u64 = 4096;

fn options() -> HostOptions {
    HostOptions { page_bytes: PAGE, ..HostOptions::default() }
}

fn settings(ledger: &Arc<Ledger>, ceiling: u64, launches: LaunchScope) -> OffloadConfig {
    OffloadConfig {
        ceiling: Ceiling::Bytes(ceiling),
        residency: ResidencyMode::Parts,
        launches,
        part_bytes: 1,
        ..OffloadConfig::new(Arc::<Ledger>::clone(ledger))
    }
}

fn attach(mosaic: &Mosaic, ceiling: u64, launches: LaunchScope) -> (Arc<Ledger>, Offload) {
    let ledger = Ledger::new(options(), ceiling);
    let offload = enable_offload(mosaic.component(), settings(&ledger, ceiling, launches)).expect("attached");
    (ledger, offload)
}

fn pass(mosaic: &Mosaic, offload: &Offload, order: &[usize], scope: LaunchScope) -> u64 {
    let state = Arc::new(Mutex::new(1));
    for unit in order {
        mosaic.submit(offload, *unit, &state, Duration::ZERO, scope).expect("submitted");
    }
    offload.mark_step().expect("a step");
    offload.wait_stream(offload.compute_stream()).expect("done");
    *state.lock().expect("jobs do not panic")
}

fn report(offload: &Offload) -> ddo_schemas::Report {
    offload
        .metrics_snapshot(SnapshotOptions { collect_completed: true, timing: None, ..SnapshotOptions::default() })
        .expect("a report")
}

fn vmm(offload: &Offload) -> ddo_schemas::sections::Vmm {
    report(offload).runtime.vmm.expect("attached")
}

fn close(ledger: &Ledger, offload: &Offload) {
    offload.wait_idle().expect("idle");
    assert_eq!(offload.audit(), Vec::<String>::new());
    let report = offload.close(Duration::from_secs(10)).expect("closes");
    assert_eq!((report.quarantined_bytes, report.errors.len()), (0, 0), "{report:?}");
    ledger.seen().assert_balanced();
}

#[test]
fn every_ceiling_and_scope_gives_the_same_bits_and_holds() {
    let mosaic = Mosaic { sizes: vec![vec![5000, 100, 9000], vec![4096; 4], vec![12000], vec![1, 2, 3, 8192]] };
    let order = [0, 1, 2, 3];
    for scope in [LaunchScope::Units, LaunchScope::Parts] {
        for pages in 4..20 {
            let ceiling = pages * PAGE + 17;
            let (ledger, offload) = attach(&mosaic, ceiling, scope);
            for step in 0..4 {
                let got = pass(&mosaic, &offload, &order, scope);
                assert_eq!(got, mosaic.reference(&order), "step {step}, {pages} pages, {scope:?}");
            }
            offload.wait_idle().expect("idle");
            let vmm = vmm(&offload);
            assert!(vmm.arena.fast_total_weight_resident_bytes.expect("gauge") <= ceiling);
            assert_eq!((vmm.tickets.fast_transfer_live_tickets, vmm.arena.fast_pinned_units), (Some(0), Some(0)));
            assert_eq!(ledger.seen().copied_bytes, vmm.uploads.fast_upload_bytes.expect("count"), "every copied byte is counted");
            close(&ledger, &offload);
        }
    }
}

#[test]
fn rows_count_parts_and_units_and_leave_slots_out() {
    // Six units of three pages each; the ring holds two parts, so no unit is ever wholly ahead.
    let mosaic = Mosaic::even(6, 3, PAGE);
    let order = [0, 1, 2, 3, 4, 5];
    let (ledger, offload) = attach(&mosaic, 2 * PAGE, LaunchScope::Parts);
    for _ in 0..4 {
        pass(&mosaic, &offload, &order, LaunchScope::Parts);
    }
    offload.wait_idle().expect("idle");
    let report = report(&offload);
    let (state, vmm) = (report.runtime.state.planner_decisions, report.runtime.vmm.expect("attached"));
    assert_eq!((state.vmm_streamed_parts, state.vmm_resident_parts), (Some(18), Some(0)));
    assert_eq!((state.vmm_look_ahead_depth, state.vmm_look_ahead_wraps), (None, true));
    assert_eq!((vmm.buffers.fast_execution_buffer_slots, vmm.buffers.fast_execution_buffer_slot_bytes), (None, None));
    assert_eq!(vmm.buffers.fast_execution_buffer_capacity_bytes, Some(2 * PAGE));
    assert_eq!((vmm.parts.fast_stream_ring_bytes, vmm.arena.fast_fault_ceiling_bytes), (Some(2 * PAGE), Some(0)));
    let uploads = vmm.parts.fast_part_uploads.expect("count");
    let ahead = vmm.parts.fast_part_prefetch_in_flight_parts.expect("gauge");
    assert_eq!((uploads, ahead), (4 * 18 + ahead, 2), "four passes, and what is ahead of the fifth");
    assert_eq!(vmm.buffers.fast_execution_buffer_bytes, Some(uploads * PAGE));
    assert_eq!(vmm.buffers.fast_execution_buffer_uploads, Some(uploads / 3), "units, once all their parts are enqueued");
    assert_eq!(vmm.tickets.fast_transfer_batch_submissions, Some(uploads / 3), "one batch a unit");
    assert_eq!(vmm.parts.fast_part_prefetch_hits, Some(3 * 18), "every part of the three passes with an order");
    assert_eq!(vmm.uploads.fast_compute_wait_events, Some(4 * 18), "each part is waited for");
    assert_eq!(vmm.parts.fast_part_releases, Some(4 * 18));
    assert_eq!((vmm.look_ahead.fast_gpu_prefetch_units, vmm.look_ahead.fast_gpu_prefetch_hits), (Some(0), Some(0)));
    assert_eq!(vmm.parts.fast_gpu_prefetch_partial_units, Some(18), "two of three parts were there");
    assert_eq!(report.configuration.residency_mode, "parts");
    assert_eq!(report.configuration.launch_scope.as_deref(), Some("parts"));
    close(&ledger, &offload);
}

#[test]
fn whole_units_in_the_ring_are_hits_and_the_pass_wraps() {
    let mosaic = Mosaic::even(6, 3, PAGE);
    let order = [0, 1, 2, 3, 4, 5];
    let (ledger, offload) = attach(&mosaic, 7 * PAGE, LaunchScope::Units);
    for _ in 0..4 {
        pass(&mosaic, &offload, &order, LaunchScope::Units);
    }
    offload.wait_idle().expect("idle");
    let vmm = vmm(&offload);
    let (units, hits) =
        (vmm.look_ahead.fast_gpu_prefetch_units.expect("count"), vmm.look_ahead.fast_gpu_prefetch_hits.expect("count"));
    assert_eq!(hits, 18, "three passes of six, the first of each found by wrapping");
    assert_eq!(units, hits + vmm.look_ahead.fast_gpu_prefetch_in_flight_units.expect("gauge"));
    assert_eq!(vmm.parts.fast_part_releases, Some(0));
    close(&ledger, &offload);
}

#[test]
fn parts_stay_where_their_unit_does_not_fit() {
    let mosaic = Mosaic::even(4, 4, PAGE);
    let order = [0, 1, 2, 3];
    let (ledger, offload) = attach(&mosaic, 10 * PAGE, LaunchScope::Parts);
    for _ in 0..3 {
        assert_eq!(pass(&mosaic, &offload, &order, LaunchScope::Parts), mosaic.reference(&order));
    }
    offload.wait_idle().expect("idle");
    let streamed: u64 = offload.units().iter().map(|unit| unit.streamed_bytes).sum();
    assert_eq!(streamed, 8 * PAGE, "two pages of ring, eight of residents");
    assert!(offload.units().iter().all(|unit| !unit.resident && unit.streamed_bytes < unit.bytes), "{:?}", offload.units());
    let vmm = vmm(&offload);
    assert_eq!(
        (vmm.arena.fast_faults, vmm.arena.fast_arena_materialized_pages),
        (Some(8), Some(8)),
        "no page is shared or wasted"
    );
    assert_eq!(vmm.arena.fast_signature_hits, Some(2 * 8), "residents, in two later passes");
    close(&ledger, &offload);
}

#[test]
fn the_mode_that_streams_less_is_chosen_and_said() {
    let mosaic = Mosaic::even(6, 4, PAGE);
    let mode = |residency, launches, pages: u64| {
        let ledger = Ledger::new(options(), pages * PAGE);
        let config = OffloadConfig { residency, ..settings(&ledger, pages * PAGE, launches) };
        let offload = enable_offload(mosaic.component(), config).expect("attached");
        let streamed = report(&offload).runtime.state.planner_decisions.vmm_streamed_bytes_per_pass;
        let configuration = report(&offload).configuration;
        close(&ledger, &offload);
        (configuration.residency_mode, configuration.requested_residency_mode.expect("said"), streamed / PAGE)
    };
    assert_eq!(mode(ResidencyMode::Auto, LaunchScope::Parts, 12), ("parts".into(), "auto".into(), 14));
    assert_eq!(mode(ResidencyMode::Classic, LaunchScope::Parts, 12), ("classic".into(), "classic".into(), 20));
    assert_eq!(mode(ResidencyMode::Auto, LaunchScope::Units, 24).0, "classic", "all of it stays, and nothing differs");
    assert_eq!(mode(ResidencyMode::Auto, LaunchScope::Units, 4).0, "parts", "two slots do not fit");
}

#[test]
fn a_ring_that_cannot_hold_a_launch_is_refused_before_anything_is_taken() {
    let mosaic = Mosaic::even(3, 4, PAGE);
    for (scope, limit) in [(LaunchScope::Units, 4 * PAGE), (LaunchScope::Parts, PAGE)] {
        let ledger = Ledger::new(options(), limit);
        let error = enable_offload(mosaic.component(), settings(&ledger, limit - 1, scope)).expect_err("too small");
        let Error::Refused(refusal) = &error else { panic!("{error}") };
        let numbers = (refusal.code, refusal.got, refusal.limit, refusal.unit);
        assert_eq!(numbers, ("weight_ceiling_below_ring", limit - 1, limit, "bytes"));
        assert!(ledger.seen().calls.is_empty(), "{:?}", ledger.seen().calls);
        let (ledger, offload) = attach(&mosaic, limit, scope);
        assert_eq!(pass(&mosaic, &offload, &[0, 1, 2], scope), mosaic.reference(&[0, 1, 2]), "at the limit it runs");
        close(&ledger, &offload);
    }
    assert_eq!("ring".parse::<ResidencyMode>().expect_err("no mode").code(), "invalid");
}

#[test]
fn more_in_hand_than_the_ring_holds_is_refused_not_waited_for() {
    let mosaic = Mosaic::even(3, 4, PAGE);
    let (ledger, offload) = attach(&mosaic, 2 * PAGE, LaunchScope::Parts);
    let guard = offload.unit(mosaic.id(&offload, 0)).expect("nothing is taken yet");
    let first = guard.view("t0.weight").expect("a part");
    guard.view("t1.weight").expect("another");
    let error = guard.view("t2.weight").expect_err("both pages are in hand");
    let Error::Refused(refusal) = &error else { panic!("{error}") };
    assert_eq!((refusal.code, refusal.got, refusal.limit), ("stream_ring_in_hand", 3 * PAGE, 2 * PAGE));
    assert_eq!(guard.view("t0.weight").expect("still in hand"), first);
    guard.release("t1.weight").expect("let go");
    guard.release("t1.weight").expect("twice is once");
    guard.view("t2.weight").expect("room for one");
    assert_eq!(guard.view("t9.weight").expect_err("no such tensor").code(), "unknown_name");
    assert_eq!(offload.close(Duration::from_secs(1)).expect_err("a guard").code(), "guards_in_hand");
    drop(guard);
    close(&ledger, &offload);
}

#[test]
fn a_released_view_cannot_be_read_by_later_work() {
    let mosaic = Mosaic::even(2, 2, PAGE);
    let (ledger, offload) = attach(&mosaic, 3 * PAGE, LaunchScope::Parts);
    let guard = offload.unit(mosaic.id(&offload, 0)).expect("a unit");
    let stale = guard.view("t0.weight").expect("a part");
    guard.release("t0.weight").expect("let go");
    guard.view("t1.weight").expect("a part");
    let job = Job::host(move |context| context.slice::<u8>(&stale).map(|_| ()));
    offload.launch_part(offload.compute_stream(), &guard, job).expect("queued");
    let error = offload.wait_stream(offload.compute_stream()).expect_err("the job failed");
    assert!(error.to_string().contains("not pinned"), "{error}");
    drop(guard);
    close(&ledger, &offload);
}

#[test]
fn tensors_that_travel_together_go_when_all_of_them_are_released() {
    let mosaic = Mosaic { sizes: vec![vec![100, 200, 8000], vec![8000]] };
    let ledger = Ledger::new(options(), 3 * PAGE);
    let config = OffloadConfig { part_bytes: 4000, ..settings(&ledger, 3 * PAGE, LaunchScope::Parts) };
    let offload = enable_offload(mosaic.component(), config).expect("attached");
    let guard = offload.unit(mosaic.id(&offload, 0)).expect("a unit");
    for tensor in 0..3 {
        guard.view(&mosaic.name(tensor)).expect("one part holds all three");
    }
    assert_eq!(vmm(&offload).parts.fast_part_uploads, Some(1));
    for (tensor, released) in [(0, 0), (1, 0), (2, 1)] {
        guard.release(&mosaic.name(tensor)).expect("released");
        assert_eq!(vmm(&offload).parts.fast_part_releases, Some(released));
    }
    guard.view(&mosaic.name(1)).expect("in hand again, where it still lies");
    assert_eq!((vmm(&offload).parts.fast_part_uploads, vmm(&offload).arena.fast_signature_hits), (Some(1), Some(3)));
    drop(guard);
    close(&ledger, &offload);
}

#[test]
fn another_order_of_parts_is_counted_cancels_look_ahead_and_stays_right() {
    let mosaic = Mosaic::even(4, 3, PAGE);
    let (ledger, offload) = attach(&mosaic, 5 * PAGE, LaunchScope::Parts);
    let (usual, other) = ([0, 1, 2, 3], [0, 2, 1, 3]);
    for order in [usual, usual, other, usual, usual] {
        assert_eq!(pass(&mosaic, &offload, &order, LaunchScope::Parts), mosaic.reference(&order));
    }
    let rows = vmm(&offload);
    assert_eq!(rows.look_ahead.fast_execution_plan_mismatches, Some(2), "to the other order and back");
    assert!(rows.parts.fast_part_prefetch_cancelled_parts.expect("count") > 0);
    close(&ledger, &offload);
}

#[test]
fn a_unit_is_laid_out_anew_where_what_is_in_hand_divides_the_ring() {
    // Sixteen places of 512 bytes. Units 0 and 2 are in hand at 0 and 6: five places lie between them, nine behind. The
    // five of unit 3, put first behind unit 2, would leave no stretch of nine.
    let mosaic = Mosaic { sizes: vec![vec![512], vec![5 * 512], vec![512], vec![5 * 512, 9 * 512]] };
    let (ledger, offload) = attach(&mosaic, 2 * PAGE, LaunchScope::Units);
    let guard = |unit| offload.unit(mosaic.id(&offload, unit)).expect("a unit");
    let first = guard(0);
    drop(guard(1));
    let third = guard(2);
    let state = Arc::new(Mutex::new(1));
    mosaic.submit(&offload, 3, &state, Duration::ZERO, LaunchScope::Units).expect("laid out anew");
    assert_eq!(vmm(&offload).parts.fast_stream_ring_restarts, Some(1));
    drop((first, third));
    let order = [0, 1, 2, 3];
    assert_eq!(pass(&mosaic, &offload, &order, LaunchScope::Units), mosaic.reference(&order));
    assert_eq!(*state.lock().expect("done"), mosaic.reference(&[3]));
    close(&ledger, &offload);
}
