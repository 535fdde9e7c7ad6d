//! One field between two documents: "What may be said about its two values?"
//!
//! Uses the declaration of the field. Invariants: what a value must not be used for is decided here once, for every
//! table; a value that its own document calls meaningless, pending or failed is not shown as a number; undeclared fields have
//! levels only.

use super::rate::{self, ImpliedRate};
use crate::run::{Scalar, Values};
use ddo_schemas::Unit;
pub use ddo_schemas::deltas::DeltaState as State;
use ddo_schemas::field::{Condition, Field, Kind};
use std::sync::Arc;

/// Later minus earlier.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Difference {
    /// Of two whole numbers; any two of 64 bits fit.
    Whole(i128),
    /// Where one of them is a fraction; finite.
    Fraction(f64),
}

impl Difference {
    /// True for no difference at all.
    pub fn is_zero(self) -> bool {
        match self {
            Difference::Whole(difference) => difference == 0,
            Difference::Fraction(difference) => difference == 0.0,
        }
    }

    /// For ratios and for ordering only: rounded above 2^53.
    pub fn as_f64(self) -> f64 {
        match self {
            Difference::Whole(difference) => difference as f64,
            Difference::Fraction(difference) => difference,
        }
    }
}

/// Later minus earlier of two numbers; `None` where one is no number, or the result is not finite.
pub(super) fn difference(before: &Scalar, after: &Scalar) -> Option<Difference> {
    if let (Some(before), Some(after)) = (whole(before), whole(after)) {
        return Some(Difference::Whole(after - before));
    }
    let difference = after.as_f64()? - before.as_f64()?;
    difference.is_finite().then_some(Difference::Fraction(difference))
}

fn whole(value: &Scalar) -> Option<i128> {
    match value {
        Scalar::U64(value) => Some(i128::from(*value)),
        Scalar::I64(value) => Some(i128::from(*value)),
        _ => None,
    }
}

/// A field that rows are made for: its path, its declaration and the fields that it depends on.
#[derive(Clone, Debug)]
pub struct Column {
    /// Full path.
    pub path: Arc<str>,
    /// Its declaration; `None` for a field without one.
    pub field: Option<&'static Field>,
    condition: Option<String>,
    pub(super) rate_seconds: Option<String>,
    statuses: Vec<[String; 2]>,
}

impl Column {
    /// The column of a path.
    pub fn new(path: Arc<str>, field: Option<&'static Field>) -> Column {
        let object = path.rsplit_once('.').map_or("", |(object, _)| object);
        let sibling = |name: &str| format!("{object}.{name}");
        let condition = match field.map(|field| field.meaningful_if) {
            Some(Condition::SiblingNonZero(name)) => Some(sibling(name)),
            _ => None,
        };
        let rate_seconds = field.and_then(|field| field.rate).map(|rate| sibling(rate.seconds));
        let statuses = if is_measured(field) { statuses(object) } else { Vec::new() };
        Column { path, field, condition, rate_seconds, statuses }
    }

    /// The kind for machines.
    pub fn kind(&self) -> &'static str {
        let Some(field) = self.field else { return "unspecified" };
        match field.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Peak => "peak",
            Kind::Limit => "limit",
            Kind::Measure => "measure",
            Kind::Label => "label",
            Kind::Flag => "flag",
            Kind::Identity => "identity",
            Kind::Version => "version",
            Kind::Text => "text",
            Kind::Structure => "structure",
        }
    }

    /// The unit, where the field is declared.
    pub fn unit(&self) -> Option<Unit> {
        self.field.map(|field| field.unit)
    }

    /// The unit for machines.
    pub fn unit_name(&self) -> &'static str {
        self.unit().map_or("unspecified", Unit::name)
    }

    /// The value of this field in one document, or why there is none to use.
    fn side<'a>(&self, values: &'a Values) -> Side<'a> {
        for [status, failed] in &self.statuses {
            let word = match values.get(status.as_str()) {
                Some(Scalar::Text(word)) => word.as_str(),
                _ => "",
            };
            if word == "failed" || values.get(failed.as_str()) == Some(&Scalar::Bool(true)) {
                return Side::Failed;
            }
            if word == "pending" {
                return Side::Pending;
            }
        }
        match values.get(&self.path) {
            None => Side::Unavailable,
            Some(Scalar::Uncollected) => Side::Uncollected,
            Some(value) if self.says_something(value, values) => Side::Known(value),
            Some(_) => Side::Unavailable,
        }
    }

    fn says_something(&self, value: &Scalar, values: &Values) -> bool {
        let above_zero = |value: Option<&Scalar>| value.and_then(Scalar::as_f64).is_some_and(|value| value > 0.0);
        match (self.field.map(|field| field.meaningful_if), &self.condition) {
            (Some(Condition::NonZero), _) => above_zero(Some(value)),
            (Some(Condition::SiblingNonZero(_)), Some(sibling)) => above_zero(values.get(sibling.as_str())),
            _ => true,
        }
    }
}

/// True for kinds whose values come out of a collection that may be pending or may have failed.
fn is_measured(field: Option<&Field>) -> bool {
    field.is_some_and(|field| matches!(field.kind, Kind::Counter | Kind::Gauge | Kind::Peak | Kind::Measure))
}

/// Where the objects around a value say how their collection went; the runtime's own counters have no such word.
fn statuses(object: &str) -> Vec<[String; 2]> {
    let mut found = Vec::new();
    let mut object = object;
    while !object.is_empty() && !matches!(object, "runtime" | "runtime.vmm") {
        found.push([format!("{object}.status"), format!("{object}.failed")]);
        object = object.rsplit_once('.').map_or("", |(outer, _)| outer);
    }
    found
}

#[derive(Clone, Copy)]
enum Side<'a> {
    Known(&'a Scalar),
    Uncollected,
    Unavailable,
    Pending,
    Failed,
}

impl<'a> Side<'a> {
    fn known(self) -> Option<&'a Scalar> {
        match self {
            Side::Known(value) => Some(value),
            _ => None,
        }
    }

    /// Why it is not known, the gravest last.
    fn lacks(self) -> Option<(u8, State)> {
        match self {
            Side::Known(_) => None,
            Side::Unavailable => Some((0, State::Unavailable)),
            Side::Uncollected => Some((1, State::Uncollected)),
            Side::Pending => Some((2, State::Pending)),
            Side::Failed => Some((3, State::Failed)),
        }
    }
}

/// One field between two documents.
#[derive(Clone, Debug)]
pub struct Row<'a> {
    /// The field.
    pub column: &'a Column,
    /// What the row says.
    pub state: State,
    /// Earlier value; `None` where there is none to use.
    pub before: Option<&'a Scalar>,
    /// Later value.
    pub after: Option<&'a Scalar>,
    /// Later minus earlier, for counters and gauges.
    pub difference: Option<Difference>,
    /// For bytes whose seconds are known: what one over the other gives, and whether that is a transfer rate.
    pub rate: Option<ImpliedRate>,
}

impl Row<'_> {
    /// True where something is to be told: a difference, a transition, a reset, or another level of a peak or a measure.
    pub fn is_change(&self) -> bool {
        match self.state {
            State::Changed | State::Reset => true,
            State::Value | State::SpansGap => match self.difference {
                Some(difference) => !difference.is_zero(),
                None => self.shows_levels() && self.before.is_some() && self.before != self.after,
            },
            _ => false,
        }
    }

    /// Identities and versions mean something inside one document only.
    fn shows_levels(&self) -> bool {
        self.column.field.is_none_or(|field| !matches!(field.kind, Kind::Identity | Kind::Version | Kind::Structure))
    }
}

/// Where two documents stand to each other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interval {
    /// A counter of this path went down somewhere in between.
    pub reset: bool,
    /// Records are missing in between.
    pub gap: bool,
    /// The link's rate in bytes per second, where the run knows it.
    pub link: Option<u64>,
}

/// Compares one field of two documents.
pub fn compare<'a>(column: &'a Column, before: &'a Values, after: &'a Values, interval: Interval) -> Row<'a> {
    let sides = (column.side(before), column.side(after));
    let (state, difference) = judge(column.field, sides, interval);
    let mut row = Row { column, state, before: sides.0.known(), after: sides.1.known(), difference, rate: None };
    if row.difference.is_some() {
        row.rate = rate::implied(&row, before, after, interval.link);
    }
    row
}

fn judge(field: Option<&Field>, (before, after): (Side<'_>, Side<'_>), interval: Interval) -> (State, Option<Difference>) {
    let worst = before.lacks().max_by_grave(after.lacks());
    let kind = field.map(|field| field.kind);
    // The later peak says everything; so does the later reading of what is measured once.
    if matches!(kind, Some(Kind::Peak | Kind::Measure)) {
        return (after.lacks().map_or(State::Value, |(_, state)| state), None);
    }
    if let Some((_, state)) = worst {
        return (state, None);
    }
    let (Some(earlier), Some(later)) = (before.known(), after.known()) else { return (State::Unavailable, None) };
    let given = if interval.gap { State::SpansGap } else { State::Value };
    match kind {
        Some(Kind::Counter) => match difference(earlier, later) {
            Some(difference) if difference.as_f64() < 0.0 || interval.reset => (State::Reset, None),
            Some(difference) => (given, Some(difference)),
            None => (State::Unavailable, None),
        },
        Some(Kind::Gauge) => match difference(earlier, later) {
            Some(difference) => (given, Some(difference)),
            None => (State::Unavailable, None),
        },
        Some(Kind::Limit | Kind::Label | Kind::Flag | Kind::Text) => {
            (if earlier == later { State::Unchanged } else { State::Changed }, None)
        }
        _ => (State::Value, None),
    }
}

/// The graver of two reasons.
trait Graver {
    fn max_by_grave(self, other: Self) -> Self;
}

impl Graver for Option<(u8, State)> {
    fn max_by_grave(self, other: Self) -> Self {
        match (self, other) {
            (Some(a), Some(b)) if a.0 >= b.0 => Some(a),
            (a, None) => a,
            (_, b) => b,
        }
    }
}
