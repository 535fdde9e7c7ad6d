//! Everything that can be wrong with a command, a folder, a label, an interval, a signal or a limit, at `ddo-record`.
//!
//! Proves: the documented exit code; one line on standard error that names the thing, its value and the limit, however long or
//! strange the value is; the command is never started, and what exists stays as it is.

use crate::support::{Ran, Scratch, command, files, ran, scratch, until, wait};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::io::{Read as _, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

/// Longest line that is still a line.
const LINE: usize = 500;

fn record(at: &Scratch) -> Command {
    let mut record = command("ddo-record");
    record.current_dir(at.path());
    record
}

/// Runs a request whose command would make the file `ran`; it must be refused with one line that holds these words.
fn refused(at: &Scratch, request: &mut Command, words: &[&str]) -> Ran {
    let before = files(at.path());
    let ran = ran(request).ended(125);
    assert_eq!((ran.err.lines().count(), ran.out.as_str()), (1, ""), "{ran:?}");
    assert!(ran.err.starts_with("ddo-record: error: ") && ran.err.len() < LINE, "{}", ran.err);
    assert!(!ran.err.trim_end().chars().any(char::is_control), "{ran:?}");
    for word in words {
        assert!(ran.err.contains(word), "{word:?} is not said: {}", ran.err);
    }
    assert!(files(at.path()) == before, "a refusal changes no file: {ran:?}");
    ran
}

/// Words of a request, and what the line about them must say.
type Case<'a> = (Vec<&'a str>, Vec<&'a str>);

/// What is no command line, or no known word.
fn words<'a>(long: &'a str, strange: &'a str) -> Vec<Case<'a>> {
    vec![
        // The command.
        (vec![], vec!["no command", "`--`"]),
        (vec!["--"], vec!["no command", "`--`"]),
        (vec!["-o", "x"], vec!["no command", "`--`"]),
        (vec!["touch", "ran"], vec!["\"touch\" is no option", "`--`"]),
        (vec!["-o", "x", "touch", "ran"], vec!["\"touch\" is no option", "`--`"]),
        // Options.
        (vec!["--lable", "a=b"], vec!["--lable", "--label"]),
        (vec!["--out"], vec!["--out"]),
        (vec!["-o", ""], vec!["--out"]),
        (vec!["-o", "x", "-o", "y"], vec!["--out", "multiple times"]),
        (vec!["--interval", "1s", "--interval", "2s"], vec!["--interval", "multiple times"]),
        (vec!["--no-command-line=yes"], vec!["--no-command-line", "yes"]),
        (vec!["--status=yes"], vec!["--status", "yes"]),
        (vec!["--completions", "bash"], vec!["--completions"]),
        (vec!["--man"], vec!["--man"]),
        (vec!["--memory-monitor", "all"], vec!["--memory-monitor", "\"all\"", "`full`, `rss` or `off`"]),
        (vec!["--memory-monitor", long], vec!["--memory-monitor", "`full`, `rss` or `off`"]),
        (vec!["--journal", "some"], vec!["--journal", "\"some\"", "`steps` or `off`"]),
        (vec!["--journal", strange], vec!["--journal", r"a\n\u{1b}[2Jb"]),
    ]
}

/// What is outside its bounds, or contradicts itself.
fn bounds<'a>(long: &'a str, label: &'a str) -> Vec<Case<'a>> {
    vec![
        // Intervals.
        (vec!["--interval", "100"], vec!["--interval", "\"100\"", "100ms or 2s"]),
        (vec!["--interval", ""], vec!["--interval", "100ms or 2s"]),
        (vec!["--interval", "nan"], vec!["--interval", "100ms or 2s"]),
        (vec!["--interval", "-1s"], vec!["--interval", "\"-1s\"", "100ms or 2s"]),
        (vec!["--interval", "1h"], vec!["--interval", "100ms or 2s"]),
        (vec!["--interval", "9ms"], vec!["--interval", "9ms", "10 ms to 60000 ms"]),
        (vec!["--interval", "61s"], vec!["--interval", "61s", "10 ms to 60000 ms"]),
        (vec!["--interval", "99999999999999999999999s"], vec!["--interval", "10 ms to 60000 ms"]),
        (vec!["--interval", long], vec!["--interval"]),
        // Labels and names.
        (vec!["--label", "a"], vec!["--label", "\"a\"", "KEY=VALUE"]),
        (vec!["--label", "=b"], vec!["--label", "\"=b\"", "1 to 64"]),
        (vec!["--label", "a b=c"], vec!["--label", "\"a b=c\""]),
        (vec!["--label", label], vec!["--label", "1024 bytes"]),
        (vec!["--label", "a=1", "--label", "a=2"], vec!["--label", "\"a\"", "twice"]),
        (vec!["--component", "../up"], vec!["component", "\"../up\"", "64"]),
        (vec!["--component", ".."], vec!["component", "\"..\"", "64"]),
        (vec!["--component", long], vec!["component", "64"]),
        (vec!["--redact", ""], vec!["--redact", "at least one byte"]),
        (vec!["--redact", "gpu", "--label", "gpu=1"], vec!["--redact", "label key", "\"gpu\""]),
        (vec!["--redact", "mine", "--component", "mine"], vec!["--redact", "component name", "\"mine\""]),
        // Limits.
        (vec!["--native-timeline"], vec!["native_timeline", "gpu_timing"]),
        (vec!["--gpu-timing", "--native-timeline=0"], vec!["native_timeline_capacity", "0", "1 to 8192"]),
        (vec!["--gpu-timing", "--native-timeline=8193"], vec!["native_timeline_capacity", "8193", "1 to 8192"]),
        (vec!["--gpu-timing", "--native-timeline=true"], vec!["--native-timeline", "true"]),
        (vec!["--gpu-timing", "--native-timeline=99999999999999999999"], vec!["--native-timeline", "99999999999999999999"]),
        (vec!["--disk-budget", "5"], vec!["--disk-budget", "\"5\"", "2GiB"]),
        (vec!["--disk-budget", "-1GiB"], vec!["--disk-budget", "\"-1GiB\""]),
        (vec!["--disk-budget", "1.5GiB"], vec!["--disk-budget", "\"1.5GiB\""]),
        (vec!["--disk-budget", "99999999999999GiB"], vec!["--disk-budget"]),
        (vec!["--disk-budget", "0GiB"], vec!["--disk-budget", "0GiB", "1048576 bytes"]),
        // Series.
        (vec!["--repeat", "0", "-o", "x"], vec!["--repeat", "0", "1 to 1000"]),
        (vec!["--repeat", "1001", "-o", "x"], vec!["--repeat", "1001", "1 to 1000"]),
        (vec!["--repeat", "two", "-o", "x"], vec!["--repeat", "two"]),
        (vec!["--repeat", "2"], vec!["--out"]),
        (vec!["--interleave", "a"], vec!["--repeat"]),
        (vec!["--repeat", "2", "-o", "x", "--interleave", "'a"], vec!["--interleave", "a quote is not closed"]),
        (vec!["--repeat", "2", "-o", "x", "--interleave", " "], vec!["--interleave", "no word"]),
        (vec!["--repeat", "2", "-o", "x", "--interval", "5"], vec!["--interval", "\"5\""]),
    ]
}

#[test]
fn words_that_cannot_be_used_are_refused_in_one_line() {
    let long = "x".repeat(5000);
    let label = format!("a={long}");
    let cases = [words(&long, "a\n\u{1b}[2Jb"), bounds(&long, &label)].concat();
    let at = scratch("refused-words");
    for (options, words) in &cases {
        let mut request = record(&at);
        request.args(options);
        if !words[0].contains("no command") && !words[0].contains("is no option") {
            request.args(["--", "touch", "ran"]);
        }
        refused(&at, &mut request, words);
        assert_eq!(std::fs::read_dir(at.path()).expect("there").count(), 0, "{options:?} made something");
    }
    let many = |option, value: fn(usize) -> String| (0..65).flat_map(move |at| [String::from(option), value(at)]);
    for option in ["--label", "--redact"] {
        let mut request = record(&at);
        request.args(many(option, |at| format!("key{at}=x"))).args(["--", "touch", "ran"]);
        refused(&at, &mut request, &[option, "65", "64"]);
    }
    let mut bytes = record(&at);
    bytes.arg("--label").arg(OsStr::from_bytes(b"a=\xff")).args(["--", "touch", "ran"]);
    refused(&at, &mut bytes, &["UTF-8"]);
}

#[test]
fn settings_of_an_outer_recorder_are_checked_too() {
    let at = scratch("refused-settings");
    let whole = |rest: &str| {
        format!(
            r#"{{"schema_version":1,"journal":"steps","gpu_timing":false,"native_timeline":false,"native_timeline_capacity":4096{rest}}}"#
        )
    };
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (b"".to_vec(), "no settings object"),
        (b"{}".to_vec(), "schema_version"),
        (b"[1]".to_vec(), "no settings object"),
        (b"\xff".to_vec(), "not UTF-8"),
        (whole(r#","component":"../up""#).into_bytes(), "../up"),
        (whole("").replace("\"steps\"", "\"all\"").into_bytes(), "\"all\""),
        (whole("").replace("4096", "0").into_bytes(), "1 to 8192"),
        (whole("").replace("4096", "true").into_bytes(), "no settings object"),
        (whole("").replace("\"schema_version\":1", "\"schema_version\":900").into_bytes(), "900"),
        (whole("").replace("\"steps\"", &format!("\"{}\"", "x".repeat(5000))).into_bytes(), "journal"),
    ];
    for (value, word) in cases {
        let mut request = record(&at);
        request.args(["--", "touch", "ran"]).env("DDO_RECORD_SETTINGS", OsStr::from_bytes(&value));
        refused(&at, &mut request, &["DDO_RECORD_SETTINGS", word]);
        assert_eq!(std::fs::read_dir(at.path()).expect("there").count(), 0, "{word}");
    }
}

#[test]
fn folders_that_cannot_be_used_are_refused_and_left_alone() {
    let at = scratch("refused-folders");
    let path = |name: &str| at.path().join(name);
    std::fs::write(path("file"), "kept").expect("written");
    std::fs::create_dir(path("full")).expect("fresh");
    std::fs::write(path("full/precious"), "kept").expect("written");
    symlink("nowhere", path("dangling")).expect("linked");
    symlink("full", path("link")).expect("linked");
    symlink("loop", path("loop")).expect("linked");
    let long = "x".repeat(300);
    let deep = "d/".repeat(2100);
    let cases: [(&str, &[&str]); 11] = [
        ("file", &["/file", "not a folder"]),
        ("file/inside", &["/file/inside"]),
        ("full", &["/full", "not empty", "precious"]),
        ("link", &["/link", "not empty", "precious"]),
        ("dangling", &["/dangling"]),
        ("loop", &["/loop"]),
        ("/dev/full", &["/dev/full", "not a folder"]),
        ("/dev/null/x", &["/dev/null/x"]),
        ("/proc/ddo-journal", &["/proc/ddo-journal"]),
        ("/proc/self", &["/proc/self", "not empty"]),
        (&long, &[&long, "too long"]),
    ];
    for (out, words) in cases {
        refused(&at, record(&at).args(["-o", out, "--", "touch", "ran"]), words);
    }
    let ran = ran(record(&at).args(["-o", &deep, "--", "touch", "ran"])).ended(125);
    assert_eq!(ran.err.lines().count(), 1, "too deep for a path");
    let mut gone = shell();
    let recorder = crate::support::program("ddo-record");
    gone.current_dir(at.path()).args(["-c", "mkdir gone && cd gone && rmdir ../gone && exec \"$0\" -- touch ran"]).arg(recorder);
    refused(&at, &mut gone, &["current folder"]);
    refused(&at, record(&at).args(["--repeat", "2", "-o", "full", "--", "touch", "ran"]), &["/full", "not empty"]);
    assert!(!path("ran").exists() && !path("nowhere").exists());
}

#[test]
fn limits_of_the_system_that_leave_no_room_are_said_before_the_start() {
    // Every number of open files up to one that is enough: refused in one line or recorded whole, never something in between.
    let mut recorded = 0;
    for files in 4..16 {
        let at = scratch("refused-files");
        let limited = limited(&at, &format!("ulimit -n {files}"));
        assert!(!limited.err.contains("panicked"), "{limited:?}");
        match limited.code {
            Some(0) => {
                assert!(at.path().join("ran").exists() && at.path().join("journal/manifest.end.json").exists(), "{limited:?}");
                recorded += 1;
            }
            code => {
                assert_eq!((code, limited.err.lines().count()), (Some(125), 1), "{files} files: {limited:?}");
                assert!(limited.err.contains("Too many open files") && !at.path().join("ran").exists(), "{limited:?}");
            }
        }
    }
    assert!(recorded > 0, "16 open files are enough");
    let at = scratch("refused-file-size");
    let limited = limited(&at, "ulimit -f 0");
    assert_eq!((limited.code, limited.err.lines().count()), (Some(125), 1), "{limited:?}");
    assert!(limited.err.contains("File too large") && !at.path().join("ran").exists(), "{limited:?}");
}

/// A shell with nothing on standard input and none of the recorder's variables.
fn shell() -> Command {
    let mut shell = Command::new("sh");
    shell.stdin(Stdio::null()).env_remove("DDO_RECORD_DIR").env_remove("DDO_RECORD_SETTINGS");
    shell
}

/// `touch ran` recorded into `journal` under a limit of the shell.
fn limited(at: &Scratch, limit: &str) -> Ran {
    let script = format!("{limit}; exec \"$0\" -o journal -- touch ran");
    ran(shell().current_dir(at.path()).args(["-c", &script]).arg(crate::support::program("ddo-record")))
}

#[test]
fn a_command_that_cannot_run_is_named_and_sealed() {
    let at = scratch("refused-commands");
    std::fs::write(at.path().join("script"), "#!/no/such/interpreter\n").expect("written");
    std::fs::write(at.path().join("plain"), "words").expect("written");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(at.path().join("script"), open).expect("ours");
    let large = "x".repeat(3 << 20);
    let cases: [(&[&str], i32, &str); 7] = [
        (&[""], 127, "'' was not started"),
        (&[" "], 127, "' ' was not started"),
        (&["./script"], 127, "its interpreter or loader"),
        (&["./plain"], 126, "plain was not started"),
        (&["./plain/x"], 126, "x was not started"),
        (&["."], 126, ". was not started"),
        (&["echo", &large], 126, "echo was not started"),
    ];
    for (number, (words, code, said)) in cases.into_iter().enumerate() {
        let out = format!("run-{number}");
        let mut request = record(&at);
        request.args(["-o", &out, "--no-command-line", "--"]).args(words);
        // A list that no program can take cannot be handed to the recorder either.
        let Ok(output) = request.output() else {
            assert_eq!(code, 126);
            continue;
        };
        let text = String::from_utf8(output.stderr).expect("text");
        assert_eq!((output.status.code(), output.stdout.len()), (Some(code), 0), "{text}");
        assert!(text.contains(said), "{text}");
        let seal = std::fs::read_to_string(at.path().join(out).join("manifest.end.json")).expect("sealed");
        assert!(seal.contains("\"not_started\""), "{seal}");
    }
}

#[test]
fn a_signal_before_the_start_keeps_the_command_from_starting() {
    for (signal, number) in [(Signal::INT, 2), (Signal::TERM, 15), (Signal::HUP, 1)] {
        let at = scratch("refused-signal");
        // The recorder's first line finds no room, so that it stands just before the start until the pipe is read.
        let (mut reader, mut writer) = std::io::pipe().expect("a pipe");
        let flags = fcntl_getfl(&writer).expect("flags");
        fcntl_setfl(&writer, flags | OFlags::NONBLOCK).expect("set");
        while writer.write(&[b'.'; 4096]).is_ok() {}
        while writer.write(b".").is_ok() {}
        fcntl_setfl(&writer, flags).expect("set");
        let mut request = record(&at);
        let mut child = request.args(["-o", "journal", "--", "touch", "ran"]).stderr(writer).spawn().expect("starts");
        // The command's copy of the pipe goes with the request.
        drop(request);
        until("the recorder is ready", || at.path().join("journal/manifest.json").exists());
        kill_process(Pid::from_child(&child), signal).expect("it lives");
        let mut said = String::new();
        reader.read_to_string(&mut said).expect("text");
        assert_eq!(wait(&mut child).code(), Some(128 + number), "{said}");
        assert!(said.contains("came first") && !at.path().join("ran").exists(), "{said}");
        let seal = std::fs::read(at.path().join("journal/manifest.end.json")).expect("sealed");
        let seal: serde_json::Value = serde_json::from_slice(&seal).expect("whole");
        assert_eq!(seal["findings"][0]["code"], "interrupted_before_start");
        let left = |path: &Path| path.extension().is_some_and(|end| end == "tmp");
        assert!(!files(at.path()).keys().any(|path| left(path)));
    }
}

#[test]
fn rank_variables_that_are_no_numbers_are_a_note() {
    let at = scratch("refused-rank");
    let mut request = record(&at);
    request.args(["-o", "journal", "--strict-recording", "--", "true"]).stdin(Stdio::null());
    ran(request.env("RANK", "-1").env("WORLD_SIZE", "two")).ended(0);
    let manifest = std::fs::read_to_string(at.path().join("journal/manifest.json")).expect("there");
    assert!(!manifest.contains("\"ranks\""), "{manifest}");
}
