//! How does a checkpoint of that shape come to be? Generated in chunks by several threads, never whole in memory.
//!
//! May use: the shapes of this folder, [`crate::plain`] to recognise what is there already.
//!
//! Invariants: written under a temporary name and renamed when it is complete, so the final name never holds half a checkpoint; the
//! same width, type and seed give the same bytes whatever the number of threads; a file that this module did not make is never
//! replaced. A generated value is between 1/64 and 1/32 in size, either sign, never zero and never NaN.

use super::{Dtype, flux_shaped, total_bytes, width_for_scale};
use crate::plain::{PlainError, PlainFile};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Elements of one generated chunk; a seed of its own makes chunks independent.
const CHUNK_ELEMENTS: u64 = 1 << 20;
/// The most threads that generate; the disk is the limit beyond.
const MAX_THREADS: usize = 16;
/// Names the rules of this generator in the metadata; another number means other bytes.
const GENERATOR: &str = "flux_shaped 1";

/// Why a checkpoint was not made.
#[derive(Debug, thiserror::Error)]
pub enum FluxError {
    /// A file could not be written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The name is taken by something else.
    #[error("{}: this is not a generated flux_shaped checkpoint; it will not be replaced", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
    },
    /// A generated checkpoint could not be read back.
    #[error(transparent)]
    Read(#[from] PlainError),
    /// The header could not be formed.
    #[error("the header cannot be formed: {0}")]
    Header(#[from] serde_json::Error),
}

/// What [`make_checkpoint`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Made {
    /// Width of the model.
    pub width: usize,
    /// Bytes of its tensors.
    pub bytes: u64,
    /// The file was there already, with the same width, type and seed.
    pub reused: bool,
}

/// A run of elements to generate.
struct Chunk {
    seed: u64,
    offset: u64,
    bytes: usize,
}

/// Makes the checkpoint at `path`, or keeps the file that is there if its metadata and length say it is the same.
///
/// # Errors
/// `path` holds something else, or cannot be written.
///
/// # Cost
/// Writes the whole model: 9.97 GB times `scale` in BF16, twice that in F32. Memory: one chunk of at most 4 MiB a thread.
pub fn make_checkpoint(path: &Path, scale: f64, dtype: Dtype, seed: u64) -> Result<Made, FluxError> {
    let width = width_for_scale(scale);
    let made = Made { width, bytes: total_bytes(width, dtype), reused: false };
    let metadata = metadata(width, dtype, seed);
    let (header, chunks) = lay_out(width, dtype, seed, &metadata)?;
    let length = header.len() as u64 + made.bytes;
    if path.exists() {
        let found = PlainFile::open(path);
        let ours =
            found.as_ref().is_ok_and(|file| file.metadata().get("generator").is_some_and(|g| g.starts_with("flux_shaped ")));
        if !ours {
            return Err(FluxError::Foreign { path: path.into() });
        }
        let same_length = fs::metadata(path).is_ok_and(|file| file.len() == length);
        if found?.metadata() == &metadata && same_length {
            return Ok(Made { reused: true, ..made });
        }
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.tmp", std::process::id()));
    let temporary = path.with_file_name(name);
    let io = |source| FluxError::Io { path: temporary.clone(), source };
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).map_err(|source| FluxError::Io { path: folder.into(), source })?;
    }
    let written = write_all(&temporary, &header, length, &chunks, dtype).and_then(|()| fs::rename(&temporary, path));
    if written.is_err() {
        // What is left of it is useless; the first error is the one to report.
        let _ = fs::remove_file(&temporary);
    }
    written.map_err(io)?;
    Ok(made)
}

fn metadata(width: usize, dtype: Dtype, seed: u64) -> BTreeMap<String, String> {
    let pairs = [
        ("format", "pt".to_owned()),
        ("generator", GENERATOR.to_owned()),
        ("width", width.to_string()),
        ("scale", super::exact_scale(width).to_string()),
        ("dtype", dtype.name().to_owned()),
        ("seed", seed.to_string()),
    ];
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// The bytes before the data (length, JSON, padding to 8 bytes), and the chunks with their places in the file.
fn lay_out(
    width: usize,
    dtype: Dtype,
    seed: u64,
    metadata: &BTreeMap<String, String>,
) -> Result<(Vec<u8>, Vec<Chunk>), FluxError> {
    let mut entries = serde_json::Map::new();
    entries.insert("__metadata__".to_owned(), serde_json::to_value(metadata)?);
    let (mut chunks, mut at, mut index) = (Vec::new(), 0, 0u64);
    for unit in flux_shaped(width) {
        for tensor in &unit.tensors {
            let end = at + tensor.elements() * dtype.bytes();
            let entry = serde_json::json!({ "dtype": dtype.name(), "shape": tensor.shape, "data_offsets": [at, end] });
            entries.insert(format!("{}.{}", unit.name, tensor.name), entry);
            for (number, start) in (0..tensor.elements()).step_by(CHUNK_ELEMENTS as usize).enumerate() {
                let elements = CHUNK_ELEMENTS.min(tensor.elements() - start);
                let seed = mix(mix(seed ^ mix(index)) ^ number as u64);
                chunks.push(Chunk { seed, offset: at + start * dtype.bytes(), bytes: (elements * dtype.bytes()) as usize });
            }
            (at, index) = (end, index + 1);
        }
    }
    let mut json = serde_json::to_vec(&entries)?;
    json.resize(json.len().next_multiple_of(8), b' ');
    let header = [&(json.len() as u64).to_le_bytes()[..], &json].concat();
    chunks.iter_mut().for_each(|chunk| chunk.offset += header.len() as u64);
    Ok((header, chunks))
}

fn write_all(path: &Path, header: &[u8], length: u64, chunks: &[Chunk], dtype: Dtype) -> io::Result<()> {
    let mut file = File::create_new(path)?;
    file.set_len(length)?;
    file.write_all(header)?;
    let next = AtomicUsize::new(0);
    let work = || -> io::Result<()> {
        let mut file = File::options().write(true).open(path)?;
        let mut buffer = Vec::new();
        while let Some(chunk) = chunks.get(next.fetch_add(1, Ordering::Relaxed)) {
            generate(chunk, dtype, &mut buffer);
            file.seek(SeekFrom::Start(chunk.offset))?;
            file.write_all(&buffer)?;
        }
        Ok(())
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS).min(chunks.len());
    std::thread::scope(|scope| {
        let name = |i| std::thread::Builder::new().name(format!("flux-write-{i}"));
        let workers: Vec<_> = (0..threads).map(|i| name(i).spawn_scoped(scope, work)).collect::<io::Result<_>>()?;
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|_| Err(io::Error::other("a writing thread panicked"))))
    })?;
    file.sync_all()
}

/// Fills `buffer` with one chunk: random sign and mantissa under a fixed exponent, eight bytes at a time.
fn generate(chunk: &Chunk, dtype: Dtype, buffer: &mut Vec<u8>) {
    let (keep, exponent) = match dtype {
        Dtype::F32 => (0x807f_ffff_807f_ffff, 0x3c80_0000_3c80_0000),
        Dtype::Bf16 => (0x807f_807f_807f_807f, 0x3c80_3c80_3c80_3c80),
    };
    let mut rng = fastrand::Rng::with_seed(chunk.seed);
    buffer.resize(chunk.bytes, 0);
    for eight in buffer.as_chunks_mut::<8>().0 {
        let word: u64 = (rng.u64(..) & keep) | exponent;
        *eight = word.to_le_bytes();
    }
}

/// Spreads a small number over 64 bits (the finaliser of SplitMix64, Steele et al. 2014).
fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

#[cfg(test)]
#[allow(clippy::indexing_slicing)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("ddo-flux-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder for the test");
        folder
    }

    #[test]
    fn a_checkpoint_is_made_once_and_reads_back() {
        let folder = folder("once");
        let path = folder.join("model.safetensors");
        for dtype in [Dtype::F32, Dtype::Bf16] {
            let made = make_checkpoint(&path, 0.0005, dtype, 7).expect("made");
            assert!(!made.reused);
            assert!(make_checkpoint(&path, 0.0005, dtype, 7).expect("kept").reused);
            let bytes = fs::read(&path).expect("readable");
            let header = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
            assert_eq!((header % 8, bytes.len() as u64), (0, 8 + header + made.bytes));
            let mut file = PlainFile::open(&path).expect("a valid header");
            assert_eq!(file.entries().len(), 144);
            let shape = [made.width, 5 * made.width];
            let values = file.read_f32("single_transformer_blocks.15.proj_out.weight", &shape).expect("the last tensor");
            assert!(values.iter().all(|v| (1.0 / 64.0..=1.0 / 32.0).contains(&v.abs())));
            assert!(values.iter().any(|v| *v < 0.0) && values.iter().any(|v| *v > 0.0));
            assert!(!make_checkpoint(&path, 0.0005, dtype, 8).expect("another seed").reused);
            assert!(bytes != fs::read(&path).expect("readable"));
            assert!(!make_checkpoint(&path, 0.0005, dtype, 7).expect("the first seed").reused);
            assert!(bytes == fs::read(&path).expect("readable"), "the same seed gives the same bytes");
        }
        assert_eq!(fs::read_dir(&folder).expect("listed").count(), 1, "no temporary file is left");
    }

    #[test]
    fn a_foreign_or_broken_file_is_not_replaced() {
        let path = folder("foreign").join("model.safetensors");
        fs::write(&path, "precious").expect("written");
        let error = make_checkpoint(&path, 0.0001, Dtype::F32, 1).expect_err("not ours");
        assert!(error.to_string().ends_with("it will not be replaced"), "{error}");
        assert_eq!(fs::read(&path).expect("still there"), b"precious");
    }
}
