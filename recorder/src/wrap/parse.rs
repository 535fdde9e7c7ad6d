//! "Is this word within the bounds?" Parses the words of a request.
//!
//! May use: schemas, the limits and the wrapper's errors.
//!
//! Invariant: what is returned is within its limits; an error names the option, what was given and what is allowed.

use super::error::WrapError;
use super::request::Monitor;
use super::words::{self, Redactor};
use crate::limits;
use ddo_schemas::settings::{MAX_COMPONENT_CHARS, is_component_name};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::time::Duration;

/// True for 1 to `limit` characters that are safe in a file name and a table header.
fn plain_name(text: &str, limit: usize) -> bool {
    (1..=limit).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

/// A refused word, as its writer sees it.
fn shown(word: &str) -> String {
    words::cut(word, limits::MAX_SHOWN_CHARS)
}

pub(super) fn check_component(name: &str, origin: &'static str) -> Result<(), WrapError> {
    if is_component_name(name) {
        return Ok(());
    }
    Err(WrapError::Component { got: shown(name), origin, limit: MAX_COMPONENT_CHARS })
}

pub(super) fn check_journal(word: &str) -> Result<(), WrapError> {
    match word {
        "steps" | "off" => Ok(()),
        got => Err(WrapError::UnknownWord { option: "--journal", got: shown(got), allowed: "`steps` or `off`" }),
    }
}

pub(super) fn monitor(word: Option<&str>) -> Result<Monitor, WrapError> {
    match word {
        None | Some("rss") => Ok(Monitor::Rss),
        Some("full") => Ok(Monitor::Full),
        Some("off") => Ok(Monitor::Off),
        Some(got) => {
            Err(WrapError::UnknownWord { option: "--memory-monitor", got: shown(got), allowed: "`full`, `rss` or `off`" })
        }
    }
}

/// A module and the calls of it that are to be sampled; their limits are checked with the other settings.
pub(super) fn operators(text: &str) -> Result<(String, Option<Vec<u64>>), WrapError> {
    let Some((module, list)) = text.rsplit_once(':') else { return Ok((text.into(), None)) };
    let index = |word: &str| {
        let plain = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
        word.parse().ok().filter(|_| plain).ok_or_else(|| WrapError::Invocation { got: word.into(), text: text.into() })
    };
    Ok((module.into(), Some(list.split(',').map(index).collect::<Result<_, _>>()?)))
}

/// A size with its unit: KiB, MiB, GiB count in 1024, kB, MB, GB in 1000.
pub(super) fn disk_budget(text: Option<&str>) -> Result<Option<u64>, WrapError> {
    let Some(text) = text else { return Ok(None) };
    let bad = || WrapError::NotASize { got: shown(text) };
    let units: [(&str, u64); 6] =
        [("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("kB", 1000), ("MB", 1_000_000), ("GB", 1_000_000_000)];
    let with_unit = units.iter().find_map(|(unit, scale)| Some((text.strip_suffix(unit)?, *scale)));
    let (number, scale) = with_unit.ok_or_else(bad)?;
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit()) {
        return Err(bad());
    }
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(scale)).ok_or_else(bad)?;
    if bytes < limits::MIN_DISK_BUDGET_BYTES {
        return Err(WrapError::DiskBudget { got: shown(text), least: limits::MIN_DISK_BUDGET_BYTES });
    }
    Ok(Some(bytes))
}

pub(super) fn interval(text: Option<&str>) -> Result<Duration, WrapError> {
    let Some(text) = text else { return Ok(limits::DEFAULT_INTERVAL) };
    let bad = || WrapError::NotADuration { got: shown(text) };
    let (number, scale) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => (text.strip_suffix('s').ok_or_else(bad)?, 1.0),
    };
    if !number.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return Err(bad());
    }
    let seconds = number.parse::<f64>().map_err(|_| bad())? * scale;
    let out_of_range = || WrapError::Interval {
        got: shown(text),
        least_ms: limits::MIN_INTERVAL.as_millis(),
        most_ms: limits::MAX_INTERVAL.as_millis(),
    };
    let interval = Duration::try_from_secs_f64(seconds).map_err(|_| out_of_range())?;
    if (limits::MIN_INTERVAL..=limits::MAX_INTERVAL).contains(&interval) { Ok(interval) } else { Err(out_of_range()) }
}

pub(super) fn labels(texts: &[String]) -> Result<BTreeMap<String, String>, WrapError> {
    if texts.len() > limits::MAX_LABELS {
        return Err(WrapError::TooMany { option: "--label", got: texts.len(), limit: limits::MAX_LABELS });
    }
    let mut labels = BTreeMap::new();
    for text in texts {
        let bad = || WrapError::Label {
            got: shown(text),
            key_limit: limits::MAX_LABEL_KEY_CHARS,
            value_limit: limits::MAX_LABEL_VALUE_BYTES,
        };
        let (key, value) = text.split_once('=').ok_or_else(bad)?;
        if !plain_name(key, limits::MAX_LABEL_KEY_CHARS) || value.len() > limits::MAX_LABEL_VALUE_BYTES {
            return Err(bad());
        }
        if labels.insert(key.to_owned(), value.to_owned()).is_some() {
            return Err(WrapError::LabelTwice { key: key.into() });
        }
    }
    Ok(labels)
}

pub(super) fn redactor(patterns: &[OsString]) -> Result<Redactor, WrapError> {
    if patterns.len() > limits::MAX_PATTERNS {
        return Err(WrapError::TooMany { option: "--redact", got: patterns.len(), limit: limits::MAX_PATTERNS });
    }
    if patterns.iter().any(|p| p.is_empty()) {
        return Err(WrapError::EmptyPattern);
    }
    Ok(Redactor::new(patterns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_have_units_and_limits() {
        for (text, ms) in [("10ms", 10), ("100ms", 100), ("0.5s", 500), ("60s", 60_000)] {
            assert_eq!(interval(Some(text)).expect("valid"), Duration::from_millis(ms), "{text}");
        }
        for text in ["", "100", "ms", "s", "-1s", "1e3ms", "infs", "1 s", "1m", "1.2.3s"] {
            assert!(matches!(interval(Some(text)), Err(WrapError::NotADuration { .. })), "{text}");
        }
        for text in ["0ms", "9ms", "61s", "99999999999999999999999s"] {
            assert!(matches!(interval(Some(text)), Err(WrapError::Interval { .. })), "{text}");
        }
    }

    #[test]
    fn a_module_comes_with_its_calls_or_without() {
        assert_eq!(operators("a.b").expect("valid"), ("a.b".into(), None));
        assert_eq!(operators("a.b:3,0").expect("valid"), ("a.b".into(), Some(vec![3, 0])));
        for text in ["a:", "a:x", "a:1,,2", "a:-1", "a:+1", "a:1.0", "a:99999999999999999999"] {
            assert!(matches!(operators(text), Err(WrapError::Invocation { .. })), "{text}");
        }
    }

    #[test]
    fn budgets_have_units_and_a_least_size() {
        for (text, bytes) in [("1MiB", 1 << 20), ("2GB", 2_000_000_000), ("1500KiB", 1500 << 10), ("3GiB", 3 << 30)] {
            assert_eq!(disk_budget(Some(text)).expect("valid"), Some(bytes), "{text}");
        }
        assert_eq!(disk_budget(None).expect("none"), None);
        for text in ["", "5", "GiB", "1.5GiB", "-1GiB", "1TiB", "1 GiB", "99999999999999GiB", "1gib"] {
            assert!(matches!(disk_budget(Some(text)), Err(WrapError::NotASize { .. })), "{text}");
        }
        assert!(matches!(disk_budget(Some("999kB")), Err(WrapError::DiskBudget { .. })));
    }
}
