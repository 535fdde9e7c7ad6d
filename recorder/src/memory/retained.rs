//! Retained storage: file windows kept in host memory, committed and registered under separate ceilings.
//!
//! A window is admitted once and filled once; contents stay until pressure takes them while nobody uses them.
//! Registration comes and goes without touching contents. Who asks decides when to wait; nothing here does.

use super::{Extent, HostBudget, HostReadings, HostTotals, Pressure};
use crate::driver::{
    BlockWriter, Driver, DriverError, DriverErrorKind, DriverResult, HostAccess, HostBlock, HostBytes, RegistrationId,
};
use crate::meter::{Clock, Counter, HostScope};
use crate::plan::{RegistrationPolicy, RetainedShape, is_spread};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Names a window: a file and its number inside, in segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Window {
    /// Which file.
    pub file: usize,
    /// Which of its windows.
    pub index: u64,
}

impl Window {
    /// Whether a stretch of a file lies partly or wholly in the window, which is `segment_bytes` long.
    pub fn touches(&self, extent: &Extent, segment_bytes: u64) -> bool {
        let start = self.index.saturating_mul(segment_bytes);
        let before_end = extent.offset < start.saturating_add(segment_bytes);
        self.file == extent.file && before_end && extent.offset.saturating_add(extent.bytes) > start && extent.bytes > 0
    }
}

/// What an admission came to.
#[derive(Debug)]
pub enum Request {
    /// The window is held.
    Hit,
    /// The window was admitted and is to be filled with so many bytes of its file from an offset on.
    Miss {
        /// The right to fill it.
        writer: BlockWriter,
        /// First byte in the file.
        offset: u64,
    },
    /// It is not held and will not be.
    Bypass,
}

/// Whether a segment can be read by the device directly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direct {
    /// It is registered.
    Yes,
    /// It is not going to be.
    No,
    /// It would be, once this window's copies have ended.
    After(Window),
}

#[derive(Debug)]
struct Segment {
    block: Arc<HostBlock>,
    /// Valid contents, less than the segment at the end of a file.
    bytes: u64,
    full: bool,
    registration: Option<RegistrationId>,
    /// Copies in flight, and orders that read it.
    holds: u64,
    turn: u64,
}

/// What only grows.
#[derive(Debug, Default)]
pub struct RetainedBook {
    /// Requests for windows that were held.
    pub hits: Counter,
    /// Requests that had to fill.
    pub misses: Counter,
    /// Requests that were declined.
    pub bypasses: Counter,
    /// Requests declined while growth was suspended.
    pub blocked_requests: Counter,
    /// Segments given up because of pressure.
    pub pressure_evictions: Counter,
    /// Their bytes.
    pub pressure_released_bytes: Counter,
    /// Segments registered.
    pub registrations: Counter,
    /// Segments that gave their registration to another.
    pub unregistrations: Counter,
    /// Host time of registering, failures included.
    pub registration: HostScope,
    /// Host time of taking registrations back for reuse.
    pub unregistration: HostScope,
}

/// Levels and limits, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RetainedLevels {
    /// Allocated, in whole segments.
    pub committed_bytes: u64,
    /// The most ever allocated.
    pub peak_committed_bytes: u64,
    /// Valid contents.
    pub retained_bytes: u64,
    /// Registered.
    pub registered_bytes: u64,
    /// The most ever registered.
    pub peak_registered_bytes: u64,
}

/// The storage of one component.
#[derive(Debug)]
pub struct Retained {
    driver: Arc<dyn Driver>,
    budget: Arc<HostBudget>,
    readings: Arc<dyn HostReadings>,
    shape: RetainedShape,
    limit_bytes: u64,
    file_bytes: Vec<u64>,
    segments: BTreeMap<Window, Segment>,
    /// Windows that every pass reads and that are to be held.
    wanted: BTreeSet<Window>,
    /// Of these, the ones that a stable subset registers.
    subset: BTreeSet<Window>,
    levels: RetainedLevels,
    pressure: Pressure,
    turns: u64,
    refused: Option<String>,
    book: RetainedBook,
}

impl Retained {
    /// Empty storage. `streamed` are the windows that every pass reads, in their order; where not all of them fit, evenly
    /// spread ones are held, and of those evenly spread ones are registered, so that copies from files, copies through
    /// the ring and direct ones go on side by side.
    pub fn new(
        driver: Arc<dyn Driver>,
        (budget, limit_bytes): (Arc<HostBudget>, u64),
        (readings, headroom_bytes): (Arc<dyn HostReadings>, u64),
        shape: RetainedShape,
        file_bytes: Vec<u64>,
        streamed: &[Window],
    ) -> Retained {
        let pick = |from: &[Window], chosen: u64| -> Vec<Window> {
            let count = from.len() as u64;
            from.iter().zip(0..).filter(|(_, index)| is_spread(*index, chosen, count)).map(|(window, _)| *window).collect()
        };
        let wanted = pick(streamed, shape.segments);
        let subset = pick(&wanted, shape.registered_segments).into_iter().collect();
        Retained {
            driver,
            budget,
            readings,
            shape,
            limit_bytes,
            file_bytes,
            segments: BTreeMap::new(),
            wanted: wanted.into_iter().collect(),
            subset,
            levels: RetainedLevels::default(),
            pressure: Pressure::new(headroom_bytes),
            turns: 0,
            refused: None,
            book: RetainedBook::default(),
        }
    }

    /// Its geometry.
    pub fn shape(&self) -> RetainedShape {
        self.shape
    }

    /// What the process may hold registered, in bytes.
    pub fn process_limit_bytes(&self) -> u64 {
        self.limit_bytes
    }

    /// What the sources of the process hold.
    pub fn totals(&self) -> HostTotals {
        self.budget.totals()
    }

    /// What only grows.
    pub fn book(&self) -> &RetainedBook {
        &self.book
    }

    /// Pressure and what was observed of it.
    pub fn pressure(&self) -> &Pressure {
        &self.pressure
    }

    /// Levels.
    pub fn levels(&self) -> RetainedLevels {
        let retained_bytes = self.segments.values().filter(|segment| segment.full).map(|segment| segment.bytes).sum();
        RetainedLevels { retained_bytes, ..self.levels }
    }

    /// Why the driver declined a registration, where it did.
    pub fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// The window of a file's byte.
    pub fn window_of(&self, file: usize, offset: u64) -> Window {
        Window { file, index: offset / self.shape.segment_bytes }
    }

    /// Whether a window is held.
    pub fn holds(&self, window: Window) -> bool {
        self.segments.contains_key(&window)
    }

    /// Whether a window would be admitted as far as room goes.
    pub fn would_hold(&self, window: Window) -> bool {
        !self.pressure.suspended() && self.has_room(window)
    }

    /// Whether copies of a window are expected to be direct once it is held.
    pub fn expects_direct(&self, window: Window) -> bool {
        match self.segments.get(&window) {
            Some(segment) if segment.registration.is_some() => true,
            _ if self.refused.is_some() => false,
            _ => self.shape.registration == RegistrationPolicy::Recycle || self.subset.contains(&window),
        }
    }

    /// Asks for a window; admits it where there is room.
    ///
    /// # Errors
    /// When memory cannot be mapped.
    pub fn request(&mut self, window: Window) -> DriverResult<Request> {
        self.turns += 1;
        if let Some(segment) = self.segments.get_mut(&window) {
            segment.turn = self.turns;
            self.book.hits.add(1);
            return Ok(Request::Hit);
        }
        let offset = window.index * self.shape.segment_bytes;
        let bytes =
            self.file_bytes.get(window.file).map_or(0, |length| length.saturating_sub(offset)).min(self.shape.segment_bytes);
        if bytes == 0 || !self.has_room(window) || !self.may_grow() {
            self.book.bypasses.add(1);
            return Ok(Request::Bypass);
        }
        let no_memory = |error: std::io::Error| DriverError::new("host_allocate", DriverErrorKind::System, error);
        let block = HostBlock::map(self.shape.segment_bytes).map_err(no_memory)?;
        let Some(writer) = block.writer() else { return Ok(Request::Bypass) };
        let (writer, past_the_end) = writer.split_at(bytes);
        drop(past_the_end);
        let segment = Segment { block, bytes, full: false, registration: None, holds: 0, turn: self.turns };
        self.segments.insert(window, segment);
        self.levels.committed_bytes += self.shape.segment_bytes;
        self.levels.peak_committed_bytes = self.levels.peak_committed_bytes.max(self.levels.committed_bytes);
        self.budget.enter_committed(self.shape.segment_bytes);
        self.book.misses.add(1);
        Ok(Request::Miss { writer, offset })
    }

    /// Windows that every pass reads come first; others get what is left.
    fn has_room(&self, window: Window) -> bool {
        let held = self.segments.len() as u64;
        if self.wanted.contains(&window) {
            return held < self.shape.segments;
        }
        let reserved = self.wanted.iter().filter(|wanted| !self.segments.contains_key(wanted)).count() as u64;
        held + reserved < self.shape.segments
    }

    /// Polls the host; gives storage back when pressure begins.
    fn may_grow(&mut self) -> bool {
        let (committed, registered) = (self.levels.committed_bytes, self.levels.registered_bytes);
        let excess = self.pressure.poll(self.readings.read(), self.shape.segment_bytes, committed, registered);
        if excess > 0 {
            self.reclaim(excess);
        }
        if self.pressure.suspended() {
            self.book.blocked_requests.add(1);
        }
        !self.pressure.suspended()
    }

    /// Drops contents that nobody uses, the longest unused first, until so many bytes are given back.
    fn reclaim(&mut self, bytes: u64) {
        let mut oldest: Vec<(u64, Window)> = self.segments.iter().map(|(window, segment)| (segment.turn, *window)).collect();
        oldest.sort_unstable();
        let mut given_back = 0;
        for (_, window) in oldest {
            if given_back >= bytes {
                return;
            }
            let in_use = self.segments.get(&window).is_none_or(|segment| segment.holds > 0 || !segment.full);
            if in_use {
                self.pressure.note_blocked();
                continue;
            }
            if self.unregister(window).is_err() {
                self.pressure.note_failed();
                continue;
            }
            self.forget(window);
            given_back += self.shape.segment_bytes;
            self.pressure.note_reclaimed(self.shape.segment_bytes);
            self.book.pressure_evictions.add(1);
            self.book.pressure_released_bytes.add(self.shape.segment_bytes);
        }
    }

    /// Gives up a window whose contents did not arrive; nobody may use it.
    pub fn forget(&mut self, window: Window) {
        if self.segments.remove(&window).is_some() {
            self.levels.committed_bytes -= self.shape.segment_bytes;
            self.budget.leave_committed(self.shape.segment_bytes);
        }
    }

    /// Notes that a window's contents are there.
    pub fn note_full(&mut self, window: Window) {
        if let Some(segment) = self.segments.get_mut(&window) {
            segment.full = true;
        }
    }

    /// The memory of a window that is held.
    pub fn block(&self, window: Window) -> Option<Arc<HostBlock>> {
        self.segments.get(&window).map(|segment| Arc::clone(&segment.block))
    }

    /// A lease on contents.
    ///
    /// # Errors
    /// When they are not there or lie outside.
    pub fn lease(&self, window: Window, from: u64, bytes: u64) -> DriverResult<HostBytes> {
        let segment =
            self.segments.get(&window).filter(|segment| from.checked_add(bytes).is_some_and(|end| end <= segment.bytes));
        let lease = segment.and_then(|segment| segment.block.lease(from, bytes));
        lease.ok_or_else(|| {
            DriverError::new("retained_lease", DriverErrorKind::NotReady, format!("window {window:?} is not readable"))
        })
    }

    /// Keeps contents and registration of a window while something uses them.
    pub fn hold(&mut self, window: Window) {
        if let Some(segment) = self.segments.get_mut(&window) {
            segment.holds += 1;
        }
    }

    /// Ends a hold.
    pub fn let_go(&mut self, window: Window) {
        if let Some(segment) = self.segments.get_mut(&window) {
            segment.holds = segment.holds.saturating_sub(1);
        }
    }

    /// Makes a window readable by the device where the policy and the ceilings allow it. A refusal is no error.
    ///
    /// # Errors
    /// The driver's, when a registration cannot be taken back for reuse.
    pub fn make_direct(&mut self, window: Window, clock: &dyn Clock) -> DriverResult<Direct> {
        match self.segments.get(&window) {
            Some(segment) if segment.registration.is_some() => return Ok(Direct::Yes),
            Some(_) if self.expects_direct(window) => {}
            _ => return Ok(Direct::No),
        }
        let segment = self.shape.segment_bytes;
        let after = self.levels.registered_bytes + segment;
        let full = after > self.shape.registered_segments * segment;
        if full || self.budget.enter_registered(segment, self.limit_bytes).is_err() {
            let Some((victim, free)) = self.oldest_registration(window) else {
                self.subset.remove(&window);
                return Ok(Direct::No);
            };
            if !free {
                return Ok(Direct::After(victim));
            }
            let start = clock.now();
            let ended = self.unregister(victim);
            self.book.unregistrations.add(u64::from(ended.is_ok()));
            self.book.unregistration.add(clock, start);
            ended?;
            if self.budget.enter_registered(segment, self.limit_bytes).is_err() {
                return Ok(Direct::No);
            }
        }
        let start = clock.now();
        let registered = self.register(window);
        self.book.registration.add(clock, start);
        if let Err(error) = registered {
            self.budget.leave_registered(segment);
            let held = self.levels.registered_bytes;
            self.refused = Some(format!("{error}; {segment} bytes were asked for, {held} are registered"));
            return Ok(Direct::No);
        }
        Ok(Direct::Yes)
    }

    fn register(&mut self, window: Window) -> DriverResult<()> {
        let Some(segment) = self.segments.get_mut(&window) else { return Ok(()) };
        let busy = || DriverError::new("host_register", DriverErrorKind::NotReady, format!("window {window:?} is being filled"));
        // All of the segment: a registration costs by pages, and its place is as large.
        let lease = segment.block.lease(0, segment.block.bytes()).ok_or_else(busy)?;
        segment.registration = Some(self.driver.host_register(&lease, HostAccess::ReadWrite)?);
        self.levels.registered_bytes += self.shape.segment_bytes;
        self.levels.peak_registered_bytes = self.levels.peak_registered_bytes.max(self.levels.registered_bytes);
        self.book.registrations.add(1);
        Ok(())
    }

    /// What recycling takes a registration from: the registered window whose use lies longest ago, one that no copy reads if there is one; and whether none does.
    fn oldest_registration(&self, wanted: Window) -> Option<(Window, bool)> {
        if self.shape.registration != RegistrationPolicy::Recycle {
            return None;
        }
        let registered = self.segments.iter().filter(|(window, segment)| segment.registration.is_some() && **window != wanted);
        registered
            .min_by_key(|(_, segment)| (segment.holds > 0, segment.turn))
            .map(|(window, segment)| (*window, segment.holds == 0))
    }

    fn unregister(&mut self, window: Window) -> DriverResult<()> {
        let Some(segment) = self.segments.get_mut(&window) else { return Ok(()) };
        let Some(registration) = segment.registration else { return Ok(()) };
        self.driver.host_unregister(registration)?;
        segment.registration = None;
        self.levels.registered_bytes -= self.shape.segment_bytes;
        self.budget.leave_registered(self.shape.segment_bytes);
        Ok(())
    }

    /// Ends every registration and gives all storage back; no copy may still read it.
    ///
    /// # Errors
    /// The first driver error; what could not be ended stays counted.
    pub fn release(&mut self) -> DriverResult<()> {
        let mut first = Ok(());
        for window in self.segments.keys().copied().collect::<Vec<_>>() {
            let ended = self.unregister(window);
            if ended.is_ok() {
                self.forget(window);
            }
            first = first.and(ended);
        }
        first
    }
}
