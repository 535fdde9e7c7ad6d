//! Fixed places that streamed units take turns in.

use super::{Blocked, Claim, Fence, Holding, PlaceKey, Reader, Want, replace_reader};

#[derive(Clone, Debug)]
struct Slot<C> {
    holding: Option<Holding>,
    guards: u32,
    /// Latest work of each stream that reads the contents and whose end is not proven.
    consumers: Vec<C>,
    turn: u64,
    quarantined: bool,
}

/// Slots of one size.
#[derive(Clone, Debug)]
pub struct SlotPlaces<C> {
    slot_bytes: u64,
    slots: Vec<Slot<C>>,
    turns: u64,
}

impl<C: Reader> SlotPlaces<C> {
    /// `count` free slots of `slot_bytes`.
    pub fn new(count: u64, slot_bytes: u64) -> SlotPlaces<C> {
        let free = |_| Slot { holding: None, guards: 0, consumers: Vec::new(), turn: 0, quarantined: false };
        SlotPlaces { slot_bytes, slots: (0..count).map(free).collect(), turns: 0 }
    }

    fn slot(&mut self, key: PlaceKey) -> Option<&mut Slot<C>> {
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

    /// Whether a slot may never be used again.
    pub fn is_quarantined(&self, index: usize) -> bool {
        self.slots.get(index).is_some_and(|slot| slot.quarantined)
    }

    pub(super) fn offset(&self, key: PlaceKey) -> u64 {
        key.0 * self.slot_bytes
    }

    pub(super) fn capacity_bytes(&self) -> u64 {
        self.count() * self.slot_bytes
    }

    pub(super) fn find(&self, owner: usize) -> Option<(PlaceKey, Holding)> {
        let usable = self.slots.iter().zip(0..).filter(|(slot, _)| !slot.quarantined);
        let mut held = usable.filter_map(|(slot, index)| Some((PlaceKey(index), slot.holding?)));
        held.find(|(_, holding)| holding.owner == owner)
    }

    /// The slot whose turn was longest ago, among those that nobody has in hand, where nothing uploaded ahead is lost
    /// and none of the owners to keep lives.
    pub(super) fn survey(&self, want: &Want<'_>) -> Result<Claim<C>, Blocked> {
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

    pub(super) fn commit(&mut self, claim: &Claim<C>) {
        let turn = self.next_turn();
        if let Some(slot) = self.slot(claim.key) {
            slot.holding = None;
            slot.consumers.clear();
            slot.turn = turn;
        }
    }

    pub(super) fn owe(&mut self, key: PlaceKey, consumers: impl IntoIterator<Item = C>) {
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

    pub(super) fn note_consumer(&mut self, key: PlaceKey, consumer: C) {
        if let Some(slot) = self.slot(key) {
            replace_reader(&mut slot.consumers, consumer);
        }
    }

    pub(super) fn unguard(&mut self, key: PlaceKey) {
        let turn = self.next_turn();
        if let Some(slot) = self.slot(key) {
            slot.guards = slot.guards.saturating_sub(1);
            slot.turn = turn;
        }
    }

    pub(super) fn consumer_done(&mut self, keys: &[PlaceKey], done: impl Fn(&C) -> bool) {
        for key in keys {
            if let Some(slot) = self.slot(*key) {
                slot.consumers.retain(|consumer| !done(consumer));
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
}
