//! Counters and gauges of the offload runtime: "What did it move, keep and wait for?"
//!
//! One JSON object, one file for each of its tables. Uses the section macro only. Invariants: every field is optional, a field
//! of a part that is not in use is left out, and no field stands in two tables.

use crate::section;
use crate::sections::{VmmParts, VmmPass};
use crate::unit::Unit;

mod admission;
mod allocator;
mod allocator_pool;
mod arena;
mod bridge;
mod buffer;
mod look_ahead;
mod pressure;
mod ring;
mod source_cache;
mod source_events;
mod source_timings;
mod sources;
mod staging;
mod tickets;
mod transport;
mod uploads;
mod views;

pub use admission::Admission;
pub use allocator::Allocator;
pub use allocator_pool::AllocatorPool;
pub use arena::Arena;
pub use bridge::Bridge;
pub use buffer::Buffers;
pub use look_ahead::LookAhead;
pub use pressure::Pressure;
pub use ring::Ring;
pub use source_cache::SourceCache;
pub use source_events::SourceEvents;
pub use source_timings::SourceTimings;
pub use sources::Sources;
pub use staging::Staging;
pub use tickets::Tickets;
pub use transport::Transport;
pub use uploads::Uploads;
pub use views::Views;

section! {
    /// The runtime's own numbers. Fields of parts that are not in use are left out.
    #[derive(Default)]
    pub struct Vmm at "runtime.vmm" {
        reserved_bytes: Option<u64> = Unit::Bytes, Gauge, Session, "snapshot",
            "Addresses reserved for the arena; no memory by themselves.",
            "Never read it as memory use.",
            { deterministic: true };
        resident_bytes: Option<u64> = Unit::Bytes, Gauge, Session, "snapshot",
            "Device memory mapped under the arena.",
            "Slots and stream ring are not in it; see the total.";
        materializations: Option<u64> = Unit::Count("ranges"), Counter, Session, "page fault",
            "Arena ranges that received memory.",
            "Growing in steady state means that residents come and go.";
        evictions: Option<u64> = Unit::Count("ranges"), Counter, Session, "eviction",
            "Arena ranges that lost their memory again.",
            "Not zero: residents do not fit.";
        copied_bytes: Option<u64> = Unit::Bytes, Counter, Session, "upload enqueued",
            "Payload of all uploads, arena and stream memory.",
            "Divide by steps for the traffic of one.";
    }
    flatten {
        arena: Arena,
        admission: Admission,
        buffers: Buffers,
        uploads: Uploads,
        look_ahead: LookAhead,
        sources: Sources,
        tickets: Tickets,
        transport: Transport,
        bridge: Bridge,
        ring: Ring,
        staging: Staging,
        views: Views,
        source_cache: SourceCache,
        source_timings: SourceTimings,
        source_events: SourceEvents,
        pressure: Pressure,
        allocator_pool: AllocatorPool,
        allocator: Allocator,
        parts: VmmParts,
        pass: VmmPass,
    }
}

#[cfg(test)]
mod tests;
