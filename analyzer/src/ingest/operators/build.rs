//! Events to values: "Where does each event belong?"
//!
//! Uses `event`, `repairs` and `run`. Invariants: what cannot be placed is counted by its kind; names, categories,
//! threads and counters are bounded; the order of what is built is that of the file, never that of a hash.

use super::cursor::Value;
use super::decimal::{self, Number};
use super::event::{Event, number};
use super::names::Names;
use super::pairs::{AsyncHalf, Half};
use super::repairs::{Loss, Repairs, Tally};
use crate::limits::{MAX_OPERATOR_CATEGORIES, MAX_OPERATOR_COUNTERS, MAX_OPERATOR_EVENTS, MAX_OPERATOR_TRACKS};
use crate::run::operators::{
    Category, Class, Counter, CounterValue, FlowId, FlowPoint, FlowStep, Link, Moment, MomentKind, NO_LINK, OperatorSlice,
    OperatorTrace, Process, Track, TrackKind,
};
use std::collections::{BTreeMap, HashMap};

/// Identifier of a process or thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Ident {
    /// None was given.
    None,
    /// A whole number.
    Number(i64),
    /// Any text, by its position among the names.
    Text(u32),
}

/// Categories that are looked for before the others; recorded traces have about ten.
const COMMON_CATEGORIES: usize = 16;

/// What a track is found by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum TrackKey {
    Thread(Ident, Ident),
    Async(Ident, u16),
}

/// A trace while it is read.
#[derive(Default)]
pub(super) struct Builder {
    pub(super) trace: OperatorTrace,
    pub(super) tally: Tally,
    pub(super) names: Names,
    category_ids: HashMap<String, u16>,
    /// The first few categories as they stand in the file, for a look without hashing.
    common_categories: Vec<(Vec<u8>, u16)>,
    process_ids: HashMap<Ident, u32>,
    track_ids: HashMap<TrackKey, u32>,
    last_track: Option<(TrackKey, u32)>,
    counter_ids: HashMap<(u32, String), usize>,
    pub(super) halves: BTreeMap<u32, Vec<Half>>,
    pub(super) async_halves: Vec<AsyncHalf>,
    async_keys: HashMap<(Ident, u16, FlowId), u32>,
    /// Events of phases that are not drawn, by phase.
    pub(super) other_phases: BTreeMap<u8, u64>,
    lenient: bool,
}

impl Builder {
    /// Adds one event; false where no more are kept.
    #[inline]
    pub(super) fn add(&mut self, event: &Event<'_>, mut repairs: Repairs, lenient: bool) -> bool {
        if self.trace.events >= MAX_OPERATOR_EVENTS {
            return false;
        }
        self.lenient = lenient;
        match event.phase {
            b'X' => self.complete(event, &mut repairs),
            b'B' | b'E' => self.half(event, &mut repairs),
            b'b' | b'e' | b'n' => self.asynchronous(event, &mut repairs),
            b'i' | b'I' => self.instant(event, &mut repairs),
            b'C' => self.counter(event, &mut repairs),
            b'M' => self.metadata(event, &mut repairs),
            b's' | b't' | b'f' => self.flow(event, &mut repairs),
            0 => self.tally.lost(Loss::NotAnEvent),
            other => *self.other_phases.entry(other).or_default() += 1,
        }
        self.tally.add(&repairs);
        self.trace.events += 1;
        true
    }

    fn sequence(&self) -> u32 {
        // The limit of events is far below.
        self.trace.events as u32
    }

    #[inline]
    fn complete(&mut self, event: &Event<'_>, repairs: &mut Repairs) {
        let Some(ts) = number(event.ts, repairs) else { return self.tally.lost(Loss::NoTime) };
        let Some(dur) = number(event.dur, repairs) else {
            return self.doubt(event, &ts, MomentKind::MissingDuration, Loss::MissingDuration, repairs);
        };
        let Some((start, end)) = decimal::span(&ts, &dur) else { return self.tally.lost(Loss::NoTime) };
        if end < start {
            return self.doubt(event, &ts, MomentKind::NegativeDuration, Loss::NegativeDuration, repairs);
        }
        let Some(track) = self.thread(event, repairs) else { return };
        let name = self.names.of(event.name, repairs, &mut self.tally);
        let category = self.category(event, repairs);
        let slice = OperatorSlice { start, end, name, sequence: self.sequence(), link: self.link(event), category };
        if let Some(track) = self.trace.tracks.get_mut(track as usize) {
            track.slices.push(slice);
        }
    }

    fn link(&mut self, event: &Event<'_>) -> u32 {
        if event.correlation.is_none() && event.bytes.is_none() {
            return NO_LINK;
        }
        self.trace.links.push(Link { correlation: event.correlation, bytes: event.bytes });
        self.trace.links.len() as u32 - 1
    }

    fn doubt(&mut self, event: &Event<'_>, ts: &Number<'_>, kind: MomentKind, loss: Loss, repairs: &mut Repairs) {
        let Some(at) = decimal::moment(ts) else { return self.tally.lost(Loss::NoTime) };
        self.tally.lost(loss);
        self.moment(event, at, kind, repairs);
    }

    fn moment(&mut self, event: &Event<'_>, at: i64, kind: MomentKind, repairs: &mut Repairs) {
        let Some(track) = self.thread(event, repairs) else { return };
        let name = self.names.of(event.name, repairs, &mut self.tally);
        let category = self.category(event, repairs);
        self.trace.moments.push(Moment { at, track, name, sequence: self.sequence(), category, kind });
    }

    fn time(&mut self, event: &Event<'_>, repairs: &mut Repairs) -> Option<i64> {
        let at = number(event.ts, repairs).and_then(|ts| decimal::moment(&ts));
        if at.is_none() {
            self.tally.lost(Loss::NoTime);
        }
        at
    }

    fn instant(&mut self, event: &Event<'_>, repairs: &mut Repairs) {
        if let Some(at) = self.time(event, repairs) {
            self.moment(event, at, MomentKind::Instant, repairs);
        }
    }

    fn half(&mut self, event: &Event<'_>, repairs: &mut Repairs) {
        let Some(at) = self.time(event, repairs) else { return };
        let Some(track) = self.thread(event, repairs) else { return };
        let name = self.names.of(event.name, repairs, &mut self.tally);
        let category = self.category(event, repairs);
        let half = Half { at, sequence: self.sequence(), name, category, begins: event.phase == b'B' };
        self.halves.entry(track).or_default().push(half);
    }

    fn asynchronous(&mut self, event: &Event<'_>, repairs: &mut Repairs) {
        let Some(at) = self.time(event, repairs) else { return };
        let Some(id) = self.flow_id(event, repairs) else { return self.tally.lost(Loss::BadFlow) };
        let pid = self.ident(event.pid, repairs);
        let category = self.category(event, repairs);
        let Some(track) = self.track(TrackKey::Async(pid, category)) else { return };
        let name = self.names.of(event.name, repairs, &mut self.tally);
        let sequence = self.sequence();
        if event.phase == b'n' {
            let kind = MomentKind::Instant;
            return self.trace.moments.push(Moment { at, track, name, sequence, category, kind });
        }
        let next = self.async_keys.len() as u32;
        let key = *self.async_keys.entry((pid, category, id)).or_insert(next);
        let half = Half { at, sequence, name, category, begins: event.phase == b'b' };
        self.async_halves.push(AsyncHalf { key, track, half });
    }

    fn flow(&mut self, event: &Event<'_>, repairs: &mut Repairs) {
        let Some(at) = self.time(event, repairs) else { return };
        let Some(id) = self.flow_id(event, repairs) else { return self.tally.lost(Loss::BadFlow) };
        let Some(track) = self.thread(event, repairs) else { return };
        let name = self.names.of(event.name, repairs, &mut self.tally);
        let category = self.category(event, repairs);
        let step = match (event.phase, event.around) {
            (b's', _) => FlowStep::Start,
            (b't', _) => FlowStep::Step,
            (_, true) => FlowStep::EndAround,
            (_, false) => FlowStep::EndNext,
        };
        self.trace.flows.push(FlowPoint { id, at, track, sequence: self.sequence(), name, category, step });
    }

    fn flow_id(&mut self, event: &Event<'_>, repairs: &mut Repairs) -> Option<FlowId> {
        let raw = match event.id? {
            Value::Number(number) => match number.as_u64() {
                Some(id) => return Some(FlowId::Number(id)),
                None => number.raw,
            },
            Value::Text(text) => {
                let id = text.decode(repairs);
                return Some(FlowId::Text(self.names.id(&id, &mut self.tally)));
            }
            Value::Nested(raw) => raw,
            Value::NonFinite | Value::Word => return None,
        };
        Some(FlowId::Text(self.names.id(&String::from_utf8_lossy(raw), &mut self.tally)))
    }

    fn counter(&mut self, event: &Event<'_>, repairs: &mut Repairs) {
        let Some(at) = self.time(event, repairs) else { return };
        let pid = self.ident(event.pid, repairs);
        let Some(process) = self.process(pid) else { return };
        let mut name = event.name.map(|name| name.decode(repairs).into_owned()).unwrap_or_default();
        match event.id {
            Some(Value::Number(id)) => name = format!("{name} [{}]", String::from_utf8_lossy(id.raw)),
            Some(Value::Text(id)) => name = format!("{name} [{}]", id.decode(repairs)),
            _ => {}
        }
        let mut values = Vec::new();
        event.each_argument(self.lenient, |key, value| values.push((key, value)));
        let several = values.len() > 1;
        for (key, value) in values {
            let Some(value) = number(Some(value), repairs).and_then(|number| counter_value(&number)) else {
                self.tally.lost(Loss::BadCounter);
                continue;
            };
            let name = if several { format!("{name}: {}", key.decode(repairs)) } else { name.clone() };
            let next = self.trace.counters.len();
            let known = self.counter_ids.get(&(process, name.clone())).copied();
            if known.is_none() && next >= MAX_OPERATOR_COUNTERS {
                self.tally.lost(Loss::TooManyCounters);
                continue;
            }
            let counter = known.unwrap_or_else(|| {
                self.counter_ids.insert((process, name.clone()), next);
                self.trace.counters.push(Counter { process, name, values: Vec::new() });
                next
            });
            if let Some(counter) = self.trace.counters.get_mut(counter) {
                counter.values.push((at, value));
            }
        }
    }

    fn metadata(&mut self, event: &Event<'_>, repairs: &mut Repairs) {
        let Some(what) = event.name else { return };
        let (mut text, mut sort) = (None, None);
        event.each_argument(self.lenient, |key, value| match (key.raw, value) {
            (b"name" | b"labels", Value::Text(words)) => text = Some(words.decode(repairs).into_owned()),
            (b"sort_index", Value::Number(number)) => sort = number.as_i64(),
            _ => {}
        });
        if text.is_none() && sort.is_none() {
            return;
        }
        if what.raw.starts_with(b"thread_") {
            let track = self.thread(event, &mut Repairs::default());
            let Some(track) = track.and_then(|track| self.trace.tracks.get_mut(track as usize)) else { return };
            match what.raw {
                b"thread_name" => track.name = text.or(track.name.take()),
                b"thread_sort_index" => track.sort = sort.or(track.sort),
                _ => {}
            }
            return;
        }
        let pid = self.ident(event.pid, repairs);
        let Some(process) = self.process(pid) else { return };
        let Some(process) = self.trace.processes.get_mut(process as usize) else { return };
        match what.raw {
            b"process_name" => process.name = text.or(process.name.take()),
            b"process_labels" => process.labels = text.or(process.labels.take()),
            b"process_sort_index" => process.sort = sort.or(process.sort),
            _ => {}
        }
    }

    #[inline]
    fn category(&mut self, event: &Event<'_>, repairs: &mut Repairs) -> u16 {
        let raw = event.category.map_or(&b""[..], |category| category.raw);
        if let Some((_, id)) = self.common_categories.iter().find(|(known, _)| known.as_slice() == raw) {
            return *id;
        }
        let text = event.category.map(|category| category.decode(repairs)).unwrap_or_default();
        let full = self.trace.categories.len() >= MAX_OPERATOR_CATEGORIES;
        let id = match self.category_ids.get(text.as_ref()) {
            Some(id) => *id,
            // The last one stands for all beyond the limit.
            None if full => self.trace.categories.len() as u16 - 1,
            None => {
                let id = self.trace.categories.len() as u16;
                self.category_ids.insert(text.to_string(), id);
                self.trace.categories.push(Category { name: text.as_ref().into(), class: Class::of(&text) });
                id
            }
        };
        if self.common_categories.len() < COMMON_CATEGORIES {
            self.common_categories.push((raw.to_vec(), id));
        }
        id
    }

    #[inline]
    fn ident(&mut self, value: Option<Value<'_>>, repairs: &mut Repairs) -> Ident {
        let text = match value {
            None => return Ident::None,
            Some(Value::Number(number)) => match number.as_i64() {
                Some(id) => return Ident::Number(id),
                None => String::from_utf8_lossy(number.raw),
            },
            Some(Value::Text(text)) => match Number::whole(text.raw).and_then(|number| number.as_i64()) {
                Some(id) => return Ident::Number(id),
                None => text.decode(repairs),
            },
            Some(Value::Nested(raw)) => String::from_utf8_lossy(raw),
            Some(Value::NonFinite | Value::Word) => return Ident::None,
        };
        Ident::Text(self.names.id(&text, &mut self.tally))
    }

    fn shown(&self, ident: Ident) -> String {
        match ident {
            Ident::None => "-".into(),
            Ident::Number(id) => id.to_string(),
            Ident::Text(name) => self.names.text(name).to_string(),
        }
    }

    #[inline]
    fn thread(&mut self, event: &Event<'_>, repairs: &mut Repairs) -> Option<u32> {
        let key = TrackKey::Thread(self.ident(event.pid, repairs), self.ident(event.tid, repairs));
        match self.last_track {
            Some((last, track)) if last == key => Some(track),
            _ => self.track(key),
        }
    }

    fn process(&mut self, pid: Ident) -> Option<u32> {
        if let Some(process) = self.process_ids.get(&pid) {
            return Some(*process);
        }
        let next = self.trace.processes.len();
        if next >= MAX_OPERATOR_TRACKS {
            self.tally.lost(Loss::TooManyTracks);
            return None;
        }
        self.trace.processes.push(Process { id: self.shown(pid), ..Process::default() });
        self.process_ids.insert(pid, next as u32);
        Some(next as u32)
    }

    fn track(&mut self, key: TrackKey) -> Option<u32> {
        if let Some(track) = self.track_ids.get(&key).copied() {
            self.last_track = Some((key, track));
            return Some(track);
        }
        let next = self.trace.tracks.len();
        if next >= MAX_OPERATOR_TRACKS {
            self.tally.lost(Loss::TooManyTracks);
            return None;
        }
        let (pid, kind, id) = match key {
            TrackKey::Thread(pid, tid) => (pid, TrackKind::Thread, self.shown(tid)),
            TrackKey::Async(pid, category) => (pid, TrackKind::Async, self.trace.category(category).to_string()),
        };
        let process = self.process(pid)?;
        self.trace.tracks.push(Track { process, kind, id, ..Track::default() });
        self.track_ids.insert(key, next as u32);
        self.last_track = Some((key, next as u32));
        Some(next as u32)
    }
}

fn counter_value(number: &Number<'_>) -> Option<CounterValue> {
    if let Some(whole) = number.as_i64() {
        return Some(CounterValue::Whole(whole));
    }
    // What is whole and does not fit is no value of a counter.
    if number.as_u64().is_some() {
        return None;
    }
    number.as_f64().map(CounterValue::Fraction)
}
