//! Which addresses are mapped, which host bytes are registered, and what does work in flight still need? Pure.
//!
//! May use: nothing of CUDA.
//!
//! Invariants: a range counts as accessible only when mappings with access cover all of it. A lease is kept until a point of
//! its stream behind its last use has been passed; one owner is kept once a stream, however often it is used.

use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug)]
struct Mapping {
    bytes: u64,
    accessible: bool,
}

/// Mapped device addresses.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    mapped: BTreeMap<u64, Mapping>,
}

impl Ledger {
    pub(super) fn map(&mut self, start: u64, bytes: u64) {
        self.mapped.insert(start, Mapping { bytes, accessible: false });
    }

    /// Marks every mapping inside the range.
    pub(super) fn set_access(&mut self, start: u64, bytes: u64) {
        let end = start.saturating_add(bytes);
        self.mapped.range_mut(start..end).for_each(|(_, mapping)| mapping.accessible = true);
    }

    pub(super) fn unmap(&mut self, start: u64, bytes: u64) {
        let gone: Vec<u64> = self.mapped.range(start..start.saturating_add(bytes)).map(|(at, _)| *at).collect();
        for at in gone {
            self.mapped.remove(&at);
        }
    }

    /// Whether mappings with access cover the whole range.
    pub(super) fn accessible(&self, start: u64, bytes: u64) -> bool {
        let Some(end) = start.checked_add(bytes) else { return false };
        let mut at = start;
        while at < end {
            let Some((from, mapping)) = self.mapped.range(..=at).next_back() else { return false };
            let to = from + mapping.bytes;
            if !mapping.accessible || to <= at {
                return false;
            }
            at = to;
        }
        true
    }
}

/// Registered host addresses.
#[derive(Debug, Default)]
pub(super) struct Registered {
    ranges: BTreeMap<usize, usize>,
}

impl Registered {
    pub(super) fn insert(&mut self, start: usize, bytes: usize) {
        self.ranges.insert(start, bytes);
    }

    pub(super) fn remove(&mut self, start: usize) {
        self.ranges.remove(&start);
    }

    /// Cuts a range where registrations begin or end: one copy must not reach from one into the next.
    pub(super) fn pieces(&self, start: usize, bytes: usize) -> Vec<(usize, usize)> {
        let end = start.saturating_add(bytes);
        let mut pieces = Vec::new();
        let mut at = start;
        while at < end {
            let inside = self.ranges.range(..=at).next_back().map(|(from, length)| from + length).filter(|to| *to > at);
            let next = || self.ranges.range(at + 1..end).next().map(|(from, _)| *from);
            let to = inside.or_else(next).unwrap_or(end).min(end);
            pieces.push((at, to - at));
            at = to;
        }
        pieces
    }
}

/// Something that must outlive work in flight.
pub(super) type Lease = Box<dyn Send + Sync>;

/// What the work of one stream still needs.
#[derive(Default)]
pub(super) struct Leases {
    used: u64,
    held: BTreeMap<usize, (u64, Lease)>,
}

impl Leases {
    /// Keeps an owner, named by its address, until everything queued up to now and next has run.
    pub(super) fn hold(&mut self, owner: usize, lease: impl FnOnce() -> Lease) {
        self.used += 1;
        let used = self.used;
        self.held.entry(owner).and_modify(|held| held.0 = used).or_insert_with(|| (used, lease()));
    }

    /// The point that an event recorded now stands for.
    pub(super) fn point(&self) -> u64 {
        self.used
    }

    /// Takes what nothing behind the point uses; the caller drops it outside its locks.
    pub(super) fn passed(&mut self, point: u64) -> Vec<Lease> {
        let done: Vec<usize> = self.held.iter().filter(|(_, (used, _))| *used <= point).map(|(owner, _)| *owner).collect();
        done.iter().filter_map(|owner| self.held.remove(owner)).map(|(_, lease)| lease).collect()
    }

    /// Leaves everything alone for good: its use cannot be proven over.
    pub(super) fn forget(&mut self) {
        std::mem::take(&mut self.held).into_values().for_each(std::mem::forget);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn access_needs_a_gapless_cover() {
        let mut ledger = Ledger::default();
        ledger.map(100, 50);
        ledger.map(150, 50);
        assert!(!ledger.accessible(100, 10), "mapped only");
        ledger.set_access(100, 50);
        assert!(ledger.accessible(100, 50) && ledger.accessible(149, 1) && !ledger.accessible(149, 2));
        ledger.set_access(150, 50);
        assert!(ledger.accessible(100, 100) && !ledger.accessible(100, 101) && !ledger.accessible(99, 2));
        assert!(!ledger.accessible(u64::MAX, 2), "the sum overflows");
        ledger.unmap(100, 50);
        assert!(!ledger.accessible(120, 1) && ledger.accessible(150, 50));
    }

    #[test]
    fn copies_are_cut_at_registrations() {
        let mut registered = Registered::default();
        assert_eq!(registered.pieces(10, 30), [(10, 30)]);
        registered.insert(20, 10);
        registered.insert(30, 10);
        assert_eq!(registered.pieces(10, 40), [(10, 10), (20, 10), (30, 10), (40, 10)]);
        assert_eq!(registered.pieces(25, 3), [(25, 3)]);
        assert_eq!(registered.pieces(25, 10), [(25, 5), (30, 5)]);
        assert_eq!(registered.pieces(25, 0), []);
        registered.remove(20);
        assert_eq!(registered.pieces(10, 30), [(10, 20), (30, 10)]);
    }

    #[test]
    fn a_lease_lives_until_its_last_use_is_passed() {
        let (first, second) = (Arc::new(1), Arc::new(2));
        let mut leases = Leases::default();
        let kept = |owner: &Arc<i32>| Arc::strong_count(owner) == 2;
        let hold = |leases: &mut Leases, owner: &Arc<i32>| {
            let lease = Arc::clone(owner);
            leases.hold(Arc::as_ptr(owner) as usize, move || Box::new(lease));
        };
        hold(&mut leases, &first);
        let one = leases.point();
        hold(&mut leases, &second);
        hold(&mut leases, &first);
        assert_eq!(leases.held.len(), 2, "an owner is kept once");
        leases.passed(one);
        assert!(kept(&first) && kept(&second), "used again behind the point");
        leases.passed(leases.point());
        assert!(!kept(&first) && !kept(&second));
        hold(&mut leases, &first);
        leases.forget();
        drop(leases);
        assert!(kept(&first), "left alone for good");
    }
}
