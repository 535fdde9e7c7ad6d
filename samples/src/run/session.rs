//! Which calls does every sample make around its forward passes? One offloaded component with the recording that the wrapper asked for.
//!
//! May use: the recorder's embeddable interface.
//!
//! Invariants: without a wrapper nothing is recorded and no folder is made; record `None` precedes the first step, record `i` follows
//! the submission of step `i`; the timer ends and the journal is finished before the final report, the report before the close.

use super::{Outcome, RunError};
use crate::args::{ModelKind, SampleArgs};
use ddo_recorder::{
    Component, Driver, ExecutionTimer, HostDriver, HostOptions, JournalOptions, LaunchScope, MetricsJournal, Offload,
    OffloadConfig, RecordRun, SnapshotOptions, TimerOptions, UnitInfo, enable_offload,
};
use std::sync::Arc;
use std::time::Duration;

/// How long a close may wait for work that is in flight.
const CLOSE_DEADLINE: Duration = Duration::from_secs(10);

/// An offloaded component and its recording.
pub struct Session {
    /// The component under the runtime.
    pub offload: Offload,
    recording: Option<Recording>,
}

/// What a wrapper asked for.
struct Recording {
    run: RecordRun,
    timer: ExecutionTimer,
    journal: Option<MetricsJournal>,
}

impl Session {
    /// Puts the component under the runtime on the host driver, as the command line asks.
    ///
    /// # Errors
    /// See [`Session::open_on`].
    pub fn open(name: &str, component: Component, args: &SampleArgs, launches: LaunchScope) -> Result<Session, RunError> {
        let driver = HostDriver::new(HostOptions {
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
        let source = args.source.into();
        let host = args.host.settings(source, || component.retained_bytes());
        let (ceiling, residency, slots, config) = (args.ceiling, args.mode.into(), args.slots, OffloadConfig::new(driver));
        let part_bytes = match args.model_kind {
            ModelKind::FluxShaped => crate::flux::part_bytes(crate::flux::width_for_scale(args.scale.0), config.part_bytes),
            ModelKind::Minilm => config.part_bytes,
        };
        let config = OffloadConfig { ceiling, source, residency, launches, part_bytes, slots, host, ..config };
        let offload = enable_offload(component, config)?;
        let recording = match RecordRun::from_env()? {
            Some(run) => Some(Recording::start(run, name, &offload)?),
            None => None,
        };
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

    /// Says that all work of a step has been submitted.
    ///
    /// # Errors
    /// The runtime has failed, or the record cannot be written.
    pub fn end_step(&mut self, step: u64) -> Result<(), RunError> {
        self.offload.mark_step()?;
        if let Some(journal) = self.recording.as_mut().and_then(|recording| recording.journal.as_mut()) {
            journal.record(Some(step))?;
        }
        Ok(())
    }

    /// Waits until everything submitted so far is complete.
    ///
    /// # Errors
    /// A job failed, or the runtime has.
    ///
    /// # Cost
    /// Blocks.
    pub fn wait(&self) -> Result<(), RunError> {
        Ok(self.offload.wait_stream(self.offload.compute_stream())?)
    }

    /// Ends recording, writes the final report and closes the component.
    ///
    /// # Errors
    /// The report cannot be written, or the close finds something wrong.
    ///
    /// # Cost
    /// Waits for work in flight, at most ten seconds.
    pub fn close(self, model: String, args: &SampleArgs) -> Result<Outcome, RunError> {
        let units = self.offload.units();
        let managed_bytes = units.iter().map(|unit| unit.bytes).sum();
        let outcome = Outcome {
            model,
            steps: args.steps,
            units: units.len(),
            resident_units: units.iter().filter(|unit| unit.resident).count(),
            managed_bytes,
            ceiling_bytes: args.ceiling.resolve(managed_bytes)?,
            streamed_bytes_per_step: units.iter().map(|unit| unit.streamed_bytes).sum(),
            device: None,
        };
        if let Some(recording) = self.recording {
            recording.finish(&self.offload)?;
        }
        let closed = self.offload.close(CLOSE_DEADLINE)?;
        if let Some(first) = closed.errors.first() {
            let (first, count) = (first.clone(), closed.errors.len());
            return Err(RunError::Close { first, count, quarantined_bytes: closed.quarantined_bytes });
        }
        Ok(outcome)
    }
}

impl Recording {
    fn start(run: RecordRun, name: &str, offload: &Offload) -> Result<Recording, RunError> {
        let settings = run.settings();
        let timer = offload.execution_timer(TimerOptions {
            enabled: settings.gpu_timing,
            native_units: settings.native_timeline,
            native_capacity: settings.native_timeline_capacity,
        })?;
        // A journal that is off claims no folder.
        let journal = if settings.journal == "steps" {
            let journal = offload.metrics_journal(&run.journal_folder(name)?, JournalOptions { enabled: true });
            let mut journal = journal.stopped_by(run.stop_file());
            journal.record(None)?;
            Some(journal)
        } else {
            None
        };
        Ok(Recording { run, timer, journal })
    }

    fn finish(self, offload: &Offload) -> Result<(), RunError> {
        let timing = self.timer.finish()?;
        if let Some(journal) = self.journal {
            journal.finish();
        }
        // Uploads made ahead for a next step are part of the timeline too.
        offload.wait_idle()?;
        let report = offload.metrics_snapshot(SnapshotOptions { collect_completed: true, timing: Some(&timing) })?;
        self.run.write_report("final", &report)?;
        Ok(())
    }
}
