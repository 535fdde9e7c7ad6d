//! Gates: "What may make a pipeline fail, and from where on?"
//!
//! Uses the classes and the catalogue. Invariants: a name that no metric can have is refused; every threshold is
//! checked against its range; what a file does not say comes from the catalogue.

use super::classes::{self, Better, Class, plain};
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

impl Rule {
    /// The word in outputs and gates files.
    pub const fn word(self) -> &'static str {
        match self {
            Rule::Statistical => "statistical",
            Rule::Exact => "exact",
            Rule::MustBeZero => "must_be_zero",
            Rule::NoIncrease => "no_increase",
            Rule::Off => "off",
        }
    }
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
    /// The good direction, lower unless given; for the statistical rule.
    pub better: Option<Better>,
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
    /// Measured noise by metric path, in percent: the threshold of a metric without its own.
    #[serde(default)]
    pub calibration: BTreeMap<String, f64>,
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
    /// A threshold beside a rule that has none: it would never be looked at.
    #[error("{name} has a threshold, a floor or a direction beside a rule that uses none; only `statistical` does")]
    Idle {
        /// Where it stands.
        name: String,
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
        let names = gates.gates.len().max(gates.calibration.len());
        if names > MAX_GATES {
            return Err(BadGates::TooMany { got: names, limit: MAX_GATES });
        }
        in_range("level", "the file", gates.level, 0.5)?;
        in_range("threshold_percent", "the file", gates.threshold_percent, MAX_THRESHOLD_PERCENT)?;
        for (path, gate) in &gates.gates {
            if !is_metric(path) {
                return Err(BadGates::UnknownMetric(crate::run::shorten(path)));
            }
            in_range("threshold_percent", path, gate.threshold_percent, MAX_THRESHOLD_PERCENT)?;
            in_range("floor", path, gate.floor, f64::MAX)?;
            let statistical = matches!(gate.rule, None | Some(Rule::Statistical));
            let numbers = gate.threshold_percent.is_some() || gate.floor.is_some() || gate.better.is_some();
            if numbers && !statistical {
                return Err(BadGates::Idle { name: crate::run::shorten(path) });
            }
        }
        for (path, percent) in &gates.calibration {
            if !is_metric(path) {
                return Err(BadGates::UnknownMetric(crate::run::shorten(path)));
            }
            in_range("calibration", path, Some(*percent), MAX_THRESHOLD_PERCENT)?;
        }
        Ok(gates)
    }

    /// How a metric is judged; `default` is the threshold of a metric for which nothing else gives one.
    pub fn setting(&self, path: &str, class: Class, unit: Unit, default: f64) -> Setting {
        // A gate may name a metric of one component, or of every component.
        let named = self.gates.get(path).or_else(|| self.gates.get(plain(path)));
        let measured = self.calibration.get(path).or_else(|| self.calibration.get(plain(path))).copied();
        let numbers = |gate: &Gate| gate.threshold_percent.is_some() || gate.floor.is_some() || gate.better.is_some();
        let by_class = match class {
            Class::MustBeZero => Rule::MustBeZero,
            Class::NoIncrease => Rule::NoIncrease,
            Class::Deterministic if unit == Unit::Bytes => Rule::NoIncrease,
            Class::Deterministic => Rule::Exact,
            Class::Time | Class::Gauge | Class::Informative | Class::Planned => Rule::Statistical,
        };
        let rule = match named {
            Some(gate) => gate.rule.unwrap_or(if numbers(gate) { Rule::Statistical } else { by_class }),
            None => by_class,
        };
        let percent = named.and_then(|gate| gate.threshold_percent).or(measured).or(self.threshold_percent);
        let direction = if named.is_some() { Some(Better::Lower) } else { classes::better(path, class) };
        Setting {
            gated: rule != Rule::Off && (named.is_some() || classes::gated_by_default(path, class, unit)),
            named: named.is_some(),
            rule,
            threshold: percent.map_or(default, |percent| percent / 100.0),
            floor: named.and_then(|gate| gate.floor).unwrap_or(match unit {
                Unit::Seconds => super::FLOOR_SECONDS,
                Unit::Bytes => super::FLOOR_BYTES,
                _ => 0.0,
            }),
            better: named.and_then(|gate| gate.better).or(direction),
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
    /// The good direction; `None` where a change is neither good nor bad.
    pub better: Option<Better>,
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
    let plain = plain(path);
    let derived = [FIRST_STEP, HOST_STEP, DURATION].contains(&plain) || plain.starts_with("units[");
    let numeric = |unit: Unit| !matches!(unit, Unit::Label | Unit::Text | Unit::Flag | Unit::Structure | Unit::Version);
    derived || catalogue::find(plain).is_some_and(|row| numeric(row.field.unit) && of_a_run(plain))
}

/// True where the path belongs to what is collected from a run.
fn of_a_run(path: &str) -> bool {
    let parts = ["runtime.vmm.", "runtime.execution_timing.", "runtime.state.planner_decisions.", "runtime.native_timeline."];
    parts.iter().any(|part| path.starts_with(part)) || path.starts_with("manifest_end.peak_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::diff::figures::{STEADY_STEP, WEIGHTS};

    #[test]
    fn a_file_names_rules_thresholds_floors_and_owners() {
        let text = format!(
            "level = 0.01\nthreshold_percent = 8\n[gates.\"{STEADY_STEP}\"]\nthreshold_percent = 3\nfloor = 0.002\nowner = \"kernels\"\n\
             [gates.\"runtime.vmm.fast_gpu_prefetch_hits\"]\nbetter = \"higher\"\n[gates.\"runtime.vmm.fast_uploads\"]\nrule = \"off\"\n\
             [calibration]\n\"{WEIGHTS}\" = 6.5\n"
        );
        let gates = Gates::parse(&text).expect("well formed");
        let steady = gates.setting(STEADY_STEP, Class::Time, Unit::Seconds, 0.10);
        assert_eq!((steady.threshold, steady.floor, steady.owner.as_deref()), (0.03, 0.002, Some("kernels")));
        let weights = gates.setting(&format!("rank-0/x/{WEIGHTS}"), Class::Gauge, Unit::Bytes, 0.10);
        assert_eq!((weights.threshold, weights.named, weights.gated), (0.065, false, true));
        let hits = gates.setting("runtime.vmm.fast_gpu_prefetch_hits", Class::Informative, Unit::Count("units"), 0.10);
        assert_eq!((hits.better, hits.rule, hits.gated), (Some(Better::Higher), Rule::Statistical, true));
        assert!(!gates.setting("runtime.vmm.fast_uploads", Class::Deterministic, Unit::Count("units"), 0.1).gated);
        let other = gates.setting("runtime.execution_timing.tail_seconds", Class::Time, Unit::Seconds, 0.10);
        assert_eq!((other.threshold, other.gated), (0.08, false));
    }

    #[test]
    fn what_no_metric_can_be_is_refused() {
        let refused = |text: &str| Gates::parse(text).expect_err(text);
        assert!(matches!(refused("gates = 1"), BadGates::Syntax(_)));
        assert!(matches!(refused("[gates.x]\nrule = \"never\""), BadGates::Syntax(_)));
        assert!(matches!(refused("[gates.x]\nthreshold = 1"), BadGates::Syntax(_)));
        for name in ["x", "runtime.vmm.fast_uploadz", "configuration.driver", "manifest.tool", "runtime.vmm"] {
            assert_eq!(refused(&format!("[gates.\"{name}\"]")), BadGates::UnknownMetric(name.into()));
        }
        assert!(matches!(refused("[calibration]\nx = 5"), BadGates::UnknownMetric(_)));
        for bad in ["0", "-1", "901", "nan", "inf"] {
            let text = format!("[gates.\"{STEADY_STEP}\"]\nthreshold_percent = {bad}");
            assert!(matches!(refused(&text), BadGates::OutOfRange { what: "threshold_percent", .. }), "{bad}");
            assert!(matches!(refused(&format!("threshold_percent = {bad}")), BadGates::OutOfRange { .. }), "{bad}");
        }
        assert!(matches!(refused("level = 0.6"), BadGates::OutOfRange { what: "level", .. }));
        let idle = format!("[gates.\"{STEADY_STEP}\"]\nrule = \"exact\"\nthreshold_percent = 5");
        assert!(matches!(refused(&idle), BadGates::Idle { .. }));
        let many: String = (0..=MAX_GATES).map(|at| format!("\"units[{at}].execution_unit_window\" = 5\n")).collect();
        let many = format!("[calibration]\n{many}");
        assert!(matches!(refused(&many), BadGates::TooMany { .. }));
    }
}
