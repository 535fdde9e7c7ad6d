//! The whole way, through the programs: record a model under a ceiling, analyse the folder, open the trace.
//!
//! Proves: each program ends well and says where its result is; the trace breaks no rule and holds what the journal holds; the
//! summary fits its schema; nothing is replaced unless asked for, and then by the same bytes.

use crate::support::trace::sound;
use crate::support::{Ran, Scratch, command, files, minilm, program, ran, scratch};
use ddo_schemas::{Report, generate};
use std::path::{Path, PathBuf};

const STEPS: usize = 8;

/// The words for the sample: the real model when it is there, else a generated one.
fn sample(at: &Scratch) -> Vec<String> {
    let steps = STEPS.to_string();
    let mut words = match minilm() {
        Some(model) => vec!["minilm".to_owned(), "--model".to_owned(), model.weights.to_str().expect("text").to_owned()],
        None => {
            let path = at.path().join("model.safetensors");
            ["flux_shaped", "--scale", "0.0001", "--model", path.to_str().expect("text")].map(str::to_owned).to_vec()
        }
    };
    words.extend(["--ceiling", "40%", "--steps", &steps, "--link-gb-per-second", "2"].map(str::to_owned));
    words
}

fn analyze(at: &Scratch, words: &[&str]) -> Ran {
    ran(command("ddo-analyze").current_dir(at.path()).args(words))
}

fn json(path: &Path) -> serde_json::Value {
    serde_json::from_slice(&std::fs::read(path).expect("there")).expect("JSON")
}

#[test]
fn a_recorded_run_becomes_a_trace_and_a_summary() {
    let at = scratch("story");
    let mut record = command("ddo-record");
    record.current_dir(at.path()).args(["--gpu-timing", "--native-timeline", "-o", "journal", "--"]).arg(program("ddo-sample"));
    let recorded = ran(record.args(sample(&at))).ended(0);
    assert!(recorded.out.contains("8 steps, each bit for bit equal to the resident run"), "{}", recorded.out);
    let evidence = files(&at.path().join("journal"));

    let first = analyze(&at, &["journal"]).ended(0);
    assert!(first.out.contains("run.perfetto-trace") && first.out.contains("ui.perfetto.dev"), "{}", first.out);
    assert!(first.out.lines().count() <= 45, "one screen: {}", first.out);
    let results = at.path().join("journal.analysis");
    let written = files(&results);
    let part = "run=journal/rank=0/part-0.parquet";
    let (tidy, wide) = (format!("dataset/tidy/{part}"), format!("dataset/wide/{part}"));
    let wanted = [
        "check.json",
        &*tidy,
        &*wide,
        "deltas.csv",
        "deltas.json",
        "deltas.md",
        "plots/memory.png",
        "plots/memory.svg",
        "profile.txt",
        "reconciliation.json",
        "run.perfetto-trace",
        "summary.json",
    ];
    assert_eq!(written.keys().collect::<Vec<_>>(), wanted.map(Path::new));
    assert_eq!(json(&results.join("check.json"))["ok"], true);
    assert!(json(&results.join("reconciliation.json"))["headline"].is_object());
    analyze(&at, &["check", "journal"]).ended(0);
    check_summary(&json(&results.join("summary.json")));
    check_trace(&written[Path::new("run.perfetto-trace")], &at.path().join("journal/reports/final.json"));

    let refused = analyze(&at, &["journal"]).ended(2);
    assert!(refused.err.contains("journal.analysis") && refused.err.lines().count() == 1, "{}", refused.err);
    assert_eq!(files(&results), written, "a refusal changes nothing");
    analyze(&at, &["journal", "--force"]).ended(0);
    assert!(files(&results) == written, "the same input gives the same bytes");
    assert!(files(&at.path().join("journal")) == evidence, "the evidence is not touched");

    let strict = analyze(&at, &["journal", "--force", "--strict", "--json"]).ended(0);
    check_summary(&serde_json::from_str(&strict.out).expect("JSON alone"));
    let traced = analyze(&at, &["trace", "journal", "--out", "elsewhere"]).ended(0);
    assert!(traced.out.contains("slices"), "{}", traced.out);
    assert!(files(&at.path().join("elsewhere"))[Path::new("run.perfetto-trace")] == written[Path::new("run.perfetto-trace")]);
}

fn check_summary(summary: &serde_json::Value) {
    let schemas = generate::json_schemas();
    let (_, text) = schemas.iter().find(|(name, _)| *name == "summary.schema.json").expect("generated");
    let schema = jsonschema::validator_for(&serde_json::from_str(text).expect("JSON")).expect("a schema");
    let errors: Vec<String> = schema.iter_errors(summary).map(|error| error.to_string()).collect();
    assert_eq!(errors, [""; 0]);
    assert_eq!(summary["steps"]["count"], STEPS);
    assert_eq!(summary["run"]["status"], "exited 0");
    assert!(summary["steps"]["seconds_per_step"].as_f64().expect("measured") > 0.0);
    assert_eq!(
        summary["findings"].as_array().expect("a list").iter().filter(|f| f["severity"] != "note").count(),
        0,
        "{summary}"
    );
}

/// The trace holds each window of the report with its exact length, and each step of the journal.
fn check_trace(bytes: &[u8], report: &Path) {
    let reading = sound(bytes);
    let report: Report = serde_json::from_slice(&std::fs::read(report).expect("written")).expect("a report");
    let timeline = report.runtime.native_timeline.expect("recorded");
    assert_eq!(timeline.status, "complete");
    let mut drawn: Vec<(String, u64)> =
        reading.on("/ stream ").map(|slice| (slice.category.clone(), slice.end - slice.start)).collect();
    let ns = |seconds: Option<ddo_schemas::Seconds>| (seconds.expect("complete").0 * 1e9).round() as i64;
    let lengths = timeline.samples.iter().map(|s| (s.kind.name().to_owned(), (ns(s.end_seconds) - ns(s.start_seconds)) as u64));
    let mut recorded: Vec<(String, u64)> = lengths.collect();
    drawn.sort();
    recorded.sort();
    assert!(drawn == recorded, "{} windows were recorded, {} are drawn", recorded.len(), drawn.len());
    assert_eq!(reading.on("steps (host").count(), STEPS);
    let between: Vec<&str> = reading.on("steps (between markers)").map(|slice| slice.name.as_str()).collect();
    assert!((0..STEPS).all(|step| between.contains(&format!("step {step}").as_str())), "{between:?}");
    assert!(reading.flows > 0, "uploads point at the work they serve");
    for name in ["fast_upload_bytes", "fast_total_weight_resident_bytes", "rss"] {
        assert!(reading.points.iter().any(|(track, ..)| track.contains(name)), "no counter {name}");
    }
}

/// Runs the demo with the programs of this build.
fn demo(at: &Scratch, words: &[&str]) -> Ran {
    let mut demo = command("ddo-demo");
    demo.current_dir(at.path()).args(words).args(["--steps", "3", "--link-gb-per-second", "2", "--out", "results"]);
    ran(&mut demo)
}

fn trace_of(demo: &Ran, at: &Scratch) -> PathBuf {
    let line = demo.out.lines().find_map(|line| line.strip_prefix("trace ")).expect("the trace's place is said");
    let path = PathBuf::from(line.trim().split(" (").next().expect("a path"));
    assert_eq!(path, at.path().join("results/journal.analysis/run.perfetto-trace"));
    path
}

#[test]
fn the_demo_ends_with_a_trace() {
    let Some(model) = minilm() else { return };
    let at = scratch("demo");
    let shown = demo(&at, &["--offline", "--model", model.weights.to_str().expect("text")]).ended(0);
    assert!(shown.out.contains("https://ui.perfetto.dev") && shown.out.contains("4/4"), "{}", shown.out);
    sound(&std::fs::read(trace_of(&shown, &at)).expect("a trace"));
    let summary = json(&at.path().join("results/journal.analysis/summary.json"));
    assert_eq!(summary["steps"]["count"], 3);

    let again = demo(&at, &["--offline", "--model", model.weights.to_str().expect("text")]);
    assert_ne!(again.code, Some(0));
    assert!(again.err.contains("results") && again.err.contains("exists"), "{}", again.err);
}

#[test]
fn without_model_and_network_the_demo_makes_a_model_and_says_so() {
    let at = scratch("demo-offline");
    let nowhere = at.path().join("no-models");
    let mut demo = command("ddo-demo");
    demo.current_dir(at.path()).env("DDO_MODELS", &nowhere).args(["--offline", "--steps", "2", "--out", "results"]);
    let shown = ran(demo.args(["--link-gb-per-second", "8"])).ended(0);
    assert!(shown.out.contains("note: ") && shown.out.contains("flux_shaped"), "{}", shown.out);
    assert!(shown.out.contains(nowhere.to_str().expect("text")), "where it looked is said: {}", shown.out);
    sound(&std::fs::read(trace_of(&shown, &at)).expect("a trace"));
}
