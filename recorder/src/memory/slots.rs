//! Execution slots: fixed places that streamed units take turns in.

use super::stream::{Blocked, Claim, Consumer, Fence, Holding, PlaceKey, Want, replace_consumer};
use super::{MappingBook, give_back, map_fresh};
use crate::driver::{DeviceAddress, Driver, DriverResult, EventId, PhysicalId};
use std::sync::Arc;

#[derive(Debug, Default)]
struct Slot {
    memory: Option<PhysicalId>,
    holding: Option<Holding>,
    guards: u32,
    /// Latest work of each stream that reads the contents and whose end is not proven.
    consumers: Vec<Consumer>,
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
            match map_fresh(&*pool.driver, pool.address(PlaceKey(index)), slot_bytes, book) {
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

    pub(super) fn address(&self, key: PlaceKey) -> DeviceAddress {
        self.base.offset(key.0 * self.slot_bytes)
    }

    fn slot(&mut self, key: PlaceKey) -> Option<&mut Slot> {
        self.slots.get_mut(key.0 as usize)
    }

    /// Number of slots.
    pub fn count(&self) -> u64 {
        self.slots.len() as u64
    }

    /// Bytes of one slot.
    pub fn slot_bytes(&self) -> u64 {
        self.slot_bytes
    }

    pub(super) fn capacity_bytes(&self) -> u64 {
        self.count() * self.slot_bytes
    }

    pub(super) fn resident_bytes(&self) -> u64 {
        self.slots.iter().filter(|slot| slot.memory.is_some()).count() as u64 * self.slot_bytes
    }

    pub(super) fn quarantined_bytes(&self) -> u64 {
        self.slots.iter().filter(|slot| slot.quarantined).count() as u64 * self.slot_bytes
    }

    pub(super) fn find(&self, owner: usize) -> Option<(PlaceKey, Holding)> {
        let usable = self.slots.iter().zip(0..).filter(|(slot, _)| !slot.quarantined);
        let mut held = usable.filter_map(|(slot, index)| Some((PlaceKey(index), slot.holding?)));
        held.find(|(_, holding)| holding.owner == owner)
    }

    /// The slot whose turn was longest ago, among those that nobody has in hand, where nothing uploaded ahead is lost
    /// and none of the owners to keep lives.
    pub(super) fn survey(&self, want: &Want<'_>) -> Result<Claim, Blocked> {
        let usable = self.slots.iter().zip(0..).filter(|(slot, _)| {
            let kept = slot.holding.is_some_and(|holding| holding.ahead || want.keep.contains(&holding.owner));
            slot.guards == 0 && !slot.quarantined && !kept
        });
        let (slot, index) = usable.min_by_key(|(slot, _)| slot.turn).ok_or(Blocked::InHand)?;
        let fences = slot.consumers.iter().map(|consumer| Fence { from: 0, consumer: *consumer }).collect();
        Ok(Claim { key: PlaceKey(index), bytes: self.slot_bytes, displaced: Vec::new(), fences })
    }

    fn next_turn(&mut self) -> u64 {
        self.turns += 1;
        self.turns
    }

    pub(super) fn commit(&mut self, claim: &Claim) {
        let turn = self.next_turn();
        if let Some(slot) = self.slot(claim.key) {
            slot.holding = None;
            slot.consumers.clear();
            slot.turn = turn;
        }
    }

    pub(super) fn owe(&mut self, key: PlaceKey, consumers: impl IntoIterator<Item = Consumer>) {
        if let Some(slot) = self.slot(key) {
            slot.consumers.extend(consumers);
        }
    }

    pub(super) fn hold(&mut self, key: PlaceKey, holding: Holding) {
        let turn = self.next_turn();
        if let Some(slot) = self.slot(key) {
            slot.holding = Some(holding);
            slot.turn = turn;
        }
    }

    pub(super) fn consume(&mut self, key: PlaceKey) {
        if let Some(holding) = self.slot(key).and_then(|slot| slot.holding.as_mut()) {
            holding.ahead = false;
        }
    }

    pub(super) fn guard(&mut self, key: PlaceKey) {
        if let Some(slot) = self.slot(key) {
            slot.guards += 1;
        }
    }

    pub(super) fn note_consumer(&mut self, key: PlaceKey, consumer: Consumer) {
        if let Some(slot) = self.slot(key) {
            replace_consumer(&mut slot.consumers, consumer);
        }
    }

    pub(super) fn unguard(&mut self, key: PlaceKey) {
        let turn = self.next_turn();
        if let Some(slot) = self.slot(key) {
            slot.guards = slot.guards.saturating_sub(1);
            slot.turn = turn;
        }
    }

    pub(super) fn consumer_done(&mut self, keys: &[PlaceKey], event: EventId) {
        for key in keys {
            if let Some(slot) = self.slot(*key) {
                slot.consumers.retain(|consumer| consumer.event != event);
            }
        }
    }

    pub(super) fn ahead(&self) -> Vec<usize> {
        self.slots.iter().filter_map(|slot| slot.holding).filter(|holding| holding.ahead).map(|holding| holding.owner).collect()
    }

    pub(super) fn cancel_ahead(&mut self, keep: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut cancelled = Vec::new();
        for slot in &mut self.slots {
            let lost = slot.holding.filter(|holding| holding.ahead && !keep(holding.owner));
            if let Some(holding) = lost {
                slot.holding = None;
                cancelled.push(holding.owner);
            }
        }
        cancelled
    }

    pub(super) fn quarantine(&mut self, key: PlaceKey) {
        if let Some(slot) = self.slot(key) {
            slot.quarantined = true;
            slot.holding = None;
        }
    }

    pub(super) fn release(&mut self) -> DriverResult<()> {
        let mut first = Ok(());
        for index in 0..self.slots.len() {
            let address = self.address(PlaceKey(index as u64));
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
