//! Decimal text: "How many nanoseconds are so many microseconds, exactly?"
//!
//! Uses `limits`. Invariants: no float is involved; both ends of an event are computed exactly and only then rounded,
//! by one rule (to the nearest nanosecond, halves up), so that what lies inside something else stays inside.

use crate::limits::MAX_FRACTION_DIGITS;

/// A decimal number as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number<'a> {
    /// The text.
    pub(super) raw: &'a [u8],
    /// True with a minus.
    pub(super) negative: bool,
    /// All digits as one number, where they fit and there is no exponent.
    mantissa: Option<u64>,
    /// Digits after the point.
    fraction: u32,
}

impl<'a> Number<'a> {
    /// The number at the start of the bytes and its length; without a number the length of its sign.
    #[inline]
    pub(super) fn read(bytes: &'a [u8]) -> (Option<Number<'a>>, usize) {
        let negative = bytes.first() == Some(&b'-');
        let sign = usize::from(negative || bytes.first() == Some(&b'+'));
        let (mut at, mut digits, mut fraction) = (sign, 0_u32, 0_u32);
        let mut mantissa = Some(0_u64);
        let mut point = false;
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'0'..=b'9' => {
                    let digit = u64::from(byte - b'0');
                    // Eighteen digits always fit.
                    mantissa = match mantissa {
                        Some(sum) if digits < 18 => Some(sum * 10 + digit),
                        Some(sum) => sum.checked_mul(10).and_then(|sum| sum.checked_add(digit)),
                        None => None,
                    };
                    digits += 1;
                    fraction += u32::from(point);
                }
                b'.' if !point => point = true,
                _ => break,
            }
            at += 1;
        }
        if digits == 0 {
            return (None, sign);
        }
        if matches!(bytes.get(at), Some(b'e' | b'E')) {
            let signed = usize::from(matches!(bytes.get(at + 1), Some(b'+' | b'-')));
            let first = at + 1 + signed;
            let length = bytes.iter().skip(first).take_while(|byte| byte.is_ascii_digit()).count();
            if length > 0 {
                at = first + length;
                mantissa = None;
            }
        }
        (Some(Number { raw: bytes.get(..at).unwrap_or_default(), negative, mantissa, fraction }), at)
    }

    /// A text that is a number and nothing else.
    pub(super) fn whole(text: &'a [u8]) -> Option<Number<'a>> {
        let text = text.trim_ascii();
        let (number, length) = Number::read(text);
        number.filter(|_| length == text.len())
    }

    /// The number, where it is an unsigned integer of 64 bits without point and exponent.
    #[inline]
    pub(super) fn as_u64(&self) -> Option<u64> {
        self.mantissa.filter(|mantissa| self.fraction == 0 && (!self.negative || *mantissa == 0))
    }

    /// The number, where it is an integer of 64 bits without point and exponent.
    #[inline]
    pub(super) fn as_i64(&self) -> Option<i64> {
        let mantissa = self.mantissa.filter(|_| self.fraction == 0)?;
        if self.negative { 0_i64.checked_sub_unsigned(mantissa) } else { i64::try_from(mantissa).ok() }
    }

    /// The nearest float, for values that are no times.
    pub(super) fn as_f64(&self) -> Option<f64> {
        let text = std::str::from_utf8(self.raw).ok()?;
        text.parse().ok().filter(|value: &f64| value.is_finite())
    }

    /// Whole nanoseconds, where no more than three digits follow the point.
    #[inline]
    fn plain_nanoseconds(&self) -> Option<i64> {
        let factor = match self.fraction {
            0 => 1_000,
            1 => 100,
            2 => 10,
            3 => 1,
            _ => return None,
        };
        let ns = i64::try_from(self.mantissa?.checked_mul(factor)?).ok()?;
        Some(if self.negative { -ns } else { ns })
    }

    /// In units of 10^-18, digits behind the last of them cut; `None` beyond 128 bits.
    fn fine(&self) -> Option<i128> {
        let digits = self.raw.strip_prefix(b"-").or(self.raw.strip_prefix(b"+")).unwrap_or(self.raw);
        let end = digits.iter().position(|byte| matches!(byte, b'e' | b'E')).unwrap_or(digits.len());
        let exponent = exponent(digits.get(end + 1..).unwrap_or_default());
        let point = digits.iter().position(|byte| *byte == b'.').filter(|at| *at < end).unwrap_or(end);
        let mut sum = 0_i128;
        // Power of ten of the next digit, in the fine unit.
        let mut place = i64::try_from(point).ok()? - 1 + exponent + i64::from(MAX_FRACTION_DIGITS);
        for byte in digits.get(..end)?.iter().filter(|byte| byte.is_ascii_digit()) {
            if *byte != b'0' && place >= 0 {
                let power = 10_i128.checked_pow(u32::try_from(place).ok()?)?;
                sum = sum.checked_add(power.checked_mul(i128::from(byte - b'0'))?)?;
            }
            place -= 1;
            if place < 0 {
                break;
            }
        }
        Some(if self.negative { -sum } else { sum })
    }
}

fn exponent(text: &[u8]) -> i64 {
    let negative = text.first() == Some(&b'-');
    let digits = text.iter().filter(|byte| byte.is_ascii_digit());
    // More than a million digits cannot be written here, so this is as good as no limit.
    let size = digits.fold(0_i64, |sum, byte| (sum * 10 + i64::from(byte - b'0')).min(100_000_000));
    if negative { -size } else { size }
}

/// Fine units in a nanosecond: a thousandth of a microsecond.
const FINE_PER_NS: i128 = 10_i128.pow(MAX_FRACTION_DIGITS - 3);

/// Largest time that is kept, in nanoseconds either way: 146 years, so that shifts never overflow.
const MAX_NS: i128 = 1 << 62;

fn round(fine: i128) -> Option<i64> {
    let ns = (fine.checked_add(FINE_PER_NS / 2)?).div_euclid(FINE_PER_NS);
    (-MAX_NS..=MAX_NS).contains(&ns).then_some(ns as i64)
}

/// Start and end in nanoseconds of an event that starts at `ts` and lasts `dur` microseconds.
#[inline]
pub(super) fn span(ts: &Number<'_>, dur: &Number<'_>) -> Option<(i64, i64)> {
    if let (Some(start), Some(length)) = (ts.plain_nanoseconds(), dur.plain_nanoseconds()) {
        let limit = MAX_NS as i64;
        let end = start.checked_add(length)?;
        return (start.abs() <= limit && end.abs() <= limit).then_some((start, end));
    }
    let start = ts.fine()?;
    Some((round(start)?, round(start.checked_add(dur.fine()?)?)?))
}

/// One moment in nanoseconds.
#[inline]
pub(super) fn moment(ts: &Number<'_>) -> Option<i64> {
    match ts.plain_nanoseconds() {
        Some(ns) => (i128::from(ns).abs() <= MAX_NS).then_some(ns),
        None => round(ts.fine()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ns(text: &str) -> Option<i64> {
        moment(&Number::whole(text.as_bytes()).expect("a number"))
    }

    fn both(ts: &str, dur: &str) -> Option<(i64, i64)> {
        let number = |text: &'static str| Number::whole(text.as_bytes()).expect("a number");
        span(&number(ts.to_string().leak()), &number(dur.to_string().leak()))
    }

    #[test]
    fn microseconds_become_nanoseconds_without_a_float() {
        assert_eq!(ns("1778640000000123.456"), Some(1_778_640_000_000_123_456));
        assert_eq!(ns("-0.0015"), Some(-1), "halves go up");
        assert_eq!((ns("0.0005"), ns("0.00049999999999999999")), (Some(1), Some(0)));
        assert_eq!((ns("1.5e3"), ns("15E-1"), ns("1e-30")), (Some(1_500_000), Some(1_500), Some(0)));
        assert_eq!((ns("1e30"), ns("99999999999999999999"), ns("1e999999999999")), (None, None, None));
        assert_eq!(both("100.7", "0.2"), Some((100_700, 100_900)));
        assert_eq!(both("0.0004", "0.0004"), Some((0, 1)), "the end is rounded, not the length");
        assert_eq!(both("5", "-2"), Some((5_000, 3_000)));
        assert_eq!(Number::whole(b"18446744073709551615").and_then(|n| n.as_u64()), Some(u64::MAX));
        assert_eq!(Number::whole(b"18446744073709551616").and_then(|n| n.as_u64()), None);
        assert_eq!(Number::whole(b"-9223372036854775808").and_then(|n| n.as_i64()), Some(i64::MIN));
    }

    /// Nanoseconds by long arithmetic on digits: an integer of any size in units of 10^-18.
    fn model(negative: bool, whole: &str, fraction: &str) -> Option<i64> {
        let mut digits: Vec<u8> = whole.bytes().chain(fraction.bytes().chain(std::iter::repeat(b'0')).take(18)).collect();
        digits.iter_mut().for_each(|digit| *digit -= b'0');
        // Divide by 10^15 by cutting fifteen digits; round by what was cut.
        let cut = digits.split_off(digits.len() - 15);
        let half = {
            let mut half = vec![0; 15];
            half[0] = 5;
            half
        };
        let up = if negative { cut > half } else { cut >= half };
        let mut value = 0_u128;
        for digit in digits {
            value = value.checked_mul(10)?.checked_add(u128::from(digit))?;
        }
        let value = i128::try_from(value + u128::from(up)).ok()?;
        let value = if negative { -value } else { value };
        (value.abs() <= MAX_NS).then_some(value as i64)
    }

    proptest! {
        #[test]
        fn decimals_equal_a_big_integer_model(negative: bool, whole in "[0-9]{1,22}", fraction in "[0-9]{0,24}") {
            let text = format!("{}{whole}{}{fraction}", if negative { "-" } else { "" }, if fraction.is_empty() { "" } else { "." });
            prop_assert_eq!(ns(&text), model(negative, &whole, &fraction), "{}", text);
            let shifted = format!("{}0.{whole}{fraction}e{}", if negative { "-" } else { "" }, whole.len());
            prop_assert_eq!(ns(&shifted), model(negative, &whole, &fraction), "{}", shifted);
        }

        #[test]
        fn what_lies_inside_stays_inside(start in 0_u64..4_000, length in 0_u64..4_000, from in 0_u64..4_000, inner in 0_u64..4_000) {
            let text = |ten_thousandths: u64| format!("{}.{:04}", ten_thousandths / 10_000, ten_thousandths % 10_000);
            let from = from.min(length);
            let inner = inner.min(length - from);
            let parent = both(&text(start), &text(length)).expect("small");
            let child = both(&text(start + from), &text(inner)).expect("small");
            prop_assert!(parent.0 <= child.0 && child.0 <= child.1 && child.1 <= parent.1, "{:?} {:?}", parent, child);
        }
    }
}
