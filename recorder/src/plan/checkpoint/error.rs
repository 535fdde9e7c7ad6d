//! What can be wrong with a checkpoint: "Is it the file, one entry, or our own limit?"
//!
//! May use: dtype. Invariants: a [`HeaderError`] makes a file invalid (a repeated key refuses the whole set), an
//! [`EntryError`] costs one entry only; each message names the thing, the value and the limit; `code()` is stable.

use super::dtype::{SizeError, UnknownDtype};
use super::shorten;

/// Why no header could be read from a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum HeaderError {
    /// The file could not be read at all.
    #[error("the file cannot be read: {reason}")]
    Unreadable {
        /// What the operating system said.
        reason: String,
    },
    /// The file holds nothing.
    #[error("the file is empty")]
    Empty,
    /// The file cannot even hold the length of its header.
    #[error("the file has {file_bytes} bytes, fewer than the 8 of a header length")]
    TooShort {
        /// Bytes in the file.
        file_bytes: u64,
    },
    /// The text that stands for a file in a repository that was copied without its large files.
    #[error("the file looks like a Git LFS pointer of {file_bytes} bytes; fetch the real file (git lfs pull)")]
    GitLfsPointer {
        /// Bytes in the file.
        file_bytes: u64,
    },
    /// The stated header reaches past the end of the file: damaged or cut short.
    #[error("the stated header of {header_bytes} bytes is longer than the file, {file_bytes} bytes{}", also_over(*header_bytes, *limit))]
    LongerThanFile {
        /// The stated length.
        header_bytes: u64,
        /// Bytes in the file.
        file_bytes: u64,
        /// The most that would be read.
        limit: u64,
    },
    /// The file may be sound, but its header is larger than what is read here.
    #[error("the header of {header_bytes} bytes is over our limit of {limit} bytes")]
    OverLimit {
        /// The stated length.
        header_bytes: u64,
        /// The most that is read.
        limit: u64,
    },
    /// The header is no JSON text.
    #[error("the header is not JSON: {reason} at header byte {offset}")]
    NotJson {
        /// Where in the header, from 0.
        offset: u64,
        /// What the parser met.
        reason: String,
    },
    /// The header is JSON, but no object.
    #[error("the header is {found}, not a JSON object")]
    NotAnObject {
        /// What it is instead.
        found: &'static str,
    },
    /// Names that stand more than once in the header; none of them can be trusted.
    #[error("duplicate key in one header: {}", list(keys))]
    DuplicateKeys {
        /// The repeated names, sorted.
        keys: Vec<String>,
    },
}

impl HeaderError {
    /// The stable identifier.
    pub fn code(&self) -> &'static str {
        match self {
            HeaderError::Unreadable { .. } => "checkpoint_file_unreadable",
            HeaderError::Empty => "checkpoint_file_empty",
            HeaderError::TooShort { .. } => "checkpoint_file_too_short",
            HeaderError::GitLfsPointer { .. } => "checkpoint_git_lfs_pointer",
            HeaderError::LongerThanFile { .. } => "checkpoint_header_longer_than_file",
            HeaderError::OverLimit { .. } => "checkpoint_header_over_limit",
            HeaderError::NotJson { .. } => "checkpoint_header_not_json",
            HeaderError::NotAnObject { .. } => "checkpoint_header_not_object",
            HeaderError::DuplicateKeys { .. } => "checkpoint_header_duplicate_key",
        }
    }
}

/// Why one entry of a header was skipped.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum EntryError {
    /// The value is no object.
    #[error("the entry is {found}, not an object")]
    NotAnObject {
        /// What it is instead.
        found: &'static str,
    },
    /// `dtype`, `shape` or `data_offsets` is absent.
    #[error("{field} is absent")]
    Absent {
        /// The field.
        field: &'static str,
    },
    /// A field stands twice in one entry.
    #[error("{field} stands more than once")]
    Repeated {
        /// The field.
        field: &'static str,
    },
    /// A field holds the wrong kind of value.
    #[error("{field} holds {found}, not {wanted}")]
    WrongKind {
        /// The field.
        field: &'static str,
        /// What it holds.
        found: &'static str,
        /// What belongs there.
        wanted: &'static str,
    },
    /// A number that is negative, fractional or over 2^64-1.
    #[error("{field} holds {value}, not a whole number from 0 to 2^64-1")]
    BadNumber {
        /// The field.
        field: &'static str,
        /// The number as text.
        value: String,
    },
    /// A list with too many or too few numbers.
    #[error("{field} holds {got} numbers, the limit is {limit}")]
    BadCount {
        /// The field.
        field: &'static str,
        /// Numbers found.
        got: u64,
        /// Numbers allowed.
        limit: u64,
    },
    /// The element type is not known.
    #[error(transparent)]
    Dtype(#[from] UnknownDtype),
    /// The shape has no size.
    #[error(transparent)]
    Size(#[from] SizeError),
    /// The range is turned round.
    #[error("data_offsets begin {begin} is after end {end}")]
    Reversed {
        /// Begin of the range.
        begin: u64,
        /// End of the range.
        end: u64,
    },
    /// The range leaves the file.
    #[error("data_offsets end {end} is past the {data_bytes} bytes of data in the file")]
    OutsideFile {
        /// End of the range.
        end: u64,
        /// Bytes of data.
        data_bytes: u64,
    },
    /// The shape and the range disagree.
    #[error("dtype and shape need {shape_bytes} bytes, data_offsets span {range_bytes}")]
    SizeMismatch {
        /// What dtype and shape need.
        shape_bytes: u64,
        /// What the range spans.
        range_bytes: u64,
    },
    /// The bytes are claimed by another name as well.
    #[error("the range overlaps the one of {:?}", shorten(other))]
    Overlap {
        /// The other name.
        other: String,
    },
    /// A name that is longer than what is kept.
    #[error("the name has {got} bytes, the limit is {limit}")]
    NameTooLong {
        /// Bytes of the name.
        got: u64,
        /// The limit.
        limit: u64,
    },
    /// `__metadata__` is reserved for a map of strings.
    #[error("the reserved name __metadata__ holds {found}, not an object of distinct names with text values")]
    Metadata {
        /// What it holds.
        found: &'static str,
    },
}

impl EntryError {
    /// The stable identifier.
    pub fn code(&self) -> &'static str {
        match self {
            EntryError::NotAnObject { .. } => "checkpoint_entry_not_object",
            EntryError::Absent { .. } => "checkpoint_entry_field_absent",
            EntryError::Repeated { .. } => "checkpoint_entry_field_repeated",
            EntryError::WrongKind { .. } => "checkpoint_entry_field_kind",
            EntryError::BadNumber { .. } => "checkpoint_entry_bad_number",
            EntryError::BadCount { .. } => "checkpoint_entry_bad_count",
            EntryError::Dtype(_) => "checkpoint_entry_unknown_dtype",
            EntryError::Size(SizeError::Overflow) => "checkpoint_entry_size_overflow",
            EntryError::Size(SizeError::PartialByte { .. }) => "checkpoint_entry_partial_byte",
            EntryError::Reversed { .. } => "checkpoint_entry_range_reversed",
            EntryError::OutsideFile { .. } => "checkpoint_entry_outside_file",
            EntryError::SizeMismatch { .. } => "checkpoint_entry_size_mismatch",
            EntryError::Overlap { .. } => "checkpoint_entry_overlap",
            EntryError::NameTooLong { .. } => "checkpoint_entry_name_too_long",
            EntryError::Metadata { .. } => "checkpoint_entry_metadata",
        }
    }
}

/// Why an index of shards was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The index is larger than what is read here.
    #[error("the index of {index_bytes} bytes is over our limit of {limit} bytes")]
    OverLimit {
        /// Bytes of the index.
        index_bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// The index is no JSON text.
    #[error("the index is not JSON: {reason} at byte {offset}")]
    NotJson {
        /// Where, from 0.
        offset: u64,
        /// What the parser met.
        reason: String,
    },
    /// The index has no `weight_map`, or one that maps no names to file names.
    #[error("weight_map of the index is {found}, not an object of names with file names")]
    NoWeightMap {
        /// What stands there.
        found: &'static str,
    },
    /// Names that the index lists more than once.
    #[error("duplicate key in the index: {}", list(keys))]
    DuplicateKeys {
        /// The repeated names, sorted.
        keys: Vec<String>,
    },
    /// A shard that is no plain file name; it is never followed.
    #[error(
        "the index names the shard {:?} for {:?}; only plain file names of the same folder are read",
        shorten(path),
        shorten(key)
    )]
    PathRefused {
        /// The tensor.
        key: String,
        /// The path.
        path: String,
    },
}

impl IndexError {
    /// The stable identifier.
    pub fn code(&self) -> &'static str {
        match self {
            IndexError::OverLimit { .. } => "checkpoint_index_over_limit",
            IndexError::NotJson { .. } => "checkpoint_index_not_json",
            IndexError::NoWeightMap { .. } => "checkpoint_index_no_weight_map",
            IndexError::DuplicateKeys { .. } => "checkpoint_index_duplicate_key",
            IndexError::PathRefused { .. } => "checkpoint_index_path_refused",
        }
    }
}

fn also_over(header_bytes: u64, limit: u64) -> String {
    if header_bytes > limit { format!(" (and over our limit of {limit} bytes)") } else { String::new() }
}

/// The first names of a list, quoted, and how many more there are.
pub(super) fn list(keys: &[String]) -> String {
    const SHOWN: usize = 16;
    let shown: Vec<String> = keys.iter().take(SHOWN).map(|key| format!("{:?}", shorten(key))).collect();
    let more = keys.len().saturating_sub(SHOWN);
    let tail = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!("{}{tail}", shown.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_name_value_and_limit() {
        let error = HeaderError::OverLimit { header_bytes: 132_095_296, limit: 100_000_000 };
        assert_eq!(error.to_string(), "the header of 132095296 bytes is over our limit of 100000000 bytes");
        let error = HeaderError::LongerThanFile { header_bytes: 255, file_bytes: 16, limit: 100 };
        assert!(error.to_string().ends_with("longer than the file, 16 bytes (and over our limit of 100 bytes)"));
        let error = HeaderError::LongerThanFile { header_bytes: 255, file_bytes: 16, limit: 1000 };
        assert!(!error.to_string().contains("limit"));
    }

    #[test]
    fn a_long_list_of_names_is_cut_with_a_count() {
        let keys: Vec<String> = (0..20).map(|number| format!("k{number:02}")).collect();
        let text = list(&keys);
        assert!(text.starts_with("\"k00\", \"k01\"") && text.ends_with("\"k15\" and 4 more"), "{text}");
    }
}
