//! Attaching: plan, open sources, map memory.

use super::Counters;
use super::component::Component;
use super::marks::MarksSlot;
use super::state::{Bindings, Inner, Offload, Residence, State, TensorPlace, UnitId, UnitInfo, UnitPlan};
use crate::config::{OffloadConfig, SourceChoice};
use crate::driver::{DeviceFacts, Driver, HostBytes, JobFailures, MappedFile, Priority, StreamId};
use crate::error::{Error, Result};
use crate::limits::{ARENA_ALIGNMENT_BYTES, SLOT_ALIGNMENT_BYTES};
use crate::memory::{Arena, Checkpoint, HostTensor, MappingBook, Registrations, SlotPool, SourceKind, Sources};
use crate::plan::{Layout, Parameter, ParameterSource, PassOrder, PlannedUnit, ResidencyPlan, UnitSize, Units};
use crate::plan::{execution_units, plan_residency};
use crate::transfer::{BatchTensor, EventPool, TicketLedger};
use ddo_schemas::sections::{Configuration, PlannerDecisions, SetupAction, State as StateReport};
use ddo_schemas::{Gib, Seconds};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// What is settled before any resource is taken.
struct Planned {
    units: Units,
    layout: Layout,
    residency: ResidencyPlan,
    managed_bytes: u64,
    ceiling_bytes: u64,
}

/// Attaches a component to a device.
///
/// # Errors
/// A refusal when the ceiling or the settings cannot be met, before anything is taken; the driver's errors, after
/// everything taken was given back; I/O errors with their path.
pub fn enable_offload(component: Component, config: OffloadConfig) -> Result<Offload> {
    let clock = Arc::clone(&config.clock);
    let driver = Arc::clone(&config.driver);
    let facts = driver.facts();
    let mut setup = BTreeMap::new();
    let mut action = |name: &str, from: crate::meter::Nanos, bytes: u64| {
        let seconds = Seconds(clock.now().since(from) as f64 / 1e9);
        setup.insert(name.to_string(), SetupAction { seconds, gb: Gib::from_bytes(bytes) });
    };

    let start = clock.now();
    let planned = plan(&component, &config, &facts)?;
    let units = unit_plans(&planned);
    action("vmm_fast_plan_metadata", start, 0);

    let start = clock.now();
    let sources = open_sources(&component, &planned.units, config.source)?;
    let host = host_tensors(&component, &planned.units)?;
    let (compute, upload) = create_streams(&*driver)?;
    action("vmm_fast_native_resources", start, 0);

    let start = clock.now();
    let book = Arc::new(MappingBook::default());
    let memory = map_memory(&driver, &book, &planned, facts.page_bytes);
    let (arena, slots) = memory.inspect_err(|_| {
        let _ = driver.stream_destroy(upload).and(driver.stream_destroy(compute));
    })?;
    action("vmm_fast_attach_native_model_arena", start, planned.managed_bytes);

    let mut registrations = Registrations::new(Arc::clone(&driver));
    if facts.read_only_registration && sources.kind() == SourceKind::Mapped {
        let start = clock.now();
        let ranges = component.checkpoint.as_ref().map(|checkpoint| managed_ranges(checkpoint, &planned.units));
        registrations.register(&sources, &ranges.unwrap_or_default());
        action("vmm_fast_register_mapped_source", start, registrations.registered_bytes());
    }

    let state = State {
        arena,
        slots,
        residence: units.iter().map(|_| Residence::default()).collect(),
        batches: units.iter().map(|_| None).collect(),
        order: PassOrder::default(),
        tickets: TicketLedger::default(),
        running: Default::default(),
        events: EventPool::new(Arc::clone(&driver)),
        registrations,
        quarantined_arena_bytes: 0,
        poisoned: None,
        deferred: None,
        closed: false,
    };
    let look_ahead_depth = if config.look_ahead { planned.residency.slots.saturating_sub(1) } else { 0 };
    let inner = Inner {
        name: component.name.clone(),
        session_id: format!("{:016x}", fastrand::u64(..)),
        infos: unit_infos(&units),
        bindings: bindings(&planned.units),
        configuration: configuration(&component, &config, &facts, planned.ceiling_bytes),
        state_report: state_report(&component, &planned, setup, sources.kind(), look_ahead_depth, &host),
        checkpoint: component.checkpoint,
        counters: Counters::default(),
        failures: Arc::new(JobFailures::default()),
        book,
        marks: MarksSlot::default(),
        state: Mutex::new(state),
        clock: config.clock,
        driver,
        facts,
        compute,
        upload,
        units,
        look_ahead_depth,
        sources,
        host,
    };
    Ok(Offload { inner: Arc::new(inner) })
}

fn plan(component: &Component, config: &OffloadConfig, facts: &DeviceFacts) -> Result<Planned> {
    let units = execution_units(&component.root);
    if units.units.is_empty() {
        let reason = "no execution unit: it has neither a numbered module list nor a linear module".to_string();
        return Err(Error::invalid(format!("component {:?}", component.name), reason));
    }
    let sizes: Vec<Vec<u64>> =
        units.units.iter().map(|unit| unit.parameters.iter().map(|parameter| parameter.bytes).collect()).collect();
    let overflow = || Error::invalid(format!("component {:?}", component.name), "its layout exceeds 64 bits".to_string());
    let layout = Layout::new(&sizes, SLOT_ALIGNMENT_BYTES, ARENA_ALIGNMENT_BYTES).ok_or_else(overflow)?;
    let managed_bytes = sizes.iter().flatten().try_fold(0u64, |sum, bytes| sum.checked_add(*bytes)).ok_or_else(overflow)?;
    let ceiling_bytes = config.ceiling.resolve(managed_bytes)?;
    let places = layout.arena_starts.iter().zip(&layout.units);
    let places: Vec<UnitSize> = places.map(|(start, unit)| UnitSize { arena_start: *start, bytes: unit.bytes }).collect();
    let residency = plan_residency(&places, facts.page_bytes, ceiling_bytes, config.slots)?;
    Ok(Planned { units, layout, residency, managed_bytes, ceiling_bytes })
}

fn unit_plans(planned: &Planned) -> Vec<UnitPlan> {
    let places = planned.layout.arena_starts.iter().zip(&planned.layout.units).zip(&planned.residency.resident);
    let units = planned.units.units.iter().zip(places);
    units.map(|(unit, ((start, packed), resident))| unit_plan(unit, *start, &packed.offsets, packed.bytes, *resident)).collect()
}

fn unit_plan(unit: &PlannedUnit, arena_start: u64, offsets: &[u64], span_bytes: u64, resident: bool) -> UnitPlan {
    let placed = || unit.parameters.iter().zip(offsets);
    let place = |(parameter, offset): (&Parameter, &u64)| {
        let Parameter { name, dtype, shape, bytes, .. } = parameter.clone();
        (name, TensorPlace { offset: *offset, bytes, dtype, shape })
    };
    UnitPlan {
        name: Arc::from(unit.name.as_str()),
        resident,
        arena_start,
        span_bytes,
        payload_bytes: unit.parameters.iter().map(|parameter| parameter.bytes).sum(),
        batch: placed().map(|(p, offset)| BatchTensor { source: p.source, offset: *offset, bytes: p.bytes }).collect(),
        tensors: placed().map(place).collect(),
    }
}

fn unit_infos(units: &[UnitPlan]) -> Vec<UnitInfo> {
    let info = |(index, plan): (usize, &UnitPlan)| UnitInfo {
        id: UnitId(index),
        name: plan.name.to_string(),
        bytes: plan.payload_bytes,
        resident: plan.resident,
    };
    units.iter().enumerate().map(info).collect()
}

fn managed_ranges(checkpoint: &Checkpoint, units: &Units) -> Vec<Range<u64>> {
    let mut ranges: Vec<Range<u64>> = checkpoint.files().iter().map(|_| 0..0).collect();
    for parameter in units.units.iter().flat_map(|unit| &unit.parameters).filter(|parameter| parameter.bytes > 0) {
        let ParameterSource::File { file, offset } = parameter.source else { continue };
        if let Some(range) = ranges.get_mut(file) {
            let start = if range.is_empty() { offset } else { range.start.min(offset) };
            *range = start..range.end.max(offset + parameter.bytes);
        }
    }
    ranges
}

fn open_sources(component: &Component, units: &Units, choice: SourceChoice) -> Result<Sources> {
    let kind = match (choice, &component.checkpoint) {
        (SourceChoice::Mapped, None) => {
            let reason = "the component's tensors lie in host memory, not in a file".to_string();
            return Err(Error::Unsupported { what: "source \"mapped\"".into(), reason });
        }
        (SourceChoice::Cpu, _) | (SourceChoice::Auto, None) => SourceKind::Cpu,
        (SourceChoice::Mapped | SourceChoice::Auto, Some(_)) => SourceKind::Mapped,
    };
    let ranges = component.checkpoint.as_ref().map(|checkpoint| managed_ranges(checkpoint, units)).unwrap_or_default();
    Sources::open(component.checkpoint.as_ref(), &ranges, component.tensors.clone(), kind)
}

/// Tensors outside the units: mapped from their files, or the host's own memory.
fn host_tensors(component: &Component, units: &Units) -> Result<BTreeMap<String, HostTensor>> {
    let mut maps: BTreeMap<usize, Arc<MappedFile>> = BTreeMap::new();
    let mut tensors = BTreeMap::new();
    for (name, parameter) in &units.host {
        let tensor = match parameter.source {
            ParameterSource::Memory { tensor } => component.tensors.get(tensor).cloned(),
            ParameterSource::File { file, offset } => {
                let Some(source) = component.checkpoint.as_ref().and_then(|checkpoint| checkpoint.files().get(file)) else {
                    continue;
                };
                if let std::collections::btree_map::Entry::Vacant(entry) = maps.entry(file) {
                    entry.insert(Arc::new(source.map().map_err(|error| Error::io("map", source.path(), error))?));
                }
                let owner = maps.get(&file).map(Arc::clone);
                let lease = owner.and_then(|owner| HostBytes::new(owner, offset, parameter.bytes));
                lease.map(|bytes| HostTensor::new(parameter.dtype, parameter.shape.clone(), bytes))
            }
        };
        let outside = || Error::invalid(format!("tensor {name:?}"), "it lies outside its source".to_string());
        tensors.insert(name.clone(), tensor.ok_or_else(outside)?);
    }
    Ok(tensors)
}

fn create_streams(driver: &dyn Driver) -> Result<(StreamId, StreamId)> {
    let compute = driver.stream_create(Priority::Normal)?;
    match driver.stream_create(Priority::High) {
        Ok(upload) => Ok((compute, upload)),
        Err(error) => {
            let _ = driver.stream_destroy(compute);
            Err(error.into())
        }
    }
}

fn map_memory(
    driver: &Arc<dyn Driver>,
    book: &Arc<MappingBook>,
    planned: &Planned,
    page_bytes: u64,
) -> Result<(Arena, SlotPool)> {
    let residency = &planned.residency;
    let ceiling = residency.arena_ceiling_bytes;
    let mut arena = Arena::reserve(Arc::clone(driver), Arc::clone(book), planned.layout.arena_bytes, page_bytes, ceiling)?;
    match SlotPool::map(Arc::clone(driver), book, residency.slots, residency.slot_bytes) {
        Ok(slots) => Ok((arena, slots)),
        Err(error) => {
            // No page of the arena is mapped yet: only its addresses can be left behind.
            let _ = arena.release();
            Err(error.into())
        }
    }
}

fn bindings(units: &Units) -> Bindings {
    let mut bindings = Bindings::default();
    for parameter in units.units.iter().flat_map(|unit| &unit.parameters) {
        let (count, bytes) = match parameter.source {
            ParameterSource::File { .. } => (&mut bindings.file, &mut bindings.file_bytes),
            ParameterSource::Memory { .. } => (&mut bindings.memory, &mut bindings.memory_bytes),
        };
        *count += 1;
        *bytes += parameter.bytes;
    }
    bindings
}

fn configuration(component: &Component, config: &OffloadConfig, facts: &DeviceFacts, ceiling_bytes: u64) -> Configuration {
    Configuration {
        component: component.name.clone(),
        dynamic_offload_execution_mode: "vmm_fast_runtime".into(),
        driver: facts.driver.into(),
        weight_ceiling_bytes: ceiling_bytes,
        requested_source: config.source.name().into(),
        residency_mode: "classic".into(),
        execution_slots: config.slots,
        look_ahead: config.look_ahead,
        device_page_bytes: facts.page_bytes,
        link_bytes_per_second: facts.link_bytes_per_second,
        vmm: Default::default(),
        pin: Default::default(),
        budget: Default::default(),
        helper: Default::default(),
    }
}

fn state_report(
    component: &Component,
    planned: &Planned,
    setup_runtime: BTreeMap<String, SetupAction>,
    source: SourceKind,
    look_ahead_depth: u64,
    host: &BTreeMap<String, HostTensor>,
) -> StateReport {
    let payloads = planned.units.units.iter().map(|unit| unit.parameters.iter().map(|p| p.bytes).sum::<u64>());
    let streamed = payloads.zip(&planned.residency.resident).filter(|(_, resident)| !**resident);
    let streamed_bytes = streamed.map(|(bytes, _)| bytes).sum();
    let residents = planned.residency.resident.iter().filter(|resident| **resident).count() as u64;
    let host_bytes = host.values().map(HostTensor::payload_bytes).sum();
    StateReport {
        module_count: component.root.module_count(),
        total_gb: Gib::from_bytes(planned.managed_bytes.saturating_add(host_bytes)),
        setup_runtime,
        planner_decisions: PlannerDecisions {
            vmm_backend: "native_model_arena".into(),
            vmm_effective_source: source.name().into(),
            vmm_resident_units: residents,
            vmm_streamed_units: planned.units.units.len() as u64 - residents,
            vmm_streamed_bytes_per_pass: streamed_bytes,
            vmm_managed_bytes: planned.managed_bytes,
            vmm_host_bytes: host_bytes,
            vmm_fast_payload_bytes: planned.layout.arena_bytes,
            vmm_look_ahead_depth: look_ahead_depth,
            vmm_look_ahead_wraps: look_ahead_depth > 0,
            vmm: Default::default(),
            budget: Default::default(),
        },
        package: Default::default(),
    }
}
