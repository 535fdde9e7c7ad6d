//! Counters of the offload runtime: "Where do the weights lie, and how did they come?"
//!
//! Uses `document` and the look-ahead of `analysis`. Invariants: partitions of one snapshot stand on one line; gauges are called neither
//! peaks nor totals of the GPU; a share is given only where all its parts are known.

use super::document::{Document, Form, Line, UNAVAILABLE};
use crate::analysis::lookahead;
use crate::run::Scalar;

fn vmm(name: &str) -> String {
    format!("runtime.vmm.{name}")
}

/// What the weights occupy.
pub(super) fn weights(document: &Document<'_>, lines: &mut Vec<String>) {
    Line::new(document, "vmm")
        .pair("resident_gb", &vmm("resident_bytes"), Form::Gib)
        .pair("materializations", &vmm("materializations"), Form::Plain)
        // Only routes that may fall back count their temporary tensors.
        .optional("temporary_fallbacks", &vmm("fast_temporary_tensors"), Form::Plain)
        .end("", lines);
    Line::new(document, "weights_on_device")
        .optional("arena_and_slots_gib", &vmm("fast_total_weight_resident_bytes"), Form::Gib)
        .optional("slots_gib", &vmm("fast_execution_buffer_resident_bytes"), Form::Gib)
        .optional("ceiling_gib", "configuration.weight_ceiling_bytes", Form::Gib)
        .end("weights of this component, not GPU total/peak", lines);
}

/// Requests that the source cache and the reader ahead of it met.
pub(super) fn sources(document: &Document<'_>, lines: &mut Vec<String>) {
    let observed = |name: &str| vmm(&format!("fast_source_cache_pressure_observation_{name}"));
    if let Some(reason) = document.get(&observed("last_reason")) {
        let reason = match reason {
            Scalar::U64(0) => "none".to_string(),
            Scalar::U64(1) => "ram".to_string(),
            Scalar::U64(2) => "commit".to_string(),
            Scalar::U64(3) => "ram_and_commit".to_string(),
            Scalar::U64(4) => "observation_unavailable".to_string(),
            other => format!("unknown:{}", super::document::show(&other, Form::Plain)),
        };
        Line::new(document, "source_cache_pressure")
            .pair("entries", &observed("entries"), Form::Plain)
            .pair("recoveries", &observed("recoveries"), Form::Plain)
            .word(&format!("last_reason={reason}"))
            .pair("failed_observations", &observed("failed_observations"), Form::Plain)
            .end("", lines);
    }
    Line::new(document, "source_cache")
        .optional("hits", &vmm("fast_source_cache_hits"), Form::Plain)
        .optional("misses", &vmm("fast_source_cache_misses"), Form::Plain)
        .optional("bypasses", &vmm("fast_source_cache_bypasses"), Form::Plain)
        .end("since the cache was opened; no counter says how many requests there were", lines);
}

/// Look-ahead of device copies and of source reads.
pub(super) fn look_ahead(document: &Document<'_>, lines: &mut Vec<String>) {
    let found = document.report.and_then(|_| lookahead::of(document.component));
    let share = found.as_ref().and_then(|found| Some((found.hit_share()?, found.requests?)));
    let line = Line::new(document, "gpu_prefetch")
        .optional("units", &vmm("fast_gpu_prefetch_units"), Form::Plain)
        .optional("hits", &vmm("fast_gpu_prefetch_hits"), Form::Plain)
        .optional("capacity_skips", &vmm("fast_gpu_prefetch_capacity_skips"), Form::Plain)
        .optional("cancelled", &vmm("fast_gpu_prefetch_cancelled_units"), Form::Plain)
        .optional("in_flight", &vmm("fast_gpu_prefetch_in_flight_units"), Form::Plain);
    let line = match share {
        Some((share, requests)) => line.word(&format!("hit_share={:.1}%_of_{requests}_requests", share * 100.0)),
        None => line,
    };
    line.end("copies submitted before their unit was asked for", lines);
    Line::new(document, "source_prefetch")
        .optional("attempts", &vmm("fast_prefetch_attempts"), Form::Plain)
        .optional("hits", &vmm("fast_prefetch_hits"), Form::Plain)
        .optional("skips", &vmm("fast_prefetch_skips"), Form::Plain)
        .optional("resident_skips", &vmm("fast_prefetch_resident_skips"), Form::Plain)
        .end("reads ahead on the host; nothing is held, nothing promised", lines);
}

/// Memory of the torch allocator on the device.
pub(super) fn pools(document: &Document<'_>, lines: &mut Vec<String>) {
    let torch = |name: &str| vmm(&format!("fast_torch_allocator_{name}"));
    Line::new(document, "torch_allocator")
        .optional("live_gib", &torch("live_mapped_bytes"), Form::Gib)
        .optional("cached_gib", &torch("cached_mapped_bytes"), Form::Gib)
        .end("two gauges read one after the other, not GPU total/peak", lines);
    let footprint = |name: &str| torch(&format!("footprint_{name}"));
    Line::new(document, "torch_allocation_footprint")
        .optional("requested_gib", &footprint("requested_bytes"), Form::Gib)
        .optional("padding_gib", &footprint("granularity_padding_bytes"), Form::Gib)
        .optional("reuse_excess_gib", &footprint("reuse_excess_bytes"), Form::Gib)
        .end("one snapshot, not GPU total/peak; excess need not be recoverable", lines);
    // A pool that is off has zeros that nobody measured.
    if document.get(&torch("pool_enabled")) != Some(Scalar::U64(0)) {
        let pool = |name: &str| torch(&format!("pool_{name}_bytes"));
        Line::new(document, "torch_span_pool")
            .optional("mapped_gib", &pool("mapped"), Form::Gib)
            .optional("requested_gib", &pool("requested"), Form::Gib)
            .optional("leased_gib", &pool("leased"), Form::Gib)
            .optional("available_gib", &pool("available"), Form::Gib)
            .optional("pending_gib", &pool("pending"), Form::Gib)
            .optional("quarantined_gib", &pool("quarantined"), Form::Gib)
            .end("each backing counted once in one snapshot, not GPU total/peak", lines);
    }
    Line::new(document, "torch_cache_eviction_sync_seconds")
        .lead(&torch("cache_eviction_sync_seconds"), Form::Seconds)
        .optional("attempts", &torch("cache_eviction_attempts"), Form::Plain)
        .end("host time; overlaps resets and is part of no sum", lines);
}

/// Tickets of submitted copies.
pub(super) fn tickets(document: &Document<'_>, lines: &mut Vec<String>) {
    let collected = |name: &str| document.shown(&format!("runtime.completion_collection.{name}"), Form::Plain);
    let (before, after) = (collected("tickets_before"), collected("tickets_after"));
    if before.is_some() || after.is_some() {
        let shown = |count: Option<String>| count.unwrap_or_else(|| UNAVAILABLE.into());
        lines.push(format!("source_tickets={} -> {} (collected without waiting)", shown(before), shown(after)));
    }
    Line::new(document, "live_tickets")
        .optional("source_cache", &vmm("fast_source_cache_live_tickets"), Form::Plain)
        .optional("transfer", &vmm("fast_transfer_live_tickets"), Form::Plain)
        .end("at this snapshot; zero after collection where all copies are done", lines);
}
