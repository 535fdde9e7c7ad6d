//! "Where does the journal go?" Makes the journal folder before the command starts.
//!
//! May use: std, jiff and `observe::folder`.
//!
//! Invariants: the folder is new or was empty; its mode is 0700 when this returns; nothing that exists is changed
//! otherwise.

use super::error::WrapError;
use super::words::shown;
use crate::observe::folder::claim_dir;
use std::fs::{DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Makes the folder asked for, or a fresh `ddo-journal-<UTC time>` in the current folder, and gives back its absolute path.
///
/// # Errors
/// The folder has something in it, or an operation on it failed.
pub fn make(asked: Option<&Path>) -> Result<PathBuf, WrapError> {
    match asked {
        Some(path) => {
            let absolute =
                std::path::absolute(path).map_err(|e| WrapError::output(path, "the journal folder has no absolute path", e))?;
            make_named(&absolute)?;
            Ok(absolute)
        }
        None => {
            let here =
                std::env::current_dir().map_err(|e| WrapError::output(Path::new("."), "the current folder is unknown", e))?;
            let now = jiff::Timestamp::now().strftime("%Y%m%dT%H%M%SZ");
            Ok(claim_dir(&here, &format!("ddo-journal-{now}"))?)
        }
    }
}

fn make_named(path: &Path) -> Result<(), WrapError> {
    let cannot = |e| WrapError::output(path, "the journal folder cannot be made", e);
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => take_empty(path),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            DirBuilder::new().mode(0o700).recursive(true).create(path).map_err(cannot)
        }
        Err(e) => Err(cannot(e)),
    }
}

/// Takes over an empty folder that exists already.
fn take_empty(path: &Path) -> Result<(), WrapError> {
    let cannot_look = |e| WrapError::output(path, "the journal folder cannot be looked into", e);
    if !std::fs::metadata(path).map_err(cannot_look)?.is_dir() {
        return Err(WrapError::NotAFolder { path: shown(path.as_os_str()) });
    }
    if let Some(entry) = std::fs::read_dir(path).map_err(cannot_look)?.next() {
        let entry = shown(&entry.map_err(cannot_look)?.file_name());
        return Err(WrapError::NotEmpty { path: shown(path.as_os_str()), entry });
    }
    std::fs::set_permissions(path, Permissions::from_mode(0o700))
        .map_err(|e| WrapError::output(path, "the journal folder cannot be made private (mode 0700)", e))
}
