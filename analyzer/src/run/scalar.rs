//! One leaf of a JSON document: "Which number is it, exactly?"
//!
//! Uses nothing else. Invariant: integers never pass through a float.

use std::collections::BTreeMap;
use std::sync::Arc;

/// Leaves of one document by path. Paths are shared between the records of a journal.
pub type Values = BTreeMap<Arc<str>, Scalar>;

/// A leaf value.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// A whole number of zero or more.
    U64(u64),
    /// A whole number below zero.
    I64(i64),
    /// Any other finite number.
    F64(f64),
    /// True or false.
    Bool(bool),
    /// A word or text.
    Text(String),
    /// Given as null: the recorder did not collect it. What is unavailable is not in the map at all.
    Uncollected,
}

impl Scalar {
    /// The value as an unsigned integer, where it is one.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Scalar::U64(value) => Some(*value),
            _ => None,
        }
    }

    /// The value as a float, where it is a number; integers above 2^53 are rounded, so this is for ratios only.
    pub fn as_f64(&self) -> Option<f64> {
        match self {
            Scalar::U64(value) => Some(*value as f64),
            Scalar::I64(value) => Some(*value as f64),
            Scalar::F64(value) => Some(*value),
            Scalar::Bool(_) | Scalar::Text(_) | Scalar::Uncollected => None,
        }
    }
}
