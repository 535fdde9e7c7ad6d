//! Parts: what travels and stays as one, and which of them stay.
//!
//! A part is one tensor, or several small ones that follow each other at the source. In the classic mode a unit is one
//! part. Residents are spread through the order, and the rest passes through a ring a few parts deep.

use super::layout::round_up;
use crate::error::Refusal;
use crate::limits::{MAX_FORCED_SIZES, RING_PERCENTS, SLOT_ALIGNMENT_BYTES};
use std::ops::Range;

/// Some consecutive tensors of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Index of the unit.
    pub unit: usize,
    /// Which of its tensors.
    pub tensors: Range<usize>,
}

/// Cuts units, given the sizes of their tensors, into parts of at least `least` bytes each where a unit has as many.
pub fn cut_into_parts(units: &[Vec<u64>], least: u64) -> Vec<Part> {
    let mut parts = Vec::new();
    for (unit, sizes) in units.iter().enumerate() {
        let first_of_unit = parts.len();
        let (mut start, mut bytes) = (0, 0u64);
        for (index, size) in sizes.iter().enumerate() {
            bytes = bytes.saturating_add(*size);
            if bytes >= least.max(1) {
                parts.push(Part { unit, tensors: start..index + 1 });
                (start, bytes) = (index + 1, 0);
            }
        }
        if start < sizes.len() {
            // What is left is too small for a part: it goes with the one before it.
            match parts.get_mut(first_of_unit..).and_then(<[Part]>::last_mut) {
                Some(last) => last.tensors.end = sizes.len(),
                None => parts.push(Part { unit, tensors: start..sizes.len() }),
            }
        }
    }
    parts
}

/// One part per unit.
pub fn whole_units(units: &[Vec<u64>]) -> Vec<Part> {
    units.iter().enumerate().map(|(unit, sizes)| Part { unit, tensors: 0..sizes.len() }).collect()
}

/// One part as the planner sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartSize {
    /// Index of the unit; parts of a unit follow each other.
    pub unit: usize,
    /// Bytes of its place.
    pub bytes: u64,
}

/// What a launch reads: how much must be in the ring at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaunchScope {
    /// All parts of a unit.
    Units,
    /// One part after the other.
    Parts,
}

/// A way to place parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartsPlan {
    /// For each part, whether it stays.
    pub resident: Vec<bool>,
    /// Bytes of the stream ring, whole pages; zero when every part stays.
    pub ring_bytes: u64,
    /// Bytes that the arena may map: what the ceiling leaves after the ring.
    pub arena_ceiling_bytes: u64,
}

/// Bytes that a part takes in arena or ring.
fn place_bytes(part: &PartSize) -> u64 {
    round_up(part.bytes.max(1), SLOT_ALIGNMENT_BYTES).unwrap_or(u64::MAX)
}

fn total(parts: &[PartSize]) -> u64 {
    parts.iter().fold(0, |sum, part| sum.saturating_add(place_bytes(part)))
}

/// Ways to place parts under the ceiling, to be compared by simulation: rings from what one launch reads to three times
/// that, each with residents spread through the order, and with the largest parts among them so that the ring may be
/// smaller. One way alone when every part fits.
///
/// # Errors
/// A refusal when the ceiling cannot hold what one launch reads.
pub fn ways_to_place_parts(parts: &[PartSize], page: u64, ceiling: u64, scope: LaunchScope) -> Result<Vec<PartsPlan>, Refusal> {
    let pages = |bytes: u64| round_up(bytes, page).unwrap_or(u64::MAX);
    if pages(total(parts)) <= ceiling {
        let resident = vec![true; parts.len()];
        return Ok(vec![PartsPlan { resident, ring_bytes: 0, arena_ceiling_bytes: ceiling }]);
    }
    let most = ceiling / page.max(1) * page;
    let none = vec![false; parts.len()];
    let least = pages(launch_bytes(parts, &none, scope));
    if least > most {
        let what = match scope {
            LaunchScope::Units => "the weight ceiling cannot hold the largest unit in the stream ring",
            LaunchScope::Parts => "the weight ceiling cannot hold the largest part in the stream ring",
        };
        let (what, unit) = (what.to_string(), "bytes");
        return Err(Refusal { code: "weight_ceiling_below_ring", what, got: ceiling, limit: least, unit });
    }
    let mut ways: Vec<PartsPlan> = Vec::new();
    for forced in forced_residents(parts, scope) {
        let smallest = launch_bytes(parts, &forced, scope);
        for percent in RING_PERCENTS {
            let ring = pages(smallest.saturating_mul(percent) / 100).max(page);
            let way = Some(ring).filter(|ring| *ring <= most).and_then(|ring| place(parts, most, ring, &forced));
            // With these residents a launch may read less than was thought: a smaller ring leaves room for more of them.
            let tighter = way.as_ref().and_then(|way| {
                let ring = pages(launch_bytes(parts, &way.resident, scope).saturating_mul(percent) / 100).max(page);
                let tighter = place(parts, most, ring, &forced).filter(|_| ring < way.ring_bytes);
                tighter.filter(|way| way.ring_bytes >= launch_bytes(parts, &way.resident, scope))
            });
            ways.extend([way, tighter].into_iter().flatten());
        }
    }
    ways.dedup();
    Ok(ways)
}

/// Who must stay so that the ring can be small: nobody, the parts of the largest size, those of the two largest, and so
/// on. Launches of whole units read parts of every size.
fn forced_residents(parts: &[PartSize], scope: LaunchScope) -> Vec<Vec<bool>> {
    let mut sizes: Vec<u64> = parts.iter().map(place_bytes).collect();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    sizes.dedup();
    let classes = if scope == LaunchScope::Parts { MAX_FORCED_SIZES } else { 1 };
    let limits = sizes.into_iter().take(classes);
    limits.map(|limit| parts.iter().map(|part| place_bytes(part) > limit).collect()).collect()
}

/// A ring of that size, the forced residents, and as many others as fit; `None` when the forced ones do not.
fn place(parts: &[PartSize], most: u64, ring: u64, forced: &[bool]) -> Option<PartsPlan> {
    let budget = most.checked_sub(ring)?;
    let resident = spread(parts, budget, forced)?;
    Some(PartsPlan { resident, ring_bytes: ring, arena_ceiling_bytes: budget })
}

/// What the largest launch reads of what does not stay: the least that a ring must hold.
fn launch_bytes(parts: &[PartSize], resident: &[bool], scope: LaunchScope) -> u64 {
    let (mut largest, mut unit, mut unit_bytes, mut largest_unit) = (0, None, 0u64, 0);
    for (part, _) in parts.iter().zip(resident).filter(|(_, stays)| !**stays) {
        let bytes = place_bytes(part);
        unit_bytes = if unit == Some(part.unit) { unit_bytes.saturating_add(bytes) } else { bytes };
        unit = Some(part.unit);
        largest = largest.max(bytes);
        largest_unit = largest_unit.max(unit_bytes);
    }
    if scope == LaunchScope::Units { largest_unit } else { largest }
}

/// Spreads as many residents as fit beside the forced ones: each part earns its share of the budget, and stays once half
/// its size is earned. What is left then goes to the largest parts that still fit.
fn spread(parts: &[PartSize], budget: u64, forced: &[bool]) -> Option<Vec<bool>> {
    let mut resident = forced.to_vec();
    let free =
        || parts.iter().zip(forced).enumerate().filter(|(_, (_, forced))| !**forced).map(|(index, (part, _))| (index, part));
    let of_forced: Vec<PartSize> = parts.iter().zip(forced).filter(|(_, forced)| **forced).map(|(part, _)| *part).collect();
    let budget = budget.checked_sub(total(&of_forced))?;
    let all: u128 = free().map(|(_, part)| u128::from(place_bytes(part))).sum();
    let (mut earned, mut left): (i128, u64) = (0, budget);
    for (index, part) in free() {
        let bytes = place_bytes(part);
        let share = (u128::from(budget) * u128::from(bytes)).checked_div(all).unwrap_or_default();
        earned += i128::try_from(share).unwrap_or_default();
        if earned * 2 >= i128::from(bytes)
            && bytes <= left
            && let Some(stays) = resident.get_mut(index)
        {
            *stays = true;
            earned -= i128::from(bytes);
            left -= bytes;
        }
    }
    let mut rest: Vec<(usize, u64)> =
        free().map(|(index, part)| (index, place_bytes(part))).filter(|(_, bytes)| *bytes <= left).collect();
    rest.sort_by_key(|(index, bytes)| (std::cmp::Reverse(*bytes), *index));
    for (index, bytes) in rest {
        if let Some(stays) = resident.get_mut(index).filter(|stays| !**stays && bytes <= left) {
            *stays = true;
            left -= bytes;
        }
    }
    Some(resident)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(units: &[&[u64]]) -> Vec<PartSize> {
        let all = units.iter().enumerate();
        all.flat_map(|(unit, parts)| parts.iter().map(move |bytes| PartSize { unit, bytes: *bytes })).collect()
    }

    fn used(parts: &[PartSize], plan: &PartsPlan, page: u64) -> u64 {
        let stay: Vec<PartSize> = parts.iter().zip(&plan.resident).filter(|(_, stays)| **stays).map(|(p, _)| *p).collect();
        total(&stay).next_multiple_of(page) + plan.ring_bytes
    }

    #[test]
    fn small_tensors_travel_with_their_neighbours_and_never_across_units() {
        let cut = |units: &[Vec<u64>], least| -> Vec<(usize, Range<usize>)> {
            cut_into_parts(units, least).into_iter().map(|part| (part.unit, part.tensors)).collect()
        };
        let units = [vec![10, 100, 5, 5, 100, 3], vec![1, 1], vec![]];
        assert_eq!(cut(&units, 50), [(0, 0..2), (0, 2..6), (1, 0..2)]);
        assert_eq!(cut(&units, 1).len(), 8, "every tensor alone");
        assert_eq!(cut(&units, 1000), [(0, 0..6), (1, 0..2)], "never less than a unit's");
        assert_eq!(whole_units(&units).len(), 3);
    }

    #[test]
    fn no_way_exceeds_the_ceiling_and_each_holds_a_launch() {
        let mut rng = fastrand::Rng::with_seed(3);
        for _ in 0..3000 {
            let units: Vec<Vec<u64>> =
                (0..rng.usize(1..8)).map(|_| (0..rng.usize(1..6)).map(|_| rng.u64(0..5000)).collect()).collect();
            let parts = sizes(&units.iter().map(Vec::as_slice).collect::<Vec<_>>());
            let page = 512 << rng.u32(0..4);
            let ceiling = rng.u64(0..total(&parts) + 2 * page);
            for scope in [LaunchScope::Units, LaunchScope::Parts] {
                let Ok(ways) = ways_to_place_parts(&parts, page, ceiling, scope) else { continue };
                assert!(!ways.is_empty(), "what is not refused has a way");
                for way in ways {
                    assert!(used(&parts, &way, page) <= ceiling);
                    assert!(way.ring_bytes >= launch_bytes(&parts, &way.resident, scope));
                    assert!(way.ring_bytes > 0 || way.resident.iter().all(|stays| *stays));
                }
            }
        }
    }

    #[test]
    fn the_least_ceiling_is_admitted_and_one_byte_less_refused_with_both_numbers() {
        let parts = sizes(&[&[1024, 2048], &[4096], &[512, 512]]);
        for (scope, limit) in [(LaunchScope::Units, 4096), (LaunchScope::Parts, 4096)] {
            let refusal = ways_to_place_parts(&parts, 512, limit - 1, scope).expect_err("too small");
            assert_eq!((refusal.code, refusal.got, refusal.limit), ("weight_ceiling_below_ring", limit - 1, limit));
            assert_eq!(ways_to_place_parts(&parts, 512, limit, scope).expect("admitted")[0].ring_bytes, limit);
        }
        let two = sizes(&[&[1024, 2048], &[512]]);
        assert_eq!(ways_to_place_parts(&two, 512, 2048, LaunchScope::Units).expect_err("a unit").limit, 3072);
        assert!(ways_to_place_parts(&two, 512, 2048, LaunchScope::Parts).is_ok());
    }

    #[test]
    fn residents_are_spread_and_nothing_that_fits_is_left_out() {
        let parts = sizes(&[&[1024u64; 4][..]; 6]);
        let ways = ways_to_place_parts(&parts, 512, 12 * 1024, LaunchScope::Parts).expect("fits");
        let way = ways.iter().find(|way| way.ring_bytes == 2048).expect("a ring of two parts");
        let stay: Vec<usize> = way.resident.iter().enumerate().filter(|(_, stays)| **stays).map(|(index, _)| index).collect();
        assert_eq!(stay.len(), 10);
        assert!(stay.windows(2).all(|pair| pair[1] - pair[0] <= 3), "{stay:?}");
    }

    #[test]
    fn the_largest_parts_may_stay_so_that_the_ring_is_small() {
        let parts = sizes(&[&[4096, 1024, 1024], &[4096, 1024, 1024]]);
        let ways = ways_to_place_parts(&parts, 512, 10 * 1024, LaunchScope::Parts).expect("fits");
        let small = ways.iter().find(|way| way.ring_bytes == 1024).expect("a ring of one small part");
        assert_eq!(small.resident, [true, false, true, true, false, false]);
    }
}
