//! Seeded interleavings on virtual time: whatever the order, the same bits and balanced books.
//!
//! A failing seed is printed; `DDO_SEED=N` replays it alone, `DDO_SEEDS=COUNT` runs that many.

use crate::support::ledger::Ledger;
use crate::support::lives::{self, driver, each_seed, first_to_fail};
use crate::support::tiny;
use ddo_recorder::driver::{Driver, HostMode, Priority};
use ddo_recorder::{Ceiling, HostDriver, HostOptions, OffloadConfig, ResidencyMode, SnapshotOptions, enable_offload};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const PAGE: u64 = 4096;

/// One random life of a component; panics when anything is wrong.
fn life(seed: u64, wrap: impl FnOnce(Arc<HostDriver>) -> Arc<dyn Driver>) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let units = rng.u64(2..7);
    let slots = rng.u64(2..5);
    let pages = slots + rng.u64(0..=units);
    let ledger = Ledger::over(wrap(driver(seed, &mut rng)), pages * PAGE);
    let config = OffloadConfig {
        ceiling: Ceiling::Bytes(pages * PAGE),
        residency: ResidencyMode::Classic,
        slots,
        look_ahead: rng.u8(..8) > 0,
        ..OffloadConfig::new(Arc::<Ledger>::clone(&ledger))
    };
    let offload = enable_offload(tiny::component(units), config).expect("attached");
    // In some lives a second stream reads the same units; it takes no part in the result.
    let second = (rng.u8(..3) == 0).then(|| ledger.stream_create(Priority::Normal).expect("a stream"));
    let audit = || assert_eq!(offload.audit(), Vec::<String>::new(), "conservation");
    for _ in 0..rng.u64(2..5) {
        let mut order: Vec<u64> = (0..units).collect();
        if rng.u8(..4) == 0 {
            rng.shuffle(&mut order);
        }
        let state = Arc::new(Mutex::new(1));
        for unit in &order {
            if rng.u8(..10) == 0 {
                drop(offload.unit(tiny::id(&offload, rng.u64(0..units))).expect("a unit in hand, and let go"));
                audit();
            }
            if let Some(second) = second {
                tiny::check_on(&offload, second, *unit, Duration::from_nanos(rng.u64(0..40_000))).expect("submitted");
                audit();
            }
            tiny::submit(&offload, *unit, &state, Duration::from_nanos(rng.u64(0..20_000))).expect("submitted");
            audit();
            if rng.u8(..10) == 0 {
                offload.collect().expect("collected");
                audit();
            }
        }
        offload.mark_step().expect("a step");
        audit();
        if rng.bool() {
            offload.wait_stream(offload.compute_stream()).expect("done");
            assert_eq!(*state.lock().expect("jobs do not panic"), tiny::reference(&order), "the same bits as without a runtime");
        }
    }
    if let Some(second) = second {
        offload.wait_stream(second).expect("the second stream read the right weights");
    }
    offload.wait_idle().expect("idle");
    let report = offload
        .metrics_snapshot(SnapshotOptions { collect_completed: true, timing: None, ..SnapshotOptions::default() })
        .expect("a report");
    let vmm = report.runtime.vmm.expect("attached");
    assert_eq!((vmm.tickets.fast_transfer_live_tickets, vmm.arena.fast_pinned_units), (Some(0), Some(0)));
    lives::end(&offload, &ledger, second);
}

#[test]
fn ten_thousand_lives_give_the_same_bits_and_balanced_books() {
    each_seed(10_000, |seed| life(seed, |host| host));
}

/// Finds the first seed that notices a missing wait.
fn first_to_notice(skipped: tiny::Skip) -> Option<u64> {
    first_to_fail(|seed| life(seed, |host| -> Arc<dyn Driver> { tiny::SkipWaits::new(host, skipped) }))
}

#[test]
fn every_event_wait_is_needed_and_its_absence_is_noticed() {
    for skipped in [tiny::Skip::ComputeForUpload, tiny::Skip::UploadForConsumer] {
        let found = first_to_notice(skipped);
        assert!(found.is_some(), "no seed below 10,000 notices that {skipped:?} is gone");
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let run = |seed: u64| {
        let host = driver(seed, &mut fastrand::Rng::with_seed(seed));
        let config = OffloadConfig { ceiling: Ceiling::Bytes(2 * PAGE), ..OffloadConfig::new(Arc::<HostDriver>::clone(&host)) };
        let offload = enable_offload(tiny::component(4), config).expect("attached");
        let state = Arc::new(Mutex::new(1));
        for unit in [0, 1, 2, 3] {
            tiny::submit(&offload, unit, &state, Duration::from_nanos(700)).expect("submitted");
        }
        offload.wait_idle().expect("idle");
        host.stream_time()
    };
    assert_eq!(run(7), run(7));
}

#[test]
fn virtual_time_is_exact() {
    // Four units of 4096 bytes over 1 byte a nanosecond, 100 ns latency, 1000 ns of work each, no look-ahead.
    let options = HostOptions {
        mode: HostMode::Stepped,
        page_bytes: PAGE,
        link_bytes_per_second: Some(1_000_000_000),
        link_latency: Duration::from_nanos(100),
        ..HostOptions::default()
    };
    let host = HostDriver::new(options).expect("a host driver");
    let config = OffloadConfig {
        ceiling: Ceiling::Bytes(2 * PAGE),
        residency: ResidencyMode::Classic,
        look_ahead: false,
        ..OffloadConfig::new(Arc::<HostDriver>::clone(&host))
    };
    let offload = enable_offload(tiny::component(4), config).expect("attached");
    let state = Arc::new(Mutex::new(1));
    for unit in [0, 1, 2, 3] {
        tiny::submit(&offload, unit, &state, Duration::from_nanos(1000)).expect("submitted");
    }
    offload.wait_idle().expect("idle");
    // Copies follow each other (a slot is free again long before its next copy), the last work follows the last copy.
    assert_eq!(host.stream_time().0, 4 * (tiny::UNIT_BYTES + 100) + 1000);
    assert_eq!(*state.lock().expect("jobs do not panic"), tiny::reference(&[0, 1, 2, 3]));
    offload.close(Duration::from_secs(1)).expect("closes");
}

/// Driver calls and virtual nanoseconds of one warm pass over `units` units of `unit_bytes`, a tenth of them resident.
fn warm_pass(units: u64, unit_bytes: u64) -> (u64, u64) {
    let rate = 32_000_000_000;
    let options = HostOptions {
        mode: HostMode::Stepped,
        backed: false,
        page_bytes: 2 << 20,
        device_bytes: 1 << 40,
        link_bytes_per_second: Some(rate),
        ..HostOptions::default()
    };
    let host = HostDriver::new(options).expect("a host driver");
    let ledger = Ledger::over(Arc::<HostDriver>::clone(&host), u64::MAX);
    let ceiling = Ceiling::Bytes(units * unit_bytes / 10 + 4 * unit_bytes);
    let config =
        OffloadConfig { ceiling, residency: ResidencyMode::Classic, ..OffloadConfig::new(Arc::<Ledger>::clone(&ledger)) };
    let offload = enable_offload(tiny::unbacked(units, unit_bytes), config).expect("attached");
    let pass = || {
        let (calls, start) = (ledger.seen().calls.values().sum::<u64>(), host.stream_time().0);
        for unit in offload.units() {
            let guard = offload.unit(unit.id).expect("a unit");
            offload.launch(offload.compute_stream(), guard, ddo_recorder::Job::host(|_| Ok(()))).expect("queued");
        }
        offload.mark_step().expect("a step");
        offload.wait_stream(offload.compute_stream()).expect("done");
        (ledger.seen().calls.values().sum::<u64>() - calls, host.stream_time().0 - start)
    };
    pass();
    pass();
    let warm = pass();
    let streamed: u64 = offload.units().iter().filter(|unit| !unit.resident).map(|unit| unit.bytes).sum();
    assert_eq!(warm.1, streamed / (rate / 1_000_000_000), "a warm pass takes exactly the link's time");
    assert_eq!(offload.audit(), Vec::<String>::new());
    offload.wait_idle().expect("idle");
    offload.close(Duration::from_secs(1000)).expect("closes");
    ledger.seen().assert_balanced();
    warm
}

#[test]
fn the_cost_of_a_unit_is_flat_from_one_to_a_hundred_gigabytes() {
    for units in [10, 100, 1000, 10_000] {
        for total in [1_000_000_000u64, 10_000_000_000, 100_000_000_000] {
            let unit_bytes = (total / units).next_multiple_of(1 << 21);
            let (calls, _) = warm_pass(units, unit_bytes);
            let each = calls as f64 / units as f64;
            assert!((7.0..13.0).contains(&each), "{each} driver calls a unit with {units} units of {unit_bytes} bytes");
        }
    }
}
