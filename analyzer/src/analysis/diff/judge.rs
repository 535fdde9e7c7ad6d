//! One number on two sides: "Is it worse?"
//!
//! Uses `statistics` and the classes. Invariants: missing is missing, never zero; a change from zero has no percentage;
//! no result is not finite; a test that could not have failed is inconclusive, not green.

use super::classes::Class;
use super::figures::{Figure, Number};
use super::gates::{Rule, Setting};
use super::statistics::{self, Effect};
use ddo_schemas::Unit;
use serde::Serialize;

/// The answer for one number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// Worse beyond chance and threshold, or against its rule.
    Regression,
    /// There are too few runs, or one side lacks the number, to say.
    Inconclusive,
    /// Not on both sides.
    Missing,
    /// The base is zero, so that there is no percentage.
    New,
    /// Different, and nothing says which is worse.
    Changed,
    /// Better beyond chance and threshold.
    Improved,
    /// No difference that counts.
    Same,
}

/// One compared number.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric {
    /// Path, behind the component's name where there are several.
    pub path: String,
    /// How it compares.
    pub class: Class,
    /// Its unit.
    pub unit: Unit,
    /// One value a run of the base; `None` where the run lacks it.
    pub base: Vec<Option<Number>>,
    /// The same for the candidate.
    pub candidate: Vec<Option<Number>>,
    /// Median of the candidate minus median of the base.
    pub change: Option<f64>,
    /// The change in percent of the base; `None` for a base of zero.
    pub change_percent: Option<f64>,
    /// One-sided p of the direction that was seen, adjusted for the number of gated times and sizes.
    pub p: Option<f64>,
    /// Size of the difference.
    pub effect: Option<Effect>,
    /// The answer.
    pub verdict: Word,
    /// Why, in words; empty where the numbers speak.
    pub reason: String,
    /// True where it decides over the exit code.
    pub gated: bool,
    /// The rule that was applied.
    pub rule: Rule,
    /// Who answers for it, by the gates file.
    pub owner: Option<String>,
}

/// One-sided chances of both directions, before they are adjusted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Chances {
    pub(super) larger: Option<f64>,
    pub(super) smaller: Option<f64>,
}

impl Metric {
    /// A metric without an answer yet.
    pub(super) fn new(path: &str, base: Vec<Option<Figure>>, candidate: Vec<Option<Figure>>, setting: &Setting) -> Metric {
        let any = base.iter().chain(&candidate).flatten().next().copied();
        let values = |side: &[Option<Figure>]| side.iter().map(|figure| figure.map(|figure| figure.value)).collect::<Vec<_>>();
        let mut metric = Metric {
            path: path.into(),
            class: any.map_or(Class::Informative, |figure| figure.class),
            unit: any.map_or(Unit::Structure, |figure| figure.unit),
            base: values(&base),
            candidate: values(&candidate),
            change: None,
            change_percent: None,
            p: None,
            effect: None,
            verdict: Word::Same,
            reason: String::new(),
            gated: setting.gated,
            rule: setting.rule,
            owner: setting.owner.clone(),
        };
        let (Some(before), Some(after)) = (middle(&metric.base), middle(&metric.candidate)) else { return metric };
        metric.change = finite(after - before);
        metric.change_percent = (before != 0.0).then(|| (after - before) / before.abs() * 100.0).and_then(finite);
        metric
    }

    /// Values of a side, where every run has one.
    fn complete(side: &[Option<Number>]) -> Option<Vec<Number>> {
        side.iter().copied().collect::<Option<Vec<Number>>>().filter(|values| !values.is_empty())
    }

    /// Both sides as floats, where every run has a value.
    pub(super) fn sides(&self) -> Option<(Vec<f64>, Vec<f64>)> {
        let floats = |side: &[Option<Number>]| Metric::complete(side).map(|all| all.into_iter().map(Number::as_f64).collect());
        Some((floats(&self.base)?, floats(&self.candidate)?))
    }

    /// The chances of both directions, where the test applies.
    pub(super) fn chances(&self) -> Chances {
        let Some((base, candidate)) = self.sides() else { return Chances::default() };
        if self.rule != Rule::Statistical || base.len().min(candidate.len()) < super::RUNS_FOR_THE_TEST {
            return Chances::default();
        }
        Chances { larger: statistics::larger(&base, &candidate), smaller: statistics::larger(&candidate, &base) }
    }

    /// Answers, given the adjusted chances.
    pub(super) fn answer(&mut self, setting: &Setting, adjusted: Chances, power: &Power) {
        let (word, reason) = match (Metric::complete(&self.base), Metric::complete(&self.candidate)) {
            (Some(base), Some(candidate)) => match setting.rule {
                Rule::MustBeZero => must_be_zero(&candidate),
                Rule::NoIncrease => no_increase(&base, &candidate, self.change),
                Rule::Exact => exact(&base, &candidate),
                Rule::Statistical | Rule::Off => self.statistical(setting, adjusted, power),
            },
            _ => missing(&self.base, &self.candidate, self.gated),
        };
        (self.verdict, self.reason) = (word, reason);
    }

    fn statistical(&mut self, setting: &Setting, adjusted: Chances, power: &Power) -> (Word, String) {
        let Some((base, candidate)) = self.sides() else { return (Word::Missing, String::new()) };
        self.effect = statistics::ratio(&base, &candidate, super::CONFIDENCE);
        let Some(change) = self.change else { return (Word::Inconclusive, "the numbers are out of range".into()) };
        if change == 0.0 && base == candidate {
            return (Word::Same, String::new());
        }
        let floor = setting.floor.max(power.floor(self));
        if change.abs() <= floor {
            return (Word::Same, format!("the change is within the floor of {}", shown(floor, self.unit)));
        }
        let zero = statistics::median(&base) == Some(0.0);
        let relative = match self.effect {
            Some(effect) => effect.ratio.max(1.0 / effect.ratio) - 1.0,
            // Not all above zero: the medians are all there is.
            None => self.change_percent.map_or(f64::INFINITY, |percent| percent.abs() / 100.0),
        };
        let worse = change > 0.0;
        let word = |real: bool| {
            if !real {
                Word::Same
            } else if worse {
                Word::Regression
            } else {
                Word::Improved
            }
        };
        let runs = base.len().min(candidate.len());
        if runs < 2 {
            let threshold = super::SINGLE_RUN_THRESHOLD;
            return if relative > threshold {
                (word(true), format!("one run a side; the change exceeds {:.0} %", threshold * 100.0))
            } else {
                (Word::Inconclusive, format!("one run a side; need at least {} runs a side", power.needed))
            };
        }
        if zero {
            let text = "the base is zero, so that there is no percentage";
            return if worse { (Word::New, text.into()) } else { (Word::Changed, text.into()) };
        }
        if relative < setting.threshold {
            return (Word::Same, String::new());
        }
        if runs < super::RUNS_FOR_THE_TEST {
            return match separated(&base, &candidate, worse) {
                true => (word(true), format!("every run of one side lies beyond every run of the other; {runs} runs a side")),
                false => (Word::Inconclusive, format!("the sides overlap; need at least {} runs a side", power.needed)),
            };
        }
        self.p = if worse { adjusted.larger } else { adjusted.smaller };
        match self.p {
            Some(p) if p <= power.level => (word(true), String::new()),
            Some(_) if power.smallest(base.len(), candidate.len()) > power.level => {
                (Word::Inconclusive, format!("so few runs cannot show it; need at least {} runs a side", power.needed))
            }
            _ => (Word::Same, "the difference is within chance".into()),
        }
    }
}

/// What the number of runs and metrics allows to say.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Power {
    pub(super) level: f64,
    pub(super) metrics: usize,
    /// Runs a side with which one metric alone can fail.
    pub(super) needed: usize,
}

impl Power {
    /// The smallest adjusted p that one metric alone can reach.
    pub(super) fn smallest(&self, base: usize, candidate: usize) -> f64 {
        statistics::smallest_p(base, candidate) * self.metrics.max(1) as f64
    }

    /// Changes up to this size say nothing, whatever their percentage.
    fn floor(&self, metric: &Metric) -> f64 {
        match metric.unit {
            Unit::Seconds => super::FLOOR_SECONDS,
            Unit::Bytes => super::FLOOR_BYTES,
            _ => 0.0,
        }
    }
}

fn middle(side: &[Option<Number>]) -> Option<f64> {
    let values: Vec<f64> = side.iter().flatten().map(|value| value.as_f64()).collect();
    statistics::median(&values)
}

fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

fn separated(base: &[f64], candidate: &[f64], worse: bool) -> bool {
    let (low, high) = if worse { (base, candidate) } else { (candidate, base) };
    low.iter().all(|low| high.iter().all(|high| low < high))
}

fn missing(base: &[Option<Number>], candidate: &[Option<Number>], gated: bool) -> (Word, String) {
    let lacking = |side: &[Option<Number>]| side.iter().filter(|value| value.is_none()).count();
    let text = format!(
        "unavailable in {} of {} base and {} of {} candidate runs",
        lacking(base),
        base.len(),
        lacking(candidate),
        candidate.len()
    );
    (if gated { Word::Inconclusive } else { Word::Missing }, text)
}

fn must_be_zero(candidate: &[Number]) -> (Word, String) {
    match candidate.iter().filter(|value| value.as_f64() > 0.0).count() {
        0 => (Word::Same, String::new()),
        runs => (Word::Regression, format!("must be zero; {runs} of {} candidate runs show more", candidate.len())),
    }
}

fn no_increase(base: &[Number], candidate: &[Number], change: Option<f64>) -> (Word, String) {
    let above = |value: &&Number| base.iter().all(|base| greater(**value, *base));
    match candidate.iter().filter(above).count() {
        0 if change.is_some_and(|change| change < 0.0) => (Word::Improved, String::new()),
        0 => (Word::Same, String::new()),
        runs => {
            (Word::Regression, format!("may not increase; {runs} of {} candidate runs exceed every base run", candidate.len()))
        }
    }
}

/// Compares whole numbers without rounding.
fn greater(one: Number, other: Number) -> bool {
    match (one, other) {
        (Number::Whole(one), Number::Whole(other)) => one > other,
        (one, other) => one.as_f64() > other.as_f64(),
    }
}

fn exact(base: &[Number], candidate: &[Number]) -> (Word, String) {
    let Some(first) = base.first() else { return (Word::Missing, String::new()) };
    if base.iter().any(|value| value != first) {
        return (Word::Inconclusive, "called deterministic, but the base runs differ among themselves".into());
    }
    match candidate.iter().filter(|value| *value != first).count() {
        0 => (Word::Same, String::new()),
        runs => (Word::Regression, format!("must be equal; {runs} of {} candidate runs differ", candidate.len())),
    }
}

/// A floor as people read it.
fn shown(floor: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds => format!("{:.3} ms", floor * 1e3),
        Unit::Bytes => ddo_schemas::unit::human_bytes(floor as u64),
        _ => format!("{floor}"),
    }
}
