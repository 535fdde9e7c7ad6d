//! Journal records and memory samples: "What did the host see, and when?"
//!
//! Uses `model`, `clocks` and the analysis of deltas. Invariants: counter values are whole numbers with a unit;
//! nothing is drawn where a value was not recorded; a decrease is a "counter reset" and has no delta; a value above
//! 2^63-1 is an instant on the data quality track and no point; a step is drawn only between two neighbouring
//! records.

use super::clocks::Shift;
use super::model::{Extra, Model, Point, Slice};
use crate::analysis::delta::{self, Delta};
use crate::run::{Component, Record, RecordClock, Scalar, nanoseconds};
use ddo_schemas::field::{Field, Kind};
use ddo_schemas::{Unit, catalogue};
use std::sync::Arc;

/// Where the records of one component go.
pub(super) struct Target<'a> {
    /// The track that the groups hang from.
    pub(super) parent: u64,
    /// The clock by which records are placed.
    pub(super) clock: RecordClock,
    /// From that clock to the trace's axis.
    pub(super) shift: Shift,
    /// "unaligned" or nothing.
    pub(super) label: &'a str,
}

/// Draws the steps between neighbouring records.
pub(super) fn steps(model: &mut Model, component: &Component, target: &Target<'_>) {
    let label = if target.label.is_empty() { "steps (host)".to_string() } else { format!("steps (host, {})", target.label) };
    let mut track = None;
    let category = model.categories.id("step");
    let mut drawn_to = i64::MIN;
    for pair in component.records.windows(2) {
        let [before, after] = pair else { continue };
        let (Some(step), Some(end)) = (after.step, after.at(target.clock)) else { continue };
        if !delta::consecutive(before, after) {
            missing(model, before, after, target);
            continue;
        }
        let Some(start) = before.at(target.clock).filter(|start| *start <= end && *start >= drawn_to) else { continue };
        drawn_to = end;
        let description = "From one journal record to the next: the host submitted the step in between. Not a device time.";
        let track = *track.get_or_insert_with(|| model.track(target.parent, &label, description));
        let name = model.names.id(&format!("step {step}"));
        let (start, end) = (target.shift.at(start), target.shift.at(end));
        model.slices.push(Slice { track, start, end, depth: 0, name, category, rank: 0, extra: Extra::default() });
    }
}

fn missing(model: &mut Model, before: &Record, after: &Record, target: &Target<'_>) {
    let (Some(last), Some(at)) = (after.step.and_then(|step| step.checked_sub(1)), after.at(target.clock)) else { return };
    let first = before.step.map_or(0, |step| step.saturating_add(1));
    let name = if first == last { format!("step {last} missing") } else { format!("steps {first}..{last} missing") };
    let notes = vec![model.text("time", "not known; drawn at the next record")];
    model.doubt(target.shift.at(at), &name, notes);
}

/// Draws gauges, then counters with what each step added, then what is not declared.
///
/// A field that is zero in every record gets no track; it is named among the trace's attributes instead.
pub(super) fn values(model: &mut Model, component: &Component, target: &Target<'_>) {
    let paths = in_catalogue_order(delta::paths(component));
    let kind = |field: &Option<&Field>, wanted: &[Kind]| field.is_some_and(|field| wanted.contains(&field.kind));
    let mut gauges = Group::new("gauges", "Levels of the offload runtime at each journal record.", target);
    for (path, field) in paths.iter().filter(|(_, field)| kind(field, &[Kind::Gauge, Kind::Peak])) {
        level(model, component, path, *field, &mut gauges, target);
    }
    let text = "Counters of the offload runtime at each journal record, and what each step added.";
    let mut counters = Group::new("counters", text, target);
    for (path, field) in paths.iter().filter(|(_, field)| kind(field, &[Kind::Counter])) {
        level(model, component, path, *field, &mut counters, target);
        added(model, component, path, *field, &mut counters, target);
    }
    let text = "Values of another recorder without a row in this catalogue; drawn as they are.";
    let mut others = Group::new("other values", text, target);
    for (path, _) in paths.iter().filter(|(_, field)| field.is_none()) {
        level(model, component, path, None, &mut others, target);
    }
}

/// A group that exists from its first track on.
struct Group {
    name: String,
    text: &'static str,
    parent: u64,
    track: Option<u64>,
}

impl Group {
    fn new(name: &str, text: &'static str, target: &Target<'_>) -> Group {
        let name = if target.label.is_empty() { name.to_string() } else { format!("{name} ({})", target.label) };
        Group { name, text, parent: target.parent, track: None }
    }

    /// Adds a counter track with its values.
    fn draw(&mut self, model: &mut Model, name: &str, unit: Unit, text: &str, values: Vec<(u64, i64)>) {
        let parent = match self.track {
            Some(track) => track,
            None => model.track(self.parent, &self.name, self.text),
        };
        self.track = Some(parent);
        let track = model.counter(parent, name, unit, text);
        model.points.extend(values.into_iter().map(|(at, value)| Point { track, at, value }));
    }
}

fn in_catalogue_order(paths: Vec<Arc<str>>) -> Vec<(Arc<str>, Option<&'static Field>)> {
    let mut known: Vec<(usize, Arc<str>, Option<&'static Field>)> = paths
        .into_iter()
        .map(|path| {
            let at = catalogue::rows().iter().position(|row| row.path.as_str() == &*path).unwrap_or(usize::MAX);
            let field = delta::field(&path);
            (at, path, field)
        })
        .collect();
    known.sort_by(|a, b| a.0.cmp(&b.0).then_with(|| a.1.cmp(&b.1)));
    known.into_iter().map(|(_, path, field)| (path, field)).collect()
}

fn short(path: &str) -> &str {
    path.strip_prefix("runtime.vmm.").unwrap_or(path)
}

fn describe(field: Option<&Field>) -> (Unit, String) {
    match field {
        Some(field) => (field.unit, format!("{} {}", field.meaning, field.action)),
        None => (Unit::Count("not in the catalogue"), String::new()),
    }
}

/// The unit of an undeclared value follows from its name's ending, as in every report.
pub(super) fn unit_by_name(path: &str, unit: Unit) -> Unit {
    match unit {
        Unit::Count("not in the catalogue") if path.ends_with("_seconds") => Unit::Seconds,
        Unit::Count("not in the catalogue") if path.ends_with("_bytes") => Unit::Bytes,
        unit => unit,
    }
}

/// A value as a counter track has it: whole numbers, seconds in nanoseconds.
pub(super) fn drawable(unit: Unit, value: &Scalar) -> Result<i64, Option<String>> {
    match value {
        Scalar::U64(value) if unit != Unit::Seconds => i64::try_from(*value).map_err(|_| Some(value.to_string())),
        Scalar::I64(value) if unit != Unit::Seconds => Ok(*value),
        Scalar::Bool(_) | Scalar::Text(_) | Scalar::Uncollected => Err(None),
        number if unit == Unit::Seconds => number.as_f64().and_then(nanoseconds).ok_or_else(|| Some(format!("{number:?}"))),
        Scalar::F64(value) if value.fract() == 0.0 && value.abs() < 9e15 => Ok(*value as i64),
        _ => Err(None),
    }
}

fn level(model: &mut Model, component: &Component, path: &str, field: Option<&Field>, group: &mut Group, target: &Target<'_>) {
    let (unit, description) = describe(field);
    let unit = unit_by_name(path, unit);
    let mut values = Vec::new();
    let mut large = false;
    for record in &component.records {
        let (Some(value), Some(at)) = (record.values.get(path), record.at(target.clock)) else { continue };
        let at = target.shift.at(at);
        match drawable(unit, value) {
            Ok(value) => values.push((at, value)),
            Err(Some(shown)) => {
                large = true;
                too_large(model, path, &shown, at);
            }
            Err(None) => {}
        }
    }
    if values.is_empty() {
        return;
    }
    if values.iter().all(|(_, value)| *value == 0) && !large {
        return model.constant_zero.push(short(path).to_string());
    }
    group.draw(model, short(path), unit, &description, values);
}

fn too_large(model: &mut Model, path: &str, shown: &str, at: u64) {
    let notes = vec![model.text("value", shown), model.text("field", path)];
    model.doubt(at, "value above 2^63-1", notes);
}

/// The derived track below a counter: what each step added. Left out where no step added anything.
fn added(model: &mut Model, component: &Component, path: &str, field: Option<&Field>, group: &mut Group, target: &Target<'_>) {
    let (unit, _) = describe(field);
    let mut values = Vec::new();
    for pair in component.records.windows(2) {
        let [before, after] = pair else { continue };
        let (Some(at), Some(step)) = (after.at(target.clock), after.step) else { continue };
        let at = target.shift.at(at);
        let difference = match delta::subtract(before.values.get(path), after.values.get(path)) {
            Delta::Whole(difference) if delta::consecutive(before, after) => Scalar::U64(difference),
            Delta::Fraction(difference) if delta::consecutive(before, after) => Scalar::F64(difference),
            Delta::Reset => {
                let notes = vec![model.text("field", path), model.number("step", step)];
                model.doubt(at, "counter reset", notes);
                continue;
            }
            // A delta over missing steps is not one step's.
            Delta::Whole(_) | Delta::Fraction(_) | Delta::Unavailable => continue,
        };
        match drawable(unit, &difference) {
            Ok(value) => values.push((at, value)),
            Err(Some(shown)) => too_large(model, path, &shown, at),
            Err(None) => {}
        }
    }
    if values.iter().any(|(_, value)| *value != 0) {
        let name = format!("{}, added by the step", short(path));
        group.draw(model, &name, unit, "Derived: the difference to the record before.", values);
    }
}
