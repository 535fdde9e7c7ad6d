//! Folders on disk, good and broken.

use super::*;
use crate::run::Scalar;
use ddo_schemas::Severity;
use serde_json::{Value, json};
use std::fs;
use std::path::PathBuf;

/// A folder that is removed again.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("ddo-ingest-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a temporary folder");
        Folder(path)
    }

    fn file(&self, name: &str, contents: impl AsRef<[u8]>) -> &Folder {
        let path = self.0.join(name);
        fs::create_dir_all(path.parent().expect("inside the folder")).expect("folders");
        fs::write(path, contents).expect("a file");
        self
    }

    fn load(&self) -> Run {
        load(&self.0).expect("something is usable")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn record(step: Option<u64>, elapsed: f64, values: Value) -> Value {
    json!({"schema_version": 1, "observation": "partial_host_step_boundary", "step_index": step,
        "host_elapsed_seconds": elapsed, "gpu_completion_proven": false, "completion_collection_requested": false,
        "metrics": {"schema_version": 1, "runtime": {"vmm": values}}})
}

fn codes(run: &Run) -> Vec<&str> {
    run.findings.iter().filter(|finding| finding.severity > Severity::Note).map(|finding| finding.code.as_str()).collect()
}

fn text<'a>(run: &'a Run, code: &str) -> &'a str {
    let found = run.findings.iter().find(|finding| finding.code == code);
    &found.unwrap_or_else(|| panic!("{code} in {:?}", run.findings)).text
}

#[test]
fn a_torn_publication_costs_only_itself() {
    let folder = Folder::new("torn");
    for (name, step) in [("before_denoise.json", None), ("step_0000.json", Some(0)), ("step_0001.json", Some(1))] {
        folder.file(name, record(step, step.map_or(0.0, |step| step as f64 + 1.0), json!({"fast_uploads": 1})).to_string());
    }
    folder.file("step_0002.json.tmp", "{\"schema_version\":1,\"observation\":\"partial_ho").file("step_0003.json", "");
    let run = folder.load();
    let steps: Vec<Option<u64>> = run.components[0].records.iter().map(|record| record.step).collect();
    assert_eq!(steps, [None, Some(0), Some(1)], "step 2 is not invented");
    assert_eq!(codes(&run), ["empty_file", "unpublished_temporary"]);
}

#[test]
fn integers_stay_exact_to_64_bits() {
    let folder = Folder::new("big");
    folder.file("before_denoise.json", record(None, 0.0, json!({"copied_bytes": 9_007_199_254_740_993_u64})).to_string());
    folder.file("step_0000.json", record(Some(0), 1.0, json!({"copied_bytes": u64::MAX})).to_string());
    let run = folder.load();
    let values: Vec<&Scalar> =
        run.components[0].records.iter().map(|record| &record.values["runtime.vmm.copied_bytes"]).collect();
    assert_eq!(values, [&Scalar::U64(9_007_199_254_740_993), &Scalar::U64(u64::MAX)]);
}

#[test]
fn broken_files_are_named_with_their_bytes() {
    let folder = Folder::new("broken");
    folder.file("step_0000.json", record(Some(0), 1.0, json!({})).to_string());
    folder.file("nul.json", [0_u8; 64]).file("cut.json", "{\n \"a\": 1,\n \"b\": [1, 2");
    folder.file("nan.json", "{\"a\": NaN}").file("deep.json", "[".repeat(100_000)).file("huge.json", "{\"a\": 1e999}");
    folder.file("latin.json", b"{\"a\": \"\xff\"}").file("words.txt", "not looked into");
    let run = folder.load();
    assert_eq!(text(&run, "torn_json"), "ends in the middle at byte 22 (line 3, column 11): EOF while parsing a list");
    assert!(text(&run, "nul_filled_file").contains("64 NUL bytes"));
    assert!(text(&run, "json_too_deep").contains("nested too deeply"));
    let non_finite = run.findings.iter().filter(|finding| finding.code == "non_finite_number").count();
    assert_eq!(non_finite, 2, "{:?}", run.findings);
    assert_eq!(text(&run, "other_files"), "1 other file(s) were not looked into");
}

#[test]
fn labels_numbers_and_versions_are_checked() {
    let folder = Folder::new("labels");
    let mut wrong = record(Some(7), 1.0, json!({}));
    wrong["observation"] = json!("final_result");
    wrong["gpu_completion_proven"] = json!(true);
    folder.file("step_0000.json", record(Some(0), 1.0, json!({})).to_string()).file("step_0005.json", wrong.to_string());
    let mut newer = record(Some(8), 2.0, json!({}));
    newer["schema_version"] = json!(2);
    folder.file("step_0008.json", newer.to_string());
    let run = folder.load();
    assert_eq!(run.components[0].records.len(), 2);
    assert!(text(&run, "schema_version_unknown").contains("has schema version 2; this reader knows versions up to 1"));
    assert!(text(&run, "step_index_mismatch").contains("step 5"));
    assert_eq!(text(&run, "journal_step_missing"), "steps 1..6 are missing; nothing is assumed about them");
    for code in ["wrong_observation_label", "wrapper_label_not_fixed"] {
        text(&run, code);
    }
}

#[test]
fn steps_are_ordered_by_number_not_by_name() {
    let folder = Folder::new("order");
    for step in [9_999_u64, 10_000, 10_001] {
        folder
            .file(&format!("snapshots/transformer/step_{step:04}.json"), record(Some(step), step as f64, json!({})).to_string());
    }
    let run = folder.load();
    let steps: Vec<Option<u64>> = run.components[0].records.iter().map(|record| record.step).collect();
    assert_eq!(steps, [Some(9_999), Some(10_000), Some(10_001)]);
    assert_eq!(run.components[0].name, "transformer");
}

#[test]
fn memory_lines_and_the_missing_seal() {
    let folder = Folder::new("memory");
    let line = json!({"schema_version": 1, "elapsed_seconds": 0.1, "rss_bytes": 7, "query_seconds": 0.001});
    folder.file("memory.ndjson", format!("{line}\n{line}\n{{\"schema_ver"));
    folder.file("manifest.json", json!({"schema_version": 1, "tool": "t", "command": ["true"], "environment": {}, "labels": {},
        "settings": {"schema_version": 1, "journal": "steps", "gpu_timing": false, "native_timeline": false, "native_timeline_capacity": 1},
        "settings_origin": {}, "memory_monitor": "rss", "memory_interval_seconds": 0.1,
        "clocks": {"monotonic_seconds": 5.0, "wall_utc": "x"}, "machine": {}}).to_string());
    let run = folder.load();
    assert_eq!(run.memory.len(), 2);
    assert!(run.manifest.is_some());
    assert_eq!(codes(&run), ["memory_last_line_cut", "not_sealed"]);
}

#[test]
fn undeclared_fields_beside_the_reports_are_one_note() {
    let folder = Folder::new("beside");
    let line = json!({"schema_version": 1, "elapsed_seconds": 0.1, "rss_bytes": 7, "query_seconds": 0.001, "pss_bytes": 3});
    folder.file("memory.ndjson", format!("{line}\n{line}\n"));
    folder.file(
        "manifest.end.json",
        json!({"schema_version": 1, "status": "exited", "exit_code": 0, "duration_seconds": 1.0,
        "weather": {"wind": 3}, "findings": [{"severity": "note", "code": "c", "where": "w", "text": "t"}]})
        .to_string(),
    );
    let run = folder.load();
    let unknown: Vec<&Finding> = run.findings.iter().filter(|f| f.code == "unknown_document_fields").collect();
    assert_eq!(unknown.len(), 1);
    assert!(unknown[0].text.starts_with("2 field(s)") && unknown[0].text.ends_with("manifest_end.weather.wind"), "{unknown:?}");
    assert_eq!(codes(&run), [""; 0]);
}

#[test]
fn records_under_odd_names_count_and_are_named() {
    let folder = Folder::new("names");
    folder.file("step_0000.json", record(Some(0), 1.0, json!({})).to_string());
    folder.file("step_1.json", record(Some(1), 2.0, json!({})).to_string());
    let run = folder.load();
    assert_eq!(run.components[0].records.len(), 2);
    let named: Vec<&str> =
        run.findings.iter().filter(|f| f.code == "record_name_not_canonical").map(|f| f.place.as_str()).collect();
    assert_eq!(named, ["step_1.json"]);
}

#[test]
fn the_time_of_an_observation_is_read_and_checked() {
    let folder = Folder::new("observed");
    for (step, observed) in [(0_u64, json!(5.5)), (1, json!(5.25)), (2, json!("late"))] {
        let mut value = record(Some(step), step as f64, json!({}));
        value["metrics"]["runtime"]["observed_monotonic_seconds"] = observed;
        folder.file(&format!("step_{step:04}.json"), value.to_string());
    }
    let run = folder.load();
    let observed: Vec<Option<i64>> = run.components[0].records.iter().map(|record| record.observed_ns).collect();
    assert_eq!(observed, [Some(5_500_000_000), Some(5_250_000_000), None]);
    assert_eq!(codes(&run), ["observed_time_decreases", "observed_time_unusable"]);
    text(&run, "observed_time_incomplete");
}

#[test]
fn nothing_usable_is_an_error_with_the_reason() {
    let folder = Folder::new("nothing");
    folder.file("step_0000.json", "");
    let error = load(&folder.0).expect_err("nothing is usable");
    assert!(error.to_string().contains("is empty"), "{error}");
    assert_eq!(error.exit_code(), 2);
    assert!(load(&folder.0.join("absent")).is_err());
}

#[cfg(unix)]
#[test]
fn links_are_reported_and_odd_names_are_read() {
    use std::os::unix::ffi::OsStrExt;
    let folder = Folder::new("links");
    folder.file("step_0000.json", record(Some(0), 1.0, json!({})).to_string());
    std::os::unix::fs::symlink("/etc", folder.0.join("outside")).expect("a link");
    let odd = folder.0.join(std::ffi::OsStr::from_bytes(b"odd-\xff.json"));
    fs::write(odd, record(Some(1), 2.0, json!({})).to_string()).expect("a file with an odd name");
    let run = folder.load();
    assert_eq!(run.components[0].records.len(), 2);
    assert_eq!(codes(&run), ["link_not_followed", "record_name_not_canonical"]);
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_never_opened() {
    use std::os::unix::net::UnixListener;
    let folder = Folder::new("socket");
    let path = folder.0.join("a.json");
    let _socket = UnixListener::bind(&path).expect("a socket");
    let pipe = folder.0.join("pipe.json");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    let piped = made.is_ok_and(|status| status.success());
    folder.file("step_0000.json", record(Some(0), 1.0, json!({})).to_string());
    let run = folder.load();
    assert_eq!(codes(&run), vec!["not_a_file"; 1 + usize::from(piped)]);
    for path in [Some(path), piped.then_some(pipe), Some("/dev/null".into())].into_iter().flatten() {
        let error = load(&path).expect_err("no input");
        assert!(error.to_string().ends_with("is neither a file nor a folder"), "{error}");
        assert_eq!(error.exit_code(), 2);
    }
}

#[test]
fn long_and_many_paths_are_left_out_and_counted() {
    let folder = Folder::new("paths");
    let many = |count: u32| Value::Object((0..count).map(|at| (format!("k{at}"), json!(1))).collect());
    let mut wide = record(Some(0), 1.0, json!({"fast_uploads": 7, "other": many(1_500)}));
    wide["metrics"]["runtime"]["x".repeat(100_000)] = many(20_000);
    folder.file("step_0000.json", wide.to_string());
    folder.file("step_0001.json", record(Some(1), 2.0, json!({"fast_uploads": 9})).to_string());
    let run = folder.load();
    assert_eq!(
        text(&run, "fields_left_out"),
        "fields were left out: 1 with a path of more than 512 bytes, and 500 beyond the first 1000 different undeclared ones \
         or the first 10000 of all"
    );
    let records = &run.components[0].records;
    assert_eq!(records[1].values["runtime.vmm.fast_uploads"], Scalar::U64(9), "the rest still loads");
    assert_eq!(records[0].values.len(), 1_001);
}

#[test]
fn reports_join_the_records_of_their_session() {
    let folder = Folder::new("sessions");
    let configuration = json!({"component": "encoder"});
    for (place, session) in [("encoder", "aa"), ("encoder.2", "bb")] {
        let mut record = record(None, 0.0, json!({}));
        record["metrics"]["configuration"] = configuration.clone();
        record["metrics"]["runtime"]["session_id"] = json!(session);
        folder.file(&format!("snapshots/{place}/before_denoise.json"), record.to_string());
    }
    let report = |session: Option<&str>| {
        let mut report = json!({"schema_version": 1, "route": "r", "configuration": configuration,
            "runtime": {"vmm": {"fast_uploads": 1}}});
        if let Some(session) = session {
            report["runtime"]["session_id"] = json!(session);
        }
        report.to_string()
    };
    for (name, session) in [("final", Some("aa")), ("final.2", Some("bb")), ("lone", Some("cc")), ("old", None)] {
        folder.file(&format!("reports/{name}.json"), report(session));
    }
    let run = folder.load();
    let names = |component: &crate::run::Component| component.reports.iter().map(|r| r.short_name().to_string()).collect();
    let found: Vec<(&str, Vec<String>)> = run.components.iter().map(|item| (item.name.as_str(), names(item))).collect();
    let words = |list: &[&str]| list.iter().map(|word| word.to_string()).collect::<Vec<_>>();
    let wanted = [("encoder", words(&["final", "old"])), ("encoder.2", words(&["final.2"])), ("encoder (2)", words(&["lone"]))];
    assert_eq!(found, wanted, "without records of its session a report stands alone; without a session its name decides");
}

#[test]
fn long_texts_and_deep_nesting_are_named_with_their_limits() {
    let folder = Folder::new("limits");
    let long = "x".repeat(crate::limits::MAX_TEXT_BYTES + 1);
    let value = json!({"fast_uploads": 7, "mode": &long, "label": &long[1..]});
    folder.file("step_0000.json", record(Some(0), 1.0, value).to_string());
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    folder.file("deepest.json", nested(crate::limits::MAX_JSON_DEPTH));
    folder.file("deeper.json", nested(crate::limits::MAX_JSON_DEPTH + 1));
    let run = folder.load();
    assert_eq!(text(&run, "texts_left_out"), "1 text(s) of more than 16384 bytes were left out");
    let values = &run.components[0].records[0].values;
    assert!(!values.contains_key("runtime.vmm.mode") && values.contains_key("runtime.vmm.label"));
    assert_eq!(codes(&run), ["json_too_deep", "texts_left_out"]);
    assert_eq!(text(&run, "json_too_deep"), "is nested too deeply at byte 128 (line 1, column 128); the limit is 127 levels");
}

#[test]
fn an_input_is_read_up_to_its_limits_in_all() {
    let folder = Folder::new("total");
    folder.file("step_0000.json", record(Some(0), 1.0, json!({})).to_string());
    let mut notes = Notes::default();
    let entries = walk::files(&folder.0, &mut notes).expect("a folder");
    let mut loader = Loader { bytes: crate::limits::MAX_TOTAL_JSON_BYTES, ..Loader::default() };
    loader.file(&entries[0], super::ahead::parse(&entries[0]));
    let findings = loader.notes.finish();
    assert_eq!(findings.iter().map(|finding| finding.code.as_str()).collect::<Vec<_>>(), ["input_too_large"]);
}

#[test]
fn files_belong_to_the_deepest_run_around_them() {
    let folder = Folder::new("runs");
    let names = ["a/manifest.json", "a/deep/manifest.json", "a/deep/reports/x.json", "a/y.json", "b/z.json"];
    for name in names {
        folder.file(name, "{}");
    }
    let mut notes = Notes::default();
    let entries = walk::files(&folder.0, &mut notes).expect("a folder");
    let split = runs::split(&entries, &mut notes);
    let shown: Vec<(&str, Vec<&str>)> =
        split.iter().map(|(run, files)| (run.as_str(), files.iter().map(|file| file.shown.as_str()).collect())).collect();
    let wanted = [
        ("", vec!["b/z.json"]),
        ("a", vec!["a/manifest.json", "a/y.json"]),
        ("a/deep", vec!["a/deep/manifest.json", "a/deep/reports/x.json"]),
    ];
    assert_eq!(shown, wanted);
    let one: Vec<walk::Entry> = entries.into_iter().filter(|entry| entry.shown != "a/deep/manifest.json").collect();
    assert_eq!(runs::split(&one, &mut notes).len(), 1, "one manifest speaks for the whole input");
}

#[test]
fn reports_stay_with_the_recording_that_they_lie_in() {
    let folder = Folder::new("side-by-side");
    let report =
        json!({"schema_version": 1, "route": "dynamic_offload", "configuration": {}, "runtime": {"vmm": {"fast_uploads": 1}}});
    let helper =
        json!({"schema_version": 1, "route": "model_load", "configuration": {"component": "t"}, "setup": {}, "runtime": {}});
    for place in ["one", "two"] {
        folder.file(&format!("{place}/denoise_snapshots/step_0000.json"), record(Some(0), 1.0, json!({})).to_string());
        folder.file(&format!("{place}/final.json"), report.to_string());
        folder.file(&format!("{place}/load.json"), helper.to_string());
    }
    folder.file("three/final.json", report.to_string());
    let run = folder.load();
    let found: Vec<(&str, Vec<&str>)> =
        run.components.iter().map(|c| (c.name.as_str(), c.reports.iter().map(|r| r.file.as_str()).collect())).collect();
    let wanted = [
        ("one", vec!["one/final.json", "one/load.json"]),
        ("two", vec!["two/final.json", "two/load.json"]),
        ("three", vec!["three/final.json"]),
    ];
    assert_eq!(found, wanted);
}
