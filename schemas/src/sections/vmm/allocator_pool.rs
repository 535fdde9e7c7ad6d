//! The span pool behind the framework's allocator: "What does temporary device memory consist of?"

use crate::field::Gate;
use crate::section;
use crate::unit::{Seconds, Unit};

section! {
    /// One atomic partition of the pool, and its counts. Arenas, slots and other allocators are not in it.
    #[derive(Default)]
    pub struct AllocatorPool at "runtime.vmm" {
        fast_torch_allocator_pool_schema_version: Option<u64> = Unit::Version, Version, Process, "snapshot",
            "Version of the pool's fields.",
            "Other allocator fields are left out while the pool reports; do not mix the two.";
        fast_torch_allocator_pool_enabled: Option<u64> = Unit::Flag, Flag, Process, "snapshot",
            "1 where the library was built with the pool; a library without it leaves all pool fields out.",
            "Compare runs of the same build.";
        fast_torch_allocator_pool_mapped_bytes: Option<u64> = Unit::Bytes, Gauge, Process, "snapshot",
            "Physical memory behind all spans, each mapping once: leased, available, pending and quarantined together.",
            "If the four do not add up to it, distrust the snapshot. It is not the device's total.";
        fast_torch_allocator_pool_requested_bytes: Option<u64> = Unit::Bytes, Gauge, Process, "snapshot",
            "What callers asked for in spans that are live or reserved, before rounding.",
            "Leased minus this is padding.";
        fast_torch_allocator_pool_leased_bytes: Option<u64> = Unit::Bytes, Gauge, Process, "snapshot",
            "Spans in callers' hands or reserved for one, rounded up.",
            "Compare with mapped: the rest is idle, draining or lost.";
        fast_torch_allocator_pool_available_bytes: Option<u64> = Unit::Bytes, Gauge, Process, "snapshot",
            "Spans that nobody holds and no copy or kernel is recorded on; reuse is still checked for context and device.",
            "Large while new memory is mapped: spans are too scattered to fit.";
        fast_torch_allocator_pool_pending_bytes: Option<u64> = Unit::Bytes, Gauge, Process, "snapshot",
            "Returned spans whose completion was not collected yet, and memory being retired. The work may have ended long ago.",
            "Collect, then read again; never take it for work outstanding on the device.",
            { gate: Gate::Informative };
        fast_torch_allocator_pool_quarantined_bytes: Option<u64> = Unit::Bytes, Gauge, Process, "snapshot",
            "Pool memory kept after a failure because nobody can prove it unused.",
            "Any value: stop the run and find the failure; it is never reused.",
            { gate: Gate::MustBeZero };
        fast_torch_allocator_pool_live_allocation_count: Option<u64> = Unit::Count("leases"), Gauge, Process, "snapshot",
            "Spans handed to callers and not returned; several may share one mapping.",
            "Growing from step to step: tensors leak.";
        fast_torch_allocator_pool_reserved_allocation_count: Option<u64> = Unit::Count("leases"), Gauge, Process, "snapshot",
            "Spans set aside for a request that was not answered yet.",
            "Zero between requests.",
            { gate: Gate::Informative };
        fast_torch_allocator_pool_backing_count: Option<u64> = Unit::Count("mappings"), Gauge, Process, "snapshot",
            "Physical mappings that the pool owns.",
            "Mapped bytes divided by it: many small ones cost driver calls.";
        fast_torch_allocator_pool_idle_backing_bytes: Option<u64> = Unit::Bytes, Gauge, Process, "snapshot",
            "Size of mappings without a live, reserved or quarantined span; completion may still be open. Partly used ones are not in it.",
            "This is what the cache ceiling bounds and an eviction could give back.";
        fast_torch_allocator_pool_idle_backing_count: Option<u64> = Unit::Count("mappings"), Gauge, Process, "snapshot",
            "Number of those wholly idle mappings.",
            "Never above all mappings.";
        fast_torch_allocator_pool_eviction_attempts: Option<u64> = Unit::Count("attempts"), Counter, Process, "pool eviction",
            "Attempts to retire a wholly idle mapping, over the life of the process.",
            "Use differences; growth each step means that the cache ceiling is too small for the workload.",
            { gate: Gate::Informative };
        fast_torch_allocator_pool_eviction_wait_seconds: Option<Seconds> = Unit::Seconds, Counter, Process, "pool eviction",
            "Host time to prove that retired memory was no longer used; neither device time nor a transfer.",
            "High: evictions hit memory that was used a moment ago.";
        fast_torch_allocator_pool_failures: Option<u64> = Unit::Count("failures"), Counter, Process, "pool operation",
            "Failures of context, events, admission, publication or retirement in the pool.",
            "Any value blocks a comparison; read the error text of the run.",
            { gate: Gate::MustBeZero };
    }
}
