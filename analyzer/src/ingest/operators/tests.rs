//! Traces from bytes: good, broken, cut and made up.

use super::*;
use crate::run::operators::{CounterValue, FlowId, FlowStep, MomentKind, OperatorSlice, TrackKind};
use ddo_schemas::Severity;
use proptest::prelude::*;

fn load(text: &[u8]) -> (Option<OperatorTrace>, Vec<Finding>) {
    read_from(text, "t.json")
}

fn good(text: &str) -> (OperatorTrace, Vec<Finding>) {
    let (trace, findings) = load(text.as_bytes());
    (trace.unwrap_or_else(|| panic!("{findings:?}")), findings)
}

fn codes(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.code.as_str()).collect()
}

fn rows(trace: &OperatorTrace) -> Vec<(&str, i64, i64)> {
    let mut slices: Vec<&OperatorSlice> = trace.tracks.iter().flat_map(|track| &track.slices).collect();
    slices.sort_by_key(|slice| slice.sequence);
    slices.iter().map(|slice| (trace.name(slice.name), slice.start, slice.end)).collect()
}

/// Gives a few bytes at a time, and fails in the end where told to.
struct Drip<'a> {
    rest: &'a [u8],
    size: usize,
    fails: bool,
}

impl Read for Drip<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        if self.rest.is_empty() && self.fails {
            return Err(io::Error::other("the disk is gone"));
        }
        let count = self.size.min(room.len()).min(self.rest.len());
        let (now, later) = self.rest.split_at(count);
        room[..count].copy_from_slice(now);
        self.rest = later;
        Ok(count)
    }
}

#[test]
fn members_come_in_any_order_and_around_the_events() {
    let (trace, findings) = good(
        r#"{"other":{"a":[1,"]}",{"b":null}]},"deviceProperties":[{"id":0}],"traceEvents":[
        {"args":{"bytes":7,"deep":[[{"x":[1]}]],"correlation":18446744073709551615},"dur":2,"ts":1.5,"tid":"7","pid":0,"name":"k","cat":"kernel","ph":"X"}],
        "displayTimeUnit":"ns","last":-1.5e3,"baseTimeNanoseconds":1735632360000000001}"#,
    );
    assert_eq!(codes(&findings), [""; 0]);
    assert_eq!(rows(&trace), [("k", 1_500, 3_500)]);
    assert_eq!((trace.base_time_ns, trace.display_time_unit.as_deref()), (Some(1_735_632_360_000_000_001), Some("ns")));
    assert!(trace.names_devices && trace.complete);
    let link = trace.link(&trace.tracks[0].slices[0]);
    assert_eq!((link.correlation, link.bytes), (Some(u64::MAX), Some(7)));
    assert_eq!(trace.tracks[0].id, "7");
}

#[test]
fn begins_and_ends_are_paired_by_thread_and_by_identifier() {
    let (trace, findings) = good(
        r#"[{"ph":"E","pid":1,"tid":1,"ts":9},{"ph":"B","name":"outer","pid":1,"tid":1,"ts":1},{"ph":"B","name":"inner","pid":1,"tid":1,"ts":2},
        {"ph":"B","name":"other","pid":1,"tid":2,"ts":2},{"ph":"E","pid":1,"tid":1,"ts":3},{"ph":"E","pid":1,"tid":3,"ts":4},
        {"ph":"b","cat":"io","name":"r","id":"0x1","pid":1,"ts":5},{"ph":"b","cat":"io","name":"s","id":"0x2","pid":1,"ts":6},
        {"ph":"n","cat":"io","name":"mark","id":"0x1","pid":1,"ts":6.5},
        {"ph":"e","cat":"io","name":"r","id":"0x1","pid":1,"ts":7},{"ph":"e","cat":"io","name":"s","id":"0x2","pid":1,"ts":8}]"#,
    );
    let mut found = rows(&trace);
    found.sort();
    assert_eq!(found, [("inner", 2_000, 3_000), ("outer", 1_000, 9_000), ("r", 5_000, 7_000), ("s", 6_000, 8_000)]);
    assert_eq!(codes(&findings), ["operator_unpaired"]);
    assert!(findings[0].text.starts_with("2 "), "{}", findings[0]);
    let kinds: Vec<MomentKind> = trace.moments.iter().map(|moment| moment.kind).collect();
    assert_eq!(kinds, [MomentKind::Unpaired, MomentKind::Unpaired, MomentKind::Instant]);
    assert_eq!(trace.tracks.iter().filter(|track| track.kind == TrackKind::Async).count(), 1);
}

#[test]
fn counters_have_one_series_a_value_and_only_numbers() {
    let (trace, findings) = good(
        r#"[{"ph":"C","name":"mem","pid":1,"ts":2,"args":{"a":9007199254740993,"b":0.5,"c":"12"}},
        {"ph":"C","name":"mem","pid":1,"ts":1,"args":{"a":-1,"b":NaN,"c":18446744073709551615}},{"ph":"C","name":"one","id":3,"pid":1,"ts":1,"args":{"v":4}}]"#,
    );
    let series: Vec<(&str, &[(i64, CounterValue)])> =
        trace.counters.iter().map(|counter| (counter.name.as_str(), counter.values.as_slice())).collect();
    use CounterValue::{Fraction, Whole};
    assert_eq!(
        series,
        [
            ("mem: a", &[(1_000, Whole(-1)), (2_000, Whole(9_007_199_254_740_993))][..]),
            ("mem: b", &[(2_000, Fraction(0.5))]),
            ("mem: c", &[(2_000, Whole(12))]),
            ("one [3]", &[(1_000, Whole(4))]),
        ]
    );
    assert_eq!(codes(&findings), ["operator_non_finite", "operator_text_number", "operator_counter_value"]);
    assert!(findings[2].text.starts_with("2 "), "not finite, and above 2^63-1: {}", findings[2]);
}

#[test]
fn names_of_threads_and_identifiers_of_arrows_are_kept() {
    let (trace, _) = good(
        r#"[{"ph":"M","name":"process_name","pid":3,"args":{"name":"python3"}},{"ph":"M","name":"process_labels","pid":3,"args":{"labels":"CPU"}},
        {"ph":"M","name":"thread_name","pid":3,"tid":4,"args":{"name":"main"}},{"ph":"M","name":"thread_sort_index","pid":3,"tid":4,"args":{"sort_index":-2}},
        {"ph":"s","cat":"f","name":"f","id":9007199254740993,"pid":3,"tid":4,"ts":1},{"ph":"f","cat":"f","name":"f","bp":"e","id":"x","pid":3,"tid":4,"ts":1}]"#,
    );
    let process = &trace.processes[0];
    assert_eq!((process.name.as_deref(), process.labels.as_deref()), (Some("python3"), Some("CPU")));
    assert_eq!((trace.tracks[0].name.as_deref(), trace.tracks[0].sort), (Some("main"), Some(-2)));
    assert_eq!(trace.flows[0].id, FlowId::Number(9_007_199_254_740_993));
    assert_eq!((trace.flows[0].step, trace.flows[1].step), (FlowStep::Start, FlowStep::EndAround));
    assert!(matches!(trace.flows[1].id, FlowId::Text(id) if trace.name(id) == "x"));
}

#[test]
fn a_broken_event_costs_itself_and_is_named_by_its_byte() {
    let text = r#"{"traceEvents":[{"ph":"X","name":"a","ts":1,"dur":1},{"ph":"X","name":"b","ts":2,!,"dur":1},{"ph":"X","name":"c","ts":3,"dur":1}]}"#;
    let (trace, findings) = good(text);
    assert_eq!(rows(&trace), [("a", 1_000, 2_000), ("c", 3_000, 4_000)]);
    assert_eq!(codes(&findings), ["operator_event_unreadable"]);
    let byte = text.find('!').expect("there");
    assert!(findings[0].text.contains(&format!("byte {byte}:")), "{}", findings[0]);
    assert!(!trace.complete);
}

#[test]
fn what_is_no_trace_is_one_error_with_its_byte() {
    for (text, words) in [
        ("  hello", "byte 2"),
        (r#"{"traceEvents":7}"#, "byte 15"),
        (r#"{"traceEvents":[]}"#, "no events"),
        ("{}", "no list of events"),
        (r#"{"a" 1}"#, "byte 5"),
        ("", "closing bracket"),
    ] {
        let (trace, findings) = load(text.as_bytes());
        assert!(trace.is_none(), "{text}");
        assert!(findings.len() == 1 && findings[0].text.contains(words), "{text}: {findings:?}");
    }
}

#[test]
fn events_that_have_no_place_are_counted() {
    let (trace, findings) = good(
        r#"[{"ph":"X","name":"a","ts":1,"dur":1},7,{"name":"no phase"},{"ph":"X","name":"b","dur":1},{"ph":"X","name":"c","ts":1e99,"dur":1},
        {"ph":"P","name":"sample","ts":1},{"ph":"s","ts":1,"pid":1},{"ph":"X","name":"d","ts":1,"dur":NaN}]"#,
    );
    assert_eq!(rows(&trace), [("a", 1_000, 2_000)]);
    let expected = [
        "operator_non_finite",
        "operator_missing_duration",
        "operator_no_time",
        "operator_not_an_event",
        "operator_flow_without_id",
        "operator_other_phases",
    ];
    assert_eq!(codes(&findings), expected);
    assert!(findings[2].text.starts_with("2 ") && findings[3].text.starts_with("2 "), "{findings:?}");
}

#[test]
fn limits_are_said_by_name() {
    use crate::limits::{MAX_BROKEN_EVENTS, MAX_TRACE_DEPTH, MAX_TRACE_STRING_BYTES};
    let event = |name: &str, more: &str| format!(r#"{{"ph":"X","ts":1,"dur":1,"name":"{name}"{more}}}"#);
    let long = format!("[{},{}]", event(&"n".repeat(MAX_TRACE_STRING_BYTES + 1), ""), event("ok", ""));
    let (trace, findings) = good(&long);
    assert_eq!((rows(&trace).len(), codes(&findings)), (1, vec!["operator_event_unreadable"]));
    assert!(findings[0].text.contains("longer than the limit"), "{}", findings[0]);
    let levels = MAX_TRACE_DEPTH + 1;
    let deep = format!("[{},{}]", event("d", &format!(",\"x\":{}{}", "[".repeat(levels), "]".repeat(levels))), event("ok", ""));
    let (trace, findings) = good(&deep);
    assert_eq!(rows(&trace).len(), 1);
    assert!(findings[0].text.contains("deeper than the limit"), "{}", findings[0]);
    let broken = format!("[{}{}]", event("ok", ""), r#",{"ph":!}"#.repeat(MAX_BROKEN_EVENTS as usize + 5));
    let (_, findings) = good(&broken);
    assert_eq!(codes(&findings), ["operator_trace_broken", "operator_event_unreadable"]);
}

#[test]
fn packed_files_are_unpacked_within_bounds() {
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;
    let pack = |bytes: &[u8]| {
        let mut packer = GzEncoder::new(Vec::new(), Compression::best());
        packer.write_all(bytes).expect("memory");
        packer.finish().expect("memory")
    };
    let text = br#"[{"ph":"X","name":"a","ts":1,"dur":1}]"#;
    let mut two = pack(&text[..9]);
    two.extend(pack(&text[9..]));
    let (trace, findings) = read_from(window::unpack(two.as_slice()), "t.json.gz");
    assert_eq!((rows(&trace.expect("two members")).len(), findings.len()), (1, 0));
    let bomb = [&text[..text.len() - 1], &vec![b' '; 64 << 20], b"]"].concat();
    let (trace, findings) = read_from(window::unpack(pack(&bomb).as_slice()), "t.json.gz");
    assert!(!trace.expect("what came before").complete);
    assert_eq!(codes(&findings), ["operator_read_failed", "operator_unclosed"]);
    assert!(findings[0].text.contains("times its size, the limit"), "{}", findings[0]);
    let cut = pack(text);
    let (_, findings) = read_from(window::unpack(&cut[..cut.len() - 9]), "t.json.gz");
    assert_eq!(findings[0].code, "operator_read_failed");
    assert_eq!(findings[0].severity, Severity::Error);
}

#[test]
fn a_failing_disk_keeps_what_was_read() {
    let text = br#"[{"ph":"X","name":"a","ts":1,"dur":1},{"ph":"X""#;
    let (trace, findings) = read_from(Drip { rest: text, size: 7, fails: true }, "t.json");
    assert_eq!(rows(&trace.expect("one event")).len(), 1);
    assert_eq!(codes(&findings), ["operator_read_failed", "operator_cut_event", "operator_unclosed"]);
}

#[test]
fn traces_are_recognised_by_how_they_begin() {
    for (head, is) in [
        (r#"{"schemaVersion":1,"deviceProperties":["#, true),
        ("\u{feff}[\n {\"name\":\"a\",\"ph\":\"X\"", true),
        (r#"{"otherData":{},"traceEvents":["#, true),
        ("[1,2]", false),
        (r#"{"schema_version":1,"route":"x"}"#, false),
        (r#"[{"name":1}]"#, false),
    ] {
        assert_eq!(begins_a_trace(head.as_bytes()), is, "{head}");
    }
}

/// A trace with something of everything.
const SUBJECT: &str = r#"{"schemaVersion":1,"deviceProperties":[{"id":0}],"traceEvents":[
{"ph":"M","name":"process_name","pid":1,"args":{"name":"p"}},
{"ph":"X","cat":"cpu_op","name":"a\u00e9\n","pid":1,"tid":1,"ts":1.25,"dur":"8.5","args":{"External id":3,"list":[1,{"x":inf}]}},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":2,"dur":1e0,"args":{"correlation":5}},
{"ph":"X","cat":"kernel","name":"k<\"1\", \"2\">","pid":0,"tid":7,"ts":3,"dur":4,"args":{"correlation":5,"bytes":9}},
{"ph":"s","cat":"ac2g","name":"ac2g","id":5,"pid":1,"tid":1,"ts":2},{"ph":"f","cat":"ac2g","name":"ac2g","id":5,"pid":0,"tid":7,"ts":3,"bp":"e"},
{"ph":"B","name":"b","pid":1,"tid":2,"ts":1},{"ph":"E","pid":1,"tid":2,"ts":2},{"ph":"i","name":"m","pid":1,"tid":1,"ts":2,"s":"t"},
{"ph":"C","name":"c","pid":1,"ts":4,"args":{"x":1,"y":2.5}},{"ph":"b","cat":"z","id":"q","name":"z","pid":1,"ts":1},{"ph":"e","cat":"z","id":"q","name":"z","pid":1,"ts":2}
],"traceName":"t","baseTimeNanoseconds":12}"#;

#[test]
fn the_window_never_shows() {
    let (whole, findings) = good(SUBJECT);
    assert_eq!(whole.slice_count(), 5);
    for size in [1, 2, 3, 7, 64, 1000] {
        let (trace, again) = read_from(Drip { rest: SUBJECT.as_bytes(), size, fails: false }, "t.json");
        assert!(trace.as_ref() == Some(&whole) && again == findings, "{size} bytes at a time");
    }
}

#[test]
fn every_cut_keeps_the_events_before_it() {
    let mut before = 0;
    for end in 0..SUBJECT.len() - 1 {
        let (trace, findings) = load(&SUBJECT.as_bytes()[..end]);
        let events = trace.as_ref().map_or(0, |trace| trace.events);
        assert!(events >= before, "cut at {end}");
        assert!(trace.is_none_or(|trace| !trace.complete) && !findings.is_empty(), "cut at {end} is said");
        before = events;
    }
    assert_eq!(before, 12);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_bytes_break_the_reader(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        let (trace, findings) = load(&bytes);
        prop_assert!(trace.is_some() || !findings.is_empty());
    }

    #[test]
    fn no_mutation_breaks_the_reader(changes in proptest::collection::vec((0..SUBJECT.len(), any::<u8>(), 0..3_u8), 1..12)) {
        let mut bytes = SUBJECT.as_bytes().to_vec();
        for (at, byte, how) in changes {
            let at = at.min(bytes.len() - 1);
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, b"\"{}[],:\\"[usize::from(byte) % 8]),
                _ => drop(bytes.remove(at)),
            }
        }
        let (trace, findings) = load(&bytes);
        prop_assert!(trace.is_some() || !findings.is_empty());
        if let Some(trace) = trace {
            for track in &trace.tracks {
                prop_assert!(track.slices.iter().all(|slice| slice.start <= slice.end));
                prop_assert!(track.slices.is_sorted_by_key(OperatorSlice::order));
            }
        }
    }
}
