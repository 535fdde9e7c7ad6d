//! Checkpoint keys to byte ranges: "Where in which file does each tensor lie, and can that be trusted?"
//!
//! May use: schemas, limits. Invariants: bytes and values in, values out - no file is opened and no path is
//! followed here; nothing is allocated by a stated size before that size was checked; a tensor is located only if
//! its entry is sound, its bytes are its own and its key is the only one of that name in the set; nothing is guessed
//! and no first or last of several wins. A malformed entry costs that entry alone.
//!
//! A caller reads [`PREFIX_BYTES`] of a file, asks [`check_prefix`] for the header's length, reads that many bytes
//! after the first eight, gives them to [`read_header`], and all files together to [`CheckpointSet::assemble`].

mod dtype;
mod entry;
mod error;
mod header;
mod index;
mod set;

#[cfg(test)]
mod header_tests;
#[cfg(test)]
mod set_tests;

pub use dtype::{ALL_DTYPES, Dtype, SizeError, UnknownDtype};
pub use error::{EntryError, HeaderError, IndexError};
pub use header::{HeaderLimits, HeaderReading, InvalidEntry, LENGTH_BYTES, PREFIX_BYTES, Tensor, check_prefix, read_header};
pub use index::{ShardIndex, read_index};
pub use set::{CheckpointSet, CheckpointSummary, Located, MissingCause, MissingKey, Resolver, ShardFile};

/// A name cut to a length that fits a message.
fn shorten(name: &str) -> String {
    const SHOWN: usize = 120;
    match name.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}...", name.get(..at).unwrap_or(name)),
        None => name.to_owned(),
    }
}
