//! Checks of memory: "Does every byte have one place, and does it stay under its ceiling?"
//!
//! Uses `facts`. Invariant: only numbers of one snapshot under one lock are added; gauges of different ledgers are not one
//! instant and are never compared.

use super::facts::{Facts, Found, text, vmm};
use super::{at_most, sum};
use ddo_schemas::scalar::JsonScalar;

pub(super) const POOL_MAPPED: &str = vmm!("fast_torch_allocator_pool_mapped_bytes");
pub(super) const POOL_PARTS: &[&str] = &[
    vmm!("fast_torch_allocator_pool_leased_bytes"),
    vmm!("fast_torch_allocator_pool_available_bytes"),
    vmm!("fast_torch_allocator_pool_pending_bytes"),
    vmm!("fast_torch_allocator_pool_quarantined_bytes"),
];
pub(super) const FOOTPRINT_MAPPED: &str = vmm!("fast_torch_allocator_footprint_mapped_bytes");
pub(super) const FOOTPRINT_PARTS: &[&str] = &[
    vmm!("fast_torch_allocator_footprint_requested_bytes"),
    vmm!("fast_torch_allocator_footprint_granularity_padding_bytes"),
    vmm!("fast_torch_allocator_footprint_reuse_excess_bytes"),
];
pub(super) const FOOTPRINT_MINIMUM: &str = vmm!("fast_torch_allocator_footprint_minimum_mapped_bytes");
pub(super) const FOOTPRINT_MINIMUM_PARTS: &[&str] =
    &[vmm!("fast_torch_allocator_footprint_requested_bytes"), vmm!("fast_torch_allocator_footprint_granularity_padding_bytes")];

const WEIGHTS: &str = vmm!("fast_total_weight_resident_bytes");
const LIFETIME_CAPACITY: &str = vmm!("fast_component_lifetime_capacity_bytes");
const LIFETIME_RESIDENT: &str = vmm!("fast_component_lifetime_resident_bytes");

/// A buffer that was not reported is none that the component has.
fn with_lifetime(facts: &Facts<'_>, names: &[&'static str], lifetime: &'static str) -> Vec<&'static str> {
    names.iter().copied().chain(facts.recorded(lifetime).then_some(lifetime)).collect()
}

pub(super) fn weights_total(facts: &Facts<'_>) -> Vec<Found> {
    let buffers = [vmm!("fast_resident_bytes"), vmm!("fast_execution_buffer_resident_bytes")];
    if !facts.recorded(WEIGHTS) && !buffers.iter().any(|name| facts.recorded(name)) {
        return Vec::new();
    }
    sum(facts, WEIGHTS, &with_lifetime(facts, &buffers, LIFETIME_RESIDENT)).into_iter().collect()
}

pub(super) fn weights_ceiling(facts: &Facts<'_>) -> Vec<Found> {
    let room = [vmm!("fast_fault_ceiling_bytes"), vmm!("fast_execution_buffer_capacity_bytes")];
    if !facts.recorded(WEIGHTS) && !room.iter().any(|name| facts.recorded(name)) {
        return Vec::new();
    }
    at_most(facts, &[&[WEIGHTS], &with_lifetime(facts, &room, LIFETIME_CAPACITY)])
}

pub(super) fn pool_idle(facts: &Facts<'_>) -> Vec<Found> {
    let bytes: &[&[&str]] = &[&[vmm!("fast_torch_allocator_pool_idle_backing_bytes")], &[POOL_MAPPED]];
    let count: &[&[&str]] =
        &[&[vmm!("fast_torch_allocator_pool_idle_backing_count")], &[vmm!("fast_torch_allocator_pool_backing_count")]];
    [at_most(facts, bytes), at_most(facts, count)].concat()
}

/// A stream ring has a capacity without slots: then only the bound holds.
pub(super) fn execution_buffer(facts: &Facts<'_>) -> Vec<Found> {
    const CAPACITY: &str = vmm!("fast_execution_buffer_capacity_bytes");
    let mut found = at_most(facts, &[&[vmm!("fast_execution_buffer_resident_bytes")], &[CAPACITY]]);
    let (slots, size) = (vmm!("fast_execution_buffer_slots"), vmm!("fast_execution_buffer_slot_bytes"));
    if let (Some(slots), Some(size), Some(capacity)) = (facts.whole(slots), facts.whole(size), facts.whole(CAPACITY)) {
        found.push(Found::equal(CAPACITY, slots.saturating_mul(size), capacity));
    }
    found
}

pub(super) fn lifetime_backing(facts: &Facts<'_>) -> Vec<Found> {
    const OWNED: [&str; 6] = [
        "runtime.component_ownership.component_lifetime_parameter_bytes",
        "runtime.component_ownership.component_lifetime_native_capacity_bytes",
        "runtime.component_ownership.component_lifetime_budget_charge_bytes",
        "runtime.component_ownership.arena_weight_ceiling_bytes",
        "runtime.component_ownership.declared_total_weight_ceiling_bytes",
        "runtime.component_ownership.component_lifetime_uploads",
    ];
    let [payload, capacity, charge, arena, declared, uploads] = OWNED;
    let mut found = at_most(facts, &[&[LIFETIME_RESIDENT], &[LIFETIME_CAPACITY]]);
    if !facts.recorded(capacity) && !facts.recorded(charge) {
        return found;
    }
    found.extend(at_most(facts, &[&[payload], &[capacity]]));
    found.extend(sum(facts, charge, &[capacity]));
    found.extend(sum(facts, declared, &[arena, charge]));
    if let Some(uploads_done) = facts.whole(uploads) {
        found.push(Found::equal(uploads, 1, uploads_done));
    }
    found
}

pub(super) fn pressure_entries(facts: &Facts<'_>) -> Vec<Found> {
    const ENTRIES: &str = vmm!("fast_source_cache_pressure_observation_entries");
    const CAUSES: &[&str] = &[
        vmm!("fast_source_cache_pressure_observation_ram_limited_entries"),
        vmm!("fast_source_cache_pressure_observation_commit_limited_entries"),
        vmm!("fast_source_cache_pressure_observation_both_limited_entries"),
        vmm!("fast_source_cache_pressure_observation_unknown_entries"),
    ];
    const REASON: &str = vmm!("fast_source_cache_pressure_observation_last_reason");
    let mut found: Vec<Found> = sum(facts, ENTRIES, CAUSES).into_iter().collect();
    found.extend(at_most(facts, &[&[vmm!("fast_source_cache_pressure_observation_recoveries")], &[ENTRIES]]));
    if let (Some(entries), Some(reason)) = (facts.whole(ENTRIES), facts.whole(REASON)) {
        let words = if entries == 0 { "0, because there was no entry" } else { "1 to 4, because there was an entry" };
        let ok = if entries == 0 { reason == 0 } else { (1..=4).contains(&reason) };
        found.push(Found::new(REASON, text(words.into()), JsonScalar::Integer(reason), ok));
    }
    found
}
