//! What attaching says in reports: settings and decisions.

use super::component::Component;
use super::planning::{Planned, mode_of};
use super::state::{StreamRules, UnitPlan};
use super::supply::SourcePlan;
use crate::config::{LaunchScope, OffloadConfig, RegistrationTiming, ResidencyMode};
use crate::driver::DeviceFacts;
use crate::memory::{HostTensor, SourceKind};
use crate::plan::StreamPlan;
use ddo_schemas::sections::{
    Configuration, PackageVmmDecisions, PackageVmmSettings, PlannerDecisions, SetupAction, State as StateReport,
};
use ddo_schemas::{Gib, Ratio, Seconds};
use std::collections::BTreeMap;

/// Settings as requested and resolved.
pub(super) fn configuration(
    component: &Component,
    config: &OffloadConfig,
    facts: &DeviceFacts,
    planned: &Planned,
    source: &SourcePlan,
) -> Configuration {
    Configuration {
        component: component.name.clone(),
        dynamic_offload_execution_mode: "vmm_fast_runtime".into(),
        driver: facts.driver.into(),
        weight_ceiling_bytes: planned.ceiling_bytes,
        requested_source: config.source.name().into(),
        requested_source_registration_timing: of_mapped(source, config.host.registration_timing),
        residency_mode: mode_of(planned.placement.stream).name().into(),
        requested_residency_mode: Some(config.residency.name().into()),
        launch_scope: Some(
            match config.launches {
                LaunchScope::Units => "units",
                LaunchScope::Parts => "parts",
            }
            .into(),
        ),
        least_part_bytes: Some(config.part_bytes),
        device_reserve_bytes: (config.device_reserve_bytes > 0).then_some(config.device_reserve_bytes),
        execution_slots: config.slots,
        look_ahead: config.look_ahead,
        device_page_bytes: facts.page_bytes,
        link_bytes_per_second: facts.link_bytes_per_second,
        component_lifetime_limit_bytes: Some(config.lifetime_limit_bytes).filter(|limit| *limit > 0),
        vmm: source_settings(config, source),
        pin: Default::default(),
        budget: Default::default(),
        helper: Default::default(),
    }
}

/// What was decided.
pub(super) fn state_report(
    component: &Component,
    planned: &Planned,
    setup_runtime: BTreeMap<String, SetupAction>,
    (config, source): (&OffloadConfig, &SourcePlan),
    units: &[UnitPlan],
    rules: StreamRules,
    host: &BTreeMap<String, HostTensor>,
) -> StateReport {
    let placement = &planned.placement;
    let residents = units.iter().filter(|unit| unit.streamed_parts == 0).count() as u64;
    let resident_parts = placement.resident.iter().filter(|resident| **resident).count() as u64;
    let host_bytes = host.values().map(HostTensor::payload_bytes).sum();
    let lifetime_bytes = planned.lifetime.as_ref().map(|lifetime| lifetime.payload_bytes);
    let of_parts = |value: u64| matches!(placement.stream, StreamPlan::Ring { .. }).then_some(value);
    StateReport {
        module_count: component.root.module_count(),
        total_gb: Gib::from_bytes(
            planned.managed_bytes.saturating_add(host_bytes).saturating_add(lifetime_bytes.unwrap_or_default()),
        ),
        setup_runtime,
        planner_decisions: PlannerDecisions {
            vmm_backend: "native_model_arena".into(),
            vmm_effective_source: source.kind.name().into(),
            vmm_source_registration: source.retained.map(|shape| shape.registration.name().into()),
            vmm_source_registration_timing: of_mapped(source, source.timing),
            vmm_resident_units: residents,
            vmm_streamed_units: units.len() as u64 - residents,
            vmm_streamed_bytes_per_pass: placement.streamed_bytes,
            vmm_managed_bytes: planned.managed_bytes,
            vmm_host_bytes: host_bytes,
            vmm_component_lifetime_bytes: lifetime_bytes,
            vmm_fast_payload_bytes: placement.layout.arena_bytes,
            vmm_look_ahead_depth: matches!(placement.stream, StreamPlan::Slots { .. }).then_some(rules.depth),
            vmm_look_ahead_wraps: rules.depth > 0,
            vmm_resident_parts: of_parts(resident_parts),
            vmm_predicted_floor_ratio: placement.prediction.map(|prediction| Ratio(prediction.floor_ratio)),
            vmm_predicted_step_seconds: placement.prediction.and_then(|prediction| prediction.step_seconds).map(Seconds),
            vmm_streamed_parts: of_parts(placement.resident.len() as u64 - resident_parts),
            vmm: source_decisions(config, source),
            budget: Default::default(),
        },
        package: Default::default(),
    }
}

/// When a mapped source is registered; left out for the others.
fn of_mapped(source: &SourcePlan, timing: RegistrationTiming) -> Option<String> {
    (source.kind == SourceKind::Mapped).then(|| timing.name().into())
}

/// Whole MiB, where it is some.
fn mib(bytes: u64) -> Option<u64> {
    bytes.is_multiple_of(1 << 20).then_some(bytes >> 20)
}

/// What was asked for the sources that are read for uploads; left out for the others.
fn source_settings(config: &OffloadConfig, source: &SourcePlan) -> PackageVmmSettings {
    let fallback = (config.residency == ResidencyMode::Demand).then_some(config.fault_fallback);
    let shared = PackageVmmSettings {
        dynamic_offload_vmm_fault_fallback: fallback,
        dynamic_offload_vmm_pin_source_weights: (source.kind == SourceKind::Cpu).then_some(config.pin_source_weights),
        ..PackageVmmSettings::default()
    };
    let host = &config.host;
    if source.ring.is_none() {
        return PackageVmmSettings {
            dynamic_offload_vmm_staging_buffer_gb: source.staging.map(|_| Gib::from_bytes(host.staging_bytes)),
            dynamic_offload_vmm_native_transport: source.staging.map(|_| false),
            ..shared
        };
    }
    PackageVmmSettings {
        dynamic_offload_vmm_staging_buffer_gb: Some(Gib::from_bytes(host.staging_bytes)),
        dynamic_offload_vmm_native_transport: Some(true),
        dynamic_offload_vmm_source_cache_gb: Some(Gib::from_bytes(host.retained_bytes)),
        dynamic_offload_vmm_source_registered_gb: Some(Gib::from_bytes(host.registered_bytes)),
        dynamic_offload_vmm_native_source_cache_slot_mb: mib(host.retained_slot_bytes),
        dynamic_offload_vmm_native_source_cache_slots: Some(host.retained_slots),
        ..shared
    }
}

/// The geometry that took effect.
fn source_decisions(config: &OffloadConfig, source: &SourcePlan) -> PackageVmmDecisions {
    let Some(ring) = source.ring else {
        return PackageVmmDecisions {
            vmm_staging_buffer_gb: source.staging.map(|slots| Gib::from_bytes(slots.bytes())),
            vmm_staging_slots: source.staging.map(|slots| slots.slots),
            vmm_native_transport: source.staging.map(|_| false),
            ..PackageVmmDecisions::default()
        };
    };
    let retained = source.retained;
    PackageVmmDecisions {
        vmm_staging_buffer_gb: Some(Gib::from_bytes(config.host.staging_bytes)),
        vmm_staging_slots: Some(ring.slots),
        vmm_native_transport: Some(true),
        vmm_native_transport_registered_capacity_bytes: Some(ring.bytes()),
        vmm_source_cache_gb: Some(Gib::from_bytes(retained.map_or(0, |shape| shape.bytes()))),
        vmm_source_registered_gb: Some(Gib::from_bytes(config.host.registered_bytes)),
        vmm_native_source_cache_slot_mb: retained.and_then(|shape| mib(shape.segment_bytes)),
        vmm_native_source_cache_slots: retained.map(|shape| shape.segments),
        vmm_native_source_cache_model_windows: Some(retained.is_some_and(|shape| shape.model_windows)),
        vmm_native_source_cache_process_limit_bytes: Some(config.host.process_limit_bytes),
        ..PackageVmmDecisions::default()
    }
}
