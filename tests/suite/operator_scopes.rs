//! Scopes of operator diagnostics, as hosts and the wrapper open them.
//!
//! Proves: every status is reached; tables and trace of a forward say the same; every row that the specification names comes out of
//! a run; what cannot be sampled is refused with its value and limit; a failure of the scope is told by the scope alone; samples
//! announce what they do, through the wrapper and into the analyzer.

use crate::support::small::{component, config, pass, reference, submit};
use crate::support::{command, data, minilm, ran, scratch};
use ddo_analyzer::analysis::operators::summary;
use ddo_analyzer::{analysis, ingest};
use ddo_recorder::driver::{DriverErrorKind, Faulty, Script};
use ddo_recorder::{
    Driver, Error, HostDriver, HostOptions, Offload, OperatorOptions, OperatorScope, Result, SnapshotOptions, enable_offload,
};
use ddo_schemas::sections::{OperatorDiagnostics, OperatorRow};
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn attached(driver: Arc<dyn Driver>) -> Offload {
    enable_offload(component(4), config(driver)).expect("attached")
}

fn host() -> Arc<dyn Driver> {
    HostDriver::new(HostOptions { page_bytes: 4096, ..HostOptions::default() }).expect("a host driver")
}

fn options(module: &str, invocations: &[u64], dir: &Path) -> OperatorOptions {
    OperatorOptions {
        enabled: true,
        module_path: Some(module.into()),
        invocations: invocations.to_vec(),
        output_dir: Some(dir.to_path_buf()),
        use_cuda: true,
    }
}

/// One forward of every unit, announced: a child, an operator in it, and one beside it.
fn forward(offload: &Offload) {
    let state = Arc::new(Mutex::new(1));
    for unit in 0..4 {
        let block = offload.forward(&format!("blocks.{unit}"));
        {
            let child = block.child("a");
            let _fold = child.operator("fold");
            submit(offload, offload.compute_stream(), unit, &state).expect("queued");
        }
        let _idle = block.operator("idle");
    }
    offload.mark_step().expect("a step");
}

fn closed(offload: &Offload) {
    let closed = offload.close(Duration::from_secs(10)).expect("closes");
    assert_eq!(closed.errors, Vec::<String>::new());
}

fn status(diagnostics: &OperatorDiagnostics) -> &str {
    diagnostics.status.as_deref().expect("always there")
}

/// A scope over two forwards of `blocks.1`; what it says at the end, and what its end raised.
fn over(offload: &Offload, options: OperatorOptions, body: impl FnOnce(&Offload)) -> (OperatorDiagnostics, Option<Error>) {
    let scope = offload.operator_diagnostics(options).expect("opens");
    let operators = scope.operators();
    body(offload);
    let error = scope.finish().err();
    (operators.diagnostics(), error)
}

#[test]
fn every_status_is_reached() {
    let at = scratch("operators-status");
    let offload = attached(host());
    let scope = offload.operator_diagnostics(OperatorOptions::default()).expect("off");
    let disabled = scope.finish().expect("off").diagnostics();
    assert_eq!((status(&disabled), disabled.benchmark_eligible, &disabled.samples), ("disabled", None, &None));
    assert_eq!(std::fs::read_dir(at.path()).expect("there").count(), 0);

    let scope = offload.operator_diagnostics(options("blocks.1", &[0], &at.path().join("open"))).expect("opens");
    let operators = scope.operators();
    assert_eq!(status(&operators.diagnostics()), "not_finished");
    drop(scope);
    assert_eq!(status(&operators.diagnostics()), "not_finished", "dropped is not finished");

    let twice = |offload: &Offload| (0..2).for_each(|_| forward(offload));
    let (complete, error) = over(&offload, options("blocks.1", &[1, 0], &at.path().join("complete")), twice);
    assert!(error.is_none() && status(&complete) == "complete", "{complete:?}");
    let (incomplete, error) = over(&offload, options("blocks.1", &[0, 5], &at.path().join("incomplete")), twice);
    assert!(error.is_none(), "{error:?}");
    assert_eq!((status(&incomplete), incomplete.observed_invocations), ("incomplete", Some(2)));
    assert_eq!(incomplete.samples.as_ref().map(Vec::len), Some(1), "what was sampled stays");

    let scope = offload.operator_diagnostics(options("blocks.1", &[0], &at.path().join("failed"))).expect("opens");
    forward(&offload);
    let failed = scope.finish_failed().diagnostics();
    assert_eq!((status(&failed), failed.benchmark_eligible), ("failed", Some(false)));

    let nothing = |offload: &Offload| drop(offload.forward("blocks.1"));
    let (without, error) = over(&offload, options("blocks.1", &[0], &at.path().join("without")), nothing);
    assert_eq!((status(&without), error.map(|error| error.code())), ("cuda_activity_unavailable", Some("unsupported")));
    assert_eq!(
        std::fs::read_dir(at.path().join("without")).expect("made").count(),
        0,
        "no trace stands for a capture without records"
    );
    closed(&offload);
}

#[test]
fn records_that_fail_end_the_sampling_and_nothing_else() {
    let at = scratch("operators-records");
    for call in ["activity_start", "activity_stop"] {
        // The first call is the trial at the opening.
        let script = |answers: &[Option<DriverErrorKind>]| {
            let answers: VecDeque<_> = answers.iter().copied().collect();
            Script { by_name: BTreeMap::from([(call, answers)]), ..Script::default() }
        };
        let driver = Faulty::new(host(), script(&[None, Some(DriverErrorKind::System)]));
        let offload = attached(Arc::<Faulty>::clone(&driver));
        let dir = at.path().join(call);
        let mut results = Vec::new();
        let (found, error) = over(&offload, options("blocks.1", &[0, 1], &dir), |offload| {
            (0..2).for_each(|_| forward(offload));
            results.push(pass(offload, &[0, 1, 2, 3]).expect("a pass"));
        });
        assert_eq!(results, [reference(&[0, 1, 2, 3])], "the host computes what it always does");
        assert_eq!((status(&found), found.observed_invocations), ("cuda_activity_unavailable", Some(2)), "{call}");
        assert!(found.samples.is_some_and(|samples| samples.is_empty()));
        assert!(error.is_some_and(|error| error.to_string().contains(call)), "{call}");
        driver.follow(script(&[Some(DriverErrorKind::System)]));
        let refused = offload.operator_diagnostics(options("blocks.1", &[0], &at.path().join("refused")));
        assert_eq!(refused.err().map(|error| error.code()), Some("unsupported"), "{call}: what cannot be had is refused at once");
        driver.follow(Script::default());
        let (found, error) = over(&offload, options("blocks.1", &[0], &at.path().join(format!("{call}-again"))), forward);
        assert!(error.is_none() && status(&found) == "complete", "{call}: no capture was left open");
        closed(&offload);
    }
}

fn named<'a>(rows: &'a Option<Vec<OperatorRow>>, name: &str) -> &'a OperatorRow {
    let found = rows.iter().flatten().find(|row| row.name.as_deref() == Some(name));
    found.unwrap_or_else(|| panic!("no {name} in {rows:#?}"))
}

fn ns(seconds: Option<ddo_schemas::Seconds>) -> u64 {
    (seconds.expect("recorded").0 * 1e9).round() as u64
}

#[test]
fn tables_and_trace_of_a_forward_say_the_same() {
    let at = scratch("operators-tables");
    let offload = attached(host());
    let (found, error) = over(&offload, options("blocks.1", &[0, 1], at.path()), |offload| {
        (0..3).for_each(|_| forward(offload));
        offload.wait_idle().expect("idle");
    });
    assert!(error.is_none(), "{error:?}");
    for sample in found.samples.as_ref().expect("sampled") {
        let run = ingest::load(Path::new(sample.trace_path.as_deref().expect("written"))).expect("loads");
        let serious: Vec<_> = analysis::findings(&run).into_iter().filter(|found| found.code.starts_with("operator")).collect();
        assert!(!serious.iter().any(analysis::is_serious), "{serious:#?}");
        let trace = &run.operators[0];
        let read = summary(trace);
        assert_eq!(read.busy.map(|busy| busy.events), sample.device_activity_events);
        assert_eq!(read.device.len(), sample.top_device.as_ref().map_or(0, Vec::len));
        for row in &read.device {
            let told = named(&sample.top_device, trace.name(row.name));
            assert_eq!((told.calls, ns(told.device_seconds)), (Some(row.calls), row.total_ns));
        }
        for name in ["blocks.1", "ddo.forward.a", "fold", "idle"] {
            let row = read.host.iter().find(|row| trace.name(row.name) == name).expect("in the trace");
            let told = named(&sample.top_host, name);
            assert_eq!((told.calls, ns(told.host_seconds)), (Some(row.calls), row.inclusive_ns), "{name}");
        }
        let own: u64 = sample.top_host.iter().flatten().map(|row| ns(row.self_host_seconds)).sum();
        assert_eq!(own, ns(sample.host_forward_seconds), "own times make up the forward");
        let whole = ns(named(&sample.top_host, "blocks.1").device_seconds);
        assert_eq!(read.busy.map(|busy| busy.sum_ns), Some(whole), "all device time belongs to the module");
        assert_eq!(
            (ns(named(&sample.top_host, "idle").device_seconds), ns(named(&sample.top_host, "blocks.1").self_device_seconds)),
            (0, 0)
        );
        assert_eq!(named(&sample.top_host, "launch").calls, Some(1));
        assert_eq!(named(&sample.top_device, "work of fold").calls, Some(1));
        assert_eq!(sample.child_ranges.as_ref().map(Vec::len), Some(1));
    }
    let first = &found.samples.as_ref().expect("sampled")[0];
    assert_eq!(named(&first.top_host, "copy_to_device").calls, named(&first.top_device, "Memcpy HtoD").calls);
    closed(&offload);
}

#[test]
fn without_device_activity_there_are_no_device_columns() {
    let at = scratch("operators-host-only");
    let offload = attached(host());
    let only_host = OperatorOptions { use_cuda: false, ..options("blocks.1", &[0], at.path()) };
    let (found, error) = over(&offload, only_host, forward);
    assert!(error.is_none() && status(&found) == "complete", "{error:?}");
    let sample = &found.samples.as_ref().expect("sampled")[0];
    assert_eq!((sample.device_activity_events, sample.top_device.as_ref().map(Vec::len)), (None, Some(0)));
    assert!(sample.top_host.iter().flatten().all(|row| row.device_seconds.is_none()), "{sample:#?}");
    let run = ingest::load(at.path()).expect("loads");
    assert!(summary(&run.operators[0]).busy.is_none());
    closed(&offload);
}

/// True where the path leads to a value that is not null.
fn leads_to(value: &Value, path: &[&str]) -> bool {
    let Some((first, rest)) = path.split_first() else { return !value.is_null() };
    match first.strip_suffix("[]") {
        Some(list) => value[list].as_array().is_some_and(|items| items.iter().any(|item| leads_to(item, rest))),
        None => leads_to(&value[*first], rest),
    }
}

#[test]
fn every_row_of_the_specification_comes_out_of_a_run() {
    let at = scratch("operators-rows");
    let offload = attached(host());
    let scope = offload.operator_diagnostics(options("blocks.2", &[0], at.path())).expect("opens");
    forward(&offload);
    let operators = scope.finish().expect("sampled");
    let report = offload.metrics_snapshot(SnapshotOptions::default()).expect("a report");
    assert!(report.runtime.operator_diagnostics.is_none(), "a report has the scope only once it is attached");
    let report = serde_json::to_value(operators.attach(report)).expect("JSON");
    let fields = std::fs::read_to_string(data("spec/fields.tsv")).expect("recorded");
    let rows: Vec<&str> = fields.lines().filter_map(|line| line.split('\t').next()).collect();
    let rows: Vec<&&str> = rows.iter().filter(|row| row.starts_with("runtime.operator_diagnostics")).collect();
    assert!(rows.len() >= 30, "{rows:?}");
    for row in rows {
        assert!(leads_to(&report, &row.split('.').collect::<Vec<_>>()), "{row} is in no report");
    }
    let recorded = std::fs::read_to_string(data("peer-runs/small-cache-full/operators.json")).expect("recorded");
    let recorded: Value = serde_json::from_str(&recorded).expect("JSON");
    let read = |value: &Value| {
        let scope = &value["runtime"]["operator_diagnostics"];
        serde_json::from_value::<OperatorDiagnostics>(scope.clone()).expect("one reader for both")
    };
    assert_eq!((status(&read(&recorded)), status(&read(&report))), ("complete", "complete"));
    closed(&offload);
}

fn refused(offload: &Offload, options: OperatorOptions) -> (String, String) {
    let error = offload.operator_diagnostics(options).expect_err("refused");
    (error.code().to_string(), error.to_string())
}

#[test]
fn what_cannot_be_sampled_is_refused_with_value_and_limit() {
    let at = scratch("operators-bad");
    let offload = attached(host());
    let with = |module: &str, invocations: &[u64]| options(module, invocations, &at.path().join("out"));
    let no_module = OperatorOptions { module_path: None, ..with("", &[0]) };
    let no_folder = OperatorOptions { output_dir: None, ..with("blocks.1", &[0]) };
    for (options, code, words) in [
        (no_module, "bad_operators", "path of one module"),
        (with("", &[0]), "bad_operators", "path of one module"),
        (with("blocks.9", &[0]), "unknown_name", "blocks.9"),
        (with("block", &[0]), "unknown_name", "\"block\""),
        (with("blocks.1.c", &[0]), "unknown_name", "blocks.1.c"),
        (with("blocks.1", &[]), "bad_operators", "got 0 invocations; 1 to 4"),
        (with("blocks.1", &[0, 1, 2, 3, 4]), "bad_operators", "got 5 invocations; 1 to 4"),
        (with("blocks.1", &[3, 3]), "bad_operators", "invocation 3 twice"),
        (with("blocks.1", &[32]), "bad_operators", "got invocation 32; the last that can be sampled is 31"),
        (no_folder, "invalid", "no output folder"),
    ] {
        let (got, text) = refused(&offload, options);
        assert!(got == code && text.contains(words), "{got}: {text}");
    }
    assert_eq!(std::fs::read_dir(at.path()).expect("there").count(), 0, "nothing was made");
    for module in ["blocks", "blocks.1", "blocks.1.a"] {
        drop(offload.operator_diagnostics(with(module, &[31])).expect("a module of the component"));
    }
    let path = at.path().join("out/operators_invocation_02.json");
    std::fs::write(&path, "evidence").expect("written");
    let (code, text) = refused(&offload, with("blocks.1", &[0, 2]));
    assert!(code == "publish_exists" && text.contains("operators_invocation_02.json"), "{text}");
    assert_eq!(std::fs::read_to_string(&path).expect("there"), "evidence");
    let (code, text) = refused(&offload, options("blocks.1", &[0], &path.join("below")));
    assert!(code == "io" && text.contains("below"), "{text}");
    let scope = offload.operator_diagnostics(options("blocks.1", &[0], &at.path().join("one"))).expect("opens");
    let (code, text) = refused(&offload, options("blocks.1", &[0], &at.path().join("two")));
    assert!(code == "operators_in_use" && text.contains("got 2 scopes, the limit is 1"), "{text}");
    drop(scope);
    closed(&offload);
}

#[test]
fn a_failure_of_the_scope_is_told_by_the_scope_alone() {
    let at = scratch("operators-failures");
    let offload = attached(host());
    let recursion = |offload: &Offload| {
        let _outer = offload.forward("blocks.1");
        let _inner = offload.forward("blocks.1");
    };
    let thread = |offload: &Offload| {
        std::thread::scope(|threads| {
            threads.spawn(|| drop(offload.forward("blocks.1")));
        });
    };
    let taken = at.path().join("taken");
    let meanwhile = |offload: &Offload| {
        std::fs::write(taken.join("operators_invocation_00.json"), "evidence").expect("written");
        forward(offload);
    };
    type Body<'a> = &'a dyn Fn(&Offload);
    let bodies: [(&str, Body<'_>, &str); 3] = [
        ("recursion", &recursion, "operators_recursion"),
        ("thread", &thread, "operators_other_thread"),
        ("taken", &meanwhile, "publish_exists"),
    ];
    for (name, body, code) in bodies {
        let dir = at.path().join(name);
        let (found, error) = over(&offload, options("blocks.1", &[0], &dir), |offload| {
            body(offload);
            assert_eq!(pass(offload, &[0, 1, 2, 3]).expect("the host goes on"), reference(&[0, 1, 2, 3]));
        });
        assert_eq!((status(&found), error.map(|error| error.code())), ("failed", Some(code)), "{name}");
    }
    assert_eq!(std::fs::read_to_string(taken.join("operators_invocation_00.json")).expect("there"), "evidence");
    // The body's own error is what the host goes on with.
    let host = |scope: OperatorScope| -> Result<()> {
        recursion(&offload);
        let body: Result<()> = Err(Error::Closed { what: "the body" });
        body.inspect_err(|_| assert_eq!(status(&scope.finish_failed().diagnostics()), "failed"))
    };
    let scope = offload.operator_diagnostics(options("blocks.1", &[0], &at.path().join("body"))).expect("opens");
    assert_eq!(host(scope).err().map(|error| error.to_string()), Some("the body is closed [closed]".into()));
    closed(&offload);
}

#[test]
fn a_module_around_others_has_them_as_children() {
    let at = scratch("operators-around");
    let offload = attached(host());
    let (found, error) = over(&offload, options("blocks", &[0], at.path()), |offload| {
        let _all = offload.forward("blocks");
        forward(offload);
    });
    assert!(error.is_none() && status(&found) == "complete", "{error:?}");
    let sample = &found.samples.as_ref().expect("sampled")[0];
    let mut children: Vec<_> = sample.child_ranges.iter().flatten().filter_map(|row| row.name.as_deref()).collect();
    children.sort_unstable();
    assert_eq!(children, ["ddo.forward.0", "ddo.forward.1", "ddo.forward.2", "ddo.forward.3"]);
    assert_eq!(named(&sample.top_host, "ddo.forward.1.a").calls, Some(1), "what lies deeper is in the list of all");
    closed(&offload);
}

/// Records a sample through the wrapper and gives its final report's scope and the analyzer's words.
fn wrapped(at: &Path, wish: &str, sample: &[&str]) -> (Value, String) {
    let folder = at.join("run");
    let mut recorded = command("ddo-record");
    recorded.arg("-o").arg(&folder).args(["--memory-monitor", "off", "--operator-diagnostics", wish, "--"]);
    ran(recorded.arg(crate::support::program("ddo-sample")).args(sample)).ended(0);
    let report = std::fs::read(folder.join("reports/final.json")).expect("written");
    let report: Value = serde_json::from_slice(&report).expect("JSON");
    let manifest = std::fs::read(folder.join("manifest.json")).expect("written");
    let manifest: Value = serde_json::from_slice(&manifest).expect("JSON");
    assert_eq!(manifest["settings_origin"]["operator_diagnostics"], "command_line");
    let run = ingest::load(&folder).expect("loads");
    let serious: Vec<_> = analysis::findings(&run).into_iter().filter(|finding| finding.code.contains("operator")).collect();
    assert!(serious.iter().all(|finding| !analysis::is_serious(finding)), "{serious:#?}");
    let said = ran(command("ddo-analyze").arg("operators").arg(&folder)).ended(0).out;
    ran(command("ddo-analyze").arg("check").arg(&folder)).ended(0);
    (report["runtime"]["operator_diagnostics"].clone(), said)
}

fn child_names(scope: &Value) -> Vec<String> {
    let rows = scope["samples"][0]["child_ranges"].as_array().expect("a list");
    let mut names: Vec<String> = rows.iter().filter_map(|row| row["name"].as_str()).map(String::from).collect();
    names.sort();
    names
}

#[test]
fn the_generated_model_announces_its_blocks_through_the_wrapper() {
    let children = ["attn", "ff", "ff_context", "norm1", "norm1_context"].map(|name| format!("ddo.forward.{name}"));
    for mode in ["parts", "classic"] {
        let at = scratch("operators-flux");
        let model = at.path().join("model.safetensors");
        let model = model.to_str().expect("text");
        let sample = ["flux_shaped", "--scale", "0.00001", "--steps", "4", "--mode", mode, "--model", model];
        let (scope, said) = wrapped(at.path(), "transformer_blocks.1:1,3", &sample);
        assert_eq!((&scope["status"], &scope["observed_invocations"]), (&"complete".into(), &4.into()), "{scope:#}");
        assert_eq!(child_names(&scope), children, "{mode}");
        assert!(said.contains("not a benchmark") && said.contains("ddo.forward.attn"), "{said}");
        assert!(said.contains("child ranges of transformer_blocks.1; scope complete, 2 of 2 samples"), "{said}");
        let names: Vec<_> = crate::support::files(&at.path().join("run/operators")).into_keys().collect();
        assert_eq!(names, [Path::new("operators_invocation_01.json"), Path::new("operators_invocation_03.json")]);
    }
}

#[test]
fn the_encoder_announces_its_layers_through_the_wrapper() {
    let Some(files) = minilm() else { return };
    let at = scratch("operators-minilm");
    let model = files.weights.to_str().expect("text");
    let (scope, _) = wrapped(at.path(), "encoder.layer.2", &["minilm", "--steps", "3", "--model", model]);
    assert_eq!((&scope["status"], &scope["requested_invocations"]), (&"complete".into(), &serde_json::json!([0, 2])));
    assert_eq!(child_names(&scope), ["attention", "intermediate", "output"].map(|name| format!("ddo.forward.{name}")));
    let top = scope["samples"][0]["top_device"].as_array().expect("a list");
    let calls = |name: &str| top.iter().find(|row| row["name"] == name).and_then(|row| row["calls"].as_u64());
    assert_eq!((calls("linear"), calls("attention"), calls("gelu")), (Some(6), Some(1), Some(1)), "{top:#?}");
}

#[test]
fn the_wrapper_refuses_what_cannot_be_sampled_before_it_starts_anything() {
    let at = scratch("operators-wrap");
    for (wish, words) in [
        ("", "path of one module"),
        (":0", "path of one module"),
        ("a:0,1,2,3,4", "got 5 invocations; 1 to 4"),
        ("a:1,1", "invocation 1 twice"),
        ("a:32", "got invocation 32"),
        ("a:x", "is no index of a call"),
    ] {
        let folder = at.path().join("run");
        let said =
            ran(command("ddo-record").arg("-o").arg(&folder).args(["--operator-diagnostics", wish, "--", "true"])).ended(125);
        assert!(said.err.contains(words) && !folder.exists(), "{wish}: {}", said.err);
    }
    let model = at.path().join("model.safetensors");
    let folder = at.path().join("unknown");
    let mut recorded = command("ddo-record");
    recorded.arg("-o").arg(&folder).args(["--operator-diagnostics", "no.such.module", "--"]);
    recorded.arg(crate::support::program("ddo-sample")).args(["flux_shaped", "--scale", "0.00001", "--model"]).arg(model);
    let said = ran(&mut recorded).ended(2);
    assert!(said.err.contains("no.such.module") && said.err.contains("transformer"), "{}", said.err);
}
