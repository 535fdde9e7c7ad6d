//! The table of checks: "What must hold in every sound run?"
//!
//! Uses the rules of this room. Invariant: one row a statement; the name is stable, because gates and annotations name it.

use super::facts::vmm;
use super::{Check, Rule, diagnostics, journal, memory, setup, timing, transfer};

const fn check(name: &'static str, asserts: &'static str, rule: Rule) -> Check {
    Check { name, asserts, reported_as: None, rule }
}

const fn known(code: &'static str, check: Check) -> Check {
    Check { reported_as: Some(code), ..check }
}

/// Every check, in the order in which they are made.
pub const CHECKS: &[Check] = &[
    // What was read.
    known(
        "non_finite_number",
        check("numbers_finite", "every number of every file is finite", Rule::Run(journal::numbers_finite)),
    ),
    known(
        "wrapper_label_not_fixed",
        check(
            "journal_labels",
            "a record calls itself a partial step boundary, proves no completion and asks for no collection",
            Rule::Run(journal::labels),
        ),
    ),
    check("journal_keys", "all records of a journal have the same fields", Rule::Journal(journal::same_keys)),
    known(
        "counter_reset",
        check("counters_grow", "no counter decreases from one record to the next", Rule::Journal(journal::counters)),
    ),
    check(
        "source_requests",
        "hits + misses + bypasses do not decrease from one record to the next",
        Rule::Journal(journal::source_requests),
    ),
    // Device memory.
    check(
        "pool_partition",
        "mapped = leased + available + pending + quarantined",
        Rule::Sum { total: memory::POOL_MAPPED, parts: memory::POOL_PARTS },
    ),
    check(
        "pool_requests",
        "requested bytes fit into leased ones",
        Rule::AtMost(&[&[vmm!("fast_torch_allocator_pool_requested_bytes")], &[vmm!("fast_torch_allocator_pool_leased_bytes")]]),
    ),
    check("pool_idle", "idle backing is a part of what is mapped, in bytes and in number", Rule::Snapshot(memory::pool_idle)),
    check(
        "footprint_partition",
        "requested + padding + reuse excess = mapped",
        Rule::Sum { total: memory::FOOTPRINT_MAPPED, parts: memory::FOOTPRINT_PARTS },
    ),
    check(
        "footprint_minimum",
        "the smallest possible mapping = requested + padding",
        Rule::Sum { total: memory::FOOTPRINT_MINIMUM, parts: memory::FOOTPRINT_MINIMUM_PARTS },
    ),
    check(
        "weights_total",
        "all weights on the device = arena + execution buffer + what lives as long as the component",
        Rule::Snapshot(memory::weights_total),
    ),
    check(
        "weights_ceiling",
        "all weights on the device fit into the arena's ceiling + the other buffers' capacities",
        Rule::Snapshot(memory::weights_ceiling),
    ),
    check(
        "arena_ceiling",
        "the arena stays under its ceiling",
        Rule::AtMost(&[&[vmm!("fast_resident_bytes")], &[vmm!("fast_fault_ceiling_bytes")]]),
    ),
    check(
        "execution_buffer",
        "the execution buffer fits its capacity, slots x slot size",
        Rule::Snapshot(memory::execution_buffer),
    ),
    check(
        "lifetime_backing",
        "weights that live as long as the component fit their own backing, which is charged once and filled once",
        Rule::Snapshot(memory::lifetime_backing),
    ),
    // Host memory of the source.
    check(
        "registered_limit",
        "registered <= registration limit <= capacity",
        Rule::AtMost(&[
            &[vmm!("fast_source_cache_registered_bytes")],
            &[vmm!("fast_source_cache_registered_limit_bytes")],
            &[vmm!("fast_source_cache_capacity_bytes")],
        ]),
    ),
    check(
        "registered_peak",
        "registered bytes never exceed their own peak",
        Rule::AtMost(&[&[vmm!("fast_source_cache_registered_bytes")], &[vmm!("fast_source_cache_peak_registered_bytes")]]),
    ),
    check(
        "process_limit",
        "registered source and staging bytes of the process stay under the process limit",
        Rule::AtMost(&[
            &[vmm!("fast_source_cache_process_registered_bytes"), vmm!("fast_source_cache_process_staging_registered_bytes")],
            &[vmm!("fast_source_cache_process_limit_bytes")],
        ]),
    ),
    check(
        "committed",
        "retained <= committed <= peak committed",
        Rule::AtMost(&[
            &[vmm!("fast_source_cache_retained_bytes")],
            &[vmm!("fast_source_cache_committed_bytes")],
            &[vmm!("fast_source_cache_peak_committed_bytes")],
        ]),
    ),
    check(
        "pressure_entries",
        "every pressure entry has one cause, and no more recoveries than entries",
        Rule::Snapshot(memory::pressure_entries),
    ),
    // Transfer.
    check("collection_tickets", "tickets before - retired = after", Rule::Snapshot(transfer::collection)),
    check(
        "collected_events",
        "when a collection left no ticket and none lives, no transfer event is owned any more",
        Rule::Snapshot(transfer::collected_events),
    ),
    check("pooled_events", "at most 256 events are kept idle", Rule::Snapshot(transfer::pooled_events)),
    check(
        "source_windows",
        "owned <= peak <= limit <= the smallest of slots, workers and 8",
        Rule::Snapshot(transfer::source_windows),
    ),
    check("look_ahead_units", "units uploaded ahead were hit, cancelled, or are in flight", Rule::Snapshot(transfer::look_ahead)),
    check(
        "source_read_ahead",
        "tensors read ahead were hit, dropped, or are in flight",
        Rule::Sum {
            total: vmm!("fast_prefetch_attempts"),
            parts: &[vmm!("fast_prefetch_hits"), vmm!("fast_prefetch_dropped_tensors"), vmm!("fast_prefetch_in_flight_tensors")],
        },
    ),
    check(
        "scope_calls",
        "a timed scope that has a count of calls has both, and time only with calls",
        Rule::Snapshot(transfer::scope_calls),
    ),
    check(
        "nested_calls",
        "a scope is entered at most as often as the scope that enters it once a call",
        Rule::Snapshot(transfer::nested_calls),
    ),
    check("nested_scopes", "no contained scope takes longer than the scope around it", Rule::Snapshot(transfer::nested_scopes)),
    // Times.
    check("timing_status", "only a complete timing has durations, and it has all of them", Rule::Report(timing::status)),
    check("steps_and_tail", "steps + tail = phase", Rule::Report(timing::steps_and_tail)),
    check("steady_state", "the steady state is the mean of the steps after the first", Rule::Report(timing::steady)),
    check("step_markers", "every step of a complete timeline has one marker, and so has the end", Rule::Report(timing::markers)),
    check(
        "timeline_status",
        "failed outranks truncated, truncated outranks pending, pending outranks complete",
        Rule::Report(timing::timeline_status),
    ),
    check(
        "timeline_samples",
        "samples fit the capacity, drops only when it is full, pending ones as counted, times only where complete",
        Rule::Report(timing::samples),
    ),
    check(
        "summary_complete",
        "only complete timelines are summarised, warm steps only between their markers",
        Rule::Report(timing::summary_complete),
    ),
    known(
        "summary_differs",
        check("summary_recomputed", "unions and intersections follow from the windows", Rule::Report(timing::summary_recomputed)),
    ),
    // What was found out before and beside a run.
    check(
        "preflight_slots",
        "payload of all slots = payload of one x slots, one being the largest unit",
        Rule::Report(setup::preflight),
    ),
    check("inspection_capacity", "selected + not selected - shared = unique", Rule::Report(setup::inspection)),
    check(
        "host_storages",
        "listed + omitted storages = unique ones, partial where errors occurred",
        Rule::Report(setup::host_memory),
    ),
    check(
        "host_cache_release",
        "freed = before - after, active bytes only where the counter is consistent",
        Rule::Report(setup::cache_release),
    ),
    check(
        "detached_sources",
        "copied storages <= owners <= named references",
        Rule::AtMost(&[
            &["setup.auxiliary_source_detachment.copied_storage_groups"],
            &["setup.auxiliary_source_detachment.copied_tensor_owners"],
            &["setup.auxiliary_source_detachment.copied_named_references"],
        ]),
    ),
    check(
        "driver_calls",
        "failed driver calls are calls, and accesses are the sum of their returns",
        Rule::Report(diagnostics::calls),
    ),
    check(
        "driver_steps",
        "the steps of the allocation diagnostics add up to no more than the whole",
        Rule::Report(diagnostics::steps),
    ),
    check("operator_rows", "an operator's own time is a part of its inclusive time", Rule::Report(diagnostics::rows)),
    check(
        "operator_samples",
        "captures were asked for, happened, and are complete where the status says so",
        Rule::Report(diagnostics::samples),
    ),
];
