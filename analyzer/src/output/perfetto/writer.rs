//! Writing: descriptors first, then events in order, one packet sequence.
//!
//! Uses `model`, `order`, `encode`. Invariants: the first packet clears the state, sets the default clock and defines
//! every interned name; every track is described before the first event; sources are merged by time as they are
//! written, so that a large one is never held as packets.

use super::encode::{self, FLAGS_FIRST, FLAGS_NEXT, SEQUENCE};
use super::model::{Extra, Interner, Model, Note};
use super::order::{self, Packet};
use super::protos::{
    DebugAnnotation, DebugAnnotationName, EventCategory, EventName, InternedData, InternedString, TraceAttributes, TracePacket,
    TracePacketDefaults, TrackEvent, debug_annotation, trace_attributes, trace_packet, track_event,
};
use crate::error::Error;
use prost::Message;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Write;

/// `BUILTIN_CLOCK_BOOTTIME`, the clock that readers use for the trace's axis.
const TRACE_CLOCK: u32 = 6;
/// The tag of a packet in a trace.
const TRACE_PACKET: u8 = 0x0a;
/// Bytes that are collected before they are passed on.
const CHUNK: usize = 64 << 10;

/// Events in their own order.
pub(super) trait Source {
    /// Time and group of the next packet; never before the last one's.
    fn next(&self) -> Option<(u64, u8)>;
    /// Appends the next packet, or several that belong together.
    fn write(&mut self, sink: &mut Sink<'_>) -> Result<(), Error>;
}

/// Writes a model and further sources, which come after it where times are equal; returns the bytes written.
pub(super) fn write(model: &Model, more: Vec<Box<dyn Source + '_>>, out: &mut dyn Write) -> Result<u64, Error> {
    let mut sink = Sink { buffer: Vec::with_capacity(CHUNK * 2), out, written: 0 };
    sink.packet(first(model))?;
    if !model.attributes.is_empty() {
        sink.packet(attributes(model))?;
    }
    for track in &model.tracks {
        sink.packet(packet(Some(trace_packet::Data::TrackDescriptor(track.clone()))))?;
    }
    let own: Box<dyn Source> = Box::new(Own { model, packets: order::packets(model), at: 0 });
    let mut sources: Vec<Box<dyn Source + '_>> = Vec::with_capacity(more.len() + 1);
    sources.push(own);
    sources.extend(more);
    merge(&mut sources, &mut sink)?;
    sink.finish()
}

fn merge(sources: &mut [Box<dyn Source + '_>], sink: &mut Sink<'_>) -> Result<(), Error> {
    let mut heap: BinaryHeap<Reverse<((u64, u8), usize)>> =
        sources.iter().enumerate().filter_map(|(at, source)| Some(Reverse((source.next()?, at)))).collect();
    while let Some(Reverse((_, at))) = heap.pop() {
        let Some(source) = sources.get_mut(at) else { continue };
        // As long as this source is the first, it goes on without the heap.
        loop {
            source.write(sink)?;
            sink.pass_on()?;
            let Some(next) = source.next() else { break };
            if heap.peek().is_some_and(|Reverse(other)| *other < (next, at)) {
                heap.push(Reverse((next, at)));
                break;
            }
        }
    }
    Ok(())
}

/// The model's own events.
struct Own<'a> {
    model: &'a Model,
    packets: Vec<(order::Key, Packet)>,
    at: usize,
}

impl Source for Own<'_> {
    fn next(&self) -> Option<(u64, u8)> {
        self.packets.get(self.at).map(|((time, group, _), _)| (*time, *group))
    }

    fn write(&mut self, sink: &mut Sink<'_>) -> Result<(), Error> {
        if let Some((_, packet)) = self.packets.get(self.at) {
            self.at += 1;
            event(self.model, *packet, sink)?;
        }
        Ok(())
    }
}

/// Packets on their way out.
pub(super) struct Sink<'a> {
    /// What is not passed on yet.
    pub(super) buffer: Vec<u8>,
    out: &'a mut dyn Write,
    written: u64,
}

impl Sink<'_> {
    pub(super) fn packet(&mut self, packet: TracePacket) -> Result<(), Error> {
        self.buffer.push(TRACE_PACKET);
        encode::put_varint(&mut self.buffer, packet.encoded_len() as u64);
        packet.encode_raw(&mut self.buffer);
        self.pass_on()
    }

    fn pass_on(&mut self) -> Result<(), Error> {
        if self.buffer.len() >= CHUNK {
            self.flush()?;
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.out.write_all(&self.buffer).map_err(Error::Output)?;
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn finish(mut self) -> Result<u64, Error> {
        self.flush()?;
        self.out.flush().map_err(Error::Output)?;
        Ok(self.written)
    }
}

fn packet(data: Option<trace_packet::Data>) -> TracePacket {
    TracePacket {
        data,
        optional_trusted_packet_sequence_id: Some(trace_packet::OptionalTrustedPacketSequenceId::TrustedPacketSequenceId(
            SEQUENCE,
        )),
        sequence_flags: Some(FLAGS_NEXT),
        ..TracePacket::default()
    }
}

fn first(model: &Model) -> TracePacket {
    TracePacket {
        sequence_flags: Some(FLAGS_FIRST),
        first_packet_on_sequence: Some(true),
        trace_packet_defaults: Some(TracePacketDefaults { timestamp_clock_id: Some(TRACE_CLOCK) }),
        interned_data: Some(InternedData {
            event_categories: each(&model.categories, |iid, name| EventCategory { iid, name }),
            event_names: each(&model.names, |iid, name| EventName { iid, name }),
            debug_annotation_names: each(&model.note_names, |iid, name| DebugAnnotationName { iid, name }),
            debug_annotation_string_values: each(&model.note_texts, |iid, text| InternedString {
                iid,
                str: text.map(String::into_bytes),
            }),
        }),
        ..packet(None)
    }
}

fn each<T>(interner: &Interner, make: impl Fn(Option<u64>, Option<String>) -> T) -> Vec<T> {
    (1_u64..).zip(&interner.strings).map(|(iid, text)| make(Some(iid), Some(text.clone()))).collect()
}

fn attributes(model: &Model) -> TracePacket {
    let attribute = model
        .attributes
        .iter()
        .map(|(key, value)| trace_attributes::Attribute {
            key: Some(key.clone()),
            value: Some(match value.parse::<i64>() {
                Ok(number) => trace_attributes::attribute::Value::LongValue(number),
                Err(_) => trace_attributes::attribute::Value::StringValue(value.clone()),
            }),
        })
        .collect();
    packet(Some(trace_packet::Data::TraceAttributes(TraceAttributes { attribute })))
}

fn event(model: &Model, next: Packet, sink: &mut Sink<'_>) -> Result<(), Error> {
    match next {
        Packet::Begin(at) => {
            let Some(slice) = model.slices.get(at) else { return Ok(()) };
            if slice.extra == Extra::default() {
                encode::slice_begin(&mut sink.buffer, slice.start, slice.track, slice.name, slice.category);
            } else {
                let kind = track_event::Type::SliceBegin;
                return sink.packet(rich(slice.start, kind, slice.track, slice.name, slice.category, &slice.extra));
            }
        }
        Packet::End(at) => {
            let Some(slice) = model.slices.get(at) else { return Ok(()) };
            encode::slice_end(&mut sink.buffer, slice.end, slice.track);
        }
        Packet::Point(at) => {
            let Some(point) = model.points.get(at) else { return Ok(()) };
            encode::counter(&mut sink.buffer, point.at, point.track, point.value);
        }
        Packet::Instant(at) => {
            let Some(moment) = model.instants.get(at) else { return Ok(()) };
            let kind = track_event::Type::Instant;
            return sink.packet(rich(moment.at, kind, moment.track, moment.name, moment.category, &moment.extra));
        }
    }
    Ok(())
}

/// A packet for an event with everything that events can carry.
pub(super) fn rich(at: u64, kind: track_event::Type, track: u64, name: u64, category: u64, extra: &Extra) -> TracePacket {
    let debug_annotations = extra
        .notes
        .iter()
        .map(|(name, value)| DebugAnnotation {
            name_field: Some(debug_annotation::NameField::NameIid(*name)),
            value: Some(match value {
                Note::Number(value) => debug_annotation::Value::UintValue(*value),
                Note::Text(iid) => debug_annotation::Value::StringValueIid(*iid),
            }),
        })
        .collect();
    let mut event = TrackEvent {
        category_iids: vec![category],
        name_field: Some(track_event::NameField::NameIid(name)),
        track_uuid: Some(track),
        debug_annotations,
        flow_ids: extra.flows.clone(),
        terminating_flow_ids: extra.last_flows.clone(),
        ..TrackEvent::default()
    };
    event.set_type(kind);
    TracePacket { timestamp: Some(at), ..packet(Some(trace_packet::Data::TrackEvent(event))) }
}
