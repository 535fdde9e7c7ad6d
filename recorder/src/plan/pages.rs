//! "Which pages have memory, and which one loses it next?" Pages on demand under a capacity, the least recently used first.
//!
//! Memory is counted in pages; a range is held by whoever reads it or writes it, and a held page keeps its memory. Each
//! time a page gets memory it gets a new generation, so that who remembers the generation of a range knows whether its
//! contents are still there.

use std::collections::BTreeSet;
use std::ops::Range;

/// How a page gets memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Supply {
    /// New memory.
    Fresh {
        /// The page.
        page: usize,
    },
    /// The memory of a page that nobody holds.
    Moved {
        /// The page that loses it.
        from: usize,
        /// The page that gets it.
        to: usize,
    },
}

/// Why a range cannot have memory now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shortage {
    /// It is larger than the capacity.
    TooLarge,
    /// Too many pages are held by others.
    Held,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Page {
    /// Zero without memory.
    generation: u64,
    /// When it was held last.
    used: u64,
    holds: u64,
}

/// The pages of an arena.
#[derive(Clone, Debug)]
pub struct Pages {
    pages: Vec<Page>,
    /// Pages with memory that nobody holds, by their last use.
    idle: BTreeSet<(u64, usize)>,
    capacity: u64,
    resident: u64,
    clock: u64,
}

impl Pages {
    /// So many pages, of which at most `capacity` have memory at a time.
    pub fn new(count: usize, capacity: u64) -> Pages {
        Pages { pages: vec![Page::default(); count], idle: BTreeSet::new(), capacity, resident: 0, clock: 0 }
    }

    /// Pages with memory.
    pub fn resident(&self) -> u64 {
        self.resident
    }

    /// Most pages with memory.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Pages that somebody holds.
    pub fn held(&self) -> u64 {
        self.resident - self.idle.len() as u64
    }

    /// Whether a page has memory.
    pub fn has_memory(&self, page: usize) -> bool {
        self.pages.get(page).is_some_and(|page| page.generation > 0)
    }

    /// The latest generation in a range; `None` while a page of it has no memory.
    pub fn generation(&self, range: Range<usize>) -> Option<u64> {
        let pages = self.pages.get(range)?;
        let all = pages.iter().all(|page| page.generation > 0);
        all.then(|| pages.iter().map(|page| page.generation).max().unwrap_or_default())
    }

    /// How the pages of a range that have no memory get some: at most `fresh` of them new memory, the others that of
    /// the least recently used pages outside the range, where `reuse` allows it. Changes nothing.
    ///
    /// # Errors
    /// The shortage.
    pub fn plan(&self, range: Range<usize>, fresh: u64, reuse: bool) -> Result<Vec<Supply>, Shortage> {
        if range.len() as u64 > self.capacity {
            return Err(Shortage::TooLarge);
        }
        let fresh = usize::try_from(fresh.min(self.capacity - self.resident)).unwrap_or(usize::MAX);
        let mut victims = self.idle.iter().map(|(_, page)| *page).filter(|page| reuse && !range.contains(page));
        let missing = range.clone().filter(|page| !self.has_memory(*page));
        let supply = |(index, to): (usize, usize)| match index < fresh {
            true => Some(Supply::Fresh { page: to }),
            false => victims.next().map(|from| Supply::Moved { from, to }),
        };
        missing.enumerate().map(supply).collect::<Option<Vec<Supply>>>().ok_or(Shortage::Held)
    }

    /// A page got memory; its contents are unknown.
    pub fn gain(&mut self, page: usize) {
        self.clock += 1;
        let clock = self.clock;
        if let Some(entry) = self.pages.get_mut(page).filter(|entry| entry.generation == 0) {
            *entry = Page { generation: clock, used: clock, holds: entry.holds };
            self.resident += 1;
            if entry.holds == 0 {
                self.idle.insert((clock, page));
            }
        }
    }

    /// A page lost its memory.
    pub fn lose(&mut self, page: usize) {
        if let Some(entry) = self.pages.get_mut(page).filter(|entry| entry.generation > 0) {
            self.idle.remove(&(entry.used, page));
            entry.generation = 0;
            self.resident -= 1;
        }
    }

    /// Holds a range; the pages keep their memory until they are let go as often as they were held.
    pub fn hold(&mut self, range: Range<usize>) {
        self.clock += 1;
        let clock = self.clock;
        for page in range {
            let Some(entry) = self.pages.get_mut(page) else { continue };
            self.idle.remove(&(entry.used, page));
            entry.holds += 1;
            entry.used = clock;
        }
    }

    /// Lets a range go.
    pub fn let_go(&mut self, range: Range<usize>) {
        for page in range {
            let Some(entry) = self.pages.get_mut(page) else { continue };
            entry.holds = entry.holds.saturating_sub(1);
            if entry.holds == 0 && entry.generation > 0 {
                self.idle.insert((entry.used, page));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bring(pages: &mut Pages, range: Range<usize>) -> Result<Vec<Supply>, Shortage> {
        let plan = pages.plan(range, u64::MAX, true)?;
        for supply in &plan {
            match *supply {
                Supply::Fresh { page } => pages.gain(page),
                Supply::Moved { from, to } => {
                    pages.lose(from);
                    pages.gain(to);
                }
            }
        }
        Ok(plan)
    }

    #[test]
    fn the_least_recently_used_page_loses_its_memory_and_held_ones_do_not() {
        let mut pages = Pages::new(8, 4);
        bring(&mut pages, 0..2).expect("fresh");
        bring(&mut pages, 2..4).expect("fresh");
        pages.hold(0..2);
        pages.let_go(0..2);
        assert_eq!(bring(&mut pages, 4..5), Ok(vec![Supply::Moved { from: 2, to: 4 }]), "2 and 3 are older");
        pages.hold(0..2);
        pages.hold(4..5);
        assert_eq!(pages.plan(5..7, 9, true), Err(Shortage::Held), "only page 3 is idle");
        assert_eq!(bring(&mut pages, 5..6), Ok(vec![Supply::Moved { from: 3, to: 5 }]));
        assert_eq!(pages.plan(0..5, 9, true), Err(Shortage::TooLarge));
        assert_eq!((pages.resident(), pages.held()), (4, 3));
    }

    #[test]
    fn a_range_never_takes_from_itself_and_grows_only_as_far_as_allowed() {
        let mut pages = Pages::new(6, 3);
        bring(&mut pages, 1..2).expect("fresh");
        assert_eq!(pages.plan(0..3, 0, true), Err(Shortage::Held), "its own page is no victim");
        let fresh = [Supply::Fresh { page: 0 }, Supply::Fresh { page: 2 }];
        assert_eq!(pages.plan(0..3, 2, false), Ok(fresh.to_vec()));
        assert_eq!(pages.plan(4..6, 1, true), Ok(vec![Supply::Fresh { page: 4 }, Supply::Moved { from: 1, to: 5 }]));
        assert_eq!(pages.plan(4..6, 1, false), Err(Shortage::Held));
    }

    #[test]
    fn generations_tell_whether_contents_are_still_there() {
        let mut pages = Pages::new(4, 2);
        assert_eq!(pages.generation(0..2), None);
        bring(&mut pages, 0..2).expect("fresh");
        let before = pages.generation(0..2).expect("mapped");
        pages.hold(0..2);
        pages.let_go(0..2);
        assert_eq!(pages.generation(0..2), Some(before), "using it changes nothing");
        bring(&mut pages, 2..3).expect("moved");
        assert_eq!(pages.generation(0..2), None, "half of it is gone");
        bring(&mut pages, 0..2).expect("moved back");
        assert!(pages.generation(0..2).expect("mapped") > before, "mapped again: other contents");
    }
}
