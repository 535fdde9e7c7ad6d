//! All files of a checkpoint together: "Which keys can be bound, from where, and what is missing?"
//!
//! May use: schemas (findings), limits, the other files of this folder. Invariants: a key in more than one file, or
//! twice in one header, refuses the whole set, whatever the bytes and whatever the order of the files; nothing is
//! available from a refused set; an absent shard and a key absent from its shard are told apart; `complete` is never
//! said of a set with anything missing, skipped or contradicted.

use super::dtype::Dtype;
use super::error::{EntryError, HeaderError, IndexError};
use super::header::{HeaderReading, LENGTH_BYTES, METADATA, Tensor};
use super::index::ShardIndex;
use super::shorten;
use crate::limits::MAX_CHECKPOINT_NOTES;
use ddo_schemas::Finding;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::ops::Range;

/// One file of a checkpoint, as far as its header could be read.
#[derive(Clone, Debug)]
pub struct ShardFile {
    /// The plain file name, as an index would name it.
    pub name: String,
    /// Its header.
    pub header: Result<HeaderReading, HeaderError>,
}

/// Where a tensor lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    /// Position of its file in the list that was assembled.
    pub file: usize,
    /// Bytes in that file, counted from the file's begin.
    pub range: Range<u64>,
    /// Element type.
    pub dtype: Dtype,
    /// Dimensions, outermost first; none for a scalar.
    pub shape: Vec<u64>,
}

/// Why a key of the index is not available.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum MissingCause {
    /// The shard that the index names is not there.
    ShardAbsent,
    /// The shard is there, but its header is unreadable.
    ShardInvalid,
    /// The shard is sound and does not hold the key.
    NotInShard,
    /// The shard lists the key, but the entry is malformed.
    EntryInvalid,
}

/// A key that the index promises and no file keeps.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct MissingKey {
    /// The key.
    pub key: String,
    /// The shard that the index names.
    pub shard: String,
    /// Why it is missing.
    pub cause: MissingCause,
}

impl fmt::Display for MissingKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = match self.cause {
            MissingCause::ShardAbsent => "the file is absent",
            MissingCause::ShardInvalid => "its header is unreadable",
            MissingCause::NotInShard => "the file does not hold it",
            MissingCause::EntryInvalid => "its entry is malformed",
        };
        write!(f, "{:?} is missing from {:?}: {cause}", shorten(&self.key), shorten(&self.shard))
    }
}

/// What could be used to associate parameters with the checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Resolver {
    /// Parameter names are checkpoint keys.
    ExactNames,
    /// No sound entry was found, or the whole set was refused.
    NoValidSourceMetadata,
    /// A requested entry is packed or a scale factor and needs its quantisation scheme.
    UnsupportedQuantizedPayload,
}

impl Resolver {
    /// The label of the report.
    pub const fn label(self) -> &'static str {
        match self {
            Resolver::ExactNames => "exact_names",
            Resolver::NoValidSourceMetadata => "no_valid_source_metadata",
            Resolver::UnsupportedQuantizedPayload => "unsupported_quantized_payload",
        }
    }
}

/// The counts and remarks about a set; equal for every order of the same files, apart from file names.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CheckpointSummary {
    /// Keys that can be bound; zero for a refused set.
    pub available: u64,
    /// Files without a readable header.
    pub invalid_files: u64,
    /// Entries that were skipped, and keys that stand twice in one header.
    pub invalid_entries: u64,
    /// Keys in more than one file.
    pub ambiguous_key_count: u64,
    /// True if nothing is available because a key is not unique.
    pub refused: bool,
    /// Keys that the index promises and no file keeps, sorted; empty for a refused set.
    pub missing: Vec<MissingKey>,
    /// True if every file and entry was sound and the index, where there is one, was kept.
    pub complete: bool,
    /// What was noticed, file by file in the order of names; a long list ends with a count.
    pub notes: Vec<Finding>,
}

/// A checkpoint's keys and their places.
#[derive(Clone, Debug, Default)]
pub struct CheckpointSet {
    located: BTreeMap<String, Located>,
    names: Vec<String>,
    metadata: Vec<BTreeMap<String, String>>,
    summary: CheckpointSummary,
}

impl CheckpointSet {
    /// Puts files together; `index` is the parsed index where the folder has one, or why it was refused.
    pub fn assemble(files: Vec<ShardFile>, index: Option<Result<ShardIndex, IndexError>>) -> CheckpointSet {
        let mut work = Assembly::default();
        let mut order: Vec<&ShardFile> = files.iter().collect();
        order.sort_by(|left, right| left.name.cmp(&right.name));
        for file in &order {
            work.take_file(file);
        }
        work.refuse_ambiguous(&order);
        match index {
            None => {}
            Some(Err(error)) => {
                work.contradicted = true;
                work.note(Finding::warning(error.code(), "index", error.to_string()));
            }
            Some(Ok(_)) if work.summary.refused => {}
            Some(Ok(index)) => work.compare_index(&order, &index),
        }
        drop(order);
        work.finish(files)
    }

    /// Where a key lies; `None` for a key that cannot be bound.
    pub fn get(&self, key: &str) -> Option<&Located> {
        self.located.get(key)
    }

    /// Every key that can be bound, sorted.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Located)> {
        self.located.iter().map(|(key, place)| (key.as_str(), place))
    }

    /// The file names, in the order of [`Located::file`].
    pub fn file_names(&self) -> &[String] {
        &self.names
    }

    /// The `__metadata__` strings of a file; they may name aliases, and nothing is resolved by them.
    pub fn metadata(&self, file: usize) -> Option<&BTreeMap<String, String>> {
        self.metadata.get(file)
    }

    /// Counts and remarks.
    pub fn summary(&self) -> &CheckpointSummary {
        &self.summary
    }

    /// How the requested keys can be associated; keys that are not available are the caller's missing groups.
    pub fn resolver<'a>(&self, requests: impl IntoIterator<Item = &'a str>) -> Resolver {
        if self.located.is_empty() {
            return Resolver::NoValidSourceMetadata;
        }
        let packed = |key: &str| self.get(key).is_some_and(|place| place.dtype.is_quantized_payload());
        if requests.into_iter().any(packed) { Resolver::UnsupportedQuantizedPayload } else { Resolver::ExactNames }
    }
}

#[derive(Default)]
struct Assembly {
    summary: CheckpointSummary,
    unlisted_notes: u64,
    contradicted: bool,
}

impl Assembly {
    fn note(&mut self, finding: Finding) {
        if self.summary.notes.len() < MAX_CHECKPOINT_NOTES {
            self.summary.notes.push(finding);
        } else {
            self.unlisted_notes = self.unlisted_notes.saturating_add(1);
        }
    }

    fn take_file(&mut self, file: &ShardFile) {
        let name = file.name.as_str();
        match &file.header {
            Err(error @ HeaderError::DuplicateKeys { keys }) => {
                self.summary.refused = true;
                self.summary.invalid_entries += size(keys.len());
                let text = format!("{error}; the whole set is refused");
                self.note(Finding::error(error.code(), name, text));
            }
            Err(error) => {
                self.summary.invalid_files += 1;
                self.note(Finding::error(error.code(), name, error.to_string()));
            }
            Ok(header) => self.take_header(name, header),
        }
    }

    fn take_header(&mut self, name: &str, header: &HeaderReading) {
        self.summary.invalid_entries += size(header.invalid_entries.len());
        for entry in &header.invalid_entries {
            let text = match &entry.reason {
                reason @ EntryError::Metadata { .. } => reason.to_string(),
                reason => format!("entry {:?} skipped: {reason}", shorten(&entry.key)),
            };
            self.note(Finding::warning(entry.reason.code(), name, text));
        }
        if header.hole_bytes > 0 {
            let text = format!("{} bytes between the tensors belong to none", header.hole_bytes);
            self.note(Finding::note("checkpoint_hole", name, text));
        }
        if header.trailing_bytes > 0 {
            let text = format!("{} bytes after the last tensor belong to none", header.trailing_bytes);
            self.note(Finding::note("checkpoint_trailing_bytes", name, text));
        }
    }

    /// A key that more than one header lists, soundly or not, refuses everything.
    fn refuse_ambiguous(&mut self, order: &[&ShardFile]) {
        let mut seen: HashMap<&str, u64> = HashMap::new();
        for header in order.iter().filter_map(|file| file.header.as_ref().ok()) {
            for key in listed_keys(header) {
                *seen.entry(key).or_default() += 1;
            }
        }
        let mut ambiguous: Vec<String> =
            seen.into_iter().filter(|(_, files)| *files > 1).map(|(key, _)| key.to_owned()).collect();
        if ambiguous.is_empty() {
            return;
        }
        ambiguous.sort();
        self.summary.refused = true;
        self.summary.ambiguous_key_count = size(ambiguous.len());
        let lists_one = |file: &&&ShardFile| {
            let keys = file.header.as_ref().ok().map(listed_keys);
            keys.is_some_and(|mut keys| keys.any(|key| ambiguous.binary_search_by(|known| known.as_str().cmp(key)).is_ok()))
        };
        let places: Vec<String> = order.iter().filter(lists_one).map(|file| shorten(&file.name)).collect();
        let text = format!("duplicate key across files: {}; the whole set is refused", super::error::list(&ambiguous));
        self.note(Finding::error("checkpoint_ambiguous_key", places.join(", "), text));
    }

    fn compare_index(&mut self, order: &[&ShardFile], index: &ShardIndex) {
        let headers: HashMap<&str, Result<&HeaderReading, &HeaderError>> =
            order.iter().map(|file| (file.name.as_str(), file.header.as_ref())).collect();
        let mut holders: HashMap<&str, &str> = HashMap::new();
        for (name, header) in &headers {
            holders.extend(header.iter().flat_map(|header| header.tensors.keys()).map(|key| (key.as_str(), *name)));
        }
        for (key, shard) in &index.weight_map {
            match holders.get(key.as_str()) {
                Some(holder) if *holder == shard.as_str() => {}
                Some(holder) => {
                    self.contradicted = true;
                    let text = format!("{:?} lies in {holder:?}, the index says {shard:?}", shorten(key));
                    self.note(Finding::warning("checkpoint_index_other_shard", "index", text));
                }
                None => {
                    let cause = missing_cause(headers.get(shard.as_str()).copied(), key);
                    let missing = MissingKey { key: key.clone(), shard: shard.clone(), cause };
                    self.note(Finding::warning("checkpoint_key_missing", "index", missing.to_string()));
                    self.summary.missing.push(missing);
                }
            }
        }
        let unlisted = holders.keys().filter(|key| !index.weight_map.contains_key(**key)).count();
        if unlisted > 0 {
            let text = format!("{unlisted} keys of the files are not in the index");
            self.note(Finding::note("checkpoint_index_unlisted_keys", "index", text));
        }
        let sound = headers.values().filter_map(|header| header.ok());
        let tensors = sound.flat_map(|header| header.tensors.values());
        let real = tensors.map(tensor_bytes).fold(0_u64, u64::saturating_add);
        if let Some(stated) = index.total_size.filter(|stated| *stated != real) {
            let text = format!("the index states {stated} bytes in total, the sound entries have {real}");
            self.note(Finding::warning("checkpoint_index_total_size", "index", text));
        }
    }

    fn finish(mut self, files: Vec<ShardFile>) -> CheckpointSet {
        if self.unlisted_notes > 0 {
            let text = format!("{} more remarks are counted but not listed", self.unlisted_notes);
            self.summary.notes.push(Finding::note("checkpoint_more_notes", "checkpoint", text));
        }
        let mut set = CheckpointSet::default();
        for (file, shard) in files.into_iter().enumerate() {
            let header = shard.header.unwrap_or_default();
            set.names.push(shard.name);
            set.metadata.push(header.metadata);
            if self.summary.refused {
                continue;
            }
            let data_begin = LENGTH_BYTES.saturating_add(header.header_bytes);
            for (key, tensor) in header.tensors {
                set.located.insert(key, locate(file, data_begin, tensor));
            }
        }
        let summary = &mut self.summary;
        summary.available = size(set.located.len());
        let sound = !summary.refused && summary.invalid_files == 0 && summary.invalid_entries == 0;
        summary.complete = sound && !self.contradicted && summary.missing.is_empty() && !set.names.is_empty();
        set.summary = self.summary;
        set
    }
}

fn locate(file: usize, data_begin: u64, tensor: Tensor) -> Located {
    let begin = data_begin.saturating_add(tensor.range.start);
    let end = data_begin.saturating_add(tensor.range.end);
    Located { file, range: begin..end, dtype: tensor.dtype, shape: tensor.shape }
}

/// Every tensor name of a header once, sound or not.
fn listed_keys(header: &HeaderReading) -> impl Iterator<Item = &str> {
    let invalid: BTreeSet<&str> = header.invalid_entries.iter().map(|entry| entry.key.as_str()).collect();
    header.tensors.keys().map(String::as_str).chain(invalid).filter(|key| *key != METADATA)
}

fn missing_cause(header: Option<Result<&HeaderReading, &HeaderError>>, key: &str) -> MissingCause {
    match header {
        None => MissingCause::ShardAbsent,
        Some(Err(_)) => MissingCause::ShardInvalid,
        Some(Ok(header)) => {
            let found = header.invalid_entries.binary_search_by(|entry| entry.key.as_str().cmp(key));
            if found.is_ok() { MissingCause::EntryInvalid } else { MissingCause::NotInShard }
        }
    }
}

fn tensor_bytes(tensor: &Tensor) -> u64 {
    tensor.range.end.saturating_sub(tensor.range.start)
}

fn size(count: usize) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
