//! `ddo-record` from outside: the command is sacred, the folder is honest.

use crate::support::{Scratch, program, scratch, until, wait};
use ddo_schemas::manifest::{Manifest, ManifestEnd};
use ddo_schemas::memory::MemorySample;
use ddo_schemas::settings::Settings;
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// `ddo-record OPTIONS -- COMMAND` inside the scratch folder, recording into `journal` there.
fn record(at: &Scratch, options: &[&str], command: &[&str]) -> Command {
    let mut record = bare(at);
    record.args(["-o", "journal"]).args(options).arg("--").args(command);
    record
}

/// `ddo-record` inside the scratch folder, without a word.
fn bare(at: &Scratch) -> Command {
    let mut record = Command::new(program("ddo-record"));
    record.current_dir(at.path()).stdin(Stdio::null());
    for name in ["DDO_RECORD_DIR", "DDO_RECORD_SETTINGS", "DDO_LOG"] {
        record.env_remove(name);
    }
    record
}

fn run(command: &mut Command) -> Output {
    command.output().expect("ddo-record starts")
}

fn journal(at: &Scratch) -> PathBuf {
    at.path().join("journal")
}

fn manifest(dir: &Path) -> Manifest {
    serde_json::from_slice(&std::fs::read(dir.join("manifest.json")).expect("a manifest")).expect("a whole manifest")
}

fn seal(dir: &Path) -> ManifestEnd {
    serde_json::from_slice(&std::fs::read(dir.join("manifest.end.json")).expect("a seal")).expect("a whole seal")
}

fn samples(dir: &Path) -> Vec<MemorySample> {
    let text = std::fs::read_to_string(dir.join("memory.ndjson")).expect("samples");
    assert!(text.is_empty() || text.ends_with('\n'), "the last line is whole");
    text.lines().map(|line| serde_json::from_str(line).expect("a whole line")).collect()
}

fn codes(end: &ManifestEnd) -> Vec<&str> {
    end.findings.iter().map(|finding| finding.code.as_str()).collect()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn send(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("the recorder lives");
}

#[test]
fn the_exit_code_is_the_commands() {
    let plain = scratch("wrap-plain");
    let file = plain.path().join("plain");
    std::fs::write(&file, "no program").expect("written");
    let file = file.to_str().expect("text");
    let cases: [(&[&str], i32, &str); 9] = [
        (&["true"], 0, "exited"),
        (&["sh", "-c", "exit 42"], 42, "exited"),
        (&["sh", "-c", "exit 255"], 255, "exited"),
        (&["sh", "-c", "kill -9 $$"], 137, "signaled"),
        (&["sh", "-c", "kill -TERM $$"], 143, "signaled"),
        (&["ddo-no-such-program"], 127, "not_started"),
        (&["./none/such"], 127, "not_started"),
        (&[file], 126, "not_started"),
        (&["/tmp"], 126, "not_started"),
    ];
    for (command, code, status) in cases {
        let at = scratch("wrap-exit");
        let output = run(&mut record(&at, &["--strict-recording"], command));
        assert_eq!(output.status.code(), Some(code), "{command:?}: {}", stderr(&output));
        assert_eq!(output.stdout, b"", "nothing of the recorder's own");
        let (start, end) = (manifest(&journal(&at)), seal(&journal(&at)));
        assert_eq!(start.command, command);
        assert_eq!(end.status, status, "{command:?}");
        assert_eq!(end.exit_code, (status == "exited").then_some(code));
        assert_eq!(end.signal, (status == "signaled").then_some(code - 128));
        assert_eq!(end.findings.len(), usize::from(status == "not_started"), "{end:?}");
        let lines = stderr(&output);
        assert!(lines.starts_with("ddo-record: recording into /"), "{lines}");
        assert!(lines.lines().last().is_some_and(|l| l.starts_with("ddo-record: analyse with: ddo-analyze /")), "{lines}");
        assert!(lines.lines().all(|l| l.starts_with("ddo-record: ")), "{lines}");
    }
}

#[test]
fn help_and_version_are_no_failures() {
    let at = scratch("wrap-help");
    let help = run(bare(&at).arg("--help"));
    assert_eq!((help.status.code(), help.stderr.as_slice()), (Some(0), &b""[..]));
    assert!(String::from_utf8_lossy(&help.stdout).contains("Examples:"));
    assert_eq!(run(bare(&at).arg("--version")).status.code(), Some(0));
}

#[test]
fn nothing_is_overwritten() {
    let at = scratch("wrap-occupied");
    let dir = journal(&at);
    std::fs::create_dir(&dir).expect("fresh");
    std::fs::write(dir.join("precious"), "kept").expect("written");
    let output = run(&mut record(&at, &[], &["touch", "ran"]));
    assert_eq!(output.status.code(), Some(125));
    let line = stderr(&output);
    assert!(line.lines().count() == 1 && line.contains("/journal") && line.contains("precious"), "{line}");
    assert!(!at.path().join("ran").exists(), "the command was not started");
    assert_eq!(std::fs::read_dir(&dir).expect("there").count(), 1);

    let output = run(bare(&at).args(["-o", "journal/precious", "--", "touch", "ran"]));
    assert_eq!(output.status.code(), Some(125), "a file is no folder");
    let long = "x".repeat(300);
    let output = run(bare(&at).args(["-o", &long, "--", "touch", "ran"]));
    assert_eq!((output.status.code(), stderr(&output).lines().count()), (Some(125), 1));
    assert!(stderr(&output).contains(&long));
    assert!(!at.path().join("ran").exists());
}

#[test]
fn the_folder_is_private_and_complete() {
    let at = scratch("wrap-private");
    std::fs::create_dir(journal(&at)).expect("fresh");
    std::fs::set_permissions(journal(&at), std::fs::Permissions::from_mode(0o755)).expect("ours");
    assert_eq!(run(&mut record(&at, &[], &["true"])).status.code(), Some(0));
    let mode = |path: &Path| std::fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&journal(&at)), 0o700);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(journal(&at)).expect("there") {
        let entry = entry.expect("an entry");
        assert_eq!(mode(&entry.path()), 0o600, "{entry:?}");
        names.push(entry.file_name());
    }
    names.sort();
    assert_eq!(names, ["manifest.end.json", "manifest.json", "memory.ndjson", "tracker.json"]);
    let deep = run(bare(&at).args(["-o", "a/b/c", "--memory-monitor", "off", "--", "true"]));
    assert_eq!(deep.status.code(), Some(0));
    assert_eq!((mode(&at.path().join("a")), mode(&at.path().join("a/b/c"))), (0o700, 0o700));
    assert!(!at.path().join("a/b/c/memory.ndjson").exists());
    assert_eq!(seal(&at.path().join("a/b/c")).memory_samples, None);
}

#[test]
fn without_a_name_every_run_has_its_own_folder() {
    let at = scratch("wrap-default");
    for _ in 0..3 {
        assert_eq!(run(bare(&at).args(["--", "true"])).status.code(), Some(0));
    }
    let entries = std::fs::read_dir(at.path()).expect("there").map(|e| e.expect("an entry").file_name());
    let names: Vec<String> = entries.map(|n| n.into_string().expect("text")).collect();
    assert_eq!(names.len(), 3);
    assert!(names.iter().all(|n| n.starts_with("ddo-journal-2") && n.contains('T') && n.contains('Z')), "{names:?}");
}

#[test]
fn the_standard_streams_are_the_commands() {
    let at = scratch("wrap-cat");
    let mut child = record(&at, &[], &["cat"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("starts");
    child.stdin.take().expect("piped").write_all(b"hi\n").expect("taken");
    let output = child.wait_with_output().expect("ours");
    assert_eq!((output.stdout.as_slice(), output.status.code()), (&b"hi\n"[..], Some(0)));

    let at = scratch("wrap-streams");
    // Open files, standard streams and the process group, with and without the recorder around the command.
    let script = "readlink /proc/$$/fd/0 /proc/$$/fd/1 /proc/$$/fd/2; ls /proc/$$/fd; ps -o pgid= -p $$";
    let look = |mut command: Command| {
        let out = std::fs::File::create(at.path().join("out")).expect("writable");
        let status = command.current_dir(at.path()).stdin(Stdio::null()).stdout(out).stderr(Stdio::null()).status();
        assert!(status.expect("starts").success());
        std::fs::read_to_string(at.path().join("out")).expect("written")
    };
    let mut direct = Command::new("sh");
    direct.args(["-c", script]);
    assert_eq!(look(direct), look(record(&at, &[], &["sh", "-c", script])));
}

#[test]
fn a_descendant_that_holds_the_pipes_keeps_nobody() {
    let at = scratch("wrap-grandchild");
    let script = "sleep 30 & echo $! > pid; exit 3";
    let mut command = record(&at, &[], &["sh", "-c", script]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("starts");
    assert_eq!(wait(&mut child).code(), Some(3));
    assert_eq!(seal(&journal(&at)).exit_code, Some(3));
    let pid = std::fs::read_to_string(at.path().join("pid")).expect("written").trim().parse().expect("a number");
    kill_process(Pid::from_raw(pid).expect("positive"), Signal::KILL).expect("it still sleeps");
}

#[test]
fn a_closed_error_stream_stops_nothing() {
    let at = scratch("wrap-stderr");
    let mut child = record(&at, &[], &["sh", "-c", "exit 4"]).stderr(Stdio::piped()).spawn().expect("starts");
    drop(child.stderr.take());
    assert_eq!(wait(&mut child).code(), Some(4));
    assert_eq!(seal(&journal(&at)).exit_code, Some(4));
}

#[test]
fn a_signal_reaches_the_command_once() {
    for (signal, name) in [(Signal::TERM, "TERM"), (Signal::INT, "INT"), (Signal::HUP, "HUP"), (Signal::USR1, "USR1")] {
        let at = scratch("wrap-signal");
        let script = format!(
            "n=0; trap 'n=$((n+1)); : > got' {name}; trap 'echo $n > count; exit 5' USR2; : > ready; while :; do sleep 0.01; done"
        );
        let mut child = record(&at, &[], &["sh", "-c", &script]).stderr(Stdio::null()).spawn().expect("starts");
        until("the command is ready", || at.path().join("ready").exists());
        send(&child, signal);
        until("the signal arrives", || at.path().join("got").exists());
        send(&child, Signal::USR2);
        assert_eq!(wait(&mut child).code(), Some(5), "{name}");
        assert_eq!(std::fs::read_to_string(at.path().join("count")).expect("written").trim(), "1", "{name}");
        assert_eq!(codes(&seal(&journal(&at))), ["signal_forwarded", "signal_forwarded"]);
    }
}

#[test]
fn a_command_that_dies_of_a_forwarded_signal_is_sealed() {
    let at = scratch("wrap-term");
    let script = ": > ready; exec sleep 30";
    let mut child = record(&at, &[], &["sh", "-c", script]).stderr(Stdio::null()).spawn().expect("starts");
    until("the command is ready", || at.path().join("ready").exists());
    send(&child, Signal::TERM);
    assert_eq!(wait(&mut child).code(), Some(143));
    let end = seal(&journal(&at));
    assert_eq!((end.status.as_str(), end.signal, end.exit_code), ("signaled", Some(15), None));
}

#[test]
fn asking_again_escalates() {
    let at = scratch("wrap-escalate");
    let script = "trap '' TERM INT; : > ready; while :; do sleep 0.01; done";
    let mut child = record(&at, &[], &["sh", "-c", script]).stderr(Stdio::null()).spawn().expect("starts");
    until("the command is ready", || at.path().join("ready").exists());
    let mut status = None;
    until("the command is killed", || {
        send(&child, Signal::INT);
        status = child.try_wait().expect("ours");
        status.is_some()
    });
    assert_eq!(status.and_then(|s| s.code()), Some(137));
    let end = seal(&journal(&at));
    assert_eq!((end.status.as_str(), end.signal), ("signaled", Some(9)));
    assert!(codes(&end).contains(&"signal_escalated"), "{end:?}");
}

#[test]
fn a_killed_recorder_leaves_the_command_running() {
    let at = scratch("wrap-killed");
    let script = ": > ready; until [ -e go ]; do sleep 0.01; done; : > done";
    let mut child = record(&at, &[], &["sh", "-c", script]).stderr(Stdio::null()).spawn().expect("starts");
    until("the command is ready", || at.path().join("ready").exists());
    send(&child, Signal::KILL);
    wait(&mut child);
    std::fs::write(at.path().join("go"), "").expect("written");
    until("the command ends by itself", || at.path().join("done").exists());
    assert_eq!(manifest(&journal(&at)).command.len(), 3);
    assert!(!journal(&at).join("manifest.end.json").exists());
    samples(&journal(&at));
}

#[test]
fn signal_dispositions_are_inherited_unchanged() {
    let at = scratch("wrap-dispositions");
    let look = "exec grep -E '^Sig(Blk|Ign|Cgt)' /proc/self/status";
    for ignored in ["", "trap '' HUP INT USR2;"] {
        let sh = |script: String| {
            let output = run(Command::new("sh").args(["-c", &script]).current_dir(at.path()).stdin(Stdio::null()));
            assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
            output.stdout
        };
        let recorder = program("ddo-record");
        let out = if ignored.is_empty() { "a" } else { "b" };
        let recorded = format!("{ignored} exec {} -o {out} -- sh -c \"{look}\"", recorder.display());
        assert_eq!(sh(format!("{ignored} {look}")), sh(recorded));
    }
    let script = format!("trap '' CHLD; exec {} -o c -- sh -c 'exit 3'", program("ddo-record").display());
    let output = run(Command::new("sh").args(["-c", &script]).current_dir(at.path()));
    assert_eq!(output.status.code(), Some(3), "an ignored SIGCHLD does not lose the code: {}", stderr(&output));
}

#[test]
fn bytes_that_are_not_text_stay_apart() {
    let at = scratch("wrap-bytes");
    for byte in [0xff, 0xfe] {
        let word = OsString::from_vec(vec![b'a', byte, b'\\']);
        let mut command = bare(&at);
        command.arg("-o").arg(&word).args(["--", "sh", "-c", "printf %s \"$1$DDO_RECORD_DIR\"", "sh"]).arg(&word);
        let output = run(&mut command);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        assert_eq!(output.stdout, [word.as_bytes(), at.path().join(&word).as_os_str().as_bytes()].concat());
        let dir = at.path().join(&word);
        assert_eq!(manifest(&dir).command.last().map(String::as_str), Some(format!("a\\x{byte:02X}\\\\").as_str()));
        seal(&dir);
        let analysed =
            run(crate::support::command("ddo-analyze").current_dir(at.path()).arg(&word).args(["--out", "out", "--force"]));
        assert_eq!(analysed.status.code(), Some(0), "{}", stderr(&analysed));
    }
}

#[test]
fn the_command_gets_the_settings_and_the_manifest_few_variables() {
    let at = scratch("wrap-env");
    let options = ["--gpu-timing", "--native-timeline=12", "--component", "denoiser", "--label", "gpu=h200"];
    let mut command = record(&at, &options, &["env"]);
    command.env("DDO_OTHER", "1").env("CUDA_VISIBLE_DEVICES", "0").env("SECRET_TOKEN", "hush-7").env("DDOX", "no");
    let output = run(&mut command);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let seen = String::from_utf8(output.stdout).expect("text");
    let value = |name: &str| seen.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix('=')).expect("set");
    assert_eq!(Path::new(value("DDO_RECORD_DIR")), journal(&at));
    let settings: Settings = serde_json::from_str(value("DDO_RECORD_SETTINGS")).expect("settings");
    assert_eq!((settings.native_timeline, settings.native_timeline_capacity, settings.gpu_timing), (true, 12, true));
    assert_eq!(value("SECRET_TOKEN"), "hush-7", "the command's environment is whole");
    let start = manifest(&journal(&at));
    assert_eq!(start.settings, settings);
    assert_eq!(start.component.as_deref(), Some("denoiser"));
    assert_eq!(start.labels.get("gpu").map(String::as_str), Some("h200"));
    let names: Vec<&str> = start.environment.keys().map(String::as_str).collect();
    assert_eq!(names, ["CUDA_VISIBLE_DEVICES", "DDO_OTHER", "DDO_RECORD_DIR", "DDO_RECORD_SETTINGS"]);
    assert_eq!(start.settings_origin.get("native_timeline").map(String::as_str), Some("command_line"));
    assert_eq!(start.settings_origin.get("journal").map(String::as_str), Some("default"));
    assert!(start.clocks.wall_utc.ends_with('Z') && start.machine.memory_bytes.is_some());

    let outer = serde_json::to_string(&Settings { journal: "off".into(), ..settings }).expect("settings");
    let at = scratch("wrap-env-outer");
    assert_eq!(run(record(&at, &["--component", "mine"], &["true"]).env("DDO_RECORD_SETTINGS", &outer)).status.code(), Some(0));
    let start = manifest(&journal(&at));
    assert_eq!((start.settings.journal.as_str(), start.component.as_deref()), ("off", Some("mine")));
    let origin = |name: &str| start.settings_origin.get(name).map(String::as_str);
    assert_eq!((origin("journal"), origin("component")), (Some("environment"), Some("command_line")));
}

#[test]
fn secrets_stay_out_of_the_folder() {
    let at = scratch("wrap-redact");
    let options = ["--redact", "hush", "--label", "key=a-hush-b"];
    let mut command = record(&at, &options, &["hush-program", "--token=hush"]);
    assert_eq!(run(command.env("DDO_TOKEN", "xhush")).status.code(), Some(127));
    let start = manifest(&journal(&at));
    assert_eq!(start.command, ["***-program", "--token=***"]);
    assert_eq!(start.labels.get("key").map(String::as_str), Some("a-***-b"));
    for name in ["manifest.json", "manifest.end.json"] {
        let text = std::fs::read_to_string(journal(&at).join(name)).expect("published");
        assert!(!text.contains("hush"), "{name}: {text}");
    }
    let at = scratch("wrap-no-command");
    assert_eq!(run(&mut record(&at, &["--no-command-line"], &["hush-program"])).status.code(), Some(127));
    assert_eq!(manifest(&journal(&at)).command, Vec::<String>::new());
    let text = std::fs::read_to_string(journal(&at).join("manifest.end.json")).expect("published");
    assert!(!text.contains("hush"), "{text}");
}

#[test]
fn memory_is_sampled_from_the_start_to_the_end() {
    let at = scratch("wrap-memory");
    let script = "until [ $(wc -l < \"$DDO_RECORD_DIR/memory.ndjson\") -ge 3 ]; do sleep 0.01; done";
    let output = run(&mut record(&at, &["--interval", "10ms", "--strict-recording"], &["sh", "-c", script]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let (samples, end) = (samples(&journal(&at)), seal(&journal(&at)));
    assert_eq!(end.memory_samples, Some(samples.len() as u64));
    assert_eq!(end.peak_rss_bytes, samples.iter().filter_map(|s| s.rss_bytes).max());
    assert!(end.peak_rss_bytes > Some(0));
    assert!(samples.iter().all(|s| s.error_type.is_none() && s.elapsed_seconds.0 >= 0.0));
    assert!(samples.windows(2).all(|pair| matches!(pair, [a, b] if a.elapsed_seconds < b.elapsed_seconds)));
    assert_eq!(end.findings, []);
}

/// Waits for a full `memory.ndjson` (its lines are shorter than 600 bytes), then for the monitor to have looked again.
const UNTIL_FULL: &str = r#"
until [ "$(wc -c < "$DDO_RECORD_DIR/memory.ndjson")" -ge 7592 ]; do sleep 0.01; done
for task in /proc/$PPID/task/*; do grep -q ddo-memory "$task/comm" && break; done
pauses() { sed -n 's/^voluntary_ctxt_switches:[^0-9]*//p' "$task/status"; }
first=$(pauses)
until [ $(($(pauses) - first)) -ge 20 ]; do sleep 0.01; done
"#;

#[test]
fn a_full_disk_costs_samples_and_nothing_else() {
    for (strict, code) in [("--no-command-line", 0), ("--strict-recording", 125)] {
        let at = scratch("wrap-full");
        std::fs::write(at.path().join("inner.sh"), UNTIL_FULL).expect("written");
        // Files end at 8 KiB (16 blocks of 512 bytes) for the recorder and the command.
        let script = format!(
            "trap '' XFSZ; ulimit -f 16; exec {} -o journal --interval 10ms {strict} -- sh inner.sh",
            program("ddo-record").display(),
        );
        let output = run(Command::new("sh").args(["-c", &script]).current_dir(at.path()).stdin(Stdio::null()));
        assert_eq!(output.status.code(), Some(code), "{}", stderr(&output));
        assert!(stderr(&output).contains("memory_write_failed"), "{}", stderr(&output));
        let (samples, end) = (samples(&journal(&at)), seal(&journal(&at)));
        assert_eq!((end.memory_samples, end.exit_code), (Some(samples.len() as u64), Some(0)));
        assert_eq!(codes(&end), ["memory_write_failed"]);
    }
}

#[test]
fn a_journal_that_cannot_be_sealed_is_said() {
    for (options, inner, code) in [(&[][..], 0, 0), (&["--strict-recording"], 0, 125), (&["--strict-recording"], 9, 9)] {
        let at = scratch("wrap-unsealed");
        let script = format!("echo mine > \"$DDO_RECORD_DIR/manifest.end.json\"; exit {inner}");
        let output = run(&mut record(&at, options, &["sh", "-c", &script]));
        assert_eq!(output.status.code(), Some(code), "{options:?}");
        assert!(stderr(&output).contains("manifest.end.json"), "{}", stderr(&output));
        let kept = std::fs::read(journal(&at).join("manifest.end.json")).expect("there");
        assert_eq!(kept, b"mine\n");
        let left = |e: std::fs::DirEntry| e.path().extension() == Some(OsStr::new("tmp"));
        assert!(!std::fs::read_dir(journal(&at)).expect("there").any(|e| left(e.expect("an entry"))));
    }
}
