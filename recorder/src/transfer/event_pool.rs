//! Events for completion proofs, used again and again.

use crate::driver::{Driver, DriverResult, EventId};
use crate::limits::MAX_IDLE_EVENTS;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the pool holds and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventLevels {
    /// Created because the pool was empty.
    pub created: u64,
    /// Taken from the pool.
    pub reused: u64,
    /// Idle now.
    pub idle: u64,
    /// Taken and not given back.
    pub owned: u64,
}

/// A pool of events without timing.
#[derive(Debug)]
pub struct EventPool {
    driver: Arc<dyn Driver>,
    idle: Vec<EventId>,
    /// Events that somebody waits for without owning them: how many do, and whether it was given back meanwhile.
    awaited: BTreeMap<EventId, (u64, bool)>,
    created: u64,
    reused: u64,
    owned: u64,
}

impl EventPool {
    /// An empty pool.
    pub fn new(driver: Arc<dyn Driver>) -> EventPool {
        EventPool { driver, idle: Vec::new(), awaited: BTreeMap::new(), created: 0, reused: 0, owned: 0 }
    }

    /// An idle event, or a new one.
    ///
    /// # Errors
    /// The driver's.
    pub fn take(&mut self) -> DriverResult<EventId> {
        let event = match self.idle.pop() {
            Some(event) => {
                self.reused += 1;
                event
            }
            None => {
                let event = self.driver.event_create(false)?;
                self.created += 1;
                event
            }
        };
        self.owned += 1;
        Ok(event)
    }

    /// Takes an event back whose completion was proven, or that was never recorded.
    ///
    /// # Errors
    /// The driver's, when the pool is full and the event is destroyed instead.
    pub fn give(&mut self, event: EventId) -> DriverResult<()> {
        self.owned = self.owned.saturating_sub(1);
        if let Some((_, given)) = self.awaited.get_mut(&event) {
            *given = true;
            return Ok(());
        }
        self.keep(event)
    }

    fn keep(&mut self, event: EventId) -> DriverResult<()> {
        if self.idle.len() < MAX_IDLE_EVENTS {
            self.idle.push(event);
            return Ok(());
        }
        self.driver.event_destroy(event)
    }

    /// Somebody begins to wait for an event without owning it: until the wait ends it is neither used again nor destroyed.
    pub fn begin_wait(&mut self, event: EventId) {
        self.awaited.entry(event).or_default().0 += 1;
    }

    /// A wait for an event has ended.
    ///
    /// # Errors
    /// The driver's, when the pool is full and the event is destroyed instead.
    pub fn end_wait(&mut self, event: EventId) -> DriverResult<()> {
        let Some((waits, given)) = self.awaited.get_mut(&event) else { return Ok(()) };
        *waits = waits.saturating_sub(1);
        if *waits > 0 {
            return Ok(());
        }
        let given = *given;
        self.awaited.remove(&event);
        if given { self.keep(event) } else { Ok(()) }
    }

    fn parked(&self) -> impl Iterator<Item = EventId> {
        self.awaited.iter().filter(|(_, (_, given))| *given).map(|(event, _)| *event)
    }

    /// Levels and counters.
    pub fn levels(&self) -> EventLevels {
        EventLevels {
            created: self.created,
            reused: self.reused,
            idle: (self.idle.len() + self.parked().count()) as u64,
            owned: self.owned,
        }
    }

    /// Destroys the idle events.
    ///
    /// # Errors
    /// The first driver error; the rest is destroyed all the same.
    pub fn close(&mut self) -> DriverResult<()> {
        let mut first = Ok(());
        let parked: Vec<EventId> = self.parked().collect();
        self.awaited.clear();
        for event in self.idle.drain(..).chain(parked) {
            let destroyed = self.driver.event_destroy(event);
            first = first.and(destroyed);
        }
        first
    }
}
