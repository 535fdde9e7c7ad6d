//! `ddo-record` and a disk without room: the command goes on, what is whole stays whole, and every hole is told.
//!
//! A file system of 1 MiB is mounted where the machine allows it; elsewhere a line says that these stories were skipped.

use crate::support::{Scratch, command, program, ran, scratch, until};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A file system in memory; unmounted at the end.
struct Small {
    folder: PathBuf,
    // Dropped after the file system is gone.
    at: Scratch,
}

impl Small {
    fn new(name: &str, bytes: u64) -> Option<Small> {
        let at = scratch(name);
        let folder = at.path().join("small");
        std::fs::create_dir(&folder).expect("fresh");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "tmpfs"]).arg(&folder).stderr(Stdio::null());
        if mount.status().is_ok_and(|status| status.success()) {
            return Some(Small { folder, at });
        }
        eprintln!("skipped: this machine lets the tests mount no file system");
        None
    }

    fn record(&self, options: &[&str], command_words: &[&str]) -> Command {
        let mut record = command("ddo-record");
        record.current_dir(self.at.path()).args(["-o", "small/journal", "--interval", "10ms"]).args(options);
        record.arg("--").args(command_words);
        record
    }

    /// Uses up all room but this many bytes.
    fn fill(&self, left: u64) {
        let room = rustix::fs::statvfs(&self.folder).expect("mounted");
        let bytes = (room.f_bavail * room.f_frsize).checked_sub(left).expect("there is more room");
        std::fs::write(self.folder.join("filling"), vec![b'.'; bytes as usize]).expect("room");
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // A command that was started in it may hold it for a moment.
        Command::new("umount").arg("--lazy").arg(&self.folder).stderr(Stdio::null()).status().ok();
    }
}

/// Every published document is whole, and every line but a torn last one.
fn whole(folder: &Path) -> usize {
    let files = crate::support::files(folder);
    let documents = files.iter().filter(|(path, _)| path.extension().is_some_and(|end| end == "json"));
    for (path, bytes) in documents.clone() {
        serde_json::from_slice::<Value>(bytes).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    }
    let samples = files.get(Path::new("memory.ndjson")).expect("made before the start");
    assert!(samples.is_empty() || samples.ends_with(b"\n"), "the last line is whole");
    assert!(!files.keys().any(|path| path.extension().is_some_and(|end| end == "tmp")), "{:?}", files.keys());
    documents.count()
}

#[test]
fn c35_a_disk_that_fills_up_during_the_run_costs_the_rest_of_the_recording_and_nothing_else() {
    for (options, inner, code) in [(&[][..], 0, 0), (&["--strict-recording"], 0, 125), (&["--strict-recording"], 7, 7)] {
        let Some(small) = Small::new("disk-full", 1 << 20) else { return };
        // The command fills the disk itself, waits until the monitor has met it, and goes on.
        let script = format!(
            "cat /dev/zero > small/filling 2>/dev/null; file=small/journal/memory.ndjson; n=-1
             until [ $n = \"$(stat -c %s $file)\" ]; do n=$(stat -c %s $file); sleep 0.1; done; : > done; exit {inner}"
        );
        let ended = ran(&mut small.record(options, &["sh", "-c", &script])).ended(code);
        assert!(small.at.path().join("done").exists(), "the command went on to its end");
        assert!(ended.err.contains("No space left on device"), "{}", ended.err);
        assert!(ended.err.contains("not sealed") && !ended.err.contains("panicked"), "{}", ended.err);
        assert_eq!(whole(&small.folder.join("journal")), 1, "the manifest");
        // The analyzer says what is not there.
        let analysed = ran(command("ddo-analyze").current_dir(small.at.path()).args(["small/journal", "--out", "out", "--json"]));
        let summary: Value = serde_json::from_str(&analysed.ended(0).out).expect("JSON");
        let codes: Vec<&str> =
            summary["findings"].as_array().expect("a list").iter().filter_map(|f| f["code"].as_str()).collect();
        assert!(codes.contains(&"not_sealed"), "{codes:?}");
    }
}

#[test]
fn c35_an_embedded_host_keeps_the_records_that_fitted() {
    let Some(small) = Small::new("disk-host", 1 << 20) else { return };
    let sample = program("ddo-sample");
    let words = ["flux_shaped", "--scale", "0.00001", "--steps", "200", "--model", "model.safetensors"];
    let mut record = small.record(&["--memory-monitor", "off"], &[sample.to_str().expect("text")]);
    let ended = ran(record.args(words));
    // The host decides what a record that cannot be written means to it; its exit code is seen.
    assert!(ended.code.is_some_and(|code| code != 0 && code < 125), "{ended:?}");
    assert!(ended.err.contains("No space left on device"), "{}", ended.err);
    let steps = |path: &&PathBuf| path.to_string_lossy().contains("/step_");
    let files = crate::support::files(&small.folder.join("journal"));
    let records: Vec<&PathBuf> = files.keys().filter(steps).collect();
    assert!((1..200).contains(&records.len()), "{records:?}");
    for (path, bytes) in files.iter().filter(|(path, _)| path.extension().is_some_and(|end| end == "json")) {
        serde_json::from_slice::<Value>(bytes).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    }
    let analysed = ran(command("ddo-analyze").current_dir(small.at.path()).args(["small/journal", "--out", "out"])).ended(0);
    assert!(analysed.out.contains(&format!("{} journal record(s)", records.len() + 1)), "{}", analysed.out);
    assert!(analysed.out.contains("ended before a report") || analysed.out.contains("0 report(s)"), "{}", analysed.out);
}

#[test]
fn c35_a_disk_without_room_is_said_before_the_start() {
    let Some(small) = Small::new("disk-none", 1 << 20) else { return };
    small.fill(0);
    let refused = ran(&mut small.record(&[], &["touch", "ran"])).ended(125);
    assert_eq!((refused.err.lines().count(), refused.out.as_str()), (1, ""), "{refused:?}");
    assert!(refused.err.contains("No space left on device"), "{}", refused.err);
    assert!(!small.at.path().join("ran").exists());
}

#[test]
fn c35_a_full_device_behind_the_streams_is_not_the_commands_matter() {
    let at = scratch("disk-streams");
    let full = || std::fs::OpenOptions::new().write(true).open("/dev/full").expect("there");
    // The recorder's own lines get lost; the command's are its own matter.
    let mut record = command("ddo-record");
    record.current_dir(at.path()).args(["-o", "journal", "--", "sh", "-c", "echo words || exit 6; exit 5"]);
    let status = record.stdout(full()).stderr(full()).status().expect("starts");
    assert_eq!(status.code(), Some(6), "the command sees its full device");
    let seal: Value =
        serde_json::from_slice(&std::fs::read(at.path().join("journal/manifest.end.json")).expect("sealed")).expect("whole");
    assert_eq!(seal["exit_code"], 6);
    let mut analyze = command("ddo-analyze");
    let output = analyze.current_dir(at.path()).arg("journal").stdout(full()).output().expect("starts");
    let said = String::from_utf8(output.stderr).expect("text");
    assert_eq!((output.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("No space left on device"), "{said}");
}

#[test]
fn c33_a_reader_that_goes_away_is_no_failure_of_the_analyzer() {
    let at = scratch("disk-reader");
    ran(command("ddo-record").current_dir(at.path()).args(["-o", "journal", "--", "true"])).ended(0);
    for words in [&["journal"][..], &["check", "--all", "journal"], &["explain", "--all"], &["memory", "journal"]] {
        let mut child = command("ddo-analyze");
        child.current_dir(at.path()).args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().expect("starts");
        drop(child.stdout.take());
        let mut status = None;
        until("it ends", || {
            status = child.try_wait().expect("ours");
            status.is_some()
        });
        let output = child.wait_with_output().expect("ours");
        assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]), "{words:?}");
        std::fs::remove_dir_all(at.path().join("journal.analysis")).ok();
    }
}
