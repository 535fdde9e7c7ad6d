//! Units that come and go in the arena: same bits under any ceiling, every row against an independent count, every cause of
//! a refusal told apart, and memory outside the ceiling only where it is allowed, and counted.

use crate::support::ledger::Ledger;
use crate::support::mosaic::Mosaic;
use ddo_recorder::driver::{Driver, Faulty, HostMode, Script};
use ddo_recorder::{
    Ceiling, DriverErrorKind, Error, HostDriver, HostOptions, Job, LaunchScope, Offload, OffloadConfig, ResidencyMode,
    SnapshotOptions, enable_offload,
};
use ddo_schemas::sections::Vmm;
use std::sync::{Arc, Mutex};
use std::time::Duration;

pub(crate) const PAGE: u64 = 4096;

pub(crate) fn stepped(device_bytes: u64) -> Arc<HostDriver> {
    let options = HostOptions {
        mode: HostMode::Stepped,
        page_bytes: PAGE,
        link_bytes_per_second: Some(1 << 30),
        device_bytes,
        ..HostOptions::default()
    };
    HostDriver::new(options).expect("a host driver")
}

/// A component of units of two pages each, attached with the given settings.
pub(crate) struct Attached {
    pub(crate) mosaic: Mosaic,
    ledger: Arc<Ledger>,
    pub(crate) offload: Offload,
}

impl Attached {
    pub(crate) fn new(
        units: usize,
        inner: Arc<dyn Driver>,
        mapped_at_most: u64,
        change: impl FnOnce(&mut OffloadConfig),
    ) -> Attached {
        let mosaic = Mosaic::even(units, 2, PAGE);
        let ledger = Ledger::over(inner, mapped_at_most);
        let config = OffloadConfig::new(Arc::<Ledger>::clone(&ledger));
        let mut config = OffloadConfig { residency: ResidencyMode::Demand, look_ahead: false, ..config };
        change(&mut config);
        let offload = enable_offload(mosaic.component(), config).expect("attached");
        Attached { mosaic, ledger, offload }
    }

    pub(crate) fn under(units: usize, pages: u64, look_ahead: bool) -> Attached {
        Attached::new(units, stepped(1 << 30), pages * PAGE, |config| {
            (config.ceiling, config.look_ahead) = (Ceiling::Bytes(pages * PAGE), look_ahead);
        })
    }

    /// One pass; with `wait`, each unit's work ends before the next is asked for.
    pub(crate) fn pass(&self, order: &[usize], wait: bool) -> u64 {
        let state = Arc::new(Mutex::new(1));
        for unit in order {
            let lasting = Duration::from_micros(50);
            self.mosaic.submit(&self.offload, *unit, &state, lasting, LaunchScope::Units).expect("submitted");
            assert_eq!(self.offload.audit(), Vec::<String>::new());
            if wait {
                self.offload.wait_stream(self.offload.compute_stream()).expect("done");
            }
        }
        self.offload.mark_step().expect("a step");
        self.offload.wait_stream(self.offload.compute_stream()).expect("done");
        *state.lock().expect("jobs do not panic")
    }

    pub(crate) fn report(&self) -> ddo_schemas::Report {
        let options = SnapshotOptions { collect_completed: true, timing: None, ..SnapshotOptions::default() };
        self.offload.metrics_snapshot(options).expect("a report")
    }

    fn vmm(&self) -> Vmm {
        self.report().runtime.vmm.expect("attached")
    }

    fn calls(&self, name: &str) -> u64 {
        self.ledger.seen().calls.get(name).copied().unwrap_or_default()
    }

    pub(crate) fn close(self) {
        self.offload.wait_idle().expect("idle");
        assert_eq!(self.offload.audit(), Vec::<String>::new());
        let report = self.offload.close(Duration::from_secs(10)).expect("closes");
        assert_eq!((report.quarantined_bytes, report.errors.len()), (0, 0), "{report:?}");
        self.ledger.seen().assert_balanced();
    }
}

#[test]
fn every_ceiling_gives_the_same_bits_and_holds() {
    let order: Vec<usize> = (0..6).collect();
    for pages in 2..=13 {
        for look_ahead in [false, true] {
            let attached = Attached::under(6, pages, look_ahead);
            for step in 0..5 {
                assert_eq!(attached.pass(&order, false), attached.mosaic.reference(&order), "step {step} under {pages} pages");
            }
            let report = attached.report();
            let vmm = report.runtime.vmm.expect("attached");
            assert_eq!(report.configuration.residency_mode, "demand");
            assert!(vmm.arena.fast_total_weight_resident_bytes.expect("gauge") <= pages * PAGE);
            assert_eq!(vmm.buffers.fast_execution_buffer_slots, Some(0), "no stream memory");
            assert_eq!(vmm.uploads.fast_upload_bytes, Some(attached.ledger.seen().copied_bytes), "every copied byte is counted");
            attached.close();
        }
    }
}

#[test]
fn rows_of_the_arena_agree_with_what_the_driver_saw() {
    let attached = Attached::under(6, 8, false);
    let order: Vec<usize> = (0..6).collect();
    for _ in 0..3 {
        attached.pass(&order, true);
    }
    let vmm = attached.vmm();
    // Twelve pages under eight, in a circle: the least recently used page is always the one that is needed next.
    assert_eq!(vmm.uploads.fast_uploads, Some(36), "two tensors a unit, six units, three passes");
    assert_eq!((vmm.arena.fast_faults, vmm.materializations), (Some(18), Some(18)));
    assert_eq!(vmm.arena.fast_arena_materialized_pages, Some(attached.calls("memory_map")));
    assert_eq!(vmm.arena.fast_arena_evicted_pages, Some(attached.calls("memory_unmap")));
    assert_eq!(vmm.arena.fast_arena_reused_pages, Some(28), "36 pages got memory, the first eight new one");
    assert_eq!((attached.calls("memory_create"), vmm.evictions), (8, Some(14)), "a unit's two pages leave together");
    assert_eq!(vmm.arena.fast_resident_bytes, Some(8 * PAGE));
    assert_eq!((vmm.arena.fast_signature_hits, vmm.admission.fast_capacity_event_waits), (Some(0), Some(0)));
    let again = [5, 4, 5];
    attached.pass(&again, true);
    assert_eq!(attached.vmm().arena.fast_signature_hits, Some(6), "three units of two tensors were still there");
    attached.close();
}

#[test]
fn a_component_that_fits_is_uploaded_once_and_never_evicted() {
    let attached = Attached::under(4, 8, true);
    for _ in 0..3 {
        attached.pass(&[0, 1, 2, 3], false);
    }
    let vmm = attached.vmm();
    assert_eq!((vmm.uploads.fast_uploads, vmm.evictions, vmm.arena.fast_arena_evicted_pages), (Some(8), Some(0), Some(0)));
    assert_eq!(attached.report().runtime.state.planner_decisions.vmm_streamed_bytes_per_pass, 0);
    attached.close();
}

#[test]
fn a_host_far_ahead_waits_for_the_oldest_work_alone() {
    let attached = Attached::under(6, 4, false);
    let order: Vec<usize> = (0..6).collect();
    for _ in 0..2 {
        assert_eq!(attached.pass(&order, false), attached.mosaic.reference(&order));
    }
    let waits = attached.vmm().admission.fast_capacity_event_waits;
    assert_eq!(waits, Some(attached.calls("event_wait")), "each wait is one event");
    assert_eq!(waits, Some(8), "two units fit: the third to the sixth of each pass wait");
    assert_eq!(attached.calls("context_synchronize"), 0, "never for the whole device");
    attached.close();
}

#[test]
fn look_ahead_brings_units_in_without_waiting_and_a_refusal_is_a_skip() {
    let attached = Attached::under(6, 6, true);
    let order: Vec<usize> = (0..6).collect();
    for _ in 0..4 {
        assert_eq!(attached.pass(&order, true), attached.mosaic.reference(&order));
    }
    let vmm = attached.vmm();
    let ahead = vmm.look_ahead.fast_gpu_prefetch_units.expect("count");
    let hits = vmm.look_ahead.fast_gpu_prefetch_hits.expect("count");
    let in_flight = vmm.look_ahead.fast_gpu_prefetch_in_flight_units.expect("gauge");
    assert_eq!(hits, 18, "every unit of the second to the fourth pass");
    assert_eq!(ahead, hits + vmm.look_ahead.fast_gpu_prefetch_cancelled_units.expect("count") + in_flight);
    assert!(vmm.look_ahead.fast_gpu_prefetch_capacity_skips.expect("count") > 0);
    assert_eq!((vmm.admission.fast_capacity_event_waits, attached.calls("event_wait")), (Some(0), 0));
    assert_eq!(vmm.admission.fast_fault_failures, Some(0), "a skip is no failure");
    attached.close();
}

#[test]
fn another_order_cancels_look_ahead_behind_its_uploads() {
    let attached = Attached::under(6, 6, true);
    let (usual, other) = ([0, 1, 2, 3, 4, 5], [0, 2, 1, 5, 3, 4]);
    for order in [usual, usual, other, usual, usual] {
        assert_eq!(attached.pass(&order, false), attached.mosaic.reference(&order));
    }
    let vmm = attached.vmm();
    assert_eq!(vmm.look_ahead.fast_execution_plan_mismatches, Some(2), "to the other order and back");
    assert!(vmm.look_ahead.fast_gpu_prefetch_cancelled_units.expect("count") > 0);
    attached.close();
}

#[test]
fn a_ceiling_below_the_largest_unit_is_refused_and_at_it_is_admitted() {
    let mosaic = Mosaic { sizes: vec![vec![PAGE, 100], vec![PAGE]] };
    let attach = |ceiling: u64, fault_fallback: bool| {
        let config = OffloadConfig::new(stepped(1 << 30));
        let config = OffloadConfig { ceiling: Ceiling::Bytes(ceiling), residency: ResidencyMode::Demand, ..config };
        enable_offload(mosaic.component(), OffloadConfig { fault_fallback, ..config })
    };
    match attach(2 * PAGE - 1, false).expect_err("too small") {
        Error::Refused(refusal) => {
            assert_eq!((refusal.code, refusal.got, refusal.limit), ("weight_ceiling_below_unit", 2 * PAGE - 1, 2 * PAGE));
        }
        other => panic!("{other}"),
    }
    for offload in [attach(2 * PAGE, false), attach(2 * PAGE - 1, true)] {
        offload.expect("attached").close(Duration::from_secs(1)).expect("closes");
    }
    let config = OffloadConfig { fault_fallback: true, ..OffloadConfig::new(stepped(1 << 30)) };
    let error = enable_offload(mosaic.component(), config).expect_err("no such mode").to_string();
    assert!(error.contains("demand") && error.contains("auto"), "{error}");
}

/// Two guards hold all memory: a third unit is a refusal with numbers, or memory outside the ceiling where that is allowed.
#[test]
fn what_the_ceiling_declines_is_refused_or_a_counted_temporary() {
    for fault_fallback in [false, true] {
        let attached = Attached::new(3, stepped(1 << 30), 6 * PAGE, |config| {
            (config.ceiling, config.fault_fallback) = (Ceiling::Bytes(4 * PAGE), fault_fallback);
        });
        let unit = |unit: usize| attached.offload.unit(attached.mosaic.id(&attached.offload, unit));
        let held = [unit(0).expect("fits"), unit(1).expect("fits")];
        let third = unit(2);
        let vmm = attached.vmm();
        assert_eq!((vmm.admission.fast_fault_failures, vmm.admission.fast_capacity_admission_failures), (Some(1), Some(1)));
        assert_eq!(vmm.arena.fast_total_weight_resident_bytes, Some(4 * PAGE));
        match third {
            Err(Error::Refused(refusal)) if !fault_fallback => {
                assert_eq!((refusal.code, refusal.got, refusal.limit), ("arena_ceiling", 6 * PAGE, 4 * PAGE));
                assert_eq!((vmm.admission.fast_temporary_tensors, vmm.admission.fast_temporary_peak_bytes), (Some(0), Some(0)));
            }
            Ok(guard) if fault_fallback => {
                assert_eq!((vmm.admission.fast_temporary_tensors, vmm.admission.fast_temporary_bytes), (Some(2), Some(2 * PAGE)));
                assert_eq!(vmm.admission.fast_temporary_resident_bytes, Some(2 * PAGE));
                assert_eq!((vmm.uploads.fast_upload_bytes, vmm.uploads.fast_dma_enqueue_bytes), (Some(4 * PAGE), Some(6 * PAGE)));
                let state = Arc::new(Mutex::new(1));
                let jobs: Vec<Job> =
                    (0..2).map(|tensor| attached.mosaic.fold_job(&guard, tensor, &state).expect("a view")).collect();
                for job in jobs {
                    attached.offload.launch_part(attached.offload.compute_stream(), &guard, job).expect("launched");
                }
                drop(guard);
                attached.offload.wait_idle().expect("idle");
                assert_eq!(*state.lock().expect("jobs do not panic"), attached.mosaic.reference(&[2]));
                let after = attached.vmm();
                assert_eq!(after.admission.fast_temporary_resident_bytes, Some(0), "given back once its work has ended");
                assert_eq!(after.admission.fast_temporary_peak_bytes, Some(2 * PAGE));
            }
            other => panic!("{other:?}"),
        }
        drop(held);
        attached.close();
    }
}

#[test]
fn a_temporary_that_nobody_launches_lives_until_its_upload_has_ended() {
    let attached = Attached::new(2, stepped(1 << 30), 4 * PAGE, |config| {
        (config.ceiling, config.fault_fallback) = (Ceiling::Bytes(2 * PAGE), true);
    });
    let first = attached.offload.unit(attached.mosaic.id(&attached.offload, 0)).expect("fits");
    drop(attached.offload.unit(attached.mosaic.id(&attached.offload, 1)).expect("a temporary"));
    assert_eq!(attached.ledger.seen().mapped_bytes, 4 * PAGE, "its copies may still run");
    drop(first);
    attached.offload.wait_idle().expect("idle");
    attached.offload.collect().expect("collected");
    assert_eq!(attached.ledger.seen().mapped_bytes, 2 * PAGE);
    attached.close();
}

#[test]
fn the_reserve_of_device_memory_is_a_cause_of_its_own_with_an_exact_limit() {
    for (reserve, granted) in [(16 * PAGE - 2 * PAGE, true), (16 * PAGE - 2 * PAGE + 1, false)] {
        let attached = Attached::new(3, stepped(16 * PAGE), 16 * PAGE, |config| {
            (config.ceiling, config.device_reserve_bytes) = (Ceiling::Bytes(4 * PAGE), reserve);
        });
        let unit = attached.offload.unit(attached.mosaic.id(&attached.offload, 0));
        let causes = |vmm: &Vmm| {
            let Vmm { admission, .. } = vmm;
            let (reserve, ceiling) = (admission.fast_guard_admission_failures, admission.fast_capacity_admission_failures);
            (reserve, ceiling, admission.fast_cuda_admission_failures)
        };
        match unit {
            Ok(guard) => {
                assert!(granted);
                assert_eq!(causes(&attached.vmm()), (Some(0), Some(0), Some(0)));
                drop(guard);
                // The second unit finds no room beside the reserve, and takes the pages of the first.
                attached.pass(&[1, 2, 0], true);
                assert_eq!(attached.vmm().arena.fast_resident_bytes, Some(2 * PAGE));
            }
            Err(Error::Refused(refusal)) => {
                assert!(!granted);
                assert_eq!((refusal.code, refusal.got, refusal.limit), ("device_reserve", 2 * PAGE, 2 * PAGE - 1));
                assert_eq!(causes(&attached.vmm()), (Some(1), Some(0), Some(0)));
                assert_eq!(attached.report().configuration.device_reserve_bytes, Some(reserve));
            }
            Err(other) => panic!("{other}"),
        }
        attached.close();
    }
}

/// Out of memory on the device: idle pages serve first, and a refusal comes only when there are none.
#[test]
fn a_device_without_memory_gives_idle_pages_to_others_and_then_refuses() {
    let faulty = Faulty::new(stepped(1 << 30), Script::default());
    let attached = Attached::new(4, Arc::<Faulty>::clone(&faulty), 8 * PAGE, |config| {
        config.ceiling = Ceiling::Bytes(7 * PAGE);
    });
    let full = |calls: usize| {
        let answers = vec![Some(DriverErrorKind::OutOfMemory); calls].into();
        Script { by_name: [("memory_create", answers)].into(), ..Script::default() }
    };
    attached.pass(&[0], true);
    faulty.follow(full(1));
    assert_eq!(attached.pass(&[1], true), attached.mosaic.reference(&[1]));
    let vmm = attached.vmm();
    assert_eq!((vmm.arena.fast_arena_reused_pages, vmm.admission.fast_cuda_admission_failures), (Some(2), Some(0)));
    let held = attached.offload.unit(attached.mosaic.id(&attached.offload, 1)).expect("it is there");
    faulty.follow(full(2));
    let error = attached.offload.unit(attached.mosaic.id(&attached.offload, 2)).expect_err("no idle page");
    assert_eq!(error.code(), "device_memory", "{error}");
    let vmm = attached.vmm();
    assert_eq!((vmm.admission.fast_fault_failures, vmm.admission.fast_cuda_admission_failures), (Some(1), Some(1)));
    drop(held);
    faulty.follow(Script::default());
    assert_eq!(attached.pass(&[2, 3, 0], true), attached.mosaic.reference(&[2, 3, 0]), "the session goes on");
    attached.close();
}

/// Uploads into the arena pass through the upload stream's scopes; those into slots do not.
#[test]
fn scopes_of_the_upload_stream_count_arena_uploads() {
    let attached = Attached::under(4, 4, false);
    attached.pass(&[0, 1, 2, 3], true);
    assert_eq!(attached.vmm().uploads.fast_upload_stream_scope_calls, Some(4));
    attached.close();
    let slots = Attached::new(4, stepped(1 << 30), 4 * PAGE, |config| {
        (config.ceiling, config.residency) = (Ceiling::Bytes(4 * PAGE), ResidencyMode::Classic);
    });
    slots.pass(&[0, 1, 2, 3], true);
    let uploads = slots.vmm().uploads;
    assert_eq!(
        (uploads.fast_upload_stream_scope_calls, uploads.fast_upload_stream_body_seconds.map(|s| s.0)),
        (Some(0), Some(0.0))
    );
    slots.close();
}

/// The ceiling is no bound, the device is: units come and go all the same.
#[test]
fn a_device_smaller_than_the_ceiling_is_shared_by_units_that_come_and_go() {
    let attached = Attached::new(6, stepped(8 * PAGE), 8 * PAGE, |_| ());
    let order: Vec<usize> = (0..6).collect();
    for _ in 0..2 {
        assert_eq!(attached.pass(&order, true), attached.mosaic.reference(&order));
    }
    let vmm = attached.vmm();
    assert!(vmm.arena.fast_arena_evicted_pages > Some(0) && vmm.arena.fast_resident_bytes <= Some(8 * PAGE));
    assert_eq!(vmm.admission.fast_fault_failures, Some(0));
    attached.close();
}

/// A host that waits for memory holds nothing in hand: the session can be closed, and the wait ends with it.
#[test]
fn closing_ends_the_wait_of_a_unit_for_memory_in_use() {
    let threaded = HostDriver::new(HostOptions { page_bytes: PAGE, ..HostOptions::default() }).expect("a host driver");
    let attached = Attached::new(2, threaded, 2 * PAGE, |config| config.ceiling = Ceiling::Bytes(2 * PAGE));
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let guard = attached.offload.unit(attached.mosaic.id(&attached.offload, 0)).expect("fits");
    let job = Job::host(move |_| wait.recv().map_err(|error| ddo_recorder::JobError::new(error.to_string())));
    attached.offload.launch(attached.offload.compute_stream(), guard, job).expect("queued");
    let (offload, id) = (attached.offload.clone(), attached.mosaic.id(&attached.offload, 1));
    let waiting = std::thread::spawn(move || offload.unit(id).map(drop).expect_err("closed").code());
    while attached.calls("event_wait") == 0 {
        std::thread::yield_now();
    }
    let report = attached.offload.close(Duration::from_millis(20)).expect("nothing is in hand");
    assert!(report.errors.iter().any(|error| error.contains("in flight")), "{report:?}");
    release.send(()).expect("the job waits");
    assert_eq!(waiting.join().expect("no panic"), "closed");
    attached.offload.wait_stream(attached.offload.compute_stream()).expect("the job ends well");
}
