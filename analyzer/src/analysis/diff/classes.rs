//! How two sides of a number compare: "What would make it worse?"
//!
//! Uses the catalogue. Invariants: the class follows from the field's declaration; only a short list of numbers is
//! gated without being asked for, so that many numbers do not make false alarms.

use super::figures::{DURATION, FIRST_STEP, HOST_STEP, PEAK_MEMORY, PHASE, STEADY_STEP, TAIL, WEIGHTS};
use ddo_schemas::Unit;
use ddo_schemas::field::{Field, Gate, Kind};
use serde::Serialize;

/// How two sides of a number compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Any value above zero in a candidate run fails.
    MustBeZero,
    /// More than the base ever shows fails.
    NoIncrease,
    /// Equal runs give equal values; more bytes fail, other differences are shown.
    Deterministic,
    /// Seconds; statistics decide.
    Time,
    /// A size or level; statistics decide.
    Gauge,
    /// Shown, never a reason to fail unless it is named.
    Informative,
    /// A decision of the planner: shown beside what follows from it.
    Planned,
}

/// The times and sizes that are gated without being named, the most telling first. At most eight: each more costs power.
pub const GATED_BY_DEFAULT: [&str; 5] = [STEADY_STEP, PHASE, HOST_STEP, PEAK_MEMORY, WEIGHTS];

/// The class of a path.
pub fn of(path: &str, field: Option<&Field>) -> Class {
    if [STEADY_STEP, FIRST_STEP, PHASE, TAIL, HOST_STEP, DURATION].contains(&path) {
        return Class::Time;
    }
    let Some(field) = field else { return Class::Informative };
    match (field.gate, field.deterministic, field.kind) {
        (Gate::MustBeZero, _, _) => Class::MustBeZero,
        (Gate::NoIncrease, _, _) => Class::NoIncrease,
        (Gate::Informative, _, _) => Class::Informative,
        (Gate::Unrated, true, _) => Class::Deterministic,
        (Gate::Unrated, false, _) if field.unit == Unit::Seconds => Class::Time,
        (Gate::Unrated, false, Kind::Gauge | Kind::Peak | Kind::Limit) => Class::Gauge,
        (Gate::Unrated, false, _) => Class::Informative,
    }
}

/// True where a class or the list above gates a path without being asked.
pub fn gated_by_default(path: &str, class: Class, unit: Unit) -> bool {
    // Several components: NAME/path.
    let plain = path.split_once('/').map_or(path, |(_, plain)| plain);
    match class {
        Class::MustBeZero | Class::NoIncrease => true,
        Class::Deterministic => unit == Unit::Bytes,
        Class::Time | Class::Gauge => GATED_BY_DEFAULT.contains(&plain),
        Class::Informative | Class::Planned => false,
    }
}
