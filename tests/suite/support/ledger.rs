//! A driver wrapper for every runtime test: counts calls, holds the weight ceiling, catches double frees.

use ddo_recorder::driver::activity::StreamActivity;
use ddo_recorder::driver::{
    DeviceAddress, DeviceFacts, Driver, DriverResult, Elapsed, EventId, HostAccess, HostBytes, Launch, MemoryInfo, PhysicalId,
    Priority, RegistrationId, StreamId,
};
use ddo_recorder::meter::FakeClock;
use ddo_recorder::{HostDriver, HostOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What a call takes on a clock that is given to the wrapper: another time for every name.
pub(crate) fn call_nanoseconds(call: &str) -> u64 {
    call.bytes().fold(7, |sum, byte| (sum * 31 + u64::from(byte)) % 1009) + 1
}

/// What the wrapper saw.
#[derive(Clone, Debug, Default)]
pub(crate) struct Seen {
    pub(crate) calls: BTreeMap<&'static str, u64>,
    pub(crate) failed: BTreeMap<&'static str, u64>,
    created: BTreeMap<PhysicalId, u64>,
    mapped: BTreeMap<u64, (u64, PhysicalId)>,
    reserved: BTreeMap<u64, u64>,
    events: BTreeSet<EventId>,
    streams: BTreeSet<StreamId>,
    registrations: BTreeMap<RegistrationId, u64>,
    pub(crate) registered_bytes: u64,
    pub(crate) peak_registered_bytes: u64,
    pub(crate) mapped_bytes: u64,
    pub(crate) peak_mapped_bytes: u64,
    pub(crate) copied_bytes: u64,
}

impl Seen {
    /// Physical memory that was not given back, in bytes.
    pub(crate) fn created_bytes(&self) -> u64 {
        self.created.values().sum()
    }

    /// Everything that was taken has been given back.
    pub(crate) fn assert_balanced(&self) {
        assert!(self.created.is_empty(), "memory left: {:?}", self.created);
        assert!(self.mapped.is_empty(), "mappings left: {:?}", self.mapped);
        assert!(self.reserved.is_empty(), "addresses left: {:?}", self.reserved);
        assert!(self.events.is_empty(), "events left: {:?}", self.events);
        assert!(self.streams.is_empty(), "streams left: {:?}", self.streams);
        assert!(self.registrations.is_empty(), "registrations left: {:?}", self.registrations);
    }
}

/// The wrapper. All device memory of these tests holds weights, so the ceiling is the ceiling of all mapped bytes.
#[derive(Debug)]
pub(crate) struct Ledger {
    inner: Arc<dyn Driver>,
    ceiling_bytes: u64,
    seen: Mutex<Seen>,
    corrupt: Mutex<Option<u64>>,
    clock: Mutex<Option<Arc<FakeClock>>>,
    /// The one call that takes time, and how long it takes.
    cost: Mutex<Option<(&'static str, u64)>>,
}

impl Ledger {
    /// Wraps a host driver; mapped memory above `ceiling_bytes` fails the test.
    pub(crate) fn new(options: HostOptions, ceiling_bytes: u64) -> Arc<Ledger> {
        Ledger::over(HostDriver::new(options).expect("a host driver"), ceiling_bytes)
    }

    /// Wraps any driver.
    pub(crate) fn over(inner: Arc<dyn Driver>, ceiling_bytes: u64) -> Arc<Ledger> {
        let (seen, corrupt, clock, cost) = (Mutex::default(), Mutex::default(), Mutex::default(), Mutex::default());
        Arc::new(Ledger { inner, ceiling_bytes, seen, corrupt, clock, cost })
    }

    /// What was seen so far.
    pub(crate) fn seen(&self) -> Seen {
        self.seen.lock().expect("no test panics here").clone()
    }

    /// Counts calls from zero on.
    pub(crate) fn forget_calls(&self) {
        self.seen.lock().expect("no test panics here").calls.clear();
    }

    /// Lets every call take [`call_nanoseconds`] on this clock.
    pub(crate) fn take_time_on(&self, clock: &Arc<FakeClock>) {
        *self.clock.lock().expect("no test panics here") = Some(Arc::clone(clock));
    }

    /// Lets calls of this name take so long on the clock, and no others any more.
    pub(crate) fn only_costs(&self, call: &'static str, nanoseconds: u64) {
        *self.cost.lock().expect("no test panics here") = Some((call, nanoseconds));
    }

    /// Flips one bit of one byte in the copy that carries the given streamed byte.
    pub(crate) fn corrupt_byte(&self, streamed_byte: u64) {
        *self.corrupt.lock().expect("no test panics here") = Some(streamed_byte);
    }

    fn note<T>(&self, call: &'static str, result: DriverResult<T>, change: impl FnOnce(&mut Seen, &T)) -> DriverResult<T> {
        let mut seen = self.seen.lock().expect("no test panics here");
        *seen.calls.entry(call).or_default() += 1;
        match &result {
            Ok(value) => change(&mut seen, value),
            Err(_) => *seen.failed.entry(call).or_default() += 1,
        }
        if let Some(clock) = self.clock.lock().expect("no test panics here").as_ref() {
            clock.advance(match *self.cost.lock().expect("no test panics here") {
                None => call_nanoseconds(call),
                Some((only, nanoseconds)) => nanoseconds * u64::from(only == call),
            });
        }
        result
    }
}

impl Driver for Ledger {
    fn activity(&self) -> Option<&dyn StreamActivity> {
        *self.seen.lock().expect("no test panics here").calls.entry("activity").or_default() += 1;
        self.inner.activity()
    }

    fn facts(&self) -> DeviceFacts {
        self.inner.facts()
    }

    fn memory_info(&self) -> DriverResult<MemoryInfo> {
        self.note("memory_info", self.inner.memory_info(), |_, _| {})
    }

    fn address_reserve(&self, bytes: u64) -> DriverResult<DeviceAddress> {
        self.note("address_reserve", self.inner.address_reserve(bytes), |seen, address| {
            seen.reserved.insert(address.0, bytes);
        })
    }

    fn address_free(&self, address: DeviceAddress, bytes: u64) -> DriverResult<()> {
        self.note("address_free", self.inner.address_free(address, bytes), |seen, ()| {
            assert_eq!(seen.reserved.remove(&address.0), Some(bytes), "freed addresses were reserved, once");
        })
    }

    fn memory_create(&self, bytes: u64) -> DriverResult<PhysicalId> {
        self.note("memory_create", self.inner.memory_create(bytes), |seen, id| {
            seen.created.insert(*id, bytes);
        })
    }

    fn memory_map(&self, address: DeviceAddress, bytes: u64, memory: PhysicalId) -> DriverResult<()> {
        let ceiling = self.ceiling_bytes;
        self.note("memory_map", self.inner.memory_map(address, bytes, memory), |seen, ()| {
            // Memory counts once, at however many addresses it is.
            let again = seen.mapped.values().any(|(_, mapped)| *mapped == memory);
            seen.mapped.insert(address.0, (bytes, memory));
            seen.mapped_bytes += if again { 0 } else { bytes };
            seen.peak_mapped_bytes = seen.peak_mapped_bytes.max(seen.mapped_bytes);
            assert!(seen.mapped_bytes <= ceiling, "{} bytes mapped, the ceiling is {ceiling}", seen.mapped_bytes);
        })
    }

    fn memory_set_access(&self, address: DeviceAddress, bytes: u64) -> DriverResult<()> {
        self.note("memory_set_access", self.inner.memory_set_access(address, bytes), |_, ()| {})
    }

    fn memory_unmap(&self, address: DeviceAddress, bytes: u64) -> DriverResult<()> {
        self.note("memory_unmap", self.inner.memory_unmap(address, bytes), |seen, ()| {
            let (mapped, memory) = seen.mapped.remove(&address.0).expect("unmapped memory was mapped, once");
            assert_eq!(mapped, bytes);
            let elsewhere = seen.mapped.values().any(|(_, other)| *other == memory);
            seen.mapped_bytes -= if elsewhere { 0 } else { bytes };
        })
    }

    fn memory_release(&self, memory: PhysicalId) -> DriverResult<()> {
        self.note("memory_release", self.inner.memory_release(memory), |seen, ()| {
            assert!(seen.created.remove(&memory).is_some(), "released memory was created, once");
            assert!(seen.mapped.values().all(|(_, id)| *id != memory), "memory is unmapped before it is released");
        })
    }

    fn host_register(&self, bytes: &HostBytes, access: HostAccess) -> DriverResult<RegistrationId> {
        self.note("host_register", self.inner.host_register(bytes, access), |seen, id| {
            seen.registrations.insert(*id, bytes.bytes());
            seen.registered_bytes += bytes.bytes();
            seen.peak_registered_bytes = seen.peak_registered_bytes.max(seen.registered_bytes);
        })
    }

    fn host_unregister(&self, registration: RegistrationId) -> DriverResult<()> {
        self.note("host_unregister", self.inner.host_unregister(registration), |seen, ()| {
            let ended = seen.registrations.remove(&registration);
            seen.registered_bytes -= ended.expect("an ended registration was live, once");
        })
    }

    fn context_synchronize(&self) -> DriverResult<()> {
        self.note("context_synchronize", self.inner.context_synchronize(), |_, ()| {})
    }

    fn event_wait(&self, event: EventId, at_most: Duration) -> DriverResult<bool> {
        self.note("event_wait", self.inner.event_wait(event, at_most), |_, _| {})
    }

    fn stream_create(&self, priority: Priority) -> DriverResult<StreamId> {
        self.note("stream_create", self.inner.stream_create(priority), |seen, id| {
            seen.streams.insert(*id);
        })
    }

    fn stream_destroy(&self, stream: StreamId) -> DriverResult<()> {
        self.note("stream_destroy", self.inner.stream_destroy(stream), |seen, ()| {
            assert!(seen.streams.remove(&stream), "a destroyed stream was created, once");
        })
    }

    fn stream_wait_event(&self, stream: StreamId, event: EventId) -> DriverResult<()> {
        self.note("stream_wait_event", self.inner.stream_wait_event(stream, event), |_, ()| {})
    }

    fn stream_synchronize(&self, stream: StreamId) -> DriverResult<()> {
        self.note("stream_synchronize", self.inner.stream_synchronize(stream), |_, ()| {})
    }

    fn event_create(&self, timing: bool) -> DriverResult<EventId> {
        self.note("event_create", self.inner.event_create(timing), |seen, id| {
            seen.events.insert(*id);
        })
    }

    fn event_record(&self, event: EventId, stream: StreamId) -> DriverResult<()> {
        self.note("event_record", self.inner.event_record(event, stream), |_, ()| {})
    }

    fn event_query(&self, event: EventId) -> DriverResult<bool> {
        self.note("event_query", self.inner.event_query(event), |_, _| {})
    }

    fn event_elapsed(&self, from: EventId, to: EventId) -> DriverResult<Elapsed> {
        self.note("event_elapsed", self.inner.event_elapsed(from, to), |_, _| {})
    }

    fn event_synchronize(&self, event: EventId) -> DriverResult<()> {
        self.note("event_synchronize", self.inner.event_synchronize(event), |_, ()| {})
    }

    fn event_destroy(&self, event: EventId) -> DriverResult<()> {
        self.note("event_destroy", self.inner.event_destroy(event), |seen, ()| {
            assert!(seen.events.remove(&event), "a destroyed event was created, once");
        })
    }

    fn copy_to_device(&self, to: DeviceAddress, from: HostBytes, stream: StreamId) -> DriverResult<()> {
        let bytes = from.bytes();
        let start = self.seen.lock().expect("no test panics here").copied_bytes;
        let mut corrupt = self.corrupt.lock().expect("no test panics here");
        let from = match *corrupt {
            Some(at) if (start..start + bytes).contains(&at) => {
                *corrupt = None;
                let mut damaged = from.as_slice().to_vec();
                damaged[(at - start) as usize] ^= 0x10;
                HostBytes::new(Arc::new(damaged), 0, bytes).expect("the whole copy")
            }
            _ => from,
        };
        drop(corrupt);
        self.note("copy_to_device", self.inner.copy_to_device(to, from, stream), |seen, ()| seen.copied_bytes += bytes)
    }

    fn read_device(&self, from: DeviceAddress, bytes: u64) -> DriverResult<Vec<u8>> {
        self.note("read_device", self.inner.read_device(from, bytes), |_, _| {})
    }

    fn launch(&self, stream: StreamId, launch: Launch) -> DriverResult<()> {
        self.note("launch", self.inner.launch(stream, launch), |_, ()| {})
    }
}
