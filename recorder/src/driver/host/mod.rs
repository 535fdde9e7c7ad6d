//! The host driver: device memory from a memory file, streams as threads. The embedded default and the test bed.
//!
//! May use: `meter`, `limits`. Invariants: device memory is really mapped and unmapped at page granularity, so
//! touching an unmapped page is a fault, not a wrong number; streams run in order; a copy takes at least the time
//! that the configured link rate gives it.
//!
//! | file | question |
//! |---|---|
//! | `machine` | what may run next? (pure; an executor drives it) |
//! | `executor` | what do all executors share? |
//! | `threaded` | who runs it? one worker thread a stream, real time |
//! | `stepped` | the same in virtual time, one operation after another, picked by a seed |
//! | `memory` | where is device memory? |
//! | `watch` | what did the streams run, while somebody wants to know? |

mod executor;
mod machine;
mod memory;
mod registered;
mod stepped;
mod threaded;
mod watch;

pub(crate) use watch::Inside;

use super::activity::{Activities, ActivityFilter, StreamActivity};
use super::job::CUDA_ONLY;
use super::{
    DeviceAddress, DeviceFacts, Driver, DriverError, DriverErrorKind, DriverResult, Elapsed, EventId, HostAccess, HostBytes,
    HostContext, Job, Launch, MemoryInfo, PhysicalId, Priority, RegistrationId, StreamId,
};
use crate::limits::{HOST_DEVICE_BYTES, HOST_PAGE_BYTES, SPARE_MAPPINGS};
use crate::meter::Nanos;
use executor::Executor;
use machine::Op;
use memory::HostMemory;
use registered::Registered;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use watch::Watch;

/// Who runs the streams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HostMode {
    /// A worker thread a stream, in real time.
    #[default]
    Threaded,
    /// Virtual time in integer nanoseconds. Work runs only while the host waits, and always in the same way.
    Stepped,
    /// Virtual time; at every call of the host, and among ready streams, the seed decides what runs next and when its
    /// effect shows. The same seed gives the same run.
    Interleaved {
        /// The seed.
        seed: u64,
    },
}

/// Settings of the host driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostOptions {
    /// Who runs the streams.
    pub mode: HostMode,
    /// Whether device memory holds bytes. Without, everything is only counted: for simulations of sizes that no machine
    /// has. Work cannot read it then.
    pub backed: bool,
    /// Granularity of device memory, in bytes: a power of two and a multiple of the system's page size.
    pub page_bytes: u64,
    /// Device memory, in bytes.
    pub device_bytes: u64,
    /// Copy rate to imitate, in bytes per second; `None` copies as fast as the machine does.
    pub link_bytes_per_second: Option<u64>,
    /// Latency added to every copy.
    pub link_latency: Duration,
    /// Most mappings to hold; `None` takes the kernel's limit less a reserve.
    pub mapping_limit: Option<u64>,
    /// Most host bytes to register; `None` for no limit.
    pub registration_limit_bytes: Option<u64>,
    /// Rate of registering to imitate, in bytes per second; copies are not queued meanwhile. In real time only: the calls of a
    /// host take no virtual time.
    pub registration_bytes_per_second: Option<u64>,
}

impl Default for HostOptions {
    fn default() -> HostOptions {
        HostOptions {
            mode: HostMode::Threaded,
            backed: true,
            page_bytes: HOST_PAGE_BYTES,
            device_bytes: HOST_DEVICE_BYTES,
            link_bytes_per_second: None,
            link_latency: Duration::ZERO,
            mapping_limit: None,
            registration_limit_bytes: None,
            registration_bytes_per_second: None,
        }
    }
}

/// The host driver.
#[derive(Debug)]
pub struct HostDriver {
    options: HostOptions,
    memory: Arc<HostMemory>,
    executor: Executor,
    registered: Registered,
    /// Each host driver is a context of its own.
    context: u64,
    watch: Arc<Watch>,
}

impl HostDriver {
    /// Starts a host driver.
    ///
    /// # Errors
    /// A page size that is no power of two or no multiple of the system's, a rate of zero, or no memory file.
    pub fn new(options: HostOptions) -> DriverResult<Arc<HostDriver>> {
        let invalid = |detail: String| DriverError::new("host_open", DriverErrorKind::InvalidValue, detail);
        let system_page = rustix::param::page_size() as u64;
        if !options.page_bytes.is_power_of_two() || !options.page_bytes.is_multiple_of(system_page) {
            let page = options.page_bytes;
            return Err(invalid(format!("page_bytes is {page}; it must be a power of two and a multiple of {system_page}")));
        }
        if options.link_bytes_per_second == Some(0) {
            return Err(invalid("link_bytes_per_second is 0; leave it out for an unlimited link".into()));
        }
        if options.registration_bytes_per_second == Some(0) {
            return Err(invalid("registration_bytes_per_second is 0; leave it out to take no time".into()));
        }
        let limit = options.mapping_limit.unwrap_or_else(|| memory::kernel_mapping_limit().saturating_sub(SPARE_MAPPINGS));
        let memory = Arc::new(match options.backed {
            true => HostMemory::new(options.page_bytes, options.device_bytes, limit)?,
            false => HostMemory::unbacked(options.page_bytes, options.device_bytes),
        });
        let (rate, watch) = (options.link_bytes_per_second, Arc::new(Watch::default()));
        let executor = Executor::new(options.mode, rate, options.link_latency, Arc::clone(&memory), Arc::clone(&watch));
        let rate = options.registration_bytes_per_second.filter(|_| options.mode == HostMode::Threaded);
        let registered = Registered::new(options.registration_limit_bytes, rate);
        static CONTEXTS: AtomicU64 = AtomicU64::new(0);
        let context = CONTEXTS.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(HostDriver { options, memory, executor, registered, context, watch }))
    }

    /// The time that streams see: virtual in the stepped modes, since the driver's start otherwise, in nanoseconds.
    pub fn stream_time(&self) -> Nanos {
        Nanos(self.executor.now())
    }

    /// Runs of device memory that the kernel sees as separate mappings; neighbours merge.
    pub fn mapping_runs(&self) -> u64 {
        self.memory.mapping_runs()
    }
}

impl HostDriver {
    fn queue(&self, call: &'static str, stream: StreamId, op: impl FnOnce(u64) -> Op) -> DriverResult<()> {
        let queue = |number| self.executor.change(|machine| machine.enqueue(call, stream, op(number)));
        self.watch.call(call, || self.executor.now(), queue)
    }
}

/// Records on the clock of the streams: virtual in the stepped modes.
impl StreamActivity for HostDriver {
    fn start(&self, filter: ActivityFilter, most: usize) -> DriverResult<()> {
        self.watch.start(filter, most)
    }

    fn now(&self) -> DriverResult<u64> {
        Ok(self.executor.now())
    }

    fn enter(&self, range: u64) -> DriverResult<()> {
        self.watch.enter(range);
        Ok(())
    }

    fn stop(&self) -> DriverResult<Activities> {
        let waited = self.executor.context_synchronize();
        let kept = self.watch.stop(self.executor.now())?;
        waited.map(|()| kept)
    }
}

/// The bytes behind a view that the context's grants cover.
pub(super) fn device_bytes(pointer: DeviceAddress, bytes: u64, context: &HostContext) -> &[u8] {
    memory::slice(pointer, bytes, context)
}

impl Driver for HostDriver {
    fn facts(&self) -> DeviceFacts {
        DeviceFacts {
            driver: "host",
            name: "host memory".into(),
            clock: "host_stream",
            page_bytes: self.options.page_bytes,
            read_only_registration: true,
            registration_takes_time: self.registered.takes_time(),
            link_bytes_per_second: self.options.link_bytes_per_second,
            context: self.context,
        }
    }

    fn memory_info(&self) -> DriverResult<MemoryInfo> {
        Ok(self.memory.info())
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

    fn host_register(&self, bytes: &HostBytes, _access: HostAccess) -> DriverResult<RegistrationId> {
        self.registered.register(bytes)
    }

    fn host_unregister(&self, registration: RegistrationId) -> DriverResult<()> {
        self.registered.unregister(registration)
    }

    fn context_synchronize(&self) -> DriverResult<()> {
        self.executor.context_synchronize()
    }

    fn stream_create(&self, priority: Priority) -> DriverResult<StreamId> {
        self.executor.stream_create(priority)
    }

    fn stream_destroy(&self, stream: StreamId) -> DriverResult<()> {
        self.executor.stream_destroy(stream)
    }

    fn stream_wait_event(&self, stream: StreamId, event: EventId) -> DriverResult<()> {
        self.executor.change(|machine| machine.wait_event(stream, event))
    }

    fn stream_synchronize(&self, stream: StreamId) -> DriverResult<()> {
        self.executor.stream_synchronize(stream)
    }

    fn event_create(&self, timing: bool) -> DriverResult<EventId> {
        self.executor.change(|machine| Ok(machine.event_create(timing)))
    }

    fn event_record(&self, event: EventId, stream: StreamId) -> DriverResult<()> {
        self.executor.change(|machine| machine.record(event, stream))
    }

    fn event_query(&self, event: EventId) -> DriverResult<bool> {
        self.executor.change(|machine| machine.passed(event, "event_query"))
    }

    fn event_elapsed(&self, from: EventId, to: EventId) -> DriverResult<Elapsed> {
        let nanoseconds = self.executor.look(|machine| machine.elapsed(from, to))?;
        Ok(Elapsed { seconds: nanoseconds as f64 / 1e9, resolution_seconds: 1e-9 })
    }

    fn event_synchronize(&self, event: EventId) -> DriverResult<()> {
        self.executor.event_synchronize(event)
    }

    fn event_wait(&self, event: EventId, at_most: Duration) -> DriverResult<bool> {
        self.executor.event_wait(event, at_most)
    }

    fn event_destroy(&self, event: EventId) -> DriverResult<()> {
        self.executor.change(|machine| machine.event_destroy(event))
    }

    fn copy_to_device(&self, to: DeviceAddress, from: HostBytes, stream: StreamId) -> DriverResult<()> {
        self.memory.check_accessible("copy_to_device", to, from.bytes())?;
        if self.options.backed && !from.is_backed() {
            let detail = format!("{} source bytes are only counted", from.bytes());
            return Err(DriverError::new("copy_to_device", DriverErrorKind::InvalidValue, detail));
        }
        self.registered.give_way();
        let call = "copy_to_device";
        self.queue(call, stream, |number| Op::Copy { to, from, number })
    }

    fn read_device(&self, from: DeviceAddress, bytes: u64) -> DriverResult<Vec<u8>> {
        self.executor.context_synchronize()?;
        self.memory.read(from, bytes)
    }

    fn launch(&self, stream: StreamId, launch: Launch) -> DriverResult<()> {
        if matches!(launch.job, Job::Cuda(_)) {
            return Err(DriverError::new("launch", DriverErrorKind::InvalidValue, CUDA_ONLY));
        }
        self.queue("launch", stream, |number| Op::Work { launch, number })
    }

    fn activity(&self) -> Option<&dyn StreamActivity> {
        Some(self)
    }
}
