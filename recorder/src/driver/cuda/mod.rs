//! The CUDA driver: NVIDIA devices through the driver library, which is opened at run time.
//!
//! May use: `meter`, `limits`, `cudarc`'s raw bindings.
//!
//! Invariants: the library is probed before its first call, so a machine without one gets an error, not a panic. The primary
//! context is shared with whoever else uses the device in this process. Streams do not synchronise with the default stream.
//! Nothing here synchronises a device except where the trait says so.
//!
//! | file | question |
//! |---|---|
//! | `context` | is there a device, and is its context current? |
//! | `cupti` | what did the device run? |
//! | `error` | what did CUDA answer, in our words? (pure) |
//! | `ledger` | what is mapped, registered, still needed? (pure) |
//! | `handle` | who ends a stream or an event? |
//! | `memory` | which calls stand behind memory and registration? |
//! | `work` | what may a job reach? |
//! | [`compute`] | what can a job compute without unsafe code? |

#![allow(unsafe_code)]

pub mod compute;
mod context;
mod cupti;
#[cfg(test)]
mod device_tests;
mod error;
mod handle;
mod ledger;
mod memory;
mod work;

pub use work::CudaContext;

use super::activity::StreamActivity;
use super::{
    DeviceAddress, DeviceFacts, Driver, DriverError, DriverResult, Elapsed, EventId, HostAccess, HostBytes, Job, Launch,
    MemoryInfo, PhysicalId, Priority, RegistrationId, StreamId,
};
use crate::limits::EVENT_POLL_MICROSECONDS;
use context::Context;
use cudarc::driver::sys::{self, CUresult};
use error::{check, failure, invalid};
use handle::{Event, Stream};
use memory::Memory;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Settings of the CUDA driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CudaOptions {
    /// Index of the device, as CUDA counts the visible ones.
    pub device: u32,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    streams: BTreeMap<StreamId, Arc<Stream>>,
    events: BTreeMap<EventId, Arc<Event>>,
}

/// The CUDA driver.
#[derive(Debug)]
pub struct CudaDriver {
    facts: DeviceFacts,
    priorities: (i32, i32),
    table: Mutex<Table>,
    memory: Memory,
    cupti: cupti::Cupti,
    context: Arc<Context>,
}

impl CudaDriver {
    /// Opens a device: probes the library, retains the primary context, reads the facts.
    ///
    /// # Errors
    /// No driver library, one that is too old or lacks a function, no device of that index, or CUDA's own answer.
    ///
    /// # Cost
    /// The first use of a device in a process creates its context, which takes a good part of a second.
    pub fn open(options: CudaOptions) -> DriverResult<Arc<CudaDriver>> {
        let context = Arc::new(Context::open(options.device)?);
        let priorities = context.priorities()?;
        let memory = Memory::new(&context)?;
        let read_only = context.attribute(sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED)?;
        let facts = DeviceFacts {
            driver: "cuda",
            name: context.name()?,
            clock: "cuda_event",
            page_bytes: memory.page_bytes(),
            read_only_registration: read_only == 1,
            registration_takes_time: true,
            link_bytes_per_second: None,
            context: context.id(),
        };
        let cupti = cupti::Cupti::new(&context);
        Ok(Arc::new(CudaDriver { facts, priorities, table: Mutex::default(), memory, cupti, context }))
    }

    /// Failures that happened in destructors, oldest first.
    pub fn stored_errors(&self) -> Vec<DriverError> {
        self.context.stored()
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The stream, with the context current on this thread.
    fn stream(&self, call: &'static str, id: StreamId) -> DriverResult<Arc<Stream>> {
        let found = self.table().streams.get(&id).cloned();
        let stream = found.ok_or_else(|| invalid(call, format!("stream {} does not exist", id.0)))?;
        self.context.make_current(call)?;
        Ok(stream)
    }

    /// The event, with the context current on this thread.
    fn event(&self, call: &'static str, id: EventId) -> DriverResult<Arc<Event>> {
        let found = self.table().events.get(&id).cloned();
        let event = found.ok_or_else(|| invalid(call, format!("event {} does not exist", id.0)))?;
        self.context.make_current(call)?;
        Ok(event)
    }

    /// Lets go what the work before a passed record needed.
    fn passed(&self, recorded: Option<(StreamId, u64)>) {
        let Some((stream, point)) = recorded else { return };
        let stream = self.table().streams.get(&stream).cloned();
        if let Some(stream) = stream {
            stream.passed(point);
        }
    }

    fn query(&self, call: &'static str, event: &Event) -> DriverResult<bool> {
        let recorded = event.recorded();
        // SAFETY: the event lives as long as the borrow; the context is current.
        match unsafe { sys::cuEventQuery(event.raw()) } {
            CUresult::CUDA_SUCCESS => {
                self.passed(recorded);
                Ok(true)
            }
            CUresult::CUDA_ERROR_NOT_READY => Ok(false),
            answer => Err(failure(call, "cuEventQuery", answer)),
        }
    }
}

impl Driver for CudaDriver {
    fn facts(&self) -> DeviceFacts {
        self.facts.clone()
    }

    fn memory_info(&self) -> DriverResult<MemoryInfo> {
        self.memory.info()
    }

    fn address_reserve(&self, bytes: u64) -> DriverResult<DeviceAddress> {
        self.memory.reserve(bytes)
    }

    fn address_free(&self, address: DeviceAddress, bytes: u64) -> DriverResult<()> {
        self.memory.free(address, bytes)
    }

    fn memory_create(&self, bytes: u64) -> DriverResult<PhysicalId> {
        self.memory.create(bytes)
    }

    fn memory_map(&self, address: DeviceAddress, bytes: u64, memory: PhysicalId) -> DriverResult<()> {
        self.memory.map(address, bytes, memory)
    }

    fn memory_set_access(&self, address: DeviceAddress, bytes: u64) -> DriverResult<()> {
        self.memory.set_access(address, bytes)
    }

    fn memory_unmap(&self, address: DeviceAddress, bytes: u64) -> DriverResult<()> {
        self.memory.unmap(address, bytes)
    }

    fn memory_release(&self, memory: PhysicalId) -> DriverResult<()> {
        self.memory.release(memory)
    }

    fn host_register(&self, bytes: &HostBytes, access: HostAccess) -> DriverResult<RegistrationId> {
        self.memory.register(bytes, access)
    }

    fn host_unregister(&self, registration: RegistrationId) -> DriverResult<()> {
        self.memory.unregister(registration)
    }

    fn context_synchronize(&self) -> DriverResult<()> {
        let streams: Vec<Arc<Stream>> = self.table().streams.values().cloned().collect();
        let points: Vec<u64> = streams.iter().map(|stream| stream.leases().point()).collect();
        self.context.make_current("context_synchronize")?;
        // SAFETY: the context is current on this thread.
        check("context_synchronize", "cuCtxSynchronize", unsafe { sys::cuCtxSynchronize() })?;
        streams.iter().zip(points).for_each(|(stream, point)| stream.passed(point));
        Ok(())
    }

    fn stream_create(&self, priority: Priority) -> DriverResult<StreamId> {
        self.context.make_current("stream_create")?;
        let (least, greatest) = self.priorities;
        let priority = if priority == Priority::High { greatest } else { least };
        let stream = Arc::new(Stream::create(&self.context, priority)?);
        let mut table = self.table();
        table.next += 1;
        let id = StreamId(table.next);
        table.streams.insert(id, stream);
        Ok(id)
    }

    fn stream_destroy(&self, id: StreamId) -> DriverResult<()> {
        let stream = self.stream("stream_destroy", id)?;
        // Waited for, as the other drivers do: what the stream's work needs can only be let go then.
        stream.synchronize("stream_destroy")?;
        self.table().streams.remove(&id);
        Stream::destroy(stream)
    }

    fn stream_wait_event(&self, stream: StreamId, event: EventId) -> DriverResult<()> {
        let event = self.event("stream_wait_event", event)?;
        let stream = self.stream("stream_wait_event", stream)?;
        // SAFETY: both handles live as long as their borrows; the context is current.
        let answer = unsafe { sys::cuStreamWaitEvent(stream.raw(), event.raw(), 0) };
        check("stream_wait_event", "cuStreamWaitEvent", answer)
    }

    fn stream_synchronize(&self, stream: StreamId) -> DriverResult<()> {
        self.stream("stream_synchronize", stream)?.synchronize("stream_synchronize")
    }

    fn event_create(&self, timing: bool) -> DriverResult<EventId> {
        self.context.make_current("event_create")?;
        let event = Arc::new(Event::create(&self.context, timing)?);
        let mut table = self.table();
        table.next += 1;
        let id = EventId(table.next);
        table.events.insert(id, event);
        Ok(id)
    }

    fn event_record(&self, event: EventId, id: StreamId) -> DriverResult<()> {
        let event = self.event("event_record", event)?;
        let stream = self.stream("event_record", id)?;
        let leases = stream.leases();
        let mut recorded = event.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: both handles live as long as their borrows; the context is current.
        check("event_record", "cuEventRecord", unsafe { sys::cuEventRecord(event.raw(), stream.raw()) })?;
        *recorded = Some((id, leases.point()));
        Ok(())
    }

    fn event_query(&self, event: EventId) -> DriverResult<bool> {
        let event = self.event("event_query", event)?;
        self.query("event_query", &event)
    }

    fn event_elapsed(&self, from: EventId, to: EventId) -> DriverResult<Elapsed> {
        let call = "event_elapsed";
        let (start, end) = (self.event(call, from)?, self.event(call, to)?);
        for (id, event) in [(from, &start), (to, &end)] {
            if !event.timing {
                return Err(invalid(call, format!("event {} was created without timing", id.0)));
            }
            if event.recorded().is_none() {
                return Err(invalid(call, format!("event {} was never recorded", id.0)));
            }
        }
        let mut milliseconds = 0f32;
        // SAFETY: the place is valid; both handles live as long as their borrows; the context is current.
        let answer = unsafe { sys::cuEventElapsedTime_v2(&mut milliseconds, start.raw(), end.raw()) };
        check(call, "cuEventElapsedTime_v2", answer)?;
        Ok(error::elapsed(milliseconds))
    }

    fn event_synchronize(&self, event: EventId) -> DriverResult<()> {
        let event = self.event("event_synchronize", event)?;
        let recorded = event.recorded();
        // SAFETY: the event lives as long as the borrow; the context is current.
        check("event_synchronize", "cuEventSynchronize", unsafe { sys::cuEventSynchronize(event.raw()) })?;
        self.passed(recorded);
        Ok(())
    }

    fn event_wait(&self, event: EventId, at_most: Duration) -> DriverResult<bool> {
        let event = self.event("event_wait", event)?;
        let start = Instant::now();
        loop {
            if self.query("event_wait", &event)? {
                return Ok(true);
            }
            let Some(rest) = at_most.checked_sub(start.elapsed()).filter(|rest| !rest.is_zero()) else { return Ok(false) };
            std::thread::sleep(rest.min(Duration::from_micros(EVENT_POLL_MICROSECONDS)));
        }
    }

    fn event_destroy(&self, id: EventId) -> DriverResult<()> {
        let event = self.event("event_destroy", id)?;
        self.table().events.remove(&id);
        Event::destroy(event)
    }

    fn copy_to_device(&self, to: DeviceAddress, from: HostBytes, stream: StreamId) -> DriverResult<()> {
        let stream = self.stream("copy_to_device", stream)?;
        self.memory.copy(to, from, &stream)
    }

    fn read_device(&self, from: DeviceAddress, bytes: u64) -> DriverResult<Vec<u8>> {
        self.context_synchronize()?;
        self.memory.read(from, bytes)
    }

    fn launch(&self, stream: StreamId, launch: Launch) -> DriverResult<()> {
        let stream = self.stream("launch", stream)?;
        if !matches!(launch.job, Job::Cuda(_)) {
            return Err(invalid("launch", "host work needs the host driver"));
        }
        launch.run_cuda(|grants| CudaContext::new(Arc::clone(&self.context), stream, grants));
        Ok(())
    }

    fn activity(&self) -> Option<&dyn StreamActivity> {
        Some(&self.cupti)
    }
}

impl Drop for CudaDriver {
    /// Never waits. Streams end with their queued work; registrations are ended only when every stream is proven idle, and
    /// stay for good with their bytes otherwise.
    fn drop(&mut self) {
        let table = self.table.get_mut().unwrap_or_else(PoisonError::into_inner);
        let current = self.context.make_current("cuda_close").is_ok();
        let idle = current && table.streams.values().all(|stream| stream.idle());
        self.memory.end(idle);
    }
}
