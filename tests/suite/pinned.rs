//! Host memory of the component that is registered where it lies: as far as limits go, the same bits either way, nothing left.

use crate::support::ledger::Ledger;
use crate::support::mosaic::Mosaic;
use crate::support::scratch;
use crate::support::tiny::component_of;
use ddo_recorder::driver::{Faulty, HostMode, Script};
use ddo_recorder::memory::HostTotals;
use ddo_recorder::{
    Ceiling, Component, DriverErrorKind, HostBudget, HostDriver, HostOptions, LaunchScope, OffloadConfig, ResidencyMode,
    SnapshotOptions, SourceChoice, enable_offload,
};
use ddo_schemas::Report;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MIB: u64 = 1 << 20;
const PAGE: u64 = 4096;

/// Three units; the small tensor of each is not worth pages of its own.
fn mosaic() -> Mosaic {
    Mosaic { sizes: vec![vec![MIB, 700], vec![MIB + 5], vec![2 * MIB, 9000]] }
}

const LARGE: u64 = 4 * MIB + 5;

/// Two passes, and what they left in the report and the driver.
fn life(component: Component, script: Script, change: impl FnOnce(&mut OffloadConfig)) -> (Report, u64) {
    let options = HostOptions { mode: HostMode::Stepped, page_bytes: PAGE, ..HostOptions::default() };
    let host = HostDriver::new(options).expect("a host driver");
    let ledger = Ledger::over(Faulty::new(host, script), u64::MAX);
    let budget = Arc::new(HostBudget::default());
    let mut config = OffloadConfig {
        ceiling: Ceiling::Bytes(3 * MIB),
        source: SourceChoice::Cpu,
        residency: ResidencyMode::Parts,
        launches: LaunchScope::Parts,
        part_bytes: 1,
        host_budget: Arc::clone(&budget),
        ..OffloadConfig::new(Arc::<Ledger>::clone(&ledger))
    };
    change(&mut config);
    let (mosaic, offload) = (mosaic(), enable_offload(component, config).expect("attached"));
    for _ in 0..2 {
        let state = Arc::new(Mutex::new(1));
        for unit in 0..3 {
            mosaic.submit(&offload, unit, &state, Duration::ZERO, LaunchScope::Parts).expect("submitted");
        }
        offload.mark_step().expect("a step");
        offload.wait_idle().expect("idle");
        assert_eq!(*state.lock().expect("jobs do not panic"), mosaic.reference(&[0, 1, 2]), "the same bits");
    }
    let registered = ledger.seen().registered_bytes;
    assert_eq!(budget.totals().registered_bytes, registered, "in the books of the process");
    let report = offload.metrics_snapshot(SnapshotOptions::default()).expect("a report");
    assert_eq!(offload.close(Duration::from_secs(1)).expect("closes").errors, Vec::<String>::new());
    ledger.seen().assert_balanced();
    assert_eq!(budget.totals(), HostTotals::default());
    let told = report.runtime.vmm.as_ref().expect("attached").sources.fast_cpu_source_registered_bytes;
    assert_eq!(told, Some(registered));
    (report, registered)
}

/// What is streamed under a ceiling of two tensors: everything.
fn tight(config: &mut OffloadConfig) {
    config.ceiling = Ceiling::Bytes(2 * MIB + 3 * PAGE);
    config.launches = LaunchScope::Parts;
}

#[test]
fn large_tensors_that_are_streamed_are_registered_where_they_lie() {
    let (report, registered) = life(mosaic().component(), Script::default(), tight);
    let streamed: u64 = report.runtime.state.planner_decisions.vmm_streamed_bytes_per_pass;
    assert!(registered > 0 && registered <= LARGE && registered <= streamed, "{registered} of {streamed}");
    assert_eq!(registered % MIB % 5, 0, "whole tensors");
    let action = &report.runtime.state.setup_runtime["vmm_pin_source_weights"];
    assert!(action.gb.0 > 0.0);
    assert_eq!(report.configuration.vmm.dynamic_offload_vmm_pin_source_weights, Some(true));
}

#[test]
fn the_copy_of_a_file_is_registered_as_a_whole() {
    let folder = scratch("pinned");
    let path = mosaic().checkpoint(folder.path());
    let (_, registered) = life(component_of(&path), Script::default(), tight);
    assert_eq!(registered, mosaic().total_bytes(), "the stretch from the first managed byte to the last");
}

#[test]
fn off_means_off_and_a_driver_that_declines_is_no_failure() {
    let (report, registered) = life(mosaic().component(), Script::default(), |config| {
        tight(config);
        config.pin_source_weights = false;
    });
    assert_eq!(registered, 0);
    assert!(!report.runtime.state.setup_runtime.contains_key("vmm_pin_source_weights"));
    let declines =
        Script { by_name: [("host_register", vec![Some(DriverErrorKind::OutOfMemory)].into())].into(), ..Script::default() };
    assert_eq!(life(mosaic().component(), declines, tight).1, 0, "the rest is not tried");
}

#[test]
fn the_limit_of_the_process_holds_to_the_byte() {
    let all = life(mosaic().component(), Script::default(), tight).1;
    for (limit, exact) in [(all, true), (all - 1, false)] {
        let (_, registered) = life(mosaic().component(), Script::default(), |config| {
            tight(config);
            config.host.process_limit_bytes = limit;
        });
        assert!(registered <= limit);
        assert_eq!(registered == all, exact, "{registered} under {limit}");
    }
}

/// Two components read the same host memory: whoever closes first leaves the registration to the other.
#[test]
fn what_two_components_read_stays_registered_until_the_last_has_closed() {
    let options = HostOptions { mode: HostMode::Stepped, page_bytes: PAGE, ..HostOptions::default() };
    let ledger = Ledger::new(options, u64::MAX);
    let (budget, mosaic) = (Arc::new(HostBudget::default()), mosaic());
    let component = mosaic.component();
    let attach = || {
        let config = OffloadConfig {
            source: SourceChoice::Cpu,
            residency: ResidencyMode::Parts,
            launches: LaunchScope::Parts,
            part_bytes: 1,
            host_budget: Arc::clone(&budget),
            ..OffloadConfig::new(Arc::<Ledger>::clone(&ledger))
        };
        enable_offload(component.clone(), OffloadConfig { ceiling: Ceiling::Bytes(2 * MIB + 3 * PAGE), ..config })
            .expect("attached")
    };
    let (first, second) = (attach(), attach());
    let registered = budget.totals().registered_bytes;
    assert!(registered > 0 && ledger.seen().registered_bytes == registered, "once for both");
    let told = |offload: &ddo_recorder::Offload| {
        let report = offload.metrics_snapshot(SnapshotOptions::default()).expect("a report");
        report.runtime.vmm.expect("attached").sources.fast_cpu_source_registered_bytes
    };
    assert_eq!((told(&first), told(&second)), (Some(registered), Some(registered)));
    first.close(Duration::from_secs(1)).expect("closes");
    assert_eq!(ledger.seen().registered_bytes, registered, "the other still reads it");
    let state = Arc::new(Mutex::new(1));
    (0..3).for_each(|unit| mosaic.submit(&second, unit, &state, Duration::ZERO, LaunchScope::Parts).expect("submitted"));
    second.wait_idle().expect("idle");
    assert_eq!(*state.lock().expect("jobs do not panic"), mosaic.reference(&[0, 1, 2]));
    second.close(Duration::from_secs(1)).expect("closes");
    ledger.seen().assert_balanced();
    assert_eq!(budget.totals(), HostTotals::default());
}
