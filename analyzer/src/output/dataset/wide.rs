//! The wide table: "What does one step look like beside the next?"
//!
//! Declared fields of the offload runtime. `PATH` is what was added to a counter, the change of a gauge or the transition of a label;
//! `PATH:after` is the later level. Uses `analysis::delta`. Invariant: a column has the type that the declaration asks for; a value of
//! another type is null here and exact in the long table.

use super::Table;
use super::tidy::transition;
use crate::analysis::delta::{Column as Compared, Difference, Pair, Row};
use crate::error::Error;
use crate::run::Scalar;
use ddo_schemas::Unit;
use ddo_schemas::deltas::DeltaState;
use ddo_schemas::field::{Field, Kind};
use polars::prelude::Column;
use std::collections::BTreeSet;
use std::io::Write;

/// The part of a document that the table shows.
const SHOWN: &str = "runtime.vmm.";

/// Writes the table in row groups of at most `cells`.
pub(super) fn write(pairs: &[Pair<'_>], cells: usize, out: &mut dyn Write) -> Result<(), Error> {
    let fields = fields(pairs);
    let rows = (cells / (fields.len() + 1)).max(1);
    let mut table = Table::begin("wide", Group::new(&fields).columns(), out)?;
    for chunk in pairs.chunks(rows) {
        let mut group = Group::new(&fields);
        chunk.iter().for_each(|pair| group.push(pair));
        table.group(group.columns())?;
    }
    table.end()
}

/// Declared fields of any pair, in the order in which they appear.
fn fields<'p>(pairs: &'p [Pair<'_>]) -> Vec<(&'p str, &'static Field)> {
    let mut seen = BTreeSet::new();
    let mut all = Vec::new();
    for column in pairs.iter().flat_map(Pair::columns).filter(|column| column.path.starts_with(SHOWN)) {
        let Compared { path, field: Some(field), .. } = column else { continue };
        if seen.insert(&**path) {
            all.push((&**path, *field));
        }
    }
    all
}

/// Values of one column.
enum Cells {
    Unsigned(Vec<Option<u64>>),
    Signed(Vec<Option<i64>>),
    Real(Vec<Option<f64>>),
    Flag(Vec<Option<bool>>),
    Text(Vec<Option<String>>),
}

impl Cells {
    /// What was added, or changed; `None` for kinds that have no difference.
    fn of_change(field: &Field) -> Option<Cells> {
        match field.kind {
            Kind::Counter | Kind::Gauge if is_fraction(field.unit) => Some(Cells::Real(Vec::new())),
            Kind::Counter => Some(Cells::Unsigned(Vec::new())),
            Kind::Gauge => Some(Cells::Signed(Vec::new())),
            Kind::Limit | Kind::Label | Kind::Flag | Kind::Text => Some(Cells::Text(Vec::new())),
            Kind::Peak | Kind::Measure | Kind::Identity | Kind::Version | Kind::Structure => None,
        }
    }

    /// Later levels; `None` for counters, whose level is a sum, and for what means something in one document only.
    fn of_level(field: &Field) -> Option<Cells> {
        match field.kind {
            Kind::Counter | Kind::Identity | Kind::Version | Kind::Structure => None,
            Kind::Flag => Some(Cells::Flag(Vec::new())),
            Kind::Label | Kind::Text => Some(Cells::Text(Vec::new())),
            Kind::Gauge | Kind::Peak | Kind::Limit | Kind::Measure => {
                Some(if is_fraction(field.unit) { Cells::Real(Vec::new()) } else { Cells::Unsigned(Vec::new()) })
            }
        }
    }

    fn push_change(&mut self, row: Option<&Row<'_>>) {
        let difference = row.and_then(|row| row.difference);
        let whole = match difference {
            Some(Difference::Whole(value)) => Some(value),
            _ => None,
        };
        match self {
            Cells::Unsigned(cells) => cells.push(whole.and_then(|value| value.try_into().ok())),
            Cells::Signed(cells) => cells.push(whole.and_then(|value| value.try_into().ok())),
            Cells::Real(cells) => cells.push(difference.map(Difference::as_f64)),
            Cells::Flag(cells) => cells.push(None),
            Cells::Text(cells) => cells.push(row.filter(|row| row.state == DeltaState::Changed).map(transition)),
        }
    }

    fn push_level(&mut self, value: Option<&Scalar>) {
        match self {
            Cells::Unsigned(cells) => cells.push(value.and_then(Scalar::as_u64)),
            Cells::Signed(cells) => cells.push(match value {
                Some(Scalar::I64(value)) => Some(*value),
                _ => None,
            }),
            Cells::Real(cells) => cells.push(value.and_then(Scalar::as_f64)),
            Cells::Flag(cells) => cells.push(match value {
                Some(Scalar::Bool(value)) => Some(*value),
                _ => None,
            }),
            Cells::Text(cells) => cells.push(match value {
                Some(Scalar::Text(value)) => Some(value.clone()),
                _ => None,
            }),
        }
    }

    fn column(self, name: String) -> Column {
        match self {
            Cells::Unsigned(cells) => Column::new(name.into(), cells),
            Cells::Signed(cells) => Column::new(name.into(), cells),
            Cells::Real(cells) => Column::new(name.into(), cells),
            Cells::Flag(cells) => Column::new(name.into(), cells),
            Cells::Text(cells) => Column::new(name.into(), cells),
        }
    }
}

fn is_fraction(unit: Unit) -> bool {
    matches!(unit, Unit::Seconds | Unit::Gib | Unit::Ratio)
}

/// One row group.
struct Group<'a> {
    component: Vec<Option<&'a str>>,
    scope: Vec<&'static str>,
    from: Vec<&'a str>,
    to: Vec<&'a str>,
    step: Vec<Option<u64>>,
    spans_gap: Vec<bool>,
    seconds: Vec<Option<f64>>,
    fields: Vec<(&'a str, Option<Cells>, Option<Cells>)>,
}

impl<'a> Group<'a> {
    fn new(fields: &[(&'a str, &'static Field)]) -> Group<'a> {
        let fields = fields.iter().map(|(path, field)| (*path, Cells::of_change(field), Cells::of_level(field)));
        Group {
            component: Vec::new(),
            scope: Vec::new(),
            from: Vec::new(),
            to: Vec::new(),
            step: Vec::new(),
            spans_gap: Vec::new(),
            seconds: Vec::new(),
            fields: fields.collect(),
        }
    }

    fn push(&mut self, pair: &'a Pair<'_>) {
        self.component.push(pair.component);
        self.scope.push(pair.scope.name());
        self.from.push(&pair.from);
        self.to.push(&pair.to);
        self.step.push(pair.step);
        self.spans_gap.push(pair.gap);
        self.seconds.push(pair.seconds);
        // The fields of most pairs come in the table's order; others are looked for.
        let shown = |row: &Row<'_>| row.column.field.is_some() && row.column.path.starts_with(SHOWN);
        let mut rows = pair.rows().filter(shown).peekable();
        for (path, change, level) in &mut self.fields {
            let row = rows.next_if(|row| &*row.column.path == *path).or_else(|| pair.row(path));
            let row = row.as_ref();
            if let Some(cells) = change {
                cells.push_change(row);
            }
            if let Some(cells) = level {
                cells.push_level(row.and_then(|row| row.after));
            }
        }
    }

    fn columns(self) -> Vec<Column> {
        let mut all = vec![
            Column::new("component".into(), self.component),
            Column::new("scope".into(), self.scope),
            Column::new("from".into(), self.from),
            Column::new("to".into(), self.to),
            Column::new("step".into(), self.step),
            Column::new("spans_gap".into(), self.spans_gap),
            Column::new("seconds".into(), self.seconds),
        ];
        for (path, change, level) in self.fields {
            all.extend(change.map(|cells| cells.column(path.into())));
            all.extend(level.map(|cells| cells.column(format!("{path}:after"))));
        }
        all
    }
}
