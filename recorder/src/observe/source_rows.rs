//! The rows of sources that are read for uploads: ring, retained storage, its host scopes, events and pressure; plain staging.
//!
//! May use: the session's counters and levels, supply and staging slots under their own locks. Invariants: rows of a source that is not in use are left
//! out; one reading of the supply gives all of its rows.

use super::snapshot::{calls, count, seconds};
use crate::memory::{HostTotals, PRESSURE_SCHEMA, PressureObservations, Retained};
use crate::session::{Inner, Levels, lock_supply};
use crate::transfer::{StoreLevels, Supply};
use ddo_schemas::Seconds;
use ddo_schemas::sections::vmm::{Bridge, LookAhead, Pressure, Ring, SourceCache, SourceEvents, SourceTimings, Staging};

/// Layout of the statistics that is filled in here.
const STATISTICS_LAYOUT: u64 = 8;

/// All rows of one reading.
#[derive(Default)]
pub(super) struct SourceRows {
    pub(super) ring: Ring,
    pub(super) source_cache: SourceCache,
    pub(super) source_timings: SourceTimings,
    pub(super) source_events: SourceEvents,
    pub(super) pressure: Pressure,
    pub(super) bridge: Bridge,
    /// Of look-ahead, reads ahead of uploads.
    pub(super) read_ahead: LookAhead,
}

/// Reads the supply; everything is left out where there is none.
pub(super) fn source_rows(inner: &Inner, levels: &Levels) -> SourceRows {
    let Some(supply) = &inner.supply else { return SourceRows::default() };
    let supply = lock_supply(supply);
    let (ring, read_ahead) = (ring(&supply), read_ahead(inner, &supply));
    let (Some(retained), Some(store)) = (supply.retained(), supply.store_levels()) else {
        return SourceRows { ring, read_ahead, ..SourceRows::default() };
    };
    SourceRows {
        ring,
        read_ahead,
        source_cache: source_cache(inner, &supply, retained, &store),
        source_timings: source_timings(inner, &supply, retained),
        source_events: source_events(&store, levels),
        pressure: pressure(retained.pressure().observations()),
        bridge: bridge(inner),
    }
}

/// The rows of the plain staging path; left out where another path is in use.
pub(super) fn staging(inner: &Inner) -> Staging {
    let Some(staged) = &inner.staged else { return Staging::default() };
    let staged = lock_supply(staged);
    let (book, waits) = (staged.book(), staged.slots().waits());
    Staging {
        fast_shard_read_seconds: seconds(&book.shard_read),
        fast_shard_read_bytes: count(&book.shard_read_bytes),
        fast_staging_source_copy_seconds: seconds(&book.source_copy),
        fast_staging_source_copy_bytes: count(&book.source_copy_bytes),
        fast_staging_slot_wait_seconds: seconds(waits),
        fast_staging_slot_waits: calls(waits),
    }
}

fn read_ahead(inner: &Inner, supply: &Supply) -> LookAhead {
    let ahead = supply.ahead();
    LookAhead {
        fast_prefetch_attempts: count(&ahead.attempts),
        fast_prefetch_hits: count(&ahead.hits),
        fast_prefetch_skips: count(&ahead.skips),
        fast_prefetch_resident_skips: count(&inner.counters.resident_skips),
        fast_prefetch_dropped_tensors: count(&ahead.dropped),
        fast_prefetch_in_flight_tensors: Some(supply.ahead_in_flight()),
        ..LookAhead::default()
    }
}

fn ring(supply: &Supply) -> Ring {
    let (book, waits, readers) = (supply.book(), supply.ring().waits(), supply.readers());
    Ring {
        fast_native_transport_ring_total_seconds: seconds(&book.ring),
        fast_native_transport_ring_total_calls: calls(&book.ring),
        fast_native_transport_read_seconds: seconds(&book.read),
        fast_native_transport_read_bytes: count(&book.read_bytes),
        fast_native_transport_slot_wait_seconds: seconds(waits),
        fast_native_transport_slot_waits: calls(waits),
        fast_native_transport_source_workers: Some(supply.ring().shape().readers),
        fast_native_transport_source_read_chunks: count(&readers.book().passed.chunks),
        fast_native_transport_source_read_bytes: count(&readers.book().passed.bytes),
        fast_native_transport_source_read_failures: count(&readers.book().passed.failures),
    }
}

fn source_cache(inner: &Inner, supply: &Supply, retained: &Retained, store: &StoreLevels) -> SourceCache {
    let (book, moved, levels, shape) = (retained.book(), supply.book(), retained.levels(), retained.shape());
    let HostTotals { committed_bytes, registered_bytes, staging_bytes } = retained.totals();
    SourceCache {
        fast_source_cache_version: Some(STATISTICS_LAYOUT),
        fast_source_cache_struct_size: None,
        fast_source_cache_committed_bytes: Some(levels.committed_bytes),
        fast_source_cache_peak_committed_bytes: Some(levels.peak_committed_bytes),
        fast_source_cache_process_committed_bytes: Some(committed_bytes),
        fast_source_cache_retained_bytes: Some(levels.retained_bytes),
        fast_source_cache_capacity_bytes: Some(shape.bytes()),
        fast_source_cache_registered_limit_bytes: Some(shape.registered_segments * shape.segment_bytes),
        fast_source_cache_registered_bytes: Some(levels.registered_bytes),
        fast_source_cache_peak_registered_bytes: Some(levels.peak_registered_bytes),
        fast_source_cache_process_registered_bytes: Some(registered_bytes),
        fast_source_cache_process_staging_registered_bytes: Some(staging_bytes),
        fast_source_cache_process_limit_bytes: Some(retained.process_limit_bytes()),
        fast_source_cache_hits: count(&book.hits),
        fast_source_cache_misses: count(&book.misses),
        fast_source_cache_bypasses: count(&book.bypasses),
        fast_source_cache_source_read_bytes: count(&supply.readers().book().filled.bytes),
        fast_source_cache_dma_bytes: Some(moved.dma_bytes.get() + moved.ring_fallback_bytes.get()),
        fast_source_cache_ring_fallback_bytes: count(&moved.ring_fallback_bytes),
        fast_source_cache_host_copy_bytes: count(&supply.readers().book().copied_bytes),
        fast_source_cache_batch_submissions: count(&inner.counters.source_submissions),
        fast_source_cache_batch_bypass_bytes: count(&moved.bypass_bytes),
        fast_source_cache_registrations: count(&book.registrations),
        fast_source_cache_unregistrations: count(&book.unregistrations),
        fast_source_cache_registration_waits: calls(&moved.registration_wait),
        fast_source_cache_live_tickets: Some(store.live_tickets),
        fast_source_cache_admission_denials: count(&book.bypasses),
        fast_source_cache_pressure_evictions: count(&book.pressure_evictions),
        fast_source_cache_pressure_released_bytes: count(&book.pressure_released_bytes),
        fast_source_cache_pressure_blocked_requests: count(&book.blocked_requests),
        fast_source_cache_pressure_suspended: Some(u64::from(retained.pressure().suspended())),
    }
}

fn source_timings(inner: &Inner, supply: &Supply, retained: &Retained) -> SourceTimings {
    let (moved, book) = (supply.book(), retained.book());
    SourceTimings {
        fast_source_cache_batch_submit_seconds: seconds(&inner.counters.bridge.native_submit),
        fast_source_cache_batch_reap_seconds: seconds(&moved.reap),
        fast_source_cache_request_total_seconds: seconds(&moved.request),
        fast_source_cache_copy_total_seconds: seconds(&moved.copy),
        fast_source_cache_close_total_seconds: seconds(&moved.close),
        fast_source_cache_source_ready_seconds: seconds(&moved.ready),
        fast_source_cache_event_acquire_seconds: seconds(&moved.event_acquire),
        fast_source_cache_event_retire_seconds: seconds(&moved.event_retire),
        fast_source_cache_dma_submit_seconds: seconds(&moved.dma_submit),
        fast_source_cache_dma_event_seconds: seconds(&moved.dma_event),
        fast_source_cache_registration_schedule_seconds: seconds(&moved.schedule),
        fast_source_cache_registration_seconds: seconds(&book.registration),
        fast_source_cache_unregistration_seconds: seconds(&book.unregistration),
        fast_source_cache_registration_wait_seconds: seconds(&moved.registration_wait),
        // A ticket is closed only behind an event that was passed: nothing is ever waited for.
        fast_source_cache_ticket_close_wait_seconds: Some(Seconds(0.0)),
    }
}

fn source_events(store: &StoreLevels, levels: &Levels) -> SourceEvents {
    SourceEvents {
        fast_source_cache_events_created: Some(store.events_created),
        fast_source_cache_events_reused: Some(store.events_reused),
        fast_source_cache_transfer_owned_events: Some(store.owned_events),
        fast_source_cache_pooled_events: Some(store.pooled_events),
        // A batch owns the event behind each of its submissions until the end of that is proven.
        fast_source_cache_batch_completion_events: Some(levels.live_tickets),
        fast_source_cache_source_dispatcher_enabled: Some(true),
        fast_source_cache_source_dispatcher_owned_windows: Some(store.owned_windows),
        fast_source_cache_source_dispatcher_peak_windows: Some(store.peak_windows),
        fast_source_cache_source_dispatcher_window_limit: Some(store.window_limit),
    }
}

fn bridge(inner: &Inner) -> Bridge {
    let bridge = &inner.counters.bridge;
    Bridge {
        fast_source_cache_batch_bridge_create_total_seconds: seconds(&bridge.create_total),
        fast_source_cache_batch_bridge_create_total_calls: calls(&bridge.create_total),
        fast_source_cache_batch_bridge_create_ffi_seconds: seconds(&bridge.create_call),
        fast_source_cache_batch_bridge_create_ffi_calls: calls(&bridge.create_call),
        fast_source_cache_batch_bridge_source_prepare_total_seconds: seconds(&bridge.source_prepare_total),
        fast_source_cache_batch_bridge_source_prepare_total_calls: calls(&bridge.source_prepare_total),
        fast_source_cache_batch_bridge_submit_total_seconds: seconds(&bridge.submit_total),
        fast_source_cache_batch_bridge_submit_total_calls: calls(&bridge.submit_total),
        fast_source_cache_batch_bridge_submit_lock_wait_seconds: seconds(&bridge.submit_lock_wait),
        fast_source_cache_batch_bridge_submit_prepare_seconds: seconds(&bridge.submit_prepare),
        fast_source_cache_batch_bridge_submit_prepare_calls: calls(&bridge.submit_prepare),
        fast_source_cache_batch_bridge_submit_ffi_seconds: seconds(&bridge.submit_call),
        fast_source_cache_batch_bridge_submit_ffi_calls: calls(&bridge.submit_call),
        fast_source_cache_batch_bridge_submit_result_seconds: seconds(&bridge.submit_result),
        fast_source_cache_batch_bridge_submit_result_calls: calls(&bridge.submit_result),
    }
}

fn pressure(seen: PressureObservations) -> Pressure {
    Pressure {
        fast_source_cache_pressure_observation_schema_version: Some(PRESSURE_SCHEMA),
        fast_source_cache_pressure_observation_valid_observations: Some(seen.valid_observations),
        fast_source_cache_pressure_observation_failed_observations: Some(seen.failed_observations),
        fast_source_cache_pressure_observation_entries: Some(seen.entries),
        fast_source_cache_pressure_observation_recoveries: Some(seen.recoveries),
        fast_source_cache_pressure_observation_ram_limited_entries: Some(seen.ram_limited_entries),
        fast_source_cache_pressure_observation_commit_limited_entries: Some(seen.commit_limited_entries),
        fast_source_cache_pressure_observation_both_limited_entries: Some(seen.both_limited_entries),
        fast_source_cache_pressure_observation_unknown_entries: Some(seen.unknown_entries),
        fast_source_cache_pressure_observation_last_reason: Some(seen.last_reason.number()),
        fast_source_cache_pressure_observation_last_entry_ram_bytes: Some(seen.last_entry_ram_bytes),
        fast_source_cache_pressure_observation_last_entry_commit_bytes: Some(seen.last_entry_commit_bytes),
        fast_source_cache_pressure_observation_last_entry_committed_bytes: Some(seen.last_entry_committed_bytes),
        fast_source_cache_pressure_observation_last_entry_registered_bytes: Some(seen.last_entry_registered_bytes),
        fast_source_cache_pressure_observation_last_recovery_ram_bytes: Some(seen.last_recovery_ram_bytes),
        fast_source_cache_pressure_observation_last_recovery_commit_bytes: Some(seen.last_recovery_commit_bytes),
        fast_source_cache_pressure_observation_min_ram_bytes: Some(seen.min_ram_bytes),
        fast_source_cache_pressure_observation_min_commit_bytes: Some(seen.min_commit_bytes),
        fast_source_cache_pressure_observation_low_bytes: Some(seen.low_bytes),
        fast_source_cache_pressure_observation_high_bytes: Some(seen.high_bytes),
        fast_source_cache_pressure_observation_last_episode_reclaimed_bytes: Some(seen.last_episode_reclaimed_bytes),
        fast_source_cache_pressure_observation_blocked_reclaims: Some(seen.blocked_reclaims),
        fast_source_cache_pressure_observation_failed_reclaims: Some(seen.failed_reclaims),
    }
}
