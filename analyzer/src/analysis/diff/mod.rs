//! Two sets of runs: "Did the change make it slower, bigger or less safe?"
//!
//! Uses `run`, the other analyses and the catalogue. Invariants: nothing is compared that is not the same experiment; the unit of replication is a
//! run; missing is never zero; every answer says what it rests on.

mod calibrate;
pub mod classes;
mod confirm;
mod diagnosis;
pub mod figures;
pub mod gates;
pub mod identity;
mod judge;
pub mod statistics;

pub use calibrate::{BadCalibration, Calibration, calibrate};
pub use classes::{Better, Class};
pub use confirm::{confirm, to_confirm};
pub use diagnosis::Change;
pub use figures::{Figure, Figures, Number};
pub use gates::{BadGates, Gates, Rule, Setting};
pub use identity::Identity;
pub use judge::{Metric, Word};

use crate::run::Run;
use judge::{Chances, Power};
use std::collections::{BTreeMap, BTreeSet};

/// Accepted chance of a false alarm over all gated times and sizes together.
pub const LEVEL: f64 = 0.05;
/// Confidence of the interval around a ratio.
pub const CONFIDENCE: f64 = 0.95;
/// Smallest relative change that counts.
pub const THRESHOLD: f64 = 0.10;
/// The same where the runs are interleaved or a calibration is given: a drift of the machine hits both sides.
pub const THRESHOLD_INTERLEAVED: f64 = 0.05;
/// Smallest change that counts with one run a side.
pub const SINGLE_RUN_THRESHOLD: f64 = 0.25;
/// Runs a side from which the rank test is used; below it, complete separation.
pub const RUNS_FOR_THE_TEST: usize = 4;
/// Changes of a time up to this say nothing.
pub const FLOOR_SECONDS: f64 = 0.001;
/// Changes of a size up to this say nothing: allocators and page caches move by more.
pub const FLOOR_BYTES: f64 = 1_048_576.0;

/// One run, reduced to what is compared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Side {
    /// Name of its folder.
    pub name: String,
    /// When it started, as text that sorts by time; `None` without a manifest.
    pub started: Option<String>,
    /// Its number among the processes of one job, where it says so.
    pub rank: Option<u64>,
    /// What must be equal.
    pub identity: Identity,
    /// Why it cannot be compared with any other: field and reason.
    pub unsound: Vec<(String, String)>,
    /// Its numbers.
    pub figures: Figures,
    /// What scopes that change what they measure say about themselves; never compared as numbers of a benchmark.
    pub scopes: Figures,
}

impl Side {
    /// Reduces a run; the runs of one job, such as its ranks, are one side together.
    pub fn of(run: &Run) -> Side {
        let one = |run: &Run| Side {
            name: crate::run::shorten(&run.name),
            started: run.manifest.as_ref().map(|manifest| manifest.clocks.wall_utc.clone()),
            rank: run.rank().rank,
            identity: identity::of(run),
            unsound: identity::unsound(run),
            figures: figures::of(run),
            scopes: diagnosis::scopes(run),
        };
        match run.others.is_empty() {
            true => one(run),
            false => Side::of_job(&crate::run::shorten(&run.name), run.all().map(one).collect()),
        }
    }

    /// The ranks of one job as one run: every path begins with the rank.
    pub fn of_job(name: &str, mut ranks: Vec<Side>) -> Side {
        ranks.sort_by_key(|side| side.rank.unwrap_or(u64::MAX));
        let mut job =
            Side { name: name.into(), started: ranks.iter().map(|side| side.started.clone()).min().flatten(), ..Side::default() };
        job.identity.insert("ranks".into(), ranks.len().to_string());
        for side in ranks {
            let prefix = side.rank.map_or_else(|| side.name.clone(), |rank| format!("rank-{rank}"));
            job.unsound.extend(side.unsound.into_iter().map(|(field, reason)| (field, format!("{}: {reason}", side.name))));
            job.identity.extend(side.identity.into_iter().map(|(field, value)| (format!("{prefix}/{field}"), value)));
            job.scopes.extend(side.scopes.into_iter().map(|(path, figure)| (format!("{prefix}/{path}"), figure)));
            job.figures.extend(side.figures.into_iter().map(|(path, figure)| (format!("{prefix}/{path}"), figure)));
        }
        job
    }

    /// True for runs that are all different ranks of one job.
    pub fn are_one_job(sides: &[Side]) -> bool {
        let ranks: BTreeSet<u64> = sides.iter().filter_map(|side| side.rank).collect();
        sides.len() > 1 && ranks.len() == sides.len()
    }
}

/// What a comparison was asked to do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiffOptions {
    /// Gates by name.
    pub gates: Gates,
    /// Fields that may differ; every output then says that the runs are not comparable.
    pub allow: BTreeSet<String>,
    /// Metrics to judge; all where it is `None`. Used to confirm a regression on fresh runs.
    pub only: Option<BTreeSet<String>>,
}

/// The answer for two sets of runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No gated number is worse, none is better.
    Same,
    /// No gated number is worse, at least one is better.
    Improved,
    /// A gated number is worse.
    Regression,
    /// Nothing is worse, and a gated number cannot be judged.
    Inconclusive,
    /// Not the same experiment.
    NotComparable,
}

impl Verdict {
    /// The word in outputs.
    pub const fn word(self) -> &'static str {
        match self {
            Verdict::Same => "same",
            Verdict::Improved => "improved",
            Verdict::Regression => "regression",
            Verdict::Inconclusive => "inconclusive",
            Verdict::NotComparable => "not_comparable",
        }
    }

    /// The exit code; an inconclusive answer fails only where that is asked for.
    pub const fn exit_code(self, strict: bool) -> u8 {
        match self {
            Verdict::Same | Verdict::Improved => 0,
            Verdict::Regression => 1,
            Verdict::NotComparable => 3,
            Verdict::Inconclusive => {
                if strict {
                    4
                } else {
                    0
                }
            }
        }
    }
}

/// A field in which the runs are not the same experiment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Difference {
    /// The field, as `--allow` takes it.
    pub field: String,
    /// What is different, with both values.
    pub text: String,
    /// True where it was allowed.
    pub allowed: bool,
}

/// Everything that one comparison says.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The answer.
    pub verdict: Verdict,
    /// Why, in words, the gravest first.
    pub reasons: Vec<String>,
    /// False where a difference was allowed.
    pub comparable: bool,
    /// In what the runs differ that should not.
    pub differences: Vec<Difference>,
    /// Names of the base's runs.
    pub base: Vec<String>,
    /// Names of the candidate's runs.
    pub candidate: Vec<String>,
    /// True where the runs of both sides alternate in time.
    pub interleaved: bool,
    /// Runs that were left out, with the reason.
    pub left_out: Vec<String>,
    /// Whether a second batch showed a regression again; `None` without one.
    pub confirmed: Option<bool>,
    /// Where nothing but a diagnosis keeps the runs apart: what it changed. No verdict follows from it.
    pub diagnostic_changes: Vec<Change>,
    /// The numbers: regressions first, then what cannot be judged, then the others.
    pub metrics: Vec<Metric>,
}

/// Compares two sets of runs.
pub fn compare(base: &[Side], candidate: &[Side], options: &DiffOptions) -> Comparison {
    let differences = differences(base, candidate, &options.allow);
    let mut comparison = Comparison {
        verdict: Verdict::NotComparable,
        reasons: Vec::new(),
        comparable: differences.is_empty(),
        base: base.iter().map(|side| side.name.clone()).collect(),
        candidate: candidate.iter().map(|side| side.name.clone()).collect(),
        interleaved: interleaved(base, candidate),
        differences,
        left_out: Vec::new(),
        confirmed: None,
        diagnostic_changes: Vec::new(),
        metrics: Vec::new(),
    };
    let refused: Vec<&Difference> = comparison.differences.iter().filter(|one| !one.allowed).collect();
    if !refused.is_empty() {
        let reasons = refused.iter().map(|one| format!("{}: {}", one.field, one.text)).collect();
        comparison.diagnostic_changes = diagnosis::changes(base, candidate, &refused);
        comparison.reasons = reasons;
        return comparison;
    }
    comparison.metrics = judge_all(base, candidate, options, comparison.interleaved);
    conclude(&mut comparison, is_self(base, candidate));
    comparison
}

/// What keeps the runs from being the same experiment. Every run is compared with the first of the base.
fn differences(base: &[Side], candidate: &[Side], allow: &BTreeSet<String>) -> Vec<Difference> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for side in base.iter().chain(candidate) {
        for (field, reason) in &side.unsound {
            found.entry(field.clone()).or_insert_with(|| format!("{}: {reason}", side.name));
        }
        let Some(first) = base.first() else { continue };
        for (field, one, other) in identity::differences(&first.identity, &side.identity) {
            let (one, other) = (crate::run::shorten(one), crate::run::shorten(other));
            found.entry(field.to_string()).or_insert_with(|| format!("{one} in {}, {other} in {}", first.name, side.name));
        }
    }
    let difference = |(field, text): (String, String)| Difference { allowed: allow.contains(&field), field, text };
    found.into_iter().map(difference).collect()
}

/// True where no more than two runs of one side follow each other: A B B A A B ..
fn interleaved(base: &[Side], candidate: &[Side]) -> bool {
    let of = |sides: &[Side], candidate: bool| -> Option<Vec<(String, bool)>> {
        sides.iter().map(|side| side.started.clone().map(|started| (started, candidate))).collect()
    };
    let (Some(mut all), Some(more)) = (of(base, false), of(candidate, true)) else { return false };
    all.extend(more);
    all.sort();
    let same = |three: &[(String, bool)]| three.iter().all(|(_, side)| three.first().is_some_and(|(_, first)| first == side));
    all.len() >= 4 && !base.is_empty() && !candidate.is_empty() && !all.windows(3).any(same)
}

/// The same runs on both sides.
fn is_self(base: &[Side], candidate: &[Side]) -> bool {
    base.len() == candidate.len()
        && base.iter().zip(candidate).all(|(one, other)| one.started == other.started && one.figures == other.figures)
}

fn judge_all(base: &[Side], candidate: &[Side], options: &DiffOptions, interleaved: bool) -> Vec<Metric> {
    let default = if interleaved { THRESHOLD_INTERLEAVED } else { THRESHOLD };
    let mut paths: BTreeSet<&str> =
        base.iter().chain(candidate).flat_map(|side| side.figures.keys()).map(String::as_str).collect();
    // A gate names a metric that no run has: shown as missing, never passed over.
    let known: BTreeSet<&str> = paths.iter().flat_map(|path| [*path, classes::plain(path)]).collect();
    paths.extend(options.gates.gates.keys().map(String::as_str).filter(|path| !known.contains(*path)));
    if let Some(only) = &options.only {
        paths.retain(|path| only.contains(*path));
    }
    let get = |sides: &[Side], path: &str| sides.iter().map(|side| side.figures.get(path).copied()).collect::<Vec<_>>();
    let mut judged: Vec<(Metric, Setting, Chances)> = Vec::new();
    for path in paths {
        let any = base.iter().chain(candidate).find_map(|side| side.figures.get(path));
        let (class, unit) = any.map_or((Class::Informative, ddo_schemas::Unit::Structure), |figure| (figure.class, figure.unit));
        let mut setting = options.gates.setting(path, class, unit, default);
        let resolution = any.map_or(0.0, |figure| figure.resolution);
        setting.floor = setting.floor.max(2.0 * resolution);
        let mut metric = Metric::new(path, get(base, path), get(candidate, path), &setting);
        let chances = metric.chances();
        judged.push((metric, setting, chances));
    }
    adjust(&mut judged);
    let metrics = judged.iter().filter(|(metric, setting, _)| metric.gated && setting.rule == Rule::Statistical).count();
    let level = options.gates.level.unwrap_or(LEVEL);
    let fewest = statistics::runs_needed(level, metrics).unwrap_or(crate::limits::MAX_EXACT_RUNS);
    let needed = fewest.max(RUNS_FOR_THE_TEST);
    let power = Power { level, metrics, needed };
    let mut metrics: Vec<Metric> = judged
        .into_iter()
        .map(|(mut metric, setting, chances)| {
            metric.answer(&setting, chances, &power);
            metric
        })
        .collect();
    metrics.sort_by(order);
    metrics
}

/// The order of the table, the size of the change and then the path where places are equal.
fn order(a: &Metric, b: &Metric) -> std::cmp::Ordering {
    place(a).cmp(&place(b)).then_with(|| size(b).total_cmp(&size(a))).then_with(|| a.path.cmp(&b.path))
}

/// Adjusts the chances of all gated times and sizes together; each direction is a family of its own.
fn adjust(judged: &mut [(Metric, Setting, Chances)]) {
    let pick: [fn(&mut Chances) -> &mut Option<f64>; 2] = [|chances| &mut chances.larger, |chances| &mut chances.smaller];
    for of in pick {
        let mut gated: Vec<&mut f64> =
            judged.iter_mut().filter(|(metric, _, _)| metric.gated).filter_map(|(_, _, chances)| of(chances).as_mut()).collect();
        let adjusted = statistics::adjusted(&gated.iter().map(|p| **p).collect::<Vec<_>>());
        gated.iter_mut().zip(adjusted).for_each(|(p, adjusted)| **p = adjusted);
    }
}

/// Order of the table: gated regressions by class and list, then what cannot be judged, then the rest.
fn place(metric: &Metric) -> (bool, bool, Word, Class, usize) {
    let plain = classes::plain(&metric.path);
    let listed = classes::GATED_BY_DEFAULT.iter().position(|path| *path == plain).unwrap_or(usize::MAX);
    // What starts from zero is as bad as what grew: the class decides.
    let word = if metric.verdict == Word::New { Word::Regression } else { metric.verdict };
    (!metric.gated, !metric.verdict.is_worse(), word, metric.class, listed)
}

fn size(metric: &Metric) -> f64 {
    metric.change_percent.map_or(0.0, f64::abs)
}

/// What a metric says in one line.
fn line(metric: &Metric) -> String {
    match (metric.change_percent, metric.reason.is_empty()) {
        (Some(percent), true) => format!("{} {percent:+.1} %", metric.path),
        (Some(percent), false) => format!("{} {percent:+.1} %: {}", metric.path, metric.reason),
        (None, _) => format!("{}: {}", metric.path, metric.reason),
    }
}

/// The answer and its reasons, from the metrics.
fn conclude(comparison: &mut Comparison, same: bool) {
    let gated = |of: fn(Word) -> bool| comparison.metrics.iter().filter(move |metric| metric.gated && of(metric.verdict));
    let worse = |word: Word| word.is_worse();
    let open = |word: Word| matches!(word, Word::Inconclusive | Word::Missing);
    let better = |word: Word| word == Word::Improved;
    let none = !comparison.metrics.iter().any(|metric| metric.gated);
    let verdict = if gated(worse).next().is_some() {
        Verdict::Regression
    } else if none || gated(open).next().is_some() {
        Verdict::Inconclusive
    } else if gated(better).next().is_some() {
        Verdict::Improved
    } else {
        Verdict::Same
    };
    let mut reasons: Vec<String> = [worse, open, better].into_iter().flat_map(|of| gated(of).map(line)).collect();
    if none {
        reasons.push("no number that the runs have is gated, so nothing could have failed".into());
    }
    if same {
        reasons.insert(0, "both sides are the same runs".into());
    }
    let timed = |metric: &Metric| metric.gated && metric.class == Class::Time;
    if !none && !comparison.metrics.iter().any(timed) {
        reasons.push("no time is gated: the runs have neither step times nor two journal records".into());
    }
    for difference in &comparison.differences {
        reasons.push(format!("not comparable, allowed: {}: {}", difference.field, difference.text));
    }
    (comparison.verdict, comparison.reasons) = (verdict, reasons);
}

#[cfg(test)]
mod tests;
