//! The one macro: a declaration becomes a struct and its catalogue rows.

use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A struct whose fields are catalogue rows.
pub trait Section {
    /// The path of the structure inside its document (empty for the document itself).
    const PATH: &'static str;
    /// The catalogue rows, in declaration order.
    const FIELDS: &'static [crate::field::Field];
}

/// How a type looks in JSON Schema, and whether a value of it is absent.
pub trait JsonShape {
    /// True where the value may be left out.
    const OPTIONAL: bool = false;
    /// The JSON Schema of the type.
    fn schema() -> Value;
    /// True when this value is unavailable and must be left out.
    fn absent(&self) -> bool {
        false
    }
}

macro_rules! shapes {
    ($($ty:ty => $schema:tt;)*) => {
        $(impl JsonShape for $ty { fn schema() -> Value { json!($schema) } })*
    };
}

shapes! {
    u64 => {"type": "integer", "minimum": 0, "maximum": 18446744073709551615u64};
    u32 => {"type": "integer", "minimum": 0, "maximum": 4294967295u64};
    i64 => {"type": "integer"};
    i32 => {"type": "integer"};
    bool => {"type": "boolean"};
    String => {"type": "string"};
    crate::unit::Seconds => {"type": "number"};
    crate::unit::Gib => {"type": "number"};
    crate::unit::Ratio => {"type": "number"};
    Value => {};
}

impl<T: JsonShape> JsonShape for Option<T> {
    const OPTIONAL: bool = true;
    fn schema() -> Value {
        T::schema()
    }
    fn absent(&self) -> bool {
        self.is_none()
    }
}

impl<T: JsonShape> JsonShape for crate::unit::Nullable<T> {
    fn schema() -> Value {
        json!({"anyOf": [T::schema(), {"type": "null"}]})
    }
}

impl<T: JsonShape> JsonShape for Vec<T> {
    fn schema() -> Value {
        json!({"type": "array", "items": T::schema()})
    }
}

impl<T: JsonShape> JsonShape for BTreeMap<String, T> {
    fn schema() -> Value {
        json!({"type": "object", "additionalProperties": T::schema()})
    }
}

impl<T: JsonShape> JsonShape for Box<T> {
    fn schema() -> Value {
        T::schema()
    }
}

/// Declares a closed set of words: an enum that is written as them.
macro_rules! labels {
    (
        $(#[$meta:meta])*
        pub enum $name:ident { $( $(#[$word_meta:meta])* $variant:ident = $word:literal ),+ $(,)? }
    ) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ::serde::Serialize, ::serde::Deserialize)]
        pub enum $name {
            $( $(#[$word_meta])* #[serde(rename = $word)] $variant, )+
        }

        impl $name {
            /// The word as it is written.
            pub const fn name(self) -> &'static str {
                match self {
                    $( $name::$variant => $word, )+
                }
            }
        }

        impl $crate::section::JsonShape for $name {
            fn schema() -> ::serde_json::Value {
                ::serde_json::json!({"type": "string", "enum": [$($word),+]})
            }
        }
    };
}
pub(crate) use labels;

/// Builds the JSON Schema of a section from the schemas of its fields.
pub fn object_schema(fields: &[crate::field::Field], properties: Vec<(&'static str, Value)>) -> Value {
    let required: Vec<&str> =
        fields.iter().zip(&properties).filter(|(field, _)| field.required).map(|(_, (name, _))| *name).collect();
    let mut map = serde_json::Map::new();
    for (field, (name, mut schema)) in fields.iter().zip(properties) {
        if let Value::Object(object) = &mut schema {
            object.insert("description".into(), format!("{} [{}]", field.meaning, field.unit).into());
        }
        map.insert(name.into(), schema);
    }
    json!({"type": "object", "properties": map, "required": required})
}

/// Adds the properties of a flattened group to the schema of the object that holds it.
pub fn merge_schema(mut object: Value, group: Value) -> Value {
    for key in ["properties", "required"] {
        match (object.get_mut(key), group.get(key)) {
            (Some(Value::Object(all)), Some(Value::Object(more))) => all.extend(more.clone()),
            (Some(Value::Array(all)), Some(Value::Array(more))) => all.extend(more.iter().cloned()),
            _ => {}
        }
    }
    object
}

/// Declares a section: `field: Type = Unit, Kind, Lifetime, boundary, meaning, action;`
///
/// `Option<T>` fields are left out of JSON when they are `None`; every other field is required. After the action,
/// braces give the rules that differ from [`crate::field::Field::PLAIN`]:
/// `{ gate: Gate::MustBeZero, deterministic: true }`. Behind the braces of the section, `flatten { group: Group }`
/// adds fields of the same JSON object that are declared as a section of their own; such a group has optional
/// fields only and is `Default`.
#[macro_export]
macro_rules! section {
    (
        $(#[$meta:meta])*
        pub struct $name:ident at $path:tt {
            $( $field:ident $(as $key:literal)? : $ty:ty = $unit:expr, $kind:ident, $lifetime:ident, $boundary:literal, $meaning:literal, $action:literal
                $(, { $($rule:ident : $value:expr),+ $(,)? })?; )*
        }
        $( flatten { $( $group:ident : $group_ty:ty ),+ $(,)? } )?
    ) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, ::serde::Serialize, ::serde::Deserialize)]
        pub struct $name {
            $(
                #[doc = $meaning]
                #[serde(skip_serializing_if = "crate::section::JsonShape::absent")]
                $(#[serde(rename = $key)])?
                pub $field: $ty,
            )*
            $($(
                /// Fields of the same JSON object that have a table of their own.
                #[serde(flatten)]
                pub $group: $group_ty,
            )+)?
        }

        impl $crate::section::Section for $name {
            const PATH: &'static str = $path;
            const FIELDS: &'static [$crate::field::Field] = &[
                $($crate::field::Field {
                    path: $crate::section_path!($path, $field $(as $key)?),
                    unit: $unit,
                    kind: $crate::field::Kind::$kind,
                    lifetime: $crate::field::Lifetime::$lifetime,
                    boundary: $boundary,
                    meaning: $meaning,
                    action: $action,
                    required: !<$ty as $crate::section::JsonShape>::OPTIONAL,
                    $($($rule: $value,)+)?
                    ..$crate::field::Field::PLAIN
                },)*
            ];
        }

        impl $crate::section::JsonShape for $name {
            fn schema() -> ::serde_json::Value {
                let own = $crate::section::object_schema(
                    <$name as $crate::section::Section>::FIELDS,
                    vec![$(($crate::section_key!($field $(as $key)?), <$ty as $crate::section::JsonShape>::schema()),)*],
                );
                $($( let own = $crate::section::merge_schema(own, <$group_ty as $crate::section::JsonShape>::schema()); )+)?
                own
            }
        }
    };
}

/// The JSON key of a field: its own name, or the one after `as`.
#[doc(hidden)]
#[macro_export]
macro_rules! section_key {
    ($field:ident) => {
        stringify!($field)
    };
    ($field:ident as $key:literal) => {
        $key
    };
}

/// The JSON path of a field inside its section.
#[doc(hidden)]
#[macro_export]
macro_rules! section_path {
    ("", $field:ident) => {
        stringify!($field)
    };
    ("", $field:ident as $key:literal) => {
        $key
    };
    ($path:tt, $field:ident) => {
        concat!($path, ".", stringify!($field))
    };
    ($path:tt, $field:ident as $key:literal) => {
        concat!($path, ".", $key)
    };
}
