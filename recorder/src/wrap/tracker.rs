//! "How much memory did each phase take?" Counts samples, costs and peaks, and writes them as the host tracker's report.
//!
//! May use: std, schemas and the limits.
//!
//! Invariants: a peak comes with the name of what was read; a phase in which a query failed says so; what was not read is
//! absent, never zero; relative peaks refer to the baseline taken before the command.

use crate::limits::MAX_PHASES;
use ddo_schemas::{Gib, Nullable, Seconds};
use serde::Serialize;

/// File name of the report.
pub(super) const TRACKER_FILE: &str = "tracker.json";
/// The only phase of a run whose host names none.
pub(super) const WHOLE_RUN: &str = "run";

/// What one query of both memories gave.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    pub(super) ram_bytes: Option<u64>,
    pub(super) gpu_bytes: Option<u64>,
    pub(super) ram_seconds: f64,
    pub(super) gpu_seconds: Option<f64>,
    pub(super) error_type: Option<&'static str>,
}

/// Sums of one phase.
#[derive(Clone, Debug, Default)]
struct Phase {
    name: String,
    samples: u64,
    ram_seconds: f64,
    gpu_seconds: f64,
    peak_ram: Option<u64>,
    peak_gpu: Option<u64>,
    error_type: Option<&'static str>,
}

/// All phases of a run.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    phases: Vec<Phase>,
    /// Whether a host named any phase.
    named: bool,
}

impl Tally {
    pub(super) fn new() -> Tally {
        Tally { phases: vec![Phase { name: WHOLE_RUN.into(), ..Phase::default() }], named: false }
    }

    /// A phase begins. The time before the first one keeps its samples under `run`.
    pub(super) fn begin(&mut self, name: &str) {
        self.named = true;
        if self.phases.len() < MAX_PHASES {
            self.phases.push(Phase { name: name.to_owned(), ..Phase::default() });
        }
    }

    /// The phase that a host named, where one did.
    pub(super) fn named_phase(&self) -> Option<&str> {
        self.phases.last().filter(|_| self.named).map(|phase| phase.name.as_str())
    }

    pub(super) fn add(&mut self, look: &Look) {
        let Some(phase) = self.phases.last_mut() else { return };
        phase.samples = phase.samples.saturating_add(u64::from(look.error_type.is_none()));
        phase.ram_seconds += look.ram_seconds;
        phase.gpu_seconds += look.gpu_seconds.iter().sum::<f64>();
        phase.peak_ram = phase.peak_ram.max(look.ram_bytes);
        phase.peak_gpu = phase.peak_gpu.max(look.gpu_bytes);
        phase.error_type = phase.error_type.or(look.error_type);
    }

    pub(super) fn peak_ram(&self) -> Option<u64> {
        self.phases.iter().filter_map(|phase| phase.peak_ram).max()
    }

    pub(super) fn peak_gpu(&self) -> Option<u64> {
        self.phases.iter().filter_map(|phase| phase.peak_gpu).max()
    }
}

/// What was set up before the command.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) mode: &'static str,
    pub(super) ram_metric: &'static str,
    pub(super) gpu_metric: Option<&'static str>,
    pub(super) gpu_baseline: Option<u64>,
    pub(super) interval_seconds: f64,
}

/// The host tracker's report. Names as the specification has them.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    memory_monitor: Monitor,
    #[serde(skip_serializing_if = "Option::is_none")]
    vram_baseline_gb: Option<Gib>,
    #[serde(skip_serializing_if = "Option::is_none")]
    vram_baseline_moment: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    global_peak_ram_gb: Option<Gib>,
    #[serde(skip_serializing_if = "Option::is_none")]
    global_peak_vram_gb: Option<Gib>,
    #[serde(skip_serializing_if = "Option::is_none")]
    global_peak_vram_absolute_gb: Option<Gib>,
    steps: Vec<Step>,
}

#[derive(Debug, Serialize)]
struct Monitor {
    mode: &'static str,
    ram_metric: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_metric: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_absolute_metric: Option<&'static str>,
    memory_unit: &'static str,
    interval_sec: Seconds,
}

#[derive(Debug, Serialize)]
struct Step {
    name: String,
    ram_metric: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_ram_gb: Option<Gib>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_vram_gb: Option<Gib>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_vram_absolute_gb: Option<Gib>,
    memory_monitor: StepMonitor,
}

#[derive(Debug, Serialize)]
struct StepMonitor {
    samples: u64,
    ram_query_seconds: Seconds,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu_query_seconds: Option<Seconds>,
    error_type: Nullable<String>,
}

/// The difference in GiB; negative when others gave memory back.
fn above(bytes: u64, baseline: u64) -> Gib {
    let distance = Gib::from_bytes(bytes.abs_diff(baseline));
    if bytes >= baseline { distance } else { Gib(-distance.0) }
}

impl Report {
    /// The report of a run.
    pub(super) fn of(setup: &Setup, tally: &Tally) -> Report {
        // The time before the first named phase has a row only where something was seen in it.
        let shown = tally.phases.iter().filter(|phase| !tally.named || phase.name != WHOLE_RUN || phase.samples > 0);
        let relative = |peak: Option<u64>| peak.zip(setup.gpu_baseline).map(|(peak, baseline)| above(peak, baseline));
        let steps = shown.map(|phase| Step {
            name: phase.name.clone(),
            ram_metric: setup.ram_metric,
            peak_ram_gb: phase.peak_ram.map(Gib::from_bytes),
            peak_vram_gb: relative(phase.peak_gpu),
            peak_vram_absolute_gb: phase.peak_gpu.map(Gib::from_bytes),
            memory_monitor: StepMonitor {
                samples: phase.samples,
                ram_query_seconds: Seconds(phase.ram_seconds),
                gpu_query_seconds: setup.gpu_metric.map(|_| Seconds(phase.gpu_seconds)),
                error_type: Nullable(phase.error_type.map(str::to_owned)),
            },
        });
        Report {
            memory_monitor: Monitor {
                mode: setup.mode,
                ram_metric: setup.ram_metric,
                gpu_metric: setup.gpu_metric.map(|name| format!("{name}_minus_baseline")),
                gpu_absolute_metric: setup.gpu_metric,
                memory_unit: "GiB",
                interval_sec: Seconds(setup.interval_seconds),
            },
            vram_baseline_gb: setup.gpu_baseline.map(Gib::from_bytes),
            vram_baseline_moment: setup.gpu_baseline.map(|_| super::manifest::BEFORE_CHILD),
            global_peak_ram_gb: tally.peak_ram().map(Gib::from_bytes),
            global_peak_vram_gb: relative(tally.peak_gpu()),
            global_peak_vram_absolute_gb: tally.peak_gpu().max(setup.gpu_baseline).map(Gib::from_bytes),
            steps: steps.collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const GIB: u64 = 1 << 30;

    fn look(ram: u64, gpu: u64) -> Look {
        Look { ram_bytes: Some(ram), gpu_bytes: Some(gpu), ram_seconds: 0.5, gpu_seconds: Some(0.25), error_type: None }
    }

    #[test]
    fn peaks_are_relative_and_absolute_and_belong_to_their_phase() {
        let setup = Setup {
            mode: "rss",
            ram_metric: "rss_process_tree",
            gpu_metric: Some("nvml_device_used"),
            gpu_baseline: Some(2 * GIB),
            interval_seconds: 0.1,
        };
        let mut tally = Tally::new();
        tally.begin("load");
        tally.add(&look(3 * GIB, GIB));
        tally.begin("denoise");
        tally.add(&look(GIB, 5 * GIB));
        tally.add(&Look { error_type: Some("io"), ..Look::default() });
        let report = serde_json::to_value(Report::of(&setup, &tally)).expect("finite");
        assert_eq!(report["global_peak_ram_gb"], json!(3.0));
        assert_eq!((&report["global_peak_vram_gb"], &report["global_peak_vram_absolute_gb"]), (&json!(3.0), &json!(5.0)));
        assert_eq!(report["vram_baseline_moment"], "before_child");
        let [load, denoise] = report["steps"].as_array().expect("a list").as_slice() else { panic!("{report}") };
        assert_eq!(
            (&load["name"], &load["peak_vram_gb"], &load["peak_vram_absolute_gb"]),
            (&json!("load"), &json!(-1.0), &json!(1.0))
        );
        assert_eq!(
            (&load["memory_monitor"]["error_type"], &denoise["memory_monitor"]["error_type"]),
            (&json!(null), &json!("io"))
        );
        assert_eq!(denoise["memory_monitor"]["samples"], 1);
        assert_eq!(denoise["memory_monitor"]["ram_query_seconds"], 0.5);
    }

    #[test]
    fn without_a_device_there_are_no_device_figures() {
        let setup =
            Setup { mode: "full", ram_metric: "uss_process_tree", gpu_metric: None, gpu_baseline: None, interval_seconds: 1.0 };
        let mut tally = Tally::new();
        tally.add(&Look { ram_bytes: Some(GIB), ..Look::default() });
        let text = serde_json::to_string(&Report::of(&setup, &tally)).expect("finite");
        assert!(!text.contains("vram") && !text.contains("gpu"), "{text}");
        assert_eq!(tally.named_phase(), None);
    }
}
