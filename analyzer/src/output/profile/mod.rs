//! The profile: "What did one report say, in a few lines?"
//!
//! Uses `analysis` and `run`. Invariants: lines stand in one fixed order and only where something was recorded; a value that a line lacks
//! is `unavailable`, one that was given as null `uncollected`, neither is zero; every figure that invites a wrong reading carries its caveat in brackets at the
//! end of its line; the text is the same for the same report.

mod counters;
mod diagnostics;
mod document;
mod setup;
mod timing;

use crate::analysis::delta::{self, Named};
use crate::error::Error;
use crate::run::{Component, LoadedReport, Record, Run};
use document::Document;

/// File name of the profile.
pub const FILE: &str = "profile.txt";

/// First line of every profile.
pub const TITLE: &str = "DDO profile";

/// The profiles of a run: one for each component, from the report that speaks for it, else from its last record.
pub fn of(run: &Run) -> String {
    let components = run.all().flat_map(|run| &run.components);
    let profiles: Vec<String> = components.filter_map(of_component).collect();
    let generations = super::generations::profile(run);
    let profiles = match (profiles.is_empty(), generations.is_empty()) {
        (true, true) => format!("{TITLE}\n  no report and no journal record was found\n"),
        (true, false) => String::new(),
        (false, true) => profiles.join("\n"),
        (false, false) => format!("{}\n", profiles.join("\n")),
    };
    profiles + &generations
}

/// The profile of a component; `None` where it recorded nothing.
pub fn of_component(component: &Component) -> Option<String> {
    match (Run::leading_report(component), component.records.last()) {
        (Some(report), _) => Some(of_report(component, report)),
        (None, Some(record)) => Some(of_record(component, record)),
        (None, None) => None,
    }
}

/// The profile of one report of a component.
pub fn of_report(component: &Component, report: &LoadedReport) -> String {
    let leads = Run::leading_report(component).is_some_and(|leading| std::ptr::eq(leading, report));
    if leads {
        return text(&Document::report(component, report));
    }
    // Another report's steps and traffic are its own, not those of the journal.
    let alone = Component { name: component.name.clone(), reports: vec![report.clone()], ..Component::default() };
    alone.reports.first().map_or_else(String::new, |report| text(&Document::report(&alone, report)))
}

/// The profile of one journal record of a component.
pub fn of_record(component: &Component, record: &Record) -> String {
    text(&Document::record(component, record))
}

/// The profile of the record or report with this name: `final`, `COMPONENT/final` or the file's path.
///
/// # Errors
/// When the name fits none or several of them.
pub fn named(run: &Run, component: Option<&str>, name: &str) -> Result<String, Error> {
    let found = delta::named(run, component, name).map_err(super::delta::unmatched)?;
    Ok(match found {
        Named::Report(component, report) => of_report(component, report),
        Named::Record(component, record) => of_record(component, record),
    })
}

fn text(document: &Document<'_>) -> String {
    let mut lines = Vec::new();
    setup::head(document, &mut lines);
    setup::helpers(document, &mut lines);
    setup::component(document, &mut lines);
    counters::weights(document, &mut lines);
    diagnostics::allocation(document, &mut lines);
    diagnostics::operators(document, &mut lines);
    counters::sources(document, &mut lines);
    counters::look_ahead(document, &mut lines);
    timing::timer(document, &mut lines);
    timing::timeline(document, &mut lines);
    timing::floor(document, &mut lines);
    counters::pools(document, &mut lines);
    counters::tickets(document, &mut lines);
    let indented: String = lines.iter().map(|line| format!("  {line}\n")).collect();
    format!("{TITLE}\n{indented}")
}

#[cfg(test)]
mod tests;
