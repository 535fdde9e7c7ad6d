//! What people see of the delta tables: "What is the story, on one screen?"
//!
//! Uses `cells`. Invariants: resets and transitions come first, then the largest change of each unit; counters of different units are
//! never ranked against each other; what is left out is counted and said.

use super::cells;
use crate::analysis::delta::{Pair, Row};
use crate::limits::{DELTA_GROUP_ROWS, DELTA_PAGE_ROWS, STEP_COLUMNS};
use crate::output::text;
use crate::run::{Component, Run, shorten, shorten_to};
use ddo_schemas::Unit;
use ddo_schemas::deltas::{DeltaScope, DeltaState};
use ddo_schemas::field::Kind;

/// How much is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// One screen: the largest changes.
    Screen,
    /// Every change between the first and last record and between reports.
    Page,
    /// Every row of every pair.
    All,
}

/// A table for people; the first column holds words, the others numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Table {
    /// What it shows.
    pub(super) title: String,
    /// Names of the columns.
    pub(super) header: Vec<String>,
    /// Cells, row by row.
    pub(super) rows: Vec<Vec<String>>,
    /// What is to be said below.
    pub(super) notes: Vec<String>,
}

/// The tables of one component, or of two chosen documents.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Page {
    /// What it is about.
    pub(super) title: String,
    /// Its tables.
    pub(super) tables: Vec<Table>,
}

/// All pages of the given pairs.
pub(super) fn pages(run: &Run, pairs: &[Pair<'_>], detail: Detail) -> Vec<Page> {
    if let [chosen] = pairs
        && chosen.scope == DeltaScope::Chosen
    {
        let table = changes(chosen, if detail == Detail::All { Detail::All } else { Detail::Page });
        return vec![Page { title: chosen.component.map_or("two components".into(), component_name), tables: vec![table] }];
    }
    run.components
        .iter()
        .map(|component| (component, pairs.iter().filter(|pair| pair.component == Some(&component.name)).collect::<Vec<_>>()))
        .filter(|(_, own)| !own.is_empty())
        .map(|(component, own)| Page { title: heading(component), tables: tables(&own, detail) })
        .collect()
}

fn component_name(name: &str) -> String {
    format!("component {}", shorten_to(name, 60))
}

fn heading(component: &Component) -> String {
    let many = |count: usize, what: &str| format!("{count} {what}{}", if count == 1 { "" } else { "s" });
    let (records, reports) = (many(component.records.len(), "record"), many(component.reports.len(), "report"));
    format!("{}: {records}, {reports}", component_name(&component.name))
}

fn tables(own: &[&Pair<'_>], detail: Detail) -> Vec<Table> {
    let of = |scope: DeltaScope| own.iter().copied().filter(move |pair| pair.scope == scope);
    if detail == Detail::All {
        return own.iter().map(|pair| changes(pair, detail)).collect();
    }
    let total = of(DeltaScope::FirstToLast).next();
    let steps: Vec<&Pair<'_>> = of(DeltaScope::Step).collect();
    let reports: Vec<&Pair<'_>> = of(DeltaScope::Reports).collect();
    let mut tables: Vec<Table> = total.map(|pair| changes(pair, detail)).into_iter().collect();
    tables.extend(total.filter(|_| steps.len() > 1).and_then(|total| per_step(total, &steps)));
    if !reports.is_empty() {
        tables.push(overview(&reports));
    }
    if total.is_none() && detail == Detail::Screen {
        tables.extend(reports.last().map(|pair| changes(pair, detail)).filter(|table| !table.rows.is_empty()));
    }
    if detail == Detail::Page {
        tables.extend(reports.iter().map(|pair| changes(pair, detail)).filter(|table| !table.rows.is_empty()));
    }
    tables
}

/// Name of a field without what all of its neighbours share.
fn name(path: &str) -> String {
    let short = path.strip_prefix("runtime.vmm.").or_else(|| path.strip_prefix("runtime.")).unwrap_or(path);
    shorten(short)
}

fn span(pair: &Pair<'_>) -> String {
    let seconds = pair.seconds.map(|seconds| format!(" in {} of host time", text::seconds(seconds))).unwrap_or_default();
    let whole = if pair.scope == DeltaScope::FirstToLast { ", first to last" } else { "" };
    let gap = if pair.gap { ", over missing steps" } else { "" };
    format!("{} -> {}{whole}{gap}{seconds}", shorten_to(&pair.from, 60), shorten_to(&pair.to, 60))
}

/// The fields of one pair.
fn changes(pair: &Pair<'_>, detail: Detail) -> Table {
    let rows: Vec<Row<'_>> = pair.rows().collect();
    let changed = rows.iter().filter(|row| row.is_change()).count();
    let shown: Vec<&Row<'_>> = match detail {
        Detail::All => rows.iter().collect(),
        Detail::Page => ranked(&rows, usize::MAX).into_iter().take(DELTA_PAGE_ROWS).collect(),
        Detail::Screen => ranked(&rows, DELTA_GROUP_ROWS),
    };
    let title = format!("{}: {changed} of {} fields changed", span(pair), rows.len());
    let mut table = Table { title, ..Table::default() };
    table.header = ["field", "before", "after", "change"].map(String::from).to_vec();
    let noted = shown.iter().any(|row| !cells::note(row).is_empty());
    if noted {
        table.header.push("note".into());
    }
    for row in &shown {
        let (before, after) = (cells::level(row.before, row.column.unit()), cells::level(row.after, row.column.unit()));
        let mut line = vec![name(&row.column.path), before, after, cells::change(row)];
        if row.state == DeltaState::Changed && detail != Detail::All {
            line = vec![name(&row.column.path), String::new(), String::new(), cells::change(row)];
        }
        if noted {
            line.push(cells::note(row));
        }
        table.rows.push(line);
    }
    let left_out = changed.saturating_sub(shown.len());
    if left_out > 0 && detail != Detail::All {
        table.notes.push(format!("and {left_out} more changed fields: --all shows every field"));
    }
    let unknown = rows.iter().filter(|row| row.before.is_none() || row.after.is_none()).count();
    if unknown > 0 && detail != Detail::All {
        table.notes.push(format!("{unknown} fields are not in both of them; nothing is assumed about these"));
    }
    table
}

/// Changed rows by group, the largest change of each group first, at most `limit` of each; then, one of those that say
/// the same.
fn ranked<'r, 'a>(rows: &'r [Row<'a>], limit: usize) -> Vec<&'r Row<'a>> {
    let mut changed: Vec<&Row<'_>> = rows.iter().filter(|row| row.is_change()).collect();
    let size = |row: &Row<'_>| row.difference.map_or(0.0, |difference| difference.as_f64().abs());
    changed.sort_by(|a, b| group(a).cmp(&group(b)).then_with(|| size(b).total_cmp(&size(a))));
    let mut taken = (u8::MAX, 0);
    let mut said: Option<&Row<'_>> = None;
    changed
        .into_iter()
        .filter(|row| {
            let again =
                said.is_some_and(|said| group(said) == group(row) && (said.before, said.after) == (row.before, row.after));
            said = Some(row);
            limit == usize::MAX || !again
        })
        .filter(|row| {
            taken = if taken.0 == group(row) { (taken.0, taken.1 + 1) } else { (group(row), 1) };
            taken.1 <= limit
        })
        .collect()
}

/// Rows that may be ranked against each other, the most telling group first.
fn group(row: &Row<'_>) -> u8 {
    let counter = row.column.field.is_some_and(|field| field.kind == Kind::Counter);
    match (row.state, row.column.unit()) {
        (DeltaState::Reset, _) => 0,
        (DeltaState::Changed, _) => 1,
        (_, Some(Unit::Bytes | Unit::Gib)) if counter => 2,
        (_, Some(Unit::Seconds)) if counter => 3,
        _ if counter => 4,
        (_, Some(Unit::Bytes | Unit::Gib)) if row.difference.is_some() => 5,
        _ if row.difference.is_some() => 6,
        _ => 7,
    }
}

/// The largest counters of a journal and what each step added to them.
fn per_step(total: &Pair<'_>, steps: &[&Pair<'_>]) -> Option<Table> {
    let rows: Vec<Row<'_>> = total.rows().collect();
    let shown: Vec<&Row<'_>> =
        ranked(&rows, DELTA_GROUP_ROWS).into_iter().filter(|row| matches!(group(row), 0 | 2..=4)).collect();
    if shown.is_empty() {
        return None;
    }
    let columns = StepColumns::of(steps);
    let mut table = Table { title: "what each step added".into(), ..Table::default() };
    table.header = std::iter::once("counter".to_string()).chain(columns.header()).collect();
    let seconds: Vec<Option<f64>> = steps.iter().map(|pair| pair.seconds).collect();
    table.rows.push(columns.line("host time", &seconds, |value| text::seconds(*value)));
    for wanted in shown {
        let of_step = |pair: &&Pair<'_>| pair.row(&wanted.column.path).map(|row| Added::of(&row));
        let added: Vec<Option<Added>> = steps.iter().map(of_step).collect();
        table.rows.push(columns.line(&name(&wanted.column.path), &added, |added| added.text.clone()));
    }
    if columns.middle.is_some() {
        table.notes.push("the median is of all steps but the first; --all shows every step".into());
    }
    Some(table)
}

/// What a step added, to be ordered and shown.
#[derive(Clone, Debug, PartialEq)]
struct Added {
    size: Option<f64>,
    text: String,
}

impl Added {
    fn of(row: &Row<'_>) -> Added {
        let gap = if row.state == DeltaState::SpansGap { " (gap)" } else { "" };
        let text = if row.difference.is_some_and(|difference| difference.is_zero()) { "0".into() } else { cells::change(row) };
        Added { size: row.difference.map(|difference| difference.as_f64()), text: format!("{text}{gap}") }
    }
}

impl PartialOrd for Added {
    fn partial_cmp(&self, other: &Added) -> Option<std::cmp::Ordering> {
        self.size?.partial_cmp(&other.size?)
    }
}

/// Which steps get a column.
struct StepColumns {
    names: Vec<String>,
    /// Steps that are shown one by one: the first ones of `names`, but for the last column of a long journal.
    single: Vec<usize>,
    /// For a long journal: from which step on the median is taken.
    middle: Option<usize>,
}

impl StepColumns {
    fn of(steps: &[&Pair<'_>]) -> StepColumns {
        let title = |pair: &&Pair<'_>| pair.step.map_or_else(|| pair.to.clone(), |step| format!("step {step}"));
        let names: Vec<String> = steps.iter().map(title).collect();
        if steps.len() <= STEP_COLUMNS {
            return StepColumns { single: (0..names.len()).collect(), names, middle: None };
        }
        let last = names.len() - 1;
        StepColumns { single: vec![0, 1, last], names, middle: Some(1) }
    }

    fn header(&self) -> Vec<String> {
        let mut header: Vec<String> = self.single.iter().filter_map(|at| self.names.get(*at).cloned()).collect();
        if self.middle.is_some() {
            header.insert(header.len() - 1, "median".into());
        }
        header
    }

    fn line<T: PartialOrd + Clone>(&self, name: &str, values: &[Option<T>], show: impl Fn(&T) -> String) -> Vec<String> {
        let cell = |value: Option<&T>| value.map_or_else(|| "-".to_string(), &show);
        let mut line: Vec<String> = self.single.iter().map(|at| cell(values.get(*at).and_then(Option::as_ref))).collect();
        if let Some(from) = self.middle {
            let known: Vec<T> = values.iter().skip(from).flatten().cloned().collect();
            line.insert(line.len() - 1, cell(median(known).as_ref()));
        }
        line.insert(0, name.into());
        line
    }
}

/// The middle of what can be ordered; the lower one of two.
fn median<T: PartialOrd>(values: Vec<T>) -> Option<T> {
    let mut ordered: Vec<T> = values.into_iter().filter(|value| value.partial_cmp(value).is_some()).collect();
    ordered.sort_by(|a, b| a.partial_cmp(b).unwrap_or(std::cmp::Ordering::Equal));
    let middle = ordered.len().checked_sub(1)? / 2;
    ordered.into_iter().nth(middle)
}

/// How much changed between reports.
fn overview(reports: &[&Pair<'_>]) -> Table {
    let mut table = Table { title: "reports of one route, in the order of their files".into(), ..Table::default() };
    table.header = ["from -> to", "changed", "unchanged", "not in both"].map(String::from).to_vec();
    for pair in reports {
        let rows: Vec<Row<'_>> = pair.rows().collect();
        let changed = rows.iter().filter(|row| row.is_change()).count();
        let unknown = rows.iter().filter(|row| row.before.is_none() || row.after.is_none()).count();
        let same = rows
            .len()
            .saturating_sub(unknown)
            .saturating_sub(rows.iter().filter(|row| row.is_change() && row.before.is_some() && row.after.is_some()).count());
        let names = format!("{} -> {}", shorten_to(&pair.from, 60), shorten_to(&pair.to, 60));
        table.rows.push(vec![names, changed.to_string(), same.to_string(), unknown.to_string()]);
    }
    table.notes.push("--from NAME --to NAME shows the fields of any two".into());
    table
}
