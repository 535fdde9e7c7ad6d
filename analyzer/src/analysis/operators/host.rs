//! Host time: "Which operator kept its thread busy, without what it called?"
//!
//! Uses `nesting`, `device` and `run`. Invariants: a row's self time is its time without the rows nested in it on its
//! lane; inclusive times of different names overlap and are never added; device work counts for the operator in which
//! its launch lies, and only there as its own.

use super::device::Works;
use super::nesting::Lanes;
use crate::run::operators::{Class, HostRow, OperatorTrace, TrackKind};
use std::collections::HashMap;

/// A host row while it is open.
struct Frame {
    row: usize,
    class: Class,
    length: u64,
    children: u64,
    /// Device work launched here, and anywhere in it.
    own_device: u64,
    device: u64,
    /// False inside a row of the same name.
    outermost: bool,
}

/// Rows of all threads by name and category, the largest self time first.
pub(super) fn rows(trace: &OperatorTrace, works: &Works) -> Vec<HostRow> {
    let mut rows: Vec<HostRow> = Vec::new();
    let mut places: HashMap<(u32, u16), usize> = HashMap::new();
    let known = works.any;
    for track in trace.tracks.iter().filter(|track| track.kind == TrackKind::Thread) {
        let mut lanes: Lanes<Frame> = Lanes::new();
        for slice in &track.slices {
            let class = trace.class(slice.category);
            if !class.is_host() {
                continue;
            }
            let row = *places.entry((slice.name, slice.category)).or_insert_with(|| {
                let (name, category) = (slice.name, slice.category);
                let none = known.then_some(0);
                let fresh =
                    HostRow { name, category, calls: 0, self_ns: 0, inclusive_ns: 0, self_device_ns: none, device_ns: none };
                rows.push(fresh);
                rows.len() - 1
            });
            let launched = trace.link(slice).correlation.map_or(0, |correlation| works.launched_by(correlation));
            let length = slice.end.abs_diff(slice.start);
            let make = |around: &[(i64, Frame)]| Frame {
                row,
                class,
                length,
                children: 0,
                own_device: launched,
                device: launched,
                outermost: around.iter().all(|(_, frame)| frame.row != row),
            };
            lanes.place((slice.start, slice.end), make, |frame, parent| close(&mut rows, frame, parent));
        }
        lanes.finish(|frame, parent| close(&mut rows, frame, parent));
    }
    rows.sort_by(|a, b| b.self_ns.cmp(&a.self_ns).then_with(|| trace.name(a.name).cmp(trace.name(b.name))));
    rows
}

fn close(rows: &mut [HostRow], frame: Frame, parent: Option<&mut Frame>) {
    let mut own = frame.own_device;
    if let Some(parent) = parent {
        parent.children = parent.children.saturating_add(frame.length);
        parent.device = parent.device.saturating_add(frame.device);
        if frame.class == Class::Runtime {
            // A launch is the operator's; what the call itself did is host time.
            parent.own_device = parent.own_device.saturating_add(own);
            own = 0;
        }
    }
    let Some(row) = rows.get_mut(frame.row) else { return };
    row.calls += 1;
    row.self_ns = row.self_ns.saturating_add(frame.length.saturating_sub(frame.children));
    row.self_device_ns = row.self_device_ns.map(|sum| sum.saturating_add(own));
    if frame.outermost {
        row.inclusive_ns = row.inclusive_ns.saturating_add(frame.length);
        row.device_ns = row.device_ns.map(|sum| sum.saturating_add(frame.device));
    }
}
