//! One value in a cell: "How is it written?"
//!
//! Invariants: machines get exact digits; people get a unit with every number, bytes in GiB, MiB or KiB, and never a
//! control character.

use crate::analysis::delta::{Difference, ImpliedRate, Row};
use crate::limits::MAX_CELL_CHARS;
use crate::output::text;
use crate::run::{Scalar, shorten_to};
use ddo_schemas::Unit;
use ddo_schemas::deltas::DeltaState;
use ddo_schemas::scalar::JsonScalar;
use ddo_schemas::unit::{GIB, human_bytes};

/// A value for machines.
pub(super) fn scalar(value: Option<&Scalar>) -> JsonScalar {
    match value {
        Some(Scalar::U64(value)) => JsonScalar::Integer(i128::from(*value)),
        Some(Scalar::I64(value)) => JsonScalar::Integer(i128::from(*value)),
        Some(Scalar::F64(value)) => JsonScalar::Real(*value),
        Some(Scalar::Bool(value)) => JsonScalar::Flag(*value),
        Some(Scalar::Text(value)) => JsonScalar::Text(value.clone()),
        Some(Scalar::Uncollected) | None => JsonScalar::Null,
    }
}

/// A difference for machines.
pub(super) fn difference(value: Option<Difference>) -> JsonScalar {
    match value {
        Some(Difference::Whole(value)) => JsonScalar::Integer(value),
        Some(Difference::Fraction(value)) => JsonScalar::Real(value),
        None => JsonScalar::Null,
    }
}

/// A level for people.
pub(super) fn level(value: Option<&Scalar>, unit: Option<Unit>) -> String {
    match value {
        None | Some(Scalar::Uncollected) => "-".into(),
        Some(Scalar::U64(value)) => whole((*value).into(), unit),
        Some(Scalar::I64(value)) => whole((*value).into(), unit),
        Some(Scalar::F64(value)) => fraction(*value, unit),
        Some(Scalar::Bool(value)) => value.to_string(),
        Some(Scalar::Text(value)) => shorten_to(value, MAX_CELL_CHARS),
    }
}

/// What changed, for people.
pub(super) fn change(row: &Row<'_>) -> String {
    let unit = row.column.unit();
    match (row.state, row.difference) {
        (DeltaState::Changed, _) => format!("{} -> {}", level(row.before, unit), level(row.after, unit)),
        (_, Some(Difference::Whole(value))) if value > 0 => format!("+{}", whole(value, unit)),
        (_, Some(Difference::Whole(value))) => whole(value, unit),
        (_, Some(Difference::Fraction(value))) if value > 0.0 => format!("+{}", fraction(value, unit)),
        (_, Some(Difference::Fraction(value))) => fraction(value, unit),
        (DeltaState::Value | DeltaState::Unchanged, None) => String::new(),
        (state, None) => words(state).into(),
    }
}

/// A state for people.
pub(super) fn words(state: DeltaState) -> &'static str {
    match state {
        DeltaState::SpansGap => "spans a gap",
        DeltaState::Uncollected => "not collected",
        other => other.name(),
    }
}

/// What else is to be said about a row, for people.
pub(super) fn note(row: &Row<'_>) -> String {
    let gap = (row.state == DeltaState::SpansGap).then(|| words(row.state).to_string());
    let parts = gap.into_iter().chain(row.rate.map(rate));
    parts.collect::<Vec<_>>().join("; ")
}

/// Bytes over seconds, for people.
pub(super) fn rate(rate: ImpliedRate) -> String {
    let number = format!("{:.2} GB/s", rate.bytes_per_second / 1e9);
    match rate.note() {
        Some(note) => format!("{number}: {note}"),
        None => number,
    }
}

fn whole(value: i128, unit: Option<Unit>) -> String {
    match unit {
        Some(Unit::Bytes) => match u64::try_from(value.unsigned_abs()) {
            Ok(bytes) => format!("{}{}", sign(value < 0), human_bytes(bytes)),
            Err(_) => format!("{value} bytes"),
        },
        Some(Unit::Seconds) => text::seconds(value as f64),
        Some(Unit::Gib | Unit::BytesPerSecond) => fraction(value as f64, unit),
        Some(Unit::Count(what)) if what.len() <= 12 => format!("{value} {what}"),
        _ => value.to_string(),
    }
}

fn fraction(value: f64, unit: Option<Unit>) -> String {
    match unit {
        Some(Unit::Bytes) => format!("{}{}", sign(value < 0.0), human_bytes(value.abs() as u64)),
        Some(Unit::Seconds) => text::seconds(value),
        Some(Unit::Gib) => format!("{}{}", sign(value < 0.0), human_bytes((value.abs() * GIB as f64) as u64)),
        Some(Unit::BytesPerSecond) => format!("{:.2} GB/s", value / 1e9),
        _ => {
            let rounded = (value * 1e6).round() / 1e6;
            if rounded == 0.0 && value != 0.0 || rounded.abs() >= 1e15 { format!("{value:e}") } else { rounded.to_string() }
        }
    }
}

fn sign(negative: bool) -> &'static str {
    if negative { "-" } else { "" }
}
