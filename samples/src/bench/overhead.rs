//! What does each scope of observation cost a step? Runs without and with it, in turn, on one attached component.
//!
//! May use: the workload and timing of `stream`, the recorder's scopes.
//!
//! Invariants: the two runs of a pair follow each other directly, and which goes first alternates; the order of scopes rotates; a
//! run is timed from idle compute to idle compute, so what a scope costs before and after is told apart; a pair of two runs
//! without any scope shows the noise; every run's results are compared. Rounds are taken until the time is used up.

use super::line::Machine;
use super::stream::{Setting, attach_settled, close, timed_steps};
use super::workload::{Prepared, Workload};
use super::{BenchSource, OverheadArgs, StreamArgs, WARM_STEPS};
use crate::args::DriverKind;
use crate::run::RunError;
use ddo_recorder::{AllocationOptions, AllocationScope, Ceiling, ExecutionTimer, Offload, SnapshotOptions, TimerOptions, UnitId};
use ddo_schemas::settings::MAX_TIMELINE_CAPACITY;
use serde::Serialize;
use std::path::Path;
use std::time::{Duration, Instant};

/// Rounds that are taken however long they last: fewer give no interval.
const LEAST_ROUNDS: usize = 6;
/// Confidence of the interval around the median ratio.
const CONFIDENCE: f64 = 0.95;

/// What is switched on in the second run of a pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    Nothing,
    AllocationDiagnostics,
    ExecutionTimer,
    NativeTimeline,
    StepWait,
}

impl Scope {
    const ALL: [Scope; 5] =
        [Scope::Nothing, Scope::AllocationDiagnostics, Scope::ExecutionTimer, Scope::NativeTimeline, Scope::StepWait];

    fn name(self) -> &'static str {
        match self {
            Scope::Nothing => "nothing",
            Scope::AllocationDiagnostics => "allocation_diagnostics",
            Scope::ExecutionTimer => "execution_timer",
            Scope::NativeTimeline => "native_timeline",
            Scope::StepWait => "diagnostic_step_wait",
        }
    }

    fn timer(self) -> Option<TimerOptions> {
        let windows = matches!(self, Scope::NativeTimeline | Scope::StepWait);
        matches!(self, Scope::ExecutionTimer | Scope::NativeTimeline | Scope::StepWait).then_some(TimerOptions {
            enabled: true,
            native_units: windows,
            native_capacity: MAX_TIMELINE_CAPACITY,
            diagnostic_step_wait: self == Scope::StepWait,
        })
    }
}

/// The median of several ratios.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MedianRatio {
    /// With the scope over without it: 1.01 is one percent more.
    pub median: f64,
    /// Lower end of a distribution-free interval; `null` with too few pairs for one.
    pub low: Option<f64>,
    /// Upper end of the same interval.
    pub high: Option<f64>,
    /// Confidence of the interval.
    pub confidence: f64,
}

/// One scope.
#[derive(Clone, Debug, Serialize)]
pub struct OverheadLine {
    /// `overhead`.
    pub bench: &'static str,
    /// What was asked for, with defaults filled in.
    pub setting: serde_json::Value,
    /// What was switched on; `nothing` is the noise of the measurement.
    pub scope: &'static str,
    /// Pairs of runs without and with it.
    pub pairs: usize,
    /// Median seconds of a step without it.
    pub off_seconds: f64,
    /// Median seconds of a step with it.
    pub on_seconds: f64,
    /// Of the pairs.
    pub ratio: MedianRatio,
    /// Median seconds that opening the scope took, before the first step.
    pub open_seconds: f64,
    /// Median seconds that ending it and taking a report took, after the last step.
    pub report_seconds: f64,
    /// Windows of the fullest timeline, and the most that one dropped.
    pub windows: Option<[u64; 2]>,
    /// Where it was measured.
    pub machine: Machine,
}

/// What a pair of runs gave.
struct Pair {
    off: f64,
    on: f64,
    open: f64,
    report: f64,
    windows: Option<[u64; 2]>,
}

struct Runner<'a> {
    offload: Offload,
    units: Vec<UnitId>,
    workload: &'a mut Workload,
    steps: u64,
    launches: ddo_recorder::LaunchScope,
}

/// Measures all scopes and hands each to `print`.
///
/// # Errors
/// See [`RunError`]; a wrong result is one of them.
///
/// # Cost
/// About the seconds asked for, after the checkpoint is there; at least six rounds of ten runs.
pub fn overhead(args: &OverheadArgs, target_dir: &Path, mut print: impl FnMut(&OverheadLine)) -> Result<(), RunError> {
    let began = Instant::now();
    let stream = args.stream();
    if let Some((option, reason)) = stream.refusal() {
        let driver = if args.driver == DriverKind::Cuda { "cuda" } else { "host" };
        return Err(RunError::NotWithDriver { option, driver, reason });
    }
    let prepared = Prepared::new(&stream, target_dir)?;
    let mut workload = prepared.workload(&stream, args.tokens)?;
    let ceiling = args.ceiling_gib.map_or(Ceiling::Percent(40.0), |gib| Ceiling::Bytes((gib * (1u64 << 30) as f64) as u64));
    let mode = *stream.mode.runs().first().unwrap_or(&(ddo_recorder::ResidencyMode::Auto, ddo_recorder::LaunchScope::Units));
    let setting = Setting { args: &stream, mode, tokens: args.tokens, ceiling };
    let offload = attach_settled(&prepared, &setting, None)?;
    let units = workload.units(&offload)?;
    let mut runner = Runner { offload, units, workload: &mut workload, steps: args.steps, launches: mode.1 };
    timed_steps(runner.workload, &runner.offload, &runner.units, WARM_STEPS, runner.launches)?;
    let rounds = rounds(&mut runner, began, Duration::from_secs(args.seconds))?;
    let machine = Machine::of(&*prepared.driver());
    let shown = shown(&stream, &setting, &runner.offload, args)?;
    for (index, scope) in Scope::ALL.into_iter().enumerate() {
        let pairs: Vec<&Pair> = rounds.iter().filter_map(|round| round.get(index)).collect();
        print(&line(scope, &pairs, &shown, &machine));
    }
    close(&runner.offload)
}

/// Pairs by round, each round in the order of [`Scope::ALL`].
fn rounds(runner: &mut Runner<'_>, began: Instant, time: Duration) -> Result<Vec<Vec<Pair>>, RunError> {
    let mut rounds: Vec<Vec<Pair>> = Vec::new();
    let first = Instant::now();
    loop {
        let mut round: Vec<(usize, Pair)> = Vec::new();
        for turn in 0..Scope::ALL.len() {
            let index = (turn + rounds.len()) % Scope::ALL.len();
            let Some(scope) = Scope::ALL.get(index) else { continue };
            let on_first = (turn + rounds.len() / Scope::ALL.len()).is_multiple_of(2);
            round.push((index, runner.pair(*scope, on_first)?));
        }
        round.sort_by_key(|(index, _)| *index);
        rounds.push(round.into_iter().map(|(_, pair)| pair).collect());
        let each = first.elapsed() / u32::try_from(rounds.len()).unwrap_or(u32::MAX);
        if rounds.len() >= LEAST_ROUNDS && began.elapsed() + each > time {
            return Ok(rounds);
        }
    }
}

impl Runner<'_> {
    fn pair(&mut self, scope: Scope, on_first: bool) -> Result<Pair, RunError> {
        let before = if on_first { None } else { Some(self.run(Scope::Nothing)?) };
        let mut pair = self.run(scope)?;
        let without = match before {
            Some(without) => without,
            None => self.run(Scope::Nothing)?,
        };
        pair.off = without.on;
        Ok(pair)
    }

    /// One run with a scope; its time stands under `on`.
    fn run(&mut self, scope: Scope) -> Result<Pair, RunError> {
        let start = Instant::now();
        let timer = scope.timer().map(|options| self.offload.execution_timer(options)).transpose()?;
        let counting = scope == Scope::AllocationDiagnostics;
        let allocation = self.offload.allocation_diagnostics(AllocationOptions { enabled: counting })?;
        let open = start.elapsed().as_secs_f64();
        let on = timed_steps(self.workload, &self.offload, &self.units, self.steps, self.launches)?;
        // Uploads made ahead end outside of the timed part, in runs without a scope as well.
        self.offload.wait_idle()?;
        let start = Instant::now();
        let windows = self.report(timer, allocation)?;
        Ok(Pair { off: f64::NAN, on, open, report: start.elapsed().as_secs_f64(), windows })
    }

    fn report(&self, timer: Option<ExecutionTimer>, allocation: AllocationScope) -> Result<Option<[u64; 2]>, RunError> {
        let timing = timer.map(ExecutionTimer::finish).transpose()?;
        let record = allocation.finish();
        let (wait, timing, allocation) = (timing.is_some(), timing.as_ref(), Some(&record));
        let options = SnapshotOptions { timing, wait, allocation, ..SnapshotOptions::default() };
        let timeline = self.offload.metrics_snapshot(options)?.runtime.native_timeline;
        Ok(timeline.map(|timeline| [timeline.samples.len() as u64, timeline.dropped]))
    }
}

fn shown(
    stream: &StreamArgs,
    setting: &Setting<'_>,
    offload: &Offload,
    args: &OverheadArgs,
) -> Result<serde_json::Value, RunError> {
    let managed: u64 = offload.units().iter().map(|unit| unit.bytes).sum();
    Ok(serde_json::json!({
        "driver": if args.driver == DriverKind::Cuda { "cuda" } else { "host" },
        "source": if stream.source == BenchSource::Cpu { "cpu" } else { "mapped" },
        "ceiling_bytes": setting.ceiling.resolve(managed)?,
        "managed_bytes": managed,
        "streamed_bytes": offload.units().iter().map(|unit| unit.streamed_bytes).sum::<u64>(),
        "tokens": args.tokens,
        "steps": args.steps,
        "scale": stream.scale(),
        "residency_mode": setting.mode.0.name(),
    }))
}

fn line(scope: Scope, pairs: &[&Pair], setting: &serde_json::Value, machine: &Machine) -> OverheadLine {
    let of = |value: fn(&Pair) -> f64| median(pairs.iter().map(|pair| value(pair)).collect());
    let windows = pairs.iter().filter_map(|pair| pair.windows);
    OverheadLine {
        bench: "overhead",
        setting: setting.clone(),
        scope: scope.name(),
        pairs: pairs.len(),
        off_seconds: of(|pair| pair.off),
        on_seconds: of(|pair| pair.on),
        ratio: median_ratio(pairs.iter().map(|pair| pair.on / pair.off).collect()),
        open_seconds: of(|pair| pair.open),
        report_seconds: of(|pair| pair.report),
        windows: windows.reduce(|one, other| [one[0].max(other[0]), one[1].max(other[1])]),
        machine: machine.clone(),
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let at = |index: usize| values.get(index).copied().unwrap_or(f64::NAN);
    if values.len().is_multiple_of(2) { (at(middle.wrapping_sub(1)) + at(middle)) / 2.0 } else { at(middle) }
}

/// The median with the interval between two order statistics that covers it with the confidence asked for, whatever the distribution.
fn median_ratio(mut ratios: Vec<f64>) -> MedianRatio {
    ratios.sort_by(f64::total_cmp);
    let rank = interval_rank(ratios.len());
    let low = rank.and_then(|rank| ratios.get(rank).copied());
    let high = rank.and_then(|rank| ratios.get(ratios.len() - 1 - rank).copied());
    MedianRatio { median: median(ratios), low, high, confidence: CONFIDENCE }
}

/// Index of the order statistic at the lower end: the chance that fewer than that many of `count` values lie below the median is at
/// most half of what the confidence leaves. `None` where even the extremes do not suffice.
fn interval_rank(count: usize) -> Option<usize> {
    let mut chance = 0.5f64.powi(i32::try_from(count).ok()?);
    let mut below = chance;
    let mut rank = None;
    for index in 0..count {
        if below > (1.0 - CONFIDENCE) / 2.0 {
            break;
        }
        rank = Some(index);
        chance *= (count - index) as f64 / (index + 1) as f64;
        below += chance;
    }
    rank
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::{Bench, BenchArgs};

    /// Ranks as tables of the sign test give them.
    #[test]
    fn the_interval_around_a_median_is_that_of_the_sign_test() {
        let known = [(5, None), (6, Some(0)), (8, Some(0)), (9, Some(1)), (15, Some(3)), (20, Some(5)), (100, Some(39))];
        for (count, rank) in known {
            assert_eq!(interval_rank(count), rank, "{count}");
        }
        let found = median_ratio((1..=9).map(f64::from).collect());
        assert_eq!((found.median, found.low, found.high), (5.0, Some(2.0), Some(8.0)));
        assert_eq!(median(vec![4.0, 1.0]), 2.5);
    }

    #[test]
    fn every_scope_is_measured_in_pairs() {
        use clap::Parser as _;
        let folder = std::env::temp_dir().join(format!("ddo-overhead-{:032x}", fastrand::u128(..)));
        std::fs::create_dir(&folder).expect("made");
        let model = folder.join("model.safetensors");
        let line = ["ddo-bench", "overhead", "--seconds", "1", "--steps", "2", "--scale", "0.00001", "--model"];
        let args = BenchArgs::try_parse_from(line.map(std::ffi::OsString::from).into_iter().chain([model.into()]));
        let Bench::Overhead(args) = args.expect("all known").bench else { panic!("another bench") };
        let mut lines = Vec::new();
        overhead(&args, &folder, |line| lines.push(line.clone())).expect("measured");
        let names: Vec<&str> = lines.iter().map(|line| line.scope).collect();
        assert_eq!(names, Scope::ALL.map(Scope::name));
        assert!(lines.iter().all(|line| line.pairs >= LEAST_ROUNDS && line.ratio.median > 0.0 && line.ratio.low.is_some()));
        let windows: Vec<bool> =
            lines.iter().map(|line| line.windows.is_some_and(|[taken, dropped]| taken > 0 && dropped == 0)).collect();
        assert_eq!(windows, [false, false, false, true, true]);
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
