//! Which calls does every sample make around its forward passes? One offloaded component with the recording that was asked for.
//!
//! May use: the recorder's embeddable interface.
//!
//! Invariants: without a wrapper no folder is made; every generation runs the same steps with the model attached once; the timer ends
//! and the journal is finished before the final report, the report before the close.

use super::recording::{Recorded, Recording};
use super::{Outcome, RunError};
use crate::args::{ModelKind, SampleArgs};
use ddo_recorder::driver::HostMode;
use ddo_recorder::{
    Component, Driver, HostDriver, HostOptions, LaunchScope, Offload, OffloadConfig, RecordRun, UnitInfo, enable_offload,
};
use std::sync::Arc;
use std::time::Duration;

/// How long a close may wait for work that is in flight.
const CLOSE_DEADLINE: Duration = Duration::from_secs(10);

/// An offloaded component and its recording.
pub struct Session {
    /// The component under the runtime.
    pub offload: Offload,
    recording: Recording,
}

/// The forward passes of a model.
pub trait Passes {
    /// Submits one step.
    ///
    /// # Errors
    /// The runtime declines or fails.
    fn submit(&mut self, session: &Session) -> Result<(), RunError>;

    /// Compares the step's result with the reference; everything submitted is complete. Steps are counted over all generations.
    ///
    /// # Errors
    /// It differs.
    fn check(&mut self, step: u64) -> Result<(), RunError>;
}

impl Session {
    /// Puts the component under the runtime on the host driver, as the command line asks.
    ///
    /// # Errors
    /// See [`Session::open_on`].
    pub fn open(name: &str, component: Component, args: &SampleArgs, launches: LaunchScope) -> Result<Session, RunError> {
        let driver = HostDriver::new(HostOptions {
            mode: if args.virtual_time { HostMode::Stepped } else { HostMode::Threaded },
            page_bytes: args.page_kib.0 << 10,
            link_bytes_per_second: args.link_gb_per_second.map(|rate| rate.0),
            ..HostOptions::default()
        })
        .map_err(ddo_recorder::Error::from)?;
        Session::open_on(driver, name, component, args, launches)
    }

    /// Puts the component under the runtime as the command line asks, and starts recording if a wrapper is there.
    ///
    /// # Errors
    /// The runtime declines, or the recording's folder cannot be made.
    pub fn open_on(
        driver: Arc<dyn Driver>,
        name: &str,
        component: Component,
        args: &SampleArgs,
        launches: LaunchScope,
    ) -> Result<Session, RunError> {
        let run = RecordRun::from_env()?;
        let settings = args.diagnose.over(args.repeats, run.as_ref().map(RecordRun::settings))?;
        let source = args.source.into();
        let host = args.host.settings(source, || component.retained_bytes());
        let (ceiling, residency, slots, config) = (args.ceiling, args.mode.into(), args.slots, OffloadConfig::new(driver));
        let part_bytes = match args.model_kind {
            ModelKind::FluxShaped => crate::flux::part_bytes(crate::flux::width_for_scale(args.scale.0), config.part_bytes),
            ModelKind::Minilm => config.part_bytes,
        };
        let (fault_fallback, device_reserve_bytes) = (args.fault_fallback, args.device_reserve_mib << 20);
        let config = OffloadConfig { fault_fallback, device_reserve_bytes, ..config };
        let config = OffloadConfig { ceiling, source, residency, launches, part_bytes, slots, host, measure: true, ..config };
        let offload = enable_offload(component, config)?;
        let recording = Recording::start(run, settings, name, &offload)?;
        Ok(Session { offload, recording })
    }

    /// The unit of this name.
    ///
    /// # Errors
    /// The component has none.
    pub fn unit(&self, name: &str) -> Result<&UnitInfo, RunError> {
        let units = self.offload.units();
        units.iter().find(|unit| unit.name == name).ok_or_else(|| RunError::NoUnit { name: name.into(), have: units.len() })
    }

    /// Runs all generations, ends recording, writes the final report and closes the component.
    ///
    /// # Errors
    /// The model fails or gives a wrong result, the recording cannot be written, or the close finds something wrong.
    ///
    /// # Cost
    /// Waits for every step, and at most ten seconds for work in flight at the end.
    pub fn run(mut self, forward: &mut dyn Passes, model: String, args: &SampleArgs) -> Result<Outcome, RunError> {
        match self.generations(forward, args.steps) {
            Ok(()) => self.close(model, args),
            Err(error) => {
                self.recording.fail(&self.offload, &error);
                Err(error)
            }
        }
    }

    fn generations(&mut self, forward: &mut dyn Passes, steps: u64) -> Result<(), RunError> {
        for generation in 0..self.recording.repeats() {
            self.recording.begin_generation(&self.offload)?;
            for step in 0..steps {
                let (index, last) = (generation * steps + step, step + 1 == steps);
                forward.submit(self)?;
                self.offload.mark_step()?;
                self.recording.end_step(index, last)?;
                self.offload.wait_stream(self.offload.compute_stream())?;
                if last {
                    self.recording.end_generation(&self.offload)?;
                }
                forward.check(index)?;
            }
        }
        Ok(())
    }

    fn close(self, model: String, args: &SampleArgs) -> Result<Outcome, RunError> {
        let units = self.offload.units();
        let managed_bytes = units.iter().map(|unit| unit.bytes).sum();
        let outcome = Outcome {
            model,
            steps: args.steps * self.recording.repeats(),
            units: units.len(),
            resident_units: units.iter().filter(|unit| unit.resident).count(),
            managed_bytes,
            ceiling_bytes: args.ceiling.resolve(managed_bytes)?,
            streamed_bytes_per_step: units.iter().map(|unit| unit.streamed_bytes).sum(),
            diagnosed: Vec::new(),
            device: None,
        };
        let recorded = self.recording.finish(&self.offload)?;
        let closed = self.offload.close(CLOSE_DEADLINE)?;
        if let Some(first) = closed.errors.first() {
            let (first, count) = (first.clone(), closed.errors.len());
            return Err(RunError::Close { first, count, quarantined_bytes: closed.quarantined_bytes });
        }
        Ok(Outcome { diagnosed: diagnosed(&recorded), ..outcome })
    }
}

/// What the scopes of a run found, a line each; a scope that changes what it measures says so.
fn diagnosed(recorded: &Recorded) -> Vec<String> {
    let mut lines = Vec::new();
    if !recorded.generations.is_empty() {
        let seconds: Vec<String> = recorded.generations.iter().map(|seconds| format!("{seconds:.6}")).collect();
        lines.push(format!("repeats   {} s", seconds.join(", ")));
    }
    let Some(runtime) = recorded.report.as_ref().map(|report| &report.runtime) else { return lines };
    if let Some(timing) = runtime.execution_timing.as_ref().filter(|timing| timing.status != "disabled") {
        let step = timing
            .steady_state_seconds_per_step
            .map_or_else(String::new, |step| format!(", {:.6} s a step after the first", step.0));
        lines.push(format!("timing    {}{step}", timing.status));
        if let Some((calls, seconds)) = timing.diagnostic_step_wait.as_ref().and_then(|wait| wait.calls.zip(wait.host_seconds)) {
            lines.push(format!("waits     {calls} at the ends of steps, {:.6} s (not a benchmark)", seconds.0));
        }
    }
    if let Some(timeline) = &runtime.native_timeline {
        let (samples, capacity, dropped) = (timeline.samples.len(), timeline.capacity, timeline.dropped);
        lines.push(format!("windows   {}, {samples} of {capacity}, {dropped} dropped", timeline.status));
    }
    if let Some(scope) = &runtime.allocation_diagnostics {
        let total = scope.total_delta.clone().unwrap_or_default();
        let calls = [
            ("created", total.create_calls),
            ("mapped", total.map_calls),
            ("made accessible", total.access_calls),
            ("unmapped", total.unmap_calls),
            ("released", total.release_calls),
        ];
        let calls: Vec<String> = calls.iter().filter_map(|(word, count)| Some(format!("{} {word}", (*count)?))).collect();
        let status = scope.status.as_deref().unwrap_or_default();
        lines.push(format!("driver    {status}: {} (not a benchmark)", calls.join(", ")));
    }
    lines
}
