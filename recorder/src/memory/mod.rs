//! "Where do the bytes live?"
//!
//! May use: `driver`, `meter`, `plan` (values only), `limits`, `error`.
//!
//! Invariants: knows no units, only sizes, places and leases. Mapped device memory never exceeds what the ledger was
//! given. What cannot be proven free is quarantined, never reused.

mod arena;
mod budget;
mod checkpoint;
mod host_readings;
mod host_ring;
mod lifetime;
mod mapping;
mod pressure;
mod registrar;
mod registration;
mod retained;
mod sources;
mod stream;
mod temporaries;
mod transient;

pub use arena::{ARENA_CEILING, Arena, ArenaLevels, ArenaRules, DEVICE_MEMORY, DEVICE_RESERVE};
pub use budget::{HostBudget, HostTotals};
pub use checkpoint::Checkpoint;
pub use host_readings::SystemReadings;
pub use host_ring::{HostRing, RingLevels, RingSlotId};
pub use lifetime::LifetimeBuffer;
pub use mapping::{GiveBackError, MappingBook, give_back, map_fresh};
pub use pressure::{HostReading, HostReadings, PRESSURE_SCHEMA, Pressure, PressureObservations, PressureReason};
pub use registrar::{Ended, MappedSegment, Registrar, RegistrarLevels};
pub use registration::{RegisteredSegment, Registrations};
pub use retained::{Direct, Request, Retained, RetainedBook, RetainedLevels, Window};
pub use sources::{Extent, HostTensor, Origin, SourceBytes, SourceKind, Sources};
pub use stream::{Consumer, StreamClaim, StreamMemory};
pub use temporaries::{Temporaries, TemporaryId, TemporaryLevels};
pub use transient::Transient;
