//! The output folder: "Where may results land, and how do they appear?"
//!
//! Uses `error`. Invariants: never inside the input or the journal around it; a folder that already holds something is refused unless told
//! otherwise, and then only files of the same names are replaced; a file appears under its name only when whole.

use crate::error::Error;
use crate::limits::MAX_JSON_BYTES;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// What ddo-record writes first.
const MANIFEST: &str = "manifest.json";

/// What ddo-record writes beside its manifest.
const BESIDE_MANIFEST: [&str; 4] = ["manifest.end.json", "memory.ndjson", "reports", "snapshots"];

/// An output folder that may be written to.
#[derive(Debug)]
pub struct Folder {
    /// Where it is.
    pub path: PathBuf,
}

/// `<input>.analysis` beside the input; for a part of a journal beside the journal, named after both:
/// `DIR.reports.final.json.analysis` for `DIR/reports/final.json`.
///
/// # Errors
/// When the input has no name, such as `/`.
pub fn default_folder(input: &Path) -> Result<PathBuf, Error> {
    let missing = || Error::NoOutputName { path: input.into() };
    if let Some((journal, part)) = enclosing_journal(input) {
        let mut name = journal.file_name().ok_or_else(missing)?.to_os_string();
        for piece in part.components() {
            name.push(".");
            name.push(piece);
        }
        name.push(".analysis");
        return Ok(journal.with_file_name(name));
    }
    let whole = match input.file_name() {
        Some(_) => input.to_path_buf(),
        None => input.canonicalize().map_err(|source| Error::read(input, source))?,
    };
    let mut name = whole.file_name().ok_or_else(missing)?.to_os_string();
    name.push(".analysis");
    Ok(whole.with_file_name(name))
}

/// The outermost journal around an input and the input's path in it; `None` for a whole journal or a bare input.
fn enclosing_journal(input: &Path) -> Option<(PathBuf, PathBuf)> {
    // Where the input really lies, else where the link to it does.
    let link = std::path::absolute(input).ok().and_then(|path| Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?)));
    let places = [input.canonicalize().ok(), link];
    places.into_iter().flatten().find_map(|place| {
        let journal = place.ancestors().skip(1).filter(|ancestor| is_journal(ancestor)).last()?;
        let part = place.strip_prefix(journal).ok()?;
        Some((journal.to_path_buf(), part.to_path_buf()))
    })
}

/// True for a folder with a manifest of ddo-record: by what it says, or, where it is broken, by what lies beside it.
fn is_journal(folder: &Path) -> bool {
    let manifest = folder.join(MANIFEST);
    let readable = |about: fs::Metadata| about.is_file() && about.len() <= MAX_JSON_BYTES;
    if !fs::symlink_metadata(&manifest).is_ok_and(readable) {
        return false;
    }
    let value: Option<serde_json::Value> = fs::read(&manifest).ok().and_then(|bytes| serde_json::from_slice(&bytes).ok());
    let says = value.is_some_and(|value| value.get("command").is_some() && value.get("clocks").is_some());
    says || BESIDE_MANIFEST.iter().any(|name| folder.join(name).exists())
}

impl Folder {
    /// Creates or accepts the output folder of an input.
    ///
    /// # Errors
    /// When it lies inside the input or the journal that the input is a part of, is not empty, or cannot be created.
    pub fn open(input: &Path, wanted: Option<&Path>, force: bool) -> Result<Folder, Error> {
        let path = match wanted {
            Some(path) => path.to_path_buf(),
            None => default_folder(input)?,
        };
        Folder::outside(&path, input)?;
        match fs::read_dir(&path) {
            Ok(mut listing) => {
                if listing.next().is_some() && !force {
                    return Err(Error::OutputExists { path });
                }
            }
            Err(source) if source.kind() == io::ErrorKind::NotFound => {
                create_private(&path).map_err(|source| Error::write(&path, source))?;
            }
            Err(source) => return Err(Error::write(&path, source)),
        }
        Ok(Folder { path })
    }

    /// Refuses a folder inside an input, or inside the journal that the input is a part of; touches nothing.
    ///
    /// # Errors
    /// When it lies there.
    pub fn outside(path: &Path, input: &Path) -> Result<(), Error> {
        let evidence = enclosing_journal(input).map_or_else(|| input.to_path_buf(), |(journal, _)| journal);
        if lies_inside(path, &evidence) {
            return Err(Error::OutputInsideInput { path: path.into(), input: evidence });
        }
        Ok(())
    }

    /// Writes one file: to a temporary name first, then flushed and renamed. Folders in the name are created.
    ///
    /// # Errors
    /// Whatever `fill` reports, or the operating system.
    pub fn write<T>(&self, name: &str, fill: impl FnOnce(&mut dyn Write) -> Result<T, Error>) -> Result<T, Error> {
        let path = self.path.join(name);
        if let Some(parent) = path.parent().filter(|_| name.contains('/')) {
            create_private(parent).map_err(|source| Error::write(parent, source))?;
        }
        let temporary = self.path.join(format!("{name}.{}.tmp", std::process::id()));
        let result = fill_file(&temporary, fill)
            .and_then(|value| fs::rename(&temporary, &path).map(|()| value).map_err(|source| Error::write(&path, source)));
        if result.is_err() {
            // The temporary file is ours; that it cannot be removed changes nothing about the failure.
            let _ = fs::remove_file(&temporary);
        }
        result.map_err(|error| match error {
            Error::Output(source) => Error::write(&path, source),
            other => other,
        })
    }
}

fn fill_file<T>(path: &Path, fill: impl FnOnce(&mut dyn Write) -> Result<T, Error>) -> Result<T, Error> {
    let file = open_private(path).map_err(|source| Error::write(path, source))?;
    let mut out = BufWriter::new(file);
    let value = fill(&mut out)?;
    let file = out.into_inner().map_err(|error| Error::write(path, error.into_error()))?;
    file.sync_all().map_err(|source| Error::write(path, source))?;
    Ok(value)
}

/// True where `path` is the input or below it, also through links and `..`.
fn lies_inside(path: &Path, input: &Path) -> bool {
    let Ok(input) = input.canonicalize() else { return false };
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    // The nearest ancestor that exists says where the path really lies.
    absolute.ancestors().find_map(|ancestor| ancestor.canonicalize().ok()).is_some_and(|real| real.starts_with(&input))
}

#[cfg(unix)]
fn create_private(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

#[cfg(not(unix))]
fn create_private(path: &Path) -> io::Result<()> {
    fs::create_dir_all(path)
}

#[cfg(unix)]
fn open_private(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt;
    fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

#[cfg(not(unix))]
fn open_private(path: &Path) -> io::Result<File> {
    fs::OpenOptions::new().write(true).create_new(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_journal_are_answered_beside_it() {
        let root = std::env::temp_dir().join(format!("ddo-files-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        for folder in ["run/reports", "run/snapshots/c", "torn/reports", "other/reports"] {
            fs::create_dir_all(root.join(folder)).expect("folders");
        }
        let root = root.canonicalize().expect("it exists");
        let file = |name: &str, text: &str| fs::write(root.join(name), text).expect("a file");
        file("run/manifest.json", "{\"command\": [], \"clocks\": {}}");
        file("run/reports/final.json", "{}");
        file("torn/manifest.json", "{\"comm");
        file("other.json", "{}");
        let default = |input: &str| default_folder(&root.join(input)).expect("a name");
        assert_eq!(default("run"), root.join("run.analysis"));
        assert_eq!(default("run/reports/final.json"), root.join("run.reports.final.json.analysis"));
        assert_eq!(default("run/snapshots/../snapshots/c"), root.join("run.snapshots.c.analysis"));
        assert_eq!(
            default("run/reports/../../other/reports"),
            root.join("run/reports/../../other/reports.analysis"),
            "left again"
        );
        assert_eq!(default("torn/reports"), root.join("torn.reports.analysis"));
        assert_eq!(default("other/reports"), root.join("other/reports.analysis"), "no journal");
        for (input, out) in [
            ("run/reports/final.json", "run/x"),
            ("run/snapshots", "run"),
            ("run", "run/reports/x"),
            ("other.json", "other.json"),
        ] {
            let refused = Folder::open(&root.join(input), Some(&root.join(out)), true);
            assert!(matches!(refused, Err(Error::OutputInsideInput { .. })), "{input} {out}: {refused:?}");
        }
        assert!(Folder::open(&root.join("run/reports"), None, false).is_ok());
        let _ = fs::remove_dir_all(&root);
    }
}
