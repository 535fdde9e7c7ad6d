//! Operator traces on the axis: "What did the profiler see on each thread and stream?"
//!
//! Uses `model`, `encode`, `writer` and the analysis of operators. Each process of a trace is a process of its own
//! beside the run, for its clock is the profiler's. Invariants: as many slices as the trace has, with exact lengths;
//! what has no duration is an instant; an arrow has both ends; slices go from the trace to the file one by one.

use super::clocks::ORIGIN;
use super::encode;
use super::model::{Extra, Model};
use super::order::{BEGINS, ENDS, MOMENTS};
use super::protos::track_event;
use super::writer::{Sink, Source, rich};
use crate::analysis::operators::{NO_LANE, Place, arrows, lanes};
use crate::error::Error;
use crate::limits::MAX_OPERATOR_NAME_CHARS;
use crate::run::operators::{Class, CounterValue, MomentKind, OperatorSlice, OperatorTrace, Track, TrackKind};
use crate::run::shorten_to;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A trace that is ready to be written.
pub(super) struct Drawing<'a> {
    pub(super) sources: Vec<Box<dyn Source + 'a>>,
    pub(super) slices: u64,
    pub(super) instants: u64,
    pub(super) counter_values: u64,
}

/// What is added to a trace's nanoseconds to put its first one at the origin.
pub(super) fn offset_ns(first: i64) -> i64 {
    (ORIGIN as i64).saturating_sub(first)
}

/// Numbers of names and categories in the written trace, and the shift.
struct Words {
    first_name: u64,
    categories: Vec<u64>,
    offset: i64,
}

impl Words {
    fn at(&self, ns: i64) -> u64 {
        u64::try_from(ns.saturating_add(self.offset)).map_or(ORIGIN, |at| at.max(ORIGIN))
    }

    fn name(&self, name: u32) -> u64 {
        self.first_name + u64::from(name)
    }

    fn category(&self, category: u16) -> u64 {
        self.categories.get(usize::from(category)).copied().unwrap_or(1)
    }
}

/// Describes the tracks of a trace and prepares its events.
pub(super) fn draw<'a>(model: &mut Model, trace: &'a OperatorTrace, number: usize, label: &str) -> Drawing<'a> {
    let words = Rc::new(words(model, trace));
    let mut tracks = Tracks::describe(model, trace, number, label);
    let flows = Flows::join(model, trace, &tracks);
    let mut moments: Vec<Moment> = Vec::new();
    for moment in &trace.moments {
        let track = match moment.kind {
            MomentKind::Instant => tracks.first_lane(model, trace, moment.track),
            _ => tracks.quality(model, trace, moment.track),
        };
        let kind = match moment.kind {
            MomentKind::Instant => None,
            MomentKind::NegativeDuration => Some("ends before it starts"),
            MomentKind::MissingDuration => Some("says no duration"),
            MomentKind::Unpaired => Some("begin or end without the other"),
        };
        let notes = kind.map(|kind| model.text("no duration", kind)).into_iter().collect();
        let (name, category) = (words.name(moment.name), words.category(moment.category));
        let extra = Extra { notes, ..Extra::default() };
        moments.push(Moment { at: words.at(moment.at), order: (0, moment.sequence), track, name, category, extra });
    }
    for (point, (starting, ending)) in &flows.alone {
        let Some(found) = trace.flows.get(*point as usize) else { continue };
        let track = tracks.first_lane(model, trace, found.track);
        let (name, category) = (words.name(found.name), words.category(found.category));
        let extra = Extra { flows: starting.clone(), last_flows: ending.clone(), ..Extra::default() };
        moments.push(Moment { at: words.at(found.at), order: (1, *point), track, name, category, extra });
    }
    // Ends of arrows come in the order in which arrows compare them.
    moments.sort_by_key(|moment| (moment.at, moment.order));
    let instants = moments.len() as u64;
    let mut sources: Vec<Box<dyn Source + 'a>> = vec![Box::new(Moments { list: moments, next: 0 })];
    let mut counter_values = 0;
    for counter in &trace.counters {
        let Some(parent) = tracks.processes.get(&counter.process).copied() else { continue };
        let track = model.plain_counter(parent, &counter.name, "A counter of the operator trace; its unit is not recorded.");
        counter_values += counter.values.len() as u64;
        sources.push(Box::new(Values { values: &counter.values, next: 0, track, words: words.clone() }));
    }
    let mut slices = 0;
    let mut marks = flows.marks;
    for (at, (track, lanes)) in trace.tracks.iter().zip(tracks.lanes).enumerate() {
        if track.slices.is_empty() {
            continue;
        }
        slices += lanes.of_slice.iter().filter(|lane| **lane != NO_LANE).count() as u64;
        let mut marks = marks.remove(&(at as u32)).unwrap_or_default();
        marks.sort_unstable();
        let open = lanes.uuids.iter().map(|_| Vec::new()).collect();
        let words = words.clone();
        let rows = Cow::Borrowed(track.slices.as_slice());
        sources.push(Box::new(Thread { slices: rows, lanes, open, next: 0, next_mark: 0, marks, words }));
    }
    let mut children = child_ranges(trace);
    for track in &mut children {
        let Some(parent) = tracks.processes.get(&track.process).copied() else { continue };
        let lanes = track_lanes(model, trace, track, parent, &format!("operators/{number}/children/{}", track.process));
        slices += lanes.of_slice.iter().filter(|lane| **lane != NO_LANE).count() as u64;
        let open = lanes.uuids.iter().map(|_| Vec::new()).collect();
        let (slices, words) = (Cow::Owned(std::mem::take(&mut track.slices)), words.clone());
        sources.push(Box::new(Thread { slices, lanes, open, next: 0, next_mark: 0, marks: Vec::new(), words }));
    }
    Drawing { sources, slices, instants, counter_values }
}

/// How the names of forwards of direct children begin.
const CHILD_RANGE: &str = "ddo.forward.";
/// Name of the tracks that show them once more, on their own.
pub const CHILD_TRACK: &str = "child ranges of the sampled module";

/// A track a process with the forwards of direct children on its threads, for a look at the module's structure alone.
fn child_ranges(trace: &OperatorTrace) -> Vec<Track> {
    let mut found: BTreeMap<u32, Vec<OperatorSlice>> = BTreeMap::new();
    for track in trace.tracks.iter().filter(|track| track.kind == TrackKind::Thread) {
        let mut reached = i64::MIN;
        for slice in &track.slices {
            let child = trace.class(slice.category) == Class::Operator && trace.name(slice.name).starts_with(CHILD_RANGE);
            // What lies inside a child is no direct child.
            if child && slice.start >= reached {
                reached = slice.end;
                found.entry(track.process).or_default().push(*slice);
            }
        }
    }
    let track = |(process, mut slices): (u32, Vec<OperatorSlice>)| {
        slices.sort_unstable_by_key(OperatorSlice::order);
        Track { process, name: Some(CHILD_TRACK.into()), slices, ..Track::default() }
    };
    found.into_iter().map(track).collect()
}

fn words(model: &mut Model, trace: &OperatorTrace) -> Words {
    let first_name = model.names.strings.len() as u64 + 1;
    for name in &trace.names {
        model.names.push(shorten_to(name, MAX_OPERATOR_NAME_CHARS));
    }
    let category = |name: &str| if name.is_empty() { "(no category)".to_string() } else { name.to_string() };
    let categories = trace.categories.iter().map(|found| model.categories.id(&category(&found.name))).collect();
    Words { first_name, categories, offset: trace.first_ns().map_or(0, offset_ns) }
}

/// Lanes of one track.
#[derive(Default)]
struct TrackLanes {
    of_slice: Vec<u16>,
    uuids: Vec<u64>,
}

/// Where everything goes.
struct Tracks {
    processes: BTreeMap<u32, u64>,
    lanes: Vec<TrackLanes>,
    quality: BTreeMap<u32, u64>,
}

impl Tracks {
    fn describe(model: &mut Model, trace: &OperatorTrace, number: usize, label: &str) -> Tracks {
        let mut used: BTreeSet<u32> = trace.counters.iter().map(|counter| counter.process).collect();
        // A moment may stand on a track without slices.
        let moments = trace.moments.iter().map(|moment| moment.track).chain(trace.flows.iter().map(|flow| flow.track));
        let pointed: BTreeSet<u32> = moments.collect();
        let with_events =
            |(at, track): (usize, &Track)| (!track.slices.is_empty() || pointed.contains(&(at as u32))).then_some(track.process);
        used.extend(trace.tracks.iter().enumerate().filter_map(with_events));
        let mut order: Vec<u32> = used.into_iter().collect();
        let sort = |at: u32| trace.processes.get(at as usize).and_then(|process| process.sort);
        order.sort_by_key(|at| (sort(*at).unwrap_or(i64::MAX), *at));
        let processes: BTreeMap<u32, u64> =
            order.iter().map(|at| (*at, model.other_process(&process_name(trace, *at, label)))).collect();
        let mut lanes: Vec<TrackLanes> = trace.tracks.iter().map(|_| TrackLanes::default()).collect();
        let mut order: Vec<usize> = (0..trace.tracks.len()).collect();
        order.sort_by_key(|at| trace.tracks.get(*at).map(|track| (track.process, track.sort.unwrap_or(i64::MAX), *at)));
        for at in order {
            let (Some(track), Some(found)) = (trace.tracks.get(at), lanes.get_mut(at)) else { continue };
            if let Some(parent) = processes.get(&track.process).filter(|_| !track.slices.is_empty()) {
                *found = track_lanes(model, trace, track, *parent, &format!("operators/{number}/{at}"));
            }
        }
        Tracks { processes, lanes, quality: BTreeMap::new() }
    }

    /// The first lane of a track, described now where it has no slices.
    fn first_lane(&mut self, model: &mut Model, trace: &OperatorTrace, at: u32) -> u64 {
        let known = self.lanes.get(at as usize).and_then(|lanes| lanes.uuids.first());
        if let Some(uuid) = known {
            return *uuid;
        }
        let Some(track) = trace.tracks.get(at as usize) else { return 1 };
        let parent = self.processes.get(&track.process).copied().unwrap_or(1);
        let uuid = model.track(parent, &track_name(trace, track), DESCRIPTION);
        if let Some(lanes) = self.lanes.get_mut(at as usize) {
            lanes.uuids.push(uuid);
        }
        uuid
    }

    /// Where rows without a duration stand.
    fn quality(&mut self, model: &mut Model, trace: &OperatorTrace, at: u32) -> u64 {
        let process = trace.tracks.get(at as usize).map_or(0, |track| track.process);
        let parent = self.processes.get(&process).copied().unwrap_or(1);
        let text = "Rows whose duration is missing or negative, and begins or ends without the other. Never a duration.";
        *self.quality.entry(process).or_insert_with(|| model.track(parent, "rows without a duration", text))
    }

    fn is_drawn(&self, place: &Place) -> bool {
        let lane = |slice: u32| self.lanes.get(place.track as usize)?.of_slice.get(slice as usize);
        place.slice.is_none_or(|slice| lane(slice).is_some_and(|lane| *lane != NO_LANE))
    }
}

const DESCRIPTION: &str = "Rows of an operator trace, by the profiler's clock. Taken under a profiler: not a benchmark.";

fn track_lanes(model: &mut Model, trace: &OperatorTrace, track: &Track, parent: u64, key: &str) -> TrackLanes {
    let (of_slice, count) = lanes(track);
    let name = track_name(trace, track);
    let uuids = (0..count).map(|lane| match (count, lane) {
        (1, _) => model.track(parent, &name, DESCRIPTION),
        (_, 0) => model.lane(parent, &name, DESCRIPTION, key),
        (_, lane) => model.lane(parent, &format!("{name} (lane {})", lane + 1), DESCRIPTION, key),
    });
    TrackLanes { uuids: uuids.collect(), of_slice }
}

fn process_name(trace: &OperatorTrace, at: u32, label: &str) -> String {
    let mut words = vec!["operator samples".to_string(), trace.short_name().to_string()];
    words.extend((!label.is_empty()).then(|| format!("({label})")));
    if let Some(process) = trace.processes.get(at as usize) {
        words.push(":".into());
        words.extend(process.name.clone());
        words.push(process.id.clone());
        words.extend(process.labels.as_ref().filter(|labels| !labels.is_empty()).map(|labels| format!("({labels})")));
    }
    words.join(" ").replace(" :", ":")
}

fn track_name(trace: &OperatorTrace, track: &Track) -> String {
    let on_device = |slice: &OperatorSlice| matches!(trace.class(slice.category), Class::DeviceWork | Class::DeviceMark);
    match (&track.name, track.kind) {
        (_, TrackKind::Async) => format!("async: {}", if track.id.is_empty() { "(no category)" } else { &track.id }),
        (Some(name), _) if name.trim().is_empty() || name.contains(&track.id) => {
            if name.trim().is_empty() {
                format!("thread {}", track.id)
            } else {
                name.trim().to_string()
            }
        }
        (Some(name), _) => format!("{name} {}", track.id),
        (None, _) if track.slices.first().is_some_and(on_device) => format!("stream {}", track.id),
        (None, _) => format!("thread {}", track.id),
    }
}

/// Arrows by the events that carry them.
struct Flows {
    /// By track: slice, arrow, whether it ends there.
    marks: BTreeMap<u32, Vec<(u32, bool, u64)>>,
    /// Ends without a slice: arrows that start, arrows that end.
    alone: BTreeMap<u32, (Vec<u64>, Vec<u64>)>,
}

impl Flows {
    fn join(model: &mut Model, trace: &OperatorTrace, tracks: &Tracks) -> Flows {
        let mut flows = Flows { marks: BTreeMap::new(), alone: BTreeMap::new() };
        for (from, to) in arrows(trace).list {
            if !tracks.is_drawn(&from) || !tracks.is_drawn(&to) {
                continue;
            }
            model.flows += 1;
            for (place, ends) in [(from, false), (to, true)] {
                match place.slice {
                    Some(slice) => flows.marks.entry(place.track).or_default().push((slice, ends, model.flows)),
                    None => {
                        let alone = flows.alone.entry(place.point).or_default();
                        if ends { alone.1.push(model.flows) } else { alone.0.push(model.flows) }
                    }
                }
            }
        }
        flows
    }
}

/// An instant that is ready to be written.
struct Moment {
    at: u64,
    order: (u8, u32),
    track: u64,
    name: u64,
    category: u64,
    extra: Extra,
}

struct Moments {
    list: Vec<Moment>,
    next: usize,
}

impl Source for Moments {
    fn next(&self) -> Option<(u64, u8)> {
        self.list.get(self.next).map(|moment| (moment.at, MOMENTS))
    }

    fn write(&mut self, sink: &mut Sink<'_>) -> Result<(), Error> {
        let Some(moment) = self.list.get(self.next) else { return Ok(()) };
        self.next += 1;
        let kind = track_event::Type::Instant;
        sink.packet(rich(moment.at, kind, moment.track, moment.name, moment.category, &moment.extra))
    }
}

struct Values<'a> {
    values: &'a [(i64, CounterValue)],
    next: usize,
    track: u64,
    words: Rc<Words>,
}

impl Source for Values<'_> {
    fn next(&self) -> Option<(u64, u8)> {
        self.values.get(self.next).map(|(at, _)| (self.words.at(*at), MOMENTS))
    }

    fn write(&mut self, sink: &mut Sink<'_>) -> Result<(), Error> {
        let Some((at, value)) = self.values.get(self.next) else { return Ok(()) };
        self.next += 1;
        match value {
            CounterValue::Whole(value) => encode::counter(&mut sink.buffer, self.words.at(*at), self.track, *value),
            CounterValue::Fraction(value) => encode::fraction(&mut sink.buffer, self.words.at(*at), self.track, *value),
        }
        Ok(())
    }
}

/// The slices of one track, with a stack of open ends for each lane.
struct Thread<'a> {
    slices: Cow<'a, [OperatorSlice]>,
    lanes: TrackLanes,
    open: Vec<Vec<i64>>,
    next: usize,
    /// Slice, whether an arrow ends there, arrow; sorted.
    marks: Vec<(u32, bool, u64)>,
    next_mark: usize,
    words: Rc<Words>,
}

impl Thread<'_> {
    /// The earliest end and its lane.
    #[inline]
    fn first_end(&self) -> Option<(i64, usize)> {
        let ends = self.open.iter().enumerate().filter_map(|(lane, stack)| Some((*stack.last()?, lane)));
        ends.min_by_key(|(end, _)| *end)
    }

    fn begin(&mut self, slice: &OperatorSlice, at: usize, track: u64, sink: &mut Sink<'_>) {
        let (time, name, category) =
            (self.words.at(slice.start), self.words.name(slice.name), self.words.category(slice.category));
        let from = self.next_mark;
        while self.marks.get(self.next_mark).is_some_and(|(slice, ..)| *slice as usize <= at) {
            self.next_mark += 1;
        }
        let marks = self.marks.get(from..self.next_mark).unwrap_or_default();
        if marks.is_empty() {
            return encode::slice_begin(&mut sink.buffer, time, track, name, category);
        }
        let list = |ends: bool| -> Vec<u64> { marks.iter().filter(|mark| mark.1 == ends).map(|mark| mark.2).collect() };
        encode::slice_begin_with_flows(&mut sink.buffer, time, (track, name, category), &list(false), &list(true));
    }
}

impl Source for Thread<'_> {
    #[inline]
    fn next(&self) -> Option<(u64, u8)> {
        let begin = self.slices.get(self.next);
        match (self.first_end(), begin) {
            (Some((end, _)), None) => Some((self.words.at(end), ENDS)),
            (Some((end, _)), Some(slice)) if end <= slice.start => Some((self.words.at(end), ENDS)),
            (_, Some(slice)) => Some((self.words.at(slice.start), if slice.start < slice.end { BEGINS } else { MOMENTS })),
            (None, None) => None,
        }
    }

    #[inline]
    fn write(&mut self, sink: &mut Sink<'_>) -> Result<(), Error> {
        let begin = self.slices.get(self.next).copied();
        if let Some((end, lane)) = self.first_end()
            && begin.is_none_or(|slice| end <= slice.start)
        {
            if let (Some(stack), Some(track)) = (self.open.get_mut(lane), self.lanes.uuids.get(lane)) {
                stack.pop();
                encode::slice_end(&mut sink.buffer, self.words.at(end), *track);
            }
            return Ok(());
        }
        let Some(slice) = begin else { return Ok(()) };
        let at = self.next;
        self.next += 1;
        let lane = usize::from(self.lanes.of_slice.get(at).copied().unwrap_or(NO_LANE));
        let Some(track) = self.lanes.uuids.get(lane).copied() else { return Ok(()) };
        self.begin(&slice, at, track, sink);
        if slice.start == slice.end {
            encode::slice_end(&mut sink.buffer, self.words.at(slice.end), track);
        } else if let Some(stack) = self.open.get_mut(lane) {
            stack.push(slice.end);
        }
        Ok(())
    }
}
