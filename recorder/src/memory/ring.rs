//! The stream ring: one stretch of device memory that parts of units pass through.
//!
//! Places are taken in a circle, one behind the other, and a new place takes over what it overlaps, oldest first. A
//! place in hand is passed over instead. All uploads run on one stream: what an earlier upload has waited for, a
//! later one need not wait for again; so the rest of a place that was taken over in part is free without a fence.

use super::stream::{Blocked, Claim, Consumer, Fence, Holding, PlaceKey, Want, replace_consumer};
use super::{MappingBook, give_back, map_fresh};
use crate::driver::{DeviceAddress, Driver, DriverResult, EventId, PhysicalId};
use crate::limits::SLOT_ALIGNMENT_BYTES;
use crate::plan::round_up;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug, Default)]
struct Span {
    bytes: u64,
    holding: Option<Holding>,
    guards: u32,
    consumers: Vec<Consumer>,
}

/// The ring, mapped as long as the component is attached.
#[derive(Debug)]
pub struct StreamRing {
    driver: Arc<dyn Driver>,
    book: Arc<MappingBook>,
    base: DeviceAddress,
    capacity_bytes: u64,
    memory: Option<PhysicalId>,
    /// By first byte; they never overlap.
    spans: BTreeMap<u64, Span>,
    owners: BTreeMap<usize, u64>,
    /// Behind the place taken last.
    cursor: u64,
    /// Consumers of displaced contents that no upload has waited for; the next one does.
    owed: Vec<Consumer>,
    quarantined: bool,
}

/// What stands in the way at one position.
enum Obstacle {
    InHand { end: u64 },
    Ahead { end: u64 },
    Kept,
}

impl StreamRing {
    /// Reserves and maps a ring of whole pages.
    ///
    /// # Errors
    /// The driver's; nothing is left then, or the book knows of it.
    pub fn map(driver: Arc<dyn Driver>, book: &Arc<MappingBook>, capacity_bytes: u64) -> DriverResult<StreamRing> {
        let base = if capacity_bytes == 0 { DeviceAddress(0) } else { driver.address_reserve(capacity_bytes)? };
        let mut ring = StreamRing {
            driver,
            book: Arc::clone(book),
            base,
            capacity_bytes,
            memory: None,
            spans: BTreeMap::new(),
            owners: BTreeMap::new(),
            cursor: 0,
            owed: Vec::new(),
            quarantined: false,
        };
        if capacity_bytes > 0 {
            match map_fresh(&*ring.driver, base, capacity_bytes, book) {
                Ok(memory) => ring.memory = Some(memory),
                Err(error) => {
                    let _ = ring.release();
                    return Err(error);
                }
            }
        }
        Ok(ring)
    }

    pub(super) fn address(&self, key: PlaceKey) -> DeviceAddress {
        self.base.offset(key.0)
    }

    /// Bytes of the ring.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    pub(super) fn resident_bytes(&self) -> u64 {
        if self.memory.is_some() { self.capacity_bytes } else { 0 }
    }

    /// The ring is one mapping: one place that may never be used again keeps all of it.
    pub(super) fn quarantined_bytes(&self) -> u64 {
        if self.quarantined { self.resident_bytes() } else { 0 }
    }

    /// Bytes in hand.
    pub fn in_hand_bytes(&self) -> u64 {
        self.spans.values().filter(|span| span.guards > 0).map(|span| span.bytes).sum()
    }

    pub(super) fn find(&self, owner: usize) -> Option<(PlaceKey, Holding)> {
        let start = self.owners.get(&owner).filter(|_| !self.quarantined)?;
        Some((PlaceKey(*start), self.spans.get(start)?.holding?))
    }

    /// Spans that overlap a stretch, last one first.
    fn overlapping(&self, start: u64, end: u64) -> impl Iterator<Item = (u64, &Span)> {
        let below = self.spans.range(..end).rev().map(|(start, span)| (*start, span));
        below.take_while(move |(first, span)| first + span.bytes > start)
    }

    fn obstacle(&self, start: u64, end: u64, keep: &[usize]) -> Option<Obstacle> {
        self.overlapping(start, end).find_map(|(first, span)| {
            let end = first + span.bytes;
            match span.holding {
                _ if span.guards > 0 => Some(Obstacle::InHand { end }),
                Some(holding) if holding.ahead => Some(Obstacle::Ahead { end }),
                Some(holding) if keep.contains(&holding.owner) => Some(Obstacle::Kept),
                _ => None,
            }
        })
    }

    pub(super) fn survey(&self, want: &Want<'_>) -> Result<Claim, Blocked> {
        let bytes = round_up(want.bytes.max(1), SLOT_ALIGNMENT_BYTES).unwrap_or(u64::MAX);
        if self.quarantined || bytes > self.capacity_bytes {
            return Err(Blocked::InHand);
        }
        let (mut start, mut wrapped, mut blocked) = (self.cursor, false, Blocked::InHand);
        loop {
            if start > self.capacity_bytes - bytes {
                if wrapped {
                    return Err(blocked);
                }
                (start, wrapped) = (0, true);
            }
            if wrapped && start >= self.cursor && self.cursor > 0 {
                return Err(blocked);
            }
            start = match self.obstacle(start, start + bytes, want.keep) {
                None => return Ok(self.claim(start, bytes)),
                Some(Obstacle::InHand { end }) => end,
                Some(Obstacle::Ahead { end }) if want.past_ahead => {
                    blocked = Blocked::Wanted;
                    end
                }
                Some(Obstacle::Ahead { .. } | Obstacle::Kept) => return Err(Blocked::Wanted),
            };
        }
    }

    fn claim(&self, start: u64, bytes: u64) -> Claim {
        let mut claim = Claim { key: PlaceKey(start), bytes, displaced: Vec::new(), fences: Vec::new() };
        claim.fences.extend(self.owed.iter().map(|consumer| Fence { from: 0, consumer: *consumer }));
        let mut displaced: Vec<(u64, &Span)> = self.overlapping(start, start + bytes).collect();
        displaced.reverse();
        for (first, span) in displaced {
            claim.displaced.push(PlaceKey(first));
            let from = first.saturating_sub(start);
            claim.fences.extend(span.consumers.iter().map(|consumer| Fence { from, consumer: *consumer }));
        }
        claim
    }

    pub(super) fn commit(&mut self, claim: &Claim) {
        for key in &claim.displaced {
            let holding = self.spans.remove(&key.0).and_then(|span| span.holding);
            if let Some(holding) = holding {
                self.owners.remove(&holding.owner);
            }
        }
        self.owed.clear();
        self.spans.insert(claim.key.0, Span { bytes: claim.bytes, ..Span::default() });
        self.cursor = claim.key.0 + claim.bytes;
    }

    pub(super) fn owe(&mut self, _: PlaceKey, consumers: impl IntoIterator<Item = Consumer>) {
        self.owed.extend(consumers);
    }

    pub(super) fn hold(&mut self, key: PlaceKey, holding: Holding) {
        if let Some(span) = self.spans.get_mut(&key.0) {
            span.holding = Some(holding);
            self.owners.insert(holding.owner, key.0);
        }
    }

    pub(super) fn consume(&mut self, key: PlaceKey) {
        if let Some(holding) = self.spans.get_mut(&key.0).and_then(|span| span.holding.as_mut()) {
            holding.ahead = false;
        }
    }

    pub(super) fn guard(&mut self, key: PlaceKey) {
        if let Some(span) = self.spans.get_mut(&key.0) {
            span.guards += 1;
        }
    }

    pub(super) fn note_consumer(&mut self, key: PlaceKey, consumer: Consumer) {
        if let Some(span) = self.spans.get_mut(&key.0) {
            replace_consumer(&mut span.consumers, consumer);
        }
    }

    pub(super) fn unguard(&mut self, key: PlaceKey) {
        if let Some(span) = self.spans.get_mut(&key.0) {
            span.guards = span.guards.saturating_sub(1);
        }
    }

    pub(super) fn consumer_done(&mut self, keys: &[PlaceKey], event: EventId) {
        for key in keys {
            if let Some(span) = self.spans.get_mut(&key.0) {
                span.consumers.retain(|consumer| consumer.event != event);
            }
        }
        self.owed.retain(|consumer| consumer.event != event);
    }

    pub(super) fn ahead(&self) -> Vec<usize> {
        let holdings = self.spans.values().filter_map(|span| span.holding);
        holdings.filter(|holding| holding.ahead).map(|holding| holding.owner).collect()
    }

    pub(super) fn cancel_ahead(&mut self, keep: impl Fn(usize) -> bool) -> Vec<usize> {
        let cancelled: Vec<usize> = self.ahead().into_iter().filter(|owner| !keep(*owner)).collect();
        self.forget(&cancelled);
        cancelled
    }

    fn forget(&mut self, owners: &[usize]) {
        for owner in owners {
            let start = self.owners.remove(owner);
            if let Some(span) = start.and_then(|start| self.spans.get_mut(&start)) {
                span.holding = None;
            }
        }
    }

    /// Gives up the contents of these owners that nobody has in hand, and goes back to the begin of the ring: what is
    /// asked for next finds the largest stretch.
    pub fn start_over(&mut self, owners: impl Iterator<Item = usize>) {
        let idle = |owner: &usize| self.owners.get(owner).and_then(|start| self.spans.get(start)).is_some_and(|s| s.guards == 0);
        let owners: Vec<usize> = owners.filter(idle).collect();
        self.forget(&owners);
        self.cursor = 0;
    }

    pub(super) fn quarantine(&mut self, key: PlaceKey) {
        self.quarantined = true;
        if let Some(holding) = self.spans.get_mut(&key.0).and_then(|span| span.holding.take()) {
            self.owners.remove(&holding.owner);
        }
    }

    pub(super) fn release(&mut self) -> DriverResult<()> {
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
        if self.capacity_bytes > 0 && self.base.0 > 0 {
            self.driver.address_free(self.base, self.capacity_bytes)?;
            self.base = DeviceAddress(0);
        }
        Ok(())
    }
}
