//! One value of any field, for tables that mix fields: "How is it written so that no reader changes it?"
//!
//! May use: nothing of this crate but the shapes. Invariant: what is read back is what was written; integers whose size a
//! 64-bit float cannot carry are strings, non-finite numbers are refused.

use crate::section::JsonShape;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::Error as _};
use serde_json::{Value, json};

/// The largest integer that every JSON reader keeps exactly.
pub const EXACT_IN_FLOATS: i128 = 1 << 53;

/// A JSON scalar. Integers span the difference of any two 64-bit values.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum JsonScalar {
    /// Nothing to show: the state beside it says why.
    #[default]
    Null,
    /// True or false.
    Flag(bool),
    /// A whole number.
    Integer(i128),
    /// A finite fraction.
    Real(f64),
    /// A word or a text.
    Text(String),
}

impl From<u64> for JsonScalar {
    fn from(value: u64) -> JsonScalar {
        JsonScalar::Integer(value.into())
    }
}

impl From<&str> for JsonScalar {
    fn from(value: &str) -> JsonScalar {
        JsonScalar::Text(value.into())
    }
}

impl Serialize for JsonScalar {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        match self {
            JsonScalar::Null => s.serialize_unit(),
            JsonScalar::Flag(value) => s.serialize_bool(*value),
            JsonScalar::Integer(value) => match i64::try_from(*value) {
                Ok(small) if value.abs() <= EXACT_IN_FLOATS => s.serialize_i64(small),
                _ => s.collect_str(value),
            },
            JsonScalar::Real(value) if value.is_finite() => s.serialize_f64(*value),
            JsonScalar::Real(value) => Err(S::Error::custom(format!("a non-finite number ({value}) cannot be written"))),
            JsonScalar::Text(value) => s.serialize_str(value),
        }
    }
}

impl<'de> Deserialize<'de> for JsonScalar {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        match Value::deserialize(d)? {
            Value::Null => Ok(JsonScalar::Null),
            Value::Bool(value) => Ok(JsonScalar::Flag(value)),
            Value::Number(number) => {
                let whole = number.as_u64().map(i128::from).or_else(|| number.as_i64().map(i128::from));
                let fraction = || number.as_f64().map(JsonScalar::Real);
                whole.map(JsonScalar::Integer).or_else(fraction).ok_or_else(|| D::Error::custom("not a number that fits"))
            }
            Value::String(text) => Ok(large_integer(&text).map_or(JsonScalar::Text(text), JsonScalar::Integer)),
            Value::Array(_) | Value::Object(_) => Err(D::Error::custom("a list or an object where one value belongs")),
        }
    }
}

/// The integer that a string stands for: only one that is written as a string, in the form in which it is written.
fn large_integer(text: &str) -> Option<i128> {
    let value: i128 = text.parse().ok()?;
    (value.abs() > EXACT_IN_FLOATS && value.to_string() == text).then_some(value)
}

impl JsonShape for JsonScalar {
    fn schema() -> Value {
        json!({"type": ["null", "boolean", "number", "string"]})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_reads_back_and_large_integers_are_strings() {
        let all = [
            (JsonScalar::Null, "null"),
            (JsonScalar::Flag(false), "false"),
            (JsonScalar::Integer(0), "0"),
            (JsonScalar::Integer(EXACT_IN_FLOATS), "9007199254740992"),
            (JsonScalar::Integer(EXACT_IN_FLOATS + 1), "\"9007199254740993\""),
            (JsonScalar::from(u64::MAX), "\"18446744073709551615\""),
            (JsonScalar::Integer(-i128::from(u64::MAX)), "\"-18446744073709551615\""),
            (JsonScalar::Real(0.25), "0.25"),
            (JsonScalar::from("12"), "\"12\""),
        ];
        for (value, text) in all {
            assert_eq!(serde_json::to_string(&value).expect("writable"), text);
            assert_eq!(serde_json::from_str::<JsonScalar>(text).expect("readable"), value);
        }
    }

    #[test]
    fn structures_and_non_finite_numbers_are_refused() {
        assert!(serde_json::to_string(&JsonScalar::Real(f64::NAN)).is_err());
        assert!(serde_json::from_str::<JsonScalar>("[1]").is_err());
        assert!(serde_json::from_str::<JsonScalar>("{}").is_err());
    }
}
