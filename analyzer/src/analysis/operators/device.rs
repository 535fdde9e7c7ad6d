//! Device time: "What did the device do, as opposed to what is drawn on its row?"
//!
//! Uses `run` and `limits`. Invariants: only kernels, copies and fills are work; without any the device is unavailable,
//! never idle; a row whose time cannot be is counted, adds no time and leads no list; a kernel that starts before
//! its launch is counted and left where it is.

use crate::limits::{IMPOSSIBLE_FACTOR, IMPOSSIBLE_OVERSHOOT_NS};
use crate::run::operators::{Class, DeviceBusy, DeviceRow, OperatorSlice, OperatorSummary, OperatorTrace};
use std::collections::{BTreeMap, HashMap};

/// Device work by the number that it shares with its launch.
pub(super) struct Works {
    /// Number, start, time; sorted.
    list: Vec<(u64, i64, u64)>,
    /// True where there is any device work.
    pub(super) any: bool,
}

impl Works {
    fn of(&self, correlation: u64) -> &[(u64, i64, u64)] {
        let from = self.list.partition_point(|work| work.0 < correlation);
        let rest = self.list.get(from..).unwrap_or_default();
        let count = rest.iter().take_while(|work| work.0 == correlation).count();
        rest.get(..count).unwrap_or_default()
    }

    /// Time of the work that a call launched.
    pub(super) fn launched_by(&self, correlation: u64) -> u64 {
        self.of(correlation).iter().fold(0, |sum, work| u64::saturating_add(sum, work.2))
    }
}

/// Times of one process or of all.
#[derive(Default)]
struct Times {
    busy: DeviceBusy,
    intervals: Vec<(i64, i64)>,
}

impl Times {
    fn finish(mut self) -> DeviceBusy {
        self.intervals.sort_unstable();
        let mut reached = i64::MIN;
        for (start, end) in self.intervals {
            self.busy.union_ns = self.busy.union_ns.saturating_add(end.abs_diff(start.max(reached).min(end)));
            reached = reached.max(end);
        }
        self.busy
    }
}

/// Fills in what concerns devices; returns the work by launch.
pub(super) fn summarise(trace: &OperatorTrace, summary: &mut OperatorSummary) -> Works {
    let mut list = Vec::new();
    let mut rows: Vec<DeviceRow> = Vec::new();
    let mut places: HashMap<(u32, u16), usize> = HashMap::new();
    let mut times: BTreeMap<u32, Times> = BTreeMap::new();
    for track in &trace.tracks {
        let mut work: Vec<&OperatorSlice> = Vec::new();
        for slice in &track.slices {
            match trace.class(slice.category) {
                Class::DeviceWork => work.push(slice),
                Class::DeviceMark => {
                    summary.marks.0 += 1;
                    summary.marks.1 = summary.marks.1.saturating_add(slice.end.abs_diff(slice.start));
                }
                _ => {}
            }
        }
        if work.is_empty() {
            continue;
        }
        let times = times.entry(track.process).or_default();
        for (at, slice) in work.iter().enumerate() {
            let next = work.get(at + 1).map(|next| next.start);
            let impossible = next.is_some_and(|next| is_impossible(slice, next));
            let place = *places.entry((slice.name, slice.category)).or_insert_with(|| {
                let (name, category) = (slice.name, slice.category);
                rows.push(DeviceRow { name, category, calls: 0, total_ns: 0, longest_ns: 0, bytes: None, impossible: 0 });
                rows.len() - 1
            });
            let link = trace.link(slice);
            let length = slice.end.abs_diff(slice.start);
            let counted = if impossible { 0 } else { length };
            list.extend(link.correlation.map(|correlation| (correlation, slice.start, counted)));
            times.busy.events += 1;
            let Some(row) = rows.get_mut(place) else { continue };
            if let Some(bytes) = link.bytes {
                row.bytes = Some(row.bytes.map_or(bytes, |sum| sum.saturating_add(bytes)));
            }
            if impossible {
                row.impossible += 1;
                times.busy.impossible += 1;
                times.busy.impossible_ns = times.busy.impossible_ns.saturating_add(length);
                continue;
            }
            row.calls += 1;
            row.total_ns = row.total_ns.saturating_add(length);
            row.longest_ns = row.longest_ns.max(length);
            times.busy.sum_ns = times.busy.sum_ns.saturating_add(length);
            times.intervals.push((slice.start, slice.end));
        }
    }
    rows.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| trace.name(a.name).cmp(trace.name(b.name))));
    summary.device = rows;
    busy(times, summary);
    list.sort_unstable();
    let works = Works { any: summary.busy.is_some(), list };
    launches(trace, &works, summary);
    works
}

fn busy(times: BTreeMap<u32, Times>, summary: &mut OperatorSummary) {
    let mut all = Times::default();
    for times in times.values() {
        all.intervals.extend(&times.intervals);
        all.busy.events += times.busy.events;
        all.busy.impossible += times.busy.impossible;
        all.busy.sum_ns = all.busy.sum_ns.saturating_add(times.busy.sum_ns);
        all.busy.impossible_ns = all.busy.impossible_ns.saturating_add(times.busy.impossible_ns);
    }
    if all.busy.events > 0 {
        summary.busy = Some(all.finish());
    }
    summary.busy_by_process = times.into_iter().map(|(process, times)| (process, times.finish())).collect();
}

/// On one stream work follows work, so a row cannot last many times beyond the next start.
fn is_impossible(slice: &OperatorSlice, next: i64) -> bool {
    let apart = next.saturating_sub(slice.start).max(1_000);
    let length = slice.end.saturating_sub(slice.start);
    slice.end.saturating_sub(next) > IMPOSSIBLE_OVERSHOOT_NS && length / apart >= IMPOSSIBLE_FACTOR
}

/// Compares launches with the work that they started.
fn launches(trace: &OperatorTrace, works: &Works, summary: &mut OperatorSummary) {
    let is_launch = |name: &str| {
        let name = name.to_ascii_lowercase();
        name.contains("launch") && !name.contains("hostfunc")
    };
    let launch_names: Vec<bool> = trace.names.iter().map(|name| is_launch(name)).collect();
    let mut calls: Vec<u64> = Vec::new();
    for slice in trace.tracks.iter().flat_map(|track| &track.slices) {
        let class = trace.class(slice.category);
        let Some(correlation) = trace.link(slice).correlation.filter(|_| class.is_host()) else { continue };
        calls.push(correlation);
        let started = works.of(correlation);
        if started.is_empty() && works.any && launch_names.get(slice.name as usize).copied().unwrap_or(false) {
            summary.launches_without_work += 1;
        }
        for (_, start, _) in started.iter().filter(|(_, start, _)| *start < slice.start) {
            summary.before_launch.0 += 1;
            summary.before_launch.1 = summary.before_launch.1.max(slice.start.abs_diff(*start));
        }
    }
    if calls.is_empty() {
        return;
    }
    calls.sort_unstable();
    summary.work_without_launch =
        works.list.iter().filter(|(correlation, ..)| calls.binary_search(correlation).is_err()).count() as u64;
}
