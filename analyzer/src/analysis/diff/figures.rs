//! The numbers of one run: "What is there to compare?"
//!
//! Uses `run`, the deltas and the catalogue. Invariants: a run gives one number a path; counters are the difference
//! between the first and the last record, never a lifetime total where records exist; levels are those at the end; what a run does not have is not in the map;
//! units are named, never numbered; nothing of a failed phase or an incomplete timeline is a number.

use super::classes::{self, Class};
use crate::analysis::delta::{Delta, subtract};
use crate::analysis::{overlap, steps, windows};
use crate::run::{Component, LoadedReport, Run, Scalar, Timeline, Values};
use ddo_schemas::field::{Condition, Gate, Kind};
use ddo_schemas::scalar::JsonScalar;
use ddo_schemas::timeline::SampleKind;
use ddo_schemas::{Unit, catalogue};
use std::collections::{BTreeMap, BTreeSet};

/// Mean time of a step after the first, on the stream's clock.
pub const STEADY_STEP: &str = "runtime.execution_timing.steady_state_seconds_per_step";
/// The first step, cold work included.
pub const FIRST_STEP: &str = "runtime.execution_timing.step_seconds[0]";
/// The whole timed phase.
pub const PHASE: &str = "runtime.execution_timing.phase_seconds";
/// What the phase holds after its last step.
pub const TAIL: &str = "runtime.execution_timing.tail_seconds";
/// Mean host time between the records of warm steps.
pub const HOST_STEP: &str = "journal.host_elapsed_seconds";
/// How long the command ran.
pub const DURATION: &str = "manifest_end.duration_seconds";
/// The sampled peak of the command's memory.
pub const PEAK_MEMORY: &str = "manifest_end.peak_rss_bytes";
/// Device memory that holds weights.
pub const WEIGHTS: &str = "runtime.vmm.fast_total_weight_resident_bytes";

/// A number that keeps 64-bit integers exact.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// A whole number.
    Whole(u64),
    /// Any other finite number.
    Fraction(f64),
}

impl Number {
    /// The number for statistics; whole numbers above 2^53 are rounded.
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Whole(value) => value as f64,
            Number::Fraction(value) => value,
        }
    }

    /// The number as it is written.
    pub fn json(self) -> JsonScalar {
        match self {
            Number::Whole(value) => value.into(),
            Number::Fraction(value) => JsonScalar::Real(value),
        }
    }
}

/// One number of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The number.
    pub value: Number,
    /// What it is counted in.
    pub unit: Unit,
    /// How two sides of it compare.
    pub class: Class,
    /// The smallest difference that its clock shows, in its unit; zero where it has no such limit.
    pub resolution: f64,
}

/// Figures of one run by path; paths of several components begin with `NAME/`.
pub type Figures = BTreeMap<String, Figure>;

/// Collects the figures of a run.
pub fn of(run: &Run) -> Figures {
    let mut all = Figures::new();
    let single = run.components.len() <= 1;
    for component in &run.components {
        let mut figures = Figures::new();
        of_component(component, &mut figures);
        let named = |path: String| if single { path } else { format!("{}/{path}", component.name) };
        all.extend(figures.into_iter().map(|(path, figure)| (named(path), figure)));
    }
    if let Some(seal) = &run.seal {
        add(&mut all, DURATION, Number::Fraction(seal.duration_seconds.0), 0.0);
        // Every peak that the seal has, by the name of what was read.
        let seal = serde_json::to_value(seal).unwrap_or_default();
        for (key, value) in seal.as_object().into_iter().flatten().filter(|(key, _)| key.starts_with("peak_")) {
            let whole = value.as_u64().map(Number::Whole);
            if let Some(value) = whole.or_else(|| value.as_f64().map(Number::Fraction)) {
                add(&mut all, &format!("manifest_end.{key}"), value, 0.0);
            }
        }
    }
    all
}

fn of_component(component: &Component, out: &mut Figures) {
    let report = Run::leading_report(component);
    if let Some(report) = report {
        of_timing(report, out);
        if let Some(timeline) = report.timeline.as_ref().filter(|timeline| timeline.recorded.status == "complete") {
            of_timeline(timeline, out);
        }
        planned(&report.values, out);
    }
    host_step(component, out);
    let (first, last) = (component.records.first(), component.records.last().map(|record| &record.values));
    let end = report.filter(|report| report.has_counters()).map(|report| &report.values);
    match (first, last) {
        (Some(first), Some(last)) if component.records.len() > 1 => counted(Some(&first.values), last, end.unwrap_or(last), out),
        (_, last) => {
            if let Some(values) = end.or(last) {
                counted(None, values, values, out);
            }
        }
    }
}

fn of_timing(report: &LoadedReport, out: &mut Figures) {
    let Some(timing) = report.timing.as_ref().filter(|timing| !timing.failed) else { return };
    let resolution = timing.resolution_seconds.map_or(0.0, |resolution| resolution.0);
    let mut put = |path: &str, seconds: Option<f64>| {
        if let Some(seconds) = seconds {
            add(out, path, Number::Fraction(seconds), resolution);
        }
    };
    if let Some(seconds) = &timing.step_seconds {
        put(FIRST_STEP, seconds.first().map(|first| first.0));
        put(STEADY_STEP, steps::steady(seconds));
    }
    put(PHASE, timing.phase_seconds.map(|phase| phase.0));
    put(TAIL, timing.tail_seconds.map(|tail| tail.0));
}

/// Mean duration of each named unit's windows, and the time that each kind of window was open in the warm steps.
fn of_timeline(timeline: &Timeline, out: &mut Figures) {
    if let Some(span) = windows::warm_span(timeline) {
        for kind in SampleKind::WINDOWS {
            let open = overlap::union(&overlap::clip(&timeline.intervals(kind), span)) as f64 / 1e9;
            let path = format!("runtime.native_timeline.warm_window_summary.union_seconds.{}", kind.name());
            add(out, &path, Number::Fraction(open), 0.0);
        }
    }
    let mut units: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for window in timeline.windows.iter().filter(|window| window.kind == SampleKind::ExecutionUnitWindow) {
        if let (Some(name), Some((start, end))) = (timeline.unit_name(window.unit), window.times()) {
            let (seconds, count) = units.entry(name).or_default();
            *seconds += (end - start) as f64 / 1e9;
            *count += 1.0;
        }
    }
    for (name, (seconds, count)) in units {
        let figure =
            Figure { value: Number::Fraction(seconds / count), unit: Unit::Seconds, class: Class::Informative, resolution: 0.0 };
        out.insert(format!("units[{}].execution_unit_window", crate::run::shorten(name)), figure);
    }
}

/// What the planner decided: shown beside the numbers that follow from it.
fn planned(values: &Values, out: &mut Figures) {
    for (path, value) in values {
        if path.starts_with("runtime.state.planner_decisions.")
            && let Some(value) = number(value)
        {
            let unit = catalogue::find(path).map_or(Unit::Structure, |row| row.field.unit);
            out.insert(path.to_string(), Figure { value, unit, class: Class::Planned, resolution: 0.0 });
        }
    }
}

/// Mean host time between the records of warm steps.
fn host_step(component: &Component, out: &mut Figures) {
    let stamped = component.records.iter().filter(|record| record.step.is_some());
    let times: Option<Vec<i64>> = stamped.map(|record| record.host_elapsed_ns).collect();
    if let Some(times) = times
        && let (Some(first), Some(last)) = (times.first(), times.last())
        && times.len() > 1
        && last >= first
    {
        let seconds = (last - first) as f64 / 1e9 / (times.len() - 1) as f64;
        add(out, HOST_STEP, Number::Fraction(seconds), 0.0);
    }
}

/// Counters as differences, everything else as the level at the end. Failures count to the end, too: one that came
/// after the last record is none the less one.
fn counted(before: Option<&Values>, last: &Values, end: &Values, out: &mut Figures) {
    let paths: BTreeSet<&str> = last.keys().chain(end.keys()).map(|path| &**path).collect();
    for path in paths.into_iter().filter(|path| path.starts_with("runtime.vmm.")) {
        let Some(field) = catalogue::find(path).map(|row| row.field) else { continue };
        let to_the_end = field.kind != Kind::Counter || matches!(field.gate, Gate::MustBeZero | Gate::NoIncrease);
        let after = match to_the_end {
            true => end.get(path).or_else(|| last.get(path)),
            false => last.get(path),
        };
        let value = match (field.kind, before) {
            (Kind::Identity | Kind::Version | Kind::Structure, _) => None,
            (Kind::Counter, Some(before)) => match subtract(before.get(path), after) {
                Delta::Whole(difference) => Some(Number::Whole(difference)),
                Delta::Fraction(difference) => Some(Number::Fraction(difference)),
                Delta::Reset | Delta::Unavailable => None,
            },
            _ => after.and_then(number),
        };
        let says_nothing = match field.meaningful_if {
            Condition::Always => false,
            Condition::NonZero => value.is_some_and(|value| value.as_f64() == 0.0),
            Condition::SiblingNonZero(name) => !sibling_counts(if to_the_end { end } else { last }, path, name),
        };
        if let Some(value) = value.filter(|_| !says_nothing) {
            add(out, path, value, 0.0);
        }
    }
}

fn sibling_counts(values: &Values, path: &str, name: &str) -> bool {
    let sibling = path.rsplit_once('.').map_or_else(|| name.to_string(), |(parent, _)| format!("{parent}.{name}"));
    values.get(sibling.as_str()).and_then(Scalar::as_f64).is_some_and(|value| value > 0.0)
}

fn number(value: &Scalar) -> Option<Number> {
    match value {
        Scalar::U64(value) => Some(Number::Whole(*value)),
        other => other.as_f64().map(Number::Fraction),
    }
}

fn add(out: &mut Figures, path: &str, value: Number, resolution: f64) {
    if !value.as_f64().is_finite() {
        return;
    }
    let field = catalogue::find(path).map(|row| row.field);
    let unit = field.map_or(Unit::Structure, |field| field.unit);
    out.insert(path.to_string(), Figure { value, unit, class: classes::of(path, field), resolution });
}
