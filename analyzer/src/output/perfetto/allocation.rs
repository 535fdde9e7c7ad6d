//! Allocation diagnostics: "Which driver calls did each step add?"
//!
//! Uses `model` and `clocks`. The scope records how long each step's submission took on the host, one after the
//! other, so the steps lie end to end from its entry. Invariants: a step without a time ends what is drawn, and an
//! instant says so; a delta is drawn at the end of its step and only where it was recorded.

use super::clocks::{ORIGIN, Shift};
use super::journal::{drawable, unit_by_name};
use super::lanes;
use super::model::{Extra, Model, Point, Slice};
use crate::run::{AllocationDiagnostics, nanoseconds};
use ddo_schemas::{Unit, catalogue};
use std::collections::BTreeMap;

/// Where the steps of a scope go.
pub(super) struct Target<'a> {
    /// The track that the group hangs from.
    pub(super) parent: u64,
    /// From the scope's entry to the trace's axis.
    pub(super) shift: Shift,
    /// "unaligned" or nothing.
    pub(super) label: &'a str,
    /// The report's name.
    pub(super) file: &'a str,
}

/// Draws the steps of a scope and what each added.
pub(super) fn draw(model: &mut Model, scope: &AllocationDiagnostics, target: &Target<'_>) {
    let words: Vec<&str> = [target.label, target.file].into_iter().filter(|word| !word.is_empty()).collect();
    let group = model.track(
        target.parent,
        &format!("allocation diagnostics ({})", words.join(", ")),
        "Host time and driver memory calls of each step's submission. A diagnostic run, no benchmark.",
    );
    let placed = place(model, scope, target);
    if placed.is_empty() {
        return;
    }
    let track = model.track(group, "steps (host submission)", "From one step boundary of the host to the next.");
    let category = model.categories.id("step");
    let places = lanes::assign(&placed.iter().map(|(_, start, end)| (*start, *end)).collect::<Vec<_>>());
    let mut deltas: BTreeMap<&str, Vec<(u64, i64)>> = BTreeMap::new();
    for ((at, start, end), place) in placed.iter().zip(places) {
        let Some(step) = scope.steps.get(*at) else { continue };
        let name = step.step.map_or_else(|| "step without a number".to_string(), |step| format!("step {step}"));
        let name = model.names.id(&name);
        let (start, end) = (target.shift.at(*start), target.shift.at(*end));
        model.slices.push(Slice { track, start, end, depth: place.depth, name, category, rank: 0, extra: Extra::default() });
        for (key, value) in &step.driver_delta {
            if let Ok(value) = drawable(unit(key), value) {
                deltas.entry(key).or_default().push((end, value));
            }
        }
        if let Some(peak) = step.observed_peak_mapped_bytes.and_then(|peak| i64::try_from(peak).ok()) {
            deltas.entry(PEAK).or_default().push((end, peak));
        }
    }
    for (key, values) in deltas.into_iter().filter(|(_, values)| values.iter().any(|(_, value)| *value != 0)) {
        let (name, text) = match key {
            PEAK => (key.to_string(), "Most that the pool had mapped since the process began.".to_string()),
            _ => (format!("{key}, added by the step"), meaning(key)),
        };
        let track = model.counter(group, &name, unit(key), &text);
        model.points.extend(values.into_iter().map(|(at, value)| Point { track, at, value }));
    }
}

const PEAK: &str = "pool_observed_peak_mapped_bytes";

/// Steps with start and end since the scope's entry, as far as every one has a time and a number without a hole.
fn place(model: &mut Model, scope: &AllocationDiagnostics, target: &Target<'_>) -> Vec<(usize, i64, i64)> {
    let mut placed = Vec::new();
    let mut now = 0_i64;
    for (at, step) in scope.steps.iter().enumerate() {
        let length = step.host_submission_seconds.and_then(nanoseconds).filter(|length| *length >= 0);
        let Some((length, _)) = length.zip(step.step.filter(|step| *step == at as u64)) else {
            let notes = vec![model.text("file", target.file), model.number("position", at as u64)];
            model.doubt(if at == 0 { ORIGIN } else { target.shift.at(now) }, "allocation step without a place", notes);
            break;
        };
        let end = now.saturating_add(length);
        placed.push((at, now, end));
        now = end;
    }
    placed
}

fn unit(key: &str) -> Unit {
    let row = catalogue::find(&format!("runtime.allocation_diagnostics.steps[].driver_delta.{key}"));
    unit_by_name(key, row.map_or(Unit::Count("not in the catalogue"), |row| row.field.unit))
}

fn meaning(key: &str) -> String {
    let row = catalogue::find(&format!("runtime.allocation_diagnostics.steps[].driver_delta.{key}"));
    row.map_or_else(String::new, |row| format!("{} {}", row.field.meaning, row.field.action))
}
