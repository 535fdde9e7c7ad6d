//! Records that survive whatever ends their writer.
//!
//! Proves: a publication that stops or fails before any of its operations leaves the name whole or absent and earlier records as
//! they were; nothing is ever overwritten; records are ordered by number; killing the host or the recorder with no warning costs
//! what was not published, and the analyzer names it.

use crate::support::small::{component, config, pass};
use crate::support::{command, files, program, ran, scratch, until, wait};
use ddo_analyzer::ingest::load;
use ddo_recorder::observe::publish::{PublishError, Step, Verdict, Watch, publish_new, publish_watched};
use ddo_recorder::{HostDriver, HostOptions, JournalOptions, Offload, RecordRun, enable_offload};
use ddo_schemas::Severity;
use ddo_schemas::journal::{JournalRecord, RecordName};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use std::path::Path;
use std::process::Stdio;

/// What happens before the first occurrence of each step.
struct At(Vec<(Step, Option<Errno>)>);

impl Watch for At {
    fn before(&mut self, step: Step) -> Verdict {
        match self.0.iter().find(|(at, _)| *at == step) {
            Some((_, Some(errno))) => Verdict::Fail((*errno).into()),
            Some((_, None)) => Verdict::Stop,
            None => Verdict::Go,
        }
    }
}

fn attached() -> Offload {
    let driver = HostDriver::new(HostOptions { page_bytes: 4096, ..HostOptions::default() }).expect("a host driver");
    enable_offload(component(3), config(driver)).expect("attached")
}

/// Publishes the records before the first step and after the given ones, through the journal itself.
fn journal(folder: &Path, steps: &[u64]) {
    let offload = attached();
    let mut journal = offload.metrics_journal(folder, JournalOptions { enabled: true });
    journal.record(None).expect("published");
    for step in steps {
        pass(&offload, &[0, 1, 2]).expect("a pass");
        let path = journal.record(Some(*step)).expect("published").expect("enabled");
        assert_eq!(path, folder.join(RecordName::Step(*step).file_name()));
    }
}

#[test]
fn stopping_before_any_operation_leaves_whole_records_only() {
    let at = scratch("crash-stop");
    journal(at.path(), &[0]);
    let earlier = files(at.path());
    let record = earlier.values().next().expect("a record").clone();
    for step in Step::ALL {
        let folder = scratch("crash-stop-one");
        for (name, bytes) in &earlier {
            publish_new(folder.path(), name.to_str().expect("text"), bytes).expect("published");
        }
        let mut watch = At(vec![(step, None)]);
        if step == Step::Rename {
            watch.0.push((Step::Link, Some(Errno::PERM)));
        }
        let stopped = publish_watched(folder.path(), "step_0001.json", &record, &mut watch).expect_err("stopped");
        assert_eq!(stopped.code(), "publish_stopped", "{step}");
        let mut left = files(folder.path());
        let target = left.remove(Path::new("step_0001.json"));
        assert_eq!(target.is_some(), step >= Step::Unlink, "{step}: there from the link on, and not before");
        assert!(target.is_none_or(|bytes| bytes == record), "{step}: what is there is whole");
        let temporary: Vec<_> = left.keys().filter(|name| !earlier.contains_key(*name)).cloned().collect();
        assert_eq!(temporary.len(), usize::from(step > Step::Open && step <= Step::Unlink), "{step}: {temporary:?}");
        assert!(temporary.iter().all(|name| RecordName::is_temporary(name.to_str().expect("text"))), "{temporary:?}");
        left.retain(|name, _| earlier.contains_key(name));
        assert_eq!(left, earlier, "{step}: earlier records are as they were");
        let run = load(folder.path()).expect("usable");
        assert_eq!(run.components[0].records.len(), 2, "{step}: the copy of a record is about the same step");
        let said = run.findings.iter().any(|finding| finding.code == "unpublished_temporary");
        assert_eq!(said, !temporary.is_empty(), "{step}: {:?}", run.findings);
        assert_eq!(
            files(folder.path()).len(),
            earlier.len() + temporary.len() + usize::from(step >= Step::Unlink),
            "nothing is cleaned up"
        );
    }
}

#[test]
fn a_failing_operation_is_named_and_leaves_no_temporary_file() {
    for (step, errno) in [
        (Step::Open, Errno::ACCESS),
        (Step::Write, Errno::NOSPC),
        (Step::Sync, Errno::IO),
        (Step::Link, Errno::IO),
        (Step::Unlink, Errno::IO),
        (Step::SyncFolder, Errno::IO),
    ] {
        let at = scratch("crash-fail");
        publish_new(at.path(), "step_0000.json", b"earlier").expect("published");
        let error =
            publish_watched(at.path(), "step_0001.json", b"whole", &mut At(vec![(step, Some(errno))])).expect_err("failed");
        assert!(matches!(&error, PublishError::Io { step: named, .. } if *named == step), "{error}");
        assert!(error.to_string().contains(step.name()), "{error}");
        let left = files(at.path());
        let target = left.get(Path::new("step_0001.json"));
        assert_eq!(target.map(Vec::as_slice), (step >= Step::Unlink).then_some(b"whole".as_slice()), "{step}");
        assert_eq!(left.len(), 1 + usize::from(step >= Step::Unlink), "{step}: {:?}", left.keys());
        assert_eq!(left[Path::new("step_0000.json")], b"earlier");
    }
}

#[test]
fn nothing_is_overwritten() {
    let at = scratch("crash-exists");
    let folder = at.path().join("journal");
    journal(&folder, &[0, 1]);
    let before = files(&folder);
    let offload = attached();
    let mut again = offload.metrics_journal(&folder, JournalOptions { enabled: true });
    for step in [None, Some(0), Some(1)] {
        let error = again.record(step).expect_err("the name is taken");
        assert_eq!(error.code(), "publish_exists");
        let name = step.map_or(RecordName::Before, RecordName::Step).file_name();
        assert!(error.to_string().contains(&name) && error.to_string().contains("not overwritten"), "{error}");
    }
    assert_eq!(files(&folder), before, "not one byte, not one file more");
    again.record(Some(2)).expect("a free name still works");
}

#[test]
fn step_10000_follows_step_9999() {
    let at = scratch("crash-order");
    journal(at.path(), &[10_000, 2, 9_999]);
    let names: Vec<_> = files(at.path()).into_keys().collect();
    let wanted = ["before_denoise.json", "step_0002.json", "step_10000.json", "step_9999.json"];
    assert_eq!(names, wanted.map(std::path::PathBuf::from), "the names' own order is another one");
    let run = load(at.path()).expect("usable");
    let steps: Vec<Option<u64>> = run.components[0].records.iter().map(|record| record.step).collect();
    assert_eq!(steps, [None, Some(2), Some(9_999), Some(10_000)]);
    let holes: Vec<&str> = run.findings.iter().filter(|f| f.code == "journal_step_missing").map(|f| f.text.as_str()).collect();
    assert_eq!(holes.len(), 2, "{holes:?}");
}

#[test]
fn components_of_one_name_have_folders_of_their_own() {
    let at = scratch("crash-claim");
    let run = RecordRun::new(at.path().to_path_buf(), None).expect("settings");
    let claimed: Vec<_> = (0..3).map(|_| run.journal_folder("encoder").expect("free")).collect();
    let snapshots = at.path().join("snapshots");
    assert_eq!(claimed, ["encoder", "encoder.2", "encoder.3"].map(|name| snapshots.join(name)));
    let offload = attached();
    for folder in &claimed {
        let mut journal = offload.metrics_journal(folder, JournalOptions { enabled: true });
        journal.record(None).expect("published");
    }
    let report = offload.metrics_snapshot(Default::default()).expect("a report");
    let reports: Vec<_> = (0..2).map(|_| run.write_report("final", &report).expect("published")).collect();
    assert_eq!(reports, ["final.json", "final.2.json"].map(|name| at.path().join("reports").join(name)));
    assert_eq!(load(at.path()).expect("usable").components.len(), 3);
}

/// Starts a recorded run that takes as long as anybody wants, and waits for some of its records.
fn recorded_run(at: &Path) -> std::process::Child {
    let mut record = command("ddo-record");
    record.current_dir(at).args(["-o", "journal", "--gpu-timing", "--native-timeline", "--"]).arg(program("ddo-sample"));
    record.args(["flux_shaped", "--scale", "0.00001", "--steps", "1000000", "--model", "model.safetensors"]);
    record.args(["--link-gb-per-second", "0.05"]).stdout(Stdio::null()).stderr(Stdio::null());
    let child = record.spawn().expect("starts");
    let fourth = at.join("journal/snapshots/transformer").join(RecordName::Step(3).file_name());
    until("the fourth step is published", || fourth.exists());
    child
}

/// The process that the recorder started.
fn host_of(recorder: &std::process::Child) -> Pid {
    let list = format!("/proc/{0}/task/{0}/children", recorder.id());
    let text = std::fs::read_to_string(list).expect("a live process");
    let pid = text.split_whitespace().next().expect("one child").parse().expect("a number");
    Pid::from_raw(pid).expect("positive")
}

/// Every published record reads whole, from the first on and without a hole; how many steps there are.
fn whole_records(folder: &Path) -> u64 {
    let mut steps = Vec::new();
    for (name, bytes) in files(folder) {
        let name = name.to_str().expect("text");
        if RecordName::is_temporary(name) {
            continue;
        }
        let record: JournalRecord = serde_json::from_slice(&bytes).expect("a published record is whole");
        let named = RecordName::parse(name).expect("a record's name");
        assert_eq!(record.step_index.0.map_or(RecordName::Before, RecordName::Step), named);
        steps.extend(record.step_index.0);
    }
    steps.sort_unstable();
    assert!(steps.iter().copied().eq(0..steps.len() as u64), "{steps:?}");
    steps.len() as u64
}

#[test]
fn a_killed_host_leaves_whole_records_and_the_analyzer_says_what_is_missing() {
    let at = scratch("crash-host");
    let mut child = recorded_run(at.path());
    kill_process(host_of(&child), Signal::KILL).expect("it runs");
    assert_eq!(wait(&mut child).code(), Some(137), "the recorder tells the signal");
    let steps = whole_records(&at.path().join("journal/snapshots/transformer"));
    assert!(steps >= 4, "{steps}");
    let said = ran(command("ddo-analyze").current_dir(at.path()).args(["journal", "--json"])).ended(0);
    let summary: serde_json::Value = serde_json::from_str(&said.out).expect("JSON alone");
    assert_eq!(summary["run"]["status"], "signal 9");
    let codes: Vec<&str> = summary["findings"].as_array().expect("a list").iter().filter_map(|f| f["code"].as_str()).collect();
    assert!(codes.contains(&"run_signaled"), "{codes:?}");
    let screen = ran(command("ddo-analyze").current_dir(at.path()).args(["journal", "--force"])).ended(0).out;
    let screen = screen.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(screen.contains("signal 9") && screen.contains("the run ended before a report"), "{screen}");
    let run = load(&at.path().join("journal")).expect("usable");
    assert_eq!(run.components[0].records.len() as u64, steps + 1);
    assert!(!run.findings.iter().any(|finding| finding.severity == Severity::Error), "{:?}", run.findings);
}

#[test]
fn a_killed_recorder_leaves_the_host_alone_and_the_analyzer_says_so() {
    let at = scratch("crash-recorder");
    let mut child = recorded_run(at.path());
    let host = host_of(&child);
    kill_process(Pid::from_child(&child), Signal::KILL).expect("it runs");
    wait(&mut child);
    let folder = at.path().join("journal/snapshots/transformer");
    let now = whole_records(&folder);
    let later = folder.join(RecordName::Step(now + 3).file_name());
    until("the host goes on", || later.exists());
    // Not our child: it ends when its threads do, which the file of its process shows.
    kill_process(host, Signal::KILL).expect("it still runs");
    let process = format!("/proc/{}/stat", host.as_raw_nonzero());
    let gone = || std::fs::read_to_string(&process).map_or(true, |stat| stat.contains(") Z "));
    until("the host ends", gone);
    assert!(whole_records(&folder) > now);
    assert!(!at.path().join("journal/manifest.end.json").exists());
    let said = ran(command("ddo-analyze").current_dir(at.path()).arg("journal")).ended(0);
    assert!(said.out.contains("not_sealed") || said.out.contains("not sealed"), "{}", said.out);
    let strict = ran(command("ddo-analyze").current_dir(at.path()).args(["journal", "--strict", "--force"]));
    assert_eq!(strict.code, Some(5), "{}", strict.err);
}

#[test]
fn two_hosts_at_once_share_a_folder_and_lose_nothing() {
    let at = scratch("crash-two");
    let sample = program("ddo-sample");
    let one = |model: &str| format!("'{}' flux_shaped --scale 0.00001 --steps 5 --model {model}", sample.display());
    let both = format!("{} & {}; first=$?; wait $! && exit $first", one("a.safetensors"), one("b.safetensors"));
    let mut record = command("ddo-record");
    record.current_dir(at.path()).args(["-o", "journal", "--gpu-timing", "--", "sh", "-c", &both]);
    ran(&mut record).ended(0);
    let run = load(&at.path().join("journal")).expect("usable");
    let mut names: Vec<&str> = run.components.iter().map(|component| component.name.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["transformer", "transformer.2"]);
    assert!(run.components.iter().all(|component| component.records.len() == 6), "a record before and one a step, for each");
    let reports: Vec<_> = files(&at.path().join("journal/reports")).into_keys().collect();
    assert_eq!(reports, ["final.2.json", "final.json"].map(std::path::PathBuf::from));
    assert!(!run.findings.iter().any(|finding| finding.severity == Severity::Error), "{:?}", run.findings);
}
