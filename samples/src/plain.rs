//! What does a checkpoint hold, read into plain host memory? A small safetensors reader for the references.
//!
//! May use: the standard library, `serde_json` for the header, `half` for BF16. Never the runtime: that is its point.
//!
//! Invariants: every offset is checked against the file's length before it is read; a tensor is read whole, as F32 (BF16 is
//! widened, which loses nothing); the file is opened for reading and never mapped.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// The largest header that is read, in bytes; the format's own limit is 100 MB.
const MAX_HEADER_BYTES: u64 = 100_000_000;

/// Why a checkpoint could not be read.
#[derive(Debug, thiserror::Error)]
pub enum PlainError {
    /// The file could not be opened or read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The header is not what the format asks for.
    #[error("{}: the safetensors header is broken: {what}", path.display())]
    Header {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// No tensor has this name.
    #[error("{}: no tensor is named {name:?}", path.display())]
    Missing {
        /// The file.
        path: PathBuf,
        /// The name asked for.
        name: String,
    },
    /// The tensor has another type or shape than needed.
    #[error("{}: {name} is {got}; {expected} is needed", path.display())]
    Unfit {
        /// The file.
        path: PathBuf,
        /// The tensor.
        name: String,
        /// Its type or shape.
        got: String,
        /// The type or shape needed.
        expected: String,
    },
}

/// One tensor of a header.
#[derive(Clone, Debug, serde::Deserialize)]
pub struct Entry {
    /// Element type as the file spells it (`F32`, `BF16`, ..).
    pub dtype: String,
    /// Extents.
    pub shape: Vec<usize>,
    /// First byte and the byte after the last, counted from the end of the header.
    pub data_offsets: [u64; 2],
}

/// An open checkpoint with a checked header.
#[derive(Debug)]
pub struct PlainFile {
    path: PathBuf,
    file: File,
    data_start: u64,
    entries: BTreeMap<String, Entry>,
    metadata: BTreeMap<String, String>,
}

impl PlainFile {
    /// Opens a safetensors file and checks its header.
    ///
    /// # Errors
    /// The file cannot be read, or its header contradicts the format or the file's length.
    pub fn open(path: &Path) -> Result<PlainFile, PlainError> {
        let io = |source| PlainError::Io { path: path.into(), source };
        let broken = |what: String| PlainError::Header { path: path.into(), what };
        let mut file = File::open(path).map_err(io)?;
        let length = file.metadata().map_err(io)?.len();
        let mut prefix = [0; 8];
        file.read_exact(&mut prefix).map_err(io)?;
        let header_bytes = u64::from_le_bytes(prefix);
        let data_start = header_bytes.saturating_add(8);
        if header_bytes > MAX_HEADER_BYTES || data_start > length {
            return Err(broken(format!(
                "it claims {header_bytes} bytes; the file has {length}, the limit is {MAX_HEADER_BYTES}"
            )));
        }
        let mut text = Vec::new();
        Read::by_ref(&mut file).take(header_bytes).read_to_end(&mut text).map_err(io)?;
        let mut raw: BTreeMap<String, serde_json::Value> = serde_json::from_slice(&text).map_err(|e| broken(e.to_string()))?;
        let metadata = raw.remove("__metadata__").map(serde_json::from_value).transpose();
        let metadata = metadata.map_err(|e| broken(format!("__metadata__: {e}")))?.unwrap_or_default();
        let mut entries = BTreeMap::new();
        for (name, value) in raw {
            let entry: Entry = serde_json::from_value(value).map_err(|e| broken(format!("{name}: {e}")))?;
            let [start, end] = entry.data_offsets;
            if start > end || end > length - data_start {
                return Err(broken(format!("{name}: offsets {start} to {end} leave the {} bytes of data", length - data_start)));
            }
            entries.insert(name, entry);
        }
        Ok(PlainFile { path: path.into(), file, data_start, entries, metadata })
    }

    /// The `__metadata__` entry; empty if the file has none.
    pub fn metadata(&self) -> &BTreeMap<String, String> {
        &self.metadata
    }

    /// All tensors by name.
    pub fn entries(&self) -> &BTreeMap<String, Entry> {
        &self.entries
    }

    /// Where a tensor's bytes lie in the file: offset and length.
    ///
    /// # Errors
    /// No such tensor.
    pub fn place(&self, name: &str) -> Result<(u64, u64), PlainError> {
        let entry = self.entries.get(name).ok_or_else(|| PlainError::Missing { path: self.path.clone(), name: name.into() })?;
        let [start, end] = entry.data_offsets;
        Ok((self.data_start + start, end - start))
    }

    /// Reads one F32 or BF16 tensor of a known shape as F32.
    ///
    /// # Errors
    /// No such tensor, another shape, another type, or a failed read.
    pub fn read_f32(&mut self, name: &str, shape: &[usize]) -> Result<Vec<f32>, PlainError> {
        let path = || self.path.clone();
        let entry = self.entries.get(name).ok_or_else(|| PlainError::Missing { path: path(), name: name.into() })?;
        let unfit = |got, expected| PlainError::Unfit { path: path(), name: name.into(), got, expected };
        if entry.shape != shape {
            return Err(unfit(format!("of shape {:?}", entry.shape), format!("shape {shape:?}")));
        }
        let element_bytes = match entry.dtype.as_str() {
            "F32" => 4,
            "BF16" => 2,
            other => return Err(unfit(format!("of type {other}"), "F32 or BF16".into())),
        };
        let [start, end] = entry.data_offsets;
        let elements = shape.iter().try_fold(1u64, |n, &extent| n.checked_mul(extent as u64));
        let needed = elements.and_then(|n| n.checked_mul(element_bytes));
        if needed != Some(end - start) {
            return Err(unfit(format!("{} bytes long", end - start), format!("{needed:?} bytes for shape {shape:?}")));
        }
        let io = |source| PlainError::Io { path: self.path.clone(), source };
        self.file.seek(SeekFrom::Start(self.data_start + start)).map_err(io)?;
        let mut bytes = vec![0; usize::try_from(end - start).map_err(|_| unfit("too large".into(), "one address space".into()))?];
        self.file.read_exact(&mut bytes).map_err(io)?;
        Ok(if element_bytes == 4 {
            bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
        } else {
            bytes.as_chunks::<2>().0.iter().map(|b| half::bf16::from_le_bytes(*b).to_f32()).collect()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(name: &str, header: &str, data: &[u8]) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("ddo-plain-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder for the test");
        let path = folder.join(name);
        let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat();
        std::fs::write(&path, bytes).expect("the file is written");
        path
    }

    #[test]
    fn tensors_are_read_and_widened() {
        let header = r#"{"__metadata__":{"a":"b"},"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},
            "y":{"dtype":"BF16","shape":[1,2],"data_offsets":[8,12]}}"#;
        let data = [&1.5f32.to_le_bytes()[..], &(-2f32).to_le_bytes(), &[0x80, 0x3f, 0, 0x40]].concat();
        let mut file = PlainFile::open(&write("good", header, &data)).expect("a whole file");
        assert_eq!(file.metadata().get("a").map(String::as_str), Some("b"));
        assert_eq!(file.read_f32("x", &[2]).expect("x"), [1.5, -2.0]);
        assert_eq!(file.read_f32("y", &[1, 2]).expect("y"), [1.0, 2.0]);
        assert!(matches!(file.read_f32("z", &[2]), Err(PlainError::Missing { .. })));
        let error = file.read_f32("x", &[3]).expect_err("another shape").to_string();
        assert!(error.ends_with("x is of shape [2]; shape [3] is needed"), "{error}");
    }

    #[test]
    fn a_header_that_lies_is_refused() {
        let outside = r#"{"x":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
        let error = PlainFile::open(&write("short", outside, &[0; 4])).expect_err("four bytes are missing");
        assert!(error.to_string().contains("x: offsets 0 to 8 leave the 4 bytes of data"), "{error}");
        let path = write("huge", "{}", &[]);
        std::fs::write(&path, u64::MAX.to_le_bytes()).expect("rewritten");
        assert!(matches!(PlainFile::open(&path), Err(PlainError::Header { .. })));
    }
}
