//! The files of an input: "Which files are there?"
//!
//! Uses `limits`. Invariants: bounded depth and count; links are reported and not followed;
//! only regular files are opened; the order is that of the
//! names' bytes, so that the same input gives the same output.

use super::notes::Notes;
use crate::error::Error;
use crate::limits::{MAX_DEPTH, MAX_FILES};
use ddo_schemas::Finding;
use std::fs::{self, File};
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// One regular file.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// Where it is.
    pub(super) path: PathBuf,
    /// Path relative to the input with `/`, as people see it.
    pub(super) shown: String,
    /// Size in bytes when it was listed.
    pub(super) bytes: u64,
    /// The contents, where they are held in memory and lie in no file.
    pub(super) held: Option<Arc<[u8]>>,
}

impl Entry {
    /// File name as people see it.
    pub(super) fn name(&self) -> &str {
        self.shown.rsplit('/').next().unwrap_or(&self.shown)
    }

    /// Folder relative to the input; empty for the input itself.
    pub(super) fn folder(&self) -> &str {
        self.shown.rsplit_once('/').map_or("", |(folder, _)| folder)
    }

    /// What follows the last dot.
    pub(super) fn extension(&self) -> Option<&str> {
        self.name().rsplit_once('.').map(|(_, extension)| extension)
    }

    /// True for what a writer leaves behind when it stops before publishing.
    pub(super) fn is_temporary(&self) -> bool {
        self.extension() == Some("tmp")
    }
}

/// Contents that are held in memory, as files of one folder.
pub(super) fn held(contents: &[(&str, &[u8])]) -> Vec<Entry> {
    let entry = |(name, bytes): &(&str, &[u8])| Entry {
        path: PathBuf::from(name),
        shown: (*name).to_string(),
        bytes: bytes.len() as u64,
        held: Some(Arc::from(*bytes)),
    };
    sorted(contents.iter().map(entry).collect())
}

/// Lists the regular files of a folder, or the one file that was given.
pub(super) fn files(root: &Path, notes: &mut Notes) -> Result<Vec<Entry>, Error> {
    let about = fs::metadata(root).map_err(|source| Error::read(root, source))?;
    if !about.is_dir() && !about.is_file() {
        return Err(Error::NeitherFileNorFolder { path: root.into() });
    }
    if !about.is_dir() {
        let shown = root.file_name().map_or_else(|| "input".into(), |name| name.to_string_lossy().into_owned());
        return Ok(vec![Entry { path: root.into(), shown, bytes: about.len(), held: None }]);
    }
    let mut found = Vec::new();
    let mut pending = vec![(root.to_path_buf(), String::new(), 0_usize)];
    while let Some((folder, shown, depth)) = pending.pop() {
        let listing = match fs::read_dir(&folder) {
            Ok(listing) => listing,
            Err(source) if depth == 0 => return Err(Error::read(&folder, source)),
            Err(source) => {
                notes.add(Finding::error("unreadable_folder", shown, format!("cannot be listed: {source}")));
                continue;
            }
        };
        let mut names: Vec<_> = listing.filter_map(Result::ok).map(|item| item.file_name()).collect();
        names.sort();
        for name in names {
            let path = folder.join(&name);
            let name = name.to_string_lossy();
            let shown = if shown.is_empty() { name.into_owned() } else { format!("{shown}/{name}") };
            if found.len() >= MAX_FILES {
                notes.add(Finding::error("too_many_files", shown, format!("only the first {MAX_FILES} files were read")));
                return Ok(sorted(found));
            }
            match fs::symlink_metadata(&path) {
                Err(source) => notes.add(Finding::error("unreadable_file", shown, format!("cannot be looked at: {source}"))),
                Ok(about) if about.is_symlink() => {
                    notes.add(Finding::warning("link_not_followed", shown, "is a symbolic link; links are not followed"));
                }
                Ok(about) if about.is_dir() && depth + 1 < MAX_DEPTH => pending.push((path, shown, depth + 1)),
                Ok(about) if about.is_dir() => {
                    let text = format!("lies deeper than {MAX_DEPTH} folders and was not searched");
                    notes.add(Finding::warning("too_deep", shown, text));
                }
                Ok(about) if about.is_file() => found.push(Entry { path, shown, bytes: about.len(), held: None }),
                Ok(_) => {
                    let text = "is neither file nor folder, such as a pipe, a socket or a device; it was not opened";
                    notes.add(Finding::warning("not_a_file", shown, text));
                }
            }
        }
    }
    Ok(sorted(found))
}

/// Opens a listed file. Opening a pipe or a device can hang or act, so what the path names now is looked at first, and
/// what was opened once more.
pub(super) fn open(entry: &Entry) -> io::Result<Box<dyn Read>> {
    if let Some(held) = &entry.held {
        return Ok(Box::new(Cursor::new(held.clone())));
    }
    let regular = |about: fs::Metadata| match about.is_file() {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no regular file any more")),
    };
    regular(fs::metadata(&entry.path)?)?;
    let file = File::open(&entry.path)?;
    regular(file.metadata()?)?;
    Ok(Box::new(file))
}

fn sorted(mut found: Vec<Entry>) -> Vec<Entry> {
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}
