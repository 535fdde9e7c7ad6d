//! Every number under `runtime.vmm` is seen zero and not zero in runs that are made for it: a row that never moves tells
//! nothing, and one that is never zero hides what it counts.
//!
//! That each counts the right thing is shown by the stories of its part, against an independent count.

use crate::demand::{Attached, PAGE, stepped};
use crate::sources::{Bench, retained, ring};
use crate::support::mosaic::Mosaic;
use crate::support::rooted::Rooted;
use crate::support::tiny::component_of;
use crate::vmm_rows::WRITTEN;
use ddo_recorder::driver::{Driver, Faulty, Script};
use ddo_recorder::memory::{HostReading, HostReadings};
use ddo_recorder::{
    Ceiling, DriverErrorKind, HostMemorySettings, JobError, LaunchScope, MakeViews, Offload, OffloadConfig, RegistrationPolicy,
    RegistrationTiming, ResidencyMode, SnapshotOptions, SourceChoice, View, enable_offload,
};
use ddo_schemas::Report;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Rows that cannot be zero in a run of ours, and why.
const NEVER_ZERO: &[(&str, &str)] = &[
    ("fast_page_bytes", "a device has pages"),
    ("fast_virtual_bytes", "an arena has an address"),
    ("reserved_bytes", "an arena has an address"),
    ("fast_component_lifetime_capacity_bytes", "left out where nothing lives as long as the component"),
    ("fast_component_lifetime_resident_bytes", "left out where nothing lives as long as the component"),
    ("fast_mapped_source_mapped_bytes", "a mapped source has bytes"),
    ("fast_native_transport_source_workers", "somebody reads"),
    ("fast_pass_floor_seconds", "null until a pass was timed"),
    ("fast_pass_link_bytes_per_second", "null until a pass was timed"),
    ("fast_pass_must_stream_bytes", "left out where nothing is streamed"),
    ("fast_pass_predicted_step_seconds", "null until a pass was timed"),
    ("fast_pass_work_seconds", "null until a pass was timed"),
    ("fast_source_cache_capacity_bytes", "without a ceiling there is no retained storage"),
    ("fast_source_cache_process_limit_bytes", "a process has a limit"),
    ("fast_source_cache_process_staging_registered_bytes", "retained storage has a ring beside it"),
    ("fast_source_cache_registered_limit_bytes", "no ceiling of its own means that of the storage"),
    ("fast_source_cache_source_dispatcher_enabled", "it is always used"),
    ("fast_source_cache_version", "a version"),
    ("fast_source_cache_pressure_observation_schema_version", "a version"),
];

/// Rows that cannot be anything but zero in a run of ours, and why.
const ALWAYS_ZERO: &[(&str, &str)] =
    &[("fast_source_cache_ticket_close_wait_seconds", "a ticket is closed only behind an event that was passed")];

/// Which values each row had.
#[derive(Debug, Default)]
struct Seen(BTreeMap<String, [bool; 2]>);

impl Seen {
    fn note(&mut self, report: &Report) {
        let value = serde_json::to_value(report).expect("a report is JSON");
        let Some(Value::Object(vmm)) = value.pointer("/runtime/vmm").cloned() else { panic!("no rows") };
        for (name, value) in vmm {
            let number = match value {
                Value::Bool(flag) => Some(f64::from(u8::from(flag))),
                other => other.as_f64(),
            };
            if let Some(number) = number {
                self.0.entry(name).or_default()[usize::from(number != 0.0)] = true;
            }
        }
    }

    fn look(&mut self, offload: &Offload) {
        let options = SnapshotOptions { collect_completed: true, timing: None, ..SnapshotOptions::default() };
        self.note(&offload.metrics_snapshot(options).expect("a report"));
    }
}

/// Units in slots or in parts, with a pass in another order between.
fn planned(seen: &mut Seen, residency: ResidencyMode, launches: LaunchScope) {
    let mosaic = Mosaic::even(6, 2, PAGE);
    let pages = if residency == ResidencyMode::Classic { 6 } else { 3 };
    let config = OffloadConfig::new(stepped(1 << 30));
    let config = OffloadConfig { ceiling: Ceiling::Bytes(pages * PAGE), residency, launches, measure: true, ..config };
    let offload = enable_offload(mosaic.component(), OffloadConfig { part_bytes: 1, ..config }).expect("attached");
    seen.look(&offload);
    for order in
        [[0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 4, 5], [0, 2, 1, 5, 3, 4], [0, 1, 2, 3, 4, 5]]
    {
        let state = Arc::new(Mutex::new(1));
        for unit in order {
            mosaic.submit(&offload, unit, &state, Duration::from_micros(3), launches).expect("submitted");
            let options = SnapshotOptions::default();
            seen.note(&offload.metrics_snapshot(options).expect("a report"));
        }
        offload.mark_step().expect("a step");
        offload.wait_stream(offload.compute_stream()).expect("done");
        seen.look(&offload);
    }
    offload.wait_idle().expect("idle");
    seen.look(&offload);
    offload.close(Duration::from_secs(1)).expect("closes");
}

/// Units on demand: refusals of each cause, temporaries, waits.
fn on_demand(seen: &mut Seen) {
    let attached = Attached::under(6, 4, true);
    seen.note(&attached.report());
    for _ in 0..2 {
        attached.pass(&[0, 1, 2, 3, 4, 5], false);
    }
    seen.note(&attached.report());
    attached.close();
    let attached = Attached::new(3, stepped(1 << 30), 6 * PAGE, |config| {
        (config.ceiling, config.fault_fallback) = (Ceiling::Bytes(4 * PAGE), true);
    });
    let unit = |attached: &Attached, unit: usize| attached.offload.unit(attached.mosaic.id(&attached.offload, unit));
    let held: Vec<_> = (0..3).map(|index| unit(&attached, index).expect("in hand")).collect();
    seen.note(&attached.report());
    drop(held);
    attached.close();
    let attached = Attached::new(2, stepped(8 * PAGE), 8 * PAGE, |config| config.device_reserve_bytes = 7 * PAGE);
    assert_eq!(unit(&attached, 0).expect_err("the reserve").code(), "device_reserve");
    seen.note(&attached.report());
    attached.close();
    let full = vec![Some(DriverErrorKind::OutOfMemory); 2].into();
    let faulty = Faulty::new(stepped(1 << 30), Script { by_name: [("memory_create", full)].into(), ..Script::default() });
    let attached = Attached::new(2, faulty, 8 * PAGE, |config| config.ceiling = Ceiling::Bytes(2 * PAGE));
    assert_eq!(unit(&attached, 0).expect_err("no memory").code(), "device_memory");
    seen.note(&attached.report());
    attached.close();
}

/// A place whose end of use cannot be proven.
fn quarantined(seen: &mut Seen) {
    let lost = vec![None, Some(DriverErrorKind::System)].into();
    let faulty = Faulty::new(stepped(1 << 30), Script { by_name: [("event_record", lost)].into(), ..Script::default() });
    let mosaic = Mosaic::even(3, 1, PAGE);
    let driver: Arc<dyn Driver> = Arc::<Faulty>::clone(&faulty);
    let config =
        OffloadConfig { ceiling: Ceiling::Bytes(2 * PAGE), residency: ResidencyMode::Classic, ..OffloadConfig::new(driver) };
    let offload = enable_offload(mosaic.component(), config).expect("attached");
    let state = Arc::new(Mutex::new(1));
    let first = mosaic.submit(&offload, 0, &state, Duration::ZERO, LaunchScope::Units);
    first.expect_err("the launch's event cannot be recorded");
    seen.note(&offload.metrics_snapshot(SnapshotOptions::default()).expect("a report"));
    offload.close(Duration::from_secs(1)).expect("closes");
}

/// Files through the ring, retained, mapped, partly registered, under pressure, and gone.
fn from_files(seen: &mut Seen) {
    let windows =
        |windows: u64, registered: u64, registration| HostMemorySettings { registration, ..retained(windows, registered) };
    let stable = RegistrationPolicy::StableSubset;
    let settings = [
        (SourceChoice::Mapped, HostMemorySettings::default()),
        (SourceChoice::Cpu, HostMemorySettings::default()),
        (SourceChoice::Ring, ring()),
        (SourceChoice::Retained, windows(5, 5, stable)),
        (SourceChoice::Retained, windows(5, 1, stable)),
        (SourceChoice::Retained, windows(2, 2, stable)),
        (SourceChoice::Retained, windows(5, 1, RegistrationPolicy::Recycle)),
    ];
    for (index, (source, host)) in settings.into_iter().enumerate() {
        let bench = Bench::new(&format!("values-{index}"), None);
        let offload = bench.attach(source, host).expect("attached");
        seen.note(&offload.metrics_snapshot(SnapshotOptions::default()).expect("a report"));
        (0..3).for_each(|_| bench.pass(&offload).expect("a pass"));
        seen.note(&offload.metrics_snapshot(SnapshotOptions::default()).expect("a report"));
        offload.wait_idle().expect("idle");
        seen.look(&offload);
        bench.close(&offload);
    }
}

/// A mapped file of which nothing can be registered, and a file that is cut short while it is in use.
fn unlucky(seen: &mut Seen) {
    let bench = Bench::new("values-unregistered", Some(0));
    let offload = bench.attach(SourceChoice::Mapped, HostMemorySettings::default()).expect("attached");
    seen.look(&offload);
    bench.close(&offload);
    let bench = Bench::new("values-short", None);
    let offload = bench.attach(SourceChoice::Ring, ring()).expect("attached");
    std::fs::File::options().write(true).open(&bench.path).and_then(|file| file.set_len(1000)).expect("shortened");
    bench.pass(&offload).expect_err("the file is too short");
    seen.look(&offload);
    offload.close(Duration::from_secs(1)).expect("closes");
}

/// A pass over some units, looked at behind each of them and at its end.
fn watched_pass(seen: &mut Seen, bench: &Bench, offload: &Offload, units: impl IntoIterator<Item = usize>) {
    let state = Arc::new(Mutex::new(1));
    for unit in units {
        bench.mosaic.submit(offload, unit, &state, Duration::ZERO, LaunchScope::Parts).expect("submitted");
        seen.note(&offload.metrics_snapshot(SnapshotOptions::default()).expect("a report"));
    }
    offload.mark_step().expect("a step");
    offload.wait_idle().expect("idle");
    seen.look(offload);
}

/// A ring with room to read ahead, residents that need no read, and a pass in another order.
fn read_ahead(seen: &mut Seen) {
    let bench = Bench::new("values-ahead", None);
    let host = HostMemorySettings { staging_bytes: 32 * PAGE, ..ring() };
    let config = OffloadConfig { ceiling: Ceiling::Bytes(192 << 10), ..bench.config(SourceChoice::Ring, host) };
    let offload = enable_offload(component_of(&bench.path), config).expect("attached");
    for order in [[0, 1, 2, 3], [0, 1, 2, 3], [0, 1, 2, 3], [2, 0, 3, 1], [0, 1, 2, 3]] {
        watched_pass(seen, &bench, &offload, order);
    }
    offload.close(Duration::from_secs(1)).expect("closes");
}

/// Staging slots, filled from a file and from memory.
fn staged(seen: &mut Seen) {
    for from_file in [true, false] {
        let bench = Bench::new("values-staged", None);
        let component = if from_file { component_of(&bench.path) } else { bench.mosaic.component() };
        let offload = enable_offload(component, bench.config(SourceChoice::Staged, ring())).expect("attached");
        seen.note(&offload.metrics_snapshot(SnapshotOptions::default()).expect("a report"));
        (0..2).for_each(|_| bench.pass(&offload).expect("a pass"));
        seen.look(&offload);
        bench.close(&offload);
    }
}

/// A file that is registered piece by piece beside passes.
fn registered_beside(seen: &mut Seen) {
    let bench = Bench::new("values-beside", None);
    let host = HostMemorySettings { registration_timing: RegistrationTiming::ByHost, ..ring() };
    let offload = bench.attach(SourceChoice::Mapped, host).expect("attached");
    seen.note(&offload.metrics_snapshot(SnapshotOptions::default()).expect("a report"));
    while offload.register_next() {}
    bench.pass(&offload).expect("a pass");
    seen.look(&offload);
    bench.close(&offload);
}

/// Host memory that is registered where it lies.
fn pinned(seen: &mut Seen) {
    let mosaic = Mosaic::even(2, 1, 1 << 20);
    let config =
        OffloadConfig { source: SourceChoice::Cpu, residency: ResidencyMode::Demand, ..OffloadConfig::new(stepped(1 << 30)) };
    let config = OffloadConfig { ceiling: Ceiling::Percent(99.0), ..config };
    let offload = enable_offload(mosaic.component(), config).expect("attached");
    seen.look(&offload);
    offload.close(Duration::from_secs(1)).expect("closes");
}

/// A host that asks for memory under each view while it is made.
#[derive(Debug)]
struct Anyone;

impl MakeViews for Anyone {
    fn make(&self, _: &str, _: &str, _: &View) -> Result<(), JobError> {
        Ok(())
    }
}

/// Tensors of the root that live as long as the component, and views made at attach.
fn made_at_attach(seen: &mut Seen) {
    let rooted = Rooted { mosaic: Mosaic::even(2, 1, PAGE), root: vec![100, 200] };
    let config = OffloadConfig::new(stepped(1 << 30));
    let config = OffloadConfig { lifetime_limit_bytes: PAGE, prepare_views: Some(Arc::new(Anyone)), ..config };
    let offload = enable_offload(rooted.component(), config).expect("attached");
    seen.look(&offload);
    offload.close(Duration::from_secs(1)).expect("closes");
}

/// Two units in hand divide the ring so that a third is laid out anew; and a ring that is not needed.
fn rings(seen: &mut Seen) {
    let mosaic = Mosaic { sizes: vec![vec![512], vec![5 * 512], vec![512], vec![5 * 512, 9 * 512]] };
    for pages in [2, 64] {
        let config = OffloadConfig { residency: ResidencyMode::Parts, part_bytes: 1, ..OffloadConfig::new(stepped(1 << 30)) };
        let config = OffloadConfig { ceiling: Ceiling::Bytes(pages * PAGE), ..config };
        let offload = enable_offload(mosaic.component(), config).expect("attached");
        let unit = |unit: usize| offload.unit(mosaic.id(&offload, unit)).expect("in hand");
        let first = unit(0);
        drop(unit(1));
        let held = (first, unit(2), unit(3));
        seen.look(&offload);
        drop(held);
        offload.close(Duration::from_secs(1)).expect("closes");
    }
}

/// A host that answers one reading after the other, and the last for good.
#[derive(Debug)]
struct Series(Mutex<Vec<Option<HostReading>>>);

impl HostReadings for Series {
    fn read(&self) -> Option<HostReading> {
        let mut left = self.0.lock().expect("no test panics here");
        if left.len() > 1 { left.remove(0) } else { left.first().copied().flatten() }
    }
}

/// A host that runs short in each way while storage grows, and recovers.
fn under_pressure(seen: &mut Seen) {
    let gib = |ram: u64, commit: u64| Some(HostReading { ram_bytes: (ram << 30) + 1, commit_bytes: (commit << 30) + 1 });
    for (short, refused) in [(gib(0, 64), false), (gib(64, 0), false), (gib(0, 0), true), (None, false)] {
        let bench = Bench::new("values-pressure", None);
        let config = bench.config(SourceChoice::Retained, retained(5, 5));
        let readings = [gib(64, 64), gib(64, 64), gib(64, 64), short, short, short, gib(64, 64)];
        let readings: Arc<dyn HostReadings> = Arc::new(Series(Mutex::new(readings.to_vec())));
        let kept = if refused { vec![Some(DriverErrorKind::System); 5] } else { Vec::new() };
        let script = Script { by_name: [("host_unregister", kept.into())].into(), ..Script::default() };
        let driver: Arc<dyn Driver> = Faulty::new(Arc::clone(&config.driver), script);
        let config = OffloadConfig { host_readings: readings, driver, ..config };
        let offload = enable_offload(component_of(&bench.path), config).expect("attached");
        for units in [0..1, 1..2, 2..4, 0..4, 0..4, 0..4] {
            watched_pass(seen, &bench, &offload, units);
        }
        offload.close(Duration::from_secs(1)).expect("closes");
    }
}

#[test]
fn every_row_is_seen_zero_and_not_zero() {
    let mut seen = Seen::default();
    planned(&mut seen, ResidencyMode::Classic, LaunchScope::Units);
    planned(&mut seen, ResidencyMode::Parts, LaunchScope::Parts);
    planned(&mut seen, ResidencyMode::Parts, LaunchScope::Units);
    on_demand(&mut seen);
    quarantined(&mut seen);
    rings(&mut seen);
    from_files(&mut seen);
    unlucky(&mut seen);
    read_ahead(&mut seen);
    staged(&mut seen);
    registered_beside(&mut seen);
    pinned(&mut seen);
    made_at_attach(&mut seen);
    under_pressure(&mut seen);
    let mut wrong = Vec::new();
    for name in WRITTEN {
        let [zero, other] = seen.0.get(*name).copied().unwrap_or_default();
        let allowed = |list: &[(&str, &str)]| list.iter().any(|(row, _)| row == name);
        if zero == allowed(NEVER_ZERO) {
            wrong.push(format!("{name}: zero was {}seen", if zero { "" } else { "not " }));
        }
        if other == allowed(ALWAYS_ZERO) {
            wrong.push(format!("{name}: another value was {}seen", if other { "" } else { "not " }));
        }
    }
    assert_eq!(wrong, Vec::<String>::new(), "{} rows", WRITTEN.len());
}
