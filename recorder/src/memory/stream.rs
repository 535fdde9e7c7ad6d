//! Stream memory: device memory where streamed contents take turns. Whole units take turns in fixed slots, parts of
//! units in one ring.
//!
//! A ring is mapped twice in a row, so that a place at its end goes on at its begin; its memory is there once.

use super::mapping::map_again;
use super::{MappingBook, give_back, map_fresh};
use crate::driver::{DeviceAddress, Driver, DriverResult, EventId, PhysicalId, StreamId};
use crate::plan::{Claim, Places, Reader, RingPlaces, SlotPlaces};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// The latest work of one stream that reads a place and whose end is not proven.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Consumer {
    /// The stream.
    pub stream: StreamId,
    /// The event behind the work.
    pub event: EventId,
}

impl Reader for Consumer {
    /// Streams run in order, so later work ends later.
    fn outlasts(&self, other: &Consumer) -> bool {
        self.stream == other.stream
    }
}

/// A claim of the session.
pub type StreamClaim = Claim<Consumer>;

#[derive(Debug)]
struct Piece {
    offset: u64,
    bytes: u64,
    memory: Option<PhysicalId>,
    /// Whether the same memory is also mapped behind the piece.
    mirrored: bool,
}

/// The stream memory of a session, mapped as long as the component is attached.
#[derive(Debug)]
pub struct StreamMemory {
    driver: Arc<dyn Driver>,
    book: Arc<MappingBook>,
    base: DeviceAddress,
    reserved_bytes: u64,
    pieces: Vec<Piece>,
    places: Places<Consumer>,
}

impl Deref for StreamMemory {
    type Target = Places<Consumer>;

    fn deref(&self) -> &Places<Consumer> {
        &self.places
    }
}

impl DerefMut for StreamMemory {
    fn deref_mut(&mut self) -> &mut Places<Consumer> {
        &mut self.places
    }
}

impl StreamMemory {
    /// Reserves and maps `count` slots of `slot_bytes`, whole pages.
    ///
    /// # Errors
    /// The driver's; nothing is left then, or the book knows of it.
    pub fn slots(driver: Arc<dyn Driver>, book: &Arc<MappingBook>, count: u64, slot_bytes: u64) -> DriverResult<StreamMemory> {
        let places = Places::Slots(SlotPlaces::new(count, slot_bytes));
        let pieces = (0..count).map(|index| (index * slot_bytes, slot_bytes));
        StreamMemory::map(driver, book, places, pieces, false)
    }

    /// Reserves and maps a ring of whole pages.
    ///
    /// # Errors
    /// The driver's; nothing is left then, or the book knows of it.
    pub fn ring(driver: Arc<dyn Driver>, book: &Arc<MappingBook>, capacity_bytes: u64) -> DriverResult<StreamMemory> {
        let places = Places::Ring(RingPlaces::new(capacity_bytes));
        let pieces = (capacity_bytes > 0).then_some((0, capacity_bytes)).into_iter();
        StreamMemory::map(driver, book, places, pieces, true)
    }

    fn map(
        driver: Arc<dyn Driver>,
        book: &Arc<MappingBook>,
        places: Places<Consumer>,
        pieces: impl Iterator<Item = (u64, u64)>,
        mirrored: bool,
    ) -> DriverResult<StreamMemory> {
        let reserved_bytes = places.capacity_bytes().saturating_mul(1 + u64::from(mirrored));
        let base = if reserved_bytes == 0 { DeviceAddress(0) } else { driver.address_reserve(reserved_bytes)? };
        let mut memory = StreamMemory { driver, book: Arc::clone(book), base, reserved_bytes, pieces: Vec::new(), places };
        for (offset, bytes) in pieces {
            if let Err(error) = memory.map_piece(offset, bytes, mirrored) {
                if memory.release().is_err() {
                    book.lost_bytes.add(memory.resident_bytes());
                }
                return Err(error);
            }
        }
        Ok(memory)
    }

    fn map_piece(&mut self, offset: u64, bytes: u64, mirrored: bool) -> DriverResult<()> {
        let memory = map_fresh(&*self.driver, self.base.offset(offset), bytes, &self.book)?;
        let mut piece = Piece { offset, bytes, memory: Some(memory), mirrored: false };
        let again = match mirrored {
            true => map_again(&*self.driver, self.base.offset(offset + bytes), bytes, memory, &self.book),
            false => Ok(()),
        };
        piece.mirrored = mirrored && !again.as_ref().is_err_and(|failure| !failure.still_mapped);
        self.pieces.push(piece);
        again.map_err(|failure| failure.error)
    }

    /// First byte of a place.
    pub fn address(&self, key: crate::plan::PlaceKey) -> DeviceAddress {
        self.base.offset(self.places.offset(key))
    }

    /// Bytes of memory mapped, each counted once.
    pub fn resident_bytes(&self) -> u64 {
        self.pieces.iter().filter(|piece| piece.memory.is_some()).map(|piece| piece.bytes).sum()
    }

    fn is_quarantined(&self, piece: usize) -> bool {
        match &self.places {
            Places::Slots(slots) => slots.is_quarantined(piece),
            Places::Ring(ring) => ring.is_quarantined(),
        }
    }

    /// Bytes that may never be used again.
    pub fn quarantined_bytes(&self) -> u64 {
        let kept = self.pieces.iter().enumerate().filter(|(index, piece)| piece.memory.is_some() && self.is_quarantined(*index));
        kept.map(|(_, piece)| piece.bytes).sum()
    }

    /// Forgets work whose completion is proven.
    pub fn event_done(&mut self, keys: &[crate::plan::PlaceKey], event: EventId) {
        self.places.consumer_done(keys, |consumer| consumer.event == event);
    }

    /// Gives everything back that is not quarantined; every use must have been proven complete.
    ///
    /// # Errors
    /// The first driver error. What could not be given back stays counted.
    pub fn release(&mut self) -> DriverResult<()> {
        let mut first = Ok(());
        let free: Vec<usize> = (0..self.pieces.len()).filter(|piece| !self.is_quarantined(*piece)).collect();
        for index in free {
            let Some(piece) = self.pieces.get_mut(index) else { continue };
            first = first.and(piece.release(&*self.driver, self.base, &self.book));
        }
        first?;
        if self.reserved_bytes > 0 && self.pieces.iter().all(|piece| piece.memory.is_none()) {
            self.driver.address_free(self.base, self.reserved_bytes)?;
            self.reserved_bytes = 0;
        }
        Ok(())
    }
}

impl Piece {
    fn release(&mut self, driver: &dyn Driver, base: DeviceAddress, book: &MappingBook) -> DriverResult<()> {
        let Some(memory) = self.memory else { return Ok(()) };
        if self.mirrored {
            driver.memory_unmap(base.offset(self.offset + self.bytes), self.bytes)?;
            self.mirrored = false;
        }
        let given_back = give_back(driver, base.offset(self.offset), self.bytes, memory, book);
        if !given_back.as_ref().is_err_and(|failure| failure.still_mapped) {
            self.memory = None;
        }
        given_back.map_err(|failure| failure.error)
    }
}
