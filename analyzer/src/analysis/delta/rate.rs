//! Bytes over the seconds that belong to them: "Is that a transfer rate?"
//!
//! Uses the rule that the field's declaration states. Invariants: seconds are never paired with bytes by guess; time in which
//! work was handed over gives no transfer rate, and a rate above the link's shows that it was such time.

use super::compare::{Column, Difference, Row, difference};
use crate::limits::MAX_LINK_BYTES_PER_SECOND;
use crate::run::Values;
use ddo_schemas::Unit;
use ddo_schemas::field::RateScope;

/// What is said about bytes over seconds that enclose no transfer.
pub const ENQUEUE_NOTE: &str = "enqueue time, not a transfer rate";

/// Bytes over seconds of one interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ImpliedRate {
    /// Bytes over seconds; finite.
    pub bytes_per_second: f64,
    /// True where the seconds enclose the work and no link is outrun.
    pub is_transfer: bool,
}

impl ImpliedRate {
    /// What must be said beside the number.
    pub fn note(&self) -> Option<&'static str> {
        (!self.is_transfer).then_some(ENQUEUE_NOTE)
    }
}

/// The rate of a row whose bytes have seconds of their own, where both grew without a reset.
pub(super) fn implied(row: &Row<'_>, before: &Values, after: &Values, link: Option<u64>) -> Option<ImpliedRate> {
    let Column { field, rate_seconds, .. } = row.column;
    let (field, path) = ((*field)?, rate_seconds.as_deref()?);
    let rate = field.rate.filter(|_| field.unit == Unit::Bytes)?;
    let Some(Difference::Whole(bytes)) = row.difference.filter(|bytes| bytes.as_f64() > 0.0) else { return None };
    let seconds = difference(before.get(path)?, after.get(path)?)?.as_f64();
    if seconds <= 0.0 {
        return None;
    }
    let bytes_per_second = bytes as f64 / seconds;
    let limit = link.unwrap_or(MAX_LINK_BYTES_PER_SECOND) as f64;
    let is_transfer = rate.scope == RateScope::Work && bytes_per_second <= limit;
    bytes_per_second.is_finite().then_some(ImpliedRate { bytes_per_second, is_transfer })
}
