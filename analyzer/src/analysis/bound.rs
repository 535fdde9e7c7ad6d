//! What the time of a step went into: "What does this run prove?"
//!
//! Uses `steps`, `floor` and `windows`. Invariants: only what was measured or supplied is said; time that nothing
//! explains stays unexplained; a supplied rate that the run itself contradicts is a finding.

use super::floor;
use super::overlap::{clip, union};
use super::steps::Steps;
use super::windows::warm_span;
use crate::limits::{BOUND_TOLERANCE, WAIT_SHARE};
use crate::run::{Component, Run};
use ddo_schemas::Finding;
use ddo_schemas::timeline::SampleKind;

/// What a run proves about its steps.
#[derive(Clone, Debug, PartialEq)]
pub enum Bound {
    /// The step takes as long as the supplied rate needs for what it streams, and nothing measured speaks against it.
    Uploads {
        /// Steady step.
        step_seconds: f64,
        /// Bytes streamed over the supplied rate.
        upload_seconds: f64,
        /// Bytes streamed a step.
        bytes: u64,
    },
    /// The step takes about as long as the supplied rate needs, but the timeline does not show compute waiting for it.
    NearUploads {
        /// Steady step.
        step_seconds: f64,
        /// Bytes streamed over the supplied rate.
        upload_seconds: f64,
        /// Bytes streamed a step.
        bytes: u64,
        /// The measured waits; `None` where the timeline holds none.
        waited: Option<Waited>,
    },
    /// Windows show how long compute waited for uploads.
    Waits {
        /// Steady step, where timed.
        step_seconds: Option<f64>,
        /// The waits.
        waited: Waited,
    },
    /// Every weight is resident; nothing is streamed.
    Resident {
        /// Steady step.
        step_seconds: f64,
    },
    /// The step is known and nothing explains it.
    Unexplained {
        /// Steady step.
        step_seconds: f64,
        /// What the supplied rate needs for the bytes streamed a step, where known: seconds and bytes.
        upload: Option<(f64, u64)>,
    },
    /// There are no step times.
    Untimed,
}

/// How long compute waited for uploads.
#[derive(Clone, Debug, PartialEq)]
pub struct Waited {
    /// Time in which at least one wait was open.
    pub waited_ns: i64,
    /// The warm steps; `None` where their markers are not complete, and then the waits are those of all steps.
    pub span_ns: Option<i64>,
    /// Windows are missing, so that compute waited at least that long.
    pub at_least: bool,
}

impl Waited {
    /// True where the waits are a relevant share of the warm steps.
    fn is_relevant(&self) -> bool {
        self.span_ns.is_some_and(|span| span > 0 && self.waited_ns as f64 >= WAIT_SHARE * span as f64)
    }
}

/// What a component's steps prove.
pub fn of(component: &Component, steps: &Steps) -> Bound {
    let upload = supplied(component);
    let waited = waits(component);
    if let (Some(step_seconds), Some((upload_seconds, bytes))) = (steps.steady_seconds, upload)
        && (step_seconds - upload_seconds).abs() <= BOUND_TOLERANCE * step_seconds
    {
        // Two numbers may agree by chance: measured waits come first.
        let traced = Run::leading_report(component).is_some_and(|report| report.timeline.is_some());
        return match waited {
            Some(waited) if !waited.is_relevant() => {
                Bound::NearUploads { step_seconds, upload_seconds, bytes, waited: Some(waited) }
            }
            None if traced => Bound::NearUploads { step_seconds, upload_seconds, bytes, waited: None },
            _ => Bound::Uploads { step_seconds, upload_seconds, bytes },
        };
    }
    if let Some(waited) = waited {
        return Bound::Waits { step_seconds: steps.steady_seconds, waited };
    }
    match steps.steady_seconds {
        Some(step_seconds) if floor::is_resident(component) => Bound::Resident { step_seconds },
        Some(step_seconds) => Bound::Unexplained { step_seconds, upload },
        None => Bound::Untimed,
    }
}

/// Seconds that the supplied rate needs for what a step streams, and those bytes.
fn supplied(component: &Component) -> Option<(f64, u64)> {
    let (streamed, rate) = (floor::streamed(component)?, floor::link_rate(component)?);
    (streamed.bytes > 0).then(|| (streamed.bytes as f64 / rate as f64, streamed.bytes))
}

fn waits(component: &Component) -> Option<Waited> {
    let report = Run::leading_report(component)?;
    let timeline = report.timeline.as_ref()?;
    if report.timing.as_ref().is_some_and(|timing| timing.failed) {
        return None;
    }
    let open = timeline.intervals(SampleKind::ComputeUploadDependency);
    if open.is_empty() {
        return None;
    }
    let span = warm_span(timeline);
    let waited_ns = union(&span.map_or_else(|| open.clone(), |span| clip(&open, span)));
    let missing = timeline.recorded.dropped > 0 || timeline.windows.iter().any(|window| window.times().is_none());
    let span_ns = span.map(|(start, end)| end - start);
    Some(Waited { waited_ns, span_ns, at_least: missing })
}

/// A finding where the steps are shorter than the supplied rate allows.
pub fn contradicted_rate(component: &Component) -> Option<Finding> {
    let steps = super::steps::of(component);
    let step = steps.steady_seconds?;
    let (upload, _) = supplied(component)?;
    let text = format!(
        "a step took {step:.6} s, less than the {upload:.6} s that the supplied link rate needs for what it streams; \
         the link is faster than was supplied"
    );
    let place = Run::leading_report(component).map_or_else(|| component.name.clone(), |report| report.file.clone());
    (upload > step * (1.0 + BOUND_TOLERANCE)).then(|| Finding::warning("supplied_rate_contradicted", place, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::LoadedReport;
    use ddo_schemas::Seconds;
    use ddo_schemas::sections::ExecutionTiming;
    use serde_json::json;

    fn component(rate: Option<u64>, step: f64) -> Component {
        let timing: ExecutionTiming = serde_json::from_value(json!({"schema_version": 1, "clock": "host_stream",
            "unit": "seconds", "scope": "s", "failed": false, "status": "complete",
            "step_seconds": [9.0, step, step]}))
        .expect("a timing");
        assert_eq!(timing.step_seconds.as_ref().map(|steps| steps[0]), Some(Seconds(9.0)));
        let report = LoadedReport {
            file: "final.json".into(),
            configuration: rate.map_or(json!({}), |rate| json!({"link_bytes_per_second": rate})),
            state: json!({"planner_decisions": {"vmm_streamed_bytes_per_pass": 1000, "vmm_streamed_units": 3}}),
            timing: Some(timing),
            ..LoadedReport::default()
        };
        Component { name: "c".into(), reports: vec![report], ..Component::default() }
    }

    fn bound(component: &Component) -> Bound {
        let steps = crate::analysis::steps::of(component);
        of(component, &steps)
    }

    #[test]
    fn uploads_bound_a_step_only_where_the_supplied_rate_says_so() {
        let near = bound(&component(Some(1000), 1.05));
        assert_eq!(near, Bound::Uploads { step_seconds: 1.05, upload_seconds: 1.0, bytes: 1000 });
        let far = bound(&component(Some(1000), 2.0));
        assert_eq!(far, Bound::Unexplained { step_seconds: 2.0, upload: Some((1.0, 1000)) });
        assert_eq!(bound(&component(None, 2.0)), Bound::Unexplained { step_seconds: 2.0, upload: None });
    }

    /// A component of three steps of 1.05 s in which compute waits at the given seconds.
    fn traced(waits: &[(f64, f64)]) -> Component {
        let sample = |kind: &str, unit: u64, from: f64, to: f64| {
            json!({"sequence": 1, "unit": unit, "stream": 1, "bytes": null, "kind": kind, "status": "complete",
                "start_seconds": from, "end_seconds": to})
        };
        let mut samples: Vec<_> = (0..4_u64).map(|at| sample("step_marker", at, at as f64 * 1.05, at as f64 * 1.05)).collect();
        samples.extend(waits.iter().map(|(from, to)| sample("compute_upload_dependency", 1, *from, *to)));
        let timeline = json!({"schema_version": 1, "clock": "host_stream", "unit": "seconds", "scope": "s", "status": "complete",
            "capacity": 64, "dropped": 0, "failures": 0, "pending": 0, "samples": samples, "execution_units": {}});
        let mut component = component(Some(1000), 1.05);
        let timeline = serde_json::from_value(timeline).expect("a timeline");
        component.reports[0].timeline = Some(crate::run::Timeline::new(timeline));
        component
    }

    #[test]
    fn a_step_near_the_upload_term_is_bound_by_uploads_only_where_compute_waited() {
        let waited = Waited { waited_ns: 1_000, span_ns: Some(2_100_000_000), at_least: false };
        let near = |waited| Bound::NearUploads { step_seconds: 1.05, upload_seconds: 1.0, bytes: 1000, waited };
        assert_eq!(bound(&traced(&[(1.5, 1.500_001)])), near(Some(waited)), "busy for all but 1 us");
        assert_eq!(bound(&traced(&[])), near(None), "a timeline without waits");
        let cold = Waited { waited_ns: 0, span_ns: Some(2_100_000_000), at_least: false };
        assert_eq!(bound(&traced(&[(0.0, 1.0)])), near(Some(cold)), "only the cold step waited");
        let bound = bound(&traced(&[(1.5, 1.7)]));
        assert_eq!(bound, Bound::Uploads { step_seconds: 1.05, upload_seconds: 1.0, bytes: 1000 }, "a tenth");
    }

    #[test]
    fn a_step_below_its_own_floor_contradicts_the_rate() {
        assert!(contradicted_rate(&component(Some(1000), 0.5)).is_some());
        assert_eq!(contradicted_rate(&component(Some(1000), 0.95)), None);
        assert_eq!(contradicted_rate(&component(None, 0.5)), None);
    }
}
