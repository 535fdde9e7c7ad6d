//! What changed between records and between reports, through the program.
//!
//! Proves: differences are exact and recomputable from the records; a reset, a missing step and a missing value are never a number; every
//! form shows the same rows; the tables land beside the input, the same byte for byte.

use crate::support::{Ran, Scratch, command, data, files, ran, scratch};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn analyze(at: &Scratch, words: &[&str]) -> Ran {
    ran(command("ddo-analyze").current_dir(at.path()).args(words))
}

/// A copy of a recorded case in which one field has another name.
fn case(at: &Scratch, name: &str, rename: (&str, &str)) -> PathBuf {
    let target = at.path().join("case");
    for (path, bytes) in files(&data("cases").join(name)) {
        let text = String::from_utf8(bytes).expect("text");
        let path = target.join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text.replace(rename.0, rename.1)).expect("written");
    }
    target
}

fn rows(at: &Scratch, words: &[&str]) -> Vec<Value> {
    let said = analyze(at, &[&["delta"], words, &["--json"]].concat()).ended(0);
    let document: Value = serde_json::from_str(&said.out).expect("JSON alone");
    assert_eq!(document["schema_version"], 1);
    document["rows"].as_array().expect("a list").clone()
}

/// Scope, state and difference of the rows of one field.
fn told(rows: &[Value], path: &str) -> Vec<(String, String, Value)> {
    let text = |row: &Value, key: &str| row[key].as_str().expect(key).to_string();
    let own = rows.iter().filter(|row| row["path"] == path);
    own.map(|row| (text(row, "scope"), text(row, "state"), row["delta"].clone())).collect()
}

#[test]
fn a_counter_that_starts_again_has_no_delta_and_no_total() {
    let at = scratch("delta-reset");
    case(&at, "C40/reset", ("fast_source_cache_dma_bytes", "fast_upload_bytes"));
    let rows = rows(&at, &["case"]);
    let row = |scope: &str, state: &str, delta: Value| (scope.to_string(), state.to_string(), delta);
    let wanted = [
        row("step", "value", 200.into()),
        row("step", "reset", Value::Null),
        row("step", "value", 200.into()),
        row("first_to_last", "reset", Value::Null),
    ];
    assert_eq!(told(&rows, "runtime.vmm.fast_upload_bytes"), wanted);
    for words in
        [&["delta", "case"][..], &["delta", "case", "--all"], &["delta", "case", "--csv"], &["delta", "case", "--markdown"]]
    {
        let text = analyze(&at, words).ended(0).out;
        assert!(text.contains("reset"), "{text}");
        assert!(!text.contains("-250") && !text.contains("+150") && !text.contains("+400") && !text.contains("18446"), "{text}");
    }
}

#[test]
fn sixty_four_bits_stay_exact() {
    let at = scratch("delta-big");
    case(&at, "C41/big", ("fast_source_cache_dma_bytes", "fast_upload_bytes"));
    let rows = rows(&at, &["case"]);
    let row = &rows[0];
    assert_eq!((&row["before"], &row["after"]), (&"9007199254740993".into(), &u64::MAX.to_string().into()));
    assert_eq!(row["delta"], "18437736874454810622");
    let csv = analyze(&at, &["delta", "case", "--csv"]).ended(0).out;
    assert!(csv.contains(",value,9007199254740993,18446744073709551615,18437736874454810622,"), "{csv}");
}

#[test]
fn a_field_that_one_side_lacks_is_unavailable() {
    let at = scratch("delta-missing");
    case(&at, "C42/missing", ("\u{0}", "\u{0}"));
    let path = "runtime.vmm.fast_fault_failures";
    let all = rows(&at, &["case"]);
    let new: Vec<&Value> = all.iter().filter(|row| row["component"] == "new" && row["path"] == path).collect();
    assert_eq!(new.len(), 2, "a step and the whole");
    let between = rows(&at, &["case", "--from", "base/step_0000", "--to", "new/step_0000"]);
    let between: Vec<&Value> = between.iter().filter(|row| row["path"] == path).collect();
    assert_eq!(between.len(), 1);
    assert_eq!(between[0]["before"], 0);
    for row in new.into_iter().chain(between) {
        assert_eq!((&row["state"], &row["after"], &row["delta"]), (&"unavailable".into(), &Value::Null, &Value::Null), "{row}");
    }
    let base = rows(&at, &["case", "--component", "base"]);
    assert_eq!(told(&base, path)[0], ("step".into(), "value".into(), 0.into()), "zero is a measurement");
}

/// A journal of another recorder: its records in order.
fn records(folder: &str) -> Vec<(String, Value)> {
    let names = ["before_denoise", "step_0000", "step_0001", "step_0002"];
    let read = |name: &str| {
        let bytes = std::fs::read(data("peer-runs").join(folder).join(format!("denoise_snapshots/{name}.json"))).expect("there");
        (name.to_string(), serde_json::from_slice(&bytes).expect("JSON"))
    };
    names.map(read).to_vec()
}

/// Equal; fractions but for the last digit of the level that they come from, which the JSON reader does not keep.
fn same(got: &Value, wanted: &Value, level: f64) -> bool {
    match (got.as_f64(), wanted.as_f64()) {
        (Some(a), Some(b)) if got.is_f64() || wanted.is_f64() => (a - b).abs() <= 4.0 * f64::EPSILON * b.abs().max(level.abs()),
        _ => got == wanted,
    }
}

#[test]
fn recorded_journals_give_the_differences_of_their_own_records() {
    let at = scratch("delta-peers");
    for folder in ["small-cache-full", "small-ring"] {
        let input = data("peer-runs").join(folder);
        let rows = rows(&at, &[input.to_str().expect("text")]);
        let by_place: BTreeMap<(&str, &str, &str), &Value> = rows
            .iter()
            .map(|row| {
                let text = |key: &str| row[key].as_str().expect("text");
                ((text("from"), text("to"), text("path")), row)
            })
            .collect();
        let records = records(folder);
        let vmm = |at: usize| records[at].1["metrics"]["runtime"]["vmm"].as_object().expect("counters");
        let mut subtracted = 0;
        for (from, to) in [(0, 1), (1, 2), (2, 3), (0, 3)] {
            for (key, after) in vmm(to).iter().filter(|(_, value)| !value.is_object() && !value.is_array()) {
                let path = format!("runtime.vmm.{key}");
                let row = by_place[&(records[from].0.as_str(), records[to].0.as_str(), path.as_str())];
                if row["state"] != "unavailable" && row["state"] != "uncollected" {
                    assert!(same(&row["before"], &vmm(from)[key], 0.0) && same(&row["after"], after, 0.0), "{row}");
                }
                if row["kind"] == "counter" && row["state"] == "value" {
                    let (before, after) = (&vmm(from)[key], after);
                    let level = after.as_f64().expect("a number");
                    let wanted = match (before.as_u64(), after.as_u64()) {
                        (Some(before), Some(after)) => Value::from(after - before),
                        _ => Value::from(level - before.as_f64().expect("a number")),
                    };
                    assert!(same(&row["delta"], &wanted, level), "{row}: not {wanted}");
                    subtracted += 1;
                }
            }
        }
        assert!(subtracted >= 80, "{folder}: only {subtracted} counters");
    }
}

#[test]
fn every_recorded_run_has_tables_for_people_that_fit_their_width() {
    let at = scratch("delta-people");
    for folder in ["big-cache-4", "big-linear-auto", "big-ring-4", "small-cache-full", "small-ring"] {
        let input = data("peer-runs").join(folder);
        let text = analyze(&at, &["delta", input.to_str().expect("text")]).ended(0).out;
        assert!(text.lines().count() <= 60, "{folder}: one screen: {text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100) && !text.contains('\u{1b}'), "{text}");
        let page = analyze(&at, &["delta", input.to_str().expect("text"), "--markdown", "--all"]).ended(0).out;
        assert!(page.starts_with("# What changed\n"));
    }
    assert!(files(at.path()).is_empty(), "it prints and writes nothing");
}

fn sample_journal() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").join("samples/journals/flux-h200")
}

#[test]
fn the_tables_land_beside_the_input_the_same_every_time() {
    let at = scratch("delta-files");
    let input = sample_journal();
    let before = files(&input);
    let input = input.to_str().expect("text");
    for out in ["first", "second"] {
        analyze(&at, &[input, "--out", out]).ended(0);
    }
    let first = files(&at.path().join("first"));
    assert!(first == files(&at.path().join("second")), "byte for byte");
    let names: Vec<&str> = first.keys().map(|path| path.to_str().expect("text")).collect();
    let part = "run=flux-h200/rank=0/part-0.parquet";
    for name in ["deltas.json", "deltas.csv", "deltas.md", &format!("dataset/tidy/{part}"), &format!("dataset/wide/{part}")] {
        assert!(names.contains(&name), "{name} is not among {names:?}");
    }
    let summary: Value = serde_json::from_slice(&first[Path::new("summary.json")]).expect("JSON");
    for file in summary["outputs"].as_object().expect("a map").values() {
        assert!(at.path().join("first").join(file.as_str().expect("text")).exists(), "{file} is listed and not there");
    }
    let printed = analyze(&at, &["delta", input, "--json"]).ended(0).out;
    assert_eq!(printed.as_bytes(), first[Path::new("deltas.json")], "what is printed is what is written");
    analyze(&at, &["delta", input, "--out", "third"]).ended(0);
    let third = files(&at.path().join("third"));
    assert!(third.len() == 3 && third.iter().all(|(name, bytes)| first[name] == *bytes));
    let said = analyze(&at, &["export", input, "--out", "fourth", "--json"]).ended(0);
    let said: Value = serde_json::from_str(&said.out).expect("JSON alone");
    let fourth = files(&at.path().join("fourth"));
    assert!(fourth.len() == 3 && fourth.iter().all(|(name, bytes)| first[name] == *bytes));
    assert!(at.path().join(said["tidy"].as_str().expect("a path")).exists());
    let refused = analyze(&at, &["export", input, "--out", "fourth"]).ended(2);
    assert!(refused.err.contains("--force"), "{}", refused.err);
    assert!(files(&sample_journal()) == before, "the journal is never written to");
}

#[test]
fn the_document_has_its_declared_shape() {
    let at = scratch("delta-schema");
    let input = sample_journal();
    let printed = analyze(&at, &["delta", input.to_str().expect("text"), "--json"]).ended(0).out;
    let document: Value = serde_json::from_str(&printed).expect("JSON");
    let schema = Path::new(env!("CARGO_MANIFEST_DIR")).join("../schemas/json/deltas.schema.json");
    let schema: Value = serde_json::from_slice(&std::fs::read(schema).expect("generated")).expect("JSON");
    let validator = jsonschema::validator_for(&schema).expect("a schema");
    assert!(validator.is_valid(&document), "{:?}", validator.iter_errors(&document).next().map(|error| error.to_string()));
    let typed: ddo_schemas::deltas::Deltas = serde_json::from_value(document).expect("the declared structure");
    assert!(typed.rows.len() > 100 && typed.rows_left_out.is_none());
}

#[test]
fn what_is_not_there_is_refused_by_name() {
    let at = scratch("delta-words");
    case(&at, "C40/reset", ("\u{0}", "\u{0}"));
    let refused = |words: &[&str], said: &str| {
        let ran = analyze(&at, &[&["delta", "case"], words].concat()).ended(2);
        assert!(ran.err.contains(said) && ran.out.is_empty(), "{words:?}: {}", ran.err);
    };
    refused(&["--component", "none"], "no component is called \"none\"");
    refused(&["--from", "final", "--to", "step_0000"], "no record or report is called \"final\"");
    refused(&["--from", "step_0001", "--to", "step_0000"], "exchange --from and --to");
    refused(&["--from", "step_0001"], "--to");
    refused(&["--json", "--csv"], "cannot be used with");
}
