//! Whole traces, read back with the generated structs.

use super::protos::{Trace, TracePacket, TrackEvent, trace_attributes, trace_packet, track_descriptor, track_event};
use super::*;
use crate::run::{LoadedReport, Record, Scalar, Timeline, Values};
use ddo_schemas::Finding;
use ddo_schemas::timeline::{NativeTimeline, Sample, SampleKind, SampleStatus};
use ddo_schemas::unit::{Nullable, Seconds};
use prost::Message;
use std::collections::{BTreeMap, HashMap};

fn timeline(samples: Vec<Sample>, units: &[(u64, &str)]) -> NativeTimeline {
    NativeTimeline {
        schema_version: 1,
        clock: "host_stream".into(),
        unit: "seconds".into(),
        scope: "native_stream_windows_not_engine_activity".into(),
        status: "complete".into(),
        capacity: 4096,
        dropped: 0,
        failures: 0,
        pending: 0,
        samples,
        execution_units: units.iter().map(|(unit, name)| (unit.to_string(), name.to_string())).collect(),
        window_summary: None,
        warm_window_summary: None,
        event_cleanup: None,
        resolution_seconds: None,
        epoch_host_before_seconds: None,
        epoch_host_after_seconds: None,
    }
}

fn sample(sequence: u64, unit: u64, stream: u64, kind: SampleKind, start: f64, end: f64) -> Sample {
    Sample {
        sequence,
        unit,
        stream,
        bytes: Nullable(Some(7)),
        kind,
        status: SampleStatus::Complete,
        start_seconds: Some(Seconds(start)),
        end_seconds: Some(Seconds(end)),
    }
}

fn trace(run: &Run, options: &TraceOptions) -> (Trace, Vec<u8>, TraceStats) {
    let mut bytes = Vec::new();
    let stats = write(run, options, &mut bytes).expect("memory takes everything");
    assert_eq!(stats.bytes, bytes.len() as u64);
    (Trace::decode(bytes.as_slice()).expect("decodes"), bytes, stats)
}

fn events(trace: &Trace) -> Vec<(&TracePacket, &TrackEvent)> {
    let event = |packet| match packet {
        &TracePacket { data: Some(trace_packet::Data::TrackEvent(ref event)), .. } => Some(event),
        _ => None,
    };
    trace.packet.iter().filter_map(|packet| Some((packet, event(packet)?))).collect()
}

fn names(trace: &Trace) -> HashMap<u64, String> {
    let data = trace.packet[0].interned_data.as_ref().expect("the first packet interns");
    data.event_names.iter().map(|name| (name.iid(), name.name().to_string())).collect()
}

fn instant_names(trace: &Trace) -> Vec<String> {
    let names = names(trace);
    let instants = events(trace).into_iter().filter(|(_, event)| event.r#type() == track_event::Type::Instant);
    instants
        .map(|(_, event)| match event.name_field {
            Some(track_event::NameField::NameIid(iid)) => names[&iid].clone(),
            None => String::new(),
        })
        .collect()
}

/// Replays a trace as a reader does; returns the slices.
pub(crate) fn replay(trace: &Trace) -> usize {
    let mut stacks: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let (mut last, mut slices) = (1, 0);
    for (packet, event) in events(trace) {
        assert!(packet.timestamp() >= last, "time runs backwards");
        last = packet.timestamp();
        let stack = stacks.entry(event.track_uuid()).or_default();
        match event.r#type() {
            track_event::Type::SliceBegin => stack.push(last),
            track_event::Type::SliceEnd => {
                stack.pop().expect("an END closes an open slice");
                slices += 1;
            }
            _ => {}
        }
    }
    assert!(stacks.values().all(Vec::is_empty), "every slice is closed");
    slices
}

#[test]
fn a_hundred_thousand_slices_cost_at_most_45_bytes_each() {
    let names: Vec<(u64, String)> = (0..300).map(|unit| (unit, format!("transformer_blocks.{unit}"))).collect();
    let names: Vec<(u64, &str)> = names.iter().map(|(unit, name)| (*unit, name.as_str())).collect();
    let samples = (0..100_000_u64).map(|at| {
        let kind = SampleKind::WINDOWS[at as usize % 4];
        let start = at as f64 * 40e-3;
        sample(at + 1, at % 300, at % 3, kind, start, start + 30e-3)
    });
    let run = Run::from_timeline("big", timeline(samples.collect(), &names));
    let (trace, _, stats) = trace(&run, &TraceOptions::default());
    assert_eq!(stats.slices, 100_000);
    assert_eq!(replay(&trace), 100_000);
    let per_slice = stats.bytes as f64 / stats.slices as f64;
    assert!(per_slice <= 45.0, "{per_slice} bytes a slice");
}

#[test]
fn random_windows_read_back_as_they_went_in() {
    let mut state = 11_u64;
    let mut next = |limit: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    for round in 0..100 {
        let samples: Vec<Sample> = (0..1 + next(40))
            .map(|at| {
                let start = (next(50) as f64 - 20.0) * 1e-9;
                let length = next(12) as f64 * 1e-9;
                sample(at + 1, next(5), next(3), SampleKind::WINDOWS[next(4) as usize], start, start + length)
            })
            .collect();
        let count = samples.len();
        let run = Run::from_timeline("random", timeline(samples, &[(1, "a"), (2, "b")]));
        let options = TraceOptions { annotate: round % 2 == 0, ..TraceOptions::default() };
        let (trace, bytes, stats) = trace(&run, &options);
        assert_eq!(replay(&trace), count, "round {round}");
        assert_eq!(stats.slices as usize, count);
        let mut again = Vec::new();
        write(&run, &options, &mut again).expect("memory takes everything");
        assert_eq!(bytes, again, "the same run gives the same bytes");
    }
}

#[test]
fn the_sequence_starts_cleared_and_every_parent_is_described_first() {
    let windows = vec![
        sample(1, 1, 2, SampleKind::UploadBatchWindow, 0.0, 2e-6),
        sample(2, 2, 2, SampleKind::UploadBatchWindow, 1e-6, 3e-6),
    ];
    let (trace, _, _) = trace(&Run::from_timeline("r", timeline(windows, &[])), &TraceOptions::default());
    let flags: Vec<u32> = trace.packet.iter().map(|packet| packet.sequence_flags()).collect();
    assert_eq!(flags[0], 3);
    assert!(flags[1..].iter().all(|flags| *flags == 2));
    let mut described = Vec::new();
    let mut keys = Vec::new();
    for packet in &trace.packet {
        if let Some(trace_packet::Data::TrackDescriptor(track)) = &packet.data {
            assert!(track.parent_uuid.is_none_or(|parent| described.contains(&parent)));
            described.push(track.uuid());
            if track.sibling_merge_key_field.is_some() {
                assert_eq!(track.sibling_merge_behavior, Some(3));
                keys.push(track.sibling_merge_key_field.clone());
            }
        }
    }
    assert_eq!(keys.len(), 2, "straddling windows get two lanes");
    assert_eq!(keys[0], keys[1]);
}

#[test]
fn what_has_no_time_is_an_instant_and_no_slice() {
    let mut pending = sample(1, 1, 2, SampleKind::UploadBatchWindow, 0.0, 0.0);
    (pending.status, pending.start_seconds, pending.end_seconds) = (SampleStatus::Pending, None, None);
    let mut failed = pending.clone();
    (failed.sequence, failed.status) = (2, SampleStatus::Failed);
    let backwards = sample(3, 1, 2, SampleKind::UploadBatchWindow, 5e-6, 4e-6);
    let mut recorded = timeline(vec![pending, failed, backwards], &[]);
    recorded.dropped = 9;
    let (trace, _, stats) = trace(&Run::from_timeline("r", recorded), &TraceOptions::default());
    assert_eq!(stats.slices, 0);
    let mut instants = instant_names(&trace);
    instants.sort();
    let expected = [
        "contradictory times: upload_batch_window",
        "dropped windows",
        "failed: upload_batch_window",
        "origin of the axis",
        "pending: upload_batch_window",
    ];
    assert_eq!(instants, expected);
}

#[test]
fn arrows_need_units_that_the_timeline_names() {
    let windows = vec![
        sample(1, 1, 2, SampleKind::UploadBatchWindow, 0.0, 2e-6),
        sample(2, 1, 1, SampleKind::ComputeUploadDependency, 1e-6, 2e-6),
        sample(3, 1, 1, SampleKind::ExecutionUnitWindow, 2e-6, 4e-6),
        sample(4, 1, 1, SampleKind::ExecutionUnitWindow, 5e-6, 6e-6),
        sample(5, 9, 2, SampleKind::UploadBatchWindow, 3e-6, 4e-6),
        sample(6, 9, 1, SampleKind::ComputeUploadDependency, 4e-6, 5e-6),
        sample(7, 9, 1, SampleKind::ExecutionUnitWindow, 6e-6, 7e-6),
    ];
    let (trace, _, stats) = trace(&Run::from_timeline("r", timeline(windows, &[(1, "block")])), &TraceOptions::default());
    assert_eq!(stats.flows, 1, "an upload serves one forward, and unit 9 has no name");
    let uses: Vec<(Vec<u64>, Vec<u64>)> = events(&trace)
        .into_iter()
        .map(|(_, event)| (event.flow_ids.clone(), event.terminating_flow_ids.clone()))
        .filter(|(through, last)| !through.is_empty() || !last.is_empty())
        .collect();
    assert_eq!(uses, [(vec![1], vec![]), (vec![1], vec![]), (vec![], vec![1])]);
}

fn journal(values: &[Option<Scalar>]) -> Run {
    let record = |(at, value): (usize, &Option<Scalar>)| Record {
        file: format!("{at}"),
        step: at.checked_sub(1).map(|step| step as u64),
        host_elapsed_ns: Some(at as i64 * 1_000),
        observed_ns: None,
        values: value.iter().map(|value| ("runtime.vmm.copied_bytes".into(), value.clone())).collect::<Values>(),
    };
    let records = values.iter().enumerate().map(record).collect();
    Run { name: "r".into(), components: vec![Component { name: "c".into(), records, ..Component::default() }], ..Run::default() }
}

fn points(trace: &Trace) -> Vec<(u64, i64)> {
    let value = |event: &TrackEvent| match event.counter_value_field {
        Some(track_event::CounterValueField::CounterValue(value)) => Some(value),
        _ => None,
    };
    events(trace).into_iter().filter_map(|(_, event)| Some((event.track_uuid(), value(event)?))).collect()
}

#[test]
fn resets_gaps_and_large_values_are_never_points() {
    let whole = |value| Some(Scalar::U64(value));
    let (trace, _, _) = trace(&journal(&[whole(100), whole(300), whole(50), whole(250)]), &TraceOptions::default());
    let found = points(&trace);
    let levels: Vec<i64> = found.iter().filter(|(track, _)| *track == found[0].0).map(|(_, value)| *value).collect();
    let deltas: Vec<i64> = found.iter().filter(|(track, _)| *track != found[0].0).map(|(_, value)| *value).collect();
    assert_eq!((levels, deltas), (vec![100, 300, 50, 250], vec![200, 200]));
    assert_eq!(instant_names(&trace), ["origin of the axis", "counter reset"]);
}

#[test]
fn unavailable_values_and_values_beyond_int64() {
    let whole = |value| Some(Scalar::U64(value));
    let (trace, _, _) = trace(&journal(&[whole(9_007_199_254_740_993), None, whole(u64::MAX)]), &TraceOptions::default());
    assert_eq!(points(&trace).into_iter().map(|(_, value)| value).collect::<Vec<_>>(), [9_007_199_254_740_993]);
    assert_eq!(instant_names(&trace), ["origin of the axis", "value above 2^63-1"]);
}

fn track_names(trace: &Trace) -> Vec<String> {
    let mut tracks: Vec<(u64, i32, String)> = Vec::new();
    for packet in &trace.packet {
        if let Some(trace_packet::Data::TrackDescriptor(track)) = &packet.data
            && let Some(track_descriptor::StaticOrDynamicName::Name(name)) = &track.static_or_dynamic_name
        {
            tracks.push((track.parent_uuid(), track.sibling_order_rank(), name.clone()));
        }
    }
    tracks.sort();
    tracks.into_iter().map(|(_, _, name)| name).collect()
}

fn attribute(trace: &Trace, wanted: &str) -> Option<String> {
    let all = trace.packet.iter().find_map(|packet| match &packet.data {
        Some(trace_packet::Data::TraceAttributes(all)) => Some(all),
        _ => None,
    })?;
    let found = all.attribute.iter().find(|attribute| attribute.key() == wanted)?;
    match found.value.as_ref()? {
        trace_attributes::attribute::Value::LongValue(number) => Some(number.to_string()),
        trace_attributes::attribute::Value::StringValue(text) => Some(text.clone()),
    }
}

/// A run of which everything is on the host's monotonic clock.
fn aligned() -> Run {
    let mut run = journal(&[Some(Scalar::U64(0)), Some(Scalar::U64(5)), Some(Scalar::U64(9))]);
    let component = &mut run.components[0];
    for (record, observed) in component.records.iter_mut().zip([7_000_000_100, 7_000_000_200, 7_000_000_300]) {
        record.observed_ns = Some(observed);
        record.values.insert("runtime.vmm.fast_fault_failures".into(), Scalar::U64(0));
        record.values.insert("runtime.vmm.resident_bytes".into(), Scalar::U64(64));
    }
    let mut recorded = timeline(vec![sample(1, 1, 2, SampleKind::UploadBatchWindow, 20e-9, 70e-9)], &[]);
    recorded.epoch_host_before_seconds = Some(Seconds(7.000_000_090));
    recorded.epoch_host_after_seconds = Some(Seconds(7.000_000_110));
    let timeline = Some(Timeline::new(recorded));
    component.reports.push(LoadedReport { file: "final.json".into(), timeline, ..LoadedReport::default() });
    run
}

#[test]
fn recorded_correlations_put_records_and_windows_on_one_axis() {
    let (trace, _, stats) = trace(&aligned(), &TraceOptions::default());
    assert_eq!(stats.shift_ns, Some(1 - 7_000_000_100));
    let begins: Vec<u64> = events(&trace)
        .into_iter()
        .filter(|(_, event)| event.r#type() == track_event::Type::SliceBegin)
        .map(|(packet, _)| packet.timestamp())
        .collect();
    assert_eq!(begins, [1, 21, 101], "step 0, the window 20 ns after the epoch, step 1");
    assert_eq!(attribute(&trace, "ddo.timeline.0.0.alignment_interval_ns").as_deref(), Some("20"));
    assert_eq!(attribute(&trace, "ddo.journal.0.alignment_interval_ns").as_deref(), Some("0"));
    assert!(track_names(&trace).iter().all(|name| !name.contains("unaligned")));
}

#[test]
fn one_record_without_its_time_leaves_the_journal_unaligned() {
    let mut run = aligned();
    run.components[0].records[1].observed_ns = None;
    let (trace, _, _) = trace(&run, &TraceOptions::default());
    assert!(track_names(&trace).contains(&"steps (host, unaligned)".to_string()));
    assert_eq!(attribute(&trace, "ddo.journal.0.alignment").as_deref(), Some("unaligned"));
}

#[test]
fn groups_stand_in_the_order_of_questions_and_zeros_are_counted_not_drawn() {
    let mut run = aligned();
    run.memory.push(
        serde_json::from_value(
            serde_json::json!({"schema_version": 1, "elapsed_seconds": 0.5, "rss_bytes": 7, "query_seconds": 0.0}),
        )
        .expect("a sample"),
    );
    let (first, _, _) = trace(&run, &TraceOptions::default());
    let names = track_names(&first);
    let at =
        |wanted: &str| names.iter().position(|name| name.starts_with(wanted)).unwrap_or_else(|| panic!("{wanted} in {names:?}"));
    let order =
        ["DDO", "steps (host", "stream windows (host driver", "host memory", "gauges", "counters", "about this trace"].map(at);
    assert!(order.is_sorted(), "{names:?}");
    assert_eq!(at("copied_bytes, added by the step"), at("copied_bytes") + 1);
    assert!(!names.iter().any(|name| name == "fast_fault_failures" || name == "data quality"), "{names:?}");
    assert_eq!(attribute(&first, "ddo.constant_zero_tracks").as_deref(), Some("1"));
    assert_eq!(attribute(&first, "ddo.constant_zero_fields").as_deref(), Some("fast_fault_failures"));
    assert!(names.iter().any(|name| name == "resident_bytes"), "constant, but not zero");

    run.findings.push(Finding::warning("not_sealed", "manifest.end.json", "is missing"));
    let (second, _, _) = trace(&run, &TraceOptions::default());
    let names = track_names(&second);
    let at = |wanted: &str| names.iter().position(|name| name.starts_with(wanted));
    assert!(at("data quality") < at("steps (host"), "what is doubtful comes first: {names:?}");
}
