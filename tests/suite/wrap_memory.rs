//! `ddo-record` and memory: what was read is named, a kill is told, a full budget stops records and never the command.

use crate::support::{Scratch, command, ran, scratch, until, wait};
use ddo_recorder::RecordRun;
use ddo_schemas::manifest::{Manifest, ManifestEnd};
use ddo_schemas::memory::{HostEvent, MemorySample};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

fn record(at: &Scratch, options: &[&str], script: &str) -> Command {
    let mut record = command("ddo-record");
    record.current_dir(at.path()).args(["-o", "journal", "--interval", "10ms"]).args(options);
    record.args(["--", "sh", "-c", script]);
    record
}

fn journal(at: &Scratch) -> PathBuf {
    at.path().join("journal")
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).expect("there")).expect("a whole document")
}

fn seal(at: &Scratch) -> ManifestEnd {
    serde_json::from_value(json(&journal(at).join("manifest.end.json"))).expect("a seal")
}

fn manifest(at: &Scratch) -> Manifest {
    serde_json::from_value(json(&journal(at).join("manifest.json"))).expect("a manifest")
}

fn lines(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    // The last line may be in the making.
    let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
    whole.map(|line| serde_json::from_str(line).expect("a whole line")).collect()
}

fn samples(at: &Scratch) -> Vec<MemorySample> {
    let lines = lines(&journal(at).join("memory.ndjson"));
    lines.into_iter().map(|line| serde_json::from_value(line).expect("a sample")).collect()
}

fn codes(end: &ManifestEnd) -> Vec<&str> {
    end.findings.iter().map(|finding| finding.code.as_str()).collect()
}

/// Waits until the command has made a file.
fn until_there(at: &Scratch, name: &str) {
    until(name, || at.path().join(name).exists());
}

const UNTIL_GO: &str = "until [ -e go ]; do sleep 0.01; done";

#[test]
fn descendants_are_summed_and_every_figure_has_its_label() {
    for (mode, label) in [("rss", "rss_process_tree"), ("full", "anonymous_rss_process_tree")] {
        let at = scratch("wrap-tree");
        // The grandchild outlives its parent, as a daemon does.
        let script = format!("( sh -c '{UNTIL_GO}; : > done' & ) ; {UNTIL_GO}");
        let mut child = record(&at, &["--memory-monitor", mode], &script).stderr(Stdio::null()).spawn().expect("starts");
        until("the grandchild is summed", || samples(&at).iter().any(|s| s.processes >= Some(2)));
        std::fs::write(at.path().join("go"), "").expect("written");
        assert_eq!(wait(&mut child).code(), Some(0));
        let (start, end, seen) = (manifest(&at), seal(&at), samples(&at));
        assert_eq!((start.memory_monitor.as_str(), start.ram_metric.as_deref()), (mode, Some(label)));
        assert!(seen.iter().all(|s| s.ram_metric.as_deref() == Some(label) && s.ram_bytes.is_some()));
        for sample in seen.iter().filter(|s| s.processes >= Some(2)) {
            assert!(sample.anonymous_bytes > Some(0) && sample.shared_bytes > Some(0), "{sample:?}");
            assert!(mode == "full" || sample.ram_bytes > sample.rss_bytes, "{sample:?}");
        }
        assert_eq!(end.peak_ram_bytes, seen.iter().filter_map(|s| s.ram_bytes).max());
        assert_eq!(start.baseline.expect("read").moment, "before_child");
        let tracker: Value = json(&journal(&at).join("tracker.json"));
        assert_eq!((&tracker["memory_monitor"]["mode"], &tracker["memory_monitor"]["ram_metric"]), (&mode.into(), &label.into()));
        assert_eq!(tracker["memory_monitor"]["interval_sec"], 0.01);
        let step = &tracker["steps"][0];
        assert_eq!((&step["name"], &step["memory_monitor"]["samples"]), (&"run".into(), &seen.len().into()));
        assert!(
            step["memory_monitor"]["error_type"].is_null() && step["memory_monitor"]["ram_query_seconds"].as_f64() > Some(0.0)
        );
        until_there(&at, "done");
    }
}

#[test]
fn phases_named_by_a_host_divide_the_samples() {
    let at = scratch("wrap-phases");
    let mut command = record(&at, &[], UNTIL_GO);
    command.env("RANK", "3").env("LOCAL_RANK", "1").env("WORLD_SIZE", "eight");
    let mut child = command.stderr(Stdio::null()).spawn().expect("starts");
    until("a first sample", || !samples(&at).is_empty());
    let run = RecordRun::new(journal(&at), None).expect("absolute");
    for name in ["load", "denoise"] {
        run.phase(name).expect("told");
        until("a sample of the phase", || samples(&at).iter().any(|s| s.phase.as_deref() == Some(name)));
    }
    for name in ["", "a\nb", &"x".repeat(65)] {
        assert!(run.phase(name).is_err(), "{name:?}");
    }
    run.journal_folder("denoiser").expect("claimed");
    std::fs::write(at.path().join("go"), "").expect("written");
    assert_eq!(wait(&mut child).code(), Some(0));
    let tracker: Value = json(&journal(&at).join("tracker.json"));
    let names: Vec<&str> = tracker["steps"].as_array().expect("a list").iter().filter_map(|s| s["name"].as_str()).collect();
    assert_eq!(names, ["run", "load", "denoise"]);
    let events = lines(&journal(&at).join("host.ndjson")).into_iter();
    let events: Vec<HostEvent> = events.map(|line| serde_json::from_value(line).expect("an event")).collect();
    assert_eq!(events.iter().map(|event| event.event.as_str()).collect::<Vec<_>>(), ["phase", "phase", "component"]);
    let claimed = events.last().expect("three");
    assert_eq!((claimed.component.as_deref(), claimed.folder.as_deref()), (Some("denoiser"), Some("snapshots/denoiser")));
    let ranks = manifest(&at).ranks.expect("recorded");
    assert_eq!((ranks.rank, ranks.local_rank, ranks.world_size), (Some(3), Some(1), None));
    assert_eq!(codes(&seal(&at)), ["rank_not_a_number"]);
}

/// A control group with a memory limit; removed at the end.
struct LimitedGroup {
    folder: PathBuf,
}

impl LimitedGroup {
    /// `None` where the machine allows none.
    fn new(bytes: u64) -> Option<LimitedGroup> {
        let name = format!("ddo-test-{:016x}", fastrand::u64(..));
        for (top, limit) in [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")] {
            let folder = Path::new(top).join(&name);
            if std::fs::create_dir(&folder).is_err() {
                continue;
            }
            let group = LimitedGroup { folder };
            if std::fs::write(group.folder.join(limit), bytes.to_string()).is_ok() {
                std::fs::write(group.folder.join("memory.swap.max"), "0").ok();
                return Some(group);
            }
        }
        eprintln!("skipped: this machine allows no control group with a memory limit");
        None
    }
}

impl Drop for LimitedGroup {
    fn drop(&mut self) {
        std::fs::remove_dir(&self.folder).ok();
    }
}

#[test]
fn a_kill_by_the_control_group_is_told_with_the_last_samples() {
    const LIMIT: u64 = 512 << 20;
    let Some(group) = LimitedGroup::new(LIMIT) else { return };
    let at = scratch("wrap-killed-group");
    // The command joins the group, is sampled there, then fills its memory.
    let procs = group.folder.join("cgroup.procs");
    let script = format!("echo $$ > {} && : > joined; {UNTIL_GO}; x=0123456789abcdef; while :; do x=$x$x; done", procs.display());
    let mut child = record(&at, &["--strict-recording"], &script).stderr(Stdio::piped()).spawn().expect("starts");
    until_there(&at, "joined");
    let seen = samples(&at).len();
    until("samples in the group", || samples(&at).len() > seen + 100);
    std::fs::write(at.path().join("go"), "").expect("written");
    assert_eq!(wait(&mut child).code(), Some(137));
    let end = seal(&at);
    assert_eq!((end.signal, end.out_of_memory_kills), (Some(9), Some(1)), "{end:?}");
    let told = end.findings.iter().find(|f| f.code == "out_of_memory_kill").expect("told");
    assert!(
        told.text.contains("ended the command") && told.text.contains("limit 512.00 MiB") && told.text.contains("last sample at"),
        "{told}"
    );
    let analysed = ran(command("ddo-analyze").current_dir(at.path()).arg("journal")).ended(0);
    assert!(analysed.out.contains("out-of-memory killer"), "{}", analysed.out);
}

#[test]
fn a_failure_near_a_resource_limit_is_told() {
    let at = scratch("wrap-limit");
    // Builtins alone: nothing else can start under so small a limit.
    let script = "ulimit -v $(($(ps -o vsz= -p $$) + 64)) || exit 9; while [ ! -e go ]; do :; done; exit 1";
    let mut child = record(&at, &[], script).stderr(Stdio::null()).spawn().expect("starts");
    until("samples under the limit", || {
        let near = |s: &MemorySample| s.virtual_bytes.is_some();
        samples(&at).iter().filter(|s| near(s)).count() > 30
    });
    std::fs::write(at.path().join("go"), "").expect("written");
    assert_eq!(wait(&mut child).code(), Some(1));
    let end = seal(&at);
    let told = end.findings.iter().find(|f| f.code == "memory_limit_near").expect("told");
    assert!(told.text.contains("address space, near its limit of"), "{told}");
}

/// Set for the test program where it is the command of a run: the file of samples that it grows beside.
const GROW: &str = "DDO_TEST_GROW";

/// Takes memory piece by piece, each beside two samples, until there is no more; ends with 3.
fn grow(samples: &str) -> ! {
    let lines = || std::fs::read(samples).map_or(0, |bytes| bytes.iter().filter(|byte| **byte == b'\n').count());
    let mut held: Vec<Vec<u8>> = Vec::new();
    loop {
        let mut piece = Vec::new();
        if piece.try_reserve_exact(16 << 20).is_err() {
            std::process::exit(3);
        }
        piece.resize(16 << 20, 1_u8);
        held.push(piece);
        let seen = lines();
        until("the monitor has seen the piece", || lines() >= seen + 2);
    }
}

#[test]
fn a_run_that_runs_out_of_512_mib_is_told_with_its_last_sample() {
    if let Ok(samples) = std::env::var(GROW) {
        grow(&samples);
    }
    let at = scratch("wrap-limit-512");
    let test = std::env::current_exe().expect("this program");
    let name = "wrap_memory::a_run_that_runs_out_of_512_mib_is_told_with_its_last_sample";
    let script = format!("ulimit -v 524288; exec '{}' --exact {name} --nocapture", test.display());
    let mut recording = record(&at, &[], &script);
    ran(recording.env(GROW, journal(&at).join("memory.ndjson"))).ended(3);
    let (end, seen) = (seal(&at), samples(&at));
    let told = end.findings.iter().find(|finding| finding.code == "memory_limit_near").expect("told");
    assert!(told.text.contains("near its limit of 512.00 MiB") && told.text.contains("last sample at"), "{told}");
    let held: Vec<u64> = seen.iter().filter_map(|sample| sample.virtual_bytes).collect();
    assert!(held.iter().max() > Some(&((512 << 20) / 100 * 90)) && held.iter().all(|bytes| *bytes <= 512 << 20), "{held:?}");
    let growth: Vec<u64> = seen.iter().filter_map(|sample| sample.ram_bytes).collect();
    assert!(growth.last() > growth.first(), "the story of the way there: {growth:?}");
    let analysed = ran(command("ddo-analyze").current_dir(at.path()).arg("journal")).ended(0);
    assert!(analysed.out.contains("near its limit of 512.00 MiB"), "{}", analysed.out);
}

#[test]
fn a_full_budget_stops_the_samples_and_not_the_command() {
    for (options, code) in [(&["--disk-budget", "1MiB"][..], 0), (&["--disk-budget", "1MiB", "--strict-recording"], 125)] {
        let at = scratch("wrap-budget");
        let script = "head -c 2000000 /dev/zero > \"$DDO_RECORD_DIR/large\"; until [ -e \"$DDO_RECORD_DIR/disk_budget_reached.json\" ]; do sleep 0.01; done; : > ran";
        let ended = ran(&mut record(&at, options, script)).ended(code);
        assert!(ended.err.contains("disk_budget_reached"), "{}", ended.err);
        assert!(at.path().join("ran").exists());
        let (start, end) = (manifest(&at), seal(&at));
        assert_eq!((start.disk_budget_bytes, start.disk_policy.as_deref()), (Some(1 << 20), Some("keep_first")));
        assert_eq!(codes(&end), ["disk_budget_reached"]);
        assert!(end.journal_bytes > Some(2_000_000));
        assert_eq!(end.memory_samples, Some(samples(&at).len() as u64));
    }
}

#[test]
fn a_status_line_is_a_line_where_there_is_no_terminal() {
    let at = scratch("wrap-status");
    let out = std::fs::File::create(at.path().join("said")).expect("writable");
    let mut child = record(&at, &["--status"], UNTIL_GO).stderr(out).spawn().expect("starts");
    let said = || std::fs::read_to_string(at.path().join("said")).expect("there");
    until("a status line", || said().contains(" steps"));
    std::fs::write(at.path().join("go"), "").expect("written");
    assert_eq!(wait(&mut child).code(), Some(0));
    let line = said().lines().find(|line| line.contains(" steps")).map(str::to_owned).expect("one");
    assert!(line.starts_with("ddo-record: 0:00:0") && line.contains(", journal "), "{line}");
    assert!(!said().contains('\u{1b}') && !said().contains('\r'));
    assert!(seal(&at).journal_bytes > Some(0));
}

#[test]
fn a_recorder_killed_at_any_moment_harms_nobody() {
    let sample = crate::support::program("ddo-sample");
    let mut cut = 0;
    for seed in 0..50_u64 {
        let mut random = fastrand::Rng::with_seed(seed);
        let at = scratch("wrap-moment");
        // Every other run has a host that publishes records.
        let hosted = seed % 2 == 1;
        let host = format!("'{}' flux_shaped --scale 0.00001 --steps 6 --model m.safetensors || exit 1", sample.display());
        let work = if hosted { &host } else { UNTIL_GO };
        let script = format!(": > started; {work}; : > done");
        let mut child = record(&at, &[], &script).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("starts");
        // A moment between the first file of the folder and some samples, or some records, later.
        let looks = random.u32(0..if hosted { 40_000 } else { 3000 });
        for _ in 0..looks {
            std::hint::black_box(journal(&at).exists());
        }
        kill_process(Pid::from_child(&child), Signal::KILL).expect("ours");
        wait(&mut child);
        std::fs::write(at.path().join("go"), "").expect("written");
        if at.path().join("started").exists() {
            until_there(&at, "done");
            let published = |name: &str| journal(&at).join(name).exists();
            let whole = published("snapshots/transformer/step_0005.json") && published("reports/final.json");
            assert_eq!(whole, hosted, "seed {seed}: the host has published everything");
        }
        cut += u32::from(!journal(&at).join("manifest.end.json").exists());
        for (name, bytes) in crate::support::files(at.path()) {
            if name.extension().is_some_and(|end| end == "json") {
                serde_json::from_slice::<Value>(&bytes).unwrap_or_else(|error| panic!("seed {seed}: {name:?}: {error}"));
            }
        }
        samples(&at);
        if journal(&at).join("manifest.json").exists() {
            let analysed = ran(command("ddo-analyze").current_dir(at.path()).arg("journal"));
            assert_eq!(analysed.code, Some(0), "seed {seed}: {}", analysed.err);
        }
    }
    assert!(cut >= 25, "{cut} of 50 recorders were killed before their seal");
}
