//! Stream windows as slices: "What did each stream pass through?"
//!
//! Uses `model`, `lanes`, `clocks`. Invariants: a window without times is an instant on the data quality track, never
//! a slice; a step is drawn only between two complete markers; arrows join windows only where their unit is one that
//! the timeline names, and never point backwards.

use super::TraceOptions;
use super::clocks::{ORIGIN, Shift};
use super::lanes;
use super::model::{Extra, Model, Note, Slice};
use super::order::{Key, begin_key};
use crate::run::{Timeline, Window, WindowState};
use ddo_schemas::timeline::{END_MARKER, SampleKind};
use std::collections::{BTreeMap, BTreeSet};

/// Kinds in the order in which their tracks stand, and in which slices that start together are written.
const KINDS: [SampleKind; 5] = [
    SampleKind::StepMarker,
    SampleKind::UploadSlotDependency,
    SampleKind::UploadBatchWindow,
    SampleKind::ComputeUploadDependency,
    SampleKind::ExecutionUnitWindow,
];

/// Where the windows of one timeline go.
pub(super) struct Target {
    /// The group's track.
    pub(super) parent: u64,
    /// The timeline's clock.
    pub(super) shift: Shift,
    /// A word that no other timeline of the trace has.
    pub(super) id: String,
}

/// Draws a timeline.
pub(super) fn draw(model: &mut Model, timeline: &Timeline, target: &Target, options: &TraceOptions) {
    let mut streams: BTreeMap<u64, Vec<&Window>> = BTreeMap::new();
    for window in &timeline.windows {
        if window.times().is_some() {
            streams.entry(window.stream).or_default().push(window);
        } else {
            without_times(model, timeline, window, target);
        }
    }
    dropped(model, timeline, target);
    let mut drawn = Vec::new();
    for (stream, windows) in &streams {
        let name = stream_name(*stream, windows);
        let group = model.track(target.parent, &name, "Windows between two markers on this stream; no engine activity.");
        for kind in KINDS {
            let of_kind: Vec<&Window> = windows.iter().copied().filter(|window| window.kind == kind).collect();
            if !of_kind.is_empty() {
                let key = format!("{}/{stream}/{}", target.id, kind.name());
                drawn.extend(track(model, timeline, &of_kind, group, &key, target.shift, options));
            }
        }
    }
    flows(model, timeline, &drawn);
}

/// Names a stream by its handle and by what its windows prove that it carries.
fn stream_name(stream: u64, windows: &[&Window]) -> String {
    let carries = |kind: SampleKind| windows.iter().any(|window| window.kind == kind);
    match (carries(SampleKind::UploadBatchWindow), carries(SampleKind::ExecutionUnitWindow)) {
        (true, false) => format!("stream {stream} (uploads)"),
        (false, true) => format!("stream {stream} (compute)"),
        (true, true) => format!("stream {stream} (compute and uploads)"),
        (false, false) => format!("stream {stream}"),
    }
}

/// Draws the windows of one kind on one stream; returns the position of each window's slice.
fn track<'a>(
    model: &mut Model,
    timeline: &Timeline,
    windows: &[&'a Window],
    group: u64,
    key: &str,
    shift: Shift,
    options: &TraceOptions,
) -> Vec<(&'a Window, usize)> {
    let times: Vec<(i64, i64)> = windows.iter().filter_map(|window| window.times()).collect();
    let mut lanes_of: BTreeMap<usize, u64> = BTreeMap::new();
    let mut drawn = Vec::with_capacity(windows.len());
    let places = lanes::assign(&times);
    let straddling = places.iter().any(|place| place.lane > 0);
    let Some(kind) = windows.first().map(|window| window.kind) else { return drawn };
    // In lane order, so that lane 1 stands before lane 2.
    for lane in places.iter().map(|place| place.lane).collect::<BTreeSet<usize>>() {
        let description = kind_description(kind);
        let uuid = match (straddling, lane) {
            (false, _) => model.track(group, kind.name(), description),
            (true, 0) => model.lane(group, kind.name(), description, key),
            (true, lane) => model.lane(group, &format!("{} (lane {})", kind.name(), lane + 1), description, key),
        };
        lanes_of.insert(lane, uuid);
    }
    let category = model.categories.id(kind.name());
    for ((window, (start, end)), place) in windows.iter().zip(&times).zip(&places) {
        let Some(track) = lanes_of.get(&place.lane) else { continue };
        let name = model.names.id(&slice_name(timeline, window));
        let notes = if options.annotate { annotations(model, window) } else { Vec::new() };
        let rank = KINDS.iter().position(|other| *other == kind).map_or(0, |rank| rank as u8);
        let slice = Slice {
            track: *track,
            start: shift.at(*start),
            end: shift.at(*end),
            depth: place.depth,
            name,
            category,
            rank,
            extra: Extra { notes, ..Extra::default() },
        };
        model.slices.push(slice);
        drawn.push((*window, model.slices.len() - 1));
    }
    drawn
}

fn annotations(model: &mut Model, window: &Window) -> Vec<(u64, Note)> {
    let mut notes = vec![model.number("sequence", window.sequence), model.number("unit", window.unit)];
    if let Some(bytes) = window.bytes {
        notes.push(model.number("bytes", bytes));
    }
    notes
}

fn slice_name(timeline: &Timeline, window: &Window) -> String {
    match (window.kind, window.unit) {
        (SampleKind::StepMarker, END_MARKER) => "end".into(),
        (SampleKind::StepMarker, step) => format!("start of step {step}"),
        (_, unit) => timeline.unit_name(unit).map_or_else(|| format!("id {unit}"), str::to_string),
    }
}

fn kind_description(kind: SampleKind) -> &'static str {
    match kind {
        SampleKind::UploadBatchWindow => "Submission of one upload batch on the upload stream; wider than the copy itself.",
        SampleKind::ComputeUploadDependency => "The compute stream's wait for an upload, launch gaps included.",
        SampleKind::UploadSlotDependency => "The upload stream's wait for the last consumer of a slot.",
        SampleKind::ExecutionUnitWindow => "One unit's forward, after its dependencies and before its release; no kernel time.",
        SampleKind::StepMarker => "The markers that bound steps.",
    }
}

/// Draws the steps between consecutive complete markers, on the stream's clock.
pub(super) fn steps(model: &mut Model, timeline: &Timeline, parent: u64, name: &str, shift: Shift) {
    let markers: BTreeMap<u64, (i64, i64)> = timeline
        .windows
        .iter()
        .filter(|window| window.kind == SampleKind::StepMarker)
        .filter_map(|window| Some((window.unit, window.times()?)))
        .collect();
    let last = timeline.windows.iter().filter(|w| w.kind == SampleKind::StepMarker && w.unit != END_MARKER).map(|w| w.unit).max();
    let mut slices = Vec::new();
    for (step, (start, _)) in &markers {
        let next = match markers.get(&step.wrapping_add(1)) {
            Some((next, _)) if *step != END_MARKER => Some((format!("step {step}"), *next)),
            _ if Some(*step) == last => {
                markers.get(&END_MARKER).map(|(end, _)| (format!("after step {}", step.saturating_sub(1)), *end))
            }
            _ => None,
        };
        if let Some((name, end)) = next.filter(|(_, end)| end >= start) {
            slices.push((name, *start, end));
        }
    }
    if slices.is_empty() {
        return;
    }
    let track = model.track(parent, name, "From one step marker to the next on the compute stream.");
    let category = model.categories.id("step");
    // Markers of one stream are in order, but only the recorded times prove it: lanes keep a broken order harmless.
    let places = lanes::assign(&slices.iter().map(|(_, start, end)| (*start, *end)).collect::<Vec<_>>());
    for ((name, start, end), place) in slices.into_iter().zip(places).filter(|(_, place)| place.lane == 0) {
        let name = model.names.id(&name);
        let (start, end) = (shift.at(start), shift.at(end));
        model.slices.push(Slice { track, start, end, depth: place.depth, name, category, rank: 0, extra: Extra::default() });
    }
}

fn without_times(model: &mut Model, timeline: &Timeline, window: &Window, target: &Target) {
    let word = match window.state {
        WindowState::Pending => "pending",
        WindowState::Failed => "failed",
        WindowState::Contradictory => "contradictory times",
        WindowState::Complete { .. } => return,
    };
    let mut notes = annotations(model, window);
    notes.push(model.text("name", &slice_name(timeline, window)));
    let first = timeline.windows.iter().filter_map(Window::times).map(|(start, _)| start).min();
    let at = stand_in(model, first, "start", target, &mut notes);
    model.doubt(at, &format!("{word}: {}", window.kind.name()), notes);
}

fn dropped(model: &mut Model, timeline: &Timeline, target: &Target) {
    if timeline.recorded.dropped == 0 {
        return;
    }
    let mut notes =
        vec![model.number("dropped", timeline.recorded.dropped), model.number("capacity", timeline.recorded.capacity)];
    let last = timeline.windows.iter().filter_map(Window::times).map(|(_, end)| end).max();
    let at = stand_in(model, last, "end", target, &mut notes);
    model.doubt(at, "dropped windows", notes);
}

/// Where something without a time is shown; the note says that it is not its time.
fn stand_in(model: &mut Model, edge: Option<i64>, word: &str, target: &Target, notes: &mut Vec<(u64, Note)>) -> u64 {
    let (at, place) = match edge {
        Some(ns) => (target.shift.at(ns), format!("the {word} of its timeline")),
        None => (ORIGIN, "the start of the trace".to_string()),
    };
    notes.push(model.text("time", &format!("not known; drawn at {place}")));
    at
}

/// Arrows upload -> dependency -> execution, for units that the timeline names.
fn flows(model: &mut Model, timeline: &Timeline, drawn: &[(&Window, usize)]) {
    type OfUnit<'a> = BTreeMap<u64, Vec<(&'a Window, usize, Key)>>;
    let of = |model: &Model, kind: SampleKind| -> OfUnit<'_> {
        let mut units = OfUnit::new();
        for (window, slice) in drawn.iter().filter(|(window, _)| window.kind == kind) {
            if timeline.unit_name(window.unit).is_some()
                && let Some(key) = begin_key(model, *slice)
            {
                units.entry(window.unit).or_default().push((window, *slice, key));
            }
        }
        units.values_mut().for_each(|list| list.sort_by_key(|(_, _, key)| *key));
        units
    };
    let uploads = of(model, SampleKind::UploadBatchWindow);
    let dependencies = of(model, SampleKind::ComputeUploadDependency);
    let mut chains = Vec::new();
    for (unit, executions) in of(model, SampleKind::ExecutionUnitWindow) {
        let (Some(waits), Some(sources)) = (dependencies.get(&unit), uploads.get(&unit)) else { continue };
        let mut used = 0;
        for (execution, sink, sink_key) in executions {
            let Some((start, _)) = execution.times() else { continue };
            let ended = |wait: &&(&Window, usize, Key)| wait.0.times().is_some_and(|(_, end)| end <= start) && wait.2 < sink_key;
            let Some((wait, middle, middle_key)) = waits.iter().rev().find(ended) else { continue };
            let Some((_, wait_end)) = wait.times() else { continue };
            let started = |source: &(usize, &(&Window, usize, Key))| {
                source.1.0.times().is_some_and(|(start, _)| start < wait_end) && source.1.2 < *middle_key
            };
            // Each upload serves one forward; a resident unit has none left and gets no arrow.
            let Some((at, (_, source, _))) = sources.iter().enumerate().skip(used).rfind(started) else { continue };
            used = at + 1;
            chains.push((*source, *middle, sink));
        }
    }
    chains.sort_unstable();
    for (source, middle, sink) in chains {
        model.flows += 1;
        let id = model.flows;
        for (slice, is_sink) in [(source, false), (middle, false), (sink, true)] {
            if let Some(slice) = model.slices.get_mut(slice) {
                if is_sink { slice.extra.last_flows.push(id) } else { slice.extra.flows.push(id) }
            }
        }
    }
}
