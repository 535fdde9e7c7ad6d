//! Documents to compare: "Which two belong to one row?"
//!
//! Uses `run` and `compare`. Invariants: records pair by step number, reports of one route in the order of their files, and
//! never across components unless both sides were named; the fields of a component's records are the same in all of its pairs.

use super::compare::{Column, Interval, Row, compare};
use super::{Delta, consecutive, field, is_counter, subtract};
use crate::analysis::floor::link_rate;
use crate::run::{Component, LoadedReport, Record, Run, Scalar, Values};
use ddo_schemas::catalogue;
pub use ddo_schemas::deltas::DeltaScope as Scope;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, OnceLock};

/// Two documents to compare.
#[derive(Clone, Debug)]
pub struct Pair<'a> {
    /// The component of both; `None` where the two sides are of different ones.
    pub component: Option<&'a str>,
    /// What it covers.
    pub scope: Scope,
    /// Name of the earlier document.
    pub from: String,
    /// Name of the later document.
    pub to: String,
    /// The step that the later record closes.
    pub step: Option<u64>,
    /// Host time in between, where both say when they were taken.
    pub seconds: Option<f64>,
    /// Records are missing in between.
    pub gap: bool,
    before: &'a Values,
    after: &'a Values,
    columns: Arc<[Column]>,
    resets: BTreeSet<Arc<str>>,
    link: Option<u64>,
}

impl Pair<'_> {
    /// How many fields it compares.
    pub fn len(&self) -> usize {
        self.columns.len()
    }

    /// True where there is nothing to compare.
    pub fn is_empty(&self) -> bool {
        self.columns.is_empty()
    }

    /// The fields that it compares.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The row of one field, where it is compared.
    pub fn row(&self, path: &str) -> Option<Row<'_>> {
        self.columns.iter().find(|column| &*column.path == path).map(|column| self.compared(column))
    }

    fn compared<'s>(&'s self, column: &'s Column) -> Row<'s> {
        let reset = self.resets.contains(&column.path);
        compare(column, self.before, self.after, Interval { reset, gap: self.gap, link: self.link })
    }

    /// Its rows, in the order of the catalogue; undeclared fields follow by path.
    pub fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.columns.iter().map(|column| self.compared(column))
    }
}

/// Every pair of a run: for each component its steps, first to last, then its reports.
pub fn pairs(run: &Run) -> Vec<Pair<'_>> {
    let mut all = Vec::new();
    // One set of fields for all components: what one of them lacks is unavailable there, not forgotten.
    let of_records: Arc<[Column]> = columns(run.components.iter().flat_map(super::paths));
    for component in &run.components {
        let names = names(component);
        let link = link_rate(component);
        for (pair, name) in component.records.windows(2).zip(names.records.windows(2)) {
            if let ([before, after], [from, to]) = (pair, name) {
                all.push(of_two_records(component, Scope::Step, (before, after), (from, to), &of_records));
            }
        }
        if let (Some(first), Some(last)) = (component.records.first(), component.records.last())
            && let (Some(from), Some(to)) = (names.records.first(), names.records.last())
            && component.records.len() > 1
        {
            let mut total = of_two_records(component, Scope::FirstToLast, (first, last), (from, to), &of_records);
            (total.resets, total.gap) = (went_down(&component.records), has_gap(&component.records));
            all.push(total);
        }
        all.extend(of_reports(component, &names.reports, link));
    }
    all
}

/// How many rows [`pairs`] has, without making them.
pub(super) fn count_rows(run: &Run) -> usize {
    let columns = columns(run.components.iter().flat_map(super::paths)).len();
    // One pair for each record after the first, and one from first to last.
    let of_records = |records: usize| if records > 1 { records * columns } else { 0 };
    let rows = |component: &Component| {
        let reports = of_reports(component, &names(component).reports, None);
        of_records(component.records.len()) + reports.iter().map(Pair::len).sum::<usize>()
    };
    run.components.iter().map(rows).sum()
}

/// Each report with the one before it of the same route.
fn of_reports<'a>(component: &'a Component, names: &[String], link: Option<u64>) -> Vec<Pair<'a>> {
    let mut all = Vec::new();
    let mut last: BTreeMap<Option<&str>, (&LoadedReport, &String)> = BTreeMap::new();
    for (after, to) in component.reports.iter().zip(names) {
        let Some((before, from)) = last.insert(after.route.as_deref(), (after, to)) else { continue };
        all.push(Pair {
            component: Some(&component.name),
            scope: Scope::Reports,
            from: from.clone(),
            to: to.clone(),
            step: None,
            seconds: elapsed(observed(before), observed(after)),
            gap: false,
            before: &before.values,
            after: &after.values,
            columns: columns(before.values.keys().chain(after.values.keys()).cloned()),
            resets: BTreeSet::new(),
            link,
        });
    }
    all
}

fn of_two_records<'a>(
    component: &'a Component,
    scope: Scope,
    (before, after): (&'a Record, &'a Record),
    (from, to): (&str, &str),
    columns: &Arc<[Column]>,
) -> Pair<'a> {
    Pair {
        component: Some(&component.name),
        scope,
        from: from.into(),
        to: to.into(),
        step: after.step,
        seconds: between_records(before, after),
        gap: !consecutive(before, after),
        before: &before.values,
        after: &after.values,
        columns: columns.clone(),
        resets: BTreeSet::new(),
        link: link_rate(component),
    }
}

/// Paths as columns, each once, in the order of the catalogue.
fn columns(paths: impl Iterator<Item = Arc<str>>) -> Arc<[Column]> {
    let unique: BTreeSet<Arc<str>> = paths.collect();
    let mut placed: Vec<(usize, Column)> = unique
        .into_iter()
        .map(|path| {
            let row = catalogue::find(&path);
            let at = row.and_then(|row| order().get(row.path.as_str()).copied()).unwrap_or(usize::MAX);
            let field = field(&path);
            (at, Column::new(path, field))
        })
        .collect();
    placed.sort_by_key(|(at, _)| *at);
    placed.into_iter().map(|(_, column)| column).collect()
}

/// Place of every declared path in the catalogue.
fn order() -> &'static HashMap<&'static str, usize> {
    static ORDER: OnceLock<HashMap<&'static str, usize>> = OnceLock::new();
    ORDER.get_or_init(|| catalogue::rows().iter().enumerate().map(|(at, row)| (row.path.as_str(), at)).collect())
}

/// True where a step is missing between the first and the last of these records.
fn has_gap(records: &[Record]) -> bool {
    records.windows(2).any(|pair| matches!(pair, [before, after] if !consecutive(before, after)))
}

/// Counters that went down anywhere between the first and the last of these records, also across records that lack them.
fn went_down(records: &[Record]) -> BTreeSet<Arc<str>> {
    let decreases = |path: &Arc<str>| {
        let mut values = records.iter().filter_map(|record| record.values.get(path)).filter(|value| value.as_f64().is_some());
        let Some(mut before) = values.next() else { return false };
        values.any(|value| subtract(Some(std::mem::replace(&mut before, value)), Some(value)) == Delta::Reset)
    };
    super::paths_of(records).into_iter().filter(|path| is_counter(path)).filter(decreases).collect()
}

/// Names of a component's documents, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    /// Of its records.
    pub records: Vec<String>,
    /// Of its reports.
    pub reports: Vec<String>,
}

/// File names without folders where they are unique inside the component, else with them.
pub fn names(component: &Component) -> Names {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let files = || component.records.iter().map(|record| record.file.as_str());
    let reports = || component.reports.iter().map(|report| report.file.as_str());
    for file in files().chain(reports()) {
        *seen.entry(short(file)).or_insert(0) += 1;
    }
    let name = |file: &str| if seen.get(short(file)) == Some(&1) { short(file).into() } else { without_ending(file).into() };
    Names { records: files().map(name).collect(), reports: reports().map(name).collect() }
}

fn short(file: &str) -> &str {
    without_ending(file.rsplit('/').next().unwrap_or(file))
}

fn without_ending(file: &str) -> &str {
    file.strip_suffix(".json").unwrap_or(file)
}

/// Seconds between two records: of the journal's own clock, else of the clock that both name.
fn between_records(before: &Record, after: &Record) -> Option<f64> {
    let own = elapsed_ns(before.host_elapsed_ns, after.host_elapsed_ns);
    own.or_else(|| elapsed_ns(before.observed_ns, after.observed_ns))
}

fn elapsed_ns(before: Option<i64>, after: Option<i64>) -> Option<f64> {
    let ns = after?.checked_sub(before?)?;
    (ns >= 0).then_some(ns as f64 / 1e9)
}

fn elapsed(before: Option<f64>, after: Option<f64>) -> Option<f64> {
    let seconds = after? - before?;
    (seconds.is_finite() && seconds >= 0.0).then_some(seconds)
}

fn observed(report: &LoadedReport) -> Option<f64> {
    report.values.get("runtime.observed_monotonic_seconds").and_then(Scalar::as_f64)
}

/// Why two named documents cannot be compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unmatched {
    /// No document has this name; these are there.
    Nothing {
        /// The name that was given.
        name: String,
        /// The files of all documents, without their ending.
        files: Vec<String>,
    },
    /// Several documents have this name.
    Several {
        /// The name that was given.
        name: String,
        /// Their files, without their ending.
        files: Vec<String>,
    },
    /// The first one was taken after the second.
    Backwards {
        /// The first one.
        from: String,
        /// The second one.
        to: String,
    },
}

/// A document that can be named.
struct Entry<'a> {
    component: &'a Component,
    name: String,
    file: &'a str,
    values: &'a Values,
    at: Option<usize>,
    record: Option<&'a Record>,
    report: Option<&'a LoadedReport>,
}

/// The pair of two documents by name: `final`, `step_0001`, `COMPONENT/step_0001` or the file's path.
///
/// # Errors
/// When a name fits none or several of them, or the later one is named first.
pub fn between<'a>(run: &'a Run, component: Option<&str>, from: &str, to: &str) -> Result<Pair<'a>, Unmatched> {
    let documents = documents(run, component);
    let before = find(&documents, from)?;
    let after = find(&documents, to)?;
    let same = std::ptr::eq(before.component, after.component);
    let records = match (before.at, after.at) {
        (Some(first), Some(last)) if same && first > last => {
            return Err(Unmatched::Backwards { from: from.into(), to: to.into() });
        }
        (Some(first), Some(last)) if same => before.component.records.get(first..=last).unwrap_or_default(),
        _ => &[],
    };
    let seconds = match (before.record, after.record) {
        (Some(earlier), Some(later)) if same => between_records(earlier, later),
        _ if same => elapsed(before.report.and_then(observed), after.report.and_then(observed)),
        _ => None,
    };
    let full = |named: &Entry<'_>| match same {
        true => named.name.clone(),
        false => format!("{}/{}", named.component.name, named.name),
    };
    Ok(Pair {
        component: same.then_some(before.component.name.as_str()),
        scope: Scope::Chosen,
        from: full(before),
        to: full(after),
        step: after.record.and_then(|record| record.step),
        seconds,
        gap: has_gap(records),
        before: before.values,
        after: after.values,
        columns: columns(before.values.keys().chain(after.values.keys()).cloned()),
        resets: went_down(records),
        link: link_rate(after.component),
    })
}

/// A record or a report with its component.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Named<'a> {
    /// A journal record.
    Record(&'a Component, &'a Record),
    /// A report.
    Report(&'a Component, &'a LoadedReport),
}

/// One document by its name, as [`between`] takes it.
///
/// # Errors
/// When the name fits none or several of them.
pub fn named<'a>(run: &'a Run, component: Option<&str>, name: &str) -> Result<Named<'a>, Unmatched> {
    let documents = documents(run, component);
    let found = find(&documents, name)?;
    let nothing = || Unmatched::Nothing { name: name.into(), files: Vec::new() };
    let report = found.report.map(|report| Named::Report(found.component, report));
    report.or_else(|| found.record.map(|record| Named::Record(found.component, record))).ok_or_else(nothing)
}

fn documents<'a>(run: &'a Run, wanted: Option<&str>) -> Vec<Entry<'a>> {
    let mut all = Vec::new();
    for component in run.components.iter().filter(|component| wanted.is_none_or(|name| component.name == name)) {
        let names = names(component);
        for ((at, record), name) in component.records.iter().enumerate().zip(names.records) {
            let (file, values) = (record.file.as_str(), &record.values);
            all.push(Entry { component, name, file, values, at: Some(at), record: Some(record), report: None });
        }
        for (report, name) in component.reports.iter().zip(names.reports) {
            let (file, values) = (report.file.as_str(), &report.values);
            all.push(Entry { component, name, file, values, at: None, record: None, report: Some(report) });
        }
    }
    all
}

fn find<'n, 'a>(documents: &'n [Entry<'a>], wanted: &str) -> Result<&'n Entry<'a>, Unmatched> {
    let plain = without_ending(wanted);
    let exact: Vec<&Entry<'_>> = documents.iter().filter(|named| without_ending(named.file) == plain).collect();
    let fits = match exact.is_empty() {
        false => exact,
        true => documents
            .iter()
            .filter(|named| named.name == plain || format!("{}/{}", named.component.name, named.name) == plain)
            .collect(),
    };
    match fits.as_slice() {
        [one] => Ok(one),
        several => {
            let all: Vec<&Entry<'_>> = if several.is_empty() { documents.iter().collect() } else { several.to_vec() };
            let files = all.iter().map(|named| without_ending(named.file).to_string()).collect();
            let name = wanted.into();
            Err(if several.is_empty() { Unmatched::Nothing { name, files } } else { Unmatched::Several { name, files } })
        }
    }
}
