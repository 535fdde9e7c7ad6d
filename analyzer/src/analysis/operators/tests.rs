//! Small traces with known values.

use super::*;
use crate::run::operators::{Category, FlowId, FlowPoint, FlowStep, Link, NO_LINK, OperatorSlice, Process, Track, TrackKind};

/// Category, name, track, start and end in microseconds, correlation.
type Row = (&'static str, &'static str, usize, i64, i64, Option<u64>);

fn trace(rows: &[Row]) -> OperatorTrace {
    let mut trace = OperatorTrace { file: "t.json".into(), complete: true, ..OperatorTrace::default() };
    trace.processes = vec![Process { id: "1".into(), ..Process::default() }];
    for (sequence, (category, name, track, start, end, correlation)) in rows.iter().enumerate() {
        let place = |list: Vec<&str>, wanted: &str| list.iter().position(|known| *known == wanted);
        let name_at = place(trace.names.iter().map(|name| &**name).collect(), name).unwrap_or_else(|| {
            trace.names.push((*name).into());
            trace.names.len() - 1
        });
        let category_at = place(trace.categories.iter().map(|known| &*known.name).collect(), category).unwrap_or_else(|| {
            trace.categories.push(Category { name: (*category).into(), class: Class::of(category) });
            trace.categories.len() - 1
        });
        let link = correlation.map_or(NO_LINK, |correlation| {
            trace.links.push(Link { correlation: Some(correlation), bytes: Some(10) });
            trace.links.len() as u32 - 1
        });
        while trace.tracks.len() <= *track {
            let id = trace.tracks.len().to_string();
            trace.tracks.push(Track { id, kind: TrackKind::Thread, ..Track::default() });
        }
        trace.tracks[*track].slices.push(OperatorSlice {
            start: start * 1_000,
            end: end * 1_000,
            name: name_at as u32,
            sequence: sequence as u32,
            link,
            category: category_at as u16,
        });
    }
    for track in &mut trace.tracks {
        track.slices.sort_by_key(OperatorSlice::order);
    }
    trace
}

fn host(trace: &OperatorTrace, name: &str) -> (u64, u64, u64, Option<u64>, Option<u64>) {
    let row = summary(trace).host.iter().find(|row| trace.name(row.name) == name).expect("a row");
    (row.calls, row.self_ns / 1_000, row.inclusive_ns / 1_000, row.self_device_ns, row.device_ns)
}

fn codes(trace: &OperatorTrace) -> Vec<String> {
    findings(trace).into_iter().map(|finding| finding.code).collect()
}

#[test]
fn self_time_leaves_out_what_is_nested_and_recursion_counts_once() {
    let trace = trace(&[
        ("cpu_op", "f", 0, 0, 100, None),
        ("cpu_op", "f", 0, 10, 60, None),
        ("cpu_op", "g", 0, 20, 30, None),
        ("cuda_runtime", "cudaLaunchKernel", 0, 22, 24, Some(1)),
        ("kernel", "k", 1, 25, 32, Some(1)),
        ("gpu_user_annotation", "step", 1, 0, 500, None),
    ]);
    assert_eq!(host(&trace, "f"), (2, 90, 100, Some(0), Some(7_000)));
    assert_eq!(host(&trace, "g"), (1, 8, 10, Some(7_000), Some(7_000)));
    assert_eq!(host(&trace, "cudaLaunchKernel"), (1, 2, 2, Some(0), Some(7_000)));
    let found = summary(&trace);
    assert_eq!(host_self_ns(found), Some(100_000));
    assert_eq!(found.busy.map(|busy| (busy.events, busy.sum_ns, busy.union_ns)), Some((1, 7_000, 7_000)));
    assert_eq!(found.marks, (1, 500_000));
    assert_eq!(found.device[0].bytes, Some(10));
    assert_eq!(codes(&trace), [""; 0]);
}

#[test]
fn without_device_activity_the_device_is_unavailable() {
    let mut trace = trace(&[("cpu_op", "f", 0, 0, 10, None), ("cuda_runtime", "cudaLaunchKernel", 0, 2, 4, Some(1))]);
    assert_eq!(host(&trace, "f"), (1, 8, 10, None, None));
    assert_eq!(summary(&trace).launches_without_work, 0, "nothing says that its work was to be seen");
    assert!(analysis_warning(&trace, "operator_no_device_activity"), "calls of the runtime: a device was used");
    trace = self::trace(&[("cpu_op", "f", 0, 0, 10, None)]);
    assert!(!analysis_warning(&trace, "operator_no_device_activity"));
    trace.names_devices = true;
    assert!(analysis_warning(&trace, "operator_no_device_activity"));
}

fn analysis_warning(trace: &OperatorTrace, code: &str) -> bool {
    let found = findings(trace);
    let found = found.iter().find(|finding| finding.code == code).expect("found");
    crate::analysis::is_serious(found)
}

#[test]
fn impossible_rows_are_shown_and_lead_no_list() {
    let trace = trace(&[
        ("kernel", "wild", 0, 0, 9_000_000, None),
        ("kernel", "small", 0, 10, 15, None),
        ("kernel", "large", 0, 20, 60, None),
        ("kernel", "early", 0, 59, 70, None),
    ]);
    let found = summary(&trace);
    let names: Vec<&str> = found.device.iter().map(|row| trace.name(row.name)).collect();
    assert_eq!(names, ["large", "early", "small", "wild"]);
    assert_eq!((found.device[3].calls, found.device[3].impossible, found.device[3].total_ns), (0, 1, 0));
    let busy = found.busy.expect("there is work");
    assert_eq!((busy.events, busy.sum_ns, busy.union_ns), (4, 56_000, 55_000));
    assert_eq!((busy.impossible, busy.impossible_ns), (1, 9_000_000_000));
    assert!(codes(&trace).contains(&"operator_impossible_duration".to_string()));
}

#[test]
fn work_before_its_launch_is_flagged_and_stays_where_it_is() {
    let mut trace = trace(&[
        ("cuda_runtime", "cudaLaunchKernel", 0, 100, 104, Some(1)),
        ("kernel", "k", 1, 101, 110, Some(1)),
        ("cuda_runtime", "cudaLaunchKernel", 0, 120, 124, Some(2)),
        ("kernel", "orphan", 1, 130, 140, Some(9)),
    ]);
    // The recorded inversion: 300 ns.
    trace.tracks[1].slices[0].start = 99_700;
    let found = summary(&trace);
    assert_eq!(found.before_launch, (1, 300));
    assert_eq!((found.launches_without_work, found.work_without_launch), (1, 1));
    assert_eq!(trace.tracks[1].slices[0].start, 99_700);
    assert_eq!(codes(&trace)[1..], ["operator_before_launch", "operator_launch_without_work", "operator_work_without_launch"]);
}

fn point(id: u64, at: i64, track: u32, step: FlowStep, sequence: u32) -> FlowPoint {
    FlowPoint { id: FlowId::Number(id), at: at * 1_000, track, sequence, name: 0, category: 0, step }
}

#[test]
fn arrows_need_both_ends_and_never_point_backwards() {
    use FlowStep::{EndAround, EndNext, Start, Step};
    let mut trace = trace(&[
        ("cpu_op", "outer", 0, 0, 100, None),
        ("cpu_op", "launch", 0, 10, 20, None),
        ("kernel", "k", 1, 15, 40, None),
        ("kernel", "l", 1, 50, 60, None),
    ]);
    trace.flows = vec![
        point(1, 15, 1, EndAround, 0),
        point(1, 10, 0, Start, 1),
        point(1, 45, 1, EndNext, 2),
        point(2, 70, 0, Start, 3),
        point(3, 80, 0, EndAround, 4),
        point(4, 5, 0, Start, 5),
        point(4, 12, 0, Step, 6),
        point(4, 55, 1, EndAround, 7),
        point(5, 16, 1, Start, 8),
        point(5, 16, 0, EndAround, 9),
    ];
    let found = arrows(&trace);
    let ends: Vec<_> = found.list.iter().map(|(a, b)| ((a.track, a.slice), (b.track, b.slice))).collect();
    let (outer, launch, k, l) = ((0, Some(0)), (0, Some(1)), (1, Some(0)), (1, Some(1)));
    assert_eq!(ends, [(launch, k), (launch, l), (outer, launch), (launch, l)]);
    assert_eq!((found.unmatched, found.backwards), (2, 1));
    trace.flows = vec![point(u64::MAX, 1, 0, Start, 0), point(u64::MAX, 15, 1, EndAround, 1)];
    trace.tracks[0].slices.clear();
    let found = arrows(&trace).list;
    assert_eq!((found[0].0.slice, found[0].1.slice), (None, Some(0)), "an end without a slice is a moment");
}
