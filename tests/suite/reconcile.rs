//! Nested host scopes of recorded runs, through the program.
//!
//! Proves: scopes are subtracted along the tree and never summed; the remainders are the known ones; what a route does not have
//! is unavailable and not zero; what was chosen is named; the document fits its schema.

use crate::support::{command, data, ran, scratch};
use ddo_schemas::generate;
use serde_json::Value;

const CACHE: &str = "peer-runs/small-cache-full";
const RING: &str = "peer-runs/small-ring";

fn document(words: &[&str]) -> Value {
    let said = ran(command("ddo-analyze").arg("reconcile").args(words).arg("--json")).ended(0);
    let document: Value = serde_json::from_str(&said.out).expect("JSON alone");
    let schemas = generate::json_schemas();
    let (_, text) = schemas.iter().find(|(name, _)| *name == "reconciliation.schema.json").expect("generated");
    let schema = jsonschema::validator_for(&serde_json::from_str(text).expect("JSON")).expect("a schema");
    let errors: Vec<String> = schema.iter_errors(&document).map(|error| error.to_string()).collect();
    assert_eq!(errors, [""; 0]);
    document
}

fn of(folder: &str, words: &[&str]) -> Value {
    let path = data(folder);
    let all: Vec<&str> = [path.to_str().expect("text")].into_iter().chain(words.iter().copied()).collect();
    document(&all)
}

fn scope<'a>(document: &'a Value, name: &str) -> &'a Value {
    let scopes = document["scopes"].as_array().expect("a list");
    scopes.iter().find(|scope| scope["scope"] == name).unwrap_or_else(|| panic!("no {name}"))
}

fn seconds(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[test]
fn a_retained_source_reconciles_down_to_its_registrations() {
    let found = of(CACHE, &[]);
    assert_eq!(found["interval"], "final.json, totals since the start");
    let root = scope(&found, "fast_dma_enqueue");
    assert!((seconds(&root["residual_seconds"]) - 0.001_421_8).abs() < 1e-7, "{root}");
    let children = ["fast_upload_stream_enter", "fast_upload_stream_exit", "fast_native_transport_batch_transport_total"];
    assert_eq!(root["children"], serde_json::json!(children), "the body holds the transport and is not added");
    assert_eq!((&root["verdict"], &root["parent"]), (&"reconciles".into(), &Value::Null));
    let body = scope(&found, "fast_upload_stream_body");
    assert_eq!(body["parent"], "fast_dma_enqueue");
    assert!((seconds(&body["total_seconds"]) - 0.141_610_3).abs() < 1e-7, "shown");
    assert_eq!(found["headline"]["scope"], "fast_source_cache_registration");
    assert_eq!(found["headline"]["next_field"], "runtime.vmm.fast_source_cache_registrations");
    assert!((seconds(&found["headline"]["share"]) - 0.153_575_956 / 0.435_635_861).abs() < 1e-6);
    assert_eq!(found["notes"], serde_json::json!([]), "62 calls everywhere");
    for scope in found["scopes"].as_array().expect("a list") {
        assert_ne!(scope["verdict"], "child_exceeds_parent", "{scope}");
    }
}

#[test]
fn a_ring_reconciles_through_its_reads_and_has_no_source_cache() {
    let found = of(RING, &[]);
    let root = scope(&found, "fast_dma_enqueue");
    assert!((seconds(&root["residual_seconds"]) - 0.004_569_5).abs() < 1e-7, "{root}");
    let body = scope(&found, "fast_upload_stream_body");
    assert_eq!(body["children"], serde_json::json!(["fast_native_transport_read", "fast_native_transport_slot_wait"]));
    assert!((seconds(&body["residual_seconds"]) - 0.002_466_1).abs() < 1e-6, "{body}");
    assert_eq!(found["headline"]["scope"], "fast_native_transport_read");
    let cached = found["scopes"]
        .as_array()
        .expect("a list")
        .iter()
        .filter(|scope| scope["scope"].as_str().is_some_and(|name| name.starts_with("fast_source_cache_")));
    let mut count = 0;
    for scope in cached {
        count += 1;
        assert_eq!((&scope["total_seconds"], &scope["verdict"]), (&Value::Null, &"unavailable".into()), "{scope}");
    }
    assert!(count > 10, "the tree names them");
}

#[test]
fn an_interval_between_records_leaves_the_cold_start_out() {
    let warm = of(CACHE, &["--from", "0", "--to", "2"]);
    let all = of(CACHE, &["--report", "step_0002"]);
    let total = |document: &Value| seconds(&scope(document, "fast_source_cache_registration")["total_seconds"]);
    assert_eq!(total(&warm), 0.0, "registration was cold work");
    assert!(total(&all) > 0.15);
    assert_eq!(warm["headline"]["scope"], "fast_source_cache_request_total");
    assert_eq!(scope(&warm, "fast_native_transport_batch_transport_total")["calls"], 14);
    assert_eq!(warm["interval"], "denoise_snapshots/step_0000.json to denoise_snapshots/step_0002.json");
}

#[test]
fn the_terminal_leads_with_the_largest_cost_and_calls_the_rest_unexplained() {
    let said = |words: &[&str]| ran(command("ddo-analyze").arg("reconcile").arg(data(CACHE)).args(words)).ended(0).out;
    let text = said(&[]);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[1].starts_with("longest      fast_source_cache_registration takes 153.576 ms, 35.3 %"), "{text}");
    assert!(text.contains("= 1.422 ms (0.3 %) unexplained") && text.contains("(upload_stream_body)"), "{text}");
    assert!(lines.iter().all(|line| line.chars().count() <= 100), "{text}");
    let markdown = said(&["--markdown"]);
    assert!(markdown.contains("| `fast_dma_enqueue` | 435.636 ms |"), "{markdown}");
}

#[test]
fn the_default_run_writes_the_same_document() {
    let at = scratch("reconcile");
    let out = at.path().join("out");
    ran(command("ddo-analyze").arg(data(CACHE)).arg("--out").arg(&out)).ended(0);
    let text = std::fs::read_to_string(out.join("reconciliation.json")).expect("written");
    assert_eq!(serde_json::from_str::<Value>(&text).expect("JSON"), of(CACHE, &[]));
    let summary: Value = serde_json::from_slice(&std::fs::read(out.join("summary.json")).expect("written")).expect("JSON");
    assert_eq!(summary["outputs"]["reconciliation"], "reconciliation.json");
    let only = at.path().join("only");
    ran(command("ddo-analyze").arg("reconcile").arg(data(CACHE)).arg("--out").arg(&only)).ended(0);
    assert_eq!(std::fs::read_to_string(only.join("reconciliation.json")).expect("written"), text);
}

#[test]
fn what_cannot_be_reconciled_says_what_there_is() {
    let refused = |folder: &str, words: &[&str]| {
        let said = ran(command("ddo-analyze").arg("reconcile").arg(data(folder)).args(words)).ended(2);
        assert_eq!(said.err.lines().count(), 1, "{}", said.err);
        said.err
    };
    assert!(refused(CACHE, &["--report", "nope"]).contains("\"nope\"; it has after_plain, final"));
    assert!(refused(CACHE, &["--from", "before", "--to", "9"]).contains("step \"9\"; it has before, 0, 1, 2"));
    assert!(refused(CACHE, &["--component", "other"]).contains("no component is called \"other\""));
    assert!(refused("peer-runs/big-linear-auto", &[]).contains("no report or record with host scopes"));
}
