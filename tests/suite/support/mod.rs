//! What the stories share: built programs, scratch folders, and waiting for other processes.

pub(crate) mod ffi;
pub(crate) mod ledger;
pub(crate) mod lives;
pub(crate) mod mosaic;
pub(crate) mod mutate;
pub(crate) mod rooted;
pub(crate) mod small;
pub(crate) mod streamed;
pub(crate) mod tiny;
pub(crate) mod trace;

use ddo_samples::model::{self, ModelFiles};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Far more than anything here needs; only a hang gets there.
const DEADLINE: Duration = Duration::from_secs(60);

/// The programs of this workspace.
const PROGRAMS: [&str; 4] = ["ddo-record", "ddo-analyze", "ddo-sample", "ddo-demo"];

/// The path of a program of this workspace, built once with the cargo that runs the tests.
pub(crate) fn program(name: &str) -> PathBuf {
    static BUILT: OnceLock<BTreeMap<String, PathBuf>> = OnceLock::new();
    assert!(PROGRAMS.contains(&name), "{name} is no program of this workspace");
    BUILT.get_or_init(build).get(name).cloned().expect("cargo names the executable")
}

/// Builds with the targets and so the features of `cargo test --workspace`; a selection of packages would build many
/// dependencies a second time.
fn build() -> BTreeMap<String, PathBuf> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root()).args(["build", "--quiet", "--offline", "--workspace", "--all-targets"]);
    command.arg("--message-format=json").stdin(Stdio::null()).stderr(Stdio::inherit());
    if profile_dir().ends_with("release") {
        command.arg("--release");
    }
    let output = command.output().expect("cargo runs");
    assert!(output.status.success(), "building the programs: {}", output.status);
    let lines = output.stdout.split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    let executables = lines.filter_map(|message: serde_json::Value| {
        // The test program of a binary has the binary's name, too.
        let test = message.pointer("/profile/test")?.as_bool()?;
        let name = message.pointer("/target/name")?.as_str()?;
        let path = message.get("executable")?.as_str()?;
        (!test && PROGRAMS.contains(&name)).then(|| (name.to_owned(), path.into()))
    });
    executables.collect()
}

/// The workspace's folder.
pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests lie in the workspace")
}

/// A recorded input.
pub(crate) fn data(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(path)
}

/// The folder of the profile that this test was built in.
fn profile_dir() -> PathBuf {
    let test = std::env::current_exe().expect("a test program has a path");
    model::profile_dir_of(&test).expect("a test program lies in a target folder")
}

/// The real model, from `DDO_MODELS` or `models` in the target folder. Without it a line says so; with `CI=true` that is a failure.
pub(crate) fn minilm() -> Option<ModelFiles> {
    let target = profile_dir().parent().expect("a profile lies in the target folder").to_path_buf();
    match model::find_minilm(&target) {
        Ok(files) => Some(files),
        Err(missing) if std::env::var("CI").is_ok_and(|ci| ci == "true") => panic!("{missing}"),
        Err(missing) => {
            eprintln!("skipped: {missing}");
            None
        }
    }
}

/// A program with nothing on standard input and none of the recorder's variables.
pub(crate) fn command(name: &str) -> Command {
    let mut command = Command::new(program(name));
    command.stdin(Stdio::null());
    for variable in ["DDO_RECORD_DIR", "DDO_RECORD_SETTINGS", "DDO_LOG"] {
        command.env_remove(variable);
    }
    command
}

/// How a program ended and what it said.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Ran {
    /// Fails the test unless the program ended with this code.
    pub(crate) fn ended(self, code: i32) -> Ran {
        assert_eq!(self.code, Some(code), "stdout:\n{}\nstderr:\n{}", self.out, self.err);
        self
    }
}

/// Runs a command to its end.
pub(crate) fn ran(command: &mut Command) -> Ran {
    let Output { status, stdout, stderr } = command.output().expect("the program starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("programs write text");
    Ran { code: status.code(), out: text(stdout), err: text(stderr) }
}

/// Looks again and again until the answer is yes: the only way to wait for another process's files.
pub(crate) fn until(what: &str, mut yes: impl FnMut() -> bool) {
    let began = Instant::now();
    while !yes() {
        assert!(began.elapsed() < DEADLINE, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits for a child of ours.
pub(crate) fn wait(child: &mut Child) -> ExitStatus {
    let mut status = None;
    until("the child ends", || {
        status = child.try_wait().expect("a child of ours");
        status.is_some()
    });
    status.expect("it ended")
}

/// Every regular file below a folder with its bytes, by path relative to it.
pub(crate) fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut open = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        for entry in std::fs::read_dir(&next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(folder).expect("below").to_path_buf();
                // A temporary file may be gone by now.
                if let Ok(bytes) = std::fs::read(&path) {
                    found.insert(name, bytes);
                }
            }
        }
    }
    found
}

/// A folder of one test, removed at the end.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.path).ok();
    }
}

/// Makes a scratch folder.
pub(crate) fn scratch(name: &str) -> Scratch {
    let path = std::env::temp_dir().join(format!("ddo-{name}-{:016x}", fastrand::u64(..)));
    std::fs::create_dir(&path).expect("a fresh scratch folder");
    Scratch { path }
}
