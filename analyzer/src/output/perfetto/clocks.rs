//! Clocks: "Where does each group of times lie on the trace's axis?"
//!
//! Uses the analysis of alignment. Groups that are related to host monotonic time share one shift; each other group
//! is moved to the same origin on its own and is labelled unaligned. Invariants: every time on the axis is at least
//! 1; two clocks are never merged without a recorded correlation; shifts and uncertainties are written into the trace.

use crate::analysis::alignment::{self, Group, Key};
use crate::run::Run;

/// The first moment of the axis, where things stand whose time is not known.
pub(super) const ORIGIN: u64 = 1;

/// A shift from a group's own clock to the trace's axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shift {
    /// Added to the group's nanoseconds.
    pub(super) offset_ns: i64,
    /// Length of the host interval in which the correlation was taken; `None` without a recorded correlation.
    pub(super) interval_ns: Option<i64>,
}

impl Shift {
    /// A time of the group on the trace's axis.
    pub(super) fn at(&self, ns: i64) -> u64 {
        u64::try_from(ns.saturating_add(self.offset_ns)).map_or(ORIGIN, |at| at.max(ORIGIN))
    }
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
        let groups = alignment::groups(run);
        let first = groups.iter().filter_map(|group| Some(group.correlation?.zero_ns.saturating_add(group.first_ns?))).min();
        let monotonic_shift_ns = first.map(|first| 1_i64.saturating_sub(first));
        let placed = groups.iter().map(|group| (group.key, place(group, monotonic_shift_ns))).collect();
        Clocks { placed, monotonic_shift_ns }
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
        let aligned = self.shift(key).is_some_and(|shift| shift.interval_ns.is_some());
        if aligned || self.placed.len() < 2 { "" } else { "unaligned" }
    }
}

fn place(group: &Group, monotonic_shift_ns: Option<i64>) -> Shift {
    match (group.correlation, monotonic_shift_ns, group.first_ns) {
        (Some(correlation), Some(shift), _) => {
            Shift { offset_ns: correlation.zero_ns.saturating_add(shift), interval_ns: Some(correlation.interval_ns) }
        }
        (_, _, Some(first)) => Shift { offset_ns: 1_i64.saturating_sub(first), interval_ns: None },
        // Nothing of the group has a time; the shift is never used for one.
        (_, _, None) => Shift { offset_ns: 1, interval_ns: None },
    }
}
