//! Lanes: "Which windows of one kind can share a track?"
//!
//! Uses `limits`. A track is a stack, so windows may nest but not straddle. Greedy first fit: each window, by
//! start and longest first, goes to the first lane in which it lies inside, or after, whatever is open. Invariants:
//! on one lane any two windows are disjoint or one contains the other; times are never changed to make them fit.

use crate::limits::MAX_NESTING;

/// Where a window is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Lane, from zero.
    pub(super) lane: usize,
    /// Windows of the lane that are open around it.
    pub(super) depth: usize,
}

/// Assigns every (start, end) a lane; the result is in the order of the input.
pub(super) fn assign(windows: &[(i64, i64)]) -> Vec<Place> {
    let mut order: Vec<(i64, i64, usize)> = windows.iter().enumerate().map(|(at, (start, end))| (*start, *end, at)).collect();
    // Empty windows first: they are written before whatever opens at the same time.
    order.sort_by_key(|(start, end, at)| (*start, start < end, std::cmp::Reverse(*end), *at));
    let mut open: Vec<Vec<i64>> = Vec::new();
    let mut placed: Vec<(usize, Place)> = Vec::with_capacity(windows.len());
    for (start, end, at) in order {
        let fits = |stack: &mut Vec<i64>| {
            while stack.last().is_some_and(|last| *last <= start) {
                stack.pop();
            }
            stack.len() < MAX_NESTING && stack.last().is_none_or(|last| *last >= end)
        };
        let lane = match open.iter_mut().position(fits) {
            Some(lane) => lane,
            None => {
                open.push(Vec::new());
                open.len() - 1
            }
        };
        if let Some(stack) = open.get_mut(lane) {
            placed.push((at, Place { lane, depth: stack.len() }));
            stack.push(end);
        }
    }
    placed.sort_by_key(|(at, _)| *at);
    placed.into_iter().map(|(_, place)| place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn straddle(a: (i64, i64), b: (i64, i64)) -> bool {
        let (first, second) = if (a.0, -a.1) <= (b.0, -b.1) { (a, b) } else { (b, a) };
        first.1 > second.0 && first.1 < second.1
    }

    #[test]
    fn windows_of_one_lane_never_straddle() {
        let mut state = 1_u64;
        let mut next = |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            ((state >> 33) % limit) as i64
        };
        for round in 0..500 {
            let count = 1 + next(30);
            let windows: Vec<(i64, i64)> = (0..count)
                .map(|_| {
                    let start = next(40) - 10;
                    (start, start + next(20))
                })
                .collect();
            let places = assign(&windows);
            for (i, a) in windows.iter().enumerate() {
                for (j, b) in windows.iter().enumerate().skip(i + 1) {
                    if places[i].lane == places[j].lane {
                        assert!(!straddle(*a, *b), "round {round}: {a:?} and {b:?} share a lane");
                    }
                }
                if places[i].lane > 0 {
                    let lower = windows.iter().zip(&places).any(|(b, p)| p.lane < places[i].lane && straddle(*a, *b));
                    assert!(lower, "round {round}: {a:?} was pushed to a lane for nothing");
                }
            }
        }
    }

    #[test]
    fn nesting_and_touching_need_one_lane_straddling_two() {
        let lanes = |windows: &[(i64, i64)]| assign(windows).iter().map(|p| (p.lane, p.depth)).collect::<Vec<_>>();
        assert_eq!(lanes(&[(0, 10), (2, 5), (5, 10), (10, 20)]), [(0, 0), (0, 1), (0, 1), (0, 0)]);
        assert_eq!(lanes(&[(0, 10), (5, 15), (10, 12)]), [(0, 0), (1, 0), (0, 0)]);
        assert_eq!(lanes(&[(5, 5), (0, 5), (5, 9)]), [(0, 0), (0, 0), (0, 0)]);
    }
}
