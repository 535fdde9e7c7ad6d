//! Element types of a checkpoint: "How many bytes does a tensor of this type and shape take?"
//!
//! May use: std only. Invariants: the names are those of the safetensors format; sizes are exact and checked,
//! and a size that is not a whole number of bytes is an error, never rounded.

use std::fmt;
use std::str::FromStr;

/// Element type of a stored tensor, by its safetensors name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Dtype {
    /// One byte a truth value.
    Bool,
    /// Unsigned 8 bits.
    U8,
    /// Signed 8 bits.
    I8,
    /// Signed 16 bits.
    I16,
    /// Unsigned 16 bits.
    U16,
    /// IEEE half precision.
    F16,
    /// Brain float, 16 bits.
    Bf16,
    /// Signed 32 bits.
    I32,
    /// Unsigned 32 bits.
    U32,
    /// IEEE single precision.
    F32,
    /// Complex of two `F32`.
    C64,
    /// IEEE double precision.
    F64,
    /// Signed 64 bits.
    I64,
    /// Unsigned 64 bits.
    U64,
    /// 8-bit float, 4 exponent and 3 mantissa bits.
    F8E4m3,
    /// 8-bit float, 5 exponent and 2 mantissa bits.
    F8E5m2,
    /// `F8E4m3` without infinities and negative zero.
    F8E4m3Fnuz,
    /// `F8E5m2` without infinities and negative zero.
    F8E5m2Fnuz,
    /// Power-of-two scale factors, 8 exponent bits.
    F8E8m0,
    /// 6-bit float, 2 exponent and 3 mantissa bits.
    F6E2m3,
    /// 6-bit float, 3 exponent and 2 mantissa bits.
    F6E3m2,
    /// 4-bit float, two values in a byte.
    F4,
}

/// Every element type, in declaration order.
pub const ALL_DTYPES: [Dtype; 22] = [
    Dtype::Bool,
    Dtype::U8,
    Dtype::I8,
    Dtype::I16,
    Dtype::U16,
    Dtype::F16,
    Dtype::Bf16,
    Dtype::I32,
    Dtype::U32,
    Dtype::F32,
    Dtype::C64,
    Dtype::F64,
    Dtype::I64,
    Dtype::U64,
    Dtype::F8E4m3,
    Dtype::F8E5m2,
    Dtype::F8E4m3Fnuz,
    Dtype::F8E5m2Fnuz,
    Dtype::F8E8m0,
    Dtype::F6E2m3,
    Dtype::F6E3m2,
    Dtype::F4,
];

/// Why a shape has no size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SizeError {
    /// The size does not fit 64 bits.
    #[error("the size of the shape is over 2^64-1 bits")]
    Overflow,
    /// The elements do not fill whole bytes.
    #[error("{elements} elements of {bits} bits do not fill whole bytes")]
    PartialByte {
        /// Elements in the shape.
        elements: u64,
        /// Bits of one element.
        bits: u64,
    },
}

/// A name that is no known element type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown dtype {name:?}")]
pub struct UnknownDtype {
    /// The name as it was read, shortened for display.
    pub name: String,
}

impl Dtype {
    /// The safetensors name.
    pub const fn name(self) -> &'static str {
        match self {
            Dtype::Bool => "BOOL",
            Dtype::U8 => "U8",
            Dtype::I8 => "I8",
            Dtype::I16 => "I16",
            Dtype::U16 => "U16",
            Dtype::F16 => "F16",
            Dtype::Bf16 => "BF16",
            Dtype::I32 => "I32",
            Dtype::U32 => "U32",
            Dtype::F32 => "F32",
            Dtype::C64 => "C64",
            Dtype::F64 => "F64",
            Dtype::I64 => "I64",
            Dtype::U64 => "U64",
            Dtype::F8E4m3 => "F8_E4M3",
            Dtype::F8E5m2 => "F8_E5M2",
            Dtype::F8E4m3Fnuz => "F8_E4M3FNUZ",
            Dtype::F8E5m2Fnuz => "F8_E5M2FNUZ",
            Dtype::F8E8m0 => "F8_E8M0",
            Dtype::F6E2m3 => "F6_E2M3",
            Dtype::F6E3m2 => "F6_E3M2",
            Dtype::F4 => "F4",
        }
    }

    /// Bits of one element.
    pub const fn bits(self) -> u64 {
        match self {
            Dtype::F4 => 4,
            Dtype::F6E2m3 | Dtype::F6E3m2 => 6,
            Dtype::Bool | Dtype::U8 | Dtype::I8 => 8,
            Dtype::F8E4m3 | Dtype::F8E5m2 | Dtype::F8E4m3Fnuz | Dtype::F8E5m2Fnuz | Dtype::F8E8m0 => 8,
            Dtype::I16 | Dtype::U16 | Dtype::F16 | Dtype::Bf16 => 16,
            Dtype::I32 | Dtype::U32 | Dtype::F32 => 32,
            Dtype::C64 | Dtype::F64 | Dtype::I64 | Dtype::U64 => 64,
        }
    }

    /// Bytes of a tensor of this shape; an empty shape is one element, a zero dimension is no bytes.
    ///
    /// # Errors
    /// [`SizeError`] if the size overflows or is not a whole number of bytes.
    pub fn size_of(self, shape: &[u64]) -> Result<u64, SizeError> {
        if shape.contains(&0) {
            return Ok(0);
        }
        let elements = shape.iter().try_fold(1_u64, |product, dim| product.checked_mul(*dim));
        let elements = elements.ok_or(SizeError::Overflow)?;
        let bits = elements.checked_mul(self.bits()).ok_or(SizeError::Overflow)?;
        if bits.is_multiple_of(8) { Ok(bits / 8) } else { Err(SizeError::PartialByte { elements, bits: self.bits() }) }
    }

    /// [`Dtype::size_of`] without the cause.
    pub fn bytes_for(self, shape: &[u64]) -> Option<u64> {
        self.size_of(shape).ok()
    }

    /// True for packed values and scale factors, which mean nothing without their quantisation scheme; a
    /// parameter bound to one is refused as an unsupported quantised payload.
    pub const fn is_quantized_payload(self) -> bool {
        matches!(self, Dtype::F4 | Dtype::F6E2m3 | Dtype::F6E3m2 | Dtype::F8E8m0)
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Dtype {
    type Err = UnknownDtype;

    fn from_str(name: &str) -> Result<Dtype, UnknownDtype> {
        let found = ALL_DTYPES.into_iter().find(|dtype| dtype.name() == name);
        found.ok_or_else(|| UnknownDtype { name: super::shorten(name) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_reads_back_and_no_other_does() {
        for dtype in ALL_DTYPES {
            assert_eq!(dtype.name().parse::<Dtype>(), Ok(dtype));
        }
        for name in ["", "f32", "F33", " F32", "F8"] {
            assert!(name.parse::<Dtype>().is_err(), "{name:?}");
        }
    }

    #[test]
    fn sizes_are_exact() {
        assert_eq!(Dtype::F32.bytes_for(&[]), Some(4));
        assert_eq!(Dtype::F16.bytes_for(&[2, 3]), Some(12));
        assert_eq!(Dtype::F4.bytes_for(&[2, 8]), Some(8));
        assert_eq!(Dtype::F6E2m3.bytes_for(&[4]), Some(3));
        assert_eq!(Dtype::F8E8m0.bytes_for(&[2, 1]), Some(2));
        assert_eq!(Dtype::F64.bytes_for(&[u64::MAX, 0, 7]), Some(0));
    }

    #[test]
    fn odd_packed_counts_and_overflow_are_told_apart() {
        assert_eq!(Dtype::F4.size_of(&[1, 3]), Err(SizeError::PartialByte { elements: 3, bits: 4 }));
        assert_eq!(Dtype::F6E3m2.size_of(&[2]), Err(SizeError::PartialByte { elements: 2, bits: 6 }));
        assert_eq!(Dtype::U8.size_of(&[u64::MAX, 2]), Err(SizeError::Overflow));
        assert_eq!(Dtype::F32.size_of(&[u64::MAX]), Err(SizeError::Overflow));
    }
}
