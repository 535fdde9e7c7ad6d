//! How long does a step take, and what is its floor?
//!
//! May use: the workload, the link's rate, the recorder's embeddable interface.
//!
//! Invariants: B and C are measured before the run in the same process (B on the host driver is the supplied rate); a step is timed
//! over a whole repeat, from idle compute to idle compute; the first steps, which learn the order, are not timed.

use super::workload::{Prepared, Workload};
use super::{BenchSource, Line, Machine, StreamArgs, Terms, rate};
use crate::args::DriverKind;
use crate::run::RunError;
use ddo_recorder::{
    Ceiling, Checkpoint, Component, LaunchScope, MeasuredCosts, Offload, OffloadConfig, RegistrationTiming, ResidencyMode,
    SnapshotOptions, SourceChoice, UnitId, enable_offload,
};
use std::path::Path;
use std::time::{Duration, Instant};

/// Steps before the first timed one: one learns the order, one fills the pipeline.
pub(super) const WARM_STEPS: u64 = 2;
/// Steps of the attachment that tells what a pass costs: the third is timed on the device.
pub(super) const MEASURING_STEPS: u64 = 4;
/// How long registering may take.
const SETTLE_DEADLINE: Duration = Duration::from_secs(60);
/// How long a close may wait.
const CLOSE_DEADLINE: Duration = Duration::from_secs(30);

/// The least time that a step could take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Floor {
    /// C: seconds with every weight resident.
    pub resident_seconds: f64,
    /// B: bytes a second over the link; `None` where it is not known.
    pub link_bytes_per_second: Option<f64>,
}

impl Floor {
    /// `max(C, bytes / B)`; `None` where B is not known and bytes must move.
    pub fn seconds(&self, bytes: u64) -> Option<f64> {
        match self.link_bytes_per_second {
            Some(rate) => Some(self.resident_seconds.max(bytes as f64 / rate)),
            None if bytes == 0 => Some(self.resident_seconds),
            None => None,
        }
    }
}

/// Everything that one line needs beside its time.
pub(super) struct Setting<'a> {
    pub(super) args: &'a StreamArgs,
    pub(super) mode: (ResidencyMode, LaunchScope),
    pub(super) tokens: u64,
    pub(super) ceiling: Ceiling,
}

/// The ceilings asked for; 40 % where none is.
fn ceilings(args: &StreamArgs) -> Vec<Ceiling> {
    let gib = |gib: &f64| Ceiling::Bytes((gib * (1u64 << 30) as f64) as u64);
    match args.ceiling_gib.as_slice() {
        [] => vec![Ceiling::Percent(40.0)],
        given => given.iter().map(gib).collect(),
    }
}

/// Every combination that the command line asks for.
pub(super) fn settings(args: &StreamArgs) -> Vec<Setting<'_>> {
    let mut all = Vec::new();
    for tokens in args.tokens.iter().copied() {
        for ceiling in ceilings(args) {
            all.extend(args.mode.runs().iter().map(|mode| Setting { args, mode: *mode, tokens, ceiling }));
        }
    }
    all
}

/// Runs the benchmark; `print` is called with each line as it is measured.
///
/// # Errors
/// See [`RunError`]; a wrong result is one of them.
///
/// # Cost
/// For each number of tokens runs the workload 2 + steps times with every weight resident, and for each ceiling and mode
/// 2 + steps x repeats times; may make a checkpoint.
pub fn stream(args: &StreamArgs, target_dir: &Path, mut print: impl FnMut(&Line)) -> Result<(), RunError> {
    if let Some((option, reason)) = args.refusal() {
        let driver = if args.driver == DriverKind::Cuda { "cuda" } else { "host" };
        return Err(RunError::NotWithDriver { option, driver, reason });
    }
    let prepared = Prepared::new(args, target_dir)?;
    let machine = Machine::of(&*prepared.driver());
    for tokens in &args.tokens {
        let mut workload = prepared.workload(args, *tokens)?;
        let link_bytes_per_second = match args.driver {
            DriverKind::Cuda => Some(rate::link_rate(&*prepared.driver(), prepared.path())?),
            DriverKind::Host => args.link_gb_per_second.map(|rate| rate.0 as f64),
        };
        let resident = (ResidencyMode::Classic, LaunchScope::Units);
        let all = Setting { args, mode: resident, tokens: *tokens, ceiling: Ceiling::Bytes(u64::MAX) };
        let resident_seconds = resident_step(&prepared, &mut workload, &all)?;
        let floor = Floor { resident_seconds, link_bytes_per_second };
        for ceiling in ceilings(args) {
            for mode in args.mode.runs() {
                let setting = Setting { mode: *mode, ceiling, ..all };
                measure(&prepared, &mut workload, &setting, floor, &machine, &mut print)?;
            }
        }
    }
    Ok(())
}

/// Times the repeats of one setting.
fn measure(
    prepared: &Prepared,
    workload: &mut Workload,
    setting: &Setting<'_>,
    floor: Floor,
    machine: &Machine,
    print: &mut impl FnMut(&Line),
) -> Result<(), RunError> {
    let (args, launches) = (setting.args, setting.mode.1);
    let offload = attach_settled(prepared, setting, None)?;
    let units = workload.units(&offload)?;
    timed_steps(workload, &offload, &units, MEASURING_STEPS, launches)?;
    let measured = offload.measured_costs();
    close(&offload)?;
    let offload = attach_settled(prepared, setting, measured.clone())?;
    let units = workload.units(&offload)?;
    let decisions = offload.metrics_snapshot(SnapshotOptions::default())?.runtime.state.planner_decisions;
    let managed: u64 = offload.units().iter().map(|unit| unit.bytes).sum();
    let streamed: u64 = offload.units().iter().map(|unit| unit.streamed_bytes).sum();
    let ceiling = setting.ceiling.resolve(managed)?;
    let must_stream = managed.saturating_sub(ceiling);
    let terms = Terms {
        resident_seconds: Some(floor.resident_seconds),
        link_bytes_per_second: floor.link_bytes_per_second,
        link: match (args.driver, floor.link_bytes_per_second) {
            (_, None) => "unknown",
            (DriverKind::Cuda, _) => "measured",
            (DriverKind::Host, _) => "supplied",
        },
        must_stream_bytes: must_stream,
        streamed_bytes: streamed,
        plan_floor_seconds: floor.seconds(streamed),
        work_seconds: measured.as_ref().map(|measured| measured.unit_seconds.values().sum()),
        learned_link_bytes_per_second: measured.as_ref().map(|measured| measured.link_bytes_per_second),
        predicted_seconds: decisions.vmm_predicted_step_seconds.map(|seconds| seconds.0),
        spread_seconds: None,
    };
    let line = |seconds: f64, repeat: serde_json::Value, spread_seconds| Line {
        bench: "stream",
        setting: setting.shown(ceiling, managed, &offload, repeat),
        seconds: Some(seconds),
        floor_seconds: floor.seconds(must_stream),
        ratio: floor.seconds(must_stream).map(|floor| seconds / floor),
        bytes: Some(streamed),
        rate: Some(streamed as f64 / seconds),
        unit: "bytes/s",
        peer: None,
        terms: Terms { spread_seconds, ..terms.clone() },
        machine: machine.clone(),
    };
    timed_steps(workload, &offload, &units, WARM_STEPS, launches)?;
    let mut all = Vec::new();
    for repeat in 0..args.repeats {
        let seconds = timed_steps(workload, &offload, &units, args.steps, launches)?;
        all.push(seconds);
        print(&line(seconds, repeat.into(), None));
    }
    all.sort_by(f64::total_cmp);
    if let (Some(high), Some(low), Some(least), Some(most)) =
        (all.get(all.len() / 2), all.get((all.len() - 1) / 2), all.first(), all.last())
    {
        let median = (low + high) / 2.0;
        print(&line(median, "median".into(), Some([median, *least, *most])));
    }
    close(&offload)
}

impl Setting<'_> {
    pub(super) fn shown(&self, ceiling: u64, managed: u64, offload: &Offload, repeat: serde_json::Value) -> serde_json::Value {
        let args = self.args;
        let beside = offload.registration().timing == Some(RegistrationTiming::Background);
        let streamed = beside || matches!(args.source, BenchSource::Ring | BenchSource::Retained | BenchSource::Staged);
        // Beside retained storage no file is read into the ring ahead of its upload.
        let reads_ahead = match args.source {
            BenchSource::Ring => Some("on"),
            BenchSource::Retained => Some("suspended"),
            BenchSource::Mapped if beside || args.host.registered_gib.is_some() => Some("on"),
            BenchSource::Mapped | BenchSource::Cpu | BenchSource::Staged => None,
        };
        serde_json::json!({
            "driver": if args.driver == DriverKind::Cuda { "cuda" } else { "host" },
            "source": SourceChoice::from(args.source).name(),
            "staging_bytes": streamed.then_some(args.host.staging_mib << 20),
            "staging_slot_bytes": streamed.then_some(args.host.staging_slot_kib << 10),
            "speculative_ring_reads": reads_ahead,
            "retained_gib": args.host.retained_gib,
            "registered_gib": args.host.registered_gib,
            "register": offload.registration().timing.map(RegistrationTiming::name),
            "registration": (args.source == BenchSource::Retained).then(|| args.host.registration.name()),
            "ceiling_bytes": ceiling,
            "managed_bytes": managed,
            "tokens": self.tokens,
            "steps": args.steps,
            "slots": (self.mode.0 == ResidencyMode::Classic).then_some(args.slots),
            "stream_memory_bytes": offload.stream_memory_bytes(),
            "scale": args.scale(),
            "residency_mode": self.mode.0.name(),
            "repeat": repeat,
        })
    }
}

/// Attaches the workload's component as the setting says.
pub(super) fn attach(prepared: &Prepared, setting: &Setting<'_>, measured: Option<MeasuredCosts>) -> Result<Offload, RunError> {
    let component = Component::from_checkpoint("transformer", &Checkpoint::open(prepared.path())?, |_| None)?;
    let args = setting.args;
    let source = args.source.into();
    let host = args.host.settings(source, || component.retained_bytes());
    let (residency, launches) = setting.mode;
    let config = OffloadConfig::new(prepared.driver());
    let part_bytes = crate::flux::part_bytes(crate::flux::width_for_scale(args.scale()), config.part_bytes);
    let config = OffloadConfig {
        source,
        residency,
        launches,
        part_bytes,
        slots: args.slots,
        host,
        measure: measured.is_none(),
        measured,
        ..config
    };
    Ok(enable_offload(component, OffloadConfig { ceiling: setting.ceiling, ..config })?)
}

/// The same, with everything registered that is to be, for steps of which one is like the next.
pub(super) fn attach_settled(
    prepared: &Prepared,
    setting: &Setting<'_>,
    measured: Option<MeasuredCosts>,
) -> Result<Offload, RunError> {
    let offload = attach(prepared, setting, measured)?;
    if offload.wait_registered(SETTLE_DEADLINE) {
        return Ok(offload);
    }
    Err(RunError::NotSettled { bytes: offload.registration().waiting_bytes, seconds: SETTLE_DEADLINE.as_secs() })
}

/// C: seconds of a step with every weight resident, after the steps that bring them there.
fn resident_step(prepared: &Prepared, workload: &mut Workload, setting: &Setting<'_>) -> Result<f64, RunError> {
    let offload = attach_settled(prepared, setting, None)?;
    let units = workload.units(&offload)?;
    timed_steps(workload, &offload, &units, WARM_STEPS, setting.mode.1)?;
    let seconds = timed_steps(workload, &offload, &units, setting.args.steps, setting.mode.1)?;
    close(&offload)?;
    Ok(seconds)
}

/// Runs steps and compares their results; seconds of one.
pub(super) fn timed_steps(
    workload: &mut Workload,
    offload: &Offload,
    units: &[UnitId],
    steps: u64,
    launches: LaunchScope,
) -> Result<f64, RunError> {
    workload.reset()?;
    let start = Instant::now();
    for step in 0..steps {
        workload.submit(offload, units, step, launches)?;
        offload.mark_step()?;
    }
    offload.wait_stream(offload.compute_stream())?;
    let seconds = start.elapsed().as_secs_f64() / steps.max(1) as f64;
    workload.compare(steps)?;
    Ok(seconds)
}

/// Closes; whatever the close finds wrong is an error.
pub(super) fn close(offload: &Offload) -> Result<(), RunError> {
    let closed = offload.close(CLOSE_DEADLINE)?;
    match closed.errors.first() {
        None => Ok(()),
        Some(first) => {
            let (first, count) = (first.clone(), closed.errors.len());
            Err(RunError::Close { first, count, quarantined_bytes: closed.quarantined_bytes })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_is_the_larger_of_compute_and_copies() {
        let floor = Floor { resident_seconds: 0.1, link_bytes_per_second: Some(50e9) };
        assert_eq!(floor.seconds(1_000_000_000), Some(0.1));
        assert_eq!(floor.seconds(10_000_000_000), Some(0.2));
        let unknown = Floor { link_bytes_per_second: None, ..floor };
        assert_eq!((unknown.seconds(0), unknown.seconds(1)), (Some(0.1), None));
    }
}
