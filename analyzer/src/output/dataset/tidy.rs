//! The long table: "Which rows does a query filter?"
//!
//! Uses `analysis::delta`. Invariants: a whole number is in the column of its sign and size, never rounded; what fits no column of 64 bits
//! is in the text column, digit by digit.

use super::Table;
use crate::analysis::delta::{Difference, Pair, Row};
use crate::error::Error;
use crate::run::Scalar;
use ddo_schemas::deltas::DeltaState;
use ddo_schemas::field::Kind;
use polars::prelude::Column;
use std::borrow::Cow;
use std::io::Write;

/// Writes the table in row groups of at most `rows`.
pub(super) fn write(pairs: &[Pair<'_>], rows: usize, out: &mut dyn Write) -> Result<(), Error> {
    let mut table = Table::begin("tidy", Group::default().columns(), out)?;
    let mut group = Group::default();
    for pair in pairs {
        for row in pair.rows() {
            group.push(pair, &row);
            if group.rows >= rows {
                table.group(std::mem::take(&mut group).columns())?;
            }
        }
    }
    table.group(group.columns())?;
    table.end()
}

/// Values of one meaning, each in the column of its type.
#[derive(Default)]
struct Typed {
    unsigned: Vec<Option<u64>>,
    signed: Vec<Option<i64>>,
    real: Vec<Option<f64>>,
    text: Vec<Option<String>>,
}

/// One value and its type.
enum Value<'a> {
    Nothing,
    Unsigned(u64),
    Signed(i64),
    Real(f64),
    Text(Cow<'a, str>),
}

impl<'a> Value<'a> {
    fn level(value: Option<&'a Scalar>) -> Value<'a> {
        match value {
            Some(Scalar::U64(value)) => Value::Unsigned(*value),
            Some(Scalar::I64(value)) => Value::Signed(*value),
            Some(Scalar::F64(value)) => Value::Real(*value),
            Some(Scalar::Bool(value)) => Value::Text(if *value { "true" } else { "false" }.into()),
            Some(Scalar::Text(value)) => Value::Text(value.into()),
            Some(Scalar::Uncollected) | None => Value::Nothing,
        }
    }

    /// What changed: counters grow without a sign, gauges have one, and labels have a transition.
    fn change(row: &'a Row<'_>) -> Value<'a> {
        let gauge = row.column.field.is_some_and(|field| field.kind == Kind::Gauge);
        match row.difference {
            Some(Difference::Fraction(value)) => Value::Real(value),
            Some(Difference::Whole(value)) => match (u64::try_from(value), i64::try_from(value)) {
                (_, Ok(value)) if gauge => Value::Signed(value),
                (Ok(value), _) => Value::Unsigned(value),
                (_, Ok(value)) => Value::Signed(value),
                _ => Value::Text(value.to_string().into()),
            },
            None if row.state == DeltaState::Changed => Value::Text(transition(row).into()),
            None => Value::Nothing,
        }
    }
}

/// `before -> after`, exactly.
pub(super) fn transition(row: &Row<'_>) -> String {
    let word = |value: Option<&Scalar>| match Value::level(value) {
        Value::Nothing => String::new(),
        Value::Unsigned(value) => value.to_string(),
        Value::Signed(value) => value.to_string(),
        Value::Real(value) => format!("{value:?}"),
        Value::Text(value) => value.into_owned(),
    };
    format!("{} -> {}", word(row.before), word(row.after))
}

impl Typed {
    fn push(&mut self, value: Value<'_>) {
        let (mut unsigned, mut signed, mut real, mut text) = (None, None, None, None);
        match value {
            Value::Nothing => {}
            Value::Unsigned(value) => unsigned = Some(value),
            Value::Signed(value) => signed = Some(value),
            Value::Real(value) => real = Some(value),
            Value::Text(value) => text = Some(value.into_owned()),
        }
        self.unsigned.push(unsigned);
        self.signed.push(signed);
        self.real.push(real);
        self.text.push(text);
    }

    fn columns(self, name: &str) -> [Column; 4] {
        [
            Column::new(format!("{name}_u64").into(), self.unsigned),
            Column::new(format!("{name}_i64").into(), self.signed),
            Column::new(format!("{name}_f64").into(), self.real),
            Column::new(format!("{name}_text").into(), self.text),
        ]
    }
}

/// One row group.
#[derive(Default)]
struct Group<'a> {
    rows: usize,
    component: Vec<Option<&'a str>>,
    scope: Vec<&'static str>,
    from: Vec<&'a str>,
    to: Vec<&'a str>,
    step: Vec<Option<u64>>,
    path: Vec<&'a str>,
    kind: Vec<&'static str>,
    unit: Vec<&'static str>,
    state: Vec<&'static str>,
    value: Typed,
    before: Typed,
    after: Typed,
    seconds: Vec<Option<f64>>,
    rate: Vec<Option<f64>>,
    rate_note: Vec<Option<&'static str>>,
}

impl<'a> Group<'a> {
    fn push(&mut self, pair: &'a Pair<'_>, row: &Row<'a>) {
        self.rows += 1;
        self.component.push(pair.component);
        self.scope.push(pair.scope.name());
        self.from.push(&pair.from);
        self.to.push(&pair.to);
        self.step.push(pair.step);
        self.path.push(&row.column.path);
        self.kind.push(row.column.kind());
        self.unit.push(row.column.unit_name());
        self.state.push(row.state.name());
        self.value.push(Value::change(row));
        self.before.push(Value::level(row.before));
        self.after.push(Value::level(row.after));
        self.seconds.push(pair.seconds);
        self.rate.push(row.rate.map(|rate| rate.bytes_per_second));
        self.rate_note.push(row.rate.and_then(|rate| rate.note()));
    }

    fn columns(self) -> Vec<Column> {
        let mut all = vec![
            Column::new("component".into(), self.component),
            Column::new("scope".into(), self.scope),
            Column::new("from".into(), self.from),
            Column::new("to".into(), self.to),
            Column::new("step".into(), self.step),
            Column::new("path".into(), self.path),
            Column::new("kind".into(), self.kind),
            Column::new("unit".into(), self.unit),
            Column::new("state".into(), self.state),
        ];
        all.extend(self.value.columns("value"));
        all.extend(self.before.columns("before"));
        all.extend(self.after.columns("after"));
        all.push(Column::new("seconds".into(), self.seconds));
        all.push(Column::new("rate_bytes_per_second".into(), self.rate));
        all.push(Column::new("rate_note".into(), self.rate_note));
        all
    }
}
