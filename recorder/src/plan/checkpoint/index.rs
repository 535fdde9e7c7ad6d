//! The index of a sharded checkpoint: "Which file is said to hold which tensor?"
//!
//! May use: entry, error, header. Invariants: the index is a claim that headers confirm, never a source of offsets;
//! a shard is a plain file name of the same folder or the whole index is refused; it never chooses between two files.

use super::entry::{Any, Field, Plain, Reading, TextMap, TextMapReading};
use super::error::IndexError;
use super::header::{first_kind, locate};
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// What an index says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ShardIndex {
    /// File name by tensor name.
    pub weight_map: BTreeMap<String, String>,
    /// Bytes of all tensors together, where a whole number is stated.
    pub total_size: Option<u64>,
}

impl ShardIndex {
    /// The file names, each once, sorted. All are plain names.
    pub fn shards(&self) -> BTreeSet<&str> {
        self.weight_map.values().map(String::as_str).collect()
    }
}

/// Reads an index of at most `limit` bytes.
///
/// # Errors
/// [`IndexError`] if it is too large, no JSON, has no map of names to file names, lists a name twice, or names a
/// shard by anything but a plain file name.
pub fn read_index(json: &[u8], limit: u64) -> Result<ShardIndex, IndexError> {
    let index_bytes = u64::try_from(json.len()).unwrap_or(u64::MAX);
    if index_bytes > limit {
        return Err(IndexError::OverLimit { index_bytes, limit });
    }
    let text = std::str::from_utf8(json).map_err(|error| IndexError::NotJson {
        offset: u64::try_from(error.valid_up_to()).unwrap_or(u64::MAX),
        reason: "bytes that are not UTF-8".to_owned(),
    })?;
    match first_kind(text) {
        None | Some("an object") => {}
        Some(found) => return Err(IndexError::NoWeightMap { found }),
    }
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let raw =
        deserializer.deserialize_map(RawIndex::default()).and_then(|raw| deserializer.end().map(|()| raw)).map_err(|error| {
            let (offset, reason) = locate(text, &error);
            IndexError::NotJson { offset, reason }
        })?;
    raw.check()
}

#[derive(Default)]
struct RawIndex {
    weight_map: Option<Result<TextMap, &'static str>>,
    total_size: Option<u64>,
    repeated: BTreeSet<String>,
}

impl RawIndex {
    fn check(self) -> Result<ShardIndex, IndexError> {
        let map = match self.weight_map {
            None => return Err(IndexError::NoWeightMap { found: "absent" }),
            Some(Err(found)) => return Err(IndexError::NoWeightMap { found }),
            Some(Ok(map)) => map,
        };
        let keys: Vec<String> = self.repeated.into_iter().chain(map.repeated).collect();
        if !keys.is_empty() {
            return Err(IndexError::DuplicateKeys { keys });
        }
        if let Some((key, path)) = map.texts.iter().find(|(_, path)| !is_plain_name(path)) {
            return Err(IndexError::PathRefused { key: key.clone(), path: path.clone() });
        }
        Ok(ShardIndex { weight_map: map.texts, total_size: self.total_size })
    }
}

impl<'de> Visitor<'de> for RawIndex {
    type Value = RawIndex;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an index of shards")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<RawIndex, A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "weight_map" => {
                    if self.weight_map.replace(map.next_value_seed(Any(TextMapReading))?).is_some() {
                        self.repeated.insert(name);
                    }
                }
                "metadata" => self.total_size = map.next_value_seed(Any(TotalSizeReading))?,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(self)
    }
}

/// Reads `total_size` out of the index's metadata; anything but a whole number counts as not stated.
struct TotalSizeReading;

impl<'de> Reading<'de> for TotalSizeReading {
    type Value = Option<u64>;

    fn object<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<u64>, A::Error> {
        let mut total_size = None;
        while let Some(name) = map.next_key::<String>()? {
            if name == "total_size" {
                let value = map.next_value_seed(Any(Field { kept_items: 0 }))?;
                total_size = if let Plain::Whole(bytes) = value { Some(bytes) } else { None };
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(total_size)
    }

    fn other(self, _value: Plain) -> Option<u64> {
        None
    }
}

/// True for a name that cannot leave its folder on any system.
fn is_plain_name(path: &str) -> bool {
    let separator = |c: char| matches!(c, '/' | '\\' | ':') || c.is_control();
    !path.is_empty() && path != "." && path != ".." && !path.contains(separator)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<ShardIndex, IndexError> {
        read_index(text.as_bytes(), 4096)
    }

    #[test]
    fn a_usual_index_reads() {
        let index = read(r#"{"metadata":{"total_size":12,"by":[1]},"weight_map":{"a":"x.st","b":"x.st"},"more":{}}"#);
        let index = index.unwrap();
        assert_eq!(index.total_size, Some(12));
        assert_eq!(index.shards().into_iter().collect::<Vec<_>>(), ["x.st"]);
        let index = read(r#"{"metadata":{"total_size":12.5},"weight_map":{}}"#).unwrap();
        assert_eq!(index, ShardIndex::default());
    }

    #[test]
    fn no_path_leaves_the_folder() {
        for path in ["../x", "a/x", "/etc/passwd", "..", ".", "", "c:x", r"a\\x", r"a\u0000", r"..\\x"] {
            let error = read(&format!(r#"{{"weight_map":{{"ok":"m.st","w":"{path}"}}}}"#)).unwrap_err();
            assert_eq!(error.code(), "checkpoint_index_path_refused", "{path}");
        }
    }

    #[test]
    fn each_fault_has_its_code() {
        let cases = [
            ("", "checkpoint_index_not_json"),
            ("{\"weight_map\":", "checkpoint_index_not_json"),
            ("[]", "checkpoint_index_no_weight_map"),
            ("{}", "checkpoint_index_no_weight_map"),
            (r#"{"weight_map":{"a":1}}"#, "checkpoint_index_no_weight_map"),
            (r#"{"weight_map":null}"#, "checkpoint_index_no_weight_map"),
            (r#"{"weight_map":{"a":"x","a":"y"}}"#, "checkpoint_index_duplicate_key"),
            (r#"{"weight_map":{},"weight_map":{}}"#, "checkpoint_index_duplicate_key"),
        ];
        for (text, code) in cases {
            assert_eq!(read(text).unwrap_err().code(), code, "{text}");
        }
        assert_eq!(read_index(b"{}        ", 4).unwrap_err().code(), "checkpoint_index_over_limit");
        assert_eq!(read_index(b"\xff", 4).unwrap_err().code(), "checkpoint_index_not_json");
    }
}
