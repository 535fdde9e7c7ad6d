//! The header of one safetensors file: "Which tensors does this file hold, and where?"
//!
//! May use: dtype, entry, error, limits. Invariants: the stated length is compared with the file and the limit before
//! anything is read by it; a key that stands twice refuses the header; a malformed entry is skipped with its reason;
//! every accepted range lies inside the file and touches no other; bytes that nobody claims are counted, not refused.

use super::dtype::Dtype;
use super::entry::{Any, EntryReading, Fields, TextMapReading};
use super::error::{EntryError, HeaderError};
use crate::limits;
use serde::de::{Deserializer, MapAccess, Visitor};
use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};
use std::fmt;
use std::ops::Range;

/// Bytes of the length that precedes a header.
pub const LENGTH_BYTES: u64 = 8;

/// Bytes to read before [`check_prefix`]: the length, and enough to know a Git LFS pointer.
pub const PREFIX_BYTES: usize = 64;

/// The reserved name of the strings that come with the tensors.
pub(super) const METADATA: &str = "__metadata__";
const LFS_SIGNATURE: &[u8] = b"version https://git-lfs.github.com/spec/";
/// The pointer format keeps its files below this many bytes.
const LFS_POINTER_BYTES: u64 = 1024;

/// How much of a header is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderLimits {
    /// Bytes of a header.
    pub header_bytes: u64,
    /// Bytes of a tensor's name.
    pub name_bytes: usize,
    /// Dimensions of a tensor.
    pub rank: usize,
}

impl Default for HeaderLimits {
    fn default() -> HeaderLimits {
        HeaderLimits {
            header_bytes: limits::MAX_HEADER_BYTES,
            name_bytes: limits::MAX_TENSOR_NAME_BYTES,
            rank: limits::MAX_TENSOR_RANK,
        }
    }
}

/// A sound entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tensor {
    /// Element type.
    pub dtype: Dtype,
    /// Dimensions, outermost first; none for a scalar.
    pub shape: Vec<u64>,
    /// Bytes of its data, from the end of the header.
    pub range: Range<u64>,
}

/// A skipped entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidEntry {
    /// Its name.
    pub key: String,
    /// Why it was skipped.
    pub reason: EntryError,
}

/// What one header says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HeaderReading {
    /// Bytes of the header itself, without its length.
    pub header_bytes: u64,
    /// The sound entries by name.
    pub tensors: BTreeMap<String, Tensor>,
    /// The strings of `__metadata__`; never tensors.
    pub metadata: BTreeMap<String, String>,
    /// The skipped entries, by name.
    pub invalid_entries: Vec<InvalidEntry>,
    /// Unclaimed bytes before the last claimed one.
    pub hole_bytes: u64,
    /// Unclaimed bytes after the last claimed one.
    pub trailing_bytes: u64,
}

/// The length of the header, from the first bytes of a file of `file_bytes` bytes.
///
/// `prefix` is the begin of the file, up to [`PREFIX_BYTES`] of it; eight bytes are enough for everything but the
/// certain recognition of a Git LFS pointer.
///
/// # Errors
/// [`HeaderError`] if the file is too short for the length, or the length fits neither the file nor the limit.
pub fn check_prefix(prefix: &[u8], file_bytes: u64, limits: &HeaderLimits) -> Result<u64, HeaderError> {
    if file_bytes == 0 {
        return Err(HeaderError::Empty);
    }
    let common = prefix.len().min(LFS_SIGNATURE.len());
    if common >= 8 && file_bytes < LFS_POINTER_BYTES && prefix.get(..common) == LFS_SIGNATURE.get(..common) {
        return Err(HeaderError::GitLfsPointer { file_bytes });
    }
    let Some(length) = prefix.first_chunk::<8>() else {
        let read = u64::try_from(prefix.len()).unwrap_or(u64::MAX);
        return Err(HeaderError::TooShort { file_bytes: file_bytes.min(read) });
    };
    let Some(room) = file_bytes.checked_sub(LENGTH_BYTES) else {
        return Err(HeaderError::TooShort { file_bytes });
    };
    let header_bytes = u64::from_le_bytes(*length);
    let limit = limits.header_bytes;
    if header_bytes > room {
        return Err(HeaderError::LongerThanFile { header_bytes, file_bytes, limit });
    }
    if header_bytes > limit {
        return Err(HeaderError::OverLimit { header_bytes, limit });
    }
    Ok(header_bytes)
}

/// Reads a header: `json` is exactly its bytes, `data_bytes` what follows it in the file.
///
/// # Errors
/// [`HeaderError`] if it is no JSON object or a key stands more than once. Malformed entries are no errors; they are
/// listed in [`HeaderReading::invalid_entries`].
pub fn read_header(json: &[u8], data_bytes: u64, limits: &HeaderLimits) -> Result<HeaderReading, HeaderError> {
    let header_bytes = u64::try_from(json.len()).unwrap_or(u64::MAX);
    if header_bytes > limits.header_bytes {
        return Err(HeaderError::OverLimit { header_bytes, limit: limits.header_bytes });
    }
    let text = std::str::from_utf8(json).map_err(|error| HeaderError::NotJson {
        offset: u64::try_from(error.valid_up_to()).unwrap_or(u64::MAX),
        reason: "bytes that are not UTF-8".to_owned(),
    })?;
    match first_kind(text) {
        None | Some("an object") => {}
        Some(found) => return Err(HeaderError::NotAnObject { found }),
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let raw = deserializer.deserialize_map(RawHeader::new(*limits)).and_then(|raw| deserializer.end().map(|()| raw));
    let raw = raw.map_err(|error| {
        let (offset, reason) = locate(text, &error);
        HeaderError::NotJson { offset, reason }
    })?;
    if !raw.repeated.is_empty() {
        return Err(HeaderError::DuplicateKeys { keys: raw.repeated.into_iter().collect() });
    }
    // No file can hold more; with this, absolute offsets never overflow.
    let room = u64::MAX.saturating_sub(LENGTH_BYTES).saturating_sub(header_bytes);
    Ok(raw.check(header_bytes, data_bytes.min(room)))
}

/// What kind of value a JSON text begins, by its first character; `None` if it begins none.
pub(super) fn first_kind(text: &str) -> Option<&'static str> {
    match text.trim_start_matches([' ', '\t', '\r', '\n']).bytes().next()? {
        b'{' => Some("an object"),
        b'[' => Some("a list"),
        b'"' => Some("text"),
        b'-' | b'0'..=b'9' => Some("a number"),
        b't' | b'f' => Some("a truth value"),
        b'n' => Some("null"),
        _ => None,
    }
}

/// The byte offset of a parser error, and its text without line and column.
pub(super) fn locate(text: &str, error: &serde_json::Error) -> (u64, String) {
    let lines_before = error.line().saturating_sub(1);
    let line_start: usize = text.split_inclusive('\n').take(lines_before).map(str::len).sum();
    let offset = line_start.saturating_add(error.column().saturating_sub(1)).min(text.len());
    let full = error.to_string();
    let reason = full.rsplit_once(" at line ").map_or(full.as_str(), |(reason, _)| reason);
    (u64::try_from(offset).unwrap_or(u64::MAX), reason.to_owned())
}

/// Everything a header holds, before any range is judged.
struct RawHeader {
    limits: HeaderLimits,
    entries: BTreeMap<String, Result<Fields, EntryError>>,
    metadata: BTreeMap<String, String>,
    repeated: BTreeSet<String>,
    invalid_entries: Vec<InvalidEntry>,
}

impl RawHeader {
    fn new(limits: HeaderLimits) -> RawHeader {
        RawHeader {
            limits,
            entries: BTreeMap::new(),
            metadata: BTreeMap::new(),
            repeated: BTreeSet::new(),
            invalid_entries: Vec::new(),
        }
    }

    fn refuse_metadata(&mut self, found: &'static str) {
        let reason = EntryError::Metadata { found };
        self.invalid_entries.push(InvalidEntry { key: METADATA.to_owned(), reason });
    }

    /// Turns claims into tensors and refusals.
    fn check(mut self, header_bytes: u64, data_bytes: u64) -> HeaderReading {
        let mut tensors = BTreeMap::new();
        let mut claims = Vec::new();
        for (key, fields) in std::mem::take(&mut self.entries) {
            match fields.and_then(|fields| check_entry(&fields, data_bytes, self.limits.rank, &mut claims)) {
                Ok(tensor) => {
                    tensors.insert(key, tensor);
                }
                Err(reason) => self.invalid_entries.push(InvalidEntry { key, reason }),
            }
        }
        let (hole_bytes, trailing_bytes) = unclaimed(claims, data_bytes);
        for (key, other) in overlapping(&tensors) {
            tensors.remove(&key);
            self.invalid_entries.push(InvalidEntry { key, reason: EntryError::Overlap { other } });
        }
        self.invalid_entries.sort_by(|left, right| left.key.cmp(&right.key));
        HeaderReading {
            header_bytes,
            tensors,
            metadata: self.metadata,
            invalid_entries: self.invalid_entries,
            hole_bytes,
            trailing_bytes,
        }
    }
}

impl<'de> Visitor<'de> for RawHeader {
    type Value = RawHeader;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<RawHeader, A::Error> {
        let mut metadata_seen = false;
        while let Some(key) = map.next_key::<String>()? {
            if key == METADATA {
                match map.next_value_seed(Any(TextMapReading))? {
                    Ok(map) if map.repeated.is_empty() => self.metadata = map.texts,
                    Ok(_) => self.refuse_metadata("an object with a repeated name"),
                    Err(found) => self.refuse_metadata(found),
                }
                if std::mem::replace(&mut metadata_seen, true) {
                    self.repeated.insert(key);
                }
                continue;
            }
            let mut fields = map.next_value_seed(Any(EntryReading { rank: self.limits.rank }))?;
            if key.len() > self.limits.name_bytes {
                let got = u64::try_from(key.len()).unwrap_or(u64::MAX);
                let limit = u64::try_from(self.limits.name_bytes).unwrap_or(u64::MAX);
                fields = Err(EntryError::NameTooLong { got, limit });
            }
            match self.entries.entry(key) {
                Entry::Vacant(free) => {
                    free.insert(fields);
                }
                Entry::Occupied(first) => {
                    self.repeated.insert(first.key().clone());
                }
            }
        }
        Ok(self)
    }
}

/// Judges one entry; a range inside the file is noted in `claims` even if the rest is malformed.
fn check_entry(fields: &Fields, data_bytes: u64, rank: usize, claims: &mut Vec<Range<u64>>) -> Result<Tensor, EntryError> {
    let range = fields.range();
    if let Ok((begin, end)) = range
        && end <= data_bytes
    {
        claims.push(begin..end);
    }
    let claim = fields.claim(rank)?;
    let (begin, end) = range?;
    let shape_bytes = claim.dtype.size_of(&claim.shape)?;
    if end > data_bytes {
        return Err(EntryError::OutsideFile { end, data_bytes });
    }
    let range_bytes = end.saturating_sub(begin);
    if shape_bytes != range_bytes {
        return Err(EntryError::SizeMismatch { shape_bytes, range_bytes });
    }
    Ok(Tensor { dtype: claim.dtype, shape: claim.shape, range: begin..end })
}

/// Every tensor that shares a byte with another, and one such other. Empty tensors share nothing.
fn overlapping(tensors: &BTreeMap<String, Tensor>) -> BTreeMap<String, String> {
    let mut order: Vec<(&Range<u64>, &String)> =
        tensors.iter().filter(|(_, tensor)| !tensor.range.is_empty()).map(|(key, tensor)| (&tensor.range, key)).collect();
    order.sort_by_key(|(range, key)| (range.start, range.end, *key));
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    let mut furthest: Option<(u64, &String)> = None;
    for (range, key) in order {
        if let Some((end, other)) = furthest
            && range.start < end
        {
            found.entry(key.clone()).or_insert_with(|| other.clone());
            found.entry(other.clone()).or_insert_with(|| key.clone());
        }
        if furthest.is_none_or(|(end, _)| range.end > end) {
            furthest = Some((range.end, key));
        }
    }
    found
}

/// Bytes before and after the last claimed byte that no range claims.
fn unclaimed(mut claims: Vec<Range<u64>>, data_bytes: u64) -> (u64, u64) {
    claims.retain(|range| !range.is_empty());
    claims.sort_by_key(|range| (range.start, range.end));
    let mut holes = 0_u64;
    let mut reached = 0_u64;
    for range in claims {
        holes = holes.saturating_add(range.start.saturating_sub(reached));
        reached = reached.max(range.end);
    }
    (holes, data_bytes.saturating_sub(reached))
}
