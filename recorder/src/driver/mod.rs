//! "How do we talk to the device?"
//!
//! May use: `meter`, `limits`, `plan` for data types. The only room of this crate with unsafe code.
//!
//! Invariants: knows no weights, units or plans. Every call can fail and every failure names the call. Streams are
//! in-order queues; order between streams comes from events alone. An asynchronous copy owns its source bytes until
//! it has run.

pub mod activity;
mod block;
pub mod compute;
pub mod cuda;
pub mod descriptors;
mod faulty;
mod file;
pub mod host;
mod job;
mod markers;
mod timed;

pub use block::{BlockWriter, HostBlock};
pub use cuda::{CudaContext, CudaDriver, CudaOptions};
pub use faulty::{Faulty, Script};
pub use file::{FileChange, FileIdentity, MappedFile, SourceFile};
pub use host::{HostDriver, HostMode, HostOptions};
pub use job::{Element, Grant, HostBytes, HostContext, Job, JobError, JobFailures, Launch, Stretch, View};
pub use markers::MarkersBusy;
pub(crate) use markers::{MarkerClaim, collect_abandoned};
pub use timed::{CallMeter, CallStats, MeterLease, Timed, TimedReading};

use activity::StreamActivity;
use std::fmt::{self, Debug};
use std::time::Duration;

/// An address in device memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceAddress(pub u64);

impl DeviceAddress {
    /// The address `bytes` further on.
    pub fn offset(self, bytes: u64) -> DeviceAddress {
        DeviceAddress(self.0 + bytes)
    }
}

/// Physical device memory, mapped or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PhysicalId(pub u64);

/// An in-order queue of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u64);

/// A marker that a stream passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EventId(pub u64);

/// Host bytes registered for direct copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegistrationId(pub u64);

/// What registered host bytes may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HostAccess {
    /// The device only reads them; needed for files mapped read-only.
    ReadOnly,
    /// The device may write them too.
    ReadWrite,
}

/// Facts that do not change while the driver lives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// `host` or `cuda`.
    pub driver: &'static str,
    /// Name of the device.
    pub name: String,
    /// Label of the clock behind events: `host_stream` or `cuda_event`.
    pub clock: &'static str,
    /// Granularity of physical memory, in bytes.
    pub page_bytes: u64,
    /// Whether host bytes that are mapped read-only can be registered.
    pub read_only_registration: bool,
    /// Whether registering takes longer the more bytes there are.
    pub registration_takes_time: bool,
    /// Copy rate that is imitated, in bytes per second; `None` for a real link.
    pub link_bytes_per_second: Option<u64>,
    /// Which context of this process it is; drivers of one context have the same number.
    pub context: u64,
}

/// Device memory at one moment, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Not in use.
    pub free_bytes: u64,
    /// All of it.
    pub total_bytes: u64,
}

/// Time between two events.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Elapsed {
    /// Signed seconds.
    pub seconds: f64,
    /// Smallest difference that the clock can show at this distance, in seconds.
    pub resolution_seconds: f64,
}

/// How urgent a stream is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Compute.
    Normal,
    /// Uploads that compute waits for.
    High,
}

/// What a driver answered instead of success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverErrorKind {
    /// The work asked about is still in flight.
    NotReady,
    /// No memory left.
    OutOfMemory,
    /// An argument does not fit the state of the device.
    InvalidValue,
    /// The kernel's limit on mappings would be passed.
    MappingLimit,
    /// The operating system declined.
    System,
    /// Anything else, with the driver's own number.
    Other(i32),
}

/// A failed driver call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call} failed ({}): {detail}", self.code())]
pub struct DriverError {
    /// The call, by its name in [`Driver`].
    pub call: &'static str,
    /// What kind of answer it was.
    pub kind: DriverErrorKind,
    /// The numbers.
    pub detail: String,
}

impl DriverError {
    /// A failure of the named call.
    pub fn new(call: &'static str, kind: DriverErrorKind, detail: impl fmt::Display) -> DriverError {
        DriverError { call, kind, detail: detail.to_string() }
    }

    /// Stable identifier of the kind.
    pub fn code(&self) -> &'static str {
        match self.kind {
            DriverErrorKind::NotReady => "driver_not_ready",
            DriverErrorKind::OutOfMemory => "driver_out_of_memory",
            DriverErrorKind::InvalidValue => "driver_invalid_value",
            DriverErrorKind::MappingLimit => "driver_mapping_limit",
            DriverErrorKind::System => "driver_system",
            DriverErrorKind::Other(_) => "driver_other",
        }
    }
}

/// Result of a driver call.
pub type DriverResult<T> = Result<T, DriverError>;

/// A device: memory, streams, events, copies and work.
///
/// Wrappers compose over it. Implementations say in their own documentation which operating system calls stand behind
/// a method.
pub trait Driver: Send + Sync + Debug {
    /// Facts of the device.
    fn facts(&self) -> DeviceFacts;

    /// Free and total device memory.
    fn memory_info(&self) -> DriverResult<MemoryInfo>;

    /// Reserves addresses; no memory yet.
    fn address_reserve(&self, bytes: u64) -> DriverResult<DeviceAddress>;

    /// Gives reserved addresses back; nothing may be mapped there.
    fn address_free(&self, address: DeviceAddress, bytes: u64) -> DriverResult<()>;

    /// Creates physical memory of whole pages.
    fn memory_create(&self, bytes: u64) -> DriverResult<PhysicalId>;

    /// Maps physical memory at reserved addresses; not accessible yet.
    fn memory_map(&self, address: DeviceAddress, bytes: u64, memory: PhysicalId) -> DriverResult<()>;

    /// Makes mapped addresses accessible.
    fn memory_set_access(&self, address: DeviceAddress, bytes: u64) -> DriverResult<()>;

    /// Takes memory away from its addresses.
    fn memory_unmap(&self, address: DeviceAddress, bytes: u64) -> DriverResult<()>;

    /// Gives physical memory back once it is unmapped.
    fn memory_release(&self, memory: PhysicalId) -> DriverResult<()>;

    /// Registers host bytes for direct copies; they must stay mapped until they are unregistered.
    fn host_register(&self, bytes: &HostBytes, access: HostAccess) -> DriverResult<RegistrationId>;

    /// Ends a registration; no copy may still read the bytes.
    fn host_unregister(&self, registration: RegistrationId) -> DriverResult<()>;

    /// Blocks until the device has run everything queued so far on all streams of the context.
    fn context_synchronize(&self) -> DriverResult<()>;

    /// Creates a stream.
    fn stream_create(&self, priority: Priority) -> DriverResult<StreamId>;

    /// Ends a stream after its queued work.
    fn stream_destroy(&self, stream: StreamId) -> DriverResult<()>;

    /// Makes later work of the stream wait for the event's latest record. The host does not wait.
    fn stream_wait_event(&self, stream: StreamId, event: EventId) -> DriverResult<()>;

    /// Blocks until the stream has run everything queued so far.
    fn stream_synchronize(&self, stream: StreamId) -> DriverResult<()>;

    /// Creates an event; `timing` events can be measured.
    fn event_create(&self, timing: bool) -> DriverResult<EventId>;

    /// Queues the event on the stream.
    fn event_record(&self, event: EventId, stream: StreamId) -> DriverResult<()>;

    /// True when the event's latest record has been passed, or it was never recorded. Does not wait.
    fn event_query(&self, event: EventId) -> DriverResult<bool>;

    /// Time from one event to another; both must have been passed.
    fn event_elapsed(&self, from: EventId, to: EventId) -> DriverResult<Elapsed>;

    /// Blocks until the event's latest record has been passed.
    fn event_synchronize(&self, event: EventId) -> DriverResult<()>;

    /// Blocks until the event's latest record has been passed, at most for the given time; false when it was not.
    fn event_wait(&self, event: EventId, at_most: Duration) -> DriverResult<bool>;

    /// Gives the event back; work that refers to it still runs.
    fn event_destroy(&self, event: EventId) -> DriverResult<()>;

    /// Queues a copy of host bytes to device memory. The bytes stay owned until the copy has run.
    fn copy_to_device(&self, to: DeviceAddress, from: HostBytes, stream: StreamId) -> DriverResult<()>;

    /// Reads device memory behind everything queued so far on all streams. Blocks; for checks, not for the hot path.
    fn read_device(&self, from: DeviceAddress, bytes: u64) -> DriverResult<Vec<u8>>;

    /// Queues host-supplied work.
    fn launch(&self, stream: StreamId, launch: Launch) -> DriverResult<()>;

    /// Where records of what the streams ran come from; `None` without such a source. No call of the device.
    fn activity(&self) -> Option<&dyn StreamActivity> {
        None
    }
}

/// Implements [`Driver`] for a wrapper with a field `inner`, a method `around(call, work)`, and a method `records()` for [`Driver::activity`].
macro_rules! wrap_driver {
    ($wrapper:ty) => {
        impl $crate::driver::Driver for $wrapper {
            fn facts(&self) -> $crate::driver::DeviceFacts {
                self.inner.facts()
            }
            fn activity(&self) -> Option<&dyn $crate::driver::activity::StreamActivity> {
                self.records()
            }
            $crate::driver::wrapped! {
                memory_info() -> $crate::driver::MemoryInfo;
                address_reserve(bytes: u64) -> $crate::driver::DeviceAddress;
                address_free(address: $crate::driver::DeviceAddress, bytes: u64) -> ();
                memory_create(bytes: u64) -> $crate::driver::PhysicalId;
                memory_map(address: $crate::driver::DeviceAddress, bytes: u64, memory: $crate::driver::PhysicalId) -> ();
                memory_set_access(address: $crate::driver::DeviceAddress, bytes: u64) -> ();
                memory_unmap(address: $crate::driver::DeviceAddress, bytes: u64) -> ();
                memory_release(memory: $crate::driver::PhysicalId) -> ();
                host_register(bytes: &$crate::driver::HostBytes, access: $crate::driver::HostAccess) -> $crate::driver::RegistrationId;
                host_unregister(registration: $crate::driver::RegistrationId) -> ();
                context_synchronize() -> ();
                stream_create(priority: $crate::driver::Priority) -> $crate::driver::StreamId;
                stream_destroy(stream: $crate::driver::StreamId) -> ();
                stream_wait_event(stream: $crate::driver::StreamId, event: $crate::driver::EventId) -> ();
                stream_synchronize(stream: $crate::driver::StreamId) -> ();
                event_create(timing: bool) -> $crate::driver::EventId;
                event_record(event: $crate::driver::EventId, stream: $crate::driver::StreamId) -> ();
                event_query(event: $crate::driver::EventId) -> bool;
                event_elapsed(from: $crate::driver::EventId, to: $crate::driver::EventId) -> $crate::driver::Elapsed;
                event_synchronize(event: $crate::driver::EventId) -> ();
                event_wait(event: $crate::driver::EventId, at_most: ::std::time::Duration) -> bool;
                event_destroy(event: $crate::driver::EventId) -> ();
                copy_to_device(to: $crate::driver::DeviceAddress, from: $crate::driver::HostBytes, stream: $crate::driver::StreamId) -> ();
                read_device(from: $crate::driver::DeviceAddress, bytes: u64) -> Vec<u8>;
                launch(stream: $crate::driver::StreamId, launch: $crate::driver::Launch) -> ();
            }
        }
    };
}

/// The methods of a wrapper: each goes through `around`.
macro_rules! wrapped {
    ($($name:ident($($argument:ident: $ty:ty),*) -> $result:ty;)*) => {
        $(fn $name(&self, $($argument: $ty),*) -> $crate::driver::DriverResult<$result> {
            self.around(stringify!($name), || self.inner.$name($($argument),*))
        })*
    };
}

pub(crate) use {wrap_driver, wrapped};

/// Every call of [`Driver`] that can fail, in declaration order.
pub const CALLS: [&str; 25] = [
    "memory_info",
    "address_reserve",
    "address_free",
    "memory_create",
    "memory_map",
    "memory_set_access",
    "memory_unmap",
    "memory_release",
    "host_register",
    "host_unregister",
    "context_synchronize",
    "stream_create",
    "stream_destroy",
    "stream_wait_event",
    "stream_synchronize",
    "event_create",
    "event_record",
    "event_query",
    "event_elapsed",
    "event_synchronize",
    "event_wait",
    "event_destroy",
    "copy_to_device",
    "read_device",
    "launch",
];
