//! One contract for every driver: host threaded, stepped and interleaved, and cuda where a device exists.

use crate::support::ffi;
use ddo_recorder::driver::{
    CudaDriver, CudaOptions, DeviceAddress, Driver, HostAccess, HostBytes, HostMode, PhysicalId, Priority, Timed,
};
use ddo_recorder::meter::SystemClock;
use ddo_recorder::{DriverErrorKind, HostDriver, HostOptions};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

/// Every driver that this machine has.
fn drivers() -> Vec<(String, Arc<dyn Driver>)> {
    let modes = [HostMode::Threaded, HostMode::Stepped, HostMode::Interleaved { seed: 1 }, HostMode::Interleaved { seed: 2 }];
    let mut drivers: Vec<(String, Arc<dyn Driver>)> = Vec::new();
    for mode in modes {
        let host = HostDriver::new(HostOptions { mode, ..HostOptions::default() }).expect("a host driver");
        let timed = Timed::new(Arc::<HostDriver>::clone(&host), Arc::new(SystemClock));
        // On until the process ends.
        std::mem::forget(timed.meter().acquire().expect("nobody else has this meter"));
        drivers.push((format!("{mode:?}"), host));
        drivers.push((format!("timed {mode:?}"), timed));
    }
    match CudaDriver::open(CudaOptions::default()) {
        Ok(cuda) => drivers.push(("cuda".into(), cuda)),
        Err(error) => {
            assert!(std::env::var_os("DDO_CUDA").is_none(), "DDO_CUDA is set: {error}");
            eprintln!("no cuda: {error}");
        }
    }
    drivers
}

fn bytes(length: u64, seed: u64) -> HostBytes {
    let mut rng = fastrand::Rng::with_seed(seed);
    let owner: Vec<u8> = (0..length).map(|_| rng.u8(..)).collect();
    HostBytes::new(Arc::new(owner), 0, length).expect("the whole range")
}

/// Runs a case on every driver; a failure names the driver.
fn on_every_driver(case: impl Fn(&dyn Driver)) {
    for (name, driver) in drivers() {
        eprintln!("on {name}");
        case(&*driver);
    }
}

/// Reserves and maps one page.
fn map_page(driver: &dyn Driver, page: u64) -> (DeviceAddress, PhysicalId) {
    let base = driver.address_reserve(page).expect("reserve");
    let memory = driver.memory_create(page).expect("create");
    driver.memory_map(base, page, memory).expect("map");
    driver.memory_set_access(base, page).expect("access");
    (base, memory)
}

/// Gives such a page back.
fn unmap_page(driver: &dyn Driver, page: u64, base: DeviceAddress, memory: PhysicalId) {
    driver.memory_unmap(base, page).expect("unmap");
    driver.memory_release(memory).expect("release");
    driver.address_free(base, page).expect("free");
}

#[test]
fn memory_lives_from_reserve_to_free() {
    on_every_driver(|driver| {
        let page = driver.facts().page_bytes;
        let free = driver.memory_info().expect("info").free_bytes;
        let base = driver.address_reserve(4 * page).expect("reserve");
        let memory = driver.memory_create(2 * page).expect("create");
        driver.memory_map(base.offset(page), 2 * page, memory).expect("map");
        driver.memory_set_access(base.offset(page), 2 * page).expect("access");
        let stream = driver.stream_create(Priority::High).expect("stream");
        let payload = bytes(page + 17, 3);
        driver.copy_to_device(base.offset(page + 5), payload.clone(), stream).expect("copy");
        assert_eq!(driver.read_device(base.offset(page + 5), page + 17).expect("read"), payload.as_slice());
        assert!(driver.memory_info().expect("info").free_bytes <= free, "used memory is not free");
        driver.stream_destroy(stream).expect("stream ends");
        driver.memory_unmap(base.offset(page), 2 * page).expect("unmap");
        driver.memory_release(memory).expect("release");
        driver.address_free(base, 4 * page).expect("free");
    });
}

#[test]
fn memory_may_be_at_two_places_in_a_row() {
    on_every_driver(|driver| {
        let page = driver.facts().page_bytes;
        let base = driver.address_reserve(4 * page).expect("reserve");
        let memory = driver.memory_create(2 * page).expect("create");
        for start in [base, base.offset(2 * page)] {
            driver.memory_map(start, 2 * page, memory).expect("map");
            driver.memory_set_access(start, 2 * page).expect("access");
        }
        let stream = driver.stream_create(Priority::High).expect("stream");
        let payload = bytes(page, 4);
        driver.copy_to_device(base.offset(2 * page - 100), payload.clone(), stream).expect("copy across the seam");
        driver.stream_synchronize(stream).expect("sync");
        assert_eq!(driver.read_device(base.offset(2 * page - 100), page).expect("read"), payload.as_slice());
        assert_eq!(driver.read_device(base, page - 100).expect("read"), payload.as_slice()[100..], "and at the begin");
        driver.stream_destroy(stream).expect("stream ends");
        driver.memory_unmap(base.offset(2 * page), 2 * page).expect("unmap");
        driver.memory_unmap(base, 2 * page).expect("unmap");
        driver.memory_release(memory).expect("release");
        driver.address_free(base, 4 * page).expect("free");
    });
}

#[test]
fn misuse_is_an_invalid_value_and_nothing_sticks() {
    on_every_driver(|driver| {
        let page = driver.facts().page_bytes;
        assert_eq!(driver.memory_create(page + 1).expect_err("partial page").kind, DriverErrorKind::InvalidValue);
        let base = driver.address_reserve(2 * page).expect("reserve");
        let memory = driver.memory_create(page).expect("create");
        assert_eq!(
            driver.memory_map(base, 2 * page, memory).expect_err("longer than the memory").kind,
            DriverErrorKind::InvalidValue
        );
        driver.memory_map(base, page, memory).expect("a failed call leaves the next one alone");
        driver.memory_unmap(base, page).expect("unmap");
        driver.memory_release(memory).expect("release");
        driver.address_free(base, 2 * page).expect("free");
        assert!(driver.memory_create(1 << 60).is_err(), "more than there is");
    });
}

#[test]
fn events_order_streams_and_measure_time() {
    on_every_driver(|driver| {
        let page = driver.facts().page_bytes;
        let (base, memory) = map_page(driver, page);
        let (a, b) = (driver.stream_create(Priority::Normal).expect("a"), driver.stream_create(Priority::High).expect("b"));
        let (start, end) = (driver.event_create(true).expect("event"), driver.event_create(true).expect("event"));
        assert!(driver.event_query(start).expect("never recorded counts as passed"));
        for round in 0..50 {
            let (first, second) = (bytes(page, round), bytes(page, round + 1000));
            driver.event_record(start, a).expect("record");
            driver.copy_to_device(base, first, a).expect("copy");
            driver.event_record(end, a).expect("record");
            driver.stream_wait_event(b, end).expect("wait");
            driver.copy_to_device(base, second.clone(), b).expect("copy");
            driver.stream_synchronize(b).expect("sync");
            assert_eq!(driver.read_device(base, page).expect("read"), second.as_slice(), "b ran after a, round {round}");
            assert!(driver.event_query(end).expect("query"));
            let elapsed = driver.event_elapsed(start, end).expect("both passed");
            assert!(elapsed.seconds >= 0.0 && elapsed.resolution_seconds > 0.0, "{elapsed:?}");
            let back = driver.event_elapsed(end, start).expect("both passed");
            assert!((back.seconds + elapsed.seconds).abs() <= 2.0 * elapsed.resolution_seconds, "time is signed");
        }
        let plain = driver.event_create(false).expect("event");
        driver.event_record(plain, a).expect("record");
        assert!(driver.event_wait(plain, Duration::from_secs(10)).expect("wait"));
        driver.event_synchronize(plain).expect("sync");
        assert!(driver.event_elapsed(start, plain).is_err(), "an event without timing has no time");
        for event in [start, end, plain] {
            driver.event_destroy(event).expect("destroy");
        }
        driver.context_synchronize().expect("sync");
        driver.stream_destroy(a).expect("destroy");
        driver.stream_destroy(b).expect("destroy");
        unmap_page(driver, page, base, memory);
    });
}

#[test]
fn source_bytes_live_until_their_copy_has_run() {
    struct Noted(Vec<u8>, Arc<std::sync::atomic::AtomicBool>);
    impl AsRef<[u8]> for Noted {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }
    impl Drop for Noted {
        fn drop(&mut self) {
            self.1.store(true, std::sync::atomic::Ordering::SeqCst);
        }
    }
    on_every_driver(|driver| {
        let page = driver.facts().page_bytes;
        let (base, memory) = map_page(driver, page);
        let stream = driver.stream_create(Priority::High).expect("stream");
        let dropped = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let owner = Noted((0..page).map(|byte| byte as u8).collect(), Arc::clone(&dropped));
        let source = HostBytes::new(Arc::new(owner), 0, page).expect("the whole range");
        let event = driver.event_create(false).expect("event");
        driver.copy_to_device(base, source, stream).expect("copy");
        driver.event_record(event, stream).expect("record");
        driver.event_synchronize(event).expect("sync");
        let read = driver.read_device(base, page).expect("read");
        assert!(read.iter().enumerate().all(|(index, byte)| *byte == index as u8));
        assert!(dropped.load(std::sync::atomic::Ordering::SeqCst), "the lease ends with the proof");
        driver.event_destroy(event).expect("destroy");
        driver.stream_destroy(stream).expect("destroy");
        unmap_page(driver, page, base, memory);
    });
}

#[test]
fn registration_refuses_nonsense_and_works_again() {
    on_every_driver(|driver| {
        let owner: Arc<dyn AsRef<[u8]> + Send + Sync> = Arc::new(vec![1u8; 1 << 20]);
        let all = HostBytes::new(Arc::clone(&owner), 0, 1 << 20).expect("all");
        let none = HostBytes::new(owner, 0, 0).expect("none");
        assert!(driver.host_register(&none, HostAccess::ReadWrite).is_err(), "0 bytes");
        for _ in 0..3 {
            let id = driver.host_register(&all, HostAccess::ReadWrite).expect("register");
            assert!(driver.host_register(&all, HostAccess::ReadWrite).is_err(), "registered already");
            driver.host_unregister(id).expect("unregister");
            assert!(driver.host_unregister(id).is_err(), "ended already");
        }
    });
}

#[test]
fn a_timed_driver_counts_only_while_it_is_on() {
    let host = HostDriver::new(HostOptions::default()).expect("a host driver");
    let timed = Timed::new(host, Arc::new(SystemClock));
    let event = timed.event_create(false).expect("event");
    assert!(timed.meter().reading().calls.values().all(|stats| stats.calls == 0), "off counts nothing");
    let lease = timed.meter().acquire().expect("free");
    assert!(timed.event_query(event).expect("query"));
    assert!(timed.memory_create(1).is_err());
    drop(lease);
    timed.event_destroy(event).expect("destroy");
    let reading = timed.meter().reading();
    assert_eq!((reading.calls["event_query"].calls, reading.calls["event_destroy"].calls), (1, 0));
    assert_eq!((reading.calls["memory_create"].calls, reading.calls["memory_create"].failed_calls), (1, 1));
}

const TOUCH: &str = "DDO_TEST_TOUCH";

#[test]
fn touching_unmapped_device_memory_is_a_fault() {
    if std::env::var_os(TOUCH).is_some() {
        let host = HostDriver::new(HostOptions::default()).expect("a host driver");
        let page = host.facts().page_bytes;
        let base = host.address_reserve(2 * page).expect("reserve");
        let memory = host.memory_create(page).expect("create");
        host.memory_map(base, page, memory).expect("map");
        host.memory_set_access(base, page).expect("access");
        assert_eq!(ffi::touch(base.0), 0, "mapped memory can be read");
        println!("touched mapped memory");
        ffi::touch(base.0 + page);
        println!("touched unmapped memory");
        return;
    }
    use std::os::unix::process::ExitStatusExt;
    let program = std::env::current_exe().expect("this program");
    let child = Command::new(program)
        .args(["--exact", "driver_contract::touching_unmapped_device_memory_is_a_fault", "--nocapture"])
        .env(TOUCH, "1")
        .output()
        .expect("the child runs");
    let text = String::from_utf8_lossy(&child.stdout);
    assert!(text.contains("touched mapped memory") && !text.contains("touched unmapped memory"), "{text}");
    assert!(matches!(child.status.signal(), Some(7 | 11)), "ended by a memory fault: {:?}", child.status);
}
