//! The tables of small runs, word by word.

use super::*;
use crate::run::{Component, Record, Scalar};
use serde_json::Value;

/// A journal of counters of the given readings.
fn journal(readings: &[u64]) -> Run {
    let records = readings.iter().enumerate().map(|(at, value)| Record {
        file: at.checked_sub(1).map_or("before_denoise.json".into(), |step| format!("step_{step:04}.json")),
        step: at.checked_sub(1).map(|step| step as u64),
        host_elapsed_ns: Some(at as i64 * 250_000_000),
        observed_ns: None,
        values: [
            ("runtime.vmm.fast_upload_bytes", Scalar::U64(*value)),
            ("runtime.vmm.fast_faults", Scalar::U64(7)),
            ("runtime.vmm.of_another|recorder", Scalar::Text("=1\u{1b}[31m|".into())),
        ]
        .map(|(path, value)| (path.into(), value))
        .into(),
    });
    let component = Component { name: "c".into(), records: records.collect(), ..Component::default() };
    Run { name: "r".into(), components: vec![component], ..Run::default() }
}

fn rows_of(run: &Run, path: &str) -> Vec<Value> {
    let mut out = Vec::new();
    json(&delta::pairs(run), &mut out).expect("memory");
    let document: Value = serde_json::from_slice(&out).expect("JSON");
    assert_eq!(document["schema_version"], 1);
    let rows = document["rows"].as_array().expect("a list").iter();
    rows.filter(|row| row["path"] == path).cloned().collect()
}

#[test]
fn large_differences_are_strings_and_small_ones_numbers() {
    let run = journal(&[9_007_199_254_740_993, u64::MAX]);
    let row = &rows_of(&run, "runtime.vmm.fast_upload_bytes")[0];
    assert_eq!((row["from"].as_str(), row["to"].as_str()), (Some("before_denoise"), Some("step_0000")));
    assert_eq!((row["scope"].as_str(), row["state"].as_str()), (Some("step"), Some("value")));
    assert_eq!(row["before"], "9007199254740993");
    assert_eq!((&row["after"], &row["delta"]), (&u64::MAX.to_string().into(), &"18437736874454810622".into()));
    assert_eq!(row["seconds"], 0.25);
    assert_eq!(rows_of(&journal(&[1, 3]), "runtime.vmm.fast_upload_bytes")[0]["delta"], 2);
    assert_eq!(rows_of(&run, "runtime.vmm.of_another|recorder")[0]["delta"], Value::Null, "levels only");
}

#[test]
fn a_screen_shows_what_changed_and_no_control_characters() {
    let run = journal(&[100 << 20, 300 << 20, 50 << 20, 250 << 20]);
    let pairs = delta::pairs(&run);
    let text = terminal(&run, &pairs, Detail::Screen, 80);
    assert!(text.contains("reset") && text.contains("+200.00 MiB"), "{text}");
    assert!(!text.contains("150") && !text.contains("400"), "no total over a reset: {text}");
    assert!(!text.contains("fast_faults"), "it did not change");
    let all = terminal(&run, &pairs, Detail::All, 80);
    assert!(all.contains("fast_faults") && !all.contains('\u{1b}'), "{all}");
    assert!(all.lines().all(|line| line.chars().count() <= 80), "{all}");
    let page = markdown(&run, &pairs, Detail::All);
    assert!(page.contains("of_another\\|recorder") && !page.contains('\u{1b}'), "{page}");
    let unescaped = |line: &str| line.replace("\\|", "").matches('|').count();
    assert!(page.lines().filter(|line| line.starts_with('|')).all(|line| unescaped(line) == 5), "{page}");
}

#[test]
fn a_long_journal_shows_its_ends_and_the_middle() {
    let readings: Vec<u64> = (0..40_u64).map(|at| if at == 0 { 0 } else { (900 + at * 100) << 20 }).collect();
    let run = journal(&readings);
    let text = terminal(&run, &delta::pairs(&run), Detail::Screen, 100);
    let header = text.lines().find(|line| line.contains("step 0")).expect("a table of steps");
    assert!(["step 1", "median", "step 38"].iter().all(|name| header.contains(name)), "{header}");
    let line = text.lines().find(|line| line.contains("+1000.00 MiB")).expect("step 0 added that");
    assert_eq!(line.matches("+100.00 MiB").count(), 3, "{line}");
}

#[test]
fn rows_beyond_the_limit_are_counted() {
    let run = journal(&[1, 2, 3, 4]);
    let pairs = delta::pairs(&run);
    let (kept, left_out) = within_limit(&pairs, 3 * 3);
    assert_eq!((kept.len(), left_out), (3, 3), "two steps and the whole");
    let held: Vec<(DeltaScope, &str)> = kept.iter().map(|pair| (pair.scope, pair.to.as_str())).collect();
    let step = DeltaScope::Step;
    assert_eq!(held, [(step, "step_0000"), (step, "step_0001"), (DeltaScope::FirstToLast, "step_0002")]);
    let mut out = Vec::new();
    json::write(&kept, left_out, &mut out).expect("memory");
    assert_eq!(serde_json::from_slice::<Value>(&out).expect("JSON")["rows_left_out"], 3);
    assert_eq!(within_limit(&pairs, 12).1, 0);
}

#[test]
fn names_that_are_not_there_are_refused_with_those_that_are() {
    let run = journal(&[1, 2]);
    let select = |component: Option<&str>, from: &str, to: &str| {
        let between = Some((from.to_string(), to.to_string()));
        super::select(&run, &Selection { component: component.map(str::to_string), between })
    };
    assert_eq!(select(None, "before_denoise", "step_0000").expect("both").len(), 1);
    for (refused, words) in [
        (select(Some("x"), "a", "b"), "no component is called \"x\"; there are: c"),
        (select(None, "final", "step_0000"), "no record or report is called \"final\"; there are: before_denoise, step_0000"),
        (select(None, "step_0000", "before_denoise"), "exchange --from and --to"),
    ] {
        let text = refused.expect_err(words).to_string();
        assert!(text.contains(words), "{text}");
    }
}
