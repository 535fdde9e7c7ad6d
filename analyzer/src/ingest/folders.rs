//! Folders that hold runs: "Which runs are in there?"
//!
//! Uses `error` and `limits`. Invariants: a folder with a manifest of its own is one run; links are not followed; names are in order.

use crate::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// Name of the file that makes a folder a run.
const MANIFEST: &str = "manifest.json";

/// The runs that an input stands for: the folders with a manifest right inside it, else the input itself.
///
/// # Errors
/// When the folder cannot be listed.
pub fn runs_in(path: &Path) -> Result<Vec<PathBuf>, Error> {
    let about = fs::metadata(path).map_err(|source| Error::read(path, source))?;
    if !about.is_dir() || path.join(MANIFEST).exists() {
        return Ok(vec![path.into()]);
    }
    let mut runs = Vec::new();
    for entry in fs::read_dir(path).map_err(|source| Error::read(path, source))? {
        let entry = entry.map_err(|source| Error::read(path, source))?;
        let folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if folder && entry.path().join(MANIFEST).exists() {
            runs.push(entry.path());
        }
    }
    runs.sort();
    Ok(if runs.is_empty() { vec![path.into()] } else { runs })
}
