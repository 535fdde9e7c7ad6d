//! Clocks that a run relates to each other: "Which times may stand on one axis?"
//!
//! Uses `run`. The axis is host monotonic time, the clock of the manifest. Invariants: a group of times is related to
//! it only by a recorded correlation; a correlation that is not plausible is a finding and is not used; nothing is
//! aligned by resemblance.

use crate::limits::{MAX_CLOCK_LAG_NS, MAX_CLOCK_LEAD_NS};
use crate::run::{Component, RecordClock, Run, Timeline, nanoseconds};
use ddo_schemas::Finding;

/// Which times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Key {
    /// The journal of a component.
    Journal(usize),
    /// The timeline of a report of a component.
    Timeline(usize, usize),
    /// The memory monitor.
    Memory,
    /// The allocation scope of a report of a component.
    Allocation(usize, usize),
    /// The step times of a report of a component that has no timeline.
    Timing(usize, usize),
}

/// How the times of a group relate to host monotonic time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Correlation {
    /// Host monotonic time of the group's zero, in nanoseconds.
    pub zero_ns: i64,
    /// Length of the host interval in which that zero was taken; 0 where the host's own clock was read.
    pub interval_ns: i64,
}

impl Correlation {
    /// Host monotonic time itself.
    const SAME: Correlation = Correlation { zero_ns: 0, interval_ns: 0 };
}

/// Times on one clock.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Which.
    pub key: Key,
    /// The first of them, on their own clock; `None` where there is no time at all.
    pub first_ns: Option<i64>,
    /// How they relate to host monotonic time; `None` where that was not recorded or is not plausible.
    pub correlation: Option<Correlation>,
    /// By how much the first time misses the run, where the recorded correlation is not plausible.
    pub implausible_ns: Option<i64>,
}

/// All groups of a run.
pub fn groups(run: &Run) -> Vec<Group> {
    let mut groups = Vec::new();
    let clock = run.manifest.as_ref().and_then(|manifest| nanoseconds(manifest.clocks.monotonic_seconds.0));
    let add = |groups: &mut Vec<Group>, key, first_ns, correlation| {
        groups.push(Group { key, first_ns, correlation, implausible_ns: None });
    };
    for (at, component) in run.components.iter().enumerate() {
        let clock = component.record_clock();
        let first = component.records.iter().filter_map(|record| record.at(clock)).min();
        if first.is_some() {
            add(&mut groups, Key::Journal(at), first, (clock == RecordClock::Monotonic).then_some(Correlation::SAME));
        }
        for (report, timeline) in timelines(component) {
            let first = timeline.windows.iter().filter_map(|window| window.times()).map(|(start, _)| start).min();
            add(&mut groups, Key::Timeline(at, report), first, first.and_then(|_| epoch(timeline)));
        }
        for (report, loaded) in component.reports.iter().enumerate() {
            if loaded.timeline.is_none() && loaded.timing.as_ref().is_some_and(|timing| timing.step_seconds.is_some()) {
                add(&mut groups, Key::Timing(at, report), Some(0), None);
            }
            if loaded.allocation.as_ref().is_some_and(|scope| !scope.steps.is_empty()) {
                // Its only clock begins where the scope was entered.
                add(&mut groups, Key::Allocation(at, report), Some(0), None);
            }
        }
    }
    let first = run.memory.iter().filter_map(|sample| nanoseconds(sample.elapsed_seconds.0)).min();
    if first.is_some() {
        let correlation = clock.map(|clock| Correlation { zero_ns: clock, interval_ns: 0 });
        add(&mut groups, Key::Memory, first, correlation);
    }
    // Without a manifest the first group that is on the clock stands for the run.
    let reference = clock.or_else(|| groups.iter().find_map(absolute));
    for group in &mut groups {
        if let (Some(reference), Some(first)) = (reference, absolute(group)) {
            let lead = first.saturating_sub(reference);
            if !(-MAX_CLOCK_LAG_NS..=MAX_CLOCK_LEAD_NS).contains(&lead) {
                group.correlation = None;
                group.implausible_ns = Some(lead);
            }
        }
    }
    groups
}

fn absolute(group: &Group) -> Option<i64> {
    Some(group.correlation?.zero_ns.saturating_add(group.first_ns?))
}

/// A finding for every group whose correlation is not plausible.
pub fn implausible(run: &Run) -> Vec<Finding> {
    let warn = |group: Group| {
        let lead = group.implausible_ns?;
        let days = lead.unsigned_abs() as f64 / 86_400e9;
        let side = if lead > 0 { "after" } else { "before" };
        let place = match group.key {
            Key::Journal(at) => run.components.get(at)?.records.first()?.file.clone(),
            Key::Timeline(at, report) | Key::Allocation(at, report) | Key::Timing(at, report) => {
                run.components.get(at)?.reports.get(report)?.file.clone()
            }
            Key::Memory => "memory.ndjson".into(),
        };
        let text = format!("its clock puts it {days:.1} days {side} the start of the run; its times are shown unaligned");
        Some(Finding::warning("clock_implausible", place, text))
    };
    groups(run).into_iter().filter_map(warn).collect()
}

/// The host interval in which the epoch marker was recorded; its middle stands for the epoch.
pub(super) fn epoch(timeline: &Timeline) -> Option<Correlation> {
    let before = nanoseconds(timeline.recorded.epoch_host_before_seconds?.0)?;
    let after = nanoseconds(timeline.recorded.epoch_host_after_seconds?.0)?;
    let interval_ns = after.checked_sub(before).filter(|interval| *interval >= 0)?;
    Some(Correlation { zero_ns: before + interval_ns / 2, interval_ns })
}

/// The timelines of a component with the position of their reports. Several reports may show one timeline at
/// different moments; the one with the most complete windows stands for them.
pub fn timelines(component: &Component) -> Vec<(usize, &Timeline)> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Record;

    fn run(observed: &[Option<i64>]) -> Run {
        let record = |(at, observed_ns): (usize, &Option<i64>)| Record {
            file: format!("step_{at:04}.json"),
            step: Some(at as u64),
            host_elapsed_ns: Some(at as i64),
            observed_ns: *observed_ns,
            ..Record::default()
        };
        let records = observed.iter().enumerate().map(record).collect();
        Run { components: vec![Component { name: "c".into(), records, ..Component::default() }], ..Run::default() }
    }

    #[test]
    fn records_are_aligned_together_or_not_at_all() {
        let of = |run: &Run| groups(run).first().map(|group| (group.first_ns, group.correlation));
        assert_eq!(of(&run(&[Some(70), Some(90)])), Some((Some(70), Some(Correlation::SAME))));
        assert_eq!(of(&run(&[Some(70), None])), Some((Some(0), None)));
    }

    #[test]
    fn a_clock_of_another_year_is_a_finding_and_not_used() {
        let mut two = run(&[Some(5)]);
        two.components.extend(run(&[Some(400 * 86_400_000_000_000)]).components);
        let found = groups(&two);
        assert!(found[0].correlation.is_some() && found[1].correlation.is_none());
        let findings = implausible(&two);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].text.contains("400.0 days after"), "{}", findings[0].text);
    }
}
