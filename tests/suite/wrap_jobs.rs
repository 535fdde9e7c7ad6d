//! `ddo-record` and commands that fork, close, move and stop: none of it is the recorder's business, and none is lost.

use crate::support::{Scratch, command, ran, scratch, until, wait};
use ddo_schemas::manifest::ManifestEnd;
use rustix::process::{Pid, Signal, kill_process};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

fn record(at: &Scratch, script: &str) -> Command {
    let mut record = command("ddo-record");
    record.current_dir(at.path()).args(["-o", "journal", "--", "sh", "-c", script]);
    record
}

fn seal(at: &Scratch) -> ManifestEnd {
    let bytes = std::fs::read(at.path().join("journal/manifest.end.json")).expect("a seal");
    serde_json::from_slice(&bytes).expect("a whole seal")
}

fn number(at: &Scratch, name: &str) -> i32 {
    std::fs::read_to_string(at.path().join(name)).expect("written").trim().parse().expect("a number")
}

fn state(pid: i32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next()).unwrap_or('-')
}

/// Starts a job as a shell does, in a process group of its own: the system does not stop a group that has no parent left in its
/// session, and whether that of the tests has one is not theirs to say.
fn start(at: &Scratch, script: &str) -> Child {
    record(at, script).process_group(0).stderr(Stdio::null()).spawn().expect("starts")
}

fn send(pid: Pid, signal: Signal) {
    kill_process(pid, signal).expect("it lives");
}

#[test]
fn a_command_may_close_its_streams_and_leave_its_folder() {
    let at = scratch("jobs-close");
    let script = "exec <&- >&- 2>&-; cd /; exit 7";
    assert_eq!(ran(&mut record(&at, script)).code, Some(7));
    assert_eq!(seal(&at).exit_code, Some(7));
}

#[test]
fn a_daemon_goes_on_and_is_told() {
    let at = scratch("jobs-daemon");
    // Forked twice, in a session of its own, without the standard streams.
    let daemon = "echo $$ > pid.part; mv pid.part pid; until [ -e go ]; do sleep 0.01; done; : > done";
    let script =
        format!("( setsid sh -c '{daemon}' </dev/null >/dev/null 2>&1 & until [ -e seen ]; do sleep 0.01; done ); exit 3");
    let mut command = command("ddo-record");
    command.current_dir(at.path()).args(["-o", "journal", "--interval", "10ms", "--", "sh", "-c", &script]);
    let mut child = command.stderr(Stdio::null()).spawn().expect("starts");
    until("the daemon runs", || at.path().join("pid").exists());
    let samples = || std::fs::read_to_string(at.path().join("journal/memory.ndjson")).unwrap_or_default().lines().count();
    let before = samples();
    until("the monitor has looked for descendants", || samples() > before + 100);
    std::fs::write(at.path().join("seen"), "").expect("written");
    assert_eq!(wait(&mut child).code(), Some(3));
    let end = seal(&at);
    assert!(end.processes_left >= Some(1), "{end:?}");
    assert!(end.findings.iter().any(|finding| finding.code == "processes_left"), "{end:?}");
    assert_ne!(state(number(&at, "pid")), '-', "it lives");
    std::fs::write(at.path().join("go"), "").expect("written");
    until("the daemon ends by itself", || at.path().join("done").exists());
}

#[test]
fn a_stop_sent_to_the_recorder_alone_stops_the_command() {
    let at = scratch("jobs-stop");
    let mut child = start(&at, "echo $$ > pid.part; mv pid.part pid; until [ -e go ]; do sleep 0.01; done; exit 5");
    until("the command runs", || at.path().join("pid").exists());
    let pid = number(&at, "pid");
    send(Pid::from_child(&child), Signal::TSTP);
    until("the command is stopped", || state(pid) == 'T');
    std::fs::write(at.path().join("go"), "").expect("written");
    send(Pid::from_child(&child), Signal::CONT);
    assert_eq!(wait(&mut child).code(), Some(5));
}

#[test]
fn a_command_that_stops_itself_and_is_continued_ends_as_usual() {
    let at = scratch("jobs-self");
    let mut child = start(&at, "echo $$ > pid.part; mv pid.part pid; kill -STOP $$; exit 6");
    until("the command is stopped", || at.path().join("pid").exists() && state(number(&at, "pid")) == 'T');
    send(Pid::from_raw(number(&at, "pid")).expect("positive"), Signal::CONT);
    // Where a shell waits the recorder may have stopped with it.
    send(Pid::from_child(&child), Signal::CONT);
    assert_eq!(wait(&mut child).code(), Some(6));

    let at = scratch("jobs-self-killed");
    let mut child = start(&at, "echo $$ > pid.part; mv pid.part pid; kill -STOP $$; exit 6");
    until("the command is stopped", || at.path().join("pid").exists() && state(number(&at, "pid")) == 'T');
    send(Pid::from_raw(number(&at, "pid")).expect("positive"), Signal::KILL);
    send(Pid::from_child(&child), Signal::CONT);
    assert_eq!(wait(&mut child).code(), Some(137));
    assert_eq!(seal(&at).signal, Some(9));
}

#[test]
fn rarer_signals_reach_the_command_too() {
    for (signal, name) in [(Signal::ALARM, "ALRM"), (Signal::XCPU, "XCPU"), (Signal::WINCH, "WINCH"), (Signal::XFSZ, "XFSZ")] {
        let at = scratch("jobs-signal");
        let script = format!("trap 'exit 8' {name}; : > ready; while :; do sleep 0.01; done");
        let mut child = start(&at, &script);
        until("the command is ready", || at.path().join("ready").exists());
        send(Pid::from_child(&child), signal);
        assert_eq!(wait(&mut child).code(), Some(8), "{name}");
    }
}

#[test]
fn a_file_size_limit_does_not_end_the_recorder() {
    let at = scratch("jobs-file-size");
    let script = format!(
        "ulimit -f 16; exec {} -o journal --interval 10ms -- sh -c 'until [ $(wc -c < journal/memory.ndjson) -ge 7592 ]; do sleep 0.01; done; exit 4'",
        crate::support::program("ddo-record").display()
    );
    let ended = ran(Command::new("sh").args(["-c", &script]).current_dir(at.path()).stdin(Stdio::null()));
    assert_eq!(ended.code, Some(4), "{}", ended.err);
    assert_eq!(seal(&at).exit_code, Some(4));
}

#[test]
fn a_long_path_works() {
    let at = scratch("jobs-long");
    let deep: PathBuf = std::iter::repeat_n("x".repeat(100), 3).collect();
    assert!(deep.as_os_str().len() > 300);
    let mut command = command("ddo-record");
    command.current_dir(at.path()).arg("-o").arg(&deep).args(["--", "sh", "-c", "exit 2"]);
    assert_eq!(ran(&mut command).code, Some(2));
    assert!(at.path().join(&deep).join("manifest.end.json").exists());
    let analysed = ran(crate::support::command("ddo-analyze").current_dir(at.path()).arg(&deep)).ended(0);
    assert!(analysed.out.contains("exited 2"), "{}", analysed.out);
}

#[test]
fn many_short_runs_leave_nothing_behind() {
    let at = scratch("jobs-many");
    for number in 0..20 {
        let mut command = command("ddo-record");
        command.current_dir(at.path()).args(["-o", &format!("run-{number}"), "--", "true"]);
        assert_eq!(ran(&mut command).code, Some(0));
    }
    let left = crate::support::files(at.path()).into_keys().filter(|path| path.extension().is_some_and(|end| end == "tmp"));
    assert_eq!(left.count(), 0);
    assert_eq!(std::fs::read_dir(at.path()).expect("there").count(), 20);
}
