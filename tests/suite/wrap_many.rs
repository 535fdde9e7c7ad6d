//! Several hosts, several components, one folder.
//!
//! Proves: reports and journals of several components and processes stand beside each other, nothing is overwritten, each finds
//! its own again in the analyzer; a full disk budget ends the records of a living host, and nothing else of it.

use crate::support::ledger::Ledger;
use crate::support::small::{component, config, pass};
use crate::support::{Scratch, command, program, ran, scratch, until, wait};
use ddo_recorder::{Error, HostOptions, JournalOptions, Offload, RecordRun, SnapshotOptions, enable_offload};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

const UNTIL_GO: &str = "until [ -e go ]; do sleep 0.01; done";

fn offload() -> Offload {
    let ledger = Ledger::new(HostOptions { page_bytes: 4096, ..HostOptions::default() }, u64::MAX);
    enable_offload(component(3), config(ledger)).expect("attached")
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("there")).expect("a whole document")
}

fn events(journal: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(journal.join("host.ndjson")).expect("there");
    text.lines().map(|line| serde_json::from_str(line).expect("a whole line")).collect()
}

fn summary(at: &Scratch) -> Value {
    let said = ran(command("ddo-analyze").current_dir(at.path()).args(["journal", "--json"])).ended(0);
    serde_json::from_str(&said.out).expect("JSON alone")
}

/// The trace's names of what is drawn, by the components that it shows.
fn screen(at: &Scratch) -> String {
    ran(command("ddo-analyze").current_dir(at.path()).args(["journal", "--force"])).ended(0).out
}

#[test]
fn reports_of_a_host_stand_beside_each_other_and_find_their_component() {
    let at = scratch("many-reports");
    let mut record = command("ddo-record");
    record.current_dir(at.path()).args(["-o", "journal", "--interval", "10ms", "--", "sh", "-c", UNTIL_GO]);
    let mut child = record.stderr(Stdio::null()).spawn().expect("starts");
    let journal = at.path().join("journal");
    until("the recorder is ready", || journal.join("manifest.json").exists());
    let run = RecordRun::new(journal.clone(), None).expect("absolute");
    let offload = offload();
    pass(&offload, &[0, 1, 2]).expect("a pass");
    let report = || offload.metrics_snapshot(SnapshotOptions::default()).expect("a report");
    let first = run.record_ddo_metrics(&report(), "text_encoder").expect("written");
    let bytes = std::fs::read(&first).expect("there");
    pass(&offload, &[0, 1, 2]).expect("a pass");
    let second = run.record_ddo_metrics(&report(), "text_encoder").expect("written");
    let other = run.record_ddo_metrics(&report(), "vae-2.1").expect("written");
    let short = |path: &PathBuf| path.strip_prefix(&journal).expect("inside").to_str().expect("text").to_owned();
    let written: Vec<String> = [&first, &second, &other].into_iter().map(short).collect();
    assert_eq!(written, ["reports/text_encoder.json", "reports/text_encoder.2.json", "reports/vae-2.1.json"]);
    assert!(std::fs::read(&first).expect("there") == bytes, "an earlier report stays as it is");
    let faults = |path: &Path| json(path).pointer("/runtime/vmm/fast_faults").and_then(Value::as_u64);
    assert!(faults(&first).is_some() && faults(&first) <= faults(&second));
    for name in ["", ".hidden", "a/b", "../up", "a b", "\u{e4}", &"x".repeat(65)] {
        let refused = run.record_ddo_metrics(&report(), name);
        assert!(matches!(refused, Err(Error::Settings { variable: "component", .. })), "{name:?}: {refused:?}");
    }
    assert_eq!(std::fs::read_dir(journal.join("reports")).expect("there").count(), 3, "a refusal writes nothing");
    let told: Vec<(String, String)> = events(&journal)
        .into_iter()
        .map(|event| {
            assert_eq!((&event["event"], &event["pid"]), (&"report".into(), &std::process::id().into()));
            let text = |key: &str| event[key].as_str().expect("text").to_owned();
            (text("component"), text("folder"))
        })
        .collect();
    let names = ["text_encoder", "text_encoder", "vae-2.1"].map(str::to_owned);
    assert_eq!(told, names.into_iter().zip(written).collect::<Vec<_>>());
    offload.close(Duration::from_secs(10)).expect("closes");
    std::fs::write(at.path().join("go"), "").expect("written");
    assert_eq!(wait(&mut child).code(), Some(0));
    let codes = summary(&at);
    let serious: Vec<&Value> = codes["findings"].as_array().expect("a list").iter().filter(|f| f["severity"] != "note").collect();
    assert!(serious.is_empty(), "{serious:?}");
    assert!(screen(&at).contains("3 report(s): text_encoder, text_encoder.2, vae-2.1") || screen(&at).contains("text_encoder.2"));
}

#[test]
fn a_full_disk_budget_ends_the_records_of_a_living_host_and_nothing_else() {
    let at = scratch("many-budget");
    let mut record = command("ddo-record");
    record.current_dir(at.path()).args(["-o", "journal", "--disk-budget", "1MiB", "--", "sh", "-c", UNTIL_GO]);
    let mut child = record.stderr(Stdio::null()).spawn().expect("starts");
    let folder = at.path().join("journal");
    until("the recorder is ready", || folder.join("manifest.json").exists());
    let run = RecordRun::new(folder.clone(), None).expect("absolute");
    let (offload, records) = (offload(), run.journal_folder("small").expect("claimed"));
    let mut journal = offload.metrics_journal(&records, JournalOptions { enabled: true }).stopped_by(run.stop_file());
    assert!(journal.record(None).expect("published").is_some());
    pass(&offload, &[0, 1, 2]).expect("a pass");
    assert!(journal.record(Some(0)).expect("published").is_some(), "below the budget everything is written");
    let kept = crate::support::files(&records);
    std::fs::write(folder.join("large"), vec![b'.'; 2 << 20]).expect("written");
    until("the recorder notices", || run.stop_file().exists());
    for step in 1..5 {
        pass(&offload, &[0, 1, 2]).expect("the host goes on");
        assert_eq!(journal.record(Some(step)).expect("no failure"), None);
    }
    assert!(crate::support::files(&records) == kept, "what was written stays, and nothing comes after it");
    // Without the file it goes on: the file decides, at each record anew.
    let apart = at.path().join("apart");
    let mut free = offload.metrics_journal(&apart, JournalOptions { enabled: true }).stopped_by(at.path().join("no-such-file"));
    assert!(free.record(Some(0)).expect("published").is_some());
    journal.finish();
    offload.close(Duration::from_secs(10)).expect("closes");
    std::fs::write(at.path().join("go"), "").expect("written");
    assert_eq!(wait(&mut child).code(), Some(0));
    let seal = json(&folder.join("manifest.end.json"));
    assert_eq!(seal["findings"][0]["code"], "disk_budget_reached", "{seal}");
    assert!(screen(&at).contains("2 journal record(s)"), "{}", screen(&at));
}

#[test]
fn several_processes_and_components_share_one_folder() {
    let at = scratch("many-processes");
    // Four hosts at the same time, two of them of the same component, each a process and a rank of its own.
    let host = program("ddo-sample");
    let host = host.to_str().expect("text");
    let start = |rank: u32, steps: u32| {
        format!(
            "RANK={rank} WORLD_SIZE=4 '{host}' flux_shaped --scale 0.00001 --steps {steps} --model model-{rank}.safetensors \
             >out-{rank} 2>&1 || exit 1 &"
        )
    };
    let starts: String = (0..4).map(|rank| format!("{}\n", start(rank, 2 + rank))).collect();
    let script = format!("{starts} for job in $(jobs -p); do wait $job || exit 9; done");
    let mut record = command("ddo-record");
    record.current_dir(at.path()).args(["-o", "journal", "--strict-recording", "--", "sh", "-c", &script]);
    ran(&mut record).ended(0);
    let journal = at.path().join("journal");
    let names = |folder: &str| -> BTreeSet<String> {
        let entries = std::fs::read_dir(journal.join(folder)).expect("there");
        entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text")).collect()
    };
    let four = |name: &str, end: &str| -> BTreeSet<String> {
        (1..=4).map(|at| if at == 1 { format!("{name}{end}") } else { format!("{name}.{at}{end}") }).collect()
    };
    assert_eq!(names("snapshots"), four("transformer", ""));
    assert_eq!(names("reports"), four("final", ".json"));
    // Each host has a folder of its own with all of its records.
    let counts: BTreeSet<usize> = names("snapshots").iter().map(|name| names(&format!("snapshots/{name}")).len()).collect();
    assert_eq!(counts, BTreeSet::from([3, 4, 5, 6]), "before the first step, then 2 to 5 steps");
    let told = events(&journal);
    let ranks: BTreeSet<u64> = told.iter().filter_map(|event| event["rank"].as_u64()).collect();
    let pids: BTreeSet<u64> = told.iter().filter_map(|event| event["pid"].as_u64()).collect();
    assert_eq!((ranks, pids.len()), (BTreeSet::from([0, 1, 2, 3]), 4));
    let claimed: BTreeSet<&str> =
        told.iter().filter(|e| e["event"] == "component").filter_map(|e| e["folder"].as_str()).collect();
    let wanted: BTreeSet<String> = four("snapshots/transformer", "");
    assert_eq!(claimed, wanted.iter().map(String::as_str).collect());
    // The analyzer keeps them apart: four components, each with its own steps and its own report.
    let said = ran(command("ddo-analyze").current_dir(at.path()).args(["delta", "journal", "--all", "--json"])).ended(0);
    let deltas: Value = serde_json::from_str(&said.out).expect("JSON alone");
    let rows = deltas["rows"].as_array().expect("a list");
    let field = "runtime.vmm.fast_faults";
    let steps =
        |name: &str| rows.iter().filter(|row| row["component"] == name && row["scope"] == "step" && row["path"] == field).count();
    let counted: BTreeSet<usize> = four("transformer", "").iter().map(|name| steps(name)).collect();
    assert_eq!(counted, BTreeSet::from([2, 3, 4, 5]));
    let findings = summary(&at);
    let serious: Vec<&Value> =
        findings["findings"].as_array().expect("a list").iter().filter(|finding| finding["severity"] != "note").collect();
    assert!(serious.is_empty(), "{serious:?}");
    assert!(screen(&at).contains("(and 3 others, in the trace)"), "{}", screen(&at));
}

#[test]
fn c38_time_asleep_and_a_kernel_before_its_launch_are_told_and_nothing_is_clamped() {
    let at = scratch("many-clocks");
    ran(command("ddo-record").current_dir(at.path()).args(["-o", "journal", "--", "true"])).ended(0);
    // A seal as after two seconds of work and an hour asleep.
    let path = at.path().join("journal/manifest.end.json");
    let mut seal = json(&path);
    assert_eq!(seal["suspended_seconds"], 0.0, "the machine did not sleep");
    (seal["suspended_seconds"], seal["duration_seconds"]) = (3600.0.into(), 2.0.into());
    let text = "the machine slept for 3600.0 s during the run; no duration counts it";
    seal["findings"] = serde_json::json!([{"severity": "note", "code": "suspended", "where": "ddo-record", "text": text}]);
    std::fs::write(&path, seal.to_string()).expect("written");
    // A kernel that begins 300 ns before its launch.
    let event = |name: &str, category: &str, tid: u32, ts: f64| {
        serde_json::json!({"ph": "X", "name": name, "cat": category, "pid": 1, "tid": tid, "ts": ts, "dur": 5.0,
            "args": {"correlation": 7}})
    };
    let trace = serde_json::json!({"traceEvents": [
        event("cudaLaunchKernel", "cuda_runtime", 1, 100.5), event("k", "kernel", 7, 100.2)]});
    std::fs::write(at.path().join("journal/trace.json"), trace.to_string()).expect("written");
    let found = summary(&at);
    assert_eq!(found["run"]["duration_seconds"], 2.0, "sleep is no work");
    let codes: Vec<&str> = found["findings"].as_array().expect("a list").iter().filter_map(|f| f["code"].as_str()).collect();
    assert!(codes.contains(&"suspended") && codes.contains(&"operator_before_launch"), "{codes:?}");
    let said = ran(command("ddo-analyze").current_dir(at.path()).args(["operators", "journal", "--json"])).ended(0);
    let operators: Value = serde_json::from_str(&said.out).expect("JSON alone");
    let kept = operators.to_string().matches("5000").count();
    assert!(kept >= 1, "the kernel keeps its 5 us: {operators}");
}
