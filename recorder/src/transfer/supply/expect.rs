//! What comes next: the needs of the part that is being uploaded, and of those expected after it.
//!
//! May use: what the supply may. Invariants: needs are queued in the order of the uploads that are expected; what does not
//! come as expected is given up; looking ahead waits for nothing.

use super::Supply;
use crate::error::Result;
use crate::memory::Extent;
use crate::transfer::PartBatch;
use crate::transfer::ahead::Needs;
use crate::transfer::store::Store;

impl Supply {
    /// Cuts what a part needs where windows end.
    fn pieces_of(&self, batch: &PartBatch) -> Vec<Extent> {
        batch.extents().iter().flat_map(|extent| self.pieces(*extent)).collect()
    }

    /// What a part needs of the ring, as far as that is known before it is uploaded.
    fn needs(&self, part: usize, batch: &PartBatch) -> Needs {
        match self.store {
            None => Needs::new(part, batch.starts(), batch.extents().iter().map(|extent| extent.bytes).sum()),
            // Nothing is read into the ring ahead of its upload.
            Some(_) => Needs::new(part, &[], 0),
        }
    }

    /// Begins the upload of a part: what it needs comes next. Whether nothing else was queued for next.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Cost
    /// Waits for reads in progress where something else was queued.
    pub fn begin(&mut self, part: usize, batch: &PartBatch) -> Result<bool> {
        let as_expected = self.ahead.at(0).is_none_or(|next| next == part);
        if self.ahead.at(0) == Some(part) && !self.ahead.is_unfinished() {
            self.ahead.begin_next();
            return self.in_ring(Supply::pump).map(|()| as_expected);
        }
        let lacked_room = self.ahead.lacks(part);
        self.in_ring(Supply::discard)?;
        let pieces = self.pieces_of(batch);
        self.prepare(&pieces, false)?;
        let needs = self.needs(part, batch);
        self.ahead.begin_unqueued(needs, lacked_room);
        self.in_ring(|supply| {
            supply.queue(pieces);
            supply.pump()
        })?;
        Ok(as_expected)
    }

    /// Queues what parts will need that are uploaded later, in their order, as far as the ring goes. Waits for nothing.
    ///
    /// Beside retained storage no file is read into the ring ahead: only windows are filled, and copies of what they hold
    /// are queued.
    ///
    /// # Errors
    /// The driver's.
    pub fn expect<'a>(&mut self, parts: impl Iterator<Item = (usize, &'a PartBatch)>) -> Result<()> {
        // From the first part on that cannot be queued, others can only be prepared for.
        let (mut full, mut suspended) = (false, false);
        self.ahead.expect_anew();
        for (index, (part, batch)) in parts.enumerate() {
            match self.ahead.at(index) {
                Some(queued) if queued == part => continue,
                // Something else is queued: whoever needs the bytes will find out.
                Some(_) => break,
                None => {}
            }
            full |= self.queued_bytes() >= self.ring.shape().bytes();
            if full && self.store.is_none() {
                self.ahead.lack(part);
                continue;
            }
            let pieces = self.pieces_of(batch);
            if full || !self.prepare(&pieces, true)? {
                break;
            }
            suspended |= self.reads_files(&pieces);
            if !suspended {
                self.ahead.push(self.needs(part, batch));
                self.queue(pieces);
            }
        }
        self.pump()
    }

    /// Whether some of the pieces would have to be read from files although there is retained storage.
    fn reads_files(&self, pieces: &[Extent]) -> bool {
        let Some(Store { retained, .. }) = &self.store else { return false };
        pieces.iter().any(|piece| !retained.holds(retained.window_of(piece.file, piece.offset)))
    }

    /// Parts whose needs are queued, and windows being filled.
    pub fn prepared(&self) -> usize {
        self.ahead.len() + self.store.as_ref().map_or(0, |store| store.filling.len())
    }

    fn queued_bytes(&self) -> u64 {
        let pending: u64 = self.pending.iter().map(|chunk| chunk.extent.bytes).sum();
        pending + self.upcoming.iter().map(|extent| extent.bytes).sum::<u64>()
    }

    /// Queues what has to pass through the ring.
    /// Whether a part's needs are queued.
    pub fn has_queued(&self, part: usize) -> bool {
        (0..self.ahead.len()).any(|index| self.ahead.at(index) == Some(part))
    }

    fn queue(&mut self, pieces: Vec<Extent>) {
        let through_ring = pieces.into_iter().filter(|piece| match &self.store {
            None => true,
            Some(store) => {
                let window = store.retained.window_of(piece.file, piece.offset);
                !(store.retained.holds(window) && store.retained.expects_direct(window))
            }
        });
        self.upcoming.extend(through_ring);
    }

    /// Orders the windows of pieces to be filled; false when too many are on their way `ahead` of their use.
    fn prepare(&mut self, pieces: &[Extent], ahead: bool) -> Result<bool> {
        let Some(store) = &mut self.store else { return Ok(true) };
        for piece in pieces {
            let window = store.retained.window_of(piece.file, piece.offset);
            if store.retained.holds(window) || !store.retained.would_hold(window) {
                continue;
            }
            if ahead && store.owned.len() as u64 >= store.window_limit {
                return Ok(false);
            }
            let (clock, readers) = (&*self.clock, &self.readers);
            self.book.request.time(clock, || store.request(window, readers))?;
            if ahead && store.filling.contains_key(&window) {
                store.owned.push_back(window);
                store.peak_windows = store.peak_windows.max(store.owned.len() as u64);
            }
        }
        Ok(true)
    }
}
