//! Source bytes that the device does not read where they lie: opening what brings them, and telling it what comes.

use super::component::Component;
use super::registering::streamed_windows;
use super::state::{Inner, LookedAhead, PartPlan, State};
use crate::config::{OffloadConfig, RegistrationTiming, SourceChoice};
use crate::driver::{DeviceFacts, DriverResult, StreamId};
use crate::error::{Error, Result};
use crate::limits::{MAX_AHEAD_PARTS, REGISTRATION_SEGMENT_BYTES};
use crate::memory::{HostRing, Retained, SourceKind};
use crate::plan::{
    ColdStart, Parameter, ParameterSource, RetainedShape, RingShape, Units, retained_shape, ring_shape, staging_shape,
};
use crate::transfer::{PartBatch, SourceReaders, Staged, Supply};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The source that takes effect, and the host memory that it takes.
#[derive(Clone, Copy, Debug)]
pub(super) struct SourcePlan {
    pub(super) kind: SourceKind,
    pub(super) ring: Option<RingShape>,
    pub(super) retained: Option<RetainedShape>,
    /// When a mapped source is registered.
    pub(super) timing: RegistrationTiming,
    /// Slots of the source `staged`.
    pub(super) staging: Option<RingShape>,
}

/// What brings source bytes to the device; neither where it reads them where they lie.
#[derive(Debug, Default)]
pub(super) struct Bringers {
    pub(super) supply: Option<Mutex<Supply>>,
    pub(super) staged: Option<Mutex<Staged>>,
}

/// Settles the source. Nothing is taken yet.
pub(super) fn source_plan(
    component: &Component,
    config: &OffloadConfig,
    facts: &DeviceFacts,
    units: &Units,
) -> Result<SourcePlan> {
    let retains = config.host.retained_bytes > 0 || config.host.retained_slots > 0;
    let has_files = component.checkpoint.is_some();
    let kind = match config.source {
        SourceChoice::Cpu => SourceKind::Cpu,
        SourceChoice::Auto if !has_files => SourceKind::Cpu,
        SourceChoice::Auto if retains => SourceKind::Retained,
        SourceChoice::Auto | SourceChoice::Mapped => SourceKind::Mapped,
        SourceChoice::Ring => SourceKind::Ring,
        SourceChoice::Retained => SourceKind::Retained,
        SourceChoice::Staged => SourceKind::Staged,
    };
    if !has_files && !matches!(kind, SourceKind::Cpu | SourceKind::Staged) {
        let reason = "the component's tensors lie in host memory, not in a file".to_string();
        return Err(Error::Unsupported { what: format!("source {:?}", kind.name()), reason });
    }
    let registered = config.host.registered_bytes;
    let unused = |what: &str| Err(Error::invalid(what, format!("it is given, but the source is {:?}", kind.name())));
    if retains && kind != SourceKind::Retained {
        return unused("retained storage");
    }
    if registered > 0 && matches!(kind, SourceKind::Cpu | SourceKind::Staged) {
        return unused("a ceiling of registered bytes");
    }
    let timing = config.host.registration_timing;
    if timing != RegistrationTiming::Auto && kind != SourceKind::Mapped {
        return unused("a time of registration");
    }
    if kind == SourceKind::Mapped && registered > 0 && !registered.is_multiple_of(REGISTRATION_SEGMENT_BYTES) {
        let what = "registered bytes of a mapped file, in whole segments";
        return Err(Error::refused("registered_not_whole", what, registered, REGISTRATION_SEGMENT_BYTES, "bytes"));
    }
    if kind == SourceKind::Staged {
        if component.tensors.iter().any(|tensor| !tensor.is_backed()) {
            let reason = "bytes that are only counted cannot be copied into slots".to_string();
            return Err(Error::Unsupported { what: format!("source {:?}", kind.name()), reason });
        }
        let staging = Some(staging_shape(&config.host)?);
        return Ok(SourcePlan { kind, ring: None, retained: None, staging, timing: RegistrationTiming::AtAttach });
    }
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as u64;
    let ring = ring_shape(&config.host, processors);
    let timing = match kind {
        SourceKind::Mapped => cold_start(facts, units, ring.as_ref().ok()).settle(timing),
        _ => RegistrationTiming::AtAttach,
    };
    if !kind.is_streamed() && registered == 0 && !timing.is_beside_passes() {
        return Ok(SourcePlan { kind, ring: None, retained: None, staging: None, timing });
    }
    let ring = ring?;
    let retained = if kind.is_streamed() { retained_shape(&config.host, &ring)? } else { None };
    if kind == SourceKind::Retained && retained.is_none() {
        let what = "source \"retained\" without a ceiling of retained storage";
        return Err(Error::refused("retained_without_ceiling", what, 0, 1, "bytes"));
    }
    Ok(SourcePlan { kind, ring: Some(ring), retained, staging: None, timing })
}

/// What decides when a mapped source is registered.
fn cold_start(facts: &DeviceFacts, units: &Units, ring: Option<&RingShape>) -> ColdStart {
    let in_file = |parameter: &&Parameter| matches!(parameter.source, ParameterSource::File { .. });
    let parameters = units.units.iter().flat_map(|unit| &unit.parameters).filter(in_file);
    ColdStart {
        can_register: facts.read_only_registration,
        takes_time: facts.registration_takes_time,
        bytes: parameters.fold(0, |sum, parameter| sum.saturating_add(parameter.bytes)),
        readers: ring.map(|ring| ring.readers),
    }
}

/// Opens what the plan describes.
fn open_bringers(
    component: &Component,
    config: &OffloadConfig,
    plan: SourcePlan,
    parts: &[PartPlan],
    upload: StreamId,
) -> Result<Bringers> {
    let supply = open_supply(component, config, plan, parts, upload)?;
    let Some(shape) = plan.staging else { return Ok(Bringers { supply, staged: None }) };
    let (driver, budget, limit) = (Arc::clone(&config.driver), Arc::clone(&config.host_budget), config.host.process_limit_bytes);
    let slots = HostRing::open(Arc::clone(&driver), budget, shape, limit)?;
    let files = component.checkpoint.as_ref().map(|checkpoint| Arc::clone(checkpoint.files())).unwrap_or_default();
    let staged = Staged::new(driver, Arc::clone(&config.clock), upload, slots, files);
    Ok(Bringers { supply, staged: Some(Mutex::new(staged)) })
}

/// Opens the supply that the plan describes; `None` where nothing is read by threads of the source.
fn open_supply(
    component: &Component,
    config: &OffloadConfig,
    plan: SourcePlan,
    parts: &[PartPlan],
    upload: StreamId,
) -> Result<Option<Mutex<Supply>>> {
    let (Some(shape), Some(checkpoint)) = (plan.ring, &component.checkpoint) else { return Ok(None) };
    let (driver, budget, limit) = (&config.driver, &config.host_budget, config.host.process_limit_bytes);
    let mut ring = HostRing::open(Arc::clone(driver), Arc::clone(budget), shape, limit)?;
    let files = Arc::clone(checkpoint.files());
    let retained = plan.retained.map(|shape| {
        let lengths = files.iter().map(|file| file.identity().bytes).collect();
        let readings = (Arc::clone(&config.host_readings), config.host.headroom_bytes);
        let streamed = streamed_windows(parts, shape.segment_bytes);
        Retained::new(Arc::clone(driver), (Arc::clone(budget), limit), readings, shape, lengths, &streamed)
    });
    let readers = SourceReaders::start(files, shape.readers).map_err(|error| {
        let _ = ring.release();
        Error::io("start a thread that reads", checkpoint.path(), error)
    })?;
    let (driver, clock) = (Arc::clone(driver), Arc::clone(&config.clock));
    Ok(Some(Mutex::new(Supply::new(driver, clock, upload, ring, readers, retained))))
}

/// The same; where the ring was nobody's wish and cannot be had, everything is registered at attach instead.
pub(super) fn open_bringers_or_do_without(
    component: &Component,
    config: &OffloadConfig,
    plan: SourcePlan,
    parts: &[PartPlan],
    upload: StreamId,
) -> Result<(SourcePlan, Bringers)> {
    match (open_bringers(component, config, plan, parts, upload), plan.without_ring(config)) {
        (Err(_), Some(plan)) => Ok((plan, Bringers::default())),
        (opened, _) => opened.map(|bringers| (plan, bringers)),
    }
}

/// Locks a supply, or staging slots.
pub(crate) fn lock<T>(bringer: &Mutex<T>) -> MutexGuard<'_, T> {
    bringer.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives back what was opened; every copy must have been proven complete.
pub(super) fn release(supply: Option<&Mutex<Supply>>, staged: Option<&Mutex<Staged>>) -> DriverResult<()> {
    let supply = supply.map_or(Ok(()), |supply| lock(supply).release());
    supply.and(staged.map_or(Ok(()), |staged| lock(staged).release()))
}

impl Inner {
    /// Lets the supply read what will be uploaded next, as far as its memory goes. Waits for nothing; a failure is raised
    /// by the next call.
    pub(super) fn read_ahead(&self, state: &mut State) {
        let Some(supply) = &self.supply else { return };
        if state.poisoned.is_some() || state.deferred.is_some() {
            return;
        }
        let clock = &*self.clock;
        let start = clock.now();
        let mut batches: Vec<(usize, Arc<PartBatch>)> = Vec::new();
        let (expected, still_resident) = self.expected_reads(state);
        for part in expected {
            match self.batch(state, part) {
                Ok(batch) => batches.push((part, batch)),
                Err(error) => {
                    state.deferred = Some(error);
                    return;
                }
            }
        }
        let asked = clock.now();
        let mut supply = lock(supply);
        if supply.retained().is_none() {
            self.counters.resident_skips.add(still_resident);
        }
        let before = supply.prepared();
        let told = supply.expect(batches.iter().map(|(part, batch)| (*part, &**batch)));
        // Mostly nothing is new: only what was prepared is a preparation.
        if told.is_err() || supply.prepared() > before {
            self.counters.bridge.source_prepare_total.add(clock, asked);
            self.counters.source_prepare.add(clock, start);
        }
        drop(supply);
        if let Err(error) = told {
            state.deferred = Some(error);
        }
    }

    /// Parts that will be uploaded next and are not on their way, in their order, a ring's worth of bytes. Before an order
    /// is learned, the order of the component is the guess, until it is found wrong. Beside them, the tensors that would have
    /// to be read and were passed over for the first time because the arena still holds their last upload.
    fn expected_reads(&self, state: &mut State) -> (Vec<usize>, u64) {
        let learned = (0..).map_while(|later| state.order.ahead(later));
        let guess = (state.order.passes() == 0 && !state.guess_is_wrong).then_some(state.order.latest()).flatten();
        let guessed = guess.into_iter().flat_map(|latest| latest + 1..self.parts.len());
        let looked = &state.looked_ahead;
        let looked_to = if looked.mismatches == state.order.mismatches() { looked.requests } else { 0 };
        let mut request = state.order.requests();
        let (mut parts, mut bytes, mut still_resident) = (Vec::new(), 0u64, 0u64);
        for part in learned.chain(guessed) {
            let Some(plan) = self.parts.get(part) else { break };
            let in_arena = self.is_in_arena(state, part);
            let is_there = in_arena || state.stream.find(part).is_some() || parts.contains(&part);
            if !is_there {
                if bytes >= self.rules.read_ahead_bytes || parts.len() as u64 >= MAX_AHEAD_PARTS {
                    break;
                }
                bytes = bytes.saturating_add(plan.payload_bytes);
                parts.push(part);
            }
            request += 1;
            if in_arena && request > looked_to {
                still_resident += state.batches.get(part).and_then(Option::as_ref).map_or(0, |batch| batch.starts().len() as u64);
            }
        }
        state.looked_ahead = LookedAhead { requests: request.max(looked_to), mismatches: state.order.mismatches() };
        (parts, still_resident)
    }

    /// Closes what the supply has proven complete.
    pub(super) fn collect_supply(&self) -> Result<()> {
        self.supply.as_ref().map_or(Ok(()), |supply| lock(supply).collect(true))
    }
}

impl SourcePlan {
    /// The plan without a ring, where the ring was nobody's wish; `None` where it was.
    pub(super) fn without_ring(&self, config: &OffloadConfig) -> Option<SourcePlan> {
        let chosen = config.host.registration_timing == RegistrationTiming::Auto && config.host.registered_bytes == 0;
        let can_go = self.kind == SourceKind::Mapped && self.ring.is_some() && chosen;
        can_go.then_some(SourcePlan { ring: None, timing: RegistrationTiming::AtAttach, ..*self })
    }

    /// Bytes that may be read ahead of uploads.
    pub(super) fn read_ahead_bytes(&self) -> u64 {
        self.ring.map_or(0, |ring| ring.bytes())
    }
}
