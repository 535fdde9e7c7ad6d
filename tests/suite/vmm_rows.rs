//! The rows of `runtime.vmm`: each name of the specification and of recorded runs has one, and each says something of its own.
//!
//! Proves: no name is missing; no two rows share a text; no text only repeats the words of its path; our own runs write the keys
//! that they always wrote.

use crate::support::data;
use ddo_schemas::{Field, catalogue};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Names under `runtime.vmm` that our own runs write, all of them.
pub(crate) const WRITTEN: &[&str] = &[
    "fast_arena_reused_pages",
    "fast_arena_evicted_pages",
    "fast_guard_admission_failures",
    "fast_temporary_tensors",
    "fast_temporary_bytes",
    "fast_temporary_resident_bytes",
    "fast_temporary_peak_bytes",
    "fast_capacity_event_waits",
    "fast_upload_stream_enter_seconds",
    "fast_upload_stream_body_seconds",
    "fast_upload_stream_exit_seconds",
    "fast_upload_stream_scope_calls",
    "fast_gpu_prefetch_partial_units",
    "fast_part_prefetch_cancelled_parts",
    "fast_part_prefetch_hits",
    "fast_part_prefetch_in_flight_parts",
    "fast_part_prefetch_parts",
    "fast_part_releases",
    "fast_part_uploads",
    "fast_stream_ring_bytes",
    "fast_stream_ring_restarts",
    "copied_bytes",
    "evictions",
    "fast_arena_materialized_pages",
    "fast_capacity_admission_failures",
    "fast_component_lifetime_capacity_bytes",
    "fast_component_lifetime_resident_bytes",
    "fast_compute_wait_events",
    "fast_cpu_source_bindings",
    "fast_cpu_source_bytes",
    "fast_cpu_source_dma_bytes",
    "fast_cpu_source_registered_bytes",
    "fast_cuda_admission_failures",
    "fast_dma_enqueue_bytes",
    "fast_dma_enqueue_seconds",
    "fast_execution_buffer_bytes",
    "fast_execution_buffer_capacity_bytes",
    "fast_execution_buffer_resident_bytes",
    "fast_execution_buffer_slot_bytes",
    "fast_execution_buffer_slots",
    "fast_execution_buffer_uploads",
    "fast_execution_plan_mismatches",
    "fast_execution_plan_passes",
    "fast_fault_ceiling_bytes",
    "fast_fault_failures",
    "fast_faults",
    "fast_file_backed_bindings",
    "fast_file_backed_bytes",
    "fast_file_uploads",
    "fast_gpu_prefetch_cancelled_units",
    "fast_gpu_prefetch_capacity_skips",
    "fast_gpu_prefetch_hits",
    "fast_gpu_prefetch_in_flight_units",
    "fast_gpu_prefetch_units",
    "fast_mapped_source_dma_bytes",
    "fast_mapped_source_mapped_bytes",
    "fast_mapped_source_registered_bytes",
    "fast_mapped_source_registration_calls",
    "fast_mapped_source_registration_refusals",
    "fast_mapped_source_registration_seconds",
    "fast_mapped_source_registration_waiting_bytes",
    "fast_native_transport_batch_transport_create_calls",
    "fast_native_transport_batch_transport_create_seconds",
    "fast_native_transport_batch_transport_prepare_calls",
    "fast_native_transport_batch_transport_prepare_seconds",
    "fast_native_transport_batch_transport_submit_calls",
    "fast_native_transport_batch_transport_submit_seconds",
    "fast_native_transport_batch_transport_total_calls",
    "fast_native_transport_batch_transport_total_seconds",
    "fast_page_bytes",
    "fast_pass_floor_seconds",
    "fast_pass_link_bytes_per_second",
    "fast_pass_must_stream_bytes",
    "fast_pass_predicted_step_seconds",
    "fast_pass_work_seconds",
    "fast_pinned_units",
    "fast_quarantined_bytes",
    "fast_resident_bytes",
    "fast_signature_hits",
    "fast_total_weight_resident_bytes",
    "fast_transfer_batch_submissions",
    "fast_transfer_copies",
    "fast_transfer_events_created",
    "fast_transfer_events_reused",
    "fast_transfer_live_tickets",
    "fast_transfer_owned_events",
    "fast_transfer_pooled_events",
    "fast_upload_bytes",
    "fast_uploads",
    "fast_view_create_calls",
    "fast_view_create_seconds",
    "fast_view_prepare_calls",
    "fast_view_prepare_seconds",
    "fast_view_release_calls",
    "fast_view_release_seconds",
    "fast_virtual_bytes",
    "fast_native_transport_read_bytes",
    "fast_native_transport_read_seconds",
    "fast_native_transport_slot_wait_seconds",
    "fast_native_transport_slot_waits",
    "fast_native_transport_source_prepare_calls",
    "fast_native_transport_source_prepare_seconds",
    "fast_native_transport_source_read_bytes",
    "fast_native_transport_source_read_chunks",
    "fast_native_transport_source_read_failures",
    "fast_native_transport_source_workers",
    "fast_source_cache_admission_denials",
    "fast_source_cache_batch_bridge_create_ffi_calls",
    "fast_source_cache_batch_bridge_create_ffi_seconds",
    "fast_source_cache_batch_bridge_create_total_calls",
    "fast_source_cache_batch_bridge_create_total_seconds",
    "fast_source_cache_batch_bridge_source_prepare_total_calls",
    "fast_source_cache_batch_bridge_source_prepare_total_seconds",
    "fast_source_cache_batch_bridge_submit_ffi_calls",
    "fast_source_cache_batch_bridge_submit_ffi_seconds",
    "fast_source_cache_batch_bridge_submit_lock_wait_seconds",
    "fast_source_cache_batch_bridge_submit_prepare_calls",
    "fast_source_cache_batch_bridge_submit_prepare_seconds",
    "fast_source_cache_batch_bridge_submit_result_calls",
    "fast_source_cache_batch_bridge_submit_result_seconds",
    "fast_source_cache_batch_bridge_submit_total_calls",
    "fast_source_cache_batch_bridge_submit_total_seconds",
    "fast_source_cache_batch_bypass_bytes",
    "fast_source_cache_batch_reap_seconds",
    "fast_source_cache_batch_submissions",
    "fast_source_cache_batch_submit_seconds",
    "fast_source_cache_bypasses",
    "fast_source_cache_capacity_bytes",
    "fast_source_cache_close_total_seconds",
    "fast_source_cache_committed_bytes",
    "fast_source_cache_copy_total_seconds",
    "fast_source_cache_dma_bytes",
    "fast_source_cache_dma_event_seconds",
    "fast_source_cache_dma_submit_seconds",
    "fast_source_cache_event_acquire_seconds",
    "fast_source_cache_event_retire_seconds",
    "fast_source_cache_events_created",
    "fast_source_cache_events_reused",
    "fast_source_cache_hits",
    "fast_source_cache_host_copy_bytes",
    "fast_source_cache_live_tickets",
    "fast_source_cache_misses",
    "fast_source_cache_peak_committed_bytes",
    "fast_source_cache_peak_registered_bytes",
    "fast_source_cache_pooled_events",
    "fast_source_cache_pressure_blocked_requests",
    "fast_source_cache_pressure_evictions",
    "fast_source_cache_pressure_observation_blocked_reclaims",
    "fast_source_cache_pressure_observation_both_limited_entries",
    "fast_source_cache_pressure_observation_commit_limited_entries",
    "fast_source_cache_pressure_observation_entries",
    "fast_source_cache_pressure_observation_failed_observations",
    "fast_source_cache_pressure_observation_failed_reclaims",
    "fast_source_cache_pressure_observation_high_bytes",
    "fast_source_cache_pressure_observation_last_entry_commit_bytes",
    "fast_source_cache_pressure_observation_last_entry_committed_bytes",
    "fast_source_cache_pressure_observation_last_entry_ram_bytes",
    "fast_source_cache_pressure_observation_last_entry_registered_bytes",
    "fast_source_cache_pressure_observation_last_episode_reclaimed_bytes",
    "fast_source_cache_pressure_observation_last_reason",
    "fast_source_cache_pressure_observation_last_recovery_commit_bytes",
    "fast_source_cache_pressure_observation_last_recovery_ram_bytes",
    "fast_source_cache_pressure_observation_low_bytes",
    "fast_source_cache_pressure_observation_min_commit_bytes",
    "fast_source_cache_pressure_observation_min_ram_bytes",
    "fast_source_cache_pressure_observation_ram_limited_entries",
    "fast_source_cache_pressure_observation_recoveries",
    "fast_source_cache_pressure_observation_schema_version",
    "fast_source_cache_pressure_observation_unknown_entries",
    "fast_source_cache_pressure_observation_valid_observations",
    "fast_source_cache_pressure_released_bytes",
    "fast_source_cache_pressure_suspended",
    "fast_source_cache_process_committed_bytes",
    "fast_source_cache_process_limit_bytes",
    "fast_source_cache_process_registered_bytes",
    "fast_source_cache_process_staging_registered_bytes",
    "fast_source_cache_registered_bytes",
    "fast_source_cache_registered_limit_bytes",
    "fast_source_cache_registration_schedule_seconds",
    "fast_source_cache_registration_seconds",
    "fast_source_cache_registration_wait_seconds",
    "fast_source_cache_registration_waits",
    "fast_source_cache_registrations",
    "fast_source_cache_request_total_seconds",
    "fast_source_cache_retained_bytes",
    "fast_source_cache_ring_fallback_bytes",
    "fast_source_cache_source_dispatcher_enabled",
    "fast_source_cache_source_dispatcher_owned_windows",
    "fast_source_cache_source_dispatcher_peak_windows",
    "fast_source_cache_source_dispatcher_window_limit",
    "fast_source_cache_source_read_bytes",
    "fast_source_cache_source_ready_seconds",
    "fast_source_cache_ticket_close_wait_seconds",
    "fast_source_cache_transfer_owned_events",
    "fast_source_cache_unregistration_seconds",
    "fast_source_cache_unregistrations",
    "fast_source_cache_version",
    "fast_native_transport_ring_total_calls",
    "fast_native_transport_ring_total_seconds",
    "fast_prefetch_attempts",
    "fast_prefetch_dropped_tensors",
    "fast_prefetch_hits",
    "fast_prefetch_in_flight_tensors",
    "fast_prefetch_resident_skips",
    "fast_prefetch_skips",
    "fast_shard_read_bytes",
    "fast_shard_read_seconds",
    "fast_source_cache_batch_completion_events",
    "fast_staging_slot_wait_seconds",
    "fast_staging_slot_waits",
    "fast_staging_source_copy_bytes",
    "fast_staging_source_copy_seconds",
    "materializations",
    "reserved_bytes",
    "resident_bytes",
];

/// Names under `runtime.vmm` in recorded runs of other tools that the specification's tables do not have.
pub(crate) const OBSERVED: &[&str] = &[
    "fast_arena_evicted_pages",
    "fast_arena_pressure_evictions",
    "fast_arena_resident_prefix_pages",
    "fast_arena_reused_pages",
    "fast_arena_tail_evictions",
    "fast_native_transport_read_bytes",
    "fast_native_transport_read_seconds",
    "fast_native_transport_slot_wait_seconds",
    "fast_native_transport_slot_waits",
    "fast_native_transport_source_read_bytes",
    "fast_native_transport_source_read_chunks",
    "fast_native_transport_source_read_failures",
    "fast_native_transport_source_workers",
    "fast_source_cache_admission_denials",
    "fast_source_cache_capacity_bytes",
    "fast_source_cache_live_tickets",
    "fast_source_cache_peak_registered_bytes",
    "fast_source_cache_pressure_blocked_requests",
    "fast_source_cache_pressure_evictions",
    "fast_source_cache_pressure_released_bytes",
    "fast_source_cache_pressure_suspended",
    "fast_source_cache_struct_size",
    "fast_source_cache_version",
];

fn rows() -> Vec<&'static Field> {
    catalogue::rows().iter().map(|row| row.field).filter(|field| field.path.starts_with("runtime.vmm.")).collect()
}

#[test]
fn every_name_of_the_specification_is_declared() {
    let text = std::fs::read_to_string(data("spec/fields.tsv")).expect("the list");
    let named = text.lines().skip(1).filter_map(|line| line.split('\t').next()).filter(|path| path.starts_with("runtime.vmm."));
    let declared: BTreeSet<&str> = rows().iter().map(|field| field.path).collect();
    let missing: Vec<&str> = named.clone().filter(|path| !declared.contains(path)).collect();
    assert_eq!(missing, [""; 0]);
    assert!(named.count() > 170);
}

#[test]
fn every_name_of_recorded_runs_is_declared_and_observed_names_are_real() {
    let mut found = BTreeMap::new();
    for (run, at_least) in [("small-cache-full", 180), ("small-ring", 85)] {
        let text = std::fs::read_to_string(data("peer-runs").join(run).join("final.json")).expect("recorded");
        let report: Value = serde_json::from_str(&text).expect("JSON");
        let vmm = report.pointer("/runtime/vmm").and_then(Value::as_object).expect("an attached component");
        assert!(vmm.len() >= at_least, "{run}: {}", vmm.len());
        found.extend(vmm.clone());
    }
    let undeclared: Vec<&String> =
        found.keys().filter(|name| catalogue::find(&format!("runtime.vmm.{name}")).is_none()).collect();
    assert_eq!(undeclared, [""; 0]);
    for name in OBSERVED {
        assert!(found.contains_key(*name), "{name} is in no recorded run");
    }
}

#[test]
fn a_recorded_report_reads_into_the_tables_and_comes_back_whole() {
    for run in ["small-cache-full", "small-ring"] {
        let text = std::fs::read_to_string(data("peer-runs").join(run).join("final.json")).expect("recorded");
        let report: Value = serde_json::from_str(&text).expect("JSON");
        let recorded = &report["runtime"]["vmm"];
        let vmm: ddo_schemas::sections::Vmm = serde_json::from_value(recorded.clone()).expect("reads");
        assert_eq!(serde_json::to_value(vmm).expect("writes"), *recorded, "{run}");
    }
}

#[test]
fn no_two_rows_share_a_meaning_or_an_action() {
    let mut texts: BTreeMap<&str, &str> = BTreeMap::new();
    for field in rows() {
        for text in [field.meaning, field.action] {
            let other = texts.insert(text, field.path);
            assert_eq!(other, None, "{} says the same: {text}", field.path);
        }
    }
}

#[test]
fn no_meaning_only_repeats_the_words_of_its_path() {
    let fillers = ["the", "of", "a", "an", "in", "and", "to", "for", "that", "this", "is", "are", "its", "their", "by", "number"];
    let stem = |word: &str| word.to_lowercase().trim_end_matches('s').to_owned();
    for field in rows() {
        let path: BTreeSet<String> = field.path.split(['.', '_']).map(stem).collect();
        let words = field.meaning.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).map(str::to_lowercase);
        let said: BTreeSet<String> = words
            .filter(|word| !fillers.contains(&word.as_str()))
            .map(|word| stem(&word))
            .filter(|word| !path.contains(word))
            .collect();
        assert!(said.len() >= 2, "{} only repeats itself: {}", field.path, field.meaning);
    }
}
