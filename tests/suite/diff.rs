//! Two sets of runs held against each other, through the program.
//!
//! Proves: what is not one experiment is refused by name; a change is found, noise is not, and too few runs say so; a failure fails
//! whatever the times; missing is never zero; every form fits its format and holds no command line.

use crate::support::{Ran, Scratch, command, data, files, ran, root, scratch};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const STEADY: &str = "runtime.execution_timing.steady_state_seconds_per_step";
const NOISE: [f64; 5] = [1.0, 1.004, 0.996, 1.002, 0.998];

fn diff(at: &Scratch, words: &[&str]) -> Ran {
    ran(command("ddo-analyze").current_dir(at.path()).arg("diff").args(words))
}

fn verdict(at: &Scratch, words: &[&str], code: i32) -> Value {
    let said = diff(at, &[&["--json"], words].concat()).ended(code);
    let document: Value = serde_json::from_str(&said.out).expect("JSON alone");
    assert_eq!(document["exit_code"], code);
    document
}

fn metric<'a>(verdict: &'a Value, path: &str) -> &'a Value {
    let metrics = verdict["metrics"].as_array().expect("a list");
    metrics.iter().find(|metric| metric["path"] == path).unwrap_or_else(|| panic!("{path} was not compared"))
}

/// What a copy of the recorded journal differs in: the file's name and its document.
type Change<'a> = &'a dyn Fn(&str, &mut Value);
/// The same, kept.
type OwnedChange = Box<dyn Fn(&str, &mut Value)>;

/// A copy of the recorded journal, started at some minute.
fn journal(at: &Scratch, name: &str, minute: usize, change: Change<'_>) {
    for (path, bytes) in files(&root().join("samples/journals/flux-h200")) {
        let target = at.path().join(name).join(&path);
        std::fs::create_dir_all(target.parent().expect("a folder")).expect("made");
        let file = path.to_str().expect("text");
        if !file.ends_with(".json") {
            std::fs::write(target, bytes).expect("written");
            continue;
        }
        let mut document: Value = serde_json::from_slice(&bytes).expect("JSON");
        if file == "manifest.json" {
            document["clocks"]["wall_utc"] = format!("2026-01-01T00:{minute:02}:00Z").into();
        }
        change(file, &mut document);
        std::fs::write(target, document.to_string()).expect("written");
    }
}

fn scale(value: &mut Value, factor: f64) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(|value| scale(value, factor)),
        other => *other = (other.as_f64().expect("a number") * factor).into(),
    }
}

/// Steps that take longer by a factor, on every clock.
fn slower(file: &str, document: &mut Value, factor: f64) {
    if file == "reports/final.json" {
        let timing = &mut document["runtime"]["execution_timing"];
        for key in ["step_seconds", "phase_seconds", "steady_state_seconds_per_step"] {
            scale(&mut timing[key], factor);
        }
    } else if file.starts_with("snapshots") {
        scale(&mut document["host_elapsed_seconds"], factor);
    }
}

/// Five journals of a side, interleaved with the other side's; noise on every clock, and a factor.
fn five(at: &Scratch, side: &str, factor: f64, change: Change<'_>) {
    for (index, noise) in NOISE.iter().enumerate() {
        // A B B A: the order of the recorder.
        let second = (side == "candidate") != (index % 2 == 1);
        journal(at, &format!("{side}/{index}"), 2 * index + usize::from(second), &|file, document| {
            slower(file, document, factor * noise);
            change(file, document);
        });
    }
}

fn nothing(_: &str, _: &mut Value) {}

/// Sets a counter in the last record and the final report.
fn counter(file: &str, document: &mut Value, name: &str, value: Value) {
    if file.ends_with("step_0005.json") {
        document["metrics"]["runtime"]["vmm"][name] = value;
    } else if file == "reports/final.json" {
        document["runtime"]["vmm"][name] = value;
    }
}

#[test]
fn the_same_run_twice_is_neutral() {
    let at = scratch("diff-self");
    journal(&at, "a", 0, &nothing);
    let document = verdict(&at, &["a", "--", "a"], 0);
    assert_eq!((&document["verdict"], &document["reasons"][0]), (&"same".into(), &"both sides are the same runs".into()));
    assert_eq!(verdict(&at, &["--strict", "a", "--", "a"], 0)["verdict"], "same");
}

#[test]
fn a_fifth_more_fails_and_three_percent_do_not() {
    let at = scratch("diff-slower");
    five(&at, "base", 1.0, &nothing);
    five(&at, "candidate", 1.2, &nothing);
    let document = verdict(&at, &["base", "--", "candidate"], 1);
    assert_eq!((&document["verdict"], &document["runs"]["interleaved"]), (&"regression".into(), &true.into()));
    let first = &document["metrics"][0];
    assert_eq!((&first["path"], &first["verdict"]), (&STEADY.into(), &"regression".into()));
    assert!((first["change_percent"].as_f64().expect("a percentage") - 20.0).abs() < 0.5, "{first}");
    assert!(first["p"].as_f64().expect("tested") < 0.05 && first["effect"]["low"].as_f64().expect("five runs") > 1.1);
    assert_eq!(verdict(&at, &["candidate", "--", "base"], 0)["verdict"], "improved");
    let at = scratch("diff-noise");
    five(&at, "base", 1.0, &nothing);
    five(&at, "candidate", 1.03, &nothing);
    assert_eq!(verdict(&at, &["base", "--", "candidate"], 0)["verdict"], "same");
}

#[test]
fn one_run_a_side_is_inconclusive() {
    let at = scratch("diff-one");
    journal(&at, "a", 0, &nothing);
    journal(&at, "b", 1, &|file, document| slower(file, document, 1.15));
    let document = verdict(&at, &["a", "--", "b"], 0);
    assert_eq!(document["verdict"], "inconclusive");
    assert!(document["reasons"][0].as_str().expect("text").contains("need at least 5 runs a side"), "{document}");
    assert_eq!(verdict(&at, &["--strict", "a", "--", "b"], 4)["verdict"], "inconclusive");
}

#[test]
fn what_is_not_one_experiment_is_refused_by_name() {
    let at = scratch("diff-refused");
    journal(&at, "a", 0, &nothing);
    let set = |file: &'static str, pointer: &'static str, value: Value| {
        move |found: &str, document: &mut Value| {
            if found == file || (file == "*" && found.starts_with("snapshots")) {
                *document.pointer_mut(pointer).expect(pointer) = value.clone();
            }
        }
    };
    let add = |key: &'static str, value: Value| {
        move |found: &str, document: &mut Value| {
            if found == "manifest.json" {
                document[key] = value.clone();
            }
        }
    };
    let cases: [(&str, OwnedChange); 7] = [
        ("memory_monitor", Box::new(set("manifest.json", "/memory_monitor", "full".into()))),
        ("settings.native_timeline", Box::new(set("manifest.json", "/settings/native_timeline", false.into()))),
        ("configuration.residency_mode", Box::new(set("reports/final.json", "/configuration/residency_mode", "parts".into()))),
        (
            "configuration.weight_ceiling_bytes",
            Box::new(set("reports/final.json", "/configuration/weight_ceiling_bytes", 1.into())),
        ),
        ("labels.device", Box::new(set("manifest.json", "/labels/device", "other".into()))),
        ("machine.cpu", Box::new(set("manifest.json", "/machine/cpu", "other".into()))),
        ("visible_devices", Box::new(add("environment", json!({"CUDA_VISIBLE_DEVICES": "0,1"})))),
    ];
    for (field, change) in cases {
        journal(&at, field, 1, &change);
        let document = verdict(&at, &["a", "--", field], 3);
        assert_eq!((&document["verdict"], &document["differences"][0]["field"]), (&"not_comparable".into(), &field.into()));
        assert_eq!(document["metrics"], json!([]), "no number is compared");
        let text = document["differences"][0]["text"].as_str().expect("text");
        assert!(text.contains(" in a, ") && text.ends_with(&format!(" in {field}")), "both values and where: {text}");
        let allowed = verdict(&at, &["--allow", field, "a", "--", field], 0);
        assert_eq!((&allowed["comparable"], &allowed["differences"][0]["allowed"]), (&false.into(), &true.into()));
        for form in ["--markdown", "--annotations"] {
            let page = diff(&at, &[form, "--allow", field, "a", "--", field]).ended(0).out.to_lowercase();
            assert!(page.contains("not comparable"), "{page}");
        }
    }
    journal(&at, "index", 1, &add("environment", json!({"CUDA_VISIBLE_DEVICES": "3"})));
    journal(&at, "index-0", 2, &add("environment", json!({"CUDA_VISIBLE_DEVICES": "0"})));
    assert_eq!(verdict(&at, &["index-0", "--", "index"], 0)["comparable"], true, "another index of one device is harmless");
}

#[test]
fn failed_and_diagnostic_runs_are_no_measurement() {
    let at = scratch("diff-failed");
    journal(&at, "a", 0, &nothing);
    let failed = |file: &str, document: &mut Value| {
        if file == "manifest.end.json" {
            document["exit_code"] = 3.into();
        }
    };
    journal(&at, "b", 1, &failed);
    let document = verdict(&at, &["a", "--", "b"], 3);
    assert_eq!(document["reasons"], json!(["failed: b: the command exited with 3"]));
    let waited = |file: &str, document: &mut Value| {
        if file == "reports/final.json" {
            document["runtime"]["execution_timing"]["diagnostic_step_wait"] = json!({"enabled": true, "status": "complete"});
        }
    };
    journal(&at, "c", 1, &waited);
    let document = verdict(&at, &["a", "--", "c"], 3);
    assert_eq!(document["differences"][0]["field"], "benchmark_eligible");
}

#[test]
fn a_failure_fails_whatever_the_times() {
    let at = scratch("diff-failure");
    five(&at, "base", 1.0, &nothing);
    let cases = [("fast_fault_failures", "no_increase"), ("fast_quarantined_bytes", "must_be_zero")];
    for (name, class) in cases {
        five(&at, name, 0.8, &|file, document| counter(file, document, name, 1.into()));
        let document = verdict(&at, &["base", "--", name], 1);
        let first = &document["metrics"][0];
        assert_eq!((&first["path"], &first["class"]), (&format!("runtime.vmm.{name}").into(), &class.into()));
        assert_eq!(first["change_percent"], Value::Null, "the base is zero");
        assert_eq!(metric(&document, STEADY)["verdict"], "improved");
    }
    let late = |file: &str, document: &mut Value| {
        if file == "reports/final.json" {
            document["runtime"]["vmm"]["fast_fault_failures"] = 1.into();
        }
    };
    five(&at, "late", 1.0, &late);
    assert_eq!(verdict(&at, &["base", "--", "late"], 1)["metrics"][0]["path"], "runtime.vmm.fast_fault_failures");
}

#[test]
fn what_one_side_lacks_is_unavailable_and_never_zero() {
    let at = scratch("diff-missing");
    let case = data("cases/C42/missing");
    let (base, new) = (case.join("base"), case.join("new"));
    let (base, new) = (base.to_str().expect("text"), new.to_str().expect("text"));
    let document = verdict(&at, &[base, "--", new], 0);
    let row = metric(&document, "runtime.vmm.fast_fault_failures");
    assert_eq!((&row["base"], &row["candidate"]), (&json!([0]), &json!([null])));
    assert_eq!((&row["change"], &row["change_percent"], &row["verdict"]), (&Value::Null, &Value::Null, &"inconclusive".into()));
    std::fs::write(at.path().join("gates.toml"), "[gates.\"runtime.vmm.fast_fault_failures\"]\n").expect("written");
    assert_eq!(verdict(&at, &["--strict", "--gates", "gates.toml", base, "--", new], 4)["verdict"], "inconclusive");
}

#[test]
fn a_broken_run_is_named_and_left_out_only_where_that_is_allowed() {
    let at = scratch("diff-broken");
    five(&at, "base", 1.0, &nothing);
    five(&at, "candidate", 1.0, &nothing);
    let record = at.path().join("candidate/2/snapshots/transformer/step_0003.json");
    std::fs::write(&record, "{\"cut").expect("written");
    let refused = diff(&at, &["base", "--", "candidate"]).ended(2);
    assert!(refused.err.contains("candidate/2") && refused.err.contains("--allow-missing-runs"), "{}", refused.err);
    assert!(refused.out.is_empty());
    let document = verdict(&at, &["--allow-missing-runs", "base", "--", "candidate"], 0);
    assert_eq!(document["runs"]["candidate"].as_array().map(Vec::len), Some(4));
    assert!(document["runs"]["left_out"][0].as_str().expect("named").starts_with("2: "), "{document}");
    let page = diff(&at, &["--markdown", "--allow-missing-runs", "base", "--", "candidate"]).ended(0).out;
    assert!(page.contains("left out: 2:"), "{page}");
    let none = diff(&at, &["base", "--", "nowhere"]).ended(2);
    assert!(none.err.contains("nowhere"), "{}", none.err);
    let none = diff(&at, &["--allow-missing-runs", "base", "--", "nowhere"]).ended(2);
    assert!(none.err.contains("no usable runs on the side candidate"), "{}", none.err);
    diff(&at, &["base"]).ended(2);
    diff(&at, &[]).ended(2);
}

#[test]
fn a_gates_file_is_checked_and_names_owners() {
    let at = scratch("diff-gates");
    five(&at, "base", 1.0, &nothing);
    five(&at, "candidate", 1.03, &nothing);
    let with = |text: &str| std::fs::write(at.path().join("g.toml"), text).expect("written");
    let words = ["--gates", "g.toml", "base", "--", "candidate"];
    with(&format!("[gates.\"{STEADY}\"]\nthreshold_percent = 2\nowner = \"kernels\"\n"));
    let document = verdict(&at, &words, 1);
    assert_eq!(
        (&document["metrics"][0]["owner"], &document["metrics"][0]["threshold_percent"]),
        (&"kernels".into(), &2.0.into())
    );
    let page = diff(&at, &[&["--markdown"], &words[..]].concat()).ended(1).out;
    assert!(page.contains("**regression** (kernels)"), "{page}");
    with(&format!("level = 0.001\n[gates.\"{STEADY}\"]\nthreshold_percent = 2\n"));
    let never = verdict(&at, &words, 0);
    assert_eq!(never["verdict"], "inconclusive");
    assert!(never["reasons"][0].as_str().expect("text").contains("can never show it"), "{never}");
    for (text, said) in [
        ("[gates.\"runtime.vmm.fast_uploadz\"]", "no metric is called \"runtime.vmm.fast_uploadz\""),
        ("threshold_percent = 0", "must be above 0"),
        ("threshold_percent = 1e9", "at most 900"),
        ("[gates", "cannot be read"),
    ] {
        with(text);
        let refused = diff(&at, &words).ended(2);
        assert!(refused.err.contains("g.toml") && refused.err.contains(said), "{}", refused.err);
    }
    let absent = diff(&at, &["--gates", "none.toml", "base", "--", "candidate"]).ended(2);
    assert!(absent.err.contains("none.toml"), "{}", absent.err);
}

#[test]
fn noise_is_measured_from_equal_runs_and_read_back() {
    let at = scratch("diff-calibrate");
    five(&at, "base", 1.0, &nothing);
    five(&at, "candidate", 1.2, &nothing);
    let printed = diff(&at, &["--calibrate", "base", "--out", "noise"]).ended(0).out;
    assert!(printed.contains("[calibration]") && printed.contains(&format!("\"{STEADY}\" = 5.0")), "{printed}");
    let file = at.path().join("noise/calibration.toml");
    assert_eq!(std::fs::read_to_string(&file).expect("written"), printed, "the same bytes");
    let document = verdict(&at, &["--gates", "noise/calibration.toml", "base", "--", "candidate"], 1);
    assert_eq!(metric(&document, STEADY)["threshold_percent"], 5.0);
    let refused = diff(&at, &["--calibrate", "base/0"]).ended(2);
    assert!(refused.err.contains("at least 4 runs"), "{}", refused.err);
}

#[test]
fn a_second_batch_confirms_or_clears() {
    let at = scratch("diff-confirm");
    five(&at, "base", 1.0, &nothing);
    five(&at, "candidate", 1.2, &nothing);
    let later = |side: &str, factor: f64, folder: &str| {
        for (index, noise) in NOISE.iter().enumerate() {
            let name = format!("{folder}/{side}-{index}");
            journal(&at, &name, 20 + index, &|file, document| slower(file, document, factor * noise));
        }
    };
    later("base", 1.0, "slow");
    later("candidate", 1.25, "slow");
    later("base", 1.0, "even");
    later("candidate", 1.01, "even");
    let confirmed = verdict(&at, &["--confirm", "slow", "base", "--", "candidate"], 1);
    assert_eq!(confirmed["confirmed"], true);
    let cleared = verdict(&at, &["--confirm", "even", "base", "--", "candidate"], 0);
    assert_eq!((&cleared["confirmed"], &metric(&cleared, STEADY)["verdict"]), (&false.into(), &"same".into()));
    let refused = diff(&at, &["--confirm", "base", "base", "--", "candidate"]).ended(2);
    assert!(refused.err.contains("second batch"), "{}", refused.err);
}

#[test]
fn recorded_runs_of_other_settings_are_refused() {
    let at = scratch("diff-peers");
    let peer = |name: &str| data("peer-runs").join(name).to_str().expect("text").to_owned();
    let (ring, cache) = (peer("small-ring"), peer("small-cache-full"));
    let document = verdict(&at, &[&ring, "--", &cache], 3);
    let fields: Vec<&str> =
        document["differences"].as_array().expect("a list").iter().map(|one| one["field"].as_str().expect("text")).collect();
    assert!(fields.iter().any(|field| field.contains("configuration.")), "{fields:?}");
    assert_eq!(verdict(&at, &[&ring, "--", &ring], 0)["verdict"], "same");
}

fn schema(file: &str) -> jsonschema::Validator {
    // The standard's schema has a stray bracket in the pattern of two language tags, which a strict reader of patterns refuses.
    let text = std::fs::read_to_string(file).expect(file).replace("{2}]?$", "{2}$");
    let schema: Value = serde_json::from_str(&text).expect("JSON");
    jsonschema::validator_for(&schema).expect("a schema")
}

fn fits(schema: &jsonschema::Validator, document: &Value) {
    let errors: Vec<String> = schema.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert_eq!(errors, [""; 0]);
}

#[test]
fn every_form_fits_its_format_and_tells_no_command() {
    let at = scratch("diff-forms");
    let secret = |file: &str, document: &mut Value| {
        if file == "manifest.json" {
            document["command"] = json!(["./secret-program", "--token=secret-word"]);
            document["working_directory"] = "/secret-home".into();
        }
    };
    five(&at, "base", 1.0, &secret);
    five(&at, "candidate", 1.2, &|file, document| {
        secret(file, document);
        counter(file, document, "fast_fault_failures", 2.into());
    });
    journal(&at, "other", 30, &|file, document| {
        secret(file, document);
        if file == "manifest.json" {
            document["labels"]["device"] = "<b>|other`&\"\u{7}".into();
        }
    });
    let own = root().join("schemas/json/verdict.schema.json");
    let (own, standard) =
        (schema(own.to_str().expect("text")), schema(data("sarif/sarif-schema-2.1.0.json").to_str().expect("text")));
    for (out, candidate, code) in
        [("worse", "candidate", 1), ("again", "candidate", 1), ("same", "base", 0), ("refused", "other", 3)]
    {
        diff(&at, &["base", "--out", out, "--", candidate]).ended(code);
        let written = files(&at.path().join(out));
        assert_eq!(
            written.keys().map(|path| path.to_str().expect("text")).collect::<Vec<_>>(),
            ["verdict.json", "verdict.junit.xml", "verdict.md", "verdict.sarif"]
        );
        let text = |name: &str| String::from_utf8(written[Path::new(name)].clone()).expect("text");
        fits(&own, &serde_json::from_str(&text("verdict.json")).expect("JSON"));
        fits(&standard, &serde_json::from_str(&text("verdict.sarif")).expect("JSON"));
        for (name, bytes) in &written {
            let text = String::from_utf8_lossy(bytes);
            assert!(!text.contains("secret"), "{}: {text}", name.display());
        }
        assert!(text("verdict.md").lines().all(|line| !line.contains("<b>")));
    }
    assert!(files(&at.path().join("worse")) == files(&at.path().join("again")), "the same bytes");
    let sarif: Value =
        serde_json::from_slice(&std::fs::read(at.path().join("worse/verdict.sarif")).expect("there")).expect("JSON");
    let results = sarif["runs"][0]["results"].as_array().expect("a list");
    assert!(results.len() >= 3 && results.iter().all(|result| result["level"] == "error"), "{results:?}");
    let refused = diff(&at, &["base", "--out", "worse", "--", "candidate"]).ended(2);
    assert!(refused.err.contains("--force"), "{}", refused.err);
    let inside = diff(&at, &["base", "--out", "candidate/0/x", "--", "candidate"]).ended(2);
    assert!(inside.err.contains("never writes there"), "{}", inside.err);
}

#[test]
fn a_full_disk_is_an_error_and_a_closed_pipe_is_none() {
    let at = scratch("diff-full");
    journal(&at, "a", 0, &nothing);
    let full = std::fs::File::options().write(true).open("/dev/full").expect("Linux has it");
    let mut command = command("ddo-analyze");
    let output = command.current_dir(at.path()).args(["diff", "a", "--", "a"]).stdout(full).output().expect("it starts");
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot write the output"));
}

/// A series of a small generated model on the imitated device: base and candidate differ in their link's rate. Time on the
/// device is virtual, so that its times depend on nothing but the rate.
fn recorded(at: &Scratch, folder: &str, rates: [&str; 2]) -> PathBuf {
    let sample = crate::support::program("ddo-sample");
    let sample = sample.to_str().expect("text");
    let words = |rate: &str| {
        let words = ["flux_shaped", "--scale", "0.0002", "--model", "model.safetensors", "--steps", "4", "--virtual-time"];
        words.into_iter().chain(["--link-gb-per-second", rate]).map(str::to_owned).collect::<Vec<_>>()
    };
    let base = format!("'{sample}' {}", words(rates[0]).join(" "));
    let mut record = command("ddo-record");
    record.current_dir(at.path()).args(["--repeat", "5", "--out", folder, "--gpu-timing", "--memory-monitor", "off"]);
    let said = ran(record.args(["--interleave", &base, "--", sample]).args(words(rates[1]))).ended(0);
    assert!(said.err.contains("compare with: ddo-analyze diff"), "{}", said.err);
    at.path().join(folder)
}

#[test]
fn recorded_series_are_compared_and_a_slower_link_is_found() {
    let at = scratch("diff-recorded");
    let folder = recorded(&at, "series", ["2", "0.05"]);
    let side = |word: &str| (1..6).map(|run| format!("series/{word}-0{run}")).collect::<Vec<_>>();
    let (base, candidate) = (side("base"), side("candidate"));
    let sides = [&base, &candidate].map(|side| side.iter().map(String::as_str).collect::<Vec<_>>());
    let names = sides.join(&"--");
    let sealed = |name: &&str| *name == "--" || at.path().join(name).join("manifest.end.json").exists();
    assert!(names.iter().all(sealed), "{folder:?}");
    let document = verdict(&at, &names, 1);
    assert_eq!((&document["runs"]["interleaved"], &document["comparable"]), (&true.into(), &true.into()));
    assert_eq!(document["metrics"][0]["path"], STEADY, "the right number leads: {}", document["reasons"]);
    let steady = metric(&document, STEADY);
    for side in ["base", "candidate"] {
        let values = steady[side].as_array().unwrap_or_else(|| panic!("{steady}"));
        assert!(values.len() == 5 && values.iter().all(|value| *value == values[0]), "no machine's load is in it: {steady}");
    }
    // The same state on both sides; how long the host takes is left to the machine.
    std::fs::write(at.path().join("device.toml"), "[gates.\"journal.host_elapsed_seconds\"]\nrule = \"off\"\n").expect("written");
    let words = [
        "--gates",
        "device.toml",
        "series/base-01",
        "series/base-02",
        "series/base-03",
        "--",
        "series/base-04",
        "series/base-05",
    ];
    let same = verdict(&at, &words, 0);
    assert_eq!((&same["comparable"], &metric(&same, STEADY)["verdict"]), (&true.into(), &"same".into()));
}

#[test]
fn a_series_ends_with_the_first_run_that_fails() {
    let at = scratch("diff-series");
    let record = |words: &[&str]| ran(command("ddo-record").current_dir(at.path()).args(words));
    let script = "echo \"$DDO_RECORD_DIR\" >> order; case \"$DDO_RECORD_DIR\" in *base-02) exit 7;; esac";
    let base = format!("sh -c '{script}'");
    let said = record(&["--repeat", "4", "--out", "runs", "--interleave", &base, "--", "sh", "-c", script]).ended(7);
    assert!(said.err.contains("exit code 7 in") && said.err.contains("base-02"), "{}", said.err);
    let order = std::fs::read_to_string(at.path().join("order")).expect("every run says its folder");
    let order: Vec<&str> = order.lines().map(|line| line.rsplit('/').next().expect("a name")).collect();
    assert_eq!(order, ["base-01", "candidate-01", "candidate-02", "base-02"]);
    record(&["--repeat", "2", "--out", "plain", "--", "true"]).ended(0);
    assert!(at.path().join("plain/run-01/manifest.end.json").exists() && at.path().join("plain/run-02/manifest.json").exists());
    let again = record(&["--repeat", "2", "--out", "plain", "--", "true"]).ended(125);
    assert!(again.err.contains("not empty"), "{}", again.err);
    let unsplit = record(&["--repeat", "2", "--out", "x", "--interleave", "a 'b", "--", "true"]).ended(125);
    assert!(unsplit.err.contains("a quote is not closed") && !at.path().join("x").exists(), "{}", unsplit.err);
}
