//! Staging slots: a bounded number of registered slots that bytes pass through on their way to the device. The native ring is
//! filled by reading threads ahead of its copies, the slots of the source `staged` by the thread that uploads.
//!
//! A slot is free, out (being filled, or full and waiting for its copy), or being copied; it is free again once the event
//! behind its copy was passed. What cannot be proven free is never handed out again.

use super::HostBudget;
use crate::driver::{
    BlockWriter, Driver, DriverError, DriverErrorKind, DriverResult, EventId, HostAccess, HostBlock, HostBytes, RegistrationId,
    StreamId,
};
use crate::error::Result;
use crate::meter::{Clock, HostScope};
use crate::plan::RingShape;
use std::collections::VecDeque;
use std::sync::Arc;

/// Names a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RingSlotId(usize);

#[derive(Debug)]
struct RingSlot {
    block: Arc<HostBlock>,
    registration: Option<RegistrationId>,
    event: Option<EventId>,
}

/// Where the slots are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingLevels {
    /// Slots that can be taken at once.
    pub free: u64,
    /// Slots being filled, or full.
    pub out: u64,
    /// Slots whose copy is not proven complete.
    pub copying: u64,
    /// Slots that will not be used again.
    pub quarantined: u64,
}

/// The ring.
#[derive(Debug)]
pub struct HostRing {
    driver: Arc<dyn Driver>,
    budget: Arc<HostBudget>,
    shape: RingShape,
    slots: Vec<RingSlot>,
    free: VecDeque<usize>,
    /// In order of submission, all on one stream.
    copying: VecDeque<usize>,
    out: u64,
    quarantined: u64,
    entered_bytes: u64,
    waits: HostScope,
}

impl HostRing {
    /// Maps and registers every slot.
    ///
    /// # Errors
    /// A refusal when the process would hold more registered memory than the limit; the driver's. What was taken so far
    /// is given back.
    pub fn open(driver: Arc<dyn Driver>, budget: Arc<HostBudget>, shape: RingShape, limit_bytes: u64) -> Result<HostRing> {
        budget.enter_staging(shape.bytes(), limit_bytes)?;
        let mut ring = HostRing {
            driver,
            budget,
            shape,
            slots: Vec::new(),
            free: VecDeque::new(),
            copying: VecDeque::new(),
            out: 0,
            quarantined: 0,
            entered_bytes: shape.bytes(),
            waits: HostScope::default(),
        };
        for index in 0..shape.slots as usize {
            if let Err(error) = ring.add_slot() {
                let _ = ring.release();
                return Err(error.into());
            }
            ring.free.push_back(index);
        }
        Ok(ring)
    }

    fn add_slot(&mut self) -> DriverResult<()> {
        let no_memory = |error: std::io::Error| DriverError::new("host_allocate", DriverErrorKind::System, error);
        let block = HostBlock::map(self.shape.slot_bytes).map_err(no_memory)?;
        let registration = {
            let lease = block.lease(0, block.bytes()).ok_or_else(|| busy("a new slot"))?;
            self.driver.host_register(&lease, HostAccess::ReadWrite)?
        };
        self.slots.push(RingSlot { block, registration: Some(registration), event: None });
        let event = self.driver.event_create(false)?;
        if let Some(slot) = self.slots.last_mut() {
            slot.event = Some(event);
        }
        Ok(())
    }

    /// Its geometry.
    pub fn shape(&self) -> RingShape {
        self.shape
    }

    /// Registered staging memory, in bytes.
    pub fn registered_bytes(&self) -> u64 {
        self.slots.iter().filter(|slot| slot.registration.is_some()).count() as u64 * self.shape.slot_bytes
    }

    /// Where the slots are.
    pub fn levels(&self) -> RingLevels {
        let (free, copying) = (self.free.len() as u64, self.copying.len() as u64);
        RingLevels { free, out: self.out, copying, quarantined: self.quarantined }
    }

    /// Waits for the copy of a slot, and their host time.
    pub fn waits(&self) -> &HostScope {
        &self.waits
    }

    /// A free slot with the right to write it; `None` when the oldest copy has not ended. Never waits.
    ///
    /// # Errors
    /// The driver's.
    pub fn take(&mut self) -> DriverResult<Option<(RingSlotId, BlockWriter)>> {
        if self.free.is_empty() {
            let Some(event) = self.oldest_copy() else { return Ok(None) };
            if !self.driver.event_query(event)? {
                return Ok(None);
            }
            self.end_oldest_copy();
        }
        let Some(index) = self.free.pop_front() else { return Ok(None) };
        let writer = self.slots.get(index).and_then(|slot| slot.block.writer());
        let Some(writer) = writer else {
            // Somebody still reads it although its event was passed: it stays out of use.
            self.quarantined += 1;
            return Err(busy("a slot whose copy has ended"));
        };
        self.out += 1;
        Ok(Some((RingSlotId(index), writer)))
    }

    /// A free slot with the right to write it.
    ///
    /// # Errors
    /// The driver's; when no copy is in flight that could free one.
    ///
    /// # Cost
    /// Waits for the oldest copy where no slot is free; the wait is counted.
    pub fn wait_take(&mut self, clock: &dyn Clock) -> DriverResult<(RingSlotId, BlockWriter)> {
        if let Some(taken) = self.take()? {
            return Ok(taken);
        }
        let event = self.oldest_copy().ok_or_else(|| busy("every slot"))?;
        self.waits.time(clock, || self.driver.event_synchronize(event))?;
        self.end_oldest_copy();
        self.take()?.ok_or_else(|| busy("the slot that was waited for"))
    }

    fn oldest_copy(&self) -> Option<EventId> {
        self.copying.front().and_then(|index| self.slots.get(*index)).and_then(|slot| slot.event)
    }

    fn end_oldest_copy(&mut self) {
        if let Some(index) = self.copying.pop_front() {
            self.free.push_back(index);
        }
    }

    /// A lease on a full slot's bytes.
    ///
    /// # Errors
    /// When somebody still writes it or the bytes lie outside.
    pub fn lease(&self, slot: RingSlotId, from: u64, bytes: u64) -> DriverResult<HostBytes> {
        let lease = self.slots.get(slot.0).and_then(|slot| slot.block.lease(from, bytes));
        lease.ok_or_else(|| busy("a slot that is to be copied"))
    }

    /// Gives a slot back that nothing was copied from.
    pub fn give(&mut self, slot: RingSlotId) {
        self.out = self.out.saturating_sub(1);
        self.free.push_back(slot.0);
    }

    /// Says that all copies from a slot are queued on the stream.
    ///
    /// # Errors
    /// The driver's. The end of the copies can never be proven then: the slot stays out of use.
    pub fn sent(&mut self, slot: RingSlotId, stream: StreamId) -> DriverResult<()> {
        self.out = self.out.saturating_sub(1);
        let event = self.slots.get(slot.0).and_then(|slot| slot.event).ok_or_else(|| busy("a slot without event"));
        match event.and_then(|event| self.driver.event_record(event, stream)) {
            Ok(()) => {
                self.copying.push_back(slot.0);
                Ok(())
            }
            Err(error) => {
                self.quarantined += 1;
                Err(error)
            }
        }
    }

    /// Unregisters every slot and gives its event back; every copy must have been proven complete and nobody may write.
    ///
    /// # Errors
    /// The first driver error; the rest is given back all the same.
    pub fn release(&mut self) -> DriverResult<()> {
        let mut first = Ok(());
        for slot in &mut self.slots {
            if let Some(registration) = slot.registration {
                let ended = self.driver.host_unregister(registration);
                if ended.is_ok() {
                    slot.registration = None;
                }
                first = first.and(ended);
            }
            if let Some(event) = slot.event.take() {
                let ended = self.driver.event_destroy(event);
                first = first.and(ended);
            }
        }
        let left = self.registered_bytes();
        self.budget.leave_staging(self.entered_bytes.saturating_sub(left));
        self.entered_bytes = left;
        first
    }
}

fn busy(what: &str) -> DriverError {
    DriverError::new("host_ring", DriverErrorKind::NotReady, format!("{what} is in use"))
}
