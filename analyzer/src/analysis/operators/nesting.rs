//! Nesting: "What lies inside what on one thread?"
//!
//! Uses `run` and `limits`. A track is a stack, so rows may nest and not straddle. Greedy first fit: each row, by start
//! and longest first, goes to the first lane in which it lies inside, or after, whatever is open. Invariants: on one
//! lane any two rows are disjoint or one contains the other; times are never changed to make them fit.

use crate::limits::{MAX_LANES, MAX_NESTING};
use crate::run::operators::Track;

/// Stands for a row that found no lane.
pub const NO_LANE: u16 = u16::MAX;

/// Lanes while rows pass by in their order.
#[derive(Debug)]
pub(super) struct Lanes<T> {
    open: Vec<Vec<(i64, T)>>,
}

impl<T> Lanes<T> {
    pub(super) fn new() -> Lanes<T> {
        Lanes { open: Vec::new() }
    }

    /// Puts a row on a lane; `make` sees what is open around it, `close` gets what ended before it and its parent.
    #[inline]
    pub(super) fn place(
        &mut self,
        (start, end): (i64, i64),
        make: impl FnOnce(&[(i64, T)]) -> T,
        mut close: impl FnMut(T, Option<&mut T>),
    ) -> Option<usize> {
        let mut found = None;
        for (lane, stack) in self.open.iter_mut().enumerate() {
            while stack.last().is_some_and(|(last, _)| *last <= start) {
                if let Some((_, row)) = stack.pop() {
                    close(row, stack.last_mut().map(|(_, parent)| parent));
                }
            }
            if stack.len() < MAX_NESTING && stack.last().is_none_or(|(last, _)| *last >= end) {
                found = Some(lane);
                break;
            }
        }
        if found.is_none() && self.open.len() < MAX_LANES {
            self.open.push(Vec::new());
            found = Some(self.open.len() - 1);
        }
        let stack = self.open.get_mut(found?)?;
        let row = make(stack);
        stack.push((end, row));
        found
    }

    /// Closes what is still open.
    pub(super) fn finish(self, mut close: impl FnMut(T, Option<&mut T>)) {
        for mut stack in self.open {
            while let Some((_, row)) = stack.pop() {
                close(row, stack.last_mut().map(|(_, parent)| parent));
            }
        }
    }
}

/// The lane of every slice of a track, and how many lanes there are.
pub fn lanes(track: &Track) -> (Vec<u16>, usize) {
    let mut open = Lanes::new();
    let mut places = Vec::with_capacity(track.slices.len());
    for slice in &track.slices {
        let lane = open.place((slice.start, slice.end), |_| (), |(), _| ());
        places.push(lane.map_or(NO_LANE, |lane| lane as u16));
    }
    (places, open.open.len())
}

/// Slices that end after something that they started in, and slices that find no lane.
pub(super) fn straddling(track: &Track) -> (u64, u64) {
    let mut open: Vec<i64> = Vec::new();
    let (mut overlaps, mut deepest) = (0, 0);
    for slice in &track.slices {
        while open.last().is_some_and(|last| *last <= slice.start) {
            open.pop();
        }
        overlaps += u64::from(open.last().is_some_and(|last| *last < slice.end));
        open.push(slice.end);
        deepest = deepest.max(open.len());
    }
    // Only a crowd can fill all lanes.
    if deepest < MAX_NESTING.min(MAX_LANES) {
        return (overlaps, 0);
    }
    (overlaps, lanes(track).0.iter().filter(|lane| **lane == NO_LANE).count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::operators::{NO_LINK, OperatorSlice};

    fn track(rows: &[(i64, i64)]) -> Track {
        let slice = |(at, (start, end)): (usize, &(i64, i64))| OperatorSlice {
            start: *start,
            end: *end,
            name: 0,
            sequence: at as u32,
            link: NO_LINK,
            category: 0,
        };
        let mut slices: Vec<OperatorSlice> = rows.iter().enumerate().map(slice).collect();
        slices.sort_by_key(OperatorSlice::order);
        Track { slices, ..Track::default() }
    }

    #[test]
    fn nesting_takes_one_lane_and_straddling_another() {
        let inside = track(&[(0, 10), (2, 5), (5, 10), (10, 20), (10, 10)]);
        assert_eq!(lanes(&inside), (vec![0; 5], 1));
        assert_eq!(straddling(&inside), (0, 0));
        let over = track(&[(3_000, 6_776), (5_000, 7_000)]);
        assert_eq!((lanes(&over), straddling(&over)), ((vec![0, 1], 2), (1, 0)));
    }

    #[test]
    fn a_crowd_beyond_the_limit_is_counted() {
        let rows: Vec<(i64, i64)> = (0..MAX_LANES as i64 + 3).map(|at| (at, 10_000 + at)).collect();
        assert_eq!(straddling(&track(&rows)), (rows.len() as u64 - 1, 3));
        let deep: Vec<(i64, i64)> = (0..300).map(|at| (at, 1_000 - at)).collect();
        assert_eq!((lanes(&track(&deep)).1, straddling(&track(&deep))), (2, (0, 0)), "deeper than readers follow");
    }
}
