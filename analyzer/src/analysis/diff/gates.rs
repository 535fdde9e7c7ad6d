//! Gates: "What may make a pipeline fail, and from where on?"
//!
//! Uses the classes and the catalogue. Invariants: a name that no metric can have is refused; every threshold is
//! checked against its range; what a file does not say comes from the catalogue.

use super::classes::{self, Class};
use super::figures::{DURATION, FIRST_STEP, HOST_STEP};
use crate::limits::{MAX_GATES, MAX_THRESHOLD_PERCENT};
use ddo_schemas::{Unit, catalogue};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a number is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rule {
    /// By the number of runs: separation, or a rank test, with a threshold and a floor.
    Statistical,
    /// Every candidate run equals the base.
    Exact,
    /// No candidate run shows more than zero.
    MustBeZero,
    /// No candidate run exceeds every base run.
    NoIncrease,
    /// Shown, never a reason to fail.
    Off,
}

/// One gate of a gates file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gate {
    /// The rule; that of the metric's class unless given.
    pub rule: Option<Rule>,
    /// Smallest relative change that counts, in percent.
    pub threshold_percent: Option<f64>,
    /// Smallest absolute change that counts, in the metric's unit.
    pub floor: Option<f64>,
    /// Who answers for it.
    pub owner: Option<String>,
}

/// A gates file.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gates {
    /// Chance of a false alarm that is accepted over all gated times and sizes, 0.05 unless given.
    pub level: Option<f64>,
    /// Threshold of every metric without its own, in percent.
    pub threshold_percent: Option<f64>,
    /// Gates by metric path.
    #[serde(default)]
    pub gates: BTreeMap<String, Gate>,
}

/// What is wrong with a gates file.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BadGates {
    /// Not TOML, or a key that does not exist.
    #[error("the gates file cannot be read: {0}")]
    Syntax(String),
    /// A name that no metric has.
    #[error("no metric is called {0:?}; `ddo-analyze explain --all` lists the fields")]
    UnknownMetric(String),
    /// A number outside its range.
    #[error("{what} of {name} is {got}; it must be above 0 and at most {limit}")]
    OutOfRange {
        /// Which number.
        what: &'static str,
        /// Where it stands.
        name: String,
        /// What was given.
        got: f64,
        /// The most that is possible.
        limit: f64,
    },
    /// More gates than anyone means.
    #[error("the gates file names {got} metrics; the limit is {limit}")]
    TooMany {
        /// How many.
        got: usize,
        /// The most.
        limit: usize,
    },
}

impl Gates {
    /// Reads a gates file.
    ///
    /// # Errors
    /// When it is not TOML, names what does not exist, or a number is out of range.
    pub fn parse(text: &str) -> Result<Gates, BadGates> {
        let gates: Gates = toml::from_str(text).map_err(|error| BadGates::Syntax(crate::run::shorten(&error.to_string())))?;
        if gates.gates.len() > MAX_GATES {
            return Err(BadGates::TooMany { got: gates.gates.len(), limit: MAX_GATES });
        }
        in_range("level", "the file", gates.level, 0.5)?;
        in_range("threshold_percent", "the file", gates.threshold_percent, MAX_THRESHOLD_PERCENT)?;
        for (path, gate) in &gates.gates {
            if !is_metric(path) {
                return Err(BadGates::UnknownMetric(crate::run::shorten(path)));
            }
            in_range("threshold_percent", path, gate.threshold_percent, MAX_THRESHOLD_PERCENT)?;
            in_range("floor", path, gate.floor, f64::MAX)?;
        }
        Ok(gates)
    }

    /// How a metric is judged.
    pub fn setting(&self, path: &str, class: Class, unit: Unit, threshold: f64) -> Setting {
        // A gate may name a metric of one component, or of every component.
        let plain = path.split_once('/').map_or(path, |(_, plain)| plain);
        let named = self.gates.get(path).or_else(|| self.gates.get(plain));
        let rule = named.and_then(|gate| gate.rule).unwrap_or(match class {
            Class::MustBeZero => Rule::MustBeZero,
            Class::NoIncrease => Rule::NoIncrease,
            Class::Deterministic if unit == Unit::Bytes => Rule::NoIncrease,
            Class::Deterministic => Rule::Exact,
            Class::Time | Class::Gauge | Class::Informative | Class::Planned => Rule::Statistical,
        });
        let percent = named.and_then(|gate| gate.threshold_percent).or(self.threshold_percent);
        Setting {
            gated: rule != Rule::Off && (named.is_some() || classes::gated_by_default(path, class, unit)),
            named: named.is_some(),
            rule,
            threshold: percent.map_or(threshold, |percent| percent / 100.0),
            floor: named.and_then(|gate| gate.floor).unwrap_or(0.0),
            owner: named.and_then(|gate| gate.owner.clone()),
        }
    }
}

/// How one metric is judged.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// True where it decides over the exit code.
    pub gated: bool,
    /// True where the gates file names it.
    pub named: bool,
    /// The rule.
    pub rule: Rule,
    /// Smallest relative change that counts, as a fraction.
    pub threshold: f64,
    /// Smallest absolute change that counts, in the metric's unit.
    pub floor: f64,
    /// Who answers for it.
    pub owner: Option<String>,
}

fn in_range(what: &'static str, name: &str, got: Option<f64>, limit: f64) -> Result<(), BadGates> {
    match got {
        Some(got) if !(got > 0.0 && got <= limit) => {
            Err(BadGates::OutOfRange { what, name: crate::run::shorten(name), got, limit })
        }
        _ => Ok(()),
    }
}

/// True for a path that a metric can have.
fn is_metric(path: &str) -> bool {
    let plain = path.split_once('/').map_or(path, |(_, plain)| plain);
    [FIRST_STEP, HOST_STEP, DURATION].contains(&plain) || plain.starts_with("units[") || catalogue::find(plain).is_some()
}
