//! Driver calls of a step: "What did memory cost the host, and in which step?"
//!
//! Uses `run`. Invariants: times are host times, they overlap and are never added over kinds that lie in each other; what follows the
//! last step has a row of its own and is the difference between the whole and the steps; a counter that a native version lacks is
//! absent; a scope that did not complete has no rows.

use crate::run::{LoadedReport, Run, Scalar, Values};

/// Kinds of calls that do not lie in each other, by the begin of their counters' names.
pub const CALLS: [&str; 7] = ["create", "map", "access", "unmap", "release", "reserve", "address_free"];

/// One interval.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Interval {
    /// The step, from zero; `None` for what follows the last one.
    pub step: Option<u64>,
    /// Host time between its boundaries; of the rest, what the steps leave of the scope.
    pub host_seconds: Option<f64>,
    /// Its interval on the compute stream, where the same report has a timer.
    pub stream_seconds: Option<f64>,
    /// Counters by name.
    pub values: Values,
}

/// A scope's calls by step, and all together.
#[derive(Clone, Debug, PartialEq)]
pub struct DriverCalls {
    /// How the scope ended.
    pub status: String,
    /// Steps, then the rest.
    pub intervals: Vec<Interval>,
    /// From entry to exit.
    pub total: Interval,
}

impl Interval {
    /// A count by its name.
    pub fn count(&self, name: &str) -> Option<u64> {
        match self.values.get(name) {
            Some(Scalar::U64(count)) => Some(*count),
            _ => None,
        }
    }

    /// Seconds by their name.
    pub fn seconds(&self, name: &str) -> Option<f64> {
        match self.values.get(name) {
            Some(Scalar::F64(seconds)) => Some(*seconds),
            Some(Scalar::U64(seconds)) => Some(*seconds as f64),
            _ => None,
        }
    }

    /// Calls of all kinds in [`CALLS`], their host seconds, and how many of them failed; `None` where one is absent.
    pub fn all_calls(&self) -> Option<(u64, f64, u64)> {
        CALLS.iter().try_fold((0, 0.0, 0), |(calls, seconds, failed), kind| {
            Some((
                self.count(&format!("{kind}_calls"))?.checked_add(calls)?,
                self.seconds(&format!("{kind}_host_seconds"))? + seconds,
                self.count(&format!("{kind}_failed_calls"))?.checked_add(failed)?,
            ))
        })
    }
}

/// The calls that a report counted; `None` where no scope was open.
pub fn of(report: &LoadedReport) -> Option<DriverCalls> {
    let scope = report.allocation.as_ref()?;
    let status = scope.status.clone().unwrap_or_else(|| "unknown".into());
    if status == "disabled" {
        return None;
    }
    let stream = report.timing.as_ref().filter(|timing| !timing.failed).and_then(|timing| timing.step_seconds.as_ref());
    // Boundaries are the same only where both marked the same steps.
    let stream = stream.filter(|steps| steps.len() == scope.steps.len());
    let mut intervals: Vec<Interval> = scope
        .steps
        .iter()
        .enumerate()
        .map(|(at, step)| Interval {
            step: step.step,
            host_seconds: step.host_submission_seconds,
            stream_seconds: stream.and_then(|steps| steps.get(at)).map(|seconds| seconds.0),
            values: step.driver_delta.clone(),
        })
        .collect();
    let total = Interval { host_seconds: scope.host_scope_seconds, values: scope.total_delta.clone(), ..Interval::default() };
    if !intervals.is_empty() && !total.values.is_empty() {
        intervals.push(rest(&intervals, &total));
    }
    Some(DriverCalls { status, intervals, total })
}

/// What the steps leave of the whole.
fn rest(steps: &[Interval], total: &Interval) -> Interval {
    let left = |name: &str, whole: &Scalar| -> Option<Scalar> {
        match whole {
            Scalar::U64(whole) => {
                let parts = steps.iter().try_fold(0u64, |sum, step| sum.checked_add(step.count(name)?))?;
                whole.checked_sub(parts).map(Scalar::U64)
            }
            Scalar::F64(whole) => {
                let parts: Option<f64> = steps.iter().map(|step| step.seconds(name)).sum();
                // Differences of sums of fractions may miss zero by their last digits.
                parts.map(|parts| Scalar::F64((whole - parts).max(0.0)))
            }
            _ => None,
        }
    };
    let values = total.values.iter().filter_map(|(name, whole)| Some((name.clone(), left(name, whole)?))).collect();
    let host: Option<f64> = steps.iter().map(|step| step.host_seconds).sum();
    let host_seconds = total.host_seconds.zip(host).map(|(whole, parts)| (whole - parts).max(0.0));
    Interval { step: None, host_seconds, stream_seconds: None, values }
}

/// Every report of a run that counted driver calls, with the component's name.
pub fn all(run: &Run) -> Vec<(String, &LoadedReport, DriverCalls)> {
    let reports = run
        .all()
        .flat_map(|run| &run.components)
        .flat_map(|component| component.reports.iter().map(move |report| (component, report)));
    reports.filter_map(|(component, report)| Some((component.name.clone(), report, of(report)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{AllocationDiagnostics, AllocationStep};

    fn values(create: u64, seconds: f64) -> Values {
        let mut values = Values::new();
        for kind in CALLS {
            values.insert(format!("{kind}_calls").into(), Scalar::U64(if kind == "create" { create } else { 0 }));
            values.insert(format!("{kind}_host_seconds").into(), Scalar::F64(if kind == "create" { seconds } else { 0.0 }));
            values.insert(format!("{kind}_failed_calls").into(), Scalar::U64(0));
        }
        values
    }

    fn report(status: &str) -> LoadedReport {
        let step = |at: u64, create, seconds| AllocationStep {
            step: Some(at),
            host_submission_seconds: Some(1.0),
            driver_delta: values(create, seconds),
            ..AllocationStep::default()
        };
        let scope = AllocationDiagnostics {
            status: Some(status.into()),
            host_scope_seconds: Some(2.5),
            steps: vec![step(0, 5, 0.25), step(1, 1, 0.125)],
            total_delta: values(8, 0.5),
            ..AllocationDiagnostics::default()
        };
        LoadedReport { allocation: Some(scope), ..LoadedReport::default() }
    }

    #[test]
    fn what_follows_the_last_step_is_the_difference() {
        let found = of(&report("complete")).expect("counted");
        let calls: Vec<_> = found.intervals.iter().map(|one| (one.step, one.all_calls(), one.host_seconds)).collect();
        let wanted = [
            (Some(0), Some((5, 0.25, 0)), Some(1.0)),
            (Some(1), Some((1, 0.125, 0)), Some(1.0)),
            (None, Some((2, 0.125, 0)), Some(0.5)),
        ];
        assert_eq!(calls, wanted);
        assert_eq!(found.total.all_calls(), Some((8, 0.5, 0)));
        assert_eq!(found.total.count("access_return_not_ready_calls"), None, "an older native version lacks it");
    }

    #[test]
    fn a_disabled_scope_is_none() {
        assert_eq!(of(&report("disabled")), None);
        assert_eq!(of(&LoadedReport::default()), None);
    }
}
