//! What must a device's folds give? Computed from plain reads on the host, past the runtime.
//!
//! May use: the standard library, [`crate::plain`], the shapes, the recorder's host version of the fold.
//!
//! Invariants: never touches the runtime's sources or drivers; parts of a tensor are folded by several threads, since the order
//! of a wrapping sum does not matter.

use crate::flux::flux_shaped;
use crate::plain::{PlainError, PlainFile};
use ddo_recorder::driver::cuda::compute::fold_bytes;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Bytes that one thread reads and folds at a time; a multiple of the fold's 8-byte words.
const PART_BYTES: u64 = 4 << 20;
/// The most threads that fold.
const MAX_THREADS: usize = 16;

/// A part of a tensor: which tensor, which word of it comes first, where it lies.
struct Part {
    tensor: usize,
    first_word: u64,
    offset: u64,
    bytes: usize,
}

/// The fold of every tensor of a checkpoint of this width, in execution order; a tensor's number is its seed.
///
/// # Errors
/// The file cannot be read or lacks a tensor.
///
/// # Cost
/// Reads the whole file once.
pub fn expected_folds(weights: &Path, width: usize) -> Result<Vec<u64>, PlainError> {
    let plain = PlainFile::open(weights)?;
    let names = flux_shaped(width).into_iter().flat_map(|unit| {
        let path = move |tensor: crate::flux::FluxTensor| format!("{}.{}", unit.name, tensor.name);
        unit.tensors.into_iter().map(path)
    });
    let places = names.map(|name| plain.place(&name)).collect::<Result<Vec<_>, _>>()?;
    let mut parts = Vec::new();
    for (tensor, (start, bytes)) in places.iter().enumerate() {
        for at in (0..*bytes).step_by(PART_BYTES as usize) {
            let length = PART_BYTES.min(bytes - at) as usize;
            parts.push(Part { tensor, first_word: at / 8, offset: start + at, bytes: length });
        }
    }
    let sums: Vec<AtomicU64> = places.iter().map(|_| AtomicU64::new(0)).collect();
    fold_parts(weights, &parts, &sums).map_err(|source| PlainError::Io { path: weights.into(), source })?;
    Ok(sums.into_iter().map(AtomicU64::into_inner).collect())
}

fn fold_parts(weights: &Path, parts: &[Part], sums: &[AtomicU64]) -> io::Result<()> {
    let file = File::open(weights)?;
    let next = AtomicUsize::new(0);
    let work = || -> io::Result<()> {
        let mut buffer = Vec::new();
        while let Some(part) = parts.get(next.fetch_add(1, Ordering::Relaxed)) {
            buffer.resize(part.bytes, 0);
            file.read_exact_at(&mut buffer, part.offset)?;
            if let Some(sum) = sums.get(part.tensor) {
                // Atomic addition wraps, as the fold's sum does.
                sum.fetch_add(fold_bytes(&buffer, part.first_word, part.tensor as u64), Ordering::Relaxed);
            }
        }
        Ok(())
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(MAX_THREADS);
    std::thread::scope(|scope| {
        let name = |i| std::thread::Builder::new().name(format!("expected-fold-{i}"));
        let workers: Vec<_> = (0..threads).map(|i| name(i).spawn_scoped(scope, work)).collect::<io::Result<_>>()?;
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|_| Err(io::Error::other("a folding thread panicked"))))
    })
}

#[cfg(test)]
#[allow(clippy::indexing_slicing)]
mod tests {
    use super::*;
    use crate::flux::{Dtype, make_checkpoint};

    #[test]
    fn folds_by_parts_equal_folds_of_whole_tensors() {
        let path = std::env::temp_dir().join(format!("ddo-expected-{}.safetensors", std::process::id()));
        let made = make_checkpoint(&path, 0.002, Dtype::Bf16, 3).expect("made");
        let folds = expected_folds(&path, made.width).expect("folded");
        let (plain, file) = (PlainFile::open(&path).expect("opened"), std::fs::read(&path).expect("read"));
        assert_eq!(folds.len(), 144);
        let whole = |name: &str, seed| {
            let (start, bytes) = plain.place(name).expect("there");
            fold_bytes(&file[start as usize..(start + bytes) as usize], 0, seed)
        };
        assert_eq!(folds[0], whole("transformer_blocks.0.norm1.linear.weight", 0));
        assert_eq!(folds[143], whole("single_transformer_blocks.15.proj_out.weight", 143));
        std::fs::remove_file(&path).expect("removed");
    }
}
