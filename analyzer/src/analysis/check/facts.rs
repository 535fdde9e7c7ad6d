//! Recorded values as the checks read them: "Is it there, and which whole number is it?"
//!
//! Uses `run`. Invariants: integers are compared exactly; what is null,
//! absent or of another type is unavailable, and an outcome without a value is never a pass.

use crate::run::{Scalar, Values};
use ddo_schemas::scalar::JsonScalar;
use serde_json::Value;

/// The full path of a field of the offload runtime.
macro_rules! vmm {
    ($name:literal) => {
        concat!("runtime.vmm.", $name)
    };
}
pub(super) use vmm;

/// The leaves of one report or record.
#[derive(Clone, Copy)]
pub(crate) struct Facts<'a> {
    pub(super) values: &'a Values,
}

impl Facts<'_> {
    pub(super) fn get(&self, name: &str) -> Option<&Scalar> {
        self.values.get(name)
    }

    pub(super) fn recorded(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    pub(super) fn whole(&self, name: &str) -> Option<i128> {
        match self.get(name)? {
            Scalar::U64(value) => Some((*value).into()),
            Scalar::I64(value) => Some((*value).into()),
            _ => None,
        }
    }

    pub(super) fn number(&self, name: &str) -> Option<f64> {
        self.get(name)?.as_f64()
    }

    /// The sum of some whole numbers, or the names that are missing.
    pub(super) fn sum(&self, names: &[&str]) -> Result<i128, Vec<String>> {
        match names.iter().map(|name| self.whole(name)).sum() {
            Some(sum) => Ok(sum),
            None => Err(names.iter().filter(|name| self.whole(name).is_none()).map(|name| name.to_string()).collect()),
        }
    }
}

/// What one check found at one place.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Found {
    /// File of the record, where the check looks at several; empty for the place that the check was called with.
    pub(super) file: String,
    /// The field, or what stands for several of them.
    pub(super) field: String,
    pub(super) expected: JsonScalar,
    pub(super) got: JsonScalar,
    pub(super) ok: Option<bool>,
}

impl Found {
    /// A comparison that was made.
    pub(super) fn new(field: impl Into<String>, expected: JsonScalar, got: JsonScalar, ok: bool) -> Found {
        Found { file: String::new(), field: field.into(), expected, got, ok: Some(ok) }
    }

    /// One number that must equal another.
    pub(super) fn equal(field: &str, expected: i128, got: i128) -> Found {
        Found::new(field, JsonScalar::Integer(expected), JsonScalar::Integer(got), expected == got)
    }

    /// A number with an upper bound that has a name.
    pub(super) fn at_most(field: &str, bound: i128, name: &str, got: i128) -> Found {
        let expected = text(format!("at most {bound} ({name})"));
        Found::new(field, expected, JsonScalar::Integer(got), got <= bound)
    }

    /// A statement that holds or does not.
    pub(super) fn that(field: &str, expected: impl Into<String>, got: impl Into<String>, ok: bool) -> Found {
        Found::new(field, text(expected.into()), text(got.into()), ok)
    }

    /// No comparison: values are missing.
    pub(super) fn unavailable(field: &str, missing: &[String]) -> Found {
        let expected = text(format!("unknown without {}", missing.join(", ")));
        Found { file: String::new(), field: field.to_string(), expected, got: JsonScalar::Null, ok: None }
    }

    /// The same, of one file among several.
    pub(super) fn of(mut self, file: &str) -> Found {
        self.file = file.to_string();
        self
    }
}

/// A fraction; what is not finite, such as a sum of huge numbers, is named in words.
pub(super) fn real(value: f64) -> JsonScalar {
    if value.is_finite() { JsonScalar::Real(value) } else { text("not finite".into()) }
}

pub(super) fn text(words: String) -> JsonScalar {
    JsonScalar::Text(words)
}

/// A whole number of a recorded structure.
pub(super) fn whole_at(value: &Value, pointer: &str) -> Option<i128> {
    let value = value.pointer(pointer)?;
    value.as_u64().map(i128::from).or_else(|| value.as_i64().map(i128::from))
}

/// The items of a recorded list; empty where there is none.
pub(super) fn items<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}
