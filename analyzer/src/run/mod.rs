//! "What happened?" Plain values of one run, free of files and of judgement.
//!
//! It may use `limits` and the shared words of `ddo_schemas`, no other room. Invariants: integers are exact to 64
//! bits; what was not recorded is `None` or not in the map, never zero; times are integer nanoseconds on the clock
//! that their field names; two clocks are never merged here.

mod diagnostics;
mod generation;
pub mod operators;
mod rank;
mod scalar;
mod timeline;
mod words;

pub use diagnostics::{AllocationDiagnostics, AllocationStep, OperatorDiagnostics, OperatorRow, OperatorSample};
pub use generation::Generation;
pub use rank::Rank;
pub use scalar::{Scalar, Values};
pub use timeline::{Timeline, Window, WindowState, nanoseconds};
pub use words::{shorten, shorten_to};

use ddo_schemas::Finding;
use ddo_schemas::manifest::{Manifest, ManifestEnd};
use ddo_schemas::memory::{HostEvent, MemorySample};
use ddo_schemas::sections::ExecutionTiming;
use ddo_schemas::timeline::NativeTimeline;
use operators::OperatorTrace;
use serde_json::Value;

/// Everything that was found about one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Run {
    /// Name of the folder or file, without its parents.
    pub name: String,
    /// Who ran what; `None` without a manifest.
    pub manifest: Option<Manifest>,
    /// How it ended; `None` when the recorder did not finish or never took part.
    pub seal: Option<ManifestEnd>,
    /// Components, in the order of their folders.
    pub components: Vec<Component>,
    /// Operator traces, in file order.
    pub operators: Vec<OperatorTrace>,
    /// Samples of the memory monitor, in file order.
    pub memory: Vec<MemorySample>,
    /// What embedded hosts told the recorder, in file order.
    pub host_events: Vec<HostEvent>,
    /// The host tracker's report, as recorded.
    pub tracker: Option<Value>,
    /// Generations with one loaded model, in file order.
    pub generations: Vec<Generation>,
    /// What was noticed while reading, in this run and the others.
    pub findings: Vec<Finding>,
    /// Further runs of the same input, such as the other ranks of one job; they have no others and no findings.
    pub others: Vec<Run>,
}

/// One attached component.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Component {
    /// Its name; unique inside the run.
    pub name: String,
    /// Journal records: the one before the first step, then by step number.
    pub records: Vec<Record>,
    /// Detached reports, by file name.
    pub reports: Vec<LoadedReport>,
    /// `configuration` of the first record, for runs that ended before a report; null without records.
    pub configuration: Value,
    /// `runtime.state` of the first record.
    pub state: Value,
}

/// The clock by which the records of a component are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordClock {
    /// Host monotonic time, the clock of the manifest.
    Monotonic,
    /// Host time since the journal was opened; how it relates to other clocks is not recorded.
    SinceOpening,
}

impl Component {
    /// Monotonic time where every record has it; one record without it would tear the others apart.
    pub fn record_clock(&self) -> RecordClock {
        match self.records.iter().all(|record| record.observed_ns.is_some()) {
            true => RecordClock::Monotonic,
            false => RecordClock::SinceOpening,
        }
    }

    /// An unsigned integer of the configuration, from the last report that has it, else from the journal.
    pub fn configured(&self, key: &str) -> Option<u64> {
        let reported = self.reports.iter().rev().find_map(|report| report.configured(key));
        reported.or_else(|| self.configuration.get(key).and_then(Value::as_u64))
    }

    /// An unsigned integer of the planner's decisions, from the last report that has it, else from the journal.
    pub fn decided(&self, key: &str) -> Option<u64> {
        let reported = self.reports.iter().rev().find_map(|report| report.decided(key));
        reported.or_else(|| decision(&self.state, key))
    }
}

fn decision(state: &Value, key: &str) -> Option<u64> {
    state.get("planner_decisions").and_then(|decisions| decisions.get(key)).and_then(Value::as_u64)
}

/// One journal record, reduced to its leaves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record {
    /// The file, relative to the input.
    pub file: String,
    /// The step after whose submission it was taken; `None` for the record before the first step.
    pub step: Option<u64>,
    /// Host time since the journal was opened, in nanoseconds.
    pub host_elapsed_ns: Option<i64>,
    /// Host monotonic time of the observation, in nanoseconds; the clock of the manifest.
    pub observed_ns: Option<i64>,
    /// Leaves under `runtime.vmm`, by full path.
    pub values: Values,
}

impl Record {
    /// When it was taken, by the given clock.
    pub fn at(&self, clock: RecordClock) -> Option<i64> {
        match clock {
            RecordClock::Monotonic => self.observed_ns,
            RecordClock::SinceOpening => self.host_elapsed_ns,
        }
    }
}

/// One report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LoadedReport {
    /// The file, relative to the input.
    pub file: String,
    /// The session that it is about; older recorders do not name it.
    pub session_id: Option<String>,
    /// The route that produced it.
    pub route: Option<String>,
    /// `configuration`, as recorded.
    pub configuration: Value,
    /// `runtime.state`, as recorded.
    pub state: Value,
    /// `setup`, as recorded: what attaching, loading and the helper routes found out.
    pub setup: Value,
    /// `allocation_diagnostics` and `operator_diagnostics` of `runtime`, as recorded, lists included.
    pub diagnostics: Value,
    /// Leaves outside lists, by full path.
    pub values: Values,
    /// `runtime.execution_timing`.
    pub timing: Option<ExecutionTiming>,
    /// `runtime.native_timeline`.
    pub timeline: Option<Timeline>,
    /// `runtime.operator_diagnostics`.
    pub operators: Option<OperatorDiagnostics>,
    /// `runtime.allocation_diagnostics`.
    pub allocation: Option<AllocationDiagnostics>,
}

impl LoadedReport {
    /// An unsigned integer of the configuration.
    pub fn configured(&self, key: &str) -> Option<u64> {
        self.configuration.get(key).and_then(Value::as_u64)
    }

    /// An unsigned integer of the planner's decisions.
    pub fn decided(&self, key: &str) -> Option<u64> {
        decision(&self.state, key)
    }

    /// True for a report about an attached component, which has counters; helper routes have none.
    pub fn has_counters(&self) -> bool {
        self.values.keys().any(|path| path.starts_with("runtime.vmm."))
    }

    /// True where a scope that changes what it measures was open: such a report is for a diagnosis, not a benchmark.
    pub fn is_diagnostic(&self) -> bool {
        !self.diagnostic_scopes().is_empty()
    }

    /// Paths of the scopes that were open and make the report one for a diagnosis. One that was off changes nothing.
    pub fn diagnostic_scopes(&self) -> Vec<&str> {
        let off = |scope: &str| {
            let status = self.values.get(format!("{scope}.status").as_str());
            let enabled = self.values.get(format!("{scope}.enabled").as_str());
            matches!(status, Some(Scalar::Text(word)) if word == "disabled") || enabled == Some(&Scalar::Bool(false))
        };
        let marked = self.values.iter().filter(|(_, value)| **value == Scalar::Bool(false));
        marked.filter_map(|(path, _)| path.strip_suffix(".benchmark_eligible")).filter(|scope| !off(scope)).collect()
    }

    /// File name without its folders and `.json`.
    pub fn short_name(&self) -> &str {
        let name = self.file.rsplit('/').next().unwrap_or(&self.file);
        name.strip_suffix(".json").unwrap_or(name)
    }
}

impl Run {
    /// This run and the others of its input.
    pub fn all(&self) -> impl Iterator<Item = &Run> {
        std::iter::once(self).chain(&self.others)
    }

    /// Its place among the ranks of a job, where the manifest says it.
    pub fn rank(&self) -> Rank {
        self.manifest.as_ref().map(Rank::of).unwrap_or_default()
    }

    /// A run that consists of one timeline.
    pub fn from_timeline(name: impl Into<String>, timeline: NativeTimeline) -> Run {
        let report =
            LoadedReport { file: "timeline.json".into(), timeline: Some(Timeline::new(timeline)), ..LoadedReport::default() };
        let component = Component { name: "component".into(), reports: vec![report], ..Component::default() };
        Run { name: name.into(), components: vec![component], ..Run::default() }
    }

    /// The report that speaks for a component: `final.json` where it has one, else the last that was timed, else
    /// the last.
    pub fn leading_report(component: &Component) -> Option<&LoadedReport> {
        let reports = &component.reports;
        let timed = |report: &&LoadedReport| report.timing.is_some() || report.timeline.is_some();
        reports
            .iter()
            .find(|report| report.short_name() == "final")
            .or_else(|| reports.iter().rev().find(timed))
            .or_else(|| reports.iter().rev().find(|report| report.has_counters()))
            .or_else(|| reports.last())
    }
}
