//! One number on two sides: "Is it worse?"
//!
//! Uses `statistics` and the classes. Invariants: missing is missing, never zero; a change from zero has no percentage;
//! no result is not finite; a test that could not have failed is inconclusive, not green.

use super::classes::{Better, Class};
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
    /// Worse from a base of zero, so that there is no percentage.
    New,
    /// There are too few runs, or one side lacks the number, to say.
    Inconclusive,
    /// Not on both sides.
    Missing,
    /// Different, and nothing says which is worse.
    Changed,
    /// Better beyond chance and threshold.
    Improved,
    /// No difference that counts.
    Same,
}

impl Word {
    /// The word in outputs.
    pub const fn word(self) -> &'static str {
        match self {
            Word::Regression => "regression",
            Word::New => "new",
            Word::Inconclusive => "inconclusive",
            Word::Missing => "missing",
            Word::Changed => "changed",
            Word::Improved => "improved",
            Word::Same => "same",
        }
    }

    /// True for the words that make a gate fail.
    pub const fn is_worse(self) -> bool {
        matches!(self, Word::Regression | Word::New)
    }
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
    /// Smallest relative change that counts, as a fraction.
    pub threshold: f64,
    /// Smallest absolute change that counts.
    pub floor: f64,
    /// Who answers for it, by the gates file.
    pub owner: Option<String>,
    /// Chances of both directions, not adjusted; for numbers that are not gated.
    alone: Chances,
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
            threshold: setting.threshold,
            floor: setting.floor,
            owner: setting.owner.clone(),
            alone: Chances::default(),
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
    pub(super) fn chances(&mut self) -> Chances {
        let Some((base, candidate)) = self.sides() else { return Chances::default() };
        let statistical = matches!(self.rule, Rule::Statistical | Rule::Off);
        if !statistical || base.len().min(candidate.len()) < super::RUNS_FOR_THE_TEST {
            return Chances::default();
        }
        self.alone = Chances { larger: statistics::larger(&base, &candidate), smaller: statistics::larger(&candidate, &base) };
        // Only what is gated takes part in the adjustment.
        if self.gated { self.alone } else { Chances::default() }
    }

    /// True for a rule that an accident can break: the numbers of a second batch of runs may clear it.
    pub fn is_chance(&self) -> bool {
        self.rule == Rule::Statistical
    }

    /// Answers, given the adjusted chances.
    pub(super) fn answer(&mut self, setting: &Setting, adjusted: Chances, power: &Power) {
        let (word, reason) = match (Metric::complete(&self.base), Metric::complete(&self.candidate)) {
            // A failure is one, whatever the other runs say or do not say.
            _ if setting.rule == Rule::MustBeZero && self.candidate.iter().flatten().any(|value| value.as_f64() > 0.0) => {
                must_be_zero(&self.candidate)
            }
            // And none is none, whatever the base lacks.
            (None, Some(_)) if setting.rule == Rule::MustBeZero => (Word::Same, String::new()),
            (Some(base), Some(candidate)) => match setting.rule {
                Rule::MustBeZero => (Word::Same, String::new()),
                Rule::NoIncrease => no_increase(&base, &candidate, self.change),
                Rule::Exact => exact(&base, &candidate, self.gated),
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
        if base == candidate {
            return (Word::Same, String::new());
        }
        let seen = Seen::of(change, self.effect, &base, &candidate);
        let word = seen.word(setting.better);
        let beyond_floor = change.abs() > setting.floor;
        let runs = base.len().min(candidate.len());
        if runs < 2 {
            let threshold = setting.threshold.max(super::SINGLE_RUN_THRESHOLD);
            return if beyond_floor && seen.relative > threshold {
                (word, seen.reason(format!("one run a side; the change exceeds {:.0} %", threshold * 100.0)))
            } else {
                (Word::Inconclusive, format!("one run a side; need at least {} runs a side", power.needed))
            };
        }
        if runs >= super::RUNS_FOR_THE_TEST && statistics::smallest_p(base.len(), candidate.len()) > power.level {
            let text = format!("so few runs can never show it at a level of {}; need at least {}", power.level, power.needed);
            return (Word::Inconclusive, format!("{text} runs a side"));
        }
        if !beyond_floor {
            return (Word::Same, format!("the change is within the floor of {}", shown(setting.floor, self.unit)));
        }
        if seen.relative < setting.threshold {
            let medians = self.change_percent.is_some_and(|percent| percent.abs() / 100.0 >= setting.threshold);
            let text = "the medians differ, but the typical ratio of one run to another stays within the threshold";
            return (Word::Same, if medians { text.into() } else { String::new() });
        }
        if runs < super::RUNS_FOR_THE_TEST {
            let text = format!("every run of one side lies beyond every run of the other; {runs} runs a side");
            return match separated(&base, &candidate, seen.rises) {
                true => (word, seen.reason(text)),
                false => (Word::Inconclusive, format!("the sides overlap; need at least {} runs a side", power.needed)),
            };
        }
        self.p = if seen.rises { adjusted.larger } else { adjusted.smaller };
        match self.p.or(if seen.rises { self.alone.larger } else { self.alone.smaller }) {
            Some(p) if p <= power.level => (word, seen.reason(String::new())),
            Some(_) if self.gated && power.smallest(base.len(), candidate.len()) > power.level => {
                let text = format!("alone among {} gated times and sizes, so few runs cannot show it", power.metrics);
                (Word::Inconclusive, format!("{text}; need at least {} runs a side", power.needed))
            }
            _ => (Word::Same, "the difference is within chance".into()),
        }
    }
}

/// What is seen of a difference, before anyone asks whether it is chance.
struct Seen {
    /// The candidate shows more.
    rises: bool,
    /// How much more or less, as a fraction of the smaller side; the same when the sides are exchanged.
    relative: f64,
    /// Every base run shows zero.
    from_zero: bool,
}

impl Seen {
    fn of(change: f64, effect: Option<Effect>, base: &[f64], candidate: &[f64]) -> Seen {
        let from_zero = base.iter().all(|value| *value == 0.0);
        if let Some(effect) = effect.filter(|effect| effect.ratio > 0.0) {
            return Seen { rises: effect.ratio > 1.0, relative: effect.ratio.max(1.0 / effect.ratio) - 1.0, from_zero };
        }
        // Not all above zero: the medians are all there is.
        let size = |side: &[f64]| statistics::median(side).map_or(0.0, f64::abs);
        let smaller = size(base).min(size(candidate));
        let relative = if smaller > 0.0 { change.abs() / smaller } else { f64::INFINITY };
        Seen { rises: change > 0.0, relative, from_zero }
    }

    /// The word for it, if it is no chance.
    fn word(&self, better: Option<Better>) -> Word {
        match (better, self.rises) {
            (None, _) if self.from_zero => Word::New,
            (None, _) => Word::Changed,
            (Some(Better::Lower), true) if self.from_zero => Word::New,
            (Some(Better::Lower), true) | (Some(Better::Higher), false) => Word::Regression,
            (Some(Better::Lower), false) | (Some(Better::Higher), true) => Word::Improved,
        }
    }

    fn reason(&self, text: String) -> String {
        let zero = "the base is zero, so that there is no percentage";
        match (self.from_zero, text.is_empty()) {
            (false, _) => text,
            (true, true) => zero.into(),
            (true, false) => format!("{zero}; {text}"),
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

fn must_be_zero(candidate: &[Option<Number>]) -> (Word, String) {
    let runs = candidate.iter().flatten().filter(|value| value.as_f64() > 0.0).count();
    (Word::Regression, format!("must be zero; {runs} of {} candidate runs show more", candidate.len()))
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

fn exact(base: &[Number], candidate: &[Number], gated: bool) -> (Word, String) {
    let Some(first) = base.first() else { return (Word::Missing, String::new()) };
    if base.iter().any(|value| value != first) {
        return (Word::Inconclusive, "called deterministic, but the base runs differ among themselves".into());
    }
    let word = if gated { Word::Regression } else { Word::Changed };
    match candidate.iter().filter(|value| *value != first).count() {
        0 => (Word::Same, String::new()),
        runs => (word, format!("equal runs give equal values; {runs} of {} candidate runs differ", candidate.len())),
    }
}

/// A floor as people read it.
fn shown(floor: f64, unit: Unit) -> String {
    match unit {
        Unit::Seconds => format!("{:.3} ms", floor * 1e3),
        Unit::Bytes => ddo_schemas::unit::human_bytes(floor as u64),
        _ => format!("{floor:?}"),
    }
}
