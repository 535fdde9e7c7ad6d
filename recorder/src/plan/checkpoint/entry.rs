//! One value of a header, read without trusting its kind: "What does this entry claim?"
//!
//! May use: dtype, error. Invariants: a value of the wrong kind never stops the reading of its neighbours; nesting
//! below the known fields is skipped without recursion and without memory.

use super::dtype::Dtype;
use super::error::EntryError;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A JSON value that is no object; of a list only the first items are kept.
#[derive(Debug)]
pub(super) enum Plain {
    Null,
    Bool,
    Whole(u64),
    Number(String),
    Text(String),
    List {
        kept: Vec<Plain>,
        count: u64,
    },
    /// An object where none is expected; its content was skipped.
    Object,
}

impl Plain {
    /// What it is, for a message.
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Plain::Null => "null",
            Plain::Bool => "a truth value",
            Plain::Whole(_) | Plain::Number(_) => "a number",
            Plain::Text(_) => "text",
            Plain::List { .. } => "a list",
            Plain::Object => "an object",
        }
    }
}

/// What to make of a value: one method for an object, one for everything else.
pub(super) trait Reading<'de>: Sized {
    /// The result.
    type Value;
    /// Items of a list that are kept.
    fn kept_items(&self) -> usize {
        0
    }
    /// Reads an object.
    fn object<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error>;
    /// Takes anything else.
    fn other(self, value: Plain) -> Self::Value;
}

/// A seed that accepts every kind of value.
pub(super) struct Any<R>(pub(super) R);

impl<'de, R: Reading<'de>> DeserializeSeed<'de> for Any<R> {
    type Value = R::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<R::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de, R: Reading<'de>> Visitor<'de> for Any<R> {
    type Value = R::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_unit<E>(self) -> Result<R::Value, E> {
        Ok(self.0.other(Plain::Null))
    }

    fn visit_bool<E>(self, _value: bool) -> Result<R::Value, E> {
        Ok(self.0.other(Plain::Bool))
    }

    fn visit_u64<E>(self, value: u64) -> Result<R::Value, E> {
        Ok(self.0.other(Plain::Whole(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<R::Value, E> {
        let plain = u64::try_from(value).map_or_else(|_| Plain::Number(value.to_string()), Plain::Whole);
        Ok(self.0.other(plain))
    }

    fn visit_f64<E>(self, value: f64) -> Result<R::Value, E> {
        Ok(self.0.other(Plain::Number(format!("{value:?}"))))
    }

    fn visit_str<E>(self, value: &str) -> Result<R::Value, E> {
        Ok(self.0.other(Plain::Text(value.to_owned())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<R::Value, A::Error> {
        let limit = self.0.kept_items();
        let mut kept = Vec::new();
        let mut count = 0_u64;
        while kept.len() < limit {
            let Some(item) = list.next_element_seed(Any(Field { kept_items: 0 }))? else {
                return Ok(self.0.other(Plain::List { kept, count }));
            };
            kept.push(item);
            count += 1;
        }
        while list.next_element::<IgnoredAny>()?.is_some() {
            count += 1;
        }
        Ok(self.0.other(Plain::List { kept, count }))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<R::Value, A::Error> {
        self.0.object(map)
    }
}

fn skip<'de, A: MapAccess<'de>>(mut map: A) -> Result<(), A::Error> {
    while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
    Ok(())
}

/// Reads one field of an entry.
pub(super) struct Field {
    /// Items of a list that are kept.
    pub(super) kept_items: usize,
}

impl<'de> Reading<'de> for Field {
    type Value = Plain;

    fn kept_items(&self) -> usize {
        self.kept_items
    }

    fn object<A: MapAccess<'de>>(self, map: A) -> Result<Plain, A::Error> {
        skip(map).map(|()| Plain::Object)
    }

    fn other(self, value: Plain) -> Plain {
        value
    }
}

/// Reads the entry of a tensor; unknown fields are skipped.
pub(super) struct EntryReading {
    /// Dimensions at most.
    pub(super) rank: usize,
}

/// The fields of an entry, unchecked.
#[derive(Debug, Default)]
pub(super) struct Fields {
    dtype: Option<Plain>,
    shape: Option<Plain>,
    offsets: Option<Plain>,
    repeated: Option<&'static str>,
}

impl<'de> Reading<'de> for EntryReading {
    type Value = Result<Fields, EntryError>;

    fn object<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut fields = Fields::default();
        while let Some(name) = map.next_key::<String>()? {
            let (slot, field, kept_items) = match name.as_str() {
                "dtype" => (&mut fields.dtype, "dtype", 0),
                "shape" => (&mut fields.shape, "shape", self.rank),
                "data_offsets" => (&mut fields.offsets, "data_offsets", 2),
                _ => {
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            let value = map.next_value_seed(Any(Field { kept_items }))?;
            if slot.replace(value).is_some() {
                fields.repeated = Some(field);
            }
        }
        Ok(Ok(fields))
    }

    fn other(self, value: Plain) -> Self::Value {
        Err(EntryError::NotAnObject { found: value.kind() })
    }
}

/// Reads a map of strings, such as `__metadata__`; refuses other content as a whole, saying what was found.
pub(super) struct TextMapReading;

/// A map of strings; of a repeated name the first text is kept and the name is told.
#[derive(Debug, Default)]
pub(super) struct TextMap {
    pub(super) texts: BTreeMap<String, String>,
    pub(super) repeated: BTreeSet<String>,
}

impl<'de> Reading<'de> for TextMapReading {
    type Value = Result<TextMap, &'static str>;

    fn object<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut read = TextMap::default();
        let mut all_text = true;
        while let Some(name) = map.next_key::<String>()? {
            match map.next_value_seed(Any(Field { kept_items: 0 }))? {
                Plain::Text(_) if read.texts.contains_key(&name) => {
                    read.repeated.insert(name);
                }
                Plain::Text(text) => {
                    read.texts.insert(name, text);
                }
                _ => all_text = false,
            }
        }
        Ok(if all_text { Ok(read) } else { Err("an object with a value that is not text") })
    }

    fn other(self, value: Plain) -> Self::Value {
        Err(value.kind())
    }
}

/// What a sound set of fields says; the range is not yet compared with the file.
#[derive(Debug)]
pub(super) struct Claim {
    pub(super) dtype: Dtype,
    pub(super) shape: Vec<u64>,
}

impl Fields {
    /// The claimed range, if it can be read at all.
    pub(super) fn range(&self) -> Result<(u64, u64), EntryError> {
        if let Some(field) = self.repeated {
            return Err(EntryError::Repeated { field });
        }
        let offsets = numbers("data_offsets", self.offsets.as_ref(), 2)?;
        let &[begin, end] = offsets.as_slice() else {
            return Err(EntryError::BadCount { field: "data_offsets", got: count(&offsets), limit: 2 });
        };
        if begin > end { Err(EntryError::Reversed { begin, end }) } else { Ok((begin, end)) }
    }

    /// The claimed type and shape.
    pub(super) fn claim(&self, rank: usize) -> Result<Claim, EntryError> {
        let dtype = match &self.dtype {
            None => return Err(EntryError::Absent { field: "dtype" }),
            Some(Plain::Text(name)) => name.parse::<Dtype>()?,
            Some(other) => return Err(EntryError::WrongKind { field: "dtype", found: other.kind(), wanted: "text" }),
        };
        let shape = numbers("shape", self.shape.as_ref(), rank)?;
        Ok(Claim { dtype, shape })
    }
}

fn count(list: &[u64]) -> u64 {
    u64::try_from(list.len()).unwrap_or(u64::MAX)
}

fn numbers(field: &'static str, value: Option<&Plain>, limit: usize) -> Result<Vec<u64>, EntryError> {
    let (kept, count) = match value {
        None => return Err(EntryError::Absent { field }),
        Some(Plain::List { kept, count }) => (kept, *count),
        Some(other) => return Err(EntryError::WrongKind { field, found: other.kind(), wanted: "a list" }),
    };
    let limit = u64::try_from(limit).unwrap_or(u64::MAX);
    if count > limit {
        return Err(EntryError::BadCount { field, got: count, limit });
    }
    let number = |item: &Plain| match item {
        Plain::Whole(number) => Ok(*number),
        Plain::Number(value) => Err(EntryError::BadNumber { field, value: value.clone() }),
        other => Err(EntryError::WrongKind { field, found: other.kind(), wanted: "whole numbers" }),
    };
    kept.iter().map(number).collect()
}
