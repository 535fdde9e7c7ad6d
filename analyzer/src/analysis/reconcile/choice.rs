//! The input of a reconciliation: "Which totals speak for this component?"
//!
//! Uses `run`. Invariants: totals are taken from one report or record, or as the difference of two records of one journal;
//! diagnostic reports are not chosen unless named; what was chosen is named in the result.

use super::Interval;
use crate::run::{Component, LoadedReport, Record, Values};

/// What was chosen, and how it is named.
#[derive(Clone, Debug)]
pub struct Choice<'a> {
    /// The values.
    pub interval: Interval<'a>,
    /// The report or the records, in words.
    pub words: String,
}

/// Why nothing could be chosen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// A name that no report or record has.
    #[error("component {component:?} has no report or record called {name:?}; it has {}", list(.have))]
    NoSuchReport {
        /// The component.
        component: String,
        /// What was asked for.
        name: String,
        /// What there is.
        have: Vec<String>,
    },
    /// A step without a record.
    #[error("component {component:?} has no record of step {name:?}; it has {}", list(.have))]
    NoSuchStep {
        /// The component.
        component: String,
        /// What was asked for.
        name: String,
        /// What there is.
        have: Vec<String>,
    },
    /// The later record comes first.
    #[error("step {from:?} does not come before step {to:?}")]
    Backwards {
        /// The first.
        from: String,
        /// The second.
        to: String,
    },
    /// No report or record has counters, or only diagnostic ones do.
    #[error("component {component:?} has no report or record with host scopes to reconcile{}", aside(.diagnostic))]
    Nothing {
        /// The component.
        component: String,
        /// Reports that were left aside because they are diagnostic.
        diagnostic: Vec<String>,
    },
}

/// Names listed in a message.
const LISTED: usize = 8;

fn list(have: &[String]) -> String {
    let more = have.len().saturating_sub(LISTED);
    let shown = have.iter().take(LISTED).map(String::as_str).collect::<Vec<_>>().join(", ");
    match (have.is_empty(), more) {
        (true, _) => "none".into(),
        (false, 0) => shown,
        (false, more) => format!("{shown} and {more} more"),
    }
}

fn aside(names: &[String]) -> String {
    if names.is_empty() { String::new() } else { format!("; {} is diagnostic, name it with --report", list(names)) }
}

/// The report of that name, else the final one, else the last record, else the latest report that is not diagnostic.
///
/// # Errors
/// When there is none.
pub fn choose<'a>(component: &'a Component, report: Option<&str>) -> Result<Choice<'a>, Unfit> {
    if let Some(name) = report {
        return named(component, name);
    }
    let counting = || component.reports.iter().filter(|report| report.has_counters());
    if let Some(report) = counting().find(|report| report.short_name() == "final") {
        return Ok(lifetime(&report.file, &report.values));
    }
    if let Some(record) = component.records.last() {
        return Ok(lifetime(&record.file, &record.values));
    }
    if let Some(report) = counting().rev().find(|report| !is_diagnostic(report)) {
        return Ok(lifetime(&report.file, &report.values));
    }
    let diagnostic = counting().map(|report| report.short_name().to_string()).collect();
    Err(Unfit::Nothing { component: component.name.clone(), diagnostic })
}

fn lifetime<'a>(file: &str, values: &'a Values) -> Choice<'a> {
    Choice { interval: Interval::lifetime(values), words: format!("{file}, totals since the start") }
}

fn named<'a>(component: &'a Component, name: &str) -> Result<Choice<'a>, Unfit> {
    let fits = |file: &str| {
        let last = file.rsplit('/').next().unwrap_or(file);
        file == name || last == name || last.strip_suffix(".json") == Some(name)
    };
    let report = component.reports.iter().find(|report| fits(&report.file));
    let record = component.records.iter().find(|record| fits(&record.file));
    let report = report.map(|report| lifetime(&report.file, &report.values));
    let found = report.or_else(|| record.map(|record| lifetime(&record.file, &record.values)));
    found.ok_or_else(|| Unfit::NoSuchReport {
        component: component.name.clone(),
        name: name.to_string(),
        have: component
            .reports
            .iter()
            .map(|report| report.short_name().to_string())
            .chain(component.records.iter().map(|record| record.file.clone()))
            .collect(),
    })
}

/// Profiling, allocation counting and waiting at every step change the times that they stand beside.
fn is_diagnostic(report: &LoadedReport) -> bool {
    const MARKS: [&str; 3] =
        ["runtime.operator_diagnostics.", "runtime.allocation_diagnostics.", "runtime.execution_timing.diagnostic_step_wait."];
    report.values.keys().any(|path| MARKS.iter().any(|mark| path.starts_with(mark)))
}

/// What was added between two records, each named by its step; `before` is the one before the first step.
///
/// # Errors
/// When a record is missing or they are not in order.
pub fn between<'a>(component: &'a Component, from: &str, to: &str) -> Result<Choice<'a>, Unfit> {
    let (first, last) = (record(component, from)?, record(component, to)?);
    if first.step >= last.step {
        return Err(Unfit::Backwards { from: from.to_string(), to: to.to_string() });
    }
    Ok(Choice { interval: Interval::between(&first.values, &last.values), words: format!("{} to {}", first.file, last.file) })
}

fn record<'a>(component: &'a Component, name: &str) -> Result<&'a Record, Unfit> {
    let word = |record: &Record| record.step.map_or_else(|| "before".to_string(), |step| step.to_string());
    component.records.iter().find(|record| word(record) == name).ok_or_else(|| Unfit::NoSuchStep {
        component: component.name.clone(),
        name: name.to_string(),
        have: component.records.iter().map(word).collect(),
    })
}
