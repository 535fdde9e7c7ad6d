//! Events for completion proofs, used again and again.

use crate::driver::{Driver, DriverResult, EventId};
use crate::limits::MAX_IDLE_EVENTS;
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
    /// Given back while somebody waited for an event without owning it.
    parked: Vec<EventId>,
    waiters: u64,
    created: u64,
    reused: u64,
    owned: u64,
}

impl EventPool {
    /// An empty pool.
    pub fn new(driver: Arc<dyn Driver>) -> EventPool {
        EventPool { driver, idle: Vec::new(), parked: Vec::new(), waiters: 0, created: 0, reused: 0, owned: 0 }
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
        if self.waiters > 0 {
            self.parked.push(event);
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

    /// Somebody begins to wait for an event of the pool without owning it: until the wait ends, no event that is given back
    /// is used again or destroyed.
    pub fn begin_wait(&mut self) {
        self.waiters += 1;
    }

    /// A wait has ended.
    ///
    /// # Errors
    /// The driver's, when the pool is full and events are destroyed instead.
    pub fn end_wait(&mut self) -> DriverResult<()> {
        self.waiters = self.waiters.saturating_sub(1);
        if self.waiters > 0 {
            return Ok(());
        }
        let mut first = Ok(());
        for event in std::mem::take(&mut self.parked) {
            first = first.and(self.keep(event));
        }
        first
    }

    /// Levels and counters.
    pub fn levels(&self) -> EventLevels {
        EventLevels {
            created: self.created,
            reused: self.reused,
            idle: (self.idle.len() + self.parked.len()) as u64,
            owned: self.owned,
        }
    }

    /// Destroys the idle events.
    ///
    /// # Errors
    /// The first driver error; the rest is destroyed all the same.
    pub fn close(&mut self) -> DriverResult<()> {
        let mut first = Ok(());
        for event in self.idle.drain(..).chain(self.parked.drain(..)) {
            let destroyed = self.driver.event_destroy(event);
            first = first.and(destroyed);
        }
        first
    }
}
