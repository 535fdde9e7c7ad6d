//! The catalogue as a whole: nothing that is written by anyone lacks a row, and no row is idle talk.
//!
//! Proves: every path of the specification and every leaf of the recorded runs has a row or lies under a named free key; the
//! structs read those runs without loss; units and kinds fit the names; no two rows say the same, none only repeats its path.

use crate::support::data;
use ddo_schemas::field::Condition;
use ddo_schemas::section::Section;
use ddo_schemas::sections::{self, *};
use ddo_schemas::timeline::NativeTimeline;
use ddo_schemas::{Field, Kind, Unit, catalogue};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The first column of a list of facts.
fn listed(name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(data(&format!("spec/{name}"))).expect("the list");
    text.lines().skip(1).filter_map(|line| line.split('\t').next()).map(str::to_owned).collect()
}

fn is_known(path: &str) -> bool {
    catalogue::find(path).is_some() || catalogue::is_free(path)
}

fn unknown<'a>(paths: impl IntoIterator<Item = &'a String>) -> BTreeSet<&'a str> {
    paths.into_iter().map(String::as_str).filter(|path| !is_known(path)).collect()
}

#[test]
fn every_path_of_the_specification_has_a_row() {
    let named = listed("fields.tsv");
    assert_eq!(named.len(), 563);
    assert_eq!(unknown(&named), BTreeSet::new());
}

#[test]
fn every_recorded_leaf_has_a_row_or_a_free_key() {
    let observed = listed("observed-leaves.tsv");
    assert_eq!(observed.len(), 578);
    assert_eq!(unknown(&observed), BTreeSet::new());
}

/// Every recorded report and record of the peer runs, by file name; operator traces are another format.
fn recorded() -> Vec<(PathBuf, Value)> {
    let mut files = Vec::new();
    let mut folders = vec![data("peer-runs")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("readable") {
            let path = entry.expect("an entry").path();
            if path.is_dir() && !path.ends_with("operators") {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "json") {
                files.push(path);
            }
        }
    }
    files.sort();
    let read = |path: &Path| serde_json::from_slice(&std::fs::read(path).expect("readable")).expect("JSON");
    files.into_iter().map(|path| (path.clone(), read(&path))).collect()
}

/// Paths of all leaves; an empty list is a leaf of its own, an empty map has none.
fn leaves(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) => {
            for (key, inner) in map {
                leaves(inner, &if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, found);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            list.iter().for_each(|inner| leaves(inner, &format!("{path}[]"), found));
        }
        _ => drop(found.insert(path.to_owned())),
    }
}

#[test]
fn every_leaf_of_the_peer_runs_has_a_row_or_a_free_key() {
    let documents = recorded();
    assert_eq!(documents.len(), 41);
    let mut found = BTreeSet::new();
    for (_, mut document) in documents {
        if let Some(metrics) = document.as_object_mut().and_then(|record| record.remove("metrics")) {
            leaves(&document, "journal", &mut found);
            document = metrics;
        }
        leaves(&document, "", &mut found);
    }
    assert!(found.len() > 500, "{} leaves", found.len());
    assert_eq!(unknown(&found), BTreeSet::new());
}

/// The value as the struct writes it again.
fn through<T: DeserializeOwned + Serialize>(value: &Value) -> Value {
    let read: T = serde_json::from_value(value.clone()).unwrap_or_else(|error| panic!("{error}: {value}"));
    serde_json::to_value(read).expect("writable")
}

/// Equal but for the spelling of whole fractions, and for nulls, which read as absent.
fn same(recorded: &Value, written: &Value) -> bool {
    match (recorded, written) {
        (Value::Object(a), Value::Object(b)) => {
            let there = |map: &Map<String, Value>| map.iter().filter(|(_, v)| !v.is_null()).map(|(k, _)| k.clone()).collect();
            let (left, right): (BTreeSet<String>, BTreeSet<String>) = (there(a), there(b));
            left == right && left.iter().all(|key| same(&a[key], &b[key]))
        }
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Number(a), Value::Number(b)) if a.is_f64() != b.is_f64() => a.as_f64() == b.as_f64(),
        _ => recorded == written,
    }
}

/// What several structs make of one object, together with the named keys that another struct holds.
fn together(value: &Value, parts: &[Value], kept: &[&str]) -> Value {
    let mut all: Map<String, Value> =
        parts.iter().filter_map(Value::as_object).flatten().map(|(key, inner)| (key.clone(), inner.clone())).collect();
    all.extend(kept.iter().filter_map(|key| Some(((*key).to_owned(), value.get(key)?.clone()))));
    Value::Object(all)
}

type Reread = (&'static str, fn(&Value) -> Value);

/// The structures of a report, each with what its structs make of it.
const STRUCTURES: [Reread; 8] = [
    ("/configuration", |value| {
        let parts = [through::<PackageVmmSettings>(value), through::<PackagePinSettings>(value)];
        let more = [through::<PackageBudgetSettings>(value), through::<HelperSettings>(value)];
        together(value, &[parts, more].concat(), &["component", "dynamic_offload_execution_mode"])
    }),
    ("/setup", through::<Setup>),
    ("/runtime/state/planner_decisions", |value| {
        let parts = [through::<PackageVmmDecisions>(value), through::<PackageBudgetDecisions>(value)];
        together(value, &parts, &["vmm_backend", "vmm_fast_payload_bytes"])
    }),
    ("/runtime/state", |value| {
        let kept = ["module_count", "total_gb", "setup_runtime", "planner_decisions"];
        together(value, &[through::<PackageState>(value)], &kept)
    }),
    ("/runtime/operator_diagnostics", through::<OperatorDiagnostics>),
    ("/runtime/execution_timing", through::<ExecutionTiming>),
    ("/runtime/completion_collection", through::<CompletionCollection>),
    ("/runtime/native_timeline", through::<NativeTimeline>),
];

#[test]
fn the_structs_read_the_peer_runs_without_loss() {
    let mut read = BTreeMap::new();
    for (path, document) in recorded() {
        let report = document.get("metrics").unwrap_or(&document);
        for (pointer, reread) in STRUCTURES {
            let Some(value) = report.pointer(pointer) else { continue };
            let written = reread(value);
            assert!(same(value, &written), "{} {pointer}\n{value}\n{written}", path.display());
            *read.entry(pointer).or_insert(0) += 1;
        }
    }
    assert_eq!(read.len(), STRUCTURES.len(), "{read:?}");
}

#[test]
fn a_damaged_value_is_refused_not_dropped() {
    let good = serde_json::json!({"dynamic_offload_vmm_page_mb": 2});
    assert!(same(&good, &through::<PackageVmmSettings>(&good)));
    let bad = serde_json::json!({"dynamic_offload_vmm_page_mb": true});
    assert!(serde_json::from_value::<PackageVmmSettings>(bad).is_err(), "a bool is no number");
    let huge = serde_json::json!({"pool_reuse_calls": u64::MAX, "map_host_seconds": 0});
    assert_eq!(through::<DriverDelta>(&huge)["pool_reuse_calls"], u64::MAX);
}

/// Every declaration once, in the order of the tables.
fn declared() -> Vec<&'static Field> {
    catalogue::TABLES.iter().flat_map(|table| table.fields).collect()
}

/// Words in lower case, without punctuation.
fn words(text: &str) -> Vec<String> {
    let parts = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    parts.map(str::to_lowercase).collect()
}

/// Words that say nothing of their own.
const FILLERS: &str =
    "a all an and are as at by every for from in is it its of on one or per s so such that the this to were with";

/// The words of a text without fillers, singular and plural alike.
fn content(text: &str) -> Vec<String> {
    let stem = |word: &str| word.strip_suffix('s').unwrap_or(word).to_owned();
    let fillers: BTreeSet<String> = words(FILLERS).iter().map(|word| stem(word)).collect();
    words(text).iter().map(|word| stem(word)).filter(|word| !fillers.contains(word)).collect()
}

#[test]
fn no_two_rows_share_a_meaning() {
    let mut meanings: BTreeMap<BTreeSet<String>, Vec<&str>> = BTreeMap::new();
    for field in declared() {
        meanings.entry(content(field.meaning).into_iter().collect()).or_default().push(field.path);
    }
    meanings.retain(|_, paths| paths.len() > 1);
    assert_eq!(meanings, BTreeMap::new());
}

/// What is left of a meaning without the words of the path.
fn said(field: &Field) -> Vec<String> {
    let known = content(field.path);
    content(field.meaning).into_iter().filter(|word| !known.contains(word)).collect()
}

#[test]
fn no_meaning_only_repeats_its_path() {
    let idle: Vec<_> = declared().into_iter().filter(|field| said(field).is_empty()).map(|f| (f.path, f.meaning)).collect();
    assert_eq!(idle, []);
    let idle = Field { path: "runtime.vmm.fast_upload_bytes", meaning: "The bytes of the uploads.", ..Field::PLAIN };
    assert_eq!(said(&idle), [""; 0], "the rule finds an idle row");
}

/// The last part of a path, without the marks of a list.
fn last(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path).trim_end_matches("[]")
}

/// Whether a name ends in a word, or is it.
fn ends(name: &str, word: &str) -> bool {
    name.strip_suffix(word).is_some_and(|rest| rest.is_empty() || rest.ends_with('_'))
}

/// A last word and the units that it promises.
type Promise = (&'static str, fn(Unit) -> bool);

/// What a name promises by its last word, if it promises a unit.
fn promised(name: &str) -> Option<Promise> {
    let rules: [Promise; 12] = [
        ("bytes", |unit| unit == Unit::Bytes),
        ("gb", |unit| unit == Unit::Gib),
        ("mb", |unit| unit == Unit::Mib),
        ("kb", |unit| unit == Unit::Kib),
        ("seconds", |unit| unit == Unit::Seconds),
        ("sec", |unit| unit == Unit::Seconds),
        ("calls", |unit| matches!(unit, Unit::Count(_))),
        ("count", |unit| matches!(unit, Unit::Count(_))),
        ("groups", |unit| matches!(unit, Unit::Count(_))),
        ("failures", |unit| matches!(unit, Unit::Count(_))),
        ("ratio", |unit| unit == Unit::Ratio),
        ("index", |unit| unit == Unit::Index),
    ];
    rules.into_iter().find(|(word, _)| ends(name, word))
}

/// Names that promise a unit and hold something else, with what they hold.
const PROMISES_BROKEN: [(&str, Unit); 1] = [("runtime.native_timeline.*.union_seconds", Unit::Structure)];

#[test]
fn units_are_what_the_names_promise() {
    let mut used = 0;
    for field in declared() {
        if let Some((_, unit)) = PROMISES_BROKEN.iter().find(|(path, _)| *path == field.path) {
            assert_eq!(field.unit, *unit, "{}", field.path);
            used += 1;
        } else if let Some((word, fits)) = promised(last(field.path)) {
            assert!(fits(field.unit), "{} ends in {word} and counts {:?}", field.path, field.unit);
        }
        assert_eq!(field.unit == Unit::Version, ends(last(field.path), "version"), "{}", field.path);
    }
    assert_eq!(used, PROMISES_BROKEN.len(), "an exception that is none");
}

#[test]
fn kinds_fit_their_units() {
    for field in declared() {
        let Field { path, unit, kind, .. } = field;
        for (a, b) in [(Kind::Flag, Unit::Flag), (Kind::Version, Unit::Version), (Kind::Structure, Unit::Structure)] {
            assert_eq!(*kind == a, *unit == b, "{path} is {kind:?} and counts {unit:?}");
        }
        let word = matches!(unit, Unit::Label | Unit::Text);
        assert_eq!(matches!(kind, Kind::Label | Kind::Text) || (*kind == Kind::Identity && word), word, "{path}: {kind:?}");
        assert!(*unit != Unit::Label || *kind == Kind::Label, "{path} is one of a set of words, so a label");
        if path.starts_with("configuration.") {
            let settled = matches!(kind, Kind::Label | Kind::Limit | Kind::Flag | Kind::Structure);
            assert!(settled, "{path}: runs are compared by it, so it is a label, a limit or a flag, not {kind:?}");
        }
    }
}

/// The other fields of the object that a field stands in.
fn sibling(field: &Field, name: &str) -> Option<&'static Field> {
    let (object, _) = field.path.rsplit_once('.')?;
    declared().into_iter().find(|other| other.path == format!("{object}.{name}"))
}

#[test]
fn rules_name_fields_of_the_same_object() {
    for field in declared() {
        if let Condition::SiblingNonZero(name) = field.meaningful_if {
            let there = sibling(field, name).unwrap_or_else(|| panic!("{} depends on {name}, which is not declared", field.path));
            assert!(matches!(there.unit, Unit::Count(_) | Unit::Bytes), "{} depends on {name}", field.path);
        }
        if let Some(rate) = field.rate {
            let seconds = sibling(field, rate.seconds).unwrap_or_else(|| panic!("{}: no {}", field.path, rate.seconds));
            assert!(seconds.unit == Unit::Seconds && matches!(field.unit, Unit::Bytes | Unit::Gib), "{}", field.path);
        }
    }
    assert!(sections::CopyPath::FIELDS.iter().any(|field| field.rate.is_some()));
}
