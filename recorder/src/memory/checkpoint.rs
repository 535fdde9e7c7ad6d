//! A checkpoint on disk: opened files, their headers, and where each tensor lies.

use crate::driver::SourceFile;
use crate::error::{Error, Result};
use crate::limits::{MAX_CHECKPOINT_FILES, MAX_HEADER_BYTES, MAX_INDEX_BYTES, RETAINED_SEGMENT_BYTES};
use crate::plan::checkpoint::{
    CheckpointSet, CheckpointSummary, HeaderError, HeaderLimits, HeaderReading, IndexError, LENGTH_BYTES, PREFIX_BYTES,
    ShardFile, ShardIndex, check_prefix, read_header, read_index,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An opened checkpoint. Files are immutable and local by contract; their identity is checked at every step.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    path: PathBuf,
    files: Arc<Vec<SourceFile>>,
    set: Arc<CheckpointSet>,
}

impl Checkpoint {
    /// Opens a `.safetensors` file, or a folder with one or more of them and perhaps an index.
    ///
    /// Entries that are malformed are left out and counted, see [`Checkpoint::summary`].
    ///
    /// # Errors
    /// I/O errors with their path; [`Error::Checkpoint`] when no tensor at all can be located, naming the first cause.
    pub fn open(path: &Path) -> Result<Checkpoint> {
        let metadata = std::fs::metadata(path).map_err(|error| Error::io("open the checkpoint", path, error))?;
        let paths = if metadata.is_dir() { files_in(path)? } else { vec![path.to_path_buf()] };
        let index = if metadata.is_dir() { read_folder_index(path)? } else { None };
        let mut files = Vec::new();
        let mut shards = Vec::new();
        for path in &paths {
            let file = SourceFile::open(path).map_err(|error| Error::io("open the checkpoint", path, error))?;
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            shards.push(ShardFile { name, header: header_of(&file) });
            files.push(file);
        }
        let first_header_error = shards.iter().zip(&paths).find_map(|(shard, path)| Some((path, shard.header.as_ref().err()?)));
        let unusable = first_header_error.map(|(path, error)| Error::header(path, error));
        let set = CheckpointSet::assemble(shards, index);
        if set.summary().available == 0 {
            return Err(unusable.unwrap_or_else(|| nothing_available(path, set.summary())));
        }
        Ok(Checkpoint { path: path.to_path_buf(), files: Arc::new(files), set: Arc::new(set) })
    }

    /// The path it was opened by.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Counts, missing keys and remarks.
    pub fn summary(&self) -> &CheckpointSummary {
        self.set.summary()
    }

    /// Retained storage that holds all of its files, in whole segments.
    pub fn retained_bytes(&self) -> u64 {
        let segments = self.files.iter().map(|file| file.identity().bytes.div_ceil(RETAINED_SEGMENT_BYTES));
        segments.sum::<u64>().saturating_mul(RETAINED_SEGMENT_BYTES)
    }

    /// Where each tensor lies.
    pub fn tensors(&self) -> &CheckpointSet {
        &self.set
    }

    pub(crate) fn files(&self) -> &Arc<Vec<SourceFile>> {
        &self.files
    }

    /// Refuses a checkpoint that lacks part of what it promises.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] naming the first missing key or remark.
    pub fn require_complete(&self) -> Result<()> {
        let summary = self.summary();
        if summary.complete {
            return Ok(());
        }
        let first = summary.missing.first().map(ToString::to_string);
        let reason = first.or_else(|| summary.notes.first().map(|note| note.text.clone()));
        let reason = reason.unwrap_or_else(|| "it is incomplete".into());
        Err(Error::Checkpoint { path: self.path.clone(), code: "checkpoint_incomplete", reason })
    }

    /// Compares every file with what it was at opening.
    ///
    /// # Errors
    /// [`Error::SourceChanged`] naming the property, with both values; [`Error::SourceVanished`].
    pub fn check_unchanged(&self) -> Result<()> {
        self.files.iter().try_for_each(|file| {
            let change = file.change().map_err(|error| Error::io("check", file.path(), error))?;
            change.map_or(Ok(()), |change| Err(Error::source(file.path(), change)))
        })
    }
}

fn nothing_available(path: &Path, summary: &CheckpointSummary) -> Error {
    let reason = summary.notes.first().map_or_else(|| "it holds no tensor".to_string(), |note| note.text.clone());
    let code = if summary.refused { "checkpoint_key_not_unique" } else { "checkpoint_no_tensors" };
    Error::Checkpoint { path: path.to_path_buf(), code, reason }
}

fn header_of(file: &SourceFile) -> std::result::Result<HeaderReading, HeaderError> {
    let unreadable = |error: std::io::Error| HeaderError::Unreadable { reason: error.to_string() };
    let limits = HeaderLimits { header_bytes: MAX_HEADER_BYTES, ..HeaderLimits::default() };
    let file_bytes = file.identity().bytes;
    let prefix = file.read(0, file_bytes.min(PREFIX_BYTES as u64)).map_err(unreadable)?;
    let length = check_prefix(&prefix, file_bytes, &limits)?;
    let json = file.read(LENGTH_BYTES, length).map_err(unreadable)?;
    read_header(&json, file_bytes - LENGTH_BYTES - length, &limits)
}

fn files_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).map_err(|error| Error::io("list", folder, error))?;
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(|error| Error::io("list", folder, error))?.path();
        if path.extension().is_some_and(|extension| extension == "safetensors") {
            paths.push(path);
        }
        if paths.len() > MAX_CHECKPOINT_FILES {
            let (got, limit) = (paths.len() as u64, MAX_CHECKPOINT_FILES as u64);
            return Err(Error::refused("checkpoint_too_many_files", "files of one checkpoint", got, limit, "files"));
        }
    }
    if paths.is_empty() {
        let reason = "the folder holds no .safetensors file".to_string();
        return Err(Error::Checkpoint { path: folder.to_path_buf(), code: "checkpoint_no_files", reason });
    }
    paths.sort();
    Ok(paths)
}

fn read_folder_index(folder: &Path) -> Result<Option<std::result::Result<ShardIndex, IndexError>>> {
    let path = folder.join("model.safetensors.index.json");
    if !path.exists() {
        return Ok(None);
    }
    let file = SourceFile::open(&path).map_err(|error| Error::io("open the index", &path, error))?;
    let index_bytes = file.identity().bytes;
    if index_bytes > MAX_INDEX_BYTES {
        return Ok(Some(Err(IndexError::OverLimit { index_bytes, limit: MAX_INDEX_BYTES })));
    }
    let json = file.read(0, index_bytes).map_err(|error| Error::io("read the index", &path, error))?;
    Ok(Some(read_index(&json, MAX_INDEX_BYTES)))
}
