//! The output folder: "Where may results land, and how do they appear?"
//!
//! Uses `error`. Invariants: never inside the input; a folder that already holds something is refused unless told
//! otherwise, and then only files of the same names are replaced; a file appears under its name only when whole.

use crate::error::Error;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// An output folder that may be written to.
#[derive(Debug)]
pub struct Folder {
    /// Where it is.
    pub path: PathBuf,
}

/// `<input>.analysis` beside the input.
///
/// # Errors
/// When the input has no name, such as `/`.
pub fn default_folder(input: &Path) -> Result<PathBuf, Error> {
    let missing = || Error::NoOutputName { path: input.into() };
    let whole = match input.file_name() {
        Some(_) => input.to_path_buf(),
        None => input.canonicalize().map_err(|source| Error::read(input, source))?,
    };
    let mut name = whole.file_name().ok_or_else(missing)?.to_os_string();
    name.push(".analysis");
    Ok(whole.with_file_name(name))
}

impl Folder {
    /// Creates or accepts the output folder of an input.
    ///
    /// # Errors
    /// When it lies inside the input, is not empty, or cannot be created.
    pub fn open(input: &Path, wanted: Option<&Path>, force: bool) -> Result<Folder, Error> {
        let path = match wanted {
            Some(path) => path.to_path_buf(),
            None => default_folder(input)?,
        };
        if input.is_dir() && lies_inside(&path, input) {
            return Err(Error::OutputInsideInput { path, input: input.into() });
        }
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

    /// Writes one file: to a temporary name first, then flushed and renamed.
    ///
    /// # Errors
    /// Whatever `fill` reports, or the operating system.
    pub fn write<T>(&self, name: &str, fill: impl FnOnce(&mut dyn Write) -> Result<T, Error>) -> Result<T, Error> {
        let path = self.path.join(name);
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
