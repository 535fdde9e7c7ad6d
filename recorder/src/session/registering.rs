//! Registering a mapped source: which segments, in which order, and when.
//!
//! At attach everything is registered before the first pass. Beside passes, the ring serves a pass from its begin while
//! segments are registered from its end, so that both do not go for the same bytes; segments that only residents need
//! are left out, since residents are read once. What is registered is taken over inside the session's lock, without
//! waiting for the driver, and used by the next upload that is not on its way already.

use super::state::{Inner, Offload, PartPlan, State};
use super::supply::{SourcePlan, lock};
use crate::config::{OffloadConfig, RegistrationTiming};
use crate::limits::{REGISTRATION_PIECE_BYTES, REGISTRATION_SEGMENT_BYTES};
use crate::memory::{MappedSegment, Registrar, Registrations, SourceKind, Sources, Window};
use crate::plan::{ParameterSource, is_spread};
use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// How far registering a mapped source has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RegistrationProgress {
    /// When segments are registered; `None` where nothing is mapped.
    pub timing: Option<RegistrationTiming>,
    /// Bytes that copies take directly.
    pub registered_bytes: u64,
    /// Bytes that are still to be registered.
    pub waiting_bytes: u64,
    /// Whether the limit of the process or the driver declined to register more.
    pub refused: bool,
}

/// Windows that every pass reads, in the order of the parts.
pub(super) fn streamed_windows(parts: &[PartPlan], segment_bytes: u64) -> Vec<Window> {
    let mut windows = Vec::new();
    for tensor in parts.iter().filter(|part| !part.resident).flat_map(|part| &part.batch).filter(|tensor| tensor.bytes > 0) {
        let ParameterSource::File { file, offset } = tensor.source else { continue };
        let last = offset.saturating_add(tensor.bytes - 1) / segment_bytes;
        windows.extend((offset / segment_bytes..=last).map(|index| Window { file, index }));
    }
    let mut seen = BTreeSet::new();
    windows.retain(|window| seen.insert(*window));
    windows
}

/// Segments of a mapped file that a ceiling leaves room for; `None` without a ceiling.
fn under_ceiling(config: &OffloadConfig, streamed: &[Window]) -> Option<Vec<Window>> {
    let chosen = config.host.registered_bytes.checked_div(REGISTRATION_SEGMENT_BYTES).filter(|chosen| *chosen > 0)?;
    let count = streamed.len() as u64;
    // Spread evenly, so that direct copies and those through the ring go on side by side.
    let picked = streamed.iter().zip(0..).filter(|(_, index)| is_spread(*index, chosen, count));
    Some(picked.map(|(window, _)| *window).collect())
}

/// The segments of the managed stretch of each file.
fn all_managed(managed: &[Range<u64>]) -> Vec<Window> {
    let managed = managed.iter().enumerate().filter(|(_, range)| !range.is_empty());
    let windows = managed.flat_map(|(file, range)| {
        let indexes = range.start / REGISTRATION_SEGMENT_BYTES..range.end.div_ceil(REGISTRATION_SEGMENT_BYTES);
        indexes.map(move |index| Window { file, index })
    });
    windows.collect()
}

/// What is registered, and who registers more. With [`RegistrationTiming::AtAttach`] all of it is registered here, as far
/// as its ceiling, the process's limit and the device allow; nothing is otherwise.
pub(super) fn register_mapped(
    config: &OffloadConfig,
    (sources, managed): (&Sources, Vec<Range<u64>>),
    parts: &[PartPlan],
    source: &SourcePlan,
) -> (Registrations, Option<Arc<Registrar>>) {
    let (driver, budget) = (&config.driver, &config.host_budget);
    let is_mapped = source.kind == SourceKind::Mapped;
    let through_ring = is_mapped && source.ring.is_some();
    let mut registrations = Registrations::new(Arc::clone(driver), Arc::clone(budget), through_ring);
    if !is_mapped {
        if source.kind == SourceKind::Cpu && config.pin_source_weights {
            let streamed = parts.iter().filter(|part| !part.resident).flat_map(|part| &part.batch);
            registrations.pin(sources.pinnable(streamed.map(|tensor| tensor.source)), config.host.process_limit_bytes);
        }
        return (registrations, None);
    }
    let streamed = streamed_windows(parts, REGISTRATION_SEGMENT_BYTES);
    let beside = source.timing.is_beside_passes();
    let windows = match under_ceiling(config, &streamed) {
        Some(chosen) if beside => chosen.into_iter().rev().collect(),
        Some(chosen) => chosen,
        None if beside => streamed.into_iter().rev().collect(),
        None => all_managed(&managed),
    };
    let segments: Vec<MappedSegment> = windows.into_iter().filter_map(|window| sources.mapped_segment(window)).collect();
    let books = (Arc::clone(budget), config.host.process_limit_bytes);
    let piece_bytes = if beside { REGISTRATION_PIECE_BYTES } else { REGISTRATION_SEGMENT_BYTES };
    let registrar = Registrar::new(Arc::clone(driver), Arc::clone(&config.clock), books, segments, piece_bytes);
    if !driver.facts().read_only_registration {
        registrar.decline("the device reads no memory that is mapped read-only");
    }
    if !beside {
        while registrar.step() {}
        registrar.take().into_iter().for_each(|segment| registrations.adopt(segment));
    }
    (registrations, Some(Arc::new(registrar)))
}

impl Inner {
    /// Starts what registers in the background, once a pass is over: the first one has the link and the readers to itself.
    pub(super) fn start_registering(&self) {
        if let Some(registrar) = self.registrar.as_ref().filter(|_| self.timing == RegistrationTiming::Background) {
            registrar.start();
        }
    }

    /// Takes over what was registered since the last time; copies that were planned through the ring are planned anew.
    pub(super) fn take_registered(&self, state: &mut State) {
        let Some(registrar) = &self.registrar else { return };
        for segment in registrar.take() {
            let (window, whole) = (segment.window, segment.whole);
            state.registrations.adopt(segment);
            let batches = state.batches.iter().enumerate().filter_map(|(part, batch)| Some((part, batch.as_ref()?)));
            let outdated = batches.filter(|(_, batch)| {
                whole && batch.extents().iter().any(|extent| window.touches(extent, REGISTRATION_SEGMENT_BYTES))
            });
            state.outdated.extend(outdated.map(|(part, _)| part));
        }
    }

    /// Drops a part's batch where more of its bytes are registered by now, unless they are on their way through the ring.
    pub(super) fn renew_batch(&self, state: &mut State, part: usize) {
        let on_its_way = || self.supply.as_ref().is_some_and(|supply| lock(supply).has_queued(part));
        if !state.outdated.contains(&part) || on_its_way() {
            return;
        }
        state.outdated.remove(&part);
        if let Some(batch) = state.batches.get_mut(part) {
            *batch = None;
        }
    }

    /// Ends registering and takes over what was registered; false when a registration is still under way after `at_most`.
    /// What that one registers is given back by itself.
    pub(super) fn end_registering(&self, at_most: Duration) -> bool {
        let Some(registrar) = &self.registrar else { return true };
        let ended = registrar.end(at_most);
        let mut state = self.lock();
        ended.rest.into_iter().for_each(|segment| state.registrations.adopt(segment));
        ended.quiet
    }

    /// Whether everything that is to be registered is, so that one pass is like the next.
    pub(super) fn has_registered(&self) -> bool {
        self.registrar.as_ref().is_none_or(|registrar| registrar.levels().waiting_bytes == 0)
    }
}

impl Offload {
    /// How far registering a mapped source has come; nothing for other sources.
    pub fn registration(&self) -> RegistrationProgress {
        let inner = &self.inner;
        let mut state = inner.lock();
        inner.take_registered(&mut state);
        let levels = inner.registrar.as_ref().map(|registrar| registrar.levels()).unwrap_or_default();
        RegistrationProgress {
            timing: inner.registrar.as_ref().and(Some(inner.timing)),
            registered_bytes: state.registrations.registered_bytes(),
            waiting_bytes: levels.waiting_bytes,
            refused: levels.refused,
        }
    }

    /// Registers the next piece of a mapped source; whether more is left. For hosts that set
    /// [`RegistrationTiming::ByHost`], and nothing otherwise: until a segment is registered, its bytes pass through the ring. No
    /// pass is timed while some are left.
    ///
    /// # Cost
    /// One registration of at most 16 MiB, outside the session's lock; reads from the file what the page cache lacks.
    pub fn register_next(&self) -> bool {
        let registrar = self.inner.registrar.as_ref().filter(|_| self.inner.timing == RegistrationTiming::ByHost);
        registrar.is_some_and(|registrar| registrar.step())
    }

    /// Blocks until nothing is left to register in the background, at most for the given time; whether nothing is. Starts it
    /// where no pass has ended yet.
    ///
    /// # Cost
    /// Waits for registrations. Passes of other threads go on.
    pub fn wait_registered(&self, at_most: Duration) -> bool {
        self.inner.start_registering();
        self.inner.registrar.as_ref().is_none_or(|registrar| registrar.wait(at_most))
    }
}
