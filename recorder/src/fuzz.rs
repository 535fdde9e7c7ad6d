//! Broken input on purpose: "Does any sequence of bytes stop the reader of checkpoints, or make it locate a tensor outside its file?"
//!
//! May use `plan`; nothing of the product uses it. Invariant: touches no file.

use crate::limits::MAX_INDEX_BYTES;
use crate::plan::checkpoint::{
    CheckpointSet, HeaderError, HeaderLimits, HeaderReading, LENGTH_BYTES, PREFIX_BYTES, ShardFile, check_prefix, read_header,
    read_index,
};

/// Reads bytes as a checkpoint file and as an index, and assembles both.
///
/// # Errors
/// Where an accepted tensor lies outside its file.
pub fn checkpoint(bytes: &[u8]) -> Result<(), String> {
    let header = header_of(bytes);
    if let (Ok(reading), Some(data_bytes)) = (&header, data_bytes(bytes)) {
        let outside =
            reading.tensors.iter().find(|(_, tensor)| tensor.range.start > tensor.range.end || tensor.range.end > data_bytes);
        if let Some((name, tensor)) = outside {
            return Err(format!("{name:?} was located at {:?} in {data_bytes} bytes of data", tensor.range));
        }
    }
    let file = |name: &str| ShardFile { name: name.into(), header: header_of(bytes) };
    let index = read_index(bytes, MAX_INDEX_BYTES);
    for index in [None, Some(index)] {
        let _ = CheckpointSet::assemble(vec![file("a.safetensors"), file("b.safetensors")], index);
    }
    Ok(())
}

fn header_of(bytes: &[u8]) -> Result<HeaderReading, HeaderError> {
    let limits = HeaderLimits::default();
    let length = check_prefix(bytes.get(..PREFIX_BYTES).unwrap_or(bytes), bytes.len() as u64, &limits)?;
    let start = LENGTH_BYTES as usize;
    let end = start.saturating_add(usize::try_from(length).unwrap_or(usize::MAX));
    let json = bytes.get(start..end).unwrap_or_default();
    read_header(json, (bytes.len() as u64).saturating_sub(LENGTH_BYTES).saturating_sub(length), &limits)
}

/// Bytes after the header.
fn data_bytes(bytes: &[u8]) -> Option<u64> {
    let length = u64::from_le_bytes(bytes.get(..LENGTH_BYTES as usize)?.try_into().ok()?);
    (bytes.len() as u64).checked_sub(LENGTH_BYTES)?.checked_sub(length)
}
