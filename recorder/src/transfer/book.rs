//! What supplying bytes has moved and cost.
//!
//! May use: `meter`. Invariant: everything here only grows; scopes nest as the catalogue's tree of scopes says.

use crate::meter::{Counter, HostScope};

/// What only grows.
#[derive(Debug, Default)]
pub struct SupplyBook {
    /// What uploads spend on the way through the ring: ordering reads, waiting for them and for slots, queueing copies.
    pub ring: HostScope,
    /// Host time of waiting for bytes in ring slots.
    pub read: HostScope,
    /// File bytes that were asked of the ring.
    pub read_bytes: Counter,
    /// Chunks that were read ahead in vain.
    pub discarded_chunks: Counter,
    /// Bytes of direct copies.
    pub dma_bytes: Counter,
    /// Bytes of copies straight out of mapped files.
    pub mapped_bytes: Counter,
    /// Bytes that were held, but not registered, and went through the ring.
    pub ring_fallback_bytes: Counter,
    /// Bytes that were not held and went through the ring.
    pub bypass_bytes: Counter,
    /// Waits for a copy that uses a registration to be replaced.
    pub registration_wait: HostScope,
    /// Whole requests for windows, ahead of uploads and by them.
    pub request: HostScope,
    /// Direct copies from end to end.
    pub copy: HostScope,
    /// Closing tickets.
    pub close: HostScope,
    /// Waiting for contents before a direct copy.
    pub ready: HostScope,
    /// Taking an event.
    pub event_acquire: HostScope,
    /// Giving an event back.
    pub event_retire: HostScope,
    /// Queueing a direct copy.
    pub dma_submit: HostScope,
    /// Recording the event behind it.
    pub dma_event: HostScope,
    /// Getting a window registered.
    pub schedule: HostScope,
    /// Looking for tickets to close.
    pub reap: HostScope,
}
