//! Which units stay on the device, and how the rest is streamed.
//!
//! Residents are spread through the order, not taken from its front: while a resident unit computes, the link is free
//! to fetch the next streamed one.

use super::layout::round_up;
use crate::error::Refusal;
use crate::limits::{MAX_SLOTS, MIN_SLOTS};

/// One unit as the planner sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnitSize {
    /// First byte in the arena.
    pub arena_start: u64,
    /// Bytes in the arena or in a slot.
    pub bytes: u64,
}

/// What the planner chose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResidencyPlan {
    /// For each unit, whether it stays.
    pub resident: Vec<bool>,
    /// Execution slots; zero when every unit stays.
    pub slots: u64,
    /// Bytes of one slot, whole pages.
    pub slot_bytes: u64,
    /// Bytes that the arena may map: what the ceiling leaves after the slots.
    pub arena_ceiling_bytes: u64,
}

/// Pages of the arena that the residents touch; units share pages at their ends.
fn pages(units: &[UnitSize], resident: &[bool], page: u64) -> u64 {
    let mut count = 0;
    let mut next_free = 0;
    for (unit, _) in units.iter().zip(resident).filter(|(unit, stays)| **stays && unit.bytes > 0) {
        let first = (unit.arena_start / page).max(next_free);
        let end = (unit.arena_start + unit.bytes).div_ceil(page);
        count += end.saturating_sub(first);
        next_free = next_free.max(end);
    }
    count
}

fn refusal(code: &'static str, what: &str, got: u64, limit: u64, unit: &'static str) -> Refusal {
    Refusal { code, what: what.to_string(), got, limit, unit }
}

/// Refuses a number of slots outside its limits.
///
/// # Errors
/// The refusal, with the limit that is passed.
pub fn check_slots(slots: u64) -> Result<(), Refusal> {
    if (MIN_SLOTS..=MAX_SLOTS).contains(&slots) {
        return Ok(());
    }
    let limit = if slots < MIN_SLOTS { MIN_SLOTS } else { MAX_SLOTS };
    Err(refusal("execution_slots_out_of_range", "number of execution slots", slots, limit, "slots"))
}

/// Decides who stays under the ceiling.
///
/// # Errors
/// A refusal when the ceiling cannot hold the slots, or the number of slots is outside its limits.
pub fn plan_residency(units: &[UnitSize], page: u64, ceiling: u64, slots: u64) -> Result<ResidencyPlan, Refusal> {
    check_slots(slots)?;
    let all = vec![true; units.len()];
    if pages(units, &all, page).saturating_mul(page) <= ceiling {
        return Ok(ResidencyPlan { resident: all, slots: 0, slot_bytes: 0, arena_ceiling_bytes: ceiling });
    }
    let largest = units.iter().map(|unit| unit.bytes).max().unwrap_or_default();
    let slot_bytes = round_up(largest, page);
    let reserve = slot_bytes.and_then(|bytes| bytes.checked_mul(slots));
    let (Some(slot_bytes), Some(reserve)) = (slot_bytes, reserve) else {
        return Err(refusal("execution_slots_overflow", "bytes of the execution slots", largest, u64::MAX / slots, "bytes"));
    };
    if reserve > ceiling {
        let what = format!("the weight ceiling cannot hold {slots} slots of the largest unit");
        return Err(refusal("weight_ceiling_below_slots", &what, ceiling, reserve, "bytes"));
    }
    let budget = ceiling - reserve;
    let resident = spread(units, page, budget);
    Ok(ResidencyPlan { resident, slots, slot_bytes, arena_ceiling_bytes: budget })
}

/// Spreads as many residents as fit: each unit earns its share of the budget, and stays once half its size is earned.
fn spread(units: &[UnitSize], page: u64, budget: u64) -> Vec<bool> {
    let mut resident = vec![false; units.len()];
    let total: u128 = units.iter().map(|unit| u128::from(unit.bytes)).sum();
    let mut earned: i128 = 0;
    for (index, unit) in units.iter().enumerate() {
        let share = (u128::from(budget) * u128::from(unit.bytes)).checked_div(total).unwrap_or_default();
        earned += i128::try_from(share).unwrap_or_default();
        if earned * 2 < i128::from(unit.bytes) {
            continue;
        }
        if let Some(stays) = resident.get_mut(index) {
            *stays = true;
        }
        if pages(units, &resident, page).saturating_mul(page) <= budget {
            earned -= i128::from(unit.bytes);
        } else if let Some(stays) = resident.get_mut(index) {
            *stays = false;
        }
    }
    resident
}

#[cfg(test)]
mod tests {
    use super::*;

    fn units(count: u64, bytes: u64) -> Vec<UnitSize> {
        (0..count).map(|index| UnitSize { arena_start: index * bytes, bytes }).collect()
    }

    #[test]
    fn the_plan_never_exceeds_the_ceiling() {
        let page = 64;
        for count in 1..20 {
            for bytes in [1, 63, 64, 65, 1000] {
                let units = units(count, bytes);
                for ceiling in (0..count * bytes + 200).step_by(97) {
                    let Ok(plan) = plan_residency(&units, page, ceiling, 2) else { continue };
                    let used = pages(&units, &plan.resident, page) * page + plan.slots * plan.slot_bytes;
                    assert!(used <= ceiling, "{count} units of {bytes} under {ceiling}: {used}");
                    assert!(plan.slots > 0 || plan.resident.iter().all(|stays| *stays));
                }
            }
        }
    }

    #[test]
    fn residents_are_spread_not_a_prefix() {
        let plan = plan_residency(&units(12, 640), 64, 640 * 6, 2).expect("fits");
        let stay: Vec<usize> = plan.resident.iter().enumerate().filter(|(_, stays)| **stays).map(|(i, _)| i).collect();
        assert_eq!(stay.len(), 4);
        assert!(stay.windows(2).all(|pair| pair[1] - pair[0] == 3), "{stay:?}");
    }

    #[test]
    fn a_ceiling_below_two_slots_is_refused_with_both_numbers() {
        let refusal = plan_residency(&units(6, 1000), 64, 2047, 2).expect_err("too small");
        assert_eq!((refusal.code, refusal.got, refusal.limit), ("weight_ceiling_below_slots", 2047, 2048));
        assert!(plan_residency(&units(6, 1000), 64, 2048, 2).is_ok());
        assert_eq!(plan_residency(&units(6, 10), 64, 2048, 1).expect_err("one slot").code, "execution_slots_out_of_range");
    }
}
