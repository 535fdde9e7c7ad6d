//! Attaching: plan, open sources, map memory.

use super::Counters;
use super::backing::{Backing, open_backing};
use super::component::Component;
use super::planning::{Placement, Planned, part_plans, plan, unit_infos, unit_plans};
use super::ranges::RangesSlot;
use super::registering::register_mapped;
use super::rows::{configuration, state_report};
use super::slot::Slot;
use super::state::{Bindings, Inner, Offload, State, StreamRules};
use super::supply::{Bringers, SourcePlan, open_bringers_or_do_without, release, source_plan};
use crate::config::{LaunchScope, OffloadConfig};
use crate::driver::{Driver, HostBytes, JobFailures, MappedFile, Priority, StreamId, Timed};
use crate::error::{Error, Result};
use crate::limits::MAX_AHEAD_PARTS;
use crate::memory::{Arena, ArenaRules, HostTensor, MappingBook, SourceKind, Sources, StreamMemory, Temporaries};
use crate::plan::StreamPlan;
use crate::plan::{Parameter, ParameterSource, Units};
use crate::transfer::EventPool;
use ddo_schemas::sections::SetupAction;
use ddo_schemas::{Gib, Seconds};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};

/// Attaches a component to a device.
///
/// # Errors
/// A refusal when the ceiling or the settings cannot be met, before anything is taken; the driver's errors, after
/// everything taken was given back; I/O errors with their path.
pub fn enable_offload(component: Component, config: OffloadConfig) -> Result<Offload> {
    let clock = Arc::clone(&config.clock);
    let driver: Arc<dyn Driver> = Timed::sharing(Arc::clone(&config.driver), Arc::clone(&clock), Arc::clone(&config.call_meter));
    let facts = driver.facts();
    let mut setup = BTreeMap::new();
    let mut action = |name: &str, from: crate::meter::Nanos, bytes: u64| {
        let seconds = Seconds(clock.now().since(from) as f64 / 1e9);
        setup.insert(name.to_string(), SetupAction { seconds, gb: Gib::from_bytes(bytes) });
    };

    let start = clock.now();
    let planned = plan(&component, &config, &facts)?;
    let source = source_plan(&component, &config, &facts, &planned.units)?;
    let parts = part_plans(&planned);
    let units = unit_plans(&planned, &parts);
    action("vmm_fast_plan_metadata", start, 0);

    let start = clock.now();
    let sources = open_sources(&component, &planned.units, source.kind)?;
    let host = host_tensors(&component, &planned.units.host)?;
    let (compute, upload) = create_streams(&*driver)?;
    let end_streams = || {
        let _ = driver.stream_destroy(upload).and(driver.stream_destroy(compute));
    };
    let opened = open_bringers_or_do_without(&component, &config, source, &parts, upload);
    let (source, Bringers { supply, staged }) = opened.inspect_err(|_| end_streams())?;
    action("vmm_fast_native_resources", start, 0);

    let backing = open_backing(&driver, (&component, &config, &facts), (&planned, &units, &parts), upload, &mut action);
    let Backing { memory, book, scopes, fixed } = backing.inspect_err(|_| {
        let _ = release(supply.as_ref(), staged.as_ref());
        end_streams();
    })?;

    let start = clock.now();
    let managed = (&sources, managed_ranges(&component, &planned.units));
    let (registrations, registrar) = register_mapped(&config, managed, &parts, &source);
    let (mapped, pinned) = (registrations.registered_bytes(), registrations.pinned_bytes());
    let registered = [("vmm_fast_register_mapped_source", mapped), ("vmm_pin_source_weights", pinned)];
    registered.into_iter().filter(|(_, bytes)| *bytes > 0).for_each(|(name, bytes)| action(name, start, bytes));

    let events = EventPool::new(Arc::clone(&driver));
    let temporaries = Temporaries::new(Arc::clone(&driver), Arc::clone(&book), facts.page_bytes);
    let state = State::new(memory, temporaries, events, registrations, (units.len(), parts.len()));
    let rules = stream_rules(&config, &planned.placement, &source);
    let inner = Inner {
        name: component.name.clone(),
        session_id: format!("{:016x}", fastrand::u64(..)),
        infos: unit_infos(&units, &parts),
        bindings: bindings(&planned),
        configuration: configuration(&component, &config, &facts, &planned, &source),
        state_report: state_report(&component, &planned, setup, (&config, &source), &units, rules, &host),
        checkpoint: component.checkpoint,
        counters: Counters { views: scopes, ..Counters::default() },
        failures: Arc::new(JobFailures::default()),
        book,
        forecast: OnceLock::new(),
        marks: Slot::default(),
        steps: Slot::default(),
        call_meter: config.call_meter,
        ranges: RangesSlot::default(),
        state: Mutex::new(state),
        clock: config.clock,
        driver,
        facts,
        compute,
        upload,
        units,
        parts,
        rules,
        sources,
        supply,
        staged,
        registrar,
        timing: source.timing,
        host,
        fixed,
    };
    Ok(Offload { inner: Arc::new(inner) })
}

/// The managed stretch of each file of the checkpoint; none without one.
fn managed_ranges(component: &Component, units: &Units) -> Vec<Range<u64>> {
    let files = component.checkpoint.iter().flat_map(|checkpoint| checkpoint.files().iter());
    let mut ranges: Vec<Range<u64>> = files.map(|_| 0..0).collect();
    for parameter in units.units.iter().flat_map(|unit| &unit.parameters).filter(|parameter| parameter.bytes > 0) {
        let ParameterSource::File { file, offset } = parameter.source else { continue };
        if let Some(range) = ranges.get_mut(file) {
            let start = if range.is_empty() { offset } else { range.start.min(offset) };
            *range = start..range.end.max(offset + parameter.bytes);
        }
    }
    ranges
}

fn open_sources(component: &Component, units: &Units, kind: SourceKind) -> Result<Sources> {
    let ranges = managed_ranges(component, units);
    Sources::open(component.checkpoint.as_ref(), &ranges, component.tensors.clone(), kind)
}

/// Tensors outside the units: mapped from their files, or the host's own memory.
pub(super) fn host_tensors(component: &Component, outside: &[(String, Parameter)]) -> Result<BTreeMap<String, HostTensor>> {
    let mut maps: BTreeMap<usize, Arc<MappedFile>> = BTreeMap::new();
    let mut tensors = BTreeMap::new();
    for (name, parameter) in outside {
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

pub(super) fn map_memory(
    driver: &Arc<dyn Driver>,
    book: &Arc<MappingBook>,
    planned: &Planned,
    (config, page_bytes): (&OffloadConfig, u64),
) -> Result<(Arena, StreamMemory)> {
    let Placement { layout, arena_ceiling_bytes, stream, .. } = &planned.placement;
    let rules = ArenaRules {
        page_bytes,
        ceiling_bytes: *arena_ceiling_bytes,
        reserve_bytes: config.device_reserve_bytes,
        reuse: is_paged(&planned.placement),
    };
    let mut arena = Arena::reserve(Arc::clone(driver), Arc::clone(book), layout.arena_bytes, rules)?;
    let stream = match *stream {
        StreamPlan::Slots { count, bytes } => StreamMemory::slots(Arc::clone(driver), book, count, bytes),
        StreamPlan::Ring { bytes } => StreamMemory::ring(Arc::clone(driver), book, bytes),
        StreamPlan::Arena => StreamMemory::slots(Arc::clone(driver), book, 0, 0),
    };
    match stream {
        Ok(stream) => Ok((arena, stream)),
        Err(error) => {
            // No page of the arena is mapped yet: only its addresses can be left behind.
            let _ = arena.release();
            Err(error.into())
        }
    }
}

/// Whether units come and go in the arena.
pub(super) fn is_paged(placement: &Placement) -> bool {
    placement.stream == StreamPlan::Arena
}

/// How stream memory is used: slots are few and known, a ring and the arena take what fits.
fn stream_rules(config: &OffloadConfig, placement: &Placement, source: &SourcePlan) -> StreamRules {
    let (depth, by_part) = match placement.stream {
        StreamPlan::Arena => (MAX_AHEAD_PARTS, false),
        StreamPlan::Slots { count, .. } => (count.saturating_sub(1), false),
        StreamPlan::Ring { bytes } if bytes > 0 => (MAX_AHEAD_PARTS, config.launches == LaunchScope::Parts),
        StreamPlan::Ring { .. } => (0, config.launches == LaunchScope::Parts),
    };
    let depth = if config.look_ahead { depth } else { 0 };
    StreamRules {
        depth,
        by_part,
        paged: is_paged(placement),
        fault_fallback: config.fault_fallback,
        least_stage_bytes: config.part_bytes,
        learns: config.measure && depth > 0,
        read_ahead_bytes: source.read_ahead_bytes(),
    }
}

/// What lies on the device at times, or as long as the component, by where it comes from.
fn bindings(planned: &Planned) -> Bindings {
    let mut bindings = Bindings::default();
    let of_root = planned.lifetime.iter().flat_map(|lifetime| &lifetime.groups).map(|(parameter, _)| parameter);
    for parameter in planned.units.units.iter().flat_map(|unit| &unit.parameters).chain(of_root) {
        let (count, bytes) = match parameter.source {
            ParameterSource::File { .. } => (&mut bindings.file, &mut bindings.file_bytes),
            ParameterSource::Memory { .. } => (&mut bindings.memory, &mut bindings.memory_bytes),
        };
        *count += 1;
        *bytes += parameter.bytes;
    }
    bindings
}
