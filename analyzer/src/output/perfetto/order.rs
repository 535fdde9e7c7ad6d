//! Order of packets: "What comes first when times are equal?"
//!
//! Uses `model`. A reader keeps a stack a track, so at equal times: ENDs, inner first; then zero-length slices, each
//! BEGIN directly before its END; then BEGINs, outer first. Counter values and instants go with the second group.

use super::model::Model;

/// One packet to write, by its position in the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packet {
    /// Opens a slice.
    Begin(usize),
    /// Closes a slice.
    End(usize),
    /// A moment.
    Instant(usize),
    /// A counter value.
    Point(usize),
}

/// The position of a packet among all: time, group, order inside the group.
pub(super) type Key = (u64, u8, u128);

/// Group of the packets that close slices.
pub(super) const ENDS: u8 = 0;
/// Group of what takes no time.
pub(super) const MOMENTS: u8 = 1;
/// Group of the packets that open slices.
pub(super) const BEGINS: u8 = 2;

/// The key of the packet that opens a slice.
pub(super) fn begin_key(model: &Model, slice: usize) -> Option<Key> {
    let found = model.slices.get(slice)?;
    if found.start == found.end {
        return Some((found.start, MOMENTS, (slice as u128) << 1));
    }
    let inside = (u128::from(found.rank) << 96) | (u128::from(found.track) << 32) | found.depth as u128;
    Some((found.start, BEGINS, inside))
}

fn end_key(model: &Model, slice: usize) -> Option<Key> {
    let found = model.slices.get(slice)?;
    if found.start == found.end {
        return Some((found.end, MOMENTS, ((slice as u128) << 1) | 1));
    }
    let inner_first = u128::from(u32::MAX - found.depth as u32);
    Some((found.end, ENDS, (u128::from(found.track) << 32) | inner_first))
}

/// All packets of a model, in the order in which they are written.
pub(super) fn packets(model: &Model) -> Vec<(Key, Packet)> {
    let count = model.slices.len() * 2 + model.instants.len() + model.points.len();
    let mut keyed: Vec<(Key, Packet)> = Vec::with_capacity(count);
    for slice in 0..model.slices.len() {
        if let (Some(begin), Some(end)) = (begin_key(model, slice), end_key(model, slice)) {
            keyed.push((begin, Packet::Begin(slice)));
            keyed.push((end, Packet::End(slice)));
        }
    }
    let after = |group: u64, at: usize| (u128::from(group) << 96) | at as u128;
    keyed.extend(model.points.iter().enumerate().map(|(at, point)| ((point.at, MOMENTS, after(1, at)), Packet::Point(at))));
    keyed.extend(model.instants.iter().enumerate().map(|(at, moment)| ((moment.at, MOMENTS, after(2, at)), Packet::Instant(at))));
    keyed.sort_unstable_by_key(|(key, _)| *key);
    keyed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::perfetto::model::{Extra, Slice};

    fn slice(start: u64, end: u64, depth: usize) -> Slice {
        Slice { track: 1, start, end, depth, name: 1, category: 1, rank: 0, extra: Extra::default() }
    }

    #[test]
    fn ends_inner_first_then_zero_length_then_begins_outer_first() {
        let slices = vec![slice(1, 10, 0), slice(2, 10, 1), slice(10, 10, 0), slice(10, 30, 0), slice(10, 20, 1)];
        let mut model = Model::default();
        model.slices = slices;
        let expected = [
            Packet::Begin(0),
            Packet::Begin(1),
            Packet::End(1),
            Packet::End(0),
            Packet::Begin(2),
            Packet::End(2),
            Packet::Begin(3),
            Packet::Begin(4),
            Packet::End(4),
            Packet::End(3),
        ];
        assert_eq!(packets(&model).into_iter().map(|(_, packet)| packet).collect::<Vec<_>>(), expected);
    }
}
