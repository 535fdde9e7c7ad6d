//! Retained storage on the way of the bytes: who fills its windows, and which copies still read them.
//!
//! A window is owned from the order to fill it ahead of its use until its first use; a ticket stands for one direct copy
//! whose end is not proven.

use super::EventPool;
use super::SupplyBook;
use super::source_reader::{Purpose, ReadFrom, Reading, SourceReaders};
use crate::driver::{Driver, DriverResult, EventId};
use crate::error::Result;
use crate::limits::{FILL_PIECE_BYTES, MAX_SOURCE_WINDOWS};
use crate::memory::{Extent, Request, Retained, Window};
use crate::meter::Clock;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A direct copy whose end is not proven.
#[derive(Debug)]
pub(super) struct SourceTicket {
    pub(super) event: EventId,
    pub(super) window: Window,
}

/// Retained storage on the way of the bytes.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) retained: Retained,
    /// What fills the windows that are not known to be full.
    pub(super) filling: BTreeMap<Window, Reading>,
    /// Windows whose filling was ordered ahead of their use, oldest first.
    pub(super) owned: VecDeque<Window>,
    pub(super) peak_windows: u64,
    pub(super) window_limit: u64,
    pub(super) tickets: VecDeque<SourceTicket>,
    pub(super) events: EventPool,
}

/// Levels of the store that are no bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoreLevels {
    /// Direct copies whose end is not proven.
    pub live_tickets: u64,
    /// Events created.
    pub events_created: u64,
    /// Events used again.
    pub events_reused: u64,
    /// Events that copies own.
    pub owned_events: u64,
    /// Idle events.
    pub pooled_events: u64,
    /// Windows ordered ahead of use and not retired.
    pub owned_windows: u64,
    /// The most of them at a time.
    pub peak_windows: u64,
    /// The most there may be; zero before the first.
    pub window_limit: u64,
}

impl Store {
    /// Storage that `readers` threads fill.
    pub(super) fn new(driver: Arc<dyn Driver>, retained: Retained, readers: u64) -> Store {
        Store {
            filling: BTreeMap::new(),
            owned: VecDeque::new(),
            peak_windows: 0,
            window_limit: MAX_SOURCE_WINDOWS.min(readers).min(retained.shape().segments),
            tickets: VecDeque::new(),
            events: EventPool::new(driver),
            retained,
        }
    }

    /// Levels that are no bytes.
    pub(super) fn levels(&self) -> StoreLevels {
        let events = self.events.levels();
        StoreLevels {
            live_tickets: self.tickets.len() as u64,
            events_created: events.created,
            events_reused: events.reused,
            owned_events: events.owned,
            pooled_events: events.idle,
            owned_windows: self.owned.len() as u64,
            peak_windows: self.peak_windows,
            window_limit: if self.peak_windows > 0 { self.window_limit } else { 0 },
        }
    }

    /// Every rule of the books that does not hold, as one sentence each.
    pub(super) fn audit(&self) -> Vec<String> {
        let mut broken = Vec::new();
        let (shape, held) = (self.retained.shape(), self.retained.levels());
        let chain = [held.retained_bytes, held.committed_bytes, held.peak_committed_bytes, shape.bytes()];
        if !chain.is_sorted() {
            broken.push(format!("retained, committed, peak and capacity do not grow: {chain:?}"));
        }
        let limit = shape.registered_segments * shape.segment_bytes;
        let chain = [held.registered_bytes, held.peak_registered_bytes, limit, shape.bytes()];
        if !chain.is_sorted() || held.registered_bytes > held.committed_bytes {
            broken.push(format!("registered, peak, limit and capacity do not grow: {chain:?}"));
        }
        if self.owned.len() as u64 > self.window_limit || self.peak_windows > self.window_limit {
            broken.push(format!("{} windows are owned, the limit is {}", self.owned.len(), self.window_limit));
        }
        let seen = self.retained.pressure().observations();
        let causes = seen.ram_limited_entries + seen.commit_limited_entries + seen.both_limited_entries + seen.unknown_entries;
        if causes != seen.entries || seen.recoveries > seen.entries {
            broken.push(format!("{} entries of pressure, {causes} causes, {} recoveries", seen.entries, seen.recoveries));
        }
        broken
    }

    /// Asks for a window and orders its filling where it is new; whether it is held.
    pub(super) fn request(&mut self, window: Window, readers: &SourceReaders) -> Result<bool> {
        match self.retained.request(window)? {
            Request::Hit => Ok(true),
            Request::Bypass => Ok(false),
            Request::Miss { writer, offset } => {
                let from = ReadFrom::File { file: window.file, offset };
                self.filling.insert(window, readers.order(Purpose::Fill, &from, writer, FILL_PIECE_BYTES));
                Ok(true)
            }
        }
    }

    /// Waits until a window's contents are there.
    pub(super) fn ready(&mut self, window: Window) -> Result<()> {
        let Some(reading) = self.filling.remove(&window) else { return Ok(()) };
        self.owned.retain(|owned| *owned != window);
        match reading.wait() {
            Ok(()) => {
                self.retained.note_full(window);
                Ok(())
            }
            Err(failure) => {
                self.retained.forget(window);
                Err(failure.into())
            }
        }
    }

    /// Where a chunk's bytes lie in retained storage, and its window, held from now on; `None` where they do not.
    pub(super) fn read_from(&mut self, extent: Extent) -> Option<(ReadFrom, Window)> {
        let window = self.retained.window_of(extent.file, extent.offset);
        let block = self.retained.block(window)?;
        self.retained.hold(window);
        let filled = self.filling.get(&window).cloned().unwrap_or_else(Reading::done);
        let offset = extent.offset % self.retained.shape().segment_bytes;
        Some((ReadFrom::Block { block, offset, filled }, window))
    }

    /// Waits for the latest copy out of a window; false when none is known.
    pub(super) fn await_window(&self, window: Window, driver: &dyn Driver) -> DriverResult<bool> {
        let Some(latest) = self.tickets.iter().rev().find(|ticket| ticket.window == window) else { return Ok(false) };
        driver.event_synchronize(latest.event).map(|()| true)
    }

    /// Looks for finished tickets and closes them.
    pub(super) fn reap(&mut self, driver: &dyn Driver, clock: &dyn Clock, book: &SupplyBook) -> Result<()> {
        book.reap.time(clock, || self.close_passed(driver, clock, book))
    }

    /// Closes tickets from the oldest on while their events have been passed.
    pub(super) fn close_passed(&mut self, driver: &dyn Driver, clock: &dyn Clock, book: &SupplyBook) -> Result<()> {
        while let Some(ticket) = self.tickets.front() {
            if !driver.event_query(ticket.event)? {
                break;
            }
            book.close.time(clock, || -> DriverResult<()> {
                let Some(ticket) = self.tickets.pop_front() else { return Ok(()) };
                self.retained.let_go(ticket.window);
                book.event_retire.time(clock, || self.events.give(ticket.event))
            })?;
        }
        Ok(())
    }
}
