//! Settings of an attached component.

use crate::driver::Driver;
use crate::error::{Error, Result};
use crate::meter::{Clock, SystemClock};
use std::str::FromStr;
use std::sync::Arc;

/// The most device memory that weights may occupy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ceiling {
    /// In bytes.
    Bytes(u64),
    /// In percent of the managed payload.
    Percent(f64),
}

impl Ceiling {
    /// Bytes for a component of the given managed payload.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a percentage that is not above 0 and at most 100.
    pub fn resolve(self, managed_bytes: u64) -> Result<u64> {
        match self {
            Ceiling::Bytes(bytes) => Ok(bytes),
            Ceiling::Percent(percent) if percent > 0.0 && percent <= 100.0 => Ok((managed_bytes as f64 * percent / 100.0) as u64),
            Ceiling::Percent(percent) => Err(Error::invalid("ceiling", format!("{percent} % is not above 0 and at most 100"))),
        }
    }
}

impl FromStr for Ceiling {
    type Err = Error;

    /// Reads `40%`, a number of bytes, or a number with `KiB`, `MiB` or `GiB`.
    fn from_str(text: &str) -> Result<Ceiling> {
        let bad = || Error::invalid("ceiling", format!("{text:?} is neither a percentage, nor bytes, nor KiB, MiB or GiB"));
        let number = |digits: &str| digits.trim().parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
        if let Some(percent) = text.strip_suffix('%') {
            let ceiling = Ceiling::Percent(number(percent).ok_or_else(bad)?);
            return ceiling.resolve(0).map(|_| ceiling);
        }
        for (suffix, unit) in [("KiB", 1u64 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)] {
            if let Some(value) = text.strip_suffix(suffix) {
                let bytes = number(value).ok_or_else(bad)? * unit as f64;
                return if bytes < u64::MAX as f64 { Ok(Ceiling::Bytes(bytes as u64)) } else { Err(bad()) };
            }
        }
        text.trim().parse().map(Ceiling::Bytes).map_err(|_| bad())
    }
}

/// Where streamed weights come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceChoice {
    /// `mapped` for weights in files.
    Auto,
    /// Files mapped shared and read-only.
    Mapped,
    /// A private copy in host memory.
    Cpu,
}

impl SourceChoice {
    /// The name in settings and reports.
    pub fn name(self) -> &'static str {
        match self {
            SourceChoice::Auto => "auto",
            SourceChoice::Mapped => "mapped",
            SourceChoice::Cpu => "cpu",
        }
    }
}

impl FromStr for SourceChoice {
    type Err = Error;

    fn from_str(text: &str) -> Result<SourceChoice> {
        match text {
            "auto" => Ok(SourceChoice::Auto),
            "mapped" => Ok(SourceChoice::Mapped),
            "cpu" => Ok(SourceChoice::Cpu),
            "retained" | "ring" => Err(Error::Unsupported {
                what: format!("source {text:?}"),
                reason: "this build streams from `mapped` files and `cpu` memory".into(),
            }),
            _ => Err(Error::invalid("source", format!("{text:?} is none of auto, mapped, cpu"))),
        }
    }
}

/// Settings of one component.
#[derive(Clone, Debug)]
pub struct OffloadConfig {
    /// The device.
    pub driver: Arc<dyn Driver>,
    /// The most device memory that weights may occupy.
    pub ceiling: Ceiling,
    /// Where streamed weights come from.
    pub source: SourceChoice,
    /// Execution slots for streamed units, at least two.
    pub slots: u64,
    /// Whether the next units are uploaded while the current one computes.
    pub look_ahead: bool,
    /// The clock of all host times.
    pub clock: Arc<dyn Clock>,
}

impl OffloadConfig {
    /// Defaults: every weight may be resident, `auto` source, two slots, look-ahead on.
    pub fn new(driver: Arc<dyn Driver>) -> OffloadConfig {
        OffloadConfig {
            driver,
            ceiling: Ceiling::Bytes(u64::MAX),
            source: SourceChoice::Auto,
            slots: crate::limits::MIN_SLOTS,
            look_ahead: true,
            clock: Arc::new(SystemClock),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ceilings_are_read_as_people_write_them() {
        assert_eq!("40%".parse::<Ceiling>().expect("percent"), Ceiling::Percent(40.0));
        assert_eq!("17033011".parse::<Ceiling>().expect("bytes"), Ceiling::Bytes(17_033_011));
        assert_eq!("4GiB".parse::<Ceiling>().expect("GiB"), Ceiling::Bytes(4 << 30));
        assert_eq!("0.5 MiB".parse::<Ceiling>().expect("MiB"), Ceiling::Bytes(512 << 10));
        for bad in ["", "-1", "40 %x", "0%", "101%", "nan%", "1e40GiB", "4GB", "18446744073709551616"] {
            assert!(bad.parse::<Ceiling>().is_err(), "{bad:?}");
        }
    }
}
