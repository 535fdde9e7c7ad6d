//! Supplying bytes that no lease covers: from files through the ring, and from retained storage.
//!
//! Requests come in the order of uploads. What a part needs is queued when its upload begins, what later parts need is
//! queued behind it as far as the ring goes; chunks are read into slots in that order and leave it in that order. A
//! request that is not next in the queue empties it and reads on demand. All driver calls are made by the caller's
//! thread, in an order that does not depend on how fast files are read.

mod expect;

use super::SupplyBook;
use super::ahead::{Ahead, AheadBook};
use super::source_reader::{Purpose, ReadFrom, Reading, SourceReaders};
use super::store::{SourceTicket, Store, StoreLevels};
use crate::driver::{BlockWriter, DeviceAddress, Driver, DriverResult, HostBytes, StreamId};
use crate::error::{Error, Result};
use crate::memory::{Direct, Extent, HostRing, Retained, RingSlotId, Window};
use crate::meter::{Clock, Nanos};
use std::collections::VecDeque;
use std::sync::Arc;

/// A chunk in a ring slot, being read or ready.
#[derive(Debug)]
struct Chunk {
    slot: RingSlotId,
    extent: Extent,
    /// Bytes that copies were queued for.
    taken: u64,
    reading: Reading,
    /// The window whose contents it takes; `None` straight from the file.
    window: Option<Window>,
}

/// An upload that could not be supplied; so many copies were queued before.
#[derive(Debug)]
pub struct Stopped {
    /// Copies queued.
    pub queued: u64,
    /// Why it stopped.
    pub error: Error,
}

/// Where the bytes of a piece come from.
enum Way {
    /// Straight out of a registered window; the copy began when its readiness was asked for.
    Direct(Window, Nanos),
    Ring,
}

/// The supply of one component.
#[derive(Debug)]
pub struct Supply {
    driver: Arc<dyn Driver>,
    clock: Arc<dyn Clock>,
    stream: StreamId,
    ring: HostRing,
    readers: SourceReaders,
    ahead: Ahead,
    pending: VecDeque<Chunk>,
    upcoming: VecDeque<Extent>,
    store: Option<Store>,
    book: SupplyBook,
}

impl Supply {
    /// A supply that queues its copies on `stream`.
    pub fn new(
        driver: Arc<dyn Driver>,
        clock: Arc<dyn Clock>,
        stream: StreamId,
        ring: HostRing,
        readers: SourceReaders,
        retained: Option<Retained>,
    ) -> Supply {
        let store = retained.map(|retained| Store::new(Arc::clone(&driver), retained, readers.count()));
        let (ahead, pending, upcoming) = (Ahead::default(), VecDeque::new(), VecDeque::new());
        Supply { driver, clock, stream, ring, readers, ahead, pending, upcoming, store, book: SupplyBook::default() }
    }

    /// What only grows.
    pub fn book(&self) -> &SupplyBook {
        &self.book
    }

    /// What was read ahead.
    pub fn ahead(&self) -> &AheadBook {
        self.ahead.book()
    }

    /// Tensors being read ahead, or read and not uploaded.
    pub fn ahead_in_flight(&self) -> u64 {
        self.ahead.in_flight()
    }

    /// The ring.
    pub fn ring(&self) -> &HostRing {
        &self.ring
    }

    /// The reading threads.
    pub fn readers(&self) -> &SourceReaders {
        &self.readers
    }

    /// Retained storage, where there is some.
    pub fn retained(&self) -> Option<&Retained> {
        self.store.as_ref().map(|store| &store.retained)
    }

    /// Cuts an extent where windows of retained storage end.
    fn pieces(&self, extent: Extent) -> Vec<Extent> {
        let Some(store) = &self.store else { return vec![extent] };
        let segment = store.retained.shape().segment_bytes;
        let (mut pieces, mut rest) = (Vec::new(), extent);
        while rest.bytes > 0 {
            let (first, further) = rest.split_at(segment - rest.offset % segment);
            pieces.push(first);
            rest = further;
        }
        pieces
    }

    /// Adds what is spent on the way through the ring.
    fn in_ring<T>(&mut self, work: impl FnOnce(&mut Supply) -> T) -> T {
        let start = self.clock.now();
        let result = work(self);
        self.book.ring.add(&*self.clock, start);
        result
    }

    /// Starts to read what is queued, as far as slots are free. Waits for nothing.
    fn pump(&mut self) -> Result<()> {
        while !self.upcoming.is_empty() {
            let Some(taken) = self.ring.take()? else { break };
            self.start_chunk(taken);
        }
        Ok(())
    }

    fn start_chunk(&mut self, (slot, writer): (RingSlotId, BlockWriter)) {
        let Some(first) = self.upcoming.pop_front() else {
            drop(writer);
            self.ring.give(slot);
            return;
        };
        let (extent, rest) = first.split_at(self.ring.shape().slot_bytes);
        if rest.bytes > 0 {
            self.upcoming.push_front(rest);
        }
        let (to, beyond) = writer.split_at(extent.bytes);
        drop(beyond);
        let (from, window) = match self.store.as_mut().and_then(|store| store.read_from(extent)) {
            Some((from, window)) => (from, Some(window)),
            None => (ReadFrom::File { file: extent.file, offset: extent.offset }, None),
        };
        let reading = self.readers.order(Purpose::Pass, &from, to, u64::MAX);
        self.ahead.ordered(extent.bytes);
        self.pending.push_back(Chunk { slot, extent, taken: 0, reading, window });
    }

    /// Gives up everything that is queued. Fills of windows go on.
    fn discard(&mut self) -> Result<()> {
        self.ahead.discard();
        self.upcoming.clear();
        if self.pending.is_empty() {
            return Ok(());
        }
        self.readers.cancel(Purpose::Pass);
        let mut outcome = Ok(());
        while let Some(chunk) = self.pending.pop_front() {
            self.book.discarded_chunks.add(1);
            // Its contents are of no interest, only that nobody writes them any more.
            let _ = chunk.reading.wait();
            let put_back = self.put_back(&chunk);
            outcome = outcome.and(put_back);
        }
        Ok(outcome?)
    }

    /// A chunk is done with, whether or not copies read it.
    fn put_back(&mut self, chunk: &Chunk) -> DriverResult<()> {
        if let (Some(store), Some(window)) = (&mut self.store, chunk.window) {
            store.retained.let_go(window);
        }
        if chunk.taken > 0 {
            return self.ring.sent(chunk.slot, self.stream);
        }
        self.ring.give(chunk.slot);
        Ok(())
    }

    /// Queues copies of source bytes to the device, in as many copies as it takes; their number.
    ///
    /// # Errors
    /// The driver's; files that are not what they were; with the number of copies queued before.
    ///
    /// # Cost
    /// Waits for file reads and, where the ring is full, for the oldest copy out of it.
    pub fn supply(&mut self, extent: Extent, to: DeviceAddress) -> std::result::Result<u64, Stopped> {
        let mut queued = 0;
        for piece in self.pieces(extent) {
            let at = to.offset(piece.offset - extent.offset);
            let sent = match self.way(piece) {
                Ok(Way::Direct(window, begun)) => {
                    let copied = self.direct(piece, window, at, &mut queued);
                    self.book.copy.add(&*self.clock, begun);
                    copied
                }
                Ok(Way::Ring) => self.in_ring(|supply| supply.through_ring(piece, at, &mut queued)),
                Err(error) => Err(error),
            };
            sent.map_err(|error| Stopped { queued, error })?;
        }
        Ok(queued)
    }

    /// Requests a piece's window and settles how its bytes travel.
    fn way(&mut self, piece: Extent) -> Result<Way> {
        let Some(store) = &mut self.store else { return Ok(Way::Ring) };
        let window = store.retained.window_of(piece.file, piece.offset);
        let (clock, book, readers) = (&*self.clock, &self.book, &self.readers);
        if !book.request.time(clock, || store.request(window, readers))? {
            return Ok(Way::Ring);
        }
        if !store.retained.expects_direct(window) {
            return Ok(Way::Ring);
        }
        let start = clock.now();
        let ready = book.ready.time(clock, || store.ready(window));
        if let Err(failure) = ready {
            book.copy.add(clock, start);
            return Err(failure);
        }
        let direct = book.schedule.time(clock, || -> Result<bool> {
            loop {
                match store.retained.make_direct(window, clock)? {
                    Direct::Yes => return Ok(true),
                    Direct::No => return Ok(false),
                    Direct::After(victim) => {
                        if !book.registration_wait.time(clock, || store.await_window(victim, &*self.driver))? {
                            return Ok(false);
                        }
                    }
                }
                store.close_passed(&*self.driver, clock, book)?;
            }
        });
        if let Ok(true) = direct {
            return Ok(Way::Direct(window, start));
        }
        book.copy.add(clock, start);
        direct.map(|_| Way::Ring)
    }

    /// Queues one copy straight out of a registered segment.
    fn direct(&mut self, piece: Extent, window: Window, to: DeviceAddress, queued: &mut u64) -> Result<()> {
        let Some(store) = &mut self.store else { return Ok(()) };
        let (clock, book, driver) = (&*self.clock, &self.book, &*self.driver);
        let (stream, bytes) = (self.stream, piece.bytes);
        let from = store.retained.lease(window, piece.offset % store.retained.shape().segment_bytes, bytes)?;
        let event = book.event_acquire.time(clock, || store.events.take())?;
        let copied = book.dma_submit.time(clock, || driver.copy_to_device(to, from, stream));
        if let Err(error) = copied {
            store.events.give(event)?;
            return Err(error.into());
        }
        *queued += 1;
        book.dma_bytes.add(bytes);
        store.retained.hold(window);
        // Where the record fails the hold stays: nobody can prove that the copy has ended.
        book.dma_event.time(clock, || driver.event_record(event, stream))?;
        store.tickets.push_back(SourceTicket { event, window });
        Ok(())
    }

    /// Queues copies out of ring slots.
    fn through_ring(&mut self, piece: Extent, to: DeviceAddress, queued: &mut u64) -> Result<()> {
        let mut rest = piece;
        while rest.bytes > 0 {
            self.bring_to_front(rest)?;
            let Some(chunk) = self.pending.front() else {
                return Err(Error::invalid("source bytes", "nothing is queued for them"));
            };
            let reading = chunk.reading.clone();
            if let Err(failure) = self.book.read.time(&*self.clock, || reading.wait()) {
                self.fail_front();
                return Err(failure.into());
            }
            let Some(chunk) = self.pending.front_mut() else { return Ok(()) };
            let bytes = rest.bytes.min(chunk.extent.bytes - chunk.taken);
            let from: HostBytes = self.ring.lease(chunk.slot, chunk.taken, bytes)?;
            self.driver.copy_to_device(to.offset(rest.offset - piece.offset), from, self.stream)?;
            chunk.taken += bytes;
            self.ahead.taken(bytes);
            *queued += 1;
            match (&self.store, chunk.window) {
                (Some(_), Some(_)) => self.book.ring_fallback_bytes.add(bytes),
                (store, _) => {
                    self.book.read_bytes.add(bytes);
                    self.book.bypass_bytes.add(if store.is_some() { bytes } else { 0 });
                }
            }
            if chunk.taken == chunk.extent.bytes
                && let Some(done) = self.pending.pop_front()
            {
                self.put_back(&done)?;
            }
            self.pump()?;
            rest = rest.split_at(bytes).1;
        }
        Ok(())
    }

    /// Makes the chunk that the next bytes lie in the first one.
    fn bring_to_front(&mut self, next: Extent) -> Result<()> {
        let begins = |extent: &Extent, taken: u64| extent.file == next.file && extent.offset + taken == next.offset;
        if self.pending.front().is_some_and(|chunk| begins(&chunk.extent, chunk.taken)) {
            return Ok(());
        }
        let is_queued = self.pending.is_empty() && self.upcoming.front().is_some_and(|extent| begins(extent, 0));
        if !is_queued {
            self.discard()?;
            self.ahead.demand(next.bytes);
            self.upcoming.push_back(next);
        }
        let taken = self.ring.wait_take(&*self.clock)?;
        self.start_chunk(taken);
        Ok(())
    }

    /// The first chunk could not be read: it is given up, and its window's contents if they could not be read.
    fn fail_front(&mut self) {
        let Some(chunk) = self.pending.pop_front() else { return };
        let _ = self.put_back(&chunk);
        if let (Some(store), Some(window)) = (&mut self.store, chunk.window) {
            let _ = store.ready(window);
        }
    }

    /// Closes the tickets of direct copies whose end is proven; `drained` says that nothing is queued any more and
    /// windows filled ahead are to be let go once they are full. Waits for nothing.
    ///
    /// # Errors
    /// The driver's.
    pub fn collect(&mut self, drained: bool) -> Result<()> {
        let Some(store) = &mut self.store else { return Ok(()) };
        store.reap(&*self.driver, &*self.clock, &self.book)?;
        if drained {
            let full: Vec<Window> =
                store.filling.iter().filter(|(_, reading)| reading.is_done()).map(|(window, _)| *window).collect();
            // A window that could not be filled is told about when somebody needs it.
            full.into_iter().for_each(|window| {
                let _ = store.ready(window);
            });
        }
        Ok(())
    }

    /// Ends the threads, then every registration, and gives the memory back; every copy must have been proven complete.
    ///
    /// # Errors
    /// The first driver error; the rest is given back all the same.
    ///
    /// # Cost
    /// Waits for reads in progress.
    pub fn release(&mut self) -> DriverResult<()> {
        self.readers.stop();
        self.ahead.discard();
        self.upcoming.clear();
        for chunk in std::mem::take(&mut self.pending) {
            if let (Some(store), Some(window)) = (&mut self.store, chunk.window) {
                store.retained.let_go(window);
            }
            self.ring.give(chunk.slot);
        }
        let mut first = Ok(());
        if let Some(store) = &mut self.store {
            store.filling.clear();
            store.owned.clear();
            for ticket in std::mem::take(&mut store.tickets) {
                store.retained.let_go(ticket.window);
                let given = store.events.give(ticket.event);
                first = first.and(given);
            }
            first = first.and(store.events.close()).and(store.retained.release());
        }
        first.and(self.ring.release())
    }

    /// Ends the threads behind what they are at; everything else stays.
    pub fn stop(&mut self) {
        self.readers.stop();
    }
}

impl Supply {
    /// Every rule of the books that does not hold, as one sentence each.
    pub fn audit(&self) -> Vec<String> {
        let mut broken = Vec::new();
        let (levels, slots, pending) = (self.ring.levels(), self.ring.shape().slots, self.pending.len() as u64);
        if levels.free + levels.out + levels.copying + levels.quarantined != slots || levels.out != pending {
            broken.push(format!("the ring has {slots} slots and {pending} chunks: {levels:?}"));
        }
        let (ahead, in_flight) = (self.ahead(), self.ahead_in_flight());
        let (attempts, hits, dropped) = (ahead.attempts.get(), ahead.hits.get(), ahead.dropped.get());
        if attempts != hits + dropped + in_flight {
            broken.push(format!("{attempts} tensors were read ahead, {hits} hit + {dropped} dropped + {in_flight} in flight"));
        }
        broken.extend(self.store.iter().flat_map(Store::audit));
        broken
    }
}

impl Supply {
    /// Levels of the store; `None` without one.
    pub fn store_levels(&self) -> Option<StoreLevels> {
        self.store.as_ref().map(Store::levels)
    }
}
