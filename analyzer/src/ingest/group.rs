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
            let wanted = folder_name(&folder).or_else(|| journal.component.clone()).unwrap_or_else(|| "component".into());
            let name = unique(wanted, &mut taken);
            let (configuration, state) = (journal.configuration, journal.state);
            let component = Component { name, records, reports: Vec::new(), configuration, state };
            homes.push(Home { stated: journal.component, sessions: journal.sessions, component });
        }
        for report in self.reports {
            let stated = report.configuration.get("component").and_then(Value::as_str).map(str::to_string);
            let home = match home_of(&homes, &report, stated.as_ref()) {
                Some(home) => home,
                None => {
                    let name = unique(stated.clone().unwrap_or_else(|| "component".into()), &mut taken);
                    let sessions = report.session_id.iter().cloned().collect();
                    homes.push(Home { stated, sessions, component: Component { name, ..Component::default() } });
                    homes.len() - 1
                }
            };
            if let Some(home) = homes.get_mut(home) {
                home.component.reports.push(report);
            }
        }
        homes.into_iter().map(|home| home.component).collect()
    }
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
    let home = homes.iter().position(|home| open(home) && named(home));
    home.or_else(|| (homes.len() == 1 && is_helper(report)).then_some(0))
}

/// Reports of helper routes have no counters of their own.
fn is_helper(report: &LoadedReport) -> bool {
    !report.has_counters()
}

/// A component's folder, unless it is the journal's own.
fn folder_name(folder: &str) -> Option<String> {
    let last = folder.rsplit('/').next().unwrap_or(folder);
    (!last.is_empty() && !last.ends_with("snapshots")).then(|| last.to_string())
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
