//! What the stories share: built programs and scratch folders.

pub(crate) mod ffi;
pub(crate) mod ledger;
pub(crate) mod small;
pub(crate) mod tiny;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock};

/// The path of a program of this workspace, built once with the cargo that runs the tests.
pub(crate) fn program(name: &str) -> PathBuf {
    static BUILT: OnceLock<Mutex<BTreeMap<String, PathBuf>>> = OnceLock::new();
    let mut built = BUILT.get_or_init(Mutex::default).lock().expect("no test panics while it builds");
    built.entry(name.to_owned()).or_insert_with(|| build(name)).clone()
}

fn build(name: &str) -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests lie in the workspace");
    let output = Command::new(cargo)
        .current_dir(root)
        .args(["build", "--quiet", "--offline", "-p", "ddo-recorder", "--bin", name, "--message-format=json"])
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "building {name}: {}", output.status);
    let lines = output.stdout.split(|b| *b == b'\n').filter_map(|line| serde_json::from_slice(line).ok());
    let mut executables = lines.filter_map(|message: serde_json::Value| {
        let named = message.pointer("/target/name")?.as_str()? == name;
        Some((named, message.get("executable")?.as_str()?.to_owned()))
    });
    let (_, path) = executables.find(|(named, _)| *named).expect("cargo names the executable");
    path.into()
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
