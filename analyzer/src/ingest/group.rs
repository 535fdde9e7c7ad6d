//! Records and reports by component: "What belongs together?"
//!
//! Uses `run`. Invariants: records are ordered by step number, never by name; a hole in the numbers is a finding and
//! nothing is put into it; component names are unique inside a run; a report never joins a component whose
//! records name another session.

use super::notes::Notes;
use super::record::LoadedRecord;
use crate::run::{Component, LoadedReport, Record, RecordClock};
use ddo_schemas::Finding;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Name of a component that nothing names.
const NAMELESS: &str = "component";

/// Records of one folder.
#[derive(Default)]
struct Journal {
    records: BTreeMap<Option<u64>, Record>,
    component: Option<String>,
    sessions: BTreeSet<String>,
    configuration: Value,
    state: Value,
}

/// A component and what its reports are matched by.
struct Home {
    /// The folder around its journal, or that of its first report.
    base: String,
    stated: Option<String>,
    sessions: BTreeSet<String>,
    component: Component,
}

/// Everything that was read, before it is put in order.
#[derive(Default)]
pub(super) struct Groups {
    journals: BTreeMap<String, Journal>,
    reports: Vec<LoadedReport>,
}

impl Groups {
    /// Adds a record of the journal in `folder`.
    pub(super) fn add_record(&mut self, folder: &str, loaded: LoadedRecord, notes: &mut Notes) {
        let journal = self.journals.entry(folder.to_string()).or_default();
        if journal.component.is_none() {
            journal.component = loaded.component;
        }
        journal.sessions.extend(loaded.session_id);
        if journal.records.is_empty() {
            (journal.configuration, journal.state) = (loaded.configuration, loaded.state);
        }
        match journal.records.get(&loaded.record.step) {
            Some(first) => {
                let text = format!("is about the same step as {}, which counts", first.file);
                notes.add(Finding::warning("duplicate_step", loaded.record.file, text));
            }
            None => {
                journal.records.insert(loaded.record.step, loaded.record);
            }
        }
    }

    /// Adds a report.
    pub(super) fn add_report(&mut self, report: LoadedReport) {
        self.reports.push(report);
    }

    /// Puts everything in order.
    pub(super) fn finish(self, notes: &mut Notes) -> Vec<Component> {
        let mut homes: Vec<Home> = Vec::new();
        let mut taken = BTreeSet::new();
        for (folder, journal) in self.journals {
            let records: Vec<Record> = journal.records.into_values().collect();
            judge(&folder, &records, notes);
            let wanted = folder_name(&folder).or_else(|| journal.component.clone()).unwrap_or_else(|| NAMELESS.into());
            let name = unique(wanted, &mut taken);
            let (configuration, state) = (journal.configuration, journal.state);
            let component = Component { name, records, reports: Vec::new(), configuration, state };
            homes.push(Home { base: base(&folder).into(), stated: journal.component, sessions: journal.sessions, component });
        }
        for report in self.reports {
            let stated = report.configuration.get("component").and_then(Value::as_str).map(str::to_string);
            let home = match home_of(&homes, &report, stated.as_ref()) {
                Some(home) => home,
                None => {
                    let wanted = stated.clone().or_else(|| last_part(base(folder_of(&report.file))));
                    let name = unique(wanted.unwrap_or_else(|| NAMELESS.into()), &mut taken);
                    let sessions = report.session_id.iter().cloned().collect();
                    let base = base(folder_of(&report.file)).to_string();
                    homes.push(Home { base, stated, sessions, component: Component { name, ..Component::default() } });
                    homes.len() - 1
                }
            };
            if let Some(home) = homes.get_mut(home) {
                home.component.reports.push(report);
            }
        }
        for home in homes.iter_mut().filter(|home| home.component.name == NAMELESS && home.stated.is_none()) {
            if let Some(name) = only_name(&home.component.reports).filter(|name| !taken.contains(*name)) {
                home.component.name = name.to_string();
            }
        }
        homes.into_iter().map(|home| home.component).collect()
    }
}

/// The component's name where its records give none and the helpers' reports beside them agree on one.
fn only_name(reports: &[LoadedReport]) -> Option<&str> {
    let mut names = reports.iter().filter_map(|report| report.configuration.get("component")?.as_str());
    let first = names.next().filter(|name| !name.is_empty())?;
    names.all(|name| name == first).then_some(first)
}

/// Where a report belongs: to its session; where either side names none, to the component of its name.
fn home_of(homes: &[Home], report: &LoadedReport, stated: Option<&String>) -> Option<usize> {
    let session = report.session_id.as_ref();
    if let Some(home) = session.and_then(|id| homes.iter().position(|home| home.sessions.contains(id))) {
        return Some(home);
    }
    // A report that names its session never goes to another session's component.
    let open = |home: &Home| session.is_none() || home.sessions.is_empty();
    let named = |home: &Home| stated.is_none_or(|stated| home.stated.as_ref() == Some(stated) || home.component.name == *stated);
    let fits = |home: &Home| open(home) && named(home);
    // Folders side by side are different recordings; what lies above them all may belong to any.
    let own = base(folder_of(&report.file));
    let beside = homes.iter().position(|home| fits(home) && home.base == own);
    let around = || homes.iter().position(|home| fits(home) && (home.base.is_empty() || own.is_empty()));
    beside.or_else(around).or_else(|| {
        // A helper's report names its component in its own way; beside a single one there is no choice.
        let near = |home: &Home| homes.len() == 1 || home.base == own;
        let mut near = homes.iter().enumerate().filter(|(_, home)| near(home)).map(|(at, _)| at);
        near.next().filter(|_| near.next().is_none() && is_helper(report))
    })
}

/// Reports of helper routes have no counters of their own.
fn is_helper(report: &LoadedReport) -> bool {
    !report.has_counters()
}

/// A component's folder: its own below `snapshots`, else the one around the journal.
fn folder_name(folder: &str) -> Option<String> {
    let own = last_part(folder).filter(|last| !is_collection(last));
    own.or_else(|| last_part(base(folder)))
}

fn last_part(folder: &str) -> Option<String> {
    folder.rsplit('/').next().filter(|last| !last.is_empty()).map(str::to_string)
}

/// What a path lies in.
fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}

/// Folders that recorders make for the documents of one run.
fn is_collection(name: &str) -> bool {
    name.ends_with("snapshots") || name == "reports" || name == "generations"
}

/// The folder of the recording around a folder of records or reports.
fn base(folder: &str) -> &str {
    let parent = folder_of(folder);
    let collects = |folder: &str| folder.rsplit('/').next().is_some_and(is_collection);
    match (collects(folder), collects(parent)) {
        (true, _) => parent,
        (false, true) => folder_of(parent),
        (false, false) => folder,
    }
}

fn unique(wanted: String, taken: &mut BTreeSet<String>) -> String {
    let mut name = wanted.clone();
    let mut number = 2;
    while !taken.insert(name.clone()) {
        name = format!("{wanted} ({number})");
        number += 1;
    }
    name
}

/// Holes in the numbers and host time that runs backwards.
fn judge(folder: &str, records: &[Record], notes: &mut Notes) {
    let place = if folder.is_empty() { "." } else { folder };
    let mut expected = 0_u64;
    for step in records.iter().filter_map(|record| record.step) {
        if step > expected {
            let last = step - 1;
            let which = if last == expected { format!("step {last} is") } else { format!("steps {expected}..{last} are") };
            notes.add(Finding::warning("journal_step_missing", place, format!("{which} missing; nothing is assumed about them")));
        }
        expected = step.saturating_add(1);
    }
    for (clock, code) in
        [(RecordClock::SinceOpening, "host_elapsed_decreases"), (RecordClock::Monotonic, "observed_time_decreases")]
    {
        for pair in records.windows(2) {
            if let [before, after] = pair
                && let (Some(earlier), Some(later)) = (before.at(clock), after.at(clock))
                && later < earlier
            {
                let text = format!("was taken before {} by its host time, though its step is later", before.file);
                notes.add(Finding::error(code, &after.file, text));
            }
        }
    }
    let without = records.iter().filter(|record| record.observed_ns.is_none()).count();
    if without > 0 && without < records.len() {
        let text = format!("{without} of {} records do not say when they were taken on the manifest's clock", records.len());
        notes.add(Finding::note("observed_time_incomplete", place, text));
    }
}
