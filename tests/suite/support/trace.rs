//! An independent reading of a Perfetto trace: decoded with the format's own published descriptions, replayed as a reader does,
//! and every rule that is broken becomes a sentence.

use perfetto_protos::interned_data::InternedData;
use perfetto_protos::trace::Trace;
use perfetto_protos::trace_packet::{TracePacket, trace_packet};
use perfetto_protos::track_descriptor::{TrackDescriptor, track_descriptor};
use perfetto_protos::track_event::{TrackEvent, track_event};
use protobuf::{Message, SpecialFields};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Fields newer than the published descriptions: trace attributes; a track's description, merge behaviour and merge key.
const NEWER: [(&str, u32); 4] = [("packet", 126), ("track", 14), ("track", 15), ("track", 16)];

/// A slice with both ends.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slice {
    /// Names from the process down, joined by ` / `.
    pub(crate) track: String,
    pub(crate) name: String,
    pub(crate) category: String,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) depth: usize,
}

/// What was read, and every broken rule.
#[derive(Debug, Default)]
pub(crate) struct Reading {
    pub(crate) problems: Vec<String>,
    pub(crate) slices: Vec<Slice>,
    /// Name and time.
    pub(crate) instants: Vec<(String, u64)>,
    /// Track, time, value.
    pub(crate) points: Vec<(String, u64, i64)>,
    /// Track, time, value of counters that are no whole numbers.
    pub(crate) fractions: Vec<(String, u64, f64)>,
    pub(crate) flows: usize,
    tracks: HashMap<u64, Track>,
    defined: [BTreeMap<u64, String>; 4],
    stacks: BTreeMap<u64, Vec<(u64, String, String)>>,
    open_flows: BTreeSet<u64>,
    ended_flows: BTreeSet<u64>,
    now: u64,
}

#[derive(Debug)]
struct Track {
    path: String,
    counter: bool,
}

/// The kinds of interned strings.
#[derive(Clone, Copy)]
enum Interned {
    Category,
    Name,
    NoteName,
    NoteText,
}

/// Reads a whole trace.
pub(crate) fn read(bytes: &[u8]) -> Reading {
    let mut reading = Reading::default();
    match Trace::parse_from_bytes(bytes) {
        Ok(trace) => reading.replay(&trace),
        Err(error) => reading.problem(format!("does not decode: {error}")),
    }
    reading
}

/// Reads a whole trace that breaks no rule.
pub(crate) fn sound(bytes: &[u8]) -> Reading {
    let reading = read(bytes);
    assert!(
        reading.problems.is_empty(),
        "{} problems: {:#?}",
        reading.problems.len(),
        reading.problems.iter().take(10).collect::<Vec<_>>()
    );
    reading
}

impl Reading {
    /// Slices of tracks whose path holds this text.
    pub(crate) fn on<'a>(&'a self, track: &'a str) -> impl Iterator<Item = &'a Slice> {
        self.slices.iter().filter(move |slice| slice.track.contains(track))
    }

    fn problem(&mut self, text: impl Into<String>) {
        self.problems.push(text.into());
    }

    fn replay(&mut self, trace: &Trace) {
        self.known("trace", &trace.special_fields);
        if trace.packet.is_empty() {
            self.problem("holds no packet");
        }
        for (at, packet) in trace.packet.iter().enumerate() {
            self.packet(at, packet);
        }
        for (track, stack) in std::mem::take(&mut self.stacks) {
            for (start, name, _) in stack {
                self.problem(format!("slice {name:?} of {start} on track {track} is never closed"));
            }
        }
        for flow in std::mem::take(&mut self.open_flows) {
            self.problem(format!("flow {flow} starts and never ends"));
        }
    }

    fn packet(&mut self, at: usize, packet: &TracePacket) {
        self.known("packet", &packet.special_fields);
        let flags = if at == 0 { 3 } else { 2 };
        if packet.sequence_flags() != flags {
            self.problem(format!("packet {at} has sequence flags {}, not {flags}", packet.sequence_flags()));
        }
        if packet.trusted_packet_sequence_id() != 1 || packet.first_packet_on_sequence() != (at == 0) {
            self.problem(format!("packet {at} does not belong to the one sequence"));
        }
        if at == 0 && packet.trace_packet_defaults.timestamp_clock_id.is_none() {
            self.problem("the sequence has no default clock");
        }
        if let Some(defaults) = packet.trace_packet_defaults.as_ref() {
            self.known("defaults", &defaults.special_fields);
        }
        if let Some(interned) = packet.interned_data.as_ref() {
            self.intern(interned);
        }
        match &packet.data {
            Some(trace_packet::Data::TrackDescriptor(track)) => self.describe(track),
            Some(trace_packet::Data::TrackEvent(event)) => self.event(packet, event),
            Some(other) => self.problem(format!("packet {at} is of another kind: {other:?}")),
            None => {}
        }
    }

    fn known(&mut self, message: &str, fields: &SpecialFields) {
        for (number, _) in fields.unknown_fields() {
            if !NEWER.contains(&(message, number)) {
                self.problem(format!("{message} has the unknown field {number}"));
            }
        }
    }

    fn intern(&mut self, data: &InternedData) {
        self.known("interned data", &data.special_fields);
        for item in &data.event_categories {
            self.define(Interned::Category, item.iid(), item.name(), &item.special_fields);
        }
        for item in &data.event_names {
            self.define(Interned::Name, item.iid(), item.name(), &item.special_fields);
        }
        for item in &data.debug_annotation_names {
            self.define(Interned::NoteName, item.iid(), item.name(), &item.special_fields);
        }
        for item in &data.debug_annotation_string_values {
            let text = String::from_utf8_lossy(item.str()).into_owned();
            self.define(Interned::NoteText, item.iid(), &text, &item.special_fields);
        }
    }

    fn define(&mut self, kind: Interned, iid: u64, text: &str, fields: &SpecialFields) {
        self.known("interned string", fields);
        if iid == 0 || self.defined[kind as usize].insert(iid, text.to_owned()).is_some() {
            self.problem(format!("interned id {iid} is zero or defined twice"));
        }
    }

    fn text(&mut self, kind: Interned, iid: u64) -> String {
        match self.defined[kind as usize].get(&iid) {
            Some(text) => text.clone(),
            None => {
                self.problem(format!("interned id {iid} is used before it is defined"));
                String::new()
            }
        }
    }

    fn describe(&mut self, track: &TrackDescriptor) {
        self.known("track", &track.special_fields);
        if let Some(process) = track.process.as_ref() {
            self.known("process", &process.special_fields);
        }
        if let Some(counter) = track.counter.as_ref() {
            self.known("counter", &counter.special_fields);
        }
        let own = match &track.static_or_dynamic_name {
            Some(track_descriptor::Static_or_dynamic_name::Name(name)) => name.clone(),
            _ => track.process.process_name().to_owned(),
        };
        let path = match (track.parent_uuid, track.process.is_some()) {
            (None, true) => own,
            (None, false) => {
                self.problem(format!("track {own:?} has no parent"));
                own
            }
            (Some(parent), _) => match self.tracks.get(&parent) {
                Some(above) => format!("{} / {own}", above.path),
                None => {
                    self.problem(format!("the parent {parent} of track {own:?} is not described before it"));
                    own
                }
            },
        };
        let described = Track { path, counter: track.counter.is_some() };
        if track.uuid() == 0 || self.tracks.insert(track.uuid(), described).is_some() {
            self.problem(format!("track {} is zero or described twice", track.uuid()));
        }
    }

    fn event(&mut self, packet: &TracePacket, event: &TrackEvent) {
        self.known("event", &event.special_fields);
        let at = packet.timestamp();
        if at < self.now.max(1) {
            self.problem(format!("time {at} after {}", self.now));
        }
        self.now = self.now.max(at);
        let uuid = event.track_uuid();
        let Some(track) = self.tracks.get(&uuid) else {
            return self.problem(format!("an event is on track {uuid}, which is not described before it"));
        };
        let (path, is_counter) = (track.path.clone(), track.counter);
        let kind = event.type_();
        if is_counter != (kind == track_event::Type::TYPE_COUNTER) {
            self.problem(format!("a {kind:?} is on {path:?}"));
        }
        for note in &event.debug_annotations {
            self.known("annotation", &note.special_fields);
            self.text(Interned::NoteName, note.name_iid());
            if note.has_string_value_iid() {
                self.text(Interned::NoteText, note.string_value_iid());
            }
        }
        let stack_depth = self.stacks.get(&uuid).map_or(0, Vec::len);
        match kind {
            track_event::Type::TYPE_SLICE_BEGIN => {
                let names = self.names(event);
                self.stacks.entry(uuid).or_default().push((at, names.0, names.1));
            }
            track_event::Type::TYPE_SLICE_END => match self.stacks.get_mut(&uuid).and_then(Vec::pop) {
                Some((start, name, category)) => {
                    self.slices.push(Slice { track: path, name, category, start, end: at, depth: stack_depth - 1 });
                }
                None => self.problem(format!("an END at {at} on {path:?} closes nothing")),
            },
            track_event::Type::TYPE_INSTANT => {
                let (name, _) = self.names(event);
                self.instants.push((name, at));
            }
            track_event::Type::TYPE_COUNTER if event.has_counter_value() => self.points.push((path, at, event.counter_value())),
            track_event::Type::TYPE_COUNTER if event.has_double_counter_value() => {
                self.fractions.push((path, at, event.double_counter_value()));
            }
            other => self.problem(format!("an event of type {other:?} has no meaning here")),
        }
        self.flows(event);
    }

    fn names(&mut self, event: &TrackEvent) -> (String, String) {
        let name = self.text(Interned::Name, event.name_iid());
        let categories: Vec<String> = event.category_iids.iter().map(|iid| self.text(Interned::Category, *iid)).collect();
        (name, categories.join(","))
    }

    fn flows(&mut self, event: &TrackEvent) {
        for flow in &event.flow_ids {
            if self.ended_flows.contains(flow) {
                self.problem(format!("flow {flow} goes on after its end"));
            }
            self.open_flows.insert(*flow);
        }
        for flow in &event.terminating_flow_ids {
            if self.open_flows.remove(flow) {
                self.flows += 1;
                self.ended_flows.insert(*flow);
            } else {
                self.problem(format!("flow {flow} ends without a source before it"));
            }
        }
    }
}
