//! The diagnostic scopes through the programs: asked for by a wrapper or by the host, told on every page.
//!
//! Proves: what a wrapper asks for reaches the host and the report; each scope works alone and with the others, on both models; every
//! page of such a run says that it is no benchmark; runs that differ in a step wait alone are not compared, and a table says what
//! changed; what cannot be is refused before anything is made.

use crate::support::trace::sound;
use crate::support::{Ran, Scratch, command, files, minilm, program, ran, scratch};
use serde_json::{Value, json};
use std::path::Path;

/// The smallest generated model.
const SCALE: &str = "0.00001";

/// The words for each model that is there.
fn models(at: &Scratch) -> Vec<(&'static str, Vec<String>)> {
    let model = at.path().join("model.safetensors").to_str().expect("text").to_owned();
    let flux = ["flux_shaped", "--scale", SCALE, "--model", &model].map(str::to_owned).to_vec();
    let real = minilm().map(|files| files.weights.to_str().expect("text").to_owned());
    let real = real.map(|path| ("encoder", ["minilm", "--model", &path].map(str::to_owned).to_vec()));
    std::iter::once(("transformer", flux)).chain(real).collect()
}

fn record(at: &Scratch, out: &str, switches: &[&str], sample: &[String]) -> Ran {
    let mut record = command("ddo-record");
    record
        .current_dir(at.path())
        .args(["-o", out, "--memory-monitor", "off"])
        .args(switches)
        .arg("--")
        .arg(program("ddo-sample"));
    ran(record.args(sample))
}

fn analyze(at: &Scratch, words: &[&str]) -> Ran {
    ran(command("ddo-analyze").current_dir(at.path()).args(words))
}

fn read(at: &Scratch, path: &str) -> Value {
    serde_json::from_slice(&std::fs::read(at.path().join(path)).expect(path)).expect("JSON")
}

const ALL: [&str; 6] =
    ["--gpu-timing", "--native-timeline=8192", "--diagnostic-step-wait", "--allocation-diagnostics", "--repeats", "3"];

#[test]
fn a_run_with_every_scope_says_what_it_found_and_that_it_is_no_benchmark() {
    let at = scratch("scopes-all");
    for (component, words) in models(&at) {
        let sample: Vec<String> = words.iter().cloned().chain(["--steps", "4", "--ceiling", "60%"].map(str::to_owned)).collect();
        let recorded = record(&at, component, &ALL, &sample).ended(0);
        assert!(recorded.out.contains("12 steps, each bit for bit equal to the resident run"), "{}", recorded.out);
        assert_eq!(recorded.out.matches("(not a benchmark)").count(), 2, "waits and driver calls: {}", recorded.out);
        let settings = &read(&at, &format!("{component}/manifest.json"))["settings"];
        assert_eq!((&settings["allocation_diagnostics"], &settings["repeats"]), (&json!(true), &json!(3)));

        let runtime = &read(&at, &format!("{component}/reports/final.json"))["runtime"];
        let scope = &runtime["allocation_diagnostics"];
        assert_eq!((&scope["status"], scope["steps"].as_array().map(Vec::len)), (&json!("complete"), Some(12)));
        assert!(scope["total_delta"]["create_calls"].as_u64().is_some_and(|calls| calls > 0), "{scope}");
        let timing = &runtime["execution_timing"];
        assert_eq!((&timing["status"], &timing["diagnostic_step_wait"]["calls"]), (&json!("complete"), &json!(4)));
        assert_eq!(runtime["native_timeline"]["status"], "complete");
        for index in 0..3 {
            let file = format!("{component}/generations/{component}/generation_{index:04}.json");
            let one = &read(&at, &file)["generation_observations"][0];
            assert_eq!(one["repeat_index"], index);
            assert!(one["elapsed_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{one}");
            let report = &one["ddo_report"]["runtime"];
            assert_eq!(
                (&report["execution_timing"]["status"], &report["completion_collection"]),
                (&json!("complete"), &Value::Null)
            );
            assert_eq!(report["native_timeline"]["status"], "complete");
        }
        told(&at, component);
    }
}

/// What the analyzer says of such a run.
fn told(at: &Scratch, component: &str) {
    let screen = analyze(at, &[component]).ended(0).out;
    for part in
        ["NOT A BENCHMARK: allocation_diagnostics and diagnostic_step_wait were on", "driver calls", "generations", "(cold)"]
    {
        assert!(screen.contains(part), "{part:?} is missing:\n{screen}");
    }
    assert!(screen.lines().count() <= 45, "one screen: {screen}");
    let summary = read(at, &format!("{component}.analysis/summary.json"));
    let codes: Vec<&str> =
        summary["findings"].as_array().expect("a list").iter().filter_map(|one| one["code"].as_str()).collect();
    assert!(codes.contains(&"not_a_benchmark") && summary["steps"]["efficiency"].is_null(), "{codes:?}");
    analyze(at, &["check", component]).ended(0);

    let trace = sound(&std::fs::read(at.path().join(format!("{component}.analysis/run.perfetto-trace"))).expect("written"));
    let steps = trace.on("steps (between markers").filter(|slice| slice.name.starts_with("step ")).count();
    assert_eq!(steps, 12, "the windows of every generation are drawn, those of the last one once");

    let table = analyze(at, &["allocation", component]).ended(0).out;
    assert!(table.contains("not a benchmark: each call was timed") && table.contains("retry waits"), "{table}");
    let machine: Value =
        serde_json::from_str(&analyze(at, &["allocation", component, "--json"]).ended(0).out).expect("JSON alone");
    let scope = &machine["scopes"][0];
    let intervals = scope["intervals"].as_array().expect("a list");
    // Twelve steps and what follows them.
    assert_eq!((intervals.len(), &intervals[12]["step"], &scope["benchmark_eligible"]), (13, &Value::Null, &json!(false)));
    let sum = |name: &str| intervals.iter().map(|one| one["values"][name].as_u64().expect("counted")).sum::<u64>();
    for name in ["create_calls", "access_return_success_calls", "fault_range_calls"] {
        assert_eq!(Some(sum(name)), scope["total"]["values"][name].as_u64(), "{name}");
    }
    let profile = analyze(at, &["profile", component]).ended(0).out;
    assert!(
        profile.contains("allocation_step=12 ") && profile.contains("the host waited at every step; not a benchmark"),
        "{profile}"
    );
    assert!(profile.contains("DDO generations") && profile.contains("\n  generation=3 elapsed_s="), "{profile}");
}

#[test]
fn each_scope_works_alone_without_a_wrapper_and_leaves_no_file() {
    let at = scratch("scopes-alone");
    for (_, words) in models(&at) {
        for (switches, said) in [
            (&["--allocation-diagnostics"][..], "driver    complete: "),
            (&["--gpu-timing"], "timing    complete, "),
            (&["--gpu-timing", "--native-timeline=2"], "windows   truncated, 2 of 2, "),
            (&["--gpu-timing", "--native-timeline", "--diagnostic-step-wait"], "waits     3 at the ends of steps, "),
            (&["--repeats", "2"], "6 steps, each bit for bit equal"),
        ] {
            let mut sample = command("ddo-sample");
            let ended = ran(sample.current_dir(at.path()).args(&words).args(["--steps", "3"]).args(switches)).ended(0);
            assert!(ended.out.contains(said), "{switches:?}: {}", ended.out);
        }
    }
    let names: Vec<_> = files(at.path()).into_keys().collect();
    assert_eq!(names, [Path::new("model.safetensors")]);
}

#[test]
fn generations_without_a_timer_have_no_report() {
    let at = scratch("scopes-repeats");
    let (_, words) = models(&at).swap_remove(0);
    record(&at, "run", &["--repeats", "2"], &words).ended(0);
    let one = &read(&at, "run/generations/transformer/generation_0001.json")["generation_observations"][0];
    assert!(one["ddo_report"].is_null() && one.get("ddo_report").is_some(), "{one}");
    let profile = analyze(&at, &["profile", "run"]).ended(0).out;
    assert!(profile.contains("timing=none phase_s=unavailable"), "{profile}");
    // The host's own number wins over the wrapper's wish.
    let own: Vec<String> = words.iter().cloned().chain(["--repeats".into(), "1".into()]).collect();
    record(&at, "own", &["--repeats", "2"], &own).ended(0);
    assert!(!at.path().join("own/generations/transformer/generation_0001.json").exists());
    record(&at, "none", &[], &words).ended(0);
    assert!(!at.path().join("none/generations").exists(), "nobody asked");
}

#[test]
fn a_step_wait_is_told_and_never_compared() {
    let at = scratch("scopes-diff");
    let (_, words) = models(&at).swap_remove(0);
    let timed = ["--gpu-timing", "--native-timeline"];
    record(&at, "plain", &timed, &words).ended(0);
    record(&at, "waits", &[timed[0], timed[1], "--diagnostic-step-wait"], &words).ended(0);
    record(&at, "other", &[timed[0], timed[1], "--diagnostic-step-wait", "--label", "a=b"], &words).ended(0);

    let text = analyze(&at, &["diff", "plain", "--", "waits"]).ended(3).out;
    assert!(text.contains("what the diagnosis changed (not a benchmark: medians, no verdict)"), "{text}");
    let document: Value =
        serde_json::from_str(&analyze(&at, &["diff", "--json", "plain", "--", "waits"]).ended(3).out).expect("JSON");
    assert_eq!((&document["verdict"], document["metrics"].as_array().map(Vec::len)), (&json!("not_comparable"), Some(0)));
    let changes = document["diagnostic_changes"].as_array().expect("a table");
    let of =
        |path: &str| changes.iter().find(|one| one["path"] == path).unwrap_or_else(|| panic!("{path} is missing: {document}"));
    let waits = of("runtime.execution_timing.diagnostic_step_wait.calls");
    assert_eq!((&waits["base"], &waits["candidate"], &waits["change_percent"]), (&Value::Null, &json!(4.0), &Value::Null));
    let steady = of("runtime.execution_timing.steady_state_seconds_per_step");
    assert!(steady["base"].is_number() && steady["candidate"].is_number() && steady["change_percent"].is_number(), "{steady}");
    of("runtime.native_timeline.warm_window_summary.union_seconds.upload_batch_window");

    let other = analyze(&at, &["diff", "plain", "--", "other"]).ended(3).out;
    assert!(other.contains("labels.a") && !other.contains("what the diagnosis changed"), "{other}");
}

#[test]
fn what_cannot_be_is_refused_before_anything_is_made() {
    let at = scratch("scopes-refused");
    let (_, words) = models(&at).swap_remove(0);
    for (switches, part) in [
        (&["--gpu-timing", "--native-timeline=0"][..], "native_timeline_capacity is 0; it must be 1 to 8192"),
        (&["--gpu-timing", "--native-timeline=8193"], "native_timeline_capacity is 8193; it must be 1 to 8192"),
        (&["--native-timeline"], "native_timeline needs gpu_timing"),
        (&["--gpu-timing", "--diagnostic-step-wait"], "diagnostic_step_wait needs gpu_timing and native_timeline"),
        (&["--diagnostic-step-wait"], "diagnostic_step_wait needs gpu_timing and native_timeline"),
        (&["--repeats", "0"], "0"),
        (&["--repeats", "1001"], "1001"),
    ] {
        let refused = record(&at, "run", switches, &words);
        assert_eq!(refused.code, Some(125), "{switches:?}: {}", refused.err);
        assert!(refused.err.contains(part), "{switches:?}: {}", refused.err);
        let mut sample = command("ddo-sample");
        let refused = ran(sample.current_dir(at.path()).args(&words).args(switches)).ended(2);
        assert!(refused.err.contains(part), "{switches:?}: {}", refused.err);
    }
    assert!(!at.path().join("run").exists(), "no folder");
    let both = record(&at, "taken", &["--allocation-diagnostics"], &words).ended(0);
    assert!(both.out.contains("driver    complete"), "{}", both.out);
    let again = record(&at, "taken", &["--allocation-diagnostics"], &words);
    assert!(again.code == Some(125) && again.err.contains("taken"), "{}", again.err);
}
