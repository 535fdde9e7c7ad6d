//! The arena of resident weights: "What stays on the device?"

use crate::field::Gate;
use crate::section;
use crate::unit::Unit;

section! {
    /// Faults, pages and levels of the arena.
    #[derive(Default)]
    pub struct Arena at "runtime.vmm" {
        fast_faults: Option<u64> = Unit::Count("ranges"), Counter, Session, "unit requested",
            "Arena ranges that had to be mapped before use.",
            "After the first pass it should stand still.";
        fast_signature_hits: Option<u64> = Unit::Count("tensors"), Counter, Session, "unit requested",
            "Resident tensors found with the contents of their last upload.",
            "Each is an upload that was not needed.";
        fast_resident_bytes: Option<u64> = Unit::Bytes, Gauge, Session, "snapshot",
            "Device memory of the arena, under the route's own name.",
            "Compare with the arena's ceiling.";
        fast_total_weight_resident_bytes: Option<u64> = Unit::Bytes, Gauge, Session, "snapshot",
            "All device memory that holds weights: arena, slots and the lifetime buffer. Activations and other allocations are not in it.",
            "Never above the weight ceiling; compare this sum with it, not the arena alone.";
        fast_fault_ceiling_bytes: Option<u64> = Unit::Bytes, Limit, Session, "attach",
            "What the ceiling leaves for the arena after the slots or the stream ring.",
            "Zero: nothing can stay resident.",
            { deterministic: true };
        fast_virtual_bytes: Option<u64> = Unit::Bytes, Limit, Session, "attach",
            "Size of the arena's address range.",
            "No memory by itself.",
            { deterministic: true };
        fast_page_bytes: Option<u64> = Unit::Bytes, Limit, Session, "attach",
            "Page size that the arena maps with.",
            "Unused ends of pages count against the ceiling.",
            { deterministic: true };
        fast_arena_materialized_pages: Option<u64> = Unit::Count("pages"), Counter, Session, "page fault",
            "Arena pages that received memory.",
            "Stands still after the first pass.";
        fast_arena_evicted_pages: Option<u64> = Unit::Count("pages"), Counter, Session, "eviction",
            "Arena pages whose memory was taken away; pages mapped minus these are the pages resident now.",
            "Growing each step: the same weights are mapped again and again; raise the ceiling or stream them through slots.";
        fast_arena_resident_prefix_pages: Option<u64> = Unit::Count("pages"), Gauge, Session, "snapshot",
            "Pages at the start of the arena that are kept once faulted; the part behind them is what comes and goes.",
            "Multiply by the page size and compare with the arena's ceiling.";
        fast_arena_reused_pages: Option<u64> = Unit::Unspecified, Counter, Session, "page fault",
            "In runs of this recorder, pages that got the memory of an evicted page; what other recorders count as reuse is not written down.",
            "Near the mapped pages: units come and go in the arena; a plan with residents streams less.",
            { gate: Gate::Informative };
        fast_arena_tail_evictions: Option<u64> = Unit::Unspecified, Counter, Session, "eviction",
            "Evictions that the library calls tail evictions; whether one counts a page or a range is not written down.",
            "Equal to evicted pages in a recorded ring run: use evicted pages instead.",
            { gate: Gate::Informative };
        fast_arena_pressure_evictions: Option<u64> = Unit::Unspecified, Counter, Session, "eviction",
            "Evictions that the library books under pressure on the device; neither the unit nor the trigger is written down.",
            "Not zero: look at other users of the device and at failed device admissions.",
            { gate: Gate::Informative };
        fast_pinned_units: Option<u64> = Unit::Count("units"), Gauge, Session, "snapshot",
            "Units held by a guard or by work whose completion is not proven.",
            "Zero after the phase's completion boundary and a collection.",
            { gate: Gate::Informative };
        fast_quarantined_bytes: Option<u64> = Unit::Bytes, Gauge, Session, "snapshot",
            "Device memory kept because the end of its use could not be proven.",
            "Any value above zero is a safety failure.",
            { gate: Gate::MustBeZero };
    }
}
