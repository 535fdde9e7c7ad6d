//! Differences between records and between reports: "What did one step add, and what changed?"
//!
//! It may use `run` and the catalogue, which says the kind of each field. Invariants: only counters and gauges
//! subtract, exactly for whole numbers; a decrease of a counter is a reset and has no delta, also from first to last; a value
//! that is missing on one side has no delta; the delta after a missing step spans a gap and says so.

mod compare;
mod pairs;
mod rate;

pub use compare::{Column, Difference, Interval, Row, State, compare};
pub use pairs::{Named, Names, Pair, Scope, Unmatched, between, named, names, pairs};
pub use rate::{ENQUEUE_NOTE, ImpliedRate};

use crate::limits::MAX_DELTA_ROWS;
use crate::run::{Component, Record, Run, Scalar, Values};
use ddo_schemas::field::{Field, Kind};
use ddo_schemas::{Finding, Unit, catalogue};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The difference between two readings of a counter.
#[derive(Clone, Debug, PartialEq)]
pub enum Delta {
    /// Exact difference of two whole numbers.
    Whole(u64),
    /// Difference of two fractions.
    Fraction(f64),
    /// The later reading is smaller: the counter started again.
    Reset,
    /// One side has no number.
    Unavailable,
}

/// Subtracts two readings of a counter.
pub fn subtract(before: Option<&Scalar>, after: Option<&Scalar>) -> Delta {
    match (before, after) {
        (Some(before), Some(after)) => match compare::difference(before, after) {
            Some(Difference::Whole(difference)) if difference < 0 => Delta::Reset,
            Some(Difference::Fraction(difference)) if difference < 0.0 => Delta::Reset,
            Some(Difference::Whole(difference)) => u64::try_from(difference).map_or(Delta::Unavailable, Delta::Whole),
            Some(Difference::Fraction(difference)) => Delta::Fraction(difference),
            None => Delta::Unavailable,
        },
        _ => Delta::Unavailable,
    }
}

/// The declaration of a field, by its path.
pub fn field(path: &str) -> Option<&'static Field> {
    catalogue::find(path).map(|row| row.field)
}

/// True for declared counters.
pub fn is_counter(path: &str) -> bool {
    field(path).is_some_and(|field| field.kind == Kind::Counter)
}

/// True for declared whole-number counters in bytes or things; seconds are counters, too, but not whole.
pub fn is_seconds(path: &str) -> bool {
    field(path).is_some_and(|field| field.unit == Unit::Seconds)
}

/// True when `after` is the record that directly follows `before`.
pub fn consecutive(before: &Record, after: &Record) -> bool {
    match (before.step, after.step) {
        (None, Some(0)) => true,
        (Some(before), Some(after)) => before.checked_add(1) == Some(after),
        _ => false,
    }
}

/// Paths that occur in any record of a component, in order.
pub fn paths(component: &Component) -> Vec<Arc<str>> {
    paths_of(&component.records)
}

fn paths_of(records: &[Record]) -> Vec<Arc<str>> {
    let mut all: BTreeSet<Arc<str>> = BTreeSet::new();
    let mut previous: Option<&Values> = None;
    for record in records {
        // Most records hold the fields of the one before; paths are shared, so that is seen without reading them.
        if !previous.is_some_and(|previous| same_paths(previous, &record.values)) {
            all.extend(record.values.keys().cloned());
        }
        previous = Some(&record.values);
    }
    all.into_iter().collect()
}

fn same_paths(a: &Values, b: &Values) -> bool {
    a.len() == b.len() && a.keys().zip(b.keys()).all(|(a, b)| Arc::ptr_eq(a, b))
}

/// A finding for every counter that went down.
pub fn resets(component: &Component) -> Vec<Finding> {
    let mut findings = Vec::new();
    for path in paths(component).into_iter().filter(|path| is_counter(path)) {
        for pair in component.records.windows(2) {
            if let [before, after] = pair
                && subtract(before.values.get(&path), after.values.get(&path)) == Delta::Reset
            {
                let text = format!("the counter {path} went down; it started again and this step has no delta");
                findings.push(Finding::warning("counter_reset", &after.file, text));
            }
        }
    }
    findings
}

/// A note where the text tables cannot hold every row.
pub fn beyond_the_tables(run: &Run) -> Option<Finding> {
    let rows = pairs::count_rows(run);
    let text = format!(
        "deltas.json and deltas.csv hold {MAX_DELTA_ROWS} of {rows} rows: steps from the end are left out; dataset/ has all"
    );
    (rows > MAX_DELTA_ROWS).then(|| Finding::note("delta_rows_left_out", "deltas.json", text))
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod subtraction {
    use super::*;

    #[test]
    fn a_reset_is_neither_negative_nor_huge() {
        let values: Vec<Scalar> = [100, 300, 50, 250].into_iter().map(Scalar::U64).collect();
        let deltas: Vec<Delta> = values.windows(2).map(|pair| subtract(pair.first(), pair.get(1))).collect();
        assert_eq!(deltas, [Delta::Whole(200), Delta::Reset, Delta::Whole(200)]);
    }

    #[test]
    fn whole_numbers_are_exact_to_64_bits() {
        let delta = subtract(Some(&Scalar::U64(9_007_199_254_740_993)), Some(&Scalar::U64(u64::MAX)));
        assert_eq!(delta, Delta::Whole(18_437_736_874_454_810_622));
    }

    #[test]
    fn signed_counters_subtract_exactly() {
        assert_eq!(subtract(Some(&Scalar::I64(-5)), Some(&Scalar::U64(3))), Delta::Whole(8));
        assert_eq!(subtract(Some(&Scalar::U64(3)), Some(&Scalar::I64(-5))), Delta::Reset);
        let wide = subtract(Some(&Scalar::I64(i64::MIN)), Some(&Scalar::U64(u64::MAX)));
        assert_eq!(wide, Delta::Unavailable, "more than 64 bits");
        assert_eq!(subtract(Some(&Scalar::F64(-1e308)), Some(&Scalar::F64(1e308))), Delta::Unavailable, "not finite");
    }

    #[test]
    fn a_missing_side_is_unavailable() {
        assert_eq!(subtract(None, Some(&Scalar::U64(1))), Delta::Unavailable);
        assert_eq!(subtract(Some(&Scalar::U64(1)), None), Delta::Unavailable);
        assert_eq!(subtract(Some(&Scalar::F64(0.5)), Some(&Scalar::F64(0.75))), Delta::Fraction(0.25));
    }
}
