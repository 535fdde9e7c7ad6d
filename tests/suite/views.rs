//! Views that are made once, while attaching.
//!
//! Proves: memory lies under every tensor while its view is made and is gone afterwards; groups are as large as the ceiling allows;
//! a group that gets no memory is made one by one, with the same views; a release that fails and a host that fails make the attachment
//! fail and leave nothing; the views are those of later guards; scopes hold the driver calls that they name.

use crate::support::ledger::{Ledger, call_nanoseconds};
use crate::support::mosaic::Mosaic;
use ddo_recorder::driver::{Driver, Faulty, Script};
use ddo_recorder::meter::FakeClock;
use ddo_recorder::{
    Ceiling, DriverErrorKind, HostDriver, HostOptions, JobError, MakeViews, Offload, OffloadConfig, ResidencyMode, Result,
    SnapshotOptions, View, enable_offload,
};
use ddo_schemas::sections::vmm::Views;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PAGE: u64 = 4096;

/// A host that reads the memory behind each view, as a framework would ask about it.
#[derive(Debug)]
struct Looker {
    driver: Arc<dyn Driver>,
    made: Mutex<Vec<(String, View)>>,
    fails_at: Option<usize>,
}

impl MakeViews for Looker {
    fn make(&self, unit: &str, name: &str, view: &View) -> std::result::Result<(), JobError> {
        let read = self.driver.read_device(view.pointer, view.bytes)?;
        assert_eq!(read.len() as u64, view.bytes);
        let mut made = self.made.lock().expect("no test panics here");
        if self.fails_at == Some(made.len()) {
            return Err(JobError::new("no tensor for you"));
        }
        made.push((format!("{unit}.{name}"), *view));
        Ok(())
    }
}

fn looker(driver: &Arc<Ledger>, fails_at: Option<usize>) -> Arc<Looker> {
    Arc::new(Looker { driver: Arc::<Ledger>::clone(driver), made: Mutex::default(), fails_at })
}

const TENSORS: u64 = 8;

/// Five units, 13 pages with what alignment adds.
fn mosaic() -> Mosaic {
    Mosaic { sizes: vec![vec![5000, 700], vec![9000], vec![512, 4096, 6000], vec![9000], vec![9000]] }
}

fn ledger(script: Script) -> Arc<Ledger> {
    let host = HostDriver::new(HostOptions { page_bytes: PAGE, ..HostOptions::default() }).expect("a host driver");
    Ledger::over(Faulty::new(host, script), u64::MAX)
}

fn attach(ledger: &Arc<Ledger>, ceiling: u64, residency: ResidencyMode, maker: &Arc<Looker>) -> Result<Offload> {
    let config = OffloadConfig::new(Arc::<Ledger>::clone(ledger));
    let prepare_views: Option<Arc<dyn MakeViews>> = Some(Arc::<Looker>::clone(maker));
    enable_offload(
        mosaic().component(),
        OffloadConfig { ceiling: Ceiling::Bytes(ceiling), residency, part_bytes: 1, prepare_views, ..config },
    )
}

fn rows(offload: &Offload) -> Views {
    offload.metrics_snapshot(SnapshotOptions::default()).expect("a report").runtime.vmm.expect("attached").views
}

fn counts(offload: &Offload) -> [Option<u64>; 3] {
    let Views { fast_view_prepare_calls, fast_view_create_calls, fast_view_release_calls, .. } = rows(offload);
    [fast_view_prepare_calls, fast_view_create_calls, fast_view_release_calls]
}

/// Names with offsets from the first view.
fn offsets(maker: &Looker) -> Vec<(String, u64)> {
    let made = maker.made.lock().expect("no test panics here");
    let first = made[0].1.pointer.0;
    made.iter().map(|(name, view)| (name.clone(), view.pointer.0 - first)).collect()
}

fn close(ledger: &Ledger, offload: &Offload) {
    let closed = offload.close(Duration::from_secs(10)).expect("closes");
    assert_eq!(closed.errors, [""; 0]);
    ledger.seen().assert_balanced();
}

#[test]
fn memory_lies_under_every_view_while_it_is_made_and_the_views_are_those_of_later_guards() {
    let mosaic = mosaic();
    for (residency, ceiling, all) in [
        (ResidencyMode::Classic, 1 << 20, true),
        (ResidencyMode::Classic, 9 * PAGE, false),
        (ResidencyMode::Parts, 8 * PAGE, false),
        (ResidencyMode::Demand, 6 * PAGE, true),
    ] {
        let ledger = ledger(Script::default());
        let maker = looker(&ledger, None);
        let offload = attach(&ledger, ceiling, residency, &maker).expect("attached");
        let report = offload.metrics_snapshot(SnapshotOptions::default()).expect("a report").runtime;
        let vmm = report.vmm.expect("attached");
        assert_eq!(vmm.arena.fast_resident_bytes, Some(0), "nothing stays mapped");
        assert_eq!(vmm.arena.fast_faults, Some(0), "making views is no fault");
        assert_eq!(Some(ledger.seen().mapped_bytes), vmm.buffers.fast_execution_buffer_resident_bytes);
        assert!(ledger.seen().peak_mapped_bytes <= ceiling);
        let made = maker.made.lock().expect("no test panics here").clone();
        assert_eq!(counts(&offload)[1], Some(made.len() as u64));
        let groups = counts(&offload)[0].expect("present");
        assert!(
            groups == counts(&offload)[2].expect("present") && (groups > 1) == (residency == ResidencyMode::Demand),
            "{groups}"
        );
        for (_, view) in &made {
            assert!(ledger.read_device(view.pointer, view.bytes).is_err(), "the memory is gone");
        }
        for _ in 0..2 {
            let mut fixed = 0;
            for unit in 0..mosaic.sizes.len() {
                let id = mosaic.id(&offload, unit);
                let guard = offload.unit(id).expect("pinned");
                for tensor in 0..mosaic.sizes[unit].len() {
                    let name = mosaic.name(tensor);
                    let of_guard = guard.view(&name).expect("a tensor");
                    let Some(view) = offload.fixed_view(id, &name) else { continue };
                    assert_eq!(of_guard, view);
                    assert!(made.contains(&(format!("blocks.{unit}.{name}"), view)));
                    fixed += 1;
                }
                drop(guard);
                offload.wait_idle().expect("idle");
            }
            assert_eq!(fixed, made.len(), "every view that was made is kept");
            assert!(fixed > 0 && all == (fixed as u64 == TENSORS), "{fixed} under {ceiling}");
        }
        close(&ledger, &offload);
    }
}

#[test]
fn groups_are_as_large_as_the_ceiling_allows_and_a_group_without_memory_is_made_one_by_one() {
    let whole = ledger(Script::default());
    let maker = looker(&whole, None);
    let offload = attach(&whole, 1 << 20, ResidencyMode::Classic, &maker).expect("attached");
    assert_eq!(counts(&offload), [Some(1), Some(TENSORS), Some(1)], "all tensors under one mapping");
    let want = offsets(&maker);
    close(&whole, &offload);

    for kind in [DriverErrorKind::OutOfMemory, DriverErrorKind::Other(7)] {
        for call in ["memory_create", "memory_map", "memory_set_access"] {
            let script = Script { by_name: [(call, VecDeque::from([Some(kind)]))].into(), ..Script::default() };
            let singly = ledger(script);
            let maker = looker(&singly, None);
            let offload = attach(&singly, 1 << 20, ResidencyMode::Classic, &maker).expect("attached all the same");
            assert_eq!(
                counts(&offload),
                [Some(TENSORS + 1), Some(TENSORS), Some(TENSORS)],
                "{call}: one group that failed, then each for itself"
            );
            assert_eq!(offsets(&maker), want, "the same views at the same offsets");
            close(&singly, &offload);
        }
    }
}

#[test]
fn a_tensor_that_alone_gets_no_memory_ends_the_attachment() {
    let fails = || VecDeque::from([Some(DriverErrorKind::OutOfMemory), None, None, Some(DriverErrorKind::OutOfMemory)]);
    let ledger = ledger(Script { by_name: [("memory_create", fails())].into(), ..Script::default() });
    let maker = looker(&ledger, None);
    let error = attach(&ledger, 1 << 20, ResidencyMode::Classic, &maker).expect_err("the third tensor has none");
    assert_eq!(error.code(), "driver_out_of_memory");
    assert_eq!(maker.made.lock().expect("no test panics here").len(), 2);
    ledger.seen().assert_balanced();
}

#[test]
fn a_release_that_fails_ends_the_attachment_and_leaves_nothing() {
    for call in ["memory_unmap", "memory_release"] {
        let script = Script { by_name: [(call, VecDeque::from([Some(DriverErrorKind::Other(7))]))].into(), ..Script::default() };
        let ledger = ledger(script);
        let maker = looker(&ledger, None);
        let error = attach(&ledger, 1 << 20, ResidencyMode::Classic, &maker).expect_err("no attachment");
        assert!(error.to_string().contains(call), "{error}");
        assert_eq!(maker.made.lock().expect("no test panics here").len() as u64, TENSORS);
        ledger.seen().assert_balanced();
    }
}

#[test]
fn a_host_that_cannot_make_a_tensor_ends_the_attachment_and_leaves_nothing() {
    let ledger = ledger(Script::default());
    let maker = looker(&ledger, Some(4));
    let error = attach(&ledger, 1 << 20, ResidencyMode::Classic, &maker).expect_err("no attachment");
    assert_eq!((error.code(), error.to_string().contains("no tensor for you")), ("job_failed", true), "{error}");
    ledger.seen().assert_balanced();
}

/// Reads nothing, so that no call of its own lies in the scopes.
#[derive(Debug)]
struct Blind;

impl MakeViews for Blind {
    fn make(&self, _unit: &str, _name: &str, _view: &View) -> std::result::Result<(), JobError> {
        Ok(())
    }
}

#[test]
fn the_scopes_hold_the_calls_that_they_name_and_lie_inside_the_attachment() {
    let mosaic = mosaic();
    let clock = Arc::new(FakeClock::default());
    for (prepare_views, times) in [(None, 0u32), (Some(Arc::new(Blind) as Arc<dyn MakeViews>), 1)] {
        let ledger = ledger(Script::default());
        ledger.take_time_on(&clock);
        let config = OffloadConfig::new(Arc::<Ledger>::clone(&ledger));
        let residency = ResidencyMode::Classic;
        let config = OffloadConfig { clock: Arc::<FakeClock>::clone(&clock), prepare_views, residency, ..config };
        let offload = enable_offload(mosaic.component(), config).expect("attached");
        let nanoseconds =
            |calls: &[&str]| calls.iter().map(|call| call_nanoseconds(call)).sum::<u64>() as f64 / 1e9 * f64::from(times);
        let prepare = nanoseconds(&["memory_create", "memory_map", "memory_set_access"]);
        let release = nanoseconds(&["memory_unmap", "memory_release"]);
        let views = rows(&offload);
        let seconds = [views.fast_view_prepare_seconds, views.fast_view_create_seconds, views.fast_view_release_seconds];
        assert_eq!(seconds.map(|seconds| seconds.expect("present").0), [prepare, 0.0, release]);
        assert_eq!(counts(&offload), [Some(u64::from(times)), Some(TENSORS * u64::from(times)), Some(u64::from(times))]);
        let report = offload.metrics_snapshot(SnapshotOptions::default()).expect("a report").runtime.state;
        let attach = report.setup_runtime["vmm_fast_attach_native_model_arena"].seconds.0;
        let reserve = call_nanoseconds("address_reserve") as f64 / 1e9;
        assert!((attach - (prepare + release + reserve)).abs() < 1e-12, "{attach}");
        assert_eq!(offload.fixed_view(mosaic.id(&offload, 0), &mosaic.name(0)).is_some(), times == 1);
        close(&ledger, &offload);
    }
}
