//! Execution slots: fixed places that streamed units take turns in.

use super::{MappingBook, give_back, map_fresh};
use crate::driver::{DeviceAddress, Driver, DriverResult, EventId, PhysicalId};
use std::sync::Arc;

/// What a slot holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// Whose contents they are.
    pub owner: usize,
    /// Uploaded ahead and not asked for yet.
    pub ahead: bool,
}

#[derive(Debug, Default)]
struct Slot {
    memory: Option<PhysicalId>,
    holding: Option<Holding>,
    guards: u32,
    consumer: Option<EventId>,
    turn: u64,
    quarantined: bool,
}

/// The slots, mapped as long as the component is attached.
#[derive(Debug)]
pub struct SlotPool {
    driver: Arc<dyn Driver>,
    base: DeviceAddress,
    slot_bytes: u64,
    slots: Vec<Slot>,
    turns: u64,
    reserved_bytes: u64,
    book: Arc<MappingBook>,
}

impl SlotPool {
    /// Reserves and maps `count` slots of `slot_bytes`.
    ///
    /// # Errors
    /// The driver's; memory mapped so far is given back.
    pub fn map(driver: Arc<dyn Driver>, book: &Arc<MappingBook>, count: u64, slot_bytes: u64) -> DriverResult<SlotPool> {
        let reserved_bytes = count.saturating_mul(slot_bytes);
        let base = if count == 0 { DeviceAddress(0) } else { driver.address_reserve(reserved_bytes)? };
        let mut pool = SlotPool { driver, base, slot_bytes, slots: Vec::new(), turns: 0, reserved_bytes, book: Arc::clone(book) };
        for index in 0..count {
            match map_fresh(&*pool.driver, pool.address(index as usize), slot_bytes, book) {
                Ok(memory) => pool.slots.push(Slot { memory: Some(memory), ..Slot::default() }),
                Err(error) => {
                    if pool.release().is_err() {
                        book.lost_bytes.add(pool.resident_bytes());
                    }
                    return Err(error);
                }
            }
        }
        Ok(pool)
    }

    /// First byte of a slot.
    pub fn address(&self, index: usize) -> DeviceAddress {
        self.base.offset(index as u64 * self.slot_bytes)
    }

    /// Number of slots.
    pub fn count(&self) -> u64 {
        self.slots.len() as u64
    }

    /// Bytes of one slot.
    pub fn slot_bytes(&self) -> u64 {
        self.slot_bytes
    }

    /// Bytes of memory under all slots.
    pub fn resident_bytes(&self) -> u64 {
        self.slots.iter().filter(|slot| slot.memory.is_some()).count() as u64 * self.slot_bytes
    }

    /// Bytes that may never be used again.
    pub fn quarantined_bytes(&self) -> u64 {
        self.slots.iter().filter(|slot| slot.quarantined).count() as u64 * self.slot_bytes
    }

    /// The slot that holds an owner's contents.
    pub fn find(&self, owner: usize) -> Option<(usize, Holding)> {
        let held = self
            .slots
            .iter()
            .enumerate()
            .find_map(|(index, slot)| Some((index, slot.holding?)).filter(|(_, h)| h.owner == owner));
        held.filter(|(index, _)| self.slots.get(*index).is_some_and(|slot| !slot.quarantined))
    }

    /// The slot to fill next: nobody has its contents in hand, nothing uploaded ahead is lost, and none of the `keep`
    /// owners lives there; the one whose turn was longest ago.
    pub fn choose(&self, keep: &[usize]) -> Option<usize> {
        let usable = self.slots.iter().enumerate().filter(|(_, slot)| {
            let kept = slot.holding.is_some_and(|holding| holding.ahead || keep.contains(&holding.owner));
            slot.guards == 0 && !slot.quarantined && !kept
        });
        usable.min_by_key(|(_, slot)| slot.turn).map(|(index, _)| index)
    }

    /// Event of the last work that reads the slot; the next upload must wait for it.
    pub fn consumer(&self, index: usize) -> Option<EventId> {
        self.slots.get(index).and_then(|slot| slot.consumer)
    }

    /// Says what a slot now holds; `None` empties it.
    pub fn hold(&mut self, index: usize, holding: Option<Holding>) {
        self.turns += 1;
        if let Some(slot) = self.slots.get_mut(index) {
            slot.holding = holding;
            slot.turn = self.turns;
        }
    }

    /// Notes that contents uploaded ahead were asked for.
    pub fn consume(&mut self, index: usize) {
        if let Some(holding) = self.slots.get_mut(index).and_then(|slot| slot.holding.as_mut()) {
            holding.ahead = false;
        }
    }

    /// Takes the contents into hand.
    pub fn guard(&mut self, index: usize) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.guards += 1;
        }
    }

    /// Lets the contents go; `consumer` is the event behind the last work that reads them.
    pub fn unguard(&mut self, index: usize, consumer: Option<EventId>) {
        self.turns += 1;
        if let Some(slot) = self.slots.get_mut(index) {
            slot.guards = slot.guards.saturating_sub(1);
            slot.consumer = consumer.or(slot.consumer);
            slot.turn = self.turns;
        }
    }

    /// Forgets a consumer whose completion is proven.
    pub fn consumer_done(&mut self, event: EventId) {
        for slot in self.slots.iter_mut().filter(|slot| slot.consumer == Some(event)) {
            slot.consumer = None;
        }
    }

    /// Owners whose contents were uploaded ahead and not asked for.
    pub fn ahead(&self) -> Vec<usize> {
        self.slots.iter().filter_map(|slot| slot.holding).filter(|holding| holding.ahead).map(|holding| holding.owner).collect()
    }

    /// Gives up contents uploaded ahead, except those of `keep`; returns how many. The next upload into such a slot
    /// runs on the same stream, behind the one that filled it.
    pub fn cancel_ahead(&mut self, keep: Option<usize>) -> u64 {
        let mut cancelled = 0;
        for slot in &mut self.slots {
            if slot.holding.is_some_and(|holding| holding.ahead && Some(holding.owner) != keep) {
                slot.holding = None;
                cancelled += 1;
            }
        }
        cancelled
    }

    /// Keeps a slot out of use for good.
    pub fn quarantine(&mut self, index: usize) {
        if let Some(slot) = self.slots.get_mut(index) {
            slot.quarantined = true;
            slot.holding = None;
        }
    }

    /// Gives every slot back that is not quarantined; every use must have been proven complete.
    ///
    /// # Errors
    /// The first driver error. What could not be given back stays counted.
    pub fn release(&mut self) -> DriverResult<()> {
        let mut first = Ok(());
        for index in 0..self.slots.len() {
            let address = self.address(index);
            let Some(slot) = self.slots.get_mut(index).filter(|slot| !slot.quarantined) else { continue };
            let Some(memory) = slot.memory else { continue };
            let given_back = give_back(&*self.driver, address, self.slot_bytes, memory, &self.book);
            if !given_back.as_ref().is_err_and(|failure| failure.still_mapped) {
                slot.memory = None;
            }
            first = first.and(given_back.map_err(|failure| failure.error));
        }
        first?;
        if self.reserved_bytes > 0 && self.slots.iter().all(|slot| slot.memory.is_none()) {
            self.driver.address_free(self.base, self.reserved_bytes)?;
            self.reserved_bytes = 0;
        }
        Ok(())
    }
}
