//! What other offloaders do, for comparison: a resident prefix, and the least recently used units.

use super::forecast::StreamPlan;

/// A placement of whole units.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Baseline {
    /// For each unit, whether it stays.
    pub resident: Vec<bool>,
    /// Stream memory.
    pub stream: StreamPlan,
    /// Whether the next unit is uploaded while one computes.
    pub look_ahead: bool,
}

/// The first units stay, as many as fit beside two slots of the largest; the rest takes turns, one ahead.
pub fn resident_prefix(unit_bytes: &[u64], ceiling: u64) -> Baseline {
    let slot = unit_bytes.iter().max().copied().unwrap_or_default();
    let mut left = ceiling.saturating_sub(slot.saturating_mul(2));
    let mut stays = true;
    let mut keep = |bytes: &u64| {
        stays = stays && *bytes <= left;
        left -= if stays { *bytes } else { 0 };
        stays
    };
    let resident = unit_bytes.iter().map(&mut keep).collect();
    Baseline { resident, stream: StreamPlan::Slots { count: 2, bytes: slot }, look_ahead: true }
}

/// Nothing stays by decision: units are uploaded when they are asked for, over the one that was used longest ago.
pub fn least_recently_used(unit_bytes: &[u64], ceiling: u64) -> Baseline {
    let slot = unit_bytes.iter().max().copied().unwrap_or_default();
    let count = ceiling.checked_div(slot).unwrap_or_default();
    Baseline { resident: vec![false; unit_bytes.len()], stream: StreamPlan::Slots { count, bytes: slot }, look_ahead: false }
}
