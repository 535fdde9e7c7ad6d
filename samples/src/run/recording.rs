//! What is recorded of a sample's run? Timer, journal, diagnostic scopes and generations, as far as somebody asked for them.
//!
//! May use: the recorder's embeddable interface.
//!
//! Invariants: what nobody asked for is not opened; record `None` precedes the first step, record `i` follows the submission of step
//! `i`, over all generations; each generation has a timer of its own, whose last marker lies behind the last step's work; a run that
//! fails gives its scopes back and keeps its own error.

use super::RunError;
use ddo_recorder::{
    AllocationOptions, AllocationRecord, AllocationScope, ExecutionTimer, Generation, Generations, JournalOptions,
    MetricsJournal, Offload, OperatorScope, Operators, RecordRun, SnapshotOptions, TimerOptions, Timing,
};
use ddo_schemas::Report;
use ddo_schemas::settings::Settings;

/// What is open around the forward passes of one component.
pub(super) struct Recording {
    run: Option<RecordRun>,
    settings: Settings,
    journal: Option<MetricsJournal>,
    allocation: Option<AllocationScope>,
    operators: Option<OperatorScope>,
    timer: Option<ExecutionTimer>,
    timing: Option<Timing>,
    generations: Option<Generations>,
    generation: Option<Generation>,
    seconds: Vec<f64>,
}

/// What a finished recording has to say.
pub(super) struct Recorded {
    /// The last report, where there was something to report.
    pub(super) report: Option<Report>,
    /// Host seconds of each generation, where they were observed.
    pub(super) generations: Vec<f64>,
}

impl Recording {
    /// Opens what the settings ask for; the journal only where a wrapper gave a folder.
    pub(super) fn start(
        run: Option<RecordRun>,
        settings: Settings,
        name: &str,
        offload: &Offload,
    ) -> Result<Recording, RunError> {
        let journal = match run.as_ref().filter(|_| settings.journal == "steps") {
            // A journal that is off claims no folder.
            Some(run) => {
                let journal = offload.metrics_journal(&run.journal_folder(name)?, JournalOptions { enabled: true });
                let mut journal = journal.stopped_by(run.stop_file());
                journal.record(None)?;
                Some(journal)
            }
            None => None,
        };
        let allocation = match settings.allocation_diagnostics {
            Some(true) => Some(offload.allocation_diagnostics(AllocationOptions { enabled: true })?),
            _ => None,
        };
        let options = run.as_ref().map(RecordRun::operator_options).transpose()?;
        let operators =
            options.filter(|options| options.enabled).map(|options| offload.operator_diagnostics(options)).transpose()?;
        let asked = run.clone().filter(|_| settings.repeats.is_some());
        let generations = asked.map(|run| Generations::new(run, offload));
        let (timer, timing, generation, seconds) = (None, None, None, Vec::new());
        Ok(Recording { run, settings, journal, allocation, operators, timer, timing, generations, generation, seconds })
    }

    /// Generations that were asked for.
    pub(super) fn repeats(&self) -> u64 {
        self.settings.repeats.unwrap_or(1)
    }

    /// The input of a generation is about to be prepared. Everything submitted before must be complete.
    pub(super) fn begin_generation(&mut self, offload: &Offload) -> Result<(), RunError> {
        self.timing = None;
        if self.run.is_some() || self.settings.gpu_timing {
            let settings = &self.settings;
            self.timer = Some(offload.execution_timer(TimerOptions {
                enabled: settings.gpu_timing,
                native_units: settings.native_timeline,
                native_capacity: settings.native_timeline_capacity,
                diagnostic_step_wait: settings.diagnostic_step_wait == Some(true),
            })?);
        }
        self.generation = self.generations.as_mut().map(Generations::begin).transpose()?;
        Ok(())
    }

    /// A step has been submitted; the last one of a generation ends its timer.
    pub(super) fn end_step(&mut self, step: u64, last: bool) -> Result<(), RunError> {
        if let Some(journal) = &mut self.journal {
            journal.record(Some(step))?;
        }
        if last && let Some(timer) = self.timer.take() {
            self.timing = Some(timer.finish()?);
        }
        Ok(())
    }

    /// The result of a generation has been read back.
    pub(super) fn end_generation(&mut self, offload: &Offload) -> Result<(), RunError> {
        let (Some(generations), Some(generation)) = (&mut self.generations, self.generation.take()) else { return Ok(()) };
        let observed = generations.end(&generation);
        self.seconds.push(observed.seconds);
        // The boundary between two generations: uploads made ahead for the next one are part of this one's timeline.
        offload.wait_idle()?;
        generations.record(observed, self.timing.as_ref().filter(|_| self.settings.gpu_timing))?;
        Ok(())
    }

    /// Ends all scopes and writes the final report.
    pub(super) fn finish(mut self, offload: &Offload) -> Result<Recorded, RunError> {
        if let Some(journal) = self.journal.take() {
            journal.finish();
        }
        let allocation = self.allocation.take().map(AllocationScope::finish);
        let mut recorded = Recorded { report: None, generations: std::mem::take(&mut self.seconds) };
        if self.run.is_some() || self.settings.gpu_timing || allocation.is_some() {
            // Uploads made ahead for a next step are part of the timeline too.
            offload.wait_idle()?;
            let operators = self.operators.take().map(|scope| (scope.operators(), scope.finish()));
            let (operators, sampled) = operators.unzip();
            recorded.report = Some(self.report(offload, true, allocation.as_ref(), operators.as_ref())?);
            // What the scope could not sample is said once the report that shows it is there.
            sampled.transpose()?;
        }
        Ok(recorded)
    }

    /// Ends all scopes behind a run that failed. What goes wrong here is no news beside the run's own error.
    pub(super) fn fail(mut self, offload: &Offload, error: &RunError) {
        if let Some(journal) = self.journal.take() {
            journal.finish();
        }
        self.timing = self.timer.take().and_then(|timer| timer.finish_failed().ok()).or(self.timing.take());
        let allocation = self.allocation.take().map(|scope| scope.finish_failed(error));
        let operators = self.operators.take().map(OperatorScope::finish_failed);
        let _ = self.report(offload, false, allocation.as_ref(), operators.as_ref());
    }

    fn report(
        &self,
        offload: &Offload,
        collect: bool,
        allocation: Option<&AllocationRecord>,
        operators: Option<&Operators>,
    ) -> Result<Report, RunError> {
        let (collect_completed, timing) = (collect, self.timing.as_ref());
        let options = SnapshotOptions { collect_completed, timing, allocation, ..SnapshotOptions::default() };
        let report = offload.metrics_snapshot(options)?;
        let report = match operators {
            Some(operators) => operators.attach(report),
            None => report,
        };
        if let Some(run) = &self.run {
            run.write_report("final", &report)?;
        }
        Ok(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ddo_recorder::{Component, HostDriver, HostOptions, HostTensor, OffloadConfig, enable_offload};
    use std::time::Duration;

    fn offload() -> Offload {
        let driver = HostDriver::new(HostOptions::default()).expect("a host driver");
        let tensor = HostTensor::from_elements(&[2, 2], &[1.0f32; 4]).expect("shape fits");
        let component =
            Component::from_tensors("small", vec![("blocks.0.weight".into(), tensor)], |_| None).expect("a component");
        let config = OffloadConfig { call_meter: std::sync::Arc::default(), ..OffloadConfig::new(driver) };
        enable_offload(component, config).expect("attached")
    }

    /// A run that fails keeps its error, gives every scope back, and its report says what failed.
    #[test]
    fn a_failing_run_gives_its_scopes_back_and_keeps_its_error() {
        let folder = std::env::temp_dir().join(format!("ddo-recording-{:032x}", fastrand::u128(..)));
        std::fs::create_dir(&folder).expect("made");
        let offload = offload();
        let settings = Settings {
            gpu_timing: true,
            native_timeline: true,
            diagnostic_step_wait: Some(true),
            allocation_diagnostics: Some(true),
            ..Settings::default()
        };
        let run = RecordRun::new(folder.clone(), None).expect("usable");
        let mut recording = Recording::start(Some(run), settings.clone(), "small", &offload).expect("opens");
        recording.begin_generation(&offload).expect("begins");
        offload.mark_step().expect("a step");
        recording.end_step(0, false).expect("recorded");
        let error = RunError::NoUnit { name: "blocks.7".into(), have: 1 };
        recording.fail(&offload, &error);
        let text = std::fs::read_to_string(folder.join("reports/final.json")).expect("written");
        let report: Report = serde_json::from_str(&text).expect("a report");
        let scope = report.runtime.allocation_diagnostics.expect("attached");
        assert_eq!((scope.status.as_deref(), scope.error), (Some("failed"), Some(error.to_string())));
        assert!(report.runtime.execution_timing.expect("attached").failed);
        offload.wait_idle().expect("idle");
        let mut again = Recording::start(None, settings, "small", &offload).expect("every scope was given back");
        again.begin_generation(&offload).expect("begins");
        again.end_step(0, true).expect("ends");
        again.finish(&offload).expect("reports");
        offload.close(Duration::from_secs(1)).expect("closes");
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
