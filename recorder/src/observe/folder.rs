//! "Whose folder is it?" Claiming a folder by exclusive creation.
//!
//! May use: std and `limits`.
//!
//! Invariants: a folder that exists is never claimed, whatever is in it; a claimed folder has mode 0700.

use crate::limits::MAX_NAME_CLAIMS;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// Why no folder was claimed.
#[derive(Debug, thiserror::Error)]
pub enum ClaimError {
    /// All names are taken.
    #[error("{path:?} and its numbered variants up to .{limit} exist already")]
    Taken {
        /// The first name tried.
        path: PathBuf,
        /// The last number tried.
        limit: u32,
    },
    /// The folder cannot be created.
    #[error("{path:?} cannot be created: {source}")]
    Create {
        /// The folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// Creates `parent/name`, or `name.2`, `name.3`, .. when taken, and gives back the path.
///
/// # Errors
/// [`ClaimError`] when the folder cannot be created or [`MAX_NAME_CLAIMS`] names are taken.
pub fn claim_dir(parent: &Path, name: &str) -> Result<PathBuf, ClaimError> {
    for number in 1..=MAX_NAME_CLAIMS {
        let path = if number == 1 { parent.join(name) } else { parent.join(format!("{name}.{number}")) };
        match std::fs::DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(ClaimError::Create { path, source }),
        }
    }
    Err(ClaimError::Taken { path: parent.join(name), limit: MAX_NAME_CLAIMS })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn claims_are_exclusive_and_private() {
        let parent = std::env::temp_dir().join(format!("ddo-claim-{:032x}", fastrand::u128(..)));
        std::fs::create_dir(&parent).expect("scratch folder");
        let names: Vec<PathBuf> = (0..3).map(|_| claim_dir(&parent, "a").expect("free")).collect();
        assert_eq!(names, [parent.join("a"), parent.join("a.2"), parent.join("a.3")]);
        let mode = std::fs::metadata(parent.join("a")).expect("claimed").permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        let missing = claim_dir(&parent.join("none"), "a");
        assert!(matches!(missing, Err(ClaimError::Create { .. })), "{missing:?}");
        std::fs::remove_dir_all(&parent).ok();
    }
}
