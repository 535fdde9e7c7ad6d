//! Operator traces of profilers, as people have them: recorded, damaged and made up.
//!
//! Proves: every recorded trace comes out with as many slices as it has, to the nanosecond, on tracks where slices nest; the
//! values of the known failures are right; what is unavailable is never zero; what was repaired or lost is said, and `--strict`
//! fails on it where something was lost.

use crate::support::trace::{Reading, sound};
use crate::support::{Ran, command, data, ran, scratch};
use ddo_analyzer::analysis::operators::{host_self_ns, summary};
use ddo_analyzer::output::operators::{Form, json, lines, tables};
use ddo_analyzer::output::perfetto::{CHILD_TRACK, TraceOptions, TraceStats, too_large, write};
use ddo_analyzer::run::operators::OperatorTrace;
use ddo_analyzer::run::{Run, shorten_to};
use ddo_analyzer::{analysis, ingest};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;
use serde_json::Value;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

fn load(path: &Path) -> Run {
    ingest::load(path).unwrap_or_else(|error| panic!("{error}"))
}

fn case(path: &str) -> Run {
    load(&data("cases").join(path))
}

fn one(run: &Run) -> &OperatorTrace {
    assert_eq!(run.operators.len(), 1);
    &run.operators[0]
}

fn encoded(run: &Run) -> (Reading, TraceStats) {
    let mut bytes = Vec::new();
    let stats = write(run, &TraceOptions::default(), &mut bytes).expect("memory takes everything");
    let mut again = Vec::new();
    write(run, &TraceOptions::default(), &mut again).expect("memory takes everything");
    assert!(bytes == again, "the same run gives the same bytes");
    let reading = sound(&bytes);
    assert_eq!((stats.slices, stats.flows), (reading.slices.len() as u64, reading.flows as u64));
    (reading, stats)
}

fn codes(run: &Run) -> Vec<String> {
    analysis::findings(run).into_iter().map(|finding| finding.code).collect()
}

fn count_of(run: &Run, code: &str) -> u64 {
    let findings = analysis::findings(run);
    let found = findings.iter().find(|finding| finding.code == code).unwrap_or_else(|| panic!("no {code} in {findings:#?}"));
    found.text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("no count: {found}"))
}

/// Device rows, time added up and time with at least one running, in nanoseconds.
fn busy(run: &Run) -> Option<(u64, u64, u64)> {
    summary(one(run)).busy.map(|busy| (busy.events, busy.sum_ns, busy.union_ns))
}

/// Self and inclusive host time of a name, in nanoseconds.
fn host(run: &Run, name: &str) -> (u64, u64) {
    let trace = one(run);
    let row = summary(trace).host.iter().find(|row| trace.name(row.name) == name).unwrap_or_else(|| panic!("no {name}"));
    (row.self_ns, row.inclusive_ns)
}

/// All recorded operator traces.
fn recorded() -> Vec<PathBuf> {
    let mut files = Vec::new();
    let folders = ["cases/real", "torch-traces", "peer-runs/small-ring/operators", "peer-runs/small-cache-full/operators"];
    for folder in folders {
        files.extend(std::fs::read_dir(data(folder)).expect("a folder").map(|entry| entry.expect("an entry").path()));
    }
    files.sort();
    assert!(files.len() >= 20, "{files:?}");
    files
}

fn text(path: &Path) -> Vec<u8> {
    let file = File::open(path).expect("readable");
    let mut bytes = Vec::new();
    let read = match path.extension().is_some_and(|extension| extension == "gz") {
        true => flate2::read::MultiGzDecoder::new(file).read_to_end(&mut bytes),
        false => std::io::BufReader::new(file).read_to_end(&mut bytes),
    };
    read.expect("readable");
    bytes
}

/// Nanoseconds of a number with at most three digits after the point, which the shortest float of that size still tells apart.
fn nanoseconds(value: &Value) -> i64 {
    let float = value.as_f64().expect("a number");
    assert!(float.abs() < 8.0e12 || float.fract() == 0.0, "{float} has no three digits");
    let digits = format!("{float:.3}").replace('.', "");
    digits.parse().expect("digits")
}

/// Name, start from the first event, and length of every complete event, read by another parser.
fn went_in(bytes: &[u8]) -> Vec<(String, u64, u64)> {
    let value: Value = serde_json::from_slice(bytes).expect("recorded traces are JSON");
    let events = value["traceEvents"].as_array().expect("a list");
    let drawn = |event: &&Value| ["X", "i", "s", "f"].iter().any(|phase| event["ph"] == *phase);
    let first = events.iter().filter(drawn).map(|event| nanoseconds(&event["ts"])).min().expect("some");
    let slices = events.iter().filter(|event| event["ph"] == "X").map(|event| {
        let name = shorten_to(event["name"].as_str().expect("a name"), 1_000);
        (name, (nanoseconds(&event["ts"]) - first) as u64, nanoseconds(&event["dur"]) as u64)
    });
    let mut slices: Vec<_> = slices.collect();
    slices.sort();
    slices
}

/// Slices of the trace's own rows; the tracks of child ranges show some of them once more.
fn rows(reading: &Reading) -> impl Iterator<Item = &crate::support::trace::Slice> {
    reading.slices.iter().filter(|slice| !slice.track.contains(CHILD_TRACK))
}

fn came_out(reading: &Reading) -> Vec<(String, u64, u64)> {
    let mut slices: Vec<_> = rows(reading).map(|slice| (slice.name.clone(), slice.start - 1, slice.end - slice.start)).collect();
    slices.sort();
    slices
}

#[test]
fn every_recorded_trace_comes_out_as_it_went_in() {
    for path in recorded() {
        let run = load(&path);
        let (reading, _) = encoded(&run);
        assert!(came_out(&reading) == went_in(&text(&path)), "{}: a slice was lost, moved or changed", path.display());
        assert!(one(&run).complete, "{}", path.display());
        let found = summary(one(&run));
        assert_eq!((found.not_drawn, found.arrows), (0, reading.flows as u64), "{}", path.display());
    }
}

#[test]
fn c20_words_for_numbers_are_dropped_and_counted() {
    let run = case("C20/inf.json");
    assert_eq!(count_of(&run, "operator_non_finite"), 3);
    assert_eq!(busy(&run), Some((2, 5_000, 5_000)));
    let (reading, _) = encoded(&run);
    assert_eq!(reading.slices.len(), 2);
    assert!(reading.slices.iter().any(|slice| slice.start == slice.end), "the copy of length zero is kept");
}

#[test]
fn c21_broken_text_is_repaired_and_never_silently_empty() {
    let ctrl = case("C21/ctrl.json");
    assert_eq!((one(&ctrl).slice_count(), count_of(&ctrl, "operator_control_characters")), (2, 1));
    let (reading, _) = encoded(&ctrl);
    assert!(reading.slices.iter().any(|slice| slice.name.starts_with("cfg.py(0): \u{fffd}")), "{:?}", reading.slices);
    let quotes = case("C21/unescaped_quote_newline.json");
    assert_eq!(count_of(&quotes, "operator_unescaped_quotes"), 1);
    let names: Vec<String> = came_out(&encoded(&quotes).0).into_iter().map(|(name, ..)| name).collect();
    assert_eq!(names, ["lib = L(\"t\", \"I\")\u{fffd}(1): <module>", "ok1", "ok2"]);
    let escape = case("C21/bad_escape.json");
    assert_eq!((one(&escape).slice_count(), count_of(&escape, "operator_bad_escape")), (1, 1));
    assert_eq!(host(&escape, r"C:\Temp\qx.py(3): f"), (2_000, 2_000));
}

#[test]
fn c22_negative_and_missing_durations_are_moments_and_zero_is_a_duration() {
    let run = case("C22/neg.json");
    assert_eq!(host_self_ns(summary(one(&run))), Some(10_000));
    assert_eq!((count_of(&run, "operator_negative_duration"), count_of(&run, "operator_missing_duration")), (1, 1));
    let (reading, _) = encoded(&run);
    let lengths: Vec<(&str, u64)> = reading.slices.iter().map(|slice| (slice.name.as_str(), slice.end - slice.start)).collect();
    assert_eq!(lengths, [("b", 10_000), ("c", 0)]);
    for name in ["a", "nodur"] {
        assert!(reading.instants.iter().any(|(instant, _)| instant == name), "{name}: {:?}", reading.instants);
    }
}

#[test]
fn c23_overlaps_are_kept_on_lanes() {
    let run = case("C23/overlap_same_tid.json");
    let (reading, _) = encoded(&run);
    assert_eq!(came_out(&reading), [("A".to_string(), 0, 3_776), ("B".to_string(), 2_000, 2_000)]);
    assert_ne!(reading.slices[0].track, reading.slices[1].track);
    assert_eq!(count_of(&run, "operator_overlaps"), 1);
    let alexnet = case("real/hta_alexnet.json.gz");
    assert_eq!(busy(&alexnet), Some((98, 66_203_000, 66_141_000)));
    assert_eq!((count_of(&alexnet, "operator_overlaps"), encoded(&alexnet).0.slices.len()), (8, 868));
}

#[test]
fn c24_numbers_in_quotes_are_exact_and_identifiers_stay_apart() {
    let run = case("C24/string_ts.json");
    let trace = one(&run);
    let slice = trace.tracks.iter().find_map(|track| track.slices.first()).expect("a kernel");
    assert_eq!((slice.start, slice.end), (1_778_640_000_000_123_456, 1_778_640_000_000_125_956));
    assert_eq!(count_of(&run, "operator_text_number"), 5);
    let found = summary(trace);
    assert_eq!((found.arrows, found.flows_unmatched), (1, 1), "of two numbers that differ by one, one has its other end");
    let (reading, _) = encoded(&run);
    assert_eq!((reading.flows, reading.slices[0].start), (1, 3_456), "times count from the first event");
}

#[test]
fn c25_c30_the_display_unit_scales_nothing_and_late_members_are_read() {
    for file in ["C25/unit_ms.json", "C25/unit_ns.json"] {
        assert_eq!(busy(&case(file)), Some((1, 15_000_000_250, 15_000_000_250)), "{file}");
    }
    let run = case("C30/metadata_after.json");
    assert_eq!(one(&run).base_time_ns, Some(1_735_632_360_000_000_000));
    assert_eq!(json(&run, 1)["traces"][0]["base_time_ns"], "1735632360000000000", "as text, for a browser would round it");
}

#[test]
fn c26_decimals_are_exact() {
    assert_eq!(busy(&case("C26/sub_us.json")), Some((1, 200, 200)));
    let run = case("C26/abs_epoch_adjacent.json");
    assert_eq!((host(&run, "parent"), host(&run, "child")), ((453, 1_100), (647, 647)));
    let (reading, _) = encoded(&run);
    let depth = |name: &str| reading.slices.iter().find(|slice| slice.name == name).map(|slice| slice.depth);
    assert_eq!((depth("parent"), depth("child"), summary(one(&run)).overlaps), (Some(0), Some(1), 0));
    assert_eq!(count_of(&case("real/tracelens_h100_bert_small.json.gz"), "operator_overlaps"), 2);
}

#[test]
fn c27_what_was_not_recorded_is_unavailable() {
    let cpu = case("real/hta_cpu_only.json.gz");
    assert_eq!((one(&cpu).slice_count(), busy(&cpu)), (16, None));
    let finding = analysis::findings(&cpu).into_iter().find(|finding| finding.code == "operator_no_device_activity");
    assert!(finding.is_some_and(|finding| analysis::is_serious(&finding)), "the file has a list of devices");
    assert!(lines(&cpu)[0].contains("device unavailable"), "{:?}", lines(&cpu));
    assert_eq!(json(&cpu, 40)["traces"][0]["device"], Value::Null);
    assert_eq!(json(&cpu, 40)["traces"][0]["top_host"][0]["device_ns"], Value::Null);
    let gpu = case("real/tracelens_mi210_gpu_only.json.gz");
    assert_eq!(busy(&gpu), Some((562, 5_343_422, 5_343_422)));
    assert!(lines(&gpu)[0].contains("host operators unavailable"), "{:?}", lines(&gpu));
    assert!(codes(&gpu).contains(&"operator_no_operators".to_string()));
}

#[test]
fn c28_annotations_are_no_work_and_wrappers_have_self_time() {
    let run = case("C28/nested_and_annotation.json");
    let times = [host(&run, "aten::linear"), host(&run, "aten::addmm"), host(&run, "cudaLaunchKernel")];
    assert_eq!(times, [(20_000, 100_000), (75_000, 80_000), (5_000, 5_000)]);
    assert_eq!(busy(&run), Some((1, 30_000, 30_000)));
    assert_eq!(encoded(&run).0.slices.len(), 5);
    let mi250 = case("real/hta_mi250_minitoy.json.gz");
    assert_eq!((busy(&mi250), summary(one(&mi250)).marks), (Some((16, 149_042, 149_042)), (2, 1_039_851)));
    assert_eq!(busy(&case("real/tracelens_torch_compile_triton.json.gz")), Some((12, 12_549_021, 12_549_021)));
}

fn analyze(words: &[&str]) -> Ran {
    let ran = ran(command("ddo-analyze").current_dir(data("cases")).args(words));
    assert!(!ran.err.contains("panicked"), "{ran:?}");
    ran
}

#[test]
fn c29_files_that_break_off_keep_what_they_have_and_say_so_first() {
    let at = scratch("operators-cut");
    let out = at.path().join("out");
    let out = out.to_str().expect("text");
    for (file, code) in [("C29/no_close.json", "operator_unclosed"), ("C29/cut_mid_event.json", "operator_cut_event")] {
        let run = case(file);
        assert_eq!((one(&run).slice_count(), one(&run).complete), (1, false));
        let said = analyze(&["trace", file, "--force", "--out", out]).ended(0);
        assert!(said.out.starts_with("warning: ") && said.out.lines().next().is_some_and(|l| l.contains(code)), "{}", said.out);
        analyze(&["trace", file, "--force", "--out", out, "--strict"]).ended(5);
        analyze(&["operators", file, "--strict"]).ended(5);
        let screen = analyze(&[file, "--force", "--out", out]).ended(0).out;
        assert!(screen.starts_with("WARNING"), "{screen}");
        assert!(screen.lines().any(|line| line.starts_with("operators ") && line.contains("incomplete")), "{screen}");
    }
    analyze(&["operators", "C20/inf.json", "--strict"]).ended(0);
}

#[test]
fn c31_several_values_of_one_event_are_several_counters() {
    let at = scratch("operators-counters");
    let path = at.path().join("gauges.json");
    let text = r#"{"traceEvents":[{"ph":"C","name":"memory","pid":1,"ts":1,"args":{"used":10,"free":90,"share":0.1}},
        {"ph":"C","name":"memory","pid":1,"ts":2.5,"args":{"used":20,"free":80,"share":0.2}}]}"#;
    std::fs::write(&path, text).expect("written");
    let (reading, stats) = encoded(&load(&path));
    assert_eq!((stats.counter_values, reading.points.len(), reading.fractions.len()), (6, 4, 2));
    let of = |name: &str| -> Vec<(u64, i64)> {
        reading.points.iter().filter(|(track, ..)| track.ends_with(name)).map(|(_, at, value)| (*at, *value)).collect()
    };
    assert_eq!((of("memory: used"), of("memory: free")), (vec![(1, 10), (1_501, 20)], vec![(1, 90), (1_501, 80)]));
    assert_eq!(reading.fractions.iter().map(|(_, _, value)| *value).collect::<Vec<_>>(), [0.1, 0.2]);
    assert_eq!(too_large(4 << 30), None);
    assert!(too_large((4 << 30) + 1).is_some_and(|finding| analysis::is_serious(&finding)));
}

#[test]
fn c38_a_kernel_before_its_launch_is_flagged_and_not_moved() {
    let at = scratch("operators-inversion");
    let path = at.path().join("inversion.json");
    let text = r#"[{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":1,"tid":1,"ts":10,"dur":5,"args":{"correlation":1}},
        {"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":9.7,"dur":4,"args":{"correlation":1}},
        {"ph":"s","cat":"ac2g","name":"ac2g","id":1,"pid":1,"tid":1,"ts":10},{"ph":"f","cat":"ac2g","name":"ac2g","id":1,"pid":0,"tid":7,"ts":9.7,"bp":"e"}]"#;
    std::fs::write(&path, text).expect("written");
    let run = load(&path);
    assert_eq!(summary(one(&run)).before_launch, (1, 300));
    assert_eq!(count_of(&run, "operator_before_launch"), 1);
    let (reading, _) = encoded(&run);
    assert_eq!((came_out(&reading), reading.flows), (vec![("cudaLaunchKernel".into(), 300, 5_000), ("k".into(), 0, 4_000)], 0));
    assert!(reading.instants.iter().any(|(name, _)| name == "operator_before_launch"), "it stands on the data quality track");
}

#[test]
fn a_folder_with_operator_traces_shows_them_as_groups_of_their_own() {
    for folder in ["small-ring", "small-cache-full"] {
        let run = load(&data("peer-runs").join(folder));
        assert_eq!(run.operators.len(), 2, "{folder}");
        assert!(!codes(&run).contains(&"operator_trace_not_read".to_string()));
        let (reading, _) = encoded(&run);
        let samples: u64 = run.operators.iter().map(OperatorTrace::slice_count).sum();
        let all = reading.on("operator samples");
        assert_eq!(all.filter(|slice| !slice.track.contains(CHILD_TRACK)).count() as u64, samples);
        let children = reading.on(CHILD_TRACK).map(|slice| slice.name.as_str());
        let children: Vec<&str> = children.collect();
        assert_eq!(children.len(), 2 * 7, "the sampled block has seven children, in two calls: {children:?}");
        assert!(children.iter().all(|name| name.starts_with("ddo.forward.")), "{children:?}");
        for number in ["00", "02"] {
            let group = format!("operator samples operators_invocation_{number} (unaligned): python3");
            assert!(reading.slices.iter().any(|slice| slice.track.starts_with(&group)), "{folder}: no {group}");
        }
        assert!(reading.slices.iter().any(|slice| !slice.track.starts_with("operator samples")), "the windows are still there");
        assert_eq!(lines(&run).len(), 2);
    }
}

#[test]
fn tables_say_the_same_in_every_form() {
    let run = load(&data("torch-traces/ddo_linear_auto.json.gz"));
    let value = json(&run, 40);
    let top = |key: &str| value["traces"][0][key].as_array().expect("a list").len();
    assert_eq!((top("top_host"), top("top_device") <= 40), (40, true));
    assert_eq!(value["traces"][0]["device"]["sum_ns"], 149_536_235);
    let first = value["traces"][0]["top_device"][0]["device_ns"].as_u64().expect("a number");
    let shown = format!("{}.{:03}", first / 1_000, first % 1_000);
    for form in [Form::Text, Form::Markdown] {
        let text = tables(&run, 3, form);
        assert!(text.contains(&shown) && text.contains("more row(s)"), "{text}");
        assert_eq!(text.contains("|--"), form == Form::Markdown, "{text}");
    }
    let said = analyze(&["operators", "../torch-traces/ddo_linear_auto.json.gz", "--top", "2", "--json"]).ended(0);
    let value: Value = serde_json::from_str(&said.out).expect("JSON alone");
    assert_eq!(value["traces"][0]["top_host"].as_array().map(Vec::len), Some(2));
    let none = analyze(&["operators", "C39"]).ended(2);
    assert!(none.err.contains("no operator trace"), "{}", none.err);
}

/// Events of a made-up trace: thread, start and length in tenths of nanoseconds.
fn made_up() -> impl Strategy<Value = Vec<(u8, u32, u32)>> {
    proptest::collection::vec((0..3_u8, 0..400_u32, prop_oneof![Just(0_u32), 0..30_u32, 0..300_u32]), 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 64,
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        ..ProptestConfig::default()
    })]

    #[test]
    fn any_arrangement_comes_out_as_it_went_in(rows in made_up()) {
        let micro = |tenths: u32| format!("{}.{:04}", tenths / 10_000, tenths % 10_000);
        let events: Vec<String> = rows.iter().enumerate().map(|(at, (thread, start, length))| {
            format!(r#"{{"ph":"X","cat":"cpu_op","name":"n{at}","pid":1,"tid":{thread},"ts":{},"dur":{}}}"#, micro(*start), micro(*length))
        }).collect();
        let at = scratch("operators-random");
        let path = at.path().join("random.json");
        std::fs::write(&path, format!("{{\"traceEvents\":[{}]}}", events.join(",\n"))).expect("written");
        let (reading, _) = encoded(&load(&path));
        // Both ends to the nearest nanosecond, halves up.
        let ns = |tenths: u32| u64::from((tenths + 5) / 10);
        let first = rows.iter().map(|(_, start, _)| ns(*start)).min().expect("some");
        let mut expected: Vec<_> = rows.iter().enumerate().map(|(at, (_, start, length))| {
            (format!("n{at}"), ns(*start) - first, ns(start + length) - ns(*start))
        }).collect();
        expected.sort();
        prop_assert_eq!(came_out(&reading), expected);
    }
}
