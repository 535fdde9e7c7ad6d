//! Temporaries: device memory outside the ceiling that stands in, for a short time, for arena memory that was declined.

use super::{MappingBook, give_back, map_fresh};
use crate::driver::{DeviceAddress, Driver, DriverResult, PhysicalId};
use crate::plan::round_up;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Names one temporary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TemporaryId(u64);

/// What temporaries hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TemporaryLevels {
    /// Bytes of memory held now, whole pages.
    pub resident_bytes: u64,
    /// The most that were held at a time.
    pub peak_bytes: u64,
}

#[derive(Debug)]
struct Temporary {
    address: DeviceAddress,
    bytes: u64,
    memory: Option<PhysicalId>,
    /// Who reads or writes it.
    holds: u64,
    quarantined: bool,
}

/// All temporaries of a session.
#[derive(Debug)]
pub struct Temporaries {
    driver: Arc<dyn Driver>,
    book: Arc<MappingBook>,
    page_bytes: u64,
    live: BTreeMap<TemporaryId, Temporary>,
    next: u64,
    levels: TemporaryLevels,
}

impl Temporaries {
    /// None yet.
    pub fn new(driver: Arc<dyn Driver>, book: Arc<MappingBook>, page_bytes: u64) -> Temporaries {
        let levels = TemporaryLevels::default();
        Temporaries { driver, book, page_bytes: page_bytes.max(1), live: BTreeMap::new(), next: 0, levels }
    }

    /// What they hold.
    pub fn levels(&self) -> TemporaryLevels {
        self.levels
    }

    /// Memory for so many bytes, held once, and its first byte.
    ///
    /// # Errors
    /// The driver's; nothing is left then, or the book knows of it.
    pub fn admit(&mut self, bytes: u64) -> DriverResult<(TemporaryId, DeviceAddress)> {
        let bytes = round_up(bytes.max(1), self.page_bytes).unwrap_or(u64::MAX);
        let address = self.driver.address_reserve(bytes)?;
        let memory = map_fresh(&*self.driver, address, bytes, &self.book).inspect_err(|_| {
            // The first failure is the one that is told; addresses alone cost no memory.
            let _ = self.driver.address_free(address, bytes);
        })?;
        self.next += 1;
        let id = TemporaryId(self.next);
        self.live.insert(id, Temporary { address, bytes, memory: Some(memory), holds: 1, quarantined: false });
        self.levels.resident_bytes += bytes;
        self.levels.peak_bytes = self.levels.peak_bytes.max(self.levels.resident_bytes);
        Ok((id, address))
    }

    /// First byte; `None` for one that is gone.
    pub fn address(&self, id: TemporaryId) -> Option<DeviceAddress> {
        self.live.get(&id).map(|temporary| temporary.address)
    }

    /// Holds one once more.
    pub fn hold(&mut self, id: TemporaryId) {
        if let Some(temporary) = self.live.get_mut(&id) {
            temporary.holds += 1;
        }
    }

    /// Lets one go once. With the last hold its memory is given back.
    ///
    /// # Errors
    /// The driver's; what could not be given back stays counted, and is tried again at the end.
    pub fn let_go(&mut self, id: TemporaryId) -> DriverResult<()> {
        let Some(temporary) = self.live.get_mut(&id) else { return Ok(()) };
        temporary.holds = temporary.holds.saturating_sub(1);
        if temporary.holds == 0 { self.give_back(id) } else { Ok(()) }
    }

    /// Keeps one for good: the end of its use cannot be proven.
    pub fn quarantine(&mut self, id: TemporaryId) {
        if let Some(temporary) = self.live.get_mut(&id).filter(|temporary| !temporary.quarantined) {
            temporary.quarantined = true;
            temporary.holds += 1;
        }
    }

    /// Bytes that somebody reads or writes.
    pub fn held_bytes(&self) -> u64 {
        let held = self.live.values().filter(|temporary| temporary.holds > u64::from(temporary.quarantined));
        held.map(|temporary| temporary.bytes).sum()
    }

    /// Bytes that may never be used again.
    pub fn quarantined_bytes(&self) -> u64 {
        self.live.values().filter(|temporary| temporary.quarantined).map(|temporary| temporary.bytes).sum()
    }

    fn give_back(&mut self, id: TemporaryId) -> DriverResult<()> {
        let Some(temporary) = self.live.get_mut(&id) else { return Ok(()) };
        if let Some(memory) = temporary.memory {
            let given = give_back(&*self.driver, temporary.address, temporary.bytes, memory, &self.book);
            if !given.as_ref().is_err_and(|failure| failure.still_mapped) {
                temporary.memory = None;
                self.levels.resident_bytes -= temporary.bytes;
            }
            given.map_err(|failure| failure.error)?;
        }
        self.driver.address_free(temporary.address, temporary.bytes)?;
        self.live.remove(&id);
        Ok(())
    }

    /// Gives back all that nobody holds any more.
    ///
    /// # Errors
    /// The first driver error; the rest is given back all the same.
    pub fn release(&mut self) -> DriverResult<()> {
        let idle: Vec<TemporaryId> = self.live.iter().filter(|(_, temporary)| temporary.holds == 0).map(|(id, _)| *id).collect();
        let mut first = Ok(());
        for id in idle {
            first = first.and(self.give_back(id));
        }
        first
    }
}
