//! Tensors whose bytes are read before their upload asks for them: "Did the guess come true?"
//!
//! May use: `meter`. Invariants: parts stand in the order of their uploads and their bytes are ordered in that order, so that
//! one position in each part tells for which of its tensors a read was asked for; attempts = hits + dropped + in flight.

use crate::meter::Counter;
use std::collections::{BTreeSet, VecDeque};

/// What only grows; counts of tensors.
#[derive(Debug, Default)]
pub struct AheadBook {
    /// A read was asked for before the upload.
    pub attempts: Counter,
    /// Of these, the upload took what was read.
    pub hits: Counter,
    /// Expected, but no slot or no room was left: read on demand.
    pub skips: Counter,
    /// Of the attempts, what was read in vain.
    pub dropped: Counter,
}

/// The needs of one part.
#[derive(Debug)]
pub(super) struct Needs {
    pub(super) part: usize,
    /// Where each tensor begins among the bytes.
    pub(super) starts: Vec<u64>,
    pub(super) bytes: u64,
    /// Bytes whose read was asked for ahead.
    ordered: u64,
}

impl Needs {
    pub(super) fn new(part: usize, starts: &[u64], bytes: u64) -> Needs {
        Needs { part, starts: starts.to_vec(), bytes, ordered: 0 }
    }

    /// Tensors that begin in a stretch.
    fn tensors(&self, from: u64, to: u64) -> u64 {
        self.starts.iter().filter(|start| (from..to).contains(*start)).count() as u64
    }
}

/// The part that is being uploaded.
#[derive(Debug)]
struct Current {
    needs: Needs,
    /// Bytes whose copies are queued.
    taken: u64,
}

/// The queue of needs.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    book: AheadBook,
    queued: VecDeque<Needs>,
    current: Option<Current>,
    /// Bytes of the current part whose read is not ordered: they come before those of all others.
    left: u64,
    /// Parts that were expected and had no room.
    lacking: BTreeSet<usize>,
}

impl Ahead {
    pub(super) fn book(&self) -> &AheadBook {
        &self.book
    }

    /// Parts that are queued.
    pub(super) fn len(&self) -> usize {
        self.queued.len()
    }

    /// The part at a place of the queue, the next first.
    pub(super) fn at(&self, index: usize) -> Option<usize> {
        self.queued.get(index).map(|needs| needs.part)
    }

    /// Queues a part behind the others.
    pub(super) fn push(&mut self, needs: Needs) {
        self.lacking.remove(&needs.part);
        self.queued.push_back(needs);
    }

    /// What is expected is told anew.
    pub(super) fn expect_anew(&mut self) {
        self.lacking.clear();
    }

    /// Notes that there was no room for a part.
    pub(super) fn lack(&mut self, part: usize) {
        self.lacking.insert(part);
    }

    /// Whether the upload that began last has not taken all of its bytes.
    pub(super) fn is_unfinished(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.taken < current.needs.bytes)
    }

    /// Begins the upload of the part that is next in the queue.
    pub(super) fn begin_next(&mut self) {
        let Some(needs) = self.queued.pop_front() else { return };
        self.left = needs.bytes - needs.ordered;
        self.book.skips.add(needs.tensors(needs.ordered, needs.bytes));
        self.current = Some(Current { needs, taken: 0 });
    }

    /// Whether a part is next and there was no room for it.
    pub(super) fn lacks(&self, part: usize) -> bool {
        self.queued.is_empty() && self.lacking.contains(&part)
    }

    /// Begins the upload of a part that is not in the queue, which is empty now.
    pub(super) fn begin_unqueued(&mut self, needs: Needs, lacked_room: bool) {
        self.left = needs.bytes;
        self.book.skips.add(if lacked_room { needs.tensors(0, needs.bytes) } else { 0 });
        self.current = Some(Current { needs, taken: 0 });
    }

    /// The current part needs so many bytes that nobody has queued.
    pub(super) fn demand(&mut self, bytes: u64) {
        self.left = bytes;
    }

    /// The next bytes of the queue are being read.
    pub(super) fn ordered(&mut self, bytes: u64) {
        if self.left > 0 {
            self.left = self.left.saturating_sub(bytes);
            return;
        }
        let Some(needs) = self.queued.iter_mut().find(|needs| needs.ordered < needs.bytes) else { return };
        self.book.attempts.add(needs.tensors(needs.ordered, needs.ordered + bytes));
        needs.ordered += bytes;
    }

    /// The next bytes of the current part go to the device.
    pub(super) fn taken(&mut self, bytes: u64) {
        let Some(Current { needs, taken }) = &mut self.current else { return };
        let end = *taken + bytes;
        self.book.hits.add(needs.tensors(*taken, end.min(needs.ordered)));
        *taken = end;
    }

    /// Tensors being read ahead, or read and not taken.
    pub(super) fn in_flight(&self) -> u64 {
        let current = self.current.as_ref().map_or(0, |current| current.needs.tensors(current.taken, current.needs.ordered));
        current + self.queued.iter().map(|needs| needs.tensors(0, needs.ordered)).sum::<u64>()
    }

    /// Everything that is queued or was read ahead is given up.
    pub(super) fn discard(&mut self) {
        self.book.dropped.add(self.in_flight());
        self.queued.clear();
        self.lacking.clear();
        self.left = 0;
        if let Some(Current { needs, taken }) = &mut self.current {
            needs.ordered = needs.ordered.min(*taken);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(ahead: &Ahead) -> [u64; 5] {
        let book = ahead.book();
        let [attempts, hits, skips, dropped] = [&book.attempts, &book.hits, &book.skips, &book.dropped].map(Counter::get);
        assert_eq!(attempts, hits + dropped + ahead.in_flight());
        [attempts, hits, skips, dropped, ahead.in_flight()]
    }

    #[test]
    fn a_tensor_is_hit_where_its_first_byte_was_asked_for_before_its_upload() {
        let mut ahead = Ahead::default();
        ahead.push(Needs::new(3, &[0, 100, 150], 200));
        ahead.push(Needs::new(4, &[0], 50));
        ahead.ordered(100);
        assert_eq!(counts(&ahead), [1, 0, 0, 0, 1], "the second tensor begins behind the chunk");
        ahead.ordered(20);
        ahead.begin_next();
        assert_eq!((counts(&ahead), ahead.at(0)), ([2, 0, 1, 0, 2], Some(4)), "the third one had no slot");
        // The rest of the part comes before the next one.
        ahead.ordered(80);
        ahead.taken(110);
        assert_eq!(counts(&ahead), [2, 2, 1, 0, 0]);
        ahead.ordered(50);
        ahead.taken(90);
        assert_eq!((counts(&ahead), ahead.is_unfinished()), ([3, 2, 1, 0, 1], false));
        ahead.begin_next();
        ahead.taken(50);
        assert_eq!(counts(&ahead), [3, 3, 1, 0, 0]);
    }

    #[test]
    fn what_is_given_up_is_dropped_once_and_only_what_was_expected_is_a_skip() {
        let mut ahead = Ahead::default();
        ahead.push(Needs::new(1, &[0, 10], 20));
        ahead.ordered(20);
        ahead.begin_next();
        ahead.taken(10);
        assert!(ahead.is_unfinished(), "its upload was given up");
        ahead.push(Needs::new(2, &[0], 20));
        ahead.ordered(10);
        ahead.lack(7);
        ahead.discard();
        assert_eq!(counts(&ahead), [3, 1, 0, 2, 0]);
        ahead.discard();
        assert_eq!(counts(&ahead), [3, 1, 0, 2, 0]);
        assert!(!ahead.lacks(7), "what had no room before counts no more");
        ahead.lack(8);
        assert!(ahead.lacks(8));
        ahead.begin_unqueued(Needs::new(8, &[0, 3], 5), true);
        ahead.begin_unqueued(Needs::new(9, &[0], 5), false);
        assert_eq!(counts(&ahead), [3, 1, 2, 2, 0]);
        ahead.push(Needs::new(5, &[0], 5));
        ahead.lack(6);
        assert!(!ahead.lacks(6), "another part comes before it");
    }
}
