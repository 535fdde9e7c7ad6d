//! Reports of helper routes: "What was looked at, outside any step?"
//!
//! Uses `model`. Such a report has values and no time, so it is one instant at the start of the axis that says so.
//! Invariants: nothing is drawn for a component's own counters; the number of values is bounded.

use super::clocks::ORIGIN;
use super::model::Model;
use crate::limits::MAX_OBSERVATION_NOTES;
use crate::run::{Component, LoadedReport, Scalar};

/// Draws an instant for each report that has observations and no counters.
pub(super) fn draw(model: &mut Model, component: &Component, parent: u64) {
    let observed = |report: &&LoadedReport| !report.has_counters() && report.values.keys().any(|path| path.starts_with("setup."));
    let reports: Vec<&LoadedReport> = component.reports.iter().filter(observed).collect();
    if reports.is_empty() {
        return;
    }
    let text = "Reports of helper routes. They have values and no recorded time; all stand at the start of the axis.";
    let track = model.track(parent, "observations (no time recorded)", text);
    for report in reports {
        let mut notes = vec![model.text("file", &report.file)];
        if let Some(route) = &report.route {
            notes.push(model.text("route", route));
        }
        let values = report.values.iter().filter_map(|(path, value)| Some((path.strip_prefix("setup.")?, value)));
        for (name, value) in values.take(MAX_OBSERVATION_NOTES) {
            notes.push(match value {
                Scalar::U64(value) => model.number(name, *value),
                Scalar::I64(value) => model.text(name, &value.to_string()),
                Scalar::F64(value) => model.text(name, &value.to_string()),
                Scalar::Bool(value) => model.text(name, &value.to_string()),
                Scalar::Text(value) => model.text(name, value),
                Scalar::Uncollected => model.text(name, "not collected"),
            });
        }
        model.instant(track, ORIGIN, report.short_name(), "observation", notes);
    }
}
