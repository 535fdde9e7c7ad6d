//! The framework's allocator in libraries without the pool: "What do live and cached blocks take?"

use crate::field::Gate;
use crate::section;
use crate::unit::{Seconds, Unit};

section! {
    /// Levels, one atomic decomposition, and releases, for the whole process.
    #[derive(Default)]
    pub struct Allocator at "runtime.vmm" {
        fast_torch_allocator_live_allocation_count: Option<u64> = Unit::Count("allocations"), Gauge, Process, "snapshot",
            "Blocks that the framework holds, those of other components of the pipeline included.",
            "Growing between equal steps: something is kept.";
        fast_torch_allocator_live_mapped_bytes: Option<u64> = Unit::Bytes, Gauge, Process, "snapshot",
            "Mapped size of held blocks with rounding and oversized reuse; neither tensor sizes nor a peak.",
            "Never subtract it from a device peak; the two are of different moments.";
        fast_torch_allocator_cached_allocation_count: Option<u64> = Unit::Count("allocations"), Gauge, Process, "snapshot",
            "Returned blocks kept for reuse.",
            "Many and small: the cache holds sizes that nobody asks for any more.";
        fast_torch_allocator_cached_mapped_bytes: Option<u64> = Unit::Bytes, Gauge, Process, "snapshot",
            "Mapped size of blocks kept for reuse; the device may still be using some.",
            "It is not free memory until its completion is proven.";
        fast_torch_allocator_footprint_requested_bytes: Option<u64> = Unit::Bytes, Gauge, Process, "snapshot",
            "What the framework asked for in the blocks it now holds; a reused block counts with its new request.",
            "With padding and excess it makes up the mapped size of this decomposition.";
        fast_torch_allocator_footprint_minimum_mapped_bytes: Option<u64> = Unit::Bytes, Gauge, Process, "snapshot",
            "The least those requests could be mapped with, each rounded up to the device's granularity.",
            "Requested to this is rounding; this to mapped is reuse.";
        fast_torch_allocator_footprint_mapped_bytes: Option<u64> = Unit::Bytes, Gauge, Process, "snapshot",
            "What the same blocks are really mapped with; cached blocks are left out.",
            "Need not equal the live level, which is read at another moment.";
        fast_torch_allocator_footprint_granularity_padding_bytes: Option<u64> = Unit::Bytes, Gauge, Process, "snapshot",
            "Memory lost to rounding, requests of zero bytes included.",
            "Large against the request: many small tensors; a pool of spans would help.";
        fast_torch_allocator_footprint_reuse_excess_bytes: Option<u64> = Unit::Bytes, Gauge, Process, "snapshot",
            "Memory lost because requests got cached blocks larger than they needed.",
            "Large: the cache's choice of blocks is too generous; not all of it can be recovered.";
        fast_torch_allocator_footprint_allocation_count: Option<u64> = Unit::Count("records"), Gauge, Process, "snapshot",
            "Blocks in this decomposition; neither tensors nor parameters.",
            "Divide padding by it for the loss of one block.";
        fast_torch_allocator_reset_sync_calls: Option<u64> = Unit::Count("calls"), Counter, Process, "block released",
            "Times the host synchronised on a completion event to release a block, events already complete included.",
            "Use the difference over a phase; loading counts here too.",
            { gate: Gate::Informative };
        fast_torch_allocator_reset_sync_seconds: Option<Seconds> = Unit::Seconds, Counter, Process, "block released",
            "Host time in that synchronisation; no kernel time, and not necessarily idle time of the device.",
            "High in a steady phase: blocks are released and mapped again each step.";
        fast_torch_allocator_reset_failures: Option<u64> = Unit::Count("failures"), Counter, Process, "block released",
            "Blocks kept instead of unmapped because completion failed or was unproven.",
            "Any increase fails the safety gate; the memory stays owned.",
            { gate: Gate::NoIncrease };
        fast_torch_allocator_cache_eviction_attempts: Option<u64> = Unit::Count("allocations"), Counter, Process,
            "cache eviction",
            "Cached blocks that began to be released, for the cache's ceiling or under memory pressure; success is not implied.",
            "Growing each step: the cache is too small, or the device is full.",
            { gate: Gate::Informative };
        fast_torch_allocator_cache_eviction_attempted_bytes: Option<u64> = Unit::Bytes, Counter, Process, "cache eviction",
            "Mapped size of those blocks, failed ones included; a flow, never a level.",
            "Divide by attempts for the size that comes and goes.",
            { gate: Gate::Informative };
        fast_torch_allocator_cache_eviction_sync_seconds: Option<Seconds> = Unit::Seconds, Counter, Process, "cache eviction",
            "The part of release synchronisation that evictions caused.",
            "Most of it: a larger cache would save it. Never add it to the whole.";
    }
}
