//! Whole runs of the program on folders: same bytes for the same input, and no input that breaks it.

use super::*;
use crate::output::perfetto::protos::Trace;
use crate::output::perfetto::tests::replay;
use prost::Message;
use serde_json::{Value, json};
use std::fs;

/// A folder with an input and room for outputs, removed again.
struct Place(PathBuf);

impl Place {
    fn new(name: &str) -> Place {
        let path = std::env::temp_dir().join(format!("ddo-cli-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a temporary folder");
        Place(path)
    }

    fn write(&self, files: &[(String, Vec<u8>)]) {
        let _ = fs::remove_dir_all(self.0.join("in"));
        for (name, contents) in files {
            let path = self.0.join("in").join(name);
            fs::create_dir_all(path.parent().expect("inside the folder")).expect("folders");
            fs::write(path, contents).expect("a file");
        }
    }

    /// Runs the program; returns exit code, screen, trace and summary.
    fn analyze(&self, out: &str) -> (u8, Vec<u8>, Vec<u8>, Vec<u8>) {
        let folder = self.0.join(out);
        let _ = fs::remove_dir_all(&folder);
        let words = ["ddo-analyze".into(), self.0.join("in").into(), "--out".into(), folder.clone().into()];
        let words: Vec<OsString> = words.into_iter().collect();
        let mut screen = Vec::new();
        let code = main(words, &mut screen);
        let read = |name: &str| fs::read(folder.join(name)).unwrap_or_default();
        (code, screen, read(output::TRACE_FILE), read(output::SUMMARY_FILE))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn report(observed: f64, uploads: u64) -> Value {
    json!({"schema_version": 1, "route": "r", "configuration": {"component": "c", "weight_ceiling_bytes": 1 << 20,
        "link_bytes_per_second": 1000}, "runtime": {"observed_monotonic_seconds": observed, "state": {},
        "vmm": {"fast_uploads": uploads, "copied_bytes": uploads * 1000, "fast_fault_failures": 0,
            "fast_dma_enqueue_seconds": 0.001 * uploads as f64, "resident_bytes": 4096}}})
}

/// A small folder with every kind of document.
fn valid() -> Vec<(String, Vec<u8>)> {
    let mut files = vec![
        (
            "manifest.json".to_string(),
            json!({"schema_version": 1, "tool": "t", "command": ["a/b", "c d"], "environment": {}, "labels": {"k": "v"},
                "settings": {"schema_version": 1, "journal": "steps", "gpu_timing": true, "native_timeline": true,
                    "native_timeline_capacity": 8}, "settings_origin": {}, "memory_monitor": "rss",
                "memory_interval_seconds": 0.1, "clocks": {"monotonic_seconds": 50.0, "wall_utc": "x"}, "machine": {}}),
        ),
        (
            "manifest.end.json".to_string(),
            json!({"schema_version": 1, "status": "exited", "exit_code": 0, "duration_seconds": 3.0, "memory_samples": 2,
                "peak_rss_bytes": 9, "findings": []}),
        ),
    ];
    for at in 0..4_u64 {
        let step = at.checked_sub(1);
        let name = step.map_or("before_denoise.json".into(), |step| format!("step_{step:04}.json"));
        let record = json!({"schema_version": 1, "observation": "partial_host_step_boundary", "step_index": step,
            "host_elapsed_seconds": at as f64, "gpu_completion_proven": false, "completion_collection_requested": false,
            "metrics": report(51.0 + at as f64, at * 2)});
        files.push((format!("snapshots/c/{name}"), record));
    }
    let marker = |unit: u64| ("step_marker", unit);
    let kinds = [marker(0), ("upload_batch_window", 1), ("compute_upload_dependency", 1), ("execution_unit_window", 1)];
    let markers = [marker(1), marker(2), marker(3), marker(u64::MAX)];
    let samples: Vec<Value> = (0_u64..)
        .zip(kinds.into_iter().chain(markers))
        .map(|(at, (kind, unit))| {
            json!({"sequence": at + 1, "unit": unit, "stream": 1 + at % 2, "bytes": 7, "kind": kind, "status": "complete",
                "start_seconds": at as f64 * 0.5, "end_seconds": at as f64 * 0.5 + 0.75})
        })
        .collect();
    let mut whole = report(56.0, 8);
    whole["runtime"]["execution_timing"] = json!({"schema_version": 1, "clock": "host_stream", "unit": "seconds", "scope": "s",
        "failed": false, "status": "complete", "phase_seconds": 4.5, "step_seconds": [2.0, 1.0, 1.0], "tail_seconds": 0.5,
        "steady_state_seconds_per_step": 1.0});
    whole["runtime"]["native_timeline"] = json!({"schema_version": 1, "clock": "host_stream", "unit": "seconds", "scope": "s",
        "status": "complete", "capacity": 8, "dropped": 0, "failures": 0, "pending": 0, "samples": samples,
        "execution_units": {"1": "u"}, "epoch_host_before_seconds": 51.0, "epoch_host_after_seconds": 51.001});
    files.push(("reports/final.json".into(), whole));
    let mut files: Vec<(String, Vec<u8>)> = files.into_iter().map(|(name, value)| (name, value.to_string().into())).collect();
    let line = |elapsed: f64| json!({"schema_version": 1, "elapsed_seconds": elapsed, "rss_bytes": 5, "query_seconds": 0.001});
    files.push(("memory.ndjson".into(), format!("{}\n{}\n", line(0.5), line(1.5)).into()));
    files
}

#[test]
fn the_same_input_gives_the_same_bytes() {
    let place = Place::new("same");
    place.write(&valid());
    let (first, second) = (place.analyze("out"), place.analyze("out"));
    assert_eq!(first.0, 0, "{}", String::from_utf8_lossy(&first.1));
    assert!(first == second, "screen, trace and summary are the same byte for byte");
    let summary: Value = serde_json::from_slice(&first.3).expect("JSON");
    assert_eq!(summary["findings"], json!([]), "the folder is in order");
    let trace = Trace::decode(first.2.as_slice()).expect("decodes");
    assert_eq!(replay(&trace), 8 + 3 + 3 + 1, "windows, host steps, the steps between markers and what follows them");
}

#[test]
fn broken_bytes_never_break_the_program() {
    let place = Place::new("mutations");
    let good = valid();
    let mut state = 5_u64;
    let mut next = |limit: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % limit.max(1)
    };
    let tokens = ["-1", "1e308", "18446744073709551615", "null", "[]", "{}", "\"\"", "NaN", "9", "-", "\0", "e", ",", "\n"];
    for round in 0..300 {
        let mut files = good.clone();
        for _ in 0..1 + next(3) {
            let file = next(files.len());
            let bytes = &mut files[file].1;
            let at = next(bytes.len());
            match next(6) {
                0 if !bytes.is_empty() => bytes[at] ^= 1 << next(8),
                1 => bytes.truncate(at),
                2 => drop(bytes.drain(at..(at + 1 + next(20)).min(bytes.len()))),
                3 => drop(bytes.splice(at..at, tokens[next(tokens.len())].bytes())),
                // A number or word in place of the next number.
                _ => {
                    let digit = |byte: &u8| byte.is_ascii_digit();
                    let from = bytes.iter().skip(at).position(digit).map_or(bytes.len(), |found| at + found);
                    let to = bytes.iter().skip(from).position(|byte| !digit(byte)).map_or(bytes.len(), |found| from + found);
                    drop(bytes.splice(from..to, tokens[next(tokens.len())].bytes()));
                }
            }
        }
        place.write(&files);
        let (code, screen, trace, _) = place.analyze("out");
        let screen = String::from_utf8(screen).expect("text");
        match code {
            0 => {
                let trace = Trace::decode(trace.as_slice()).unwrap_or_else(|error| panic!("round {round}: {error}"));
                replay(&trace);
                assert!(screen.lines().count() <= 40, "round {round}: {screen}");
                assert!(screen.lines().all(|line| line.chars().count() <= 100), "round {round}: {screen}");
            }
            2 => assert!(trace.is_empty(), "round {round}: an error leaves nothing behind"),
            other => panic!("round {round}: exit code {other}"),
        }
    }
}

#[test]
fn a_decrease_is_one_reset_finding() {
    let place = Place::new("reset");
    let mut files = valid();
    for (name, contents) in &mut files {
        if name.ends_with("step_0001.json") {
            *contents = String::from_utf8_lossy(contents).replace("\"fast_uploads\":4", "\"fast_uploads\":1").into_bytes();
        }
    }
    place.write(&files);
    let summary: Value = serde_json::from_slice(&place.analyze("out").3).expect("JSON");
    let findings = summary["findings"].as_array().expect("a list");
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!((&findings[0]["code"], &findings[0]["where"]), (&json!("counter_reset"), &json!("snapshots/c/step_0001.json")));
}

#[test]
fn an_epoch_of_another_year_is_a_warning_and_unaligned() {
    let place = Place::new("epoch");
    let mut files = valid();
    for (_, contents) in &mut files {
        *contents = String::from_utf8_lossy(contents)
            .replace("\"epoch_host_before_seconds\":51.0", "\"epoch_host_before_seconds\":40000051.0")
            .replace("\"epoch_host_after_seconds\":51.001", "\"epoch_host_after_seconds\":40000051.001")
            .into_bytes();
    }
    place.write(&files);
    let (code, screen, trace, _) = place.analyze("out");
    assert_eq!(code, 0);
    assert!(String::from_utf8_lossy(&screen).contains("463.0 days after the start of the run"));
    assert!(String::from_utf8_lossy(&trace).contains("stream windows (host driver, unaligned)"));
}
