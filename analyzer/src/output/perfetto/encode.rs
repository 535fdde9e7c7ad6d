//! The fast path: slice and counter packets, written by hand.
//!
//! Uses nothing else. Descriptors and everything rare go through the generated structs; these three packets are the
//! bulk of a trace. Invariant: the bytes decode to the same packet as the generated structs write, for values of any
//! length. Wire format: <https://protobuf.dev/programming-guides/encoding/>.

/// The only packet sequence of a trace.
pub(super) const SEQUENCE: u32 = 1;
/// `SEQ_NEEDS_INCREMENTAL_STATE`: the packet refers to interned names and to the default clock.
pub(super) const FLAGS_NEXT: u32 = 2;
/// The first packet also clears the state.
pub(super) const FLAGS_FIRST: u32 = 3;

// Tags: field number shifted by three, plus the wire type (0 varint, 2 length-delimited).
const TRACE_PACKET: u8 = 0x0a;
const PACKET_TIMESTAMP: u8 = 8 << 3;
const PACKET_SEQUENCE_ID: u8 = 10 << 3;
const PACKET_TRACK_EVENT: u8 = (11 << 3) | 2;
const PACKET_FLAGS: u8 = 13 << 3;
const EVENT_CATEGORY_IID: u8 = 3 << 3;
const EVENT_TYPE: u8 = 9 << 3;
const EVENT_NAME_IID: u8 = 10 << 3;
const EVENT_TRACK: u8 = 11 << 3;
const EVENT_COUNTER_VALUE: [u8; 2] = [0xf0, 0x01];
// Wire type 1: eight bytes.
const EVENT_COUNTER_FRACTION: [u8; 2] = [0xe1, 0x02];
const EVENT_FLOW: [u8; 2] = [0xf9, 0x02];
const EVENT_LAST_FLOW: [u8; 2] = [0x81, 0x03];

const TYPE_BEGIN: u8 = 1;
const TYPE_END: u8 = 2;
const TYPE_COUNTER: u8 = 4;

/// Bytes that follow the event in every packet.
const TAIL: [u8; 4] = [PACKET_SEQUENCE_ID, SEQUENCE as u8, PACKET_FLAGS, FLAGS_NEXT as u8];

/// Appends a varint.
#[inline]
pub(super) fn put_varint(buffer: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        buffer.push(value as u8 | 0x80);
        value >>= 7;
    }
    buffer.push(value as u8);
}

/// Length of a varint in bytes.
#[inline]
pub(super) const fn varint_len(value: u64) -> usize {
    (70 - (value | 1).leading_zeros() as usize) / 7
}

#[inline]
fn packet_head(buffer: &mut Vec<u8>, timestamp: u64, event_len: usize) {
    let packet_len = 1 + varint_len(timestamp) + 1 + varint_len(event_len as u64) + event_len + TAIL.len();
    buffer.push(TRACE_PACKET);
    put_varint(buffer, packet_len as u64);
    buffer.push(PACKET_TIMESTAMP);
    put_varint(buffer, timestamp);
    buffer.push(PACKET_TRACK_EVENT);
    put_varint(buffer, event_len as u64);
}

/// Appends the packet that opens a slice.
#[inline]
pub(super) fn slice_begin(buffer: &mut Vec<u8>, timestamp: u64, track: u64, name: u64, category: u64) {
    let event_len = 5 + varint_len(category) + varint_len(name) + varint_len(track);
    packet_head(buffer, timestamp, event_len);
    buffer.push(EVENT_CATEGORY_IID);
    put_varint(buffer, category);
    buffer.extend_from_slice(&[EVENT_TYPE, TYPE_BEGIN, EVENT_NAME_IID]);
    put_varint(buffer, name);
    buffer.push(EVENT_TRACK);
    put_varint(buffer, track);
    buffer.extend_from_slice(&TAIL);
}

/// Appends the packet that opens a slice from which arrows start, or at which they end.
pub(super) fn slice_begin_with_flows(
    buffer: &mut Vec<u8>,
    timestamp: u64,
    (track, name, category): (u64, u64, u64),
    starting: &[u64],
    ending: &[u64],
) {
    let flows = (EVENT_FLOW.len() + 8) * (starting.len() + ending.len());
    let event_len = 5 + varint_len(category) + varint_len(name) + varint_len(track) + flows;
    packet_head(buffer, timestamp, event_len);
    buffer.push(EVENT_CATEGORY_IID);
    put_varint(buffer, category);
    buffer.extend_from_slice(&[EVENT_TYPE, TYPE_BEGIN, EVENT_NAME_IID]);
    put_varint(buffer, name);
    buffer.push(EVENT_TRACK);
    put_varint(buffer, track);
    for (tag, list) in [(EVENT_FLOW, starting), (EVENT_LAST_FLOW, ending)] {
        for flow in list {
            buffer.extend_from_slice(&tag);
            buffer.extend_from_slice(&flow.to_le_bytes());
        }
    }
    buffer.extend_from_slice(&TAIL);
}

/// Appends one value of a counter that is no whole number.
pub(super) fn fraction(buffer: &mut Vec<u8>, timestamp: u64, track: u64, value: f64) {
    packet_head(buffer, timestamp, 3 + varint_len(track) + EVENT_COUNTER_FRACTION.len() + 8);
    buffer.extend_from_slice(&[EVENT_TYPE, TYPE_COUNTER, EVENT_TRACK]);
    put_varint(buffer, track);
    buffer.extend_from_slice(&EVENT_COUNTER_FRACTION);
    buffer.extend_from_slice(&value.to_le_bytes());
    buffer.extend_from_slice(&TAIL);
}

/// Appends the packet that closes the innermost slice of a track.
#[inline]
pub(super) fn slice_end(buffer: &mut Vec<u8>, timestamp: u64, track: u64) {
    packet_head(buffer, timestamp, 3 + varint_len(track));
    buffer.extend_from_slice(&[EVENT_TYPE, TYPE_END, EVENT_TRACK]);
    put_varint(buffer, track);
    buffer.extend_from_slice(&TAIL);
}

/// Appends one value of a counter.
#[inline]
pub(super) fn counter(buffer: &mut Vec<u8>, timestamp: u64, track: u64, value: i64) {
    // A negative int64 is sent as its two's complement, ten bytes long.
    let value = value as u64;
    packet_head(buffer, timestamp, 5 + varint_len(track) + varint_len(value));
    buffer.extend_from_slice(&[EVENT_TYPE, TYPE_COUNTER, EVENT_TRACK]);
    put_varint(buffer, track);
    buffer.extend_from_slice(&EVENT_COUNTER_VALUE);
    put_varint(buffer, value);
    buffer.extend_from_slice(&TAIL);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::perfetto::protos::{Trace, TracePacket, TrackEvent, trace_packet, track_event};
    use prost::Message;

    fn reference(timestamp: u64, event: TrackEvent) -> Trace {
        let packet = TracePacket {
            timestamp: Some(timestamp),
            data: Some(trace_packet::Data::TrackEvent(event)),
            optional_trusted_packet_sequence_id: Some(trace_packet::OptionalTrustedPacketSequenceId::TrustedPacketSequenceId(
                SEQUENCE,
            )),
            sequence_flags: Some(FLAGS_NEXT),
            ..TracePacket::default()
        };
        Trace { packet: vec![packet] }
    }

    fn same(bytes: &[u8], expected: &Trace) {
        assert_eq!(&Trace::decode(bytes).expect("decodes"), expected);
        assert_eq!(bytes.len(), expected.encoded_len(), "no byte more than the generated code writes");
    }

    #[test]
    fn hand_written_packets_equal_the_generated_ones_at_every_length() {
        let mut values: Vec<u64> = (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit]).collect();
        values.push(u64::MAX);
        for (at, value) in values.iter().copied().enumerate() {
            let other = values[(at * 7 + 3) % values.len()];
            let third = values[(at * 11 + 5) % values.len()];
            let mut bytes = Vec::new();
            slice_begin(&mut bytes, value, other, third, value);
            let mut event = TrackEvent {
                category_iids: vec![value],
                name_field: Some(track_event::NameField::NameIid(third)),
                track_uuid: Some(other),
                ..TrackEvent::default()
            };
            event.set_type(track_event::Type::SliceBegin);
            same(&bytes, &reference(value, event));

            bytes.clear();
            slice_end(&mut bytes, other, value);
            let mut event = TrackEvent { track_uuid: Some(value), ..TrackEvent::default() };
            event.set_type(track_event::Type::SliceEnd);
            same(&bytes, &reference(other, event));

            bytes.clear();
            counter(&mut bytes, third, value, other as i64);
            let mut event = TrackEvent {
                track_uuid: Some(value),
                counter_value_field: Some(track_event::CounterValueField::CounterValue(other as i64)),
                ..TrackEvent::default()
            };
            event.set_type(track_event::Type::Counter);
            same(&bytes, &reference(third, event));

            bytes.clear();
            fraction(&mut bytes, third, value, 0.1 + at as f64);
            let mut event = TrackEvent {
                track_uuid: Some(value),
                counter_value_field: Some(track_event::CounterValueField::DoubleCounterValue(0.1 + at as f64)),
                ..TrackEvent::default()
            };
            event.set_type(track_event::Type::Counter);
            same(&bytes, &reference(third, event));

            bytes.clear();
            slice_begin_with_flows(&mut bytes, value, (other, third, value), &[value, other], &[third]);
            let mut event = TrackEvent {
                category_iids: vec![value],
                name_field: Some(track_event::NameField::NameIid(third)),
                track_uuid: Some(other),
                flow_ids: vec![value, other],
                terminating_flow_ids: vec![third],
                ..TrackEvent::default()
            };
            event.set_type(track_event::Type::SliceBegin);
            same(&bytes, &reference(value, event));
        }
    }
}
