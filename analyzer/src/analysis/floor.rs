//! The floor of a step: "How fast could it be, and how near is it?"
//!
//! Uses `run` and `steps`. floor = max(C, X / B, D): C compute with every weight resident, X bytes streamed a step
//! over B the link's rate, D bytes from disk over the disk's rate. Invariants: a term that does not follow from the
//! run is unknown, with what is missing; without C and X / B there is neither a floor nor an efficiency.

use super::delta::{Delta, consecutive, subtract};
use super::steps::Steps;
use crate::run::{Component, LoadedReport, Record, Run};
use ddo_schemas::Seconds;
use ddo_schemas::summary::{FloorTerm, FloorTerms};
use ddo_schemas::unit::{Nullable, human_bytes};

/// Bytes that were streamed in one warm step, and how that is known.
#[derive(Clone, Debug, PartialEq)]
pub struct Streamed {
    /// Bytes.
    pub bytes: u64,
    /// How it is known.
    pub basis: &'static str,
}

/// The floor of one component's steps.
#[derive(Clone, Debug, PartialEq)]
pub struct Floor {
    /// The terms.
    pub terms: FloorTerms,
    /// The largest known term; `None` unless compute and upload are known.
    pub seconds: Option<f64>,
    /// Floor over the measured step; `None` for a run that was diagnosed.
    pub efficiency: Option<f64>,
    /// True where a scope that changes what it measures was open: the measured step is no benchmark.
    pub diagnostic: bool,
}

/// Bytes streamed in one warm step: from the journal's counters, else from the plan.
///
/// Slot traffic is what the term asks for. Where there is none, arena uploads in warm steps are streaming all the
/// same; only when both stand still is nothing streamed.
pub fn streamed(component: &Component) -> Option<Streamed> {
    let slots = warm_median(component, "runtime.vmm.fast_execution_buffer_bytes");
    let uploads = warm_median(component, "runtime.vmm.fast_upload_bytes");
    match (slots, uploads) {
        (Some(bytes), _) if bytes > 0 => return Some(Streamed { bytes, basis: "median of the warm steps' slot uploads" }),
        (_, Some(bytes)) => return Some(Streamed { bytes, basis: "median of the warm steps' uploads" }),
        _ => {}
    }
    let planned = component.decided("vmm_streamed_bytes_per_pass");
    planned.map(|bytes| Streamed { bytes, basis: "the plan" })
}

/// Median of what the steps after the first added to a counter.
fn warm_median(component: &Component, path: &str) -> Option<u64> {
    let added = |pair: &[Record]| match pair {
        [before, after] if consecutive(before, after) && before.step.is_some() => {
            match subtract(before.values.get(path), after.values.get(path)) {
                Delta::Whole(bytes) => Some(bytes),
                Delta::Fraction(_) | Delta::Reset | Delta::Unavailable => None,
            }
        }
        _ => None,
    };
    let mut warm: Vec<u64> = component.records.windows(2).filter_map(added).collect();
    warm.sort_unstable();
    warm.get(warm.len() / 2).copied()
}

/// The link's rate in bytes per second, where the configuration supplies it.
pub fn link_rate(component: &Component) -> Option<u64> {
    component.configured("link_bytes_per_second").filter(|rate| *rate > 0)
}

/// A rate in the two ways in which people give it.
pub fn human_rate(bytes_per_second: f64) -> String {
    format!("{:.3} GB/s ({}/s)", bytes_per_second / 1e9, human_bytes(bytes_per_second as u64))
}

/// All terms of a component.
pub fn of(component: &Component, steps: &Steps) -> Floor {
    let streamed = streamed(component);
    let compute = compute(component, steps);
    let upload = upload(streamed.as_ref(), link_rate(component));
    let disk = unknown("reads from disk are not observed");
    let seconds = match (compute.seconds.0, upload.seconds.0) {
        (Some(compute), Some(upload)) => Some(compute.0.max(upload.0)),
        _ => None,
    };
    let diagnostic = Run::leading_report(component).is_some_and(LoadedReport::is_diagnostic);
    let efficiency = match (seconds, steps.steady_seconds) {
        (Some(floor), Some(step)) if step > 0.0 && !diagnostic => Some(floor / step),
        _ => None,
    };
    Floor { terms: FloorTerms { compute, upload, disk }, seconds, efficiency, diagnostic }
}

/// Terms of a run without a component.
pub fn nothing_known() -> FloorTerms {
    let missing = || unknown("no component was recorded");
    FloorTerms { compute: missing(), upload: missing(), disk: missing() }
}

fn compute(component: &Component, steps: &Steps) -> FloorTerm {
    let resident = component.decided("vmm_streamed_units") == Some(0);
    match steps.steady_seconds {
        Some(seconds) if resident => known(seconds, "measured", "the steady step of this run, in which every weight is resident"),
        _ => unknown("needs a run with every weight resident"),
    }
}

fn upload(streamed: Option<&Streamed>, rate: Option<u64>) -> FloorTerm {
    match (streamed, rate) {
        (Some(streamed), _) if streamed.bytes == 0 => {
            known(0.0, "measured", &format!("nothing is streamed ({})", streamed.basis))
        }
        (Some(streamed), Some(rate)) => {
            let basis = format!(
                "{} a step ({}) over the configured {}",
                human_bytes(streamed.bytes),
                streamed.basis,
                human_rate(rate as f64)
            );
            known(streamed.bytes as f64 / rate as f64, "supplied", &basis)
        }
        (Some(streamed), None) => {
            unknown(&format!("{} a step ({}); the link's rate is not known", human_bytes(streamed.bytes), streamed.basis))
        }
        (None, _) => unknown("bytes streamed a step are not recorded"),
    }
}

fn known(seconds: f64, origin: &str, basis: &str) -> FloorTerm {
    FloorTerm { seconds: Nullable(Some(Seconds(seconds))), origin: origin.into(), basis: basis.into() }
}

fn unknown(basis: &str) -> FloorTerm {
    FloorTerm { seconds: Nullable(None), origin: "unknown".into(), basis: basis.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::LoadedReport;
    use serde_json::json;

    fn component(streamed: u64, rate: Option<u64>, units: u64) -> Component {
        let report = LoadedReport {
            file: "final.json".into(),
            configuration: rate.map_or(json!({}), |rate| json!({"link_bytes_per_second": rate})),
            state: json!({"planner_decisions": {"vmm_streamed_bytes_per_pass": streamed, "vmm_streamed_units": units}}),
            ..LoadedReport::default()
        };
        Component { name: "c".into(), reports: vec![report], ..Component::default() }
    }

    #[test]
    fn no_floor_without_both_terms() {
        let steps = Steps { steady_seconds: Some(2.0), ..Steps::default() };
        let floor = of(&component(1000, Some(1000), 3), &steps);
        assert_eq!(floor.terms.upload.seconds.0, Some(Seconds(1.0)));
        assert_eq!(floor.terms.upload.origin, "supplied");
        assert_eq!((floor.seconds, floor.efficiency), (None, None));
        let floor = of(&component(1000, None, 3), &steps);
        assert_eq!(floor.terms.upload.seconds.0, None);
    }

    #[test]
    fn a_resident_run_is_its_own_compute_term() {
        let steps = Steps { steady_seconds: Some(2.0), ..Steps::default() };
        let floor = of(&component(0, None, 0), &steps);
        assert_eq!((floor.seconds, floor.efficiency), (Some(2.0), Some(1.0)));
    }
}
