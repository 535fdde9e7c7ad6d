//! What do the ranges, calls and stream records of one forward add up to?
//!
//! May use: the driver's records, the schema. Pure. Invariants: own times leave out what lies inside; inclusive times count a name
//! inside itself once; a record of a stream belongs to the range in which its call was made; without a capture there is no
//! device column.

use crate::driver::activity::{Activities, Activity, ActivityCall, ActivityKind, CHILD_RANGE};
use crate::limits::OPERATOR_ROWS;
use ddo_schemas::Seconds;
use ddo_schemas::sections::{OperatorRow, OperatorSample};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// What a range stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// The sampled module itself.
    Module,
    /// A module called by it directly.
    Child,
    /// A module further inside.
    Descendant,
    /// An operator.
    Operator,
}

/// A range of the sample.
#[derive(Clone, Debug)]
pub(super) struct SampledRange {
    pub(super) name: String,
    pub(super) owner: Owner,
    /// Place of the range around it.
    pub(super) around: Option<usize>,
    pub(super) start: u64,
    /// Absent while it is open.
    pub(super) end: Option<u64>,
}

impl SampledRange {
    pub(super) fn length(&self) -> u64 {
        self.end.map_or(0, |end| end.saturating_sub(self.start))
    }
}

/// Something that a stream ran, under the name that tables and trace give it.
#[derive(Debug)]
pub(super) struct Work<'a> {
    pub(super) name: String,
    pub(super) record: &'a Activity,
    /// Its time without the stretches inside.
    own_ns: u64,
}

/// Everything about one forward, ready for tables and trace.
#[derive(Debug)]
pub(super) struct Sampled<'a> {
    pub(super) ranges: &'a [SampledRange],
    pub(super) calls: Vec<&'a ActivityCall>,
    pub(super) works: Vec<Work<'a>>,
    /// False where no capture was made.
    pub(super) with_device: bool,
}

fn length(record: &Activity) -> u64 {
    record.end_ns.saturating_sub(record.start_ns)
}

impl<'a> Sampled<'a> {
    /// Puts records in order and names work of the host driver after the operator that launched it.
    pub(super) fn new(ranges: &'a [SampledRange], found: Option<&'a Activities>, name_by_range: bool) -> Sampled<'a> {
        let mut calls: Vec<&ActivityCall> = found.iter().flat_map(|found| &found.calls).collect();
        calls.sort_by_key(|call| (call.start_ns, call.correlation));
        let range_of: BTreeMap<u64, u64> = calls.iter().map(|call| (call.correlation, call.range)).collect();
        let name = |record: &Activity| {
            let range = range_of.get(&record.correlation).and_then(|number| ranges.get((*number as usize).checked_sub(1)?));
            match (record.kind, range) {
                (ActivityKind::Work, Some(range)) if name_by_range => format!("work of {}", range.name),
                (ActivityKind::Work, None) if name_by_range => format!("work of {}", record.name),
                _ => record.name.clone(),
            }
        };
        let mut records: Vec<&Activity> = found.iter().flat_map(|found| &found.works).collect();
        // What lies around comes before what lies inside.
        let inside = |record: &Activity| record.kind == ActivityKind::Inside;
        records.sort_by_key(|r| (r.start_ns, Reverse(r.end_ns), inside(r), r.stream, r.correlation));
        let mut works: Vec<Work<'_>> = Vec::new();
        // Work is done in order on a stream, so what is still open there lies around.
        let mut open: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for record in records {
            let around = open.entry(record.stream).or_default();
            let holds = |at: &usize| {
                let outer = works.get(*at).map(|work| work.record);
                inside(record) && outer.is_some_and(|o| o.correlation == record.correlation && o.end_ns >= record.end_ns)
            };
            while around.last().is_some_and(|at| !holds(at)) {
                around.pop();
            }
            if let Some(work) = around.last().and_then(|at| works.get_mut(*at)) {
                work.own_ns = work.own_ns.saturating_sub(length(record));
            }
            around.push(works.len());
            works.push(Work { name: name(record), record, own_ns: length(record) });
        }
        Sampled { ranges, calls, works, with_device: found.is_some() }
    }

    /// Device nanoseconds by the number of the call that queued them.
    fn launched(&self) -> BTreeMap<u64, u64> {
        let mut launched = BTreeMap::new();
        for work in self.works.iter().filter(|work| work.record.kind != ActivityKind::Inside) {
            *launched.entry(work.record.correlation).or_default() += length(work.record);
        }
        launched
    }
}

/// Sums of one name, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    calls: u64,
    own_host: u64,
    host: u64,
    own_device: u64,
    device: u64,
}

type Table<'a> = BTreeMap<&'a str, Sums>;

/// Sums of ranges and calls, by name; direct children once more on their own.
fn host_rows<'a>(sampled: &'a Sampled<'_>) -> (Table<'a>, Table<'a>) {
    let ranges = sampled.ranges;
    let launched = sampled.launched();
    let device_of = |call: &ActivityCall| launched.get(&call.correlation).copied().unwrap_or_default();
    let mut inside = vec![0u64; ranges.len()];
    let mut own_device = vec![0u64; ranges.len()];
    let mut rows: Table<'_> = BTreeMap::new();
    for call in &sampled.calls {
        let (host, device) = (call.end_ns.saturating_sub(call.start_ns), device_of(call));
        let row = rows.entry(call.name.as_str()).or_default();
        let Sums { calls, own_host, host: all, own_device: own, device: all_device } = row;
        *calls += 1;
        [own_host, all].into_iter().for_each(|sum| *sum += host);
        [own, all_device].into_iter().for_each(|sum| *sum += device);
        if let Some(at) = (call.range as usize).checked_sub(1) {
            inside.iter_mut().skip(at).take(1).for_each(|sum| *sum += host);
            own_device.iter_mut().skip(at).take(1).for_each(|sum| *sum += device);
        }
    }
    let mut device = own_device.clone();
    // Inner ranges have later places than those around them.
    for (at, range) in ranges.iter().enumerate().rev() {
        let Some(around) = range.around else { continue };
        let below = device.get(at).copied().unwrap_or_default();
        device.iter_mut().skip(around).take(1).for_each(|sum| *sum += below);
        inside.iter_mut().skip(around).take(1).for_each(|sum| *sum += range.length());
    }
    let mut children: Table<'_> = BTreeMap::new();
    for (at, range) in ranges.iter().enumerate() {
        let of = |list: &[u64]| list.get(at).copied().unwrap_or_default();
        let outermost = !outer(ranges, range).any(|outer| outer.name == range.name);
        let add = |row: &mut Sums| {
            row.calls += 1;
            row.own_host += range.length().saturating_sub(of(&inside));
            row.own_device += of(&own_device);
            if outermost {
                row.host += range.length();
                row.device += of(&device);
            }
        };
        add(rows.entry(range.name.as_str()).or_default());
        if range.owner == Owner::Child {
            add(children.entry(range.name.as_str()).or_default());
        }
    }
    (rows, children)
}

/// The ranges around a range, from the inside out.
fn outer<'a>(ranges: &'a [SampledRange], range: &SampledRange) -> impl Iterator<Item = &'a SampledRange> {
    let at = |place: usize| ranges.get(place);
    std::iter::successors(range.around.and_then(at), move |outer| outer.around.and_then(at))
}

/// Sums of what streams ran, by name.
fn device_rows<'a>(sampled: &'a Sampled<'_>) -> Table<'a> {
    let mut rows: Table<'_> = BTreeMap::new();
    for work in &sampled.works {
        let row = rows.entry(work.name.as_str()).or_default();
        row.calls += 1;
        row.own_device += work.own_ns;
        row.device += length(work.record);
    }
    rows
}

fn seconds(ns: u64) -> Option<Seconds> {
    Some(Seconds(ns as f64 / 1e9))
}

/// Rows of a table, the largest first.
fn listed(table: Table<'_>, by: impl Fn(&Sums) -> u64, most: usize, with_device: bool) -> Vec<OperatorRow> {
    let mut list: Vec<_> = table.into_iter().collect();
    list.sort_by_key(|(name, sums)| (Reverse(by(sums)), *name));
    let row = |(name, sums): (&str, Sums)| OperatorRow {
        name: Some(name.into()),
        calls: Some(sums.calls),
        self_host_seconds: seconds(sums.own_host),
        host_seconds: seconds(sums.host),
        self_device_seconds: seconds(sums.own_device).filter(|_| with_device),
        device_seconds: seconds(sums.device).filter(|_| with_device),
    };
    list.into_iter().take(most).map(row).collect()
}

/// The report of one forward.
pub(super) fn sample(sampled: &Sampled<'_>, invocation: u64, stop_ns: u64, path: &Path) -> OperatorSample {
    let (host, mut children) = host_rows(sampled);
    let device = device_rows(sampled);
    // Work that announces the children itself has no range of theirs on the host.
    for (name, sums) in device.iter().filter(|(name, _)| name.starts_with(CHILD_RANGE)) {
        children.entry(*name).or_insert(*sums);
    }
    let names: BTreeSet<&str> = host.keys().chain(device.keys()).copied().collect();
    let count = |kept: &dyn Fn(&Work<'_>) -> bool| sampled.works.iter().filter(|work| kept(work)).count() as u64;
    let events = count(&|work| work.record.kind != ActivityKind::Inside);
    OperatorSample {
        invocation_index: Some(invocation),
        host_forward_seconds: seconds(sampled.ranges.first().map_or(0, SampledRange::length)),
        profiler_stop_seconds: seconds(stop_ns),
        device_activity_events: sampled.with_device.then_some(events),
        operator_count: Some(names.len() as u64),
        trace_path: Some(path.to_string_lossy().into_owned()),
        top_host: Some(listed(host, |sums| sums.own_host, OPERATOR_ROWS, sampled.with_device)),
        top_device: Some(listed(device, |sums| sums.own_device, OPERATOR_ROWS, sampled.with_device)),
        child_ranges: Some(listed(children, |sums| sums.host, usize::MAX, sampled.with_device)),
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing)]
mod tests {
    use super::*;

    fn range(name: &str, owner: Owner, around: Option<usize>, start: u64, end: u64) -> SampledRange {
        SampledRange { name: name.into(), owner, around, start, end: Some(end) }
    }

    fn work(kind: ActivityKind, name: &str, start_ns: u64, end_ns: u64, correlation: u64) -> Activity {
        Activity { kind, name: name.into(), stream: 1, start_ns, end_ns, bytes: None, correlation }
    }

    fn call(start_ns: u64, end_ns: u64, correlation: u64, range: u64) -> ActivityCall {
        ActivityCall { name: "launch".into(), start_ns, end_ns, correlation, range }
    }

    fn of<'a>(rows: &'a Option<Vec<OperatorRow>>, name: &str) -> &'a OperatorRow {
        let found = rows.iter().flatten().find(|row| row.name.as_deref() == Some(name));
        found.unwrap_or_else(|| panic!("no {name} in {rows:#?}"))
    }

    fn numbers(row: &OperatorRow) -> [u64; 4] {
        let ns = |seconds: Option<Seconds>| (seconds.map_or(f64::NAN, |seconds| seconds.0) * 1e9).round() as u64;
        [row.self_host_seconds, row.host_seconds, row.self_device_seconds, row.device_seconds].map(ns)
    }

    #[test]
    fn own_times_leave_out_what_lies_inside_and_a_name_inside_itself_counts_once() {
        let ranges = [
            range("block", Owner::Module, None, 0, 1000),
            range("ddo.forward.attn", Owner::Child, Some(0), 100, 600),
            range("linear", Owner::Operator, Some(1), 200, 500),
            range("linear", Owner::Operator, Some(2), 300, 400),
            range("ddo.forward.ff", Owner::Child, Some(0), 700, 900),
        ];
        let found = Activities {
            calls: vec![call(210, 230, 1, 3), call(310, 320, 2, 4), call(720, 730, 3, 5), call(950, 960, 4, 1)],
            works: vec![
                work(ActivityKind::Work, "k", 1000, 1500, 1),
                work(ActivityKind::Inside, "softmax", 1100, 1300, 1),
                work(ActivityKind::Inside, "exp", 1150, 1200, 1),
                work(ActivityKind::Work, "k", 1500, 1600, 2),
                work(ActivityKind::Copy, "copy", 1600, 1601, 3),
            ],
            ..Activities::default()
        };
        let sampled = Sampled::new(&ranges, Some(&found), false);
        let sample = sample(&sampled, 3, 7, Path::new("x.json"));
        assert_eq!(numbers(of(&sample.top_host, "linear")), [270, 300, 600, 600]);
        assert_eq!(of(&sample.top_host, "linear").calls, Some(2));
        assert_eq!(numbers(of(&sample.top_host, "ddo.forward.attn")), [200, 500, 0, 600]);
        assert_eq!(numbers(of(&sample.top_host, "block")), [290, 1000, 0, 601]);
        assert_eq!(numbers(of(&sample.top_host, "launch")), [50, 50, 601, 601]);
        assert_eq!(numbers(of(&sample.top_device, "k")), [0, 0, 400, 600]);
        assert_eq!(numbers(of(&sample.top_device, "softmax")), [0, 0, 150, 200]);
        let own: u64 = sample.top_host.iter().flatten().map(|row| numbers(row)[0]).sum();
        assert_eq!(own, 1000, "own times of all host rows make up the forward");
        let own: u64 = sample.top_device.iter().flatten().map(|row| numbers(row)[2]).sum();
        assert_eq!(own, 601, "own times of all device rows make up the device's time");
        assert_eq!((sample.device_activity_events, sample.operator_count), (Some(3), Some(9)));
        let children: Vec<_> = sample.child_ranges.iter().flatten().filter_map(|row| row.name.clone()).collect();
        assert_eq!(children, ["ddo.forward.attn", "ddo.forward.ff"]);
        assert_eq!(sample.host_forward_seconds, Some(Seconds(1e-6)));
    }

    #[test]
    fn a_list_has_forty_rows_and_no_capture_no_device_column() {
        let names: Vec<SampledRange> = (0..100).map(|at| range(&format!("op{at}"), Owner::Operator, None, at, at + 1)).collect();
        let sampled = Sampled::new(&names, None, true);
        let sample = sample(&sampled, 0, 0, Path::new("x.json"));
        assert_eq!(sample.top_host.as_ref().map(Vec::len), Some(OPERATOR_ROWS));
        assert_eq!((sample.operator_count, sample.device_activity_events), (Some(100), None));
        assert!(sample.top_host.iter().flatten().all(|row| row.device_seconds.is_none() && row.self_device_seconds.is_none()));
    }
}
