//! Clocks: "Where does each group of times lie on the trace's axis?"
//!
//! Uses `run`. Groups whose absolute monotonic time was recorded share one shift; each other group is moved to the
//! same origin on its own and is labelled unaligned. Invariants: every time on the axis is at least 1; two clocks
//! are never merged without a recorded correlation; shifts and uncertainties are written into the trace.

use crate::run::{Component, Run, Timeline, nanoseconds};

/// A shift from a group's own clock to the trace's axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shift {
    /// Added to the group's nanoseconds.
    pub(super) offset_ns: i64,
    /// Half the interval in which the correlation was taken; `None` without a recorded correlation.
    pub(super) uncertainty_ns: Option<i64>,
}

impl Shift {
    /// A time of the group on the trace's axis.
    pub(super) fn at(&self, ns: i64) -> u64 {
        u64::try_from(ns.saturating_add(self.offset_ns)).map_or(1, |at| at.max(1))
    }

    /// The group's first moment.
    pub(super) fn aligned(&self) -> bool {
        self.uncertainty_ns.is_some()
    }
}

/// A group before it is placed: its correlation to monotonic time, and its first time.
struct Group {
    key: Key,
    monotonic: Option<(i64, i64)>,
    first_ns: i64,
}

/// Which group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// The journal of a component.
    Journal(usize),
    /// The timeline of a report of a component.
    Timeline(usize, usize),
    /// The memory monitor.
    Memory,
}

/// The placed groups.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    placed: Vec<(Key, Shift)>,
    /// The constant that monotonic time was shifted by, where any group is aligned.
    pub(super) monotonic_shift_ns: Option<i64>,
}

impl Clocks {
    /// Places every group of a run.
    pub(super) fn of(run: &Run) -> Clocks {
        let mut groups = Vec::new();
        let clock = run.manifest.as_ref().and_then(|manifest| nanoseconds(manifest.clocks.monotonic_seconds.0));
        let first = run.memory.iter().filter_map(|sample| nanoseconds(sample.elapsed_seconds.0)).min();
        if let Some(first_ns) = first {
            groups.push(Group { key: Key::Memory, monotonic: clock.map(|clock| (clock, 0)), first_ns });
        }
        for (at, component) in run.components.iter().enumerate() {
            groups.extend(journal(component).map(|first_ns| Group { key: Key::Journal(at), monotonic: None, first_ns }));
            for (report, timeline) in timelines(component) {
                if let Some(first_ns) = timeline.windows.iter().filter_map(|window| window.times()).map(|(start, _)| start).min()
                {
                    groups.push(Group { key: Key::Timeline(at, report), monotonic: epoch(timeline), first_ns });
                } else {
                    groups.push(Group { key: Key::Timeline(at, report), monotonic: None, first_ns: 0 });
                }
            }
        }
        place(&groups)
    }

    /// The shift of a group.
    pub(super) fn shift(&self, key: Key) -> Option<Shift> {
        self.placed.iter().find(|(placed, _)| *placed == key).map(|(_, shift)| *shift)
    }

    /// All groups.
    pub(super) fn all(&self) -> &[(Key, Shift)] {
        &self.placed
    }

    /// What a group's label must say: with one group there is nothing to be aligned with.
    pub(super) fn label(&self, key: Key) -> &'static str {
        let aligned = self.shift(key).is_some_and(|shift| shift.aligned());
        if aligned || self.placed.len() < 2 { "" } else { "unaligned" }
    }
}

fn place(groups: &[Group]) -> Clocks {
    let absolute = |group: &Group| group.monotonic.map(|(at, _)| at.saturating_add(group.first_ns));
    let shift = groups.iter().filter_map(absolute).min().map(|first| 1_i64.saturating_sub(first));
    let placed = groups
        .iter()
        .map(|group| {
            let placed = match (group.monotonic, shift) {
                (Some((at, uncertainty)), Some(shift)) => {
                    Shift { offset_ns: at.saturating_add(shift), uncertainty_ns: Some(uncertainty) }
                }
                _ => Shift { offset_ns: 1_i64.saturating_sub(group.first_ns), uncertainty_ns: None },
            };
            (group.key, placed)
        })
        .collect();
    Clocks { placed, monotonic_shift_ns: shift }
}

fn journal(component: &Component) -> Option<i64> {
    component.records.iter().filter_map(|record| record.host_elapsed_ns).min()
}

/// Host monotonic nanoseconds of the epoch, and half the interval in which it was taken.
fn epoch(timeline: &Timeline) -> Option<(i64, i64)> {
    let before = nanoseconds(timeline.recorded.epoch_host_before_seconds?.0)?;
    let after = nanoseconds(timeline.recorded.epoch_host_after_seconds?.0)?;
    let width = after.checked_sub(before).filter(|width| *width >= 0)?;
    Some((before + width / 2, width - width / 2))
}

/// The timelines of a component with the position of their reports. Several reports may show one timeline at
/// different moments; the one with the most complete windows stands for them.
pub(super) fn timelines(component: &Component) -> Vec<(usize, &Timeline)> {
    let mut chosen: Vec<(usize, &Timeline)> = Vec::new();
    let complete = |timeline: &Timeline| timeline.windows.iter().filter(|window| window.times().is_some()).count();
    for (at, report) in component.reports.iter().enumerate() {
        let Some(timeline) = &report.timeline else { continue };
        match chosen.iter_mut().find(|(_, other)| same_phase(other, timeline)) {
            Some(other) if complete(timeline) >= complete(other.1) => *other = (at, timeline),
            Some(_) => {}
            None => chosen.push((at, timeline)),
        }
    }
    chosen
}

fn same_phase(a: &Timeline, b: &Timeline) -> bool {
    a.recorded.epoch_host_before_seconds.is_some()
        && a.recorded.epoch_host_before_seconds == b.recorded.epoch_host_before_seconds
        && a.recorded.epoch_host_after_seconds == b.recorded.epoch_host_after_seconds
}
