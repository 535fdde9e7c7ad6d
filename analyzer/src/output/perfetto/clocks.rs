//! Clocks: "Where does each group of times lie on the trace's axis?"
//!
//! Uses the analysis of alignment. Groups that are related to host monotonic time share one shift; each other group
//! is moved to the same origin on its own and is labelled unaligned. Several runs share the axis where every manifest
//! gives the wall clock beside the monotonic one. Invariants: every time on the axis is at least 1; two clocks are
//! never merged without a recorded correlation, except on demand by step markers, which is labelled an estimate;
//! shifts and uncertainties are written into the trace.

use super::Align;
use crate::analysis::alignment::{self, Group, Key};
use crate::analysis::estimate::{self, Estimate};
use crate::run::{Run, nanoseconds};

/// The first moment of the axis, where things stand whose time is not known.
pub(super) const ORIGIN: u64 = 1;

/// How a group came to its place on the axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// On its own: its first time is at the origin.
    Alone,
    /// By host monotonic time; the length of the host interval in which the correlation was taken.
    Recorded(i64),
    /// By step markers, to the journal of its component.
    Estimated(Estimate),
}

/// A shift from a group's own clock to the trace's axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shift {
    /// Added to the group's nanoseconds.
    pub(super) offset_ns: i64,
    /// How it was found.
    pub(super) how: How,
}

impl Shift {
    /// A time of the group on the trace's axis.
    pub(super) fn at(&self, ns: i64) -> u64 {
        u64::try_from(ns.saturating_add(self.offset_ns)).map_or(ORIGIN, |at| at.max(ORIGIN))
    }
}

/// The placed groups of one run.
#[derive(Debug, Default)]
pub(super) struct Clocks {
    placed: Vec<(Key, Shift)>,
    /// Groups that others were aligned to by step markers.
    anchors: Vec<Key>,
    /// The constant that monotonic time was shifted by, where any group is aligned.
    pub(super) monotonic_shift_ns: Option<i64>,
    /// The run stands where its wall clock puts it among the other runs.
    pub(super) by_wall_clock: bool,
}

impl Clocks {
    /// Places every group of a run and of the others of its input.
    pub(super) fn of_all(run: &Run, align: Align) -> Vec<Clocks> {
        let mut all: Vec<Clocks> = run.all().map(|run| Clocks::of(run, align)).collect();
        if all.len() > 1 {
            share_axis(run, &mut all);
        }
        all
    }

    fn of(run: &Run, align: Align) -> Clocks {
        let groups = alignment::groups(run);
        let estimates: Vec<Estimate> = match align {
            Align::Recorded => Vec::new(),
            Align::Steps => run.components.iter().enumerate().filter_map(|(at, component)| estimate::of(component, at)).collect(),
        };
        let recorded = groups.iter().filter_map(|group| Some(group.correlation?.zero_ns.saturating_add(group.first_ns?)));
        // What is estimated on a journal's clock must not begin before the axis either.
        let fitted = groups.iter().filter(|group| group.correlation.is_none()).filter_map(|group| {
            let (estimate, journal) = estimated(group, &estimates, &groups)?;
            Some(journal.correlation?.zero_ns.saturating_add(estimate.zero_ns).saturating_add(group.first_ns?))
        });
        let monotonic_shift_ns = recorded.chain(fitted).min().map(|first| 1_i64.saturating_sub(first));
        let mut clocks = Clocks { monotonic_shift_ns, ..Clocks::default() };
        for group in &groups {
            let shift = match estimated(group, &estimates, &groups) {
                Some((estimate, journal)) => {
                    clocks.anchors.push(journal.key);
                    let offset = journal_offset(journal, Some(group), estimate.zero_ns, monotonic_shift_ns);
                    Shift { offset_ns: estimate.zero_ns.saturating_add(offset), how: How::Estimated(*estimate) }
                }
                None => {
                    let follower = groups.iter().find_map(|other| {
                        let (estimate, journal) = estimated(other, &estimates, &groups)?;
                        (journal.key == group.key).then_some((other, estimate.zero_ns))
                    });
                    place(group, follower, monotonic_shift_ns)
                }
            };
            clocks.placed.push((group.key, shift));
        }
        clocks
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
        match self.shift(key).map(|shift| shift.how) {
            Some(How::Recorded(_)) => "",
            Some(How::Estimated(_)) => "aligned by step markers, an estimate",
            _ if self.placed.len() < 2 || self.anchors.contains(&key) => "",
            _ => "unaligned",
        }
    }

    /// True for a group that lies by host monotonic time, recorded or estimated.
    fn is_monotonic(&self, key: Key, how: How) -> bool {
        match (how, key) {
            (How::Recorded(_), _) => true,
            (How::Estimated(_), Key::Timeline(at, _)) => {
                self.shift(Key::Journal(at)).is_some_and(|journal| matches!(journal.how, How::Recorded(_)))
            }
            _ => false,
        }
    }
}

/// The estimate of a group with the journal that it refers to.
fn estimated<'a>(group: &Group, estimates: &'a [Estimate], groups: &'a [Group]) -> Option<(&'a Estimate, &'a Group)> {
    let Key::Timeline(at, _) = group.key else { return None };
    let estimate = estimates.iter().find(|estimate| estimate.key == group.key)?;
    Some((estimate, groups.iter().find(|other| other.key == Key::Journal(at))?))
}

/// From the journal's clock to the axis; a timeline that begins before the journal moves both.
fn journal_offset(journal: &Group, follower: Option<&Group>, zero_ns: i64, monotonic_shift_ns: Option<i64>) -> i64 {
    if let (Some(correlation), Some(shift)) = (journal.correlation, monotonic_shift_ns) {
        return correlation.zero_ns.saturating_add(shift);
    }
    let following = follower.and_then(|group| group.first_ns).map(|first| first.saturating_add(zero_ns));
    let first = journal.first_ns.into_iter().chain(following).min();
    // Nothing of the group has a time; the shift is never used for one.
    first.map_or(1, |first| 1_i64.saturating_sub(first))
}

fn place(group: &Group, follower: Option<(&Group, i64)>, monotonic_shift_ns: Option<i64>) -> Shift {
    let how = group.correlation.map_or(How::Alone, |correlation| How::Recorded(correlation.interval_ns));
    let (follower, zero_ns) = follower.map_or((None, 0), |(group, zero_ns)| (Some(group), zero_ns));
    Shift { offset_ns: journal_offset(group, follower, zero_ns, monotonic_shift_ns), how }
}

/// Moves runs to one axis by the wall clocks of their manifests, where each has one.
fn share_axis(run: &Run, all: &mut [Clocks]) {
    let walls: Option<Vec<i64>> = run.all().map(wall_zero).collect();
    let Some(walls) = walls else { return };
    let begin = |(clocks, wall): (&Clocks, &i64)| Some(wall.saturating_add(1_i64.saturating_sub(clocks.monotonic_shift_ns?)));
    let Some(first) = all.iter().zip(&walls).filter_map(begin).min() else { return };
    for (clocks, wall) in all.iter_mut().zip(&walls) {
        let Some(old) = clocks.monotonic_shift_ns else { continue };
        let new = 1_i64.saturating_sub(first).saturating_add(*wall);
        let moved = new.saturating_sub(old);
        let monotonic: Vec<bool> = clocks.placed.iter().map(|(key, shift)| clocks.is_monotonic(*key, shift.how)).collect();
        for ((_, shift), _) in clocks.placed.iter_mut().zip(monotonic).filter(|(_, monotonic)| *monotonic) {
            shift.offset_ns = shift.offset_ns.saturating_add(moved);
        }
        clocks.monotonic_shift_ns = Some(new);
        clocks.by_wall_clock = true;
    }
}

/// Wall-clock time of monotonic zero, in nanoseconds since 1970.
fn wall_zero(run: &Run) -> Option<i64> {
    let clocks = &run.manifest.as_ref()?.clocks;
    let wall: jiff::Timestamp = clocks.wall_utc.parse().ok()?;
    i64::try_from(wall.as_nanosecond()).ok()?.checked_sub(nanoseconds(clocks.monotonic_seconds.0)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Component, LoadedReport, Record, Timeline};
    use serde_json::json;

    /// Two steps on a journal's clock that begins at `zero`, and a timeline without a recorded correlation.
    fn run(zero: Option<i64>) -> Run {
        let record = |step: u64| Record {
            step: Some(step),
            host_elapsed_ns: Some(1_000 * (step as i64 + 1)),
            observed_ns: zero.map(|zero| zero + 1_000 * (step as i64 + 1)),
            ..Record::default()
        };
        let sample = |unit: u64, at: f64| {
            json!({"sequence": unit + 1, "unit": unit, "stream": 0, "bytes": null, "kind": "step_marker",
                "status": "complete", "start_seconds": at, "end_seconds": at})
        };
        let recorded = json!({"schema_version": 1, "clock": "cuda_event", "unit": "seconds", "scope": "s", "status": "complete",
            "capacity": 64, "dropped": 0, "failures": 0, "pending": 0, "execution_units": {},
            "samples": [sample(0, -5e-7), sample(1, 1e-6), sample(2, 3e-6)]});
        let timeline = Timeline::new(serde_json::from_value(recorded).expect("a timeline"));
        let report = LoadedReport { timeline: Some(timeline), ..LoadedReport::default() };
        let component = Component { records: vec![record(0), record(1)], reports: vec![report], ..Component::default() };
        Run { components: vec![component], ..Run::default() }
    }

    #[test]
    fn an_estimate_joins_the_journal_on_either_clock() {
        for zero in [None, Some(5_000_000_000)] {
            let run = run(zero);
            let clocks = Clocks::of(&run, Align::Steps);
            let journal = clocks.shift(Key::Journal(0)).expect("placed");
            let timeline = clocks.shift(Key::Timeline(0, 0)).expect("placed");
            let record = zero.map_or(1_000, |zero| zero + 1_000);
            assert_eq!((timeline.at(-500), timeline.at(1_000), journal.at(record)), (1, 1_501, 1_501), "{zero:?}");
            assert_eq!(clocks.label(Key::Journal(0)), "");
            let alone = Clocks::of(&run, Align::Recorded);
            assert_eq!(alone.label(Key::Timeline(0, 0)), "unaligned");
            assert_eq!(alone.shift(Key::Timeline(0, 0)).map(|shift| shift.at(-500)), Some(1));
        }
    }
}
