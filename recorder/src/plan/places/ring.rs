//! The stream ring: one stretch of device memory that parts of units pass through.
//!
//! Places are taken in a circle, one behind the other, and a new place takes over what it overlaps, oldest first. A
//! place in hand is passed over instead. A place may begin before the ring's end and go on at its begin: the ring is
//! mapped twice in a row, so its addresses continue. All uploads run on one stream: what an earlier upload has waited
//! for, a later one need not wait for again; so the rest of a place that was taken over in part is free without a fence.

use super::{Blocked, Claim, Fence, Holding, PlaceKey, Reader, Want, replace_reader};
use crate::limits::SLOT_ALIGNMENT_BYTES;
use crate::plan::round_up;
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
struct Span<C> {
    bytes: u64,
    holding: Option<Holding>,
    guards: u32,
    consumers: Vec<C>,
}

/// The places of a ring.
#[derive(Clone, Debug)]
pub struct RingPlaces<C> {
    capacity_bytes: u64,
    /// By first byte, below the capacity; they never overlap, and at most one goes on at the begin.
    spans: BTreeMap<u64, Span<C>>,
    owners: BTreeMap<usize, u64>,
    /// Behind the place taken last.
    cursor: u64,
    /// Readers of displaced contents that no upload has waited for; the next one does.
    owed: Vec<C>,
    quarantined: bool,
}

/// What stands in the way at one position, and how many bytes behind it the obstacle ends.
enum Obstacle {
    InHand { end: u64 },
    Ahead { end: u64 },
    Kept,
}

/// A span that overlaps a stretch.
struct Overlap<'a, C> {
    key: u64,
    /// First byte of the stretch that it covers.
    from: u64,
    /// Bytes of the stretch before its end; beyond the stretch where it reaches further.
    end: u64,
    span: &'a Span<C>,
}

impl<C: Reader> RingPlaces<C> {
    /// A free ring.
    pub fn new(capacity_bytes: u64) -> RingPlaces<C> {
        RingPlaces {
            capacity_bytes,
            spans: BTreeMap::new(),
            owners: BTreeMap::new(),
            cursor: 0,
            owed: Vec::new(),
            quarantined: false,
        }
    }

    pub(super) fn offset(&self, key: PlaceKey) -> u64 {
        key.0
    }

    /// Bytes of the ring.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// Whether the ring may never be used again: it is one mapping.
    pub fn is_quarantined(&self) -> bool {
        self.quarantined
    }

    /// Bytes in hand.
    pub fn in_hand_bytes(&self) -> u64 {
        self.spans.values().filter(|span| span.guards > 0).map(|span| span.bytes).sum()
    }

    pub(super) fn find(&self, owner: usize) -> Option<(PlaceKey, Holding)> {
        let start = self.owners.get(&owner).filter(|_| !self.quarantined)?;
        Some((PlaceKey(*start), self.spans.get(start)?.holding?))
    }

    /// Spans that overlap a stretch, in the circle's order from its first byte.
    fn overlapping(&self, start: u64, bytes: u64) -> Vec<Overlap<'_, C>> {
        let mut found: Vec<Overlap<'_, C>> = Vec::new();
        let before = self.spans.range(..start).next_back().or_else(|| self.spans.range(start..).next_back());
        if let Some((key, span)) = before {
            let back = if *key < start { start - key } else { start + self.capacity_bytes - key };
            if *key != start && span.bytes > back {
                found.push(Overlap { key: *key, from: 0, end: span.bytes - back, span });
            }
        }
        let reaching_in = found.first().map(|overlap| overlap.key);
        let here = self.spans.range(start..).map(|(key, span)| (key - start, key, span));
        let around = self.spans.range(..start).map(|(key, span)| (key + self.capacity_bytes - start, key, span));
        let inside = here.chain(around).take_while(|(from, ..)| *from < bytes).filter(|(_, key, _)| Some(**key) != reaching_in);
        found.extend(inside.map(|(from, key, span)| Overlap { key: *key, from, end: from + span.bytes, span }));
        found
    }

    /// The obstacle furthest behind `start`.
    fn obstacle(&self, start: u64, bytes: u64, keep: &[usize]) -> Option<Obstacle> {
        self.overlapping(start, bytes).into_iter().rev().find_map(|Overlap { end, span, .. }| match span.holding {
            _ if span.guards > 0 => Some(Obstacle::InHand { end }),
            Some(holding) if holding.ahead => Some(Obstacle::Ahead { end }),
            Some(holding) if keep.contains(&holding.owner) => Some(Obstacle::Kept),
            _ => None,
        })
    }

    pub(super) fn survey(&self, want: &Want<'_>) -> Result<Claim<C>, Blocked> {
        let bytes = round_up(want.bytes.max(1), SLOT_ALIGNMENT_BYTES).unwrap_or(u64::MAX);
        if self.quarantined || bytes > self.capacity_bytes {
            return Err(Blocked::InHand);
        }
        let (mut passed, mut blocked) = (0, Blocked::InHand);
        while passed < self.capacity_bytes {
            let start = (self.cursor + passed) % self.capacity_bytes;
            passed += match self.obstacle(start, bytes, want.keep) {
                None => return Ok(self.claim(start, bytes)),
                Some(Obstacle::InHand { end }) => end,
                Some(Obstacle::Ahead { end }) if want.past_ahead => {
                    blocked = Blocked::Wanted;
                    end
                }
                Some(Obstacle::Ahead { .. } | Obstacle::Kept) => return Err(Blocked::Wanted),
            };
        }
        Err(blocked)
    }

    fn claim(&self, start: u64, bytes: u64) -> Claim<C> {
        let mut claim = Claim { key: PlaceKey(start), bytes, displaced: Vec::new(), fences: Vec::new() };
        claim.fences.extend(self.owed.iter().map(|consumer| Fence { from: 0, consumer: *consumer }));
        for Overlap { key, from, span, .. } in self.overlapping(start, bytes) {
            claim.displaced.push(PlaceKey(key));
            claim.fences.extend(span.consumers.iter().map(|consumer| Fence { from, consumer: *consumer }));
        }
        claim
    }

    pub(super) fn commit(&mut self, claim: &Claim<C>) {
        for key in &claim.displaced {
            let holding = self.spans.remove(&key.0).and_then(|span| span.holding);
            if let Some(holding) = holding {
                self.owners.remove(&holding.owner);
            }
        }
        self.owed.clear();
        let fresh = Span { bytes: claim.bytes, holding: None, guards: 0, consumers: Vec::new() };
        self.spans.insert(claim.key.0, fresh);
        self.cursor = (claim.key.0 + claim.bytes) % self.capacity_bytes.max(1);
    }

    pub(super) fn owe(&mut self, _: PlaceKey, consumers: impl IntoIterator<Item = C>) {
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

    pub(super) fn note_consumer(&mut self, key: PlaceKey, consumer: C) {
        if let Some(span) = self.spans.get_mut(&key.0) {
            replace_reader(&mut span.consumers, consumer);
        }
    }

    pub(super) fn unguard(&mut self, key: PlaceKey) {
        if let Some(span) = self.spans.get_mut(&key.0) {
            span.guards = span.guards.saturating_sub(1);
        }
    }

    pub(super) fn consumer_done(&mut self, keys: &[PlaceKey], done: impl Fn(&C) -> bool) {
        for key in keys {
            if let Some(span) = self.spans.get_mut(&key.0) {
                span.consumers.retain(|consumer| !done(consumer));
            }
        }
        self.owed.retain(|consumer| !done(consumer));
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
}
