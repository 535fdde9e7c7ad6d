//! Units, and the number types that carry them to the edge of a report.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _, ser::Error as _};
use std::fmt;

/// Bytes in one GiB; the legacy `_gb` fields of reports count in this unit.
pub const GIB: u64 = 1 << 30;

/// The unit of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unit {
    /// Bytes, a 64-bit integer.
    Bytes,
    /// GiB (1024 cubed) as a fraction; the legacy `_gb` suffix.
    Gib,
    /// Seconds, a finite 64-bit float.
    Seconds,
    /// Bytes per second.
    BytesPerSecond,
    /// A count of the named things.
    Count(&'static str),
    /// A zero-based index.
    Index,
    /// An identity that means something inside one run only.
    RunLocalId,
    /// A version number.
    Version,
    /// One of a closed set of words.
    Label,
    /// Free text.
    Text,
    /// True or false.
    Flag,
    /// A ratio without a unit.
    Ratio,
    /// A structure with fields of its own.
    Structure,
    /// Nothing says what the value is counted in.
    Unspecified,
}

impl Unit {
    /// The unit as people read it in a table header.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::Bytes => "bytes",
            Unit::Gib => "GiB",
            Unit::Seconds => "seconds",
            Unit::BytesPerSecond => "bytes per second",
            Unit::Count(what) => what,
            Unit::Index => "zero-based index",
            Unit::RunLocalId => "run-local id",
            Unit::Version => "version",
            Unit::Label => "label",
            Unit::Text => "text",
            Unit::Flag => "flag",
            Unit::Ratio => "ratio",
            Unit::Structure => "structure",
            Unit::Unspecified => "unspecified",
        }
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

macro_rules! finite {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd)]
        pub struct $name(pub f64);

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                if self.0.is_finite() {
                    s.serialize_f64(self.0)
                } else {
                    Err(S::Error::custom(format!(concat!("a non-finite number of ", $what, " ({}) cannot be written"), self.0)))
                }
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                let value = f64::deserialize(d)?;
                if value.is_finite() { Ok($name(value)) } else { Err(D::Error::custom(concat!("a non-finite number of ", $what))) }
            }
        }
    };
}

finite!(
    /// Seconds at the edge of a report. Writing a non-finite value is an error, never `null`.
    Seconds,
    "seconds"
);
finite!(
    /// GiB (1024 cubed) at the edge of a report.
    Gib,
    "GiB"
);

finite!(
    /// A ratio without a unit.
    Ratio,
    "ratio"
);

impl Gib {
    /// Converts a byte count, rounded to four decimals as the `_gb` fields have it.
    pub fn from_bytes(bytes: u64) -> Gib {
        Gib(((bytes as f64 / GIB as f64) * 1e4).round() / 1e4)
    }
}

/// A value that is written even when it was not collected: `null` then, never zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Nullable<T>(pub Option<T>);

impl<T: Serialize> Serialize for Nullable<T> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(s)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Nullable<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Ok(Nullable(Option::<T>::deserialize(d)?))
    }
}

/// Bytes as people read them: GiB, MiB, KiB or bytes, with the unit named.
pub fn human_bytes(bytes: u64) -> String {
    const MIB: u64 = 1 << 20;
    const KIB: u64 = 1 << 10;
    let scaled = |unit: u64| bytes as f64 / unit as f64;
    match bytes {
        b if b >= GIB => format!("{:.2} GiB", scaled(GIB)),
        b if b >= MIB => format!("{:.2} MiB", scaled(MIB)),
        b if b >= KIB => format!("{:.1} KiB", scaled(KIB)),
        b => format!("{b} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_finite_numbers_are_refused_not_nulled() {
        assert!(serde_json::to_string(&Seconds(f64::NAN)).is_err());
        assert!(serde_json::to_string(&Gib(f64::INFINITY)).is_err());
        assert_eq!(serde_json::to_string(&Seconds(0.0)).expect("finite"), "0.0");
    }

    #[test]
    fn gib_is_1024_cubed() {
        assert_eq!(human_bytes(85_899_345_920), "80.00 GiB");
        assert_eq!(Gib::from_bytes(85_899_345_920).0, 80.0);
    }
}
