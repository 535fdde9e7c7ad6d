//! Traces read back by an independent decoder.
//!
//! Proves: every slice that went in comes out with its exact length, on tracks where slices nest; what has no time is no slice;
//! the decoder itself notices a damaged trace; the generated part of the encoder is what its description generates.

use crate::support::trace::{Reading, read, sound};
use crate::support::{root, scratch};
use ddo_analyzer::output::perfetto::{TraceOptions, TraceStats, write};
use ddo_analyzer::run::Run;
use ddo_schemas::timeline::{END_MARKER, NativeTimeline, Sample, SampleKind, SampleStatus};
use ddo_schemas::{Nullable, Seconds};
use perfetto_protos::trace::Trace;
use perfetto_protos::trace_packet::trace_packet::Data;
use perfetto_protos::track_event::track_event::Type;
use protobuf::Message;
use std::collections::BTreeMap;

const UNITS: u64 = 40;

fn timeline(samples: Vec<Sample>) -> NativeTimeline {
    NativeTimeline {
        schema_version: 1,
        clock: "host_stream".into(),
        unit: "seconds".into(),
        scope: "native_stream_windows_not_engine_activity".into(),
        status: "complete".into(),
        capacity: 8192,
        dropped: 0,
        failures: 0,
        pending: 0,
        samples,
        execution_units: (0..UNITS).map(|unit| (unit.to_string(), format!("blocks.{unit}"))).collect(),
        window_summary: None,
        warm_window_summary: None,
        event_cleanup: None,
        resolution_seconds: None,
        epoch_host_before_seconds: None,
        epoch_host_after_seconds: None,
    }
}

/// A complete window between two whole nanoseconds.
fn window(sequence: u64, kind: SampleKind, unit: u64, stream: u64, start: i64, end: i64) -> Sample {
    let seconds = |ns: i64| Some(Seconds(ns as f64 / 1e9));
    let (start_seconds, end_seconds) = (seconds(start), seconds(end));
    Sample { sequence, unit, stream, bytes: Nullable(None), kind, status: SampleStatus::Complete, start_seconds, end_seconds }
}

fn encode(samples: Vec<Sample>, options: TraceOptions) -> (Vec<u8>, TraceStats) {
    let mut bytes = Vec::new();
    let stats = write(&Run::from_timeline("run", timeline(samples)), &options, &mut bytes).expect("memory takes everything");
    assert_eq!(stats.bytes, bytes.len() as u64);
    (bytes, stats)
}

/// Stream, kind, unit's name, start and length of windows, sorted; starts count from the first.
type Shape = Vec<(u64, &'static str, String, u64, u64)>;

fn went_in(windows: &[(SampleKind, u64, u64, i64, i64)]) -> Shape {
    let first = windows.iter().map(|(.., start, _)| *start).min().expect("some");
    let shape = windows.iter().map(|(kind, unit, stream, start, end)| {
        let name = if *unit < UNITS { format!("blocks.{unit}") } else { format!("id {unit}") };
        (*stream, kind.name(), name, (start - first) as u64, (end - start) as u64)
    });
    let mut shape: Shape = shape.collect();
    shape.sort();
    shape
}

fn came_out(reading: &Reading) -> Shape {
    let shape = reading.slices.iter().map(|slice| {
        let mut parts = slice.track.rsplit(" / ");
        let kind = parts.next().and_then(|part| part.split(" (lane").next()).expect("a track has a name");
        let stream = parts.next().and_then(|part| part.split(' ').nth(1)?.parse().ok()).expect("its parent is a stream");
        let kind = SampleKind::WINDOWS.iter().find(|known| known.name() == kind).expect("a kind of window").name();
        assert_eq!(slice.category, kind);
        (stream, kind, slice.name.clone(), slice.start - 1, slice.end - slice.start)
    });
    let mut shape: Shape = shape.collect();
    shape.sort();
    shape
}

/// Windows that overlap, straddle, touch, nest and are empty, from before the epoch on.
fn arrangement(seed: u64, count: usize) -> Vec<(SampleKind, u64, u64, i64, i64)> {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut at = -50_000_000;
    let window = |_| {
        let kind = SampleKind::WINDOWS[rng.usize(0..4)];
        at += [0, 0, 1, 500, 40_000][rng.usize(0..5)];
        let length = match rng.u32(0..4) {
            0 => 0,
            1 => rng.i64(0..3),
            2 => rng.i64(0..100_000),
            _ => [40_000, 80_000][rng.usize(0..2)],
        };
        (kind, rng.u64(0..UNITS + 4), 1 + rng.u64(0..2), at, at + length)
    };
    (0..count).map(window).collect()
}

fn samples(windows: &[(SampleKind, u64, u64, i64, i64)]) -> Vec<Sample> {
    let sample = |(at, (kind, unit, stream, start, end)): (usize, &(SampleKind, u64, u64, i64, i64))| {
        window(at as u64 + 1, *kind, *unit, *stream, *start, *end)
    };
    windows.iter().enumerate().map(sample).collect()
}

#[test]
fn a_hundred_thousand_windows_come_out_as_they_went_in() {
    let windows = arrangement(7, 100_000);
    assert!(windows.iter().any(|(.., start, end)| start == end) && windows.iter().any(|(.., start, _)| *start < 0));
    let (bytes, stats) = encode(samples(&windows), TraceOptions::default());
    let reading = sound(&bytes);
    assert_eq!(reading.slices.len() as u64, stats.slices);
    assert_eq!(reading.flows as u64, stats.flows);
    assert!(came_out(&reading) == went_in(&windows), "a slice was lost, moved or changed");
    let flows = reading.flows;
    let plain = 100_000.0;
    let size = bytes.len() as f64 / plain;
    println!("{size:.2} bytes a slice, {flows} arrows");
    assert!(size <= 45.0, "{size} bytes a slice");
}

#[test]
fn small_arrangements_of_every_shape_come_out_as_they_went_in() {
    for seed in 0..300 {
        let windows = arrangement(seed, 1 + seed as usize % 40);
        let (bytes, _) = encode(samples(&windows), TraceOptions { annotate: seed % 2 == 1, ..TraceOptions::default() });
        assert_eq!(came_out(&sound(&bytes)), went_in(&windows), "seed {seed}");
    }
}

#[test]
fn parents_contain_their_children() {
    let (bytes, _) = encode(samples(&arrangement(11, 5_000)), TraceOptions::default());
    let reading = sound(&bytes);
    let mut tracks: BTreeMap<&str, Vec<(u64, u64, usize)>> = BTreeMap::new();
    for slice in &reading.slices {
        tracks.entry(&slice.track).or_default().push((slice.start, slice.end, slice.depth));
    }
    let nested = reading.slices.iter().filter(|slice| slice.depth > 0).count();
    assert!(nested > 100, "only {nested} slices are nested");
    for (track, slices) in tracks {
        for (start, end, depth) in slices.iter().filter(|(.., depth)| *depth > 0) {
            let parent = slices.iter().any(|(from, to, above)| *above == depth - 1 && from <= start && end <= to);
            assert!(parent, "{start} to {end} on {track} has no parent around it");
        }
    }
}

#[test]
fn what_has_no_time_is_an_instant_and_never_a_slice() {
    let complete = window(1, SampleKind::ExecutionUnitWindow, 0, 1, -3, 4);
    let mut pending = window(2, SampleKind::UploadBatchWindow, 1, 2, 0, 0);
    (pending.status, pending.start_seconds, pending.end_seconds) = (SampleStatus::Pending, None, None);
    let failed = Sample { sequence: 3, status: SampleStatus::Failed, ..pending.clone() };
    let backwards = window(4, SampleKind::ExecutionUnitWindow, 2, 1, 9, 8);
    let mut recorded = timeline(vec![complete, pending, failed, backwards]);
    (recorded.status, recorded.dropped, recorded.pending) = ("truncated".into(), 12, 1);
    let mut bytes = Vec::new();
    let stats = write(&Run::from_timeline("run", recorded), &TraceOptions::default(), &mut bytes).expect("written");
    let reading = sound(&bytes);
    assert_eq!((reading.slices.len(), stats.slices), (1, 1));
    assert_eq!((reading.slices[0].start, reading.slices[0].end), (1, 8), "seven nanoseconds from three before the epoch");
    let words = ["pending: upload_batch_window", "failed: upload_batch_window", "dropped windows"];
    for word in words {
        assert!(reading.instants.iter().any(|(name, _)| name == word), "{word}: {:?}", reading.instants);
    }
    assert!(reading.instants.iter().any(|(name, _)| name.starts_with("contradictory")), "{:?}", reading.instants);
}

#[test]
fn steps_are_drawn_between_complete_markers_only() {
    let marker = |sequence, unit, at| window(sequence, SampleKind::StepMarker, unit, 1, at, at);
    let mut lost = marker(3, 2, 0);
    (lost.status, lost.start_seconds, lost.end_seconds) = (SampleStatus::Failed, None, None);
    let markers =
        vec![marker(1, 0, 0), marker(2, 1, 100), lost, marker(4, 3, 300), marker(5, 4, 450), marker(6, END_MARKER, 500)];
    let reading = sound(&encode(markers, TraceOptions::default()).0);
    let mut steps: Vec<(&str, u64)> =
        reading.on("steps (between markers)").map(|slice| (slice.name.as_str(), slice.end - slice.start)).collect();
    steps.sort();
    assert_eq!(steps, [("after step 3", 50), ("step 0", 100), ("step 3", 150)]);
}

/// A small trace with a bit of everything, and its packets.
fn subject() -> Trace {
    let windows = [
        (SampleKind::UploadBatchWindow, 1, 2, 0, 100),
        (SampleKind::UploadBatchWindow, 2, 2, 50, 150),
        (SampleKind::ComputeUploadDependency, 1, 1, 60, 110),
        (SampleKind::ExecutionUnitWindow, 1, 1, 110, 200),
        (SampleKind::ExecutionUnitWindow, 3, 1, 300, 300),
    ];
    let (bytes, stats) = encode(samples(&windows), TraceOptions { annotate: true, ..TraceOptions::default() });
    assert_eq!(stats.flows, 1);
    sound(&bytes);
    Trace::parse_from_bytes(&bytes).expect("decodes")
}

fn problems(trace: &Trace) -> Vec<String> {
    read(&trace.write_to_bytes().expect("encodes")).problems
}

/// Changes a trace and says what the decoder then finds.
fn damaged(change: impl FnOnce(&mut Trace)) -> Vec<String> {
    let mut trace = subject();
    assert_eq!(problems(&trace), [""; 0], "unchanged, it is sound");
    change(&mut trace);
    problems(&trace)
}

fn position(trace: &Trace, wanted: impl Fn(&Data) -> bool) -> usize {
    trace.packet.iter().position(|packet| packet.data.as_ref().is_some_and(&wanted)).expect("there is one")
}

fn is(kind: Type) -> impl Fn(&Data) -> bool {
    move |data| match data {
        Data::TrackEvent(event) => event.type_() == kind,
        _ => false,
    }
}

#[test]
fn the_decoder_notices_damage() {
    let found = |problems: &[String], words: &str| {
        assert!(problems.iter().any(|problem| problem.contains(words)), "{words}: {problems:#?}");
    };
    let descriptor = |data: &Data| matches!(data, Data::TrackDescriptor(track) if track.parent_uuid.is_some());
    found(&damaged(|t| drop(t.packet.remove(position(t, descriptor)))), "not described before it");
    found(&damaged(|t| t.packet.truncate(t.packet.len() - 1)), "never closed");
    found(&damaged(|t| drop(t.packet.remove(position(t, is(Type::TYPE_SLICE_BEGIN))))), "closes nothing");
    found(&damaged(|t| t.packet[0].interned_data.mut_or_insert_default().event_names.clear()), "used before it is defined");
    found(&damaged(|t| t.packet[1].sequence_flags = Some(3)), "sequence flags");
    found(&damaged(|t| t.packet[0].trace_packet_defaults.clear()), "no default clock");
    found(
        &damaged(|t| {
            let at = position(t, is(Type::TYPE_SLICE_BEGIN));
            t.packet[at].timestamp = Some(0);
        }),
        "time 0",
    );
    found(
        &damaged(|t| {
            let ends = |data: &Data| matches!(data, Data::TrackEvent(event) if !event.terminating_flow_ids.is_empty());
            let at = position(t, ends);
            let Some(Data::TrackEvent(event)) = &mut t.packet[at].data else { panic!("an event") };
            event.terminating_flow_ids[0] = 77;
        }),
        "without a source",
    );
    found(&damaged(|t| t.packet[2].special_fields.mut_unknown_fields().add_varint(127, 1)), "unknown field 127");
}

#[test]
fn the_decoder_notices_an_end_before_its_begin() {
    let problems = damaged(|trace| {
        let same = |pair: &[perfetto_protos::trace_packet::TracePacket]| {
            let event = |at: usize| match &pair[at].data {
                Some(Data::TrackEvent(event)) => Some(event),
                _ => None,
            };
            pair[0].timestamp == pair[1].timestamp
                && event(0).is_some_and(|begin| begin.type_() == Type::TYPE_SLICE_BEGIN)
                && event(1).is_some_and(|end| end.type_() == Type::TYPE_SLICE_END)
        };
        let at = trace.packet.windows(2).position(same).expect("the zero-length pair");
        trace.packet.swap(at, at + 1);
    });
    assert_eq!(problems.len(), 2, "one closes nothing, one is never closed: {problems:#?}");
}

#[test]
fn the_decoder_notices_a_cut_file() {
    let bytes = subject().write_to_bytes().expect("encodes");
    let whole = sound(&bytes).slices.len();
    let mut silent = 0;
    for end in 0..bytes.len() {
        let reading = read(&bytes[..end]);
        // A cut between two packets while nothing is open breaks no rule; then slices are missing, and only then.
        silent += usize::from(reading.problems.is_empty());
        assert!(!reading.problems.is_empty() || reading.slices.len() < whole, "cut at {end} of {}", bytes.len());
    }
    assert!(silent < bytes.len() / 20, "{silent} of {} cuts went unnoticed", bytes.len());
}

#[test]
fn the_generated_encoder_is_current() {
    let at = scratch("protos");
    let set = protox::compile(["perfetto_min.proto"], [root().join("analyzer/proto")]).expect("the description compiles");
    prost_build::Config::new().out_dir(at.path()).compile_fds(set).expect("generates");
    let generated = std::fs::read_to_string(at.path().join("perfetto.protos.rs")).expect("generated");
    let path = root().join("analyzer/src/output/perfetto/perfetto.protos.rs");
    if std::env::var_os("DDO_BLESS").is_some() {
        std::fs::write(&path, &generated).expect("writable");
    }
    assert!(generated == std::fs::read_to_string(&path).expect("there"), "run again with DDO_BLESS=1");
}
