//! How two sides of a number compare: "What would make it worse?"
//!
//! Uses the catalogue. Invariants: the class follows from the field's declaration; only a short list of numbers is
//! gated without being asked for, so that many numbers do not make false alarms.

use super::figures::{DURATION, FIRST_STEP, HOST_STEP, PEAK_MEMORY, PHASE, STEADY_STEP, TAIL, WEIGHTS};
use ddo_schemas::Unit;
use ddo_schemas::field::{Field, Gate, Kind};
use serde::{Deserialize, Serialize};

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

impl Class {
    /// The word in outputs.
    pub const fn word(self) -> &'static str {
        match self {
            Class::MustBeZero => "must_be_zero",
            Class::NoIncrease => "no_increase",
            Class::Deterministic => "deterministic",
            Class::Time => "time",
            Class::Gauge => "gauge",
            Class::Informative => "informative",
            Class::Planned => "planned",
        }
    }
}

/// Which direction is the good one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    /// Less is better: times, sizes, failures.
    Lower,
    /// More is better: hits.
    Higher,
}

/// The times and sizes that are gated without being named, the most telling first. At most eight: each more costs power.
pub const GATED_BY_DEFAULT: [&str; 5] = [STEADY_STEP, PHASE, HOST_STEP, PEAK_MEMORY, WEIGHTS];

/// First parts of every path that a metric can have.
const ROOTS: [&str; 4] = ["runtime.", "journal.", "manifest_end.", "units["];

/// A path without the rank and the component in front of it.
pub fn plain(path: &str) -> &str {
    let mut rest = path;
    while !ROOTS.iter().any(|root| rest.starts_with(root)) {
        match rest.split_once('/') {
            Some((_, inner)) => rest = inner,
            None => return path,
        }
    }
    rest
}

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
    match class {
        Class::MustBeZero | Class::NoIncrease => true,
        Class::Deterministic => unit == Unit::Bytes,
        Class::Time | Class::Gauge => GATED_BY_DEFAULT.contains(&plain(path)),
        Class::Informative | Class::Planned => false,
    }
}

/// The good direction of a number that nobody named; `None` where more is neither good nor bad.
pub fn better(path: &str, class: Class) -> Option<Better> {
    match class {
        Class::MustBeZero | Class::NoIncrease | Class::Time => Some(Better::Lower),
        Class::Gauge if GATED_BY_DEFAULT.contains(&plain(path)) => Some(Better::Lower),
        Class::Deterministic | Class::Gauge | Class::Informative | Class::Planned => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_components_and_units_with_slashes_stand_in_front_of_a_path() {
        assert_eq!(plain(STEADY_STEP), STEADY_STEP);
        assert_eq!(plain("rank-1/transformer/runtime.vmm.fast_uploads"), "runtime.vmm.fast_uploads");
        assert_eq!(plain("transformer/units[a/b].execution_unit_window"), "units[a/b].execution_unit_window");
        assert_eq!(plain("nothing/known"), "nothing/known");
    }

    #[test]
    fn few_times_and_sizes_are_gated_without_being_named() {
        const { assert!(GATED_BY_DEFAULT.len() <= 8) };
        for path in GATED_BY_DEFAULT {
            let row = ddo_schemas::catalogue::find(path).unwrap_or_else(|| panic!("{path} is declared"));
            let class = of(path, Some(row.field));
            assert!(gated_by_default(path, class, row.field.unit), "{path} is {class:?}");
            assert_eq!(better(path, class), Some(Better::Lower), "{path}");
        }
    }
}
