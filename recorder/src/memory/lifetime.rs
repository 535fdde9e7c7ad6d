//! Device memory that is filled once and stays as long as its component: what belongs to no execution unit.

use super::{MappingBook, give_back, map_fresh};
use crate::driver::{DeviceAddress, Driver, DriverResult, HostBytes, PhysicalId, StreamId};
use std::sync::Arc;

/// The buffer. It is one piece of memory, and nothing else is ever mapped at its addresses.
#[derive(Debug)]
pub struct LifetimeBuffer {
    driver: Arc<dyn Driver>,
    book: Arc<MappingBook>,
    base: DeviceAddress,
    /// Bytes of addresses; zero once they are given back.
    capacity_bytes: u64,
    memory: Option<PhysicalId>,
    quarantined: bool,
}

impl LifetimeBuffer {
    /// Maps whole pages and fills them, each piece at its offset. Nothing is in flight afterwards.
    ///
    /// # Errors
    /// The driver's; everything is given back then, or the book counts it as lost.
    ///
    /// # Cost
    /// Waits for the copies.
    pub fn filled(
        driver: Arc<dyn Driver>,
        book: Arc<MappingBook>,
        capacity_bytes: u64,
        pieces: &[(u64, HostBytes)],
        stream: StreamId,
    ) -> DriverResult<LifetimeBuffer> {
        let base = if capacity_bytes == 0 { DeviceAddress(0) } else { driver.address_reserve(capacity_bytes)? };
        let mut buffer = LifetimeBuffer { driver, book, base, capacity_bytes, memory: None, quarantined: false };
        let filled = buffer.map().and_then(|()| buffer.fill(pieces, stream));
        if let Err(error) = filled {
            // Pages under a copy whose end is not proven are nobody's to give back.
            if buffer.quarantined || buffer.release().is_err() {
                buffer.book.lost_bytes.add(buffer.resident_bytes());
            }
            return Err(error);
        }
        Ok(buffer)
    }

    fn map(&mut self) -> DriverResult<()> {
        if self.capacity_bytes > 0 {
            self.memory = Some(map_fresh(&*self.driver, self.base, self.capacity_bytes, &self.book)?);
        }
        Ok(())
    }

    /// Queues the copies and waits for them. Whatever fails, the end of what was queued is proven, or the buffer is
    /// quarantined.
    fn fill(&mut self, pieces: &[(u64, HostBytes)], stream: StreamId) -> DriverResult<()> {
        let (mut queued, mut outcome) = (false, Ok(()));
        for (offset, bytes) in pieces.iter().filter(|(_, bytes)| bytes.bytes() > 0) {
            outcome = self.driver.copy_to_device(self.address(*offset), bytes.clone(), stream);
            if outcome.is_err() {
                break;
            }
            queued = true;
        }
        if !queued {
            return outcome;
        }
        let done = self.driver.stream_synchronize(stream);
        if done.is_err() && self.driver.context_synchronize().is_err() {
            self.quarantined = true;
        }
        outcome.and(done)
    }

    /// Address of an offset.
    pub fn address(&self, offset: u64) -> DeviceAddress {
        self.base.offset(offset)
    }

    /// Bytes that it may hold, whole pages; zero once it is given back.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// Bytes of memory mapped.
    pub fn resident_bytes(&self) -> u64 {
        self.memory.map_or(0, |_| self.capacity_bytes)
    }

    /// Bytes that may never be used again.
    pub fn quarantined_bytes(&self) -> u64 {
        if self.quarantined { self.resident_bytes() } else { 0 }
    }

    /// Keeps the buffer for good: the end of work that reads it cannot be proven.
    pub fn quarantine(&mut self) {
        self.quarantined = true;
    }

    /// Gives everything back unless it is quarantined; every use must have been proven complete.
    ///
    /// # Errors
    /// The first driver error. What could not be given back stays counted.
    pub fn release(&mut self) -> DriverResult<()> {
        if self.quarantined {
            return Ok(());
        }
        if let Some(memory) = self.memory {
            let given_back = give_back(&*self.driver, self.base, self.capacity_bytes, memory, &self.book);
            if !given_back.as_ref().is_err_and(|failure| failure.still_mapped) {
                self.memory = None;
            }
            given_back.map_err(|failure| failure.error)?;
        }
        if self.capacity_bytes > 0 {
            self.driver.address_free(self.base, self.capacity_bytes)?;
            self.capacity_bytes = 0;
        }
        Ok(())
    }
}
