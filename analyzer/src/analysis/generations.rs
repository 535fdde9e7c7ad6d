//! Repeats with one loaded model: "How does each generation compare with the one before?"
//!
//! Uses `run`, the steps and the deltas. Invariants: counters run on, so only differences between neighbouring reports are shown; a
//! generation without a report has host time and nothing else; the first generation is cold and stands apart.

use super::delta::{Delta, subtract};
use super::steps;
use crate::run::{Generation, LoadedReport, Run, Scalar};
use std::collections::BTreeMap;

/// One generation beside the one before.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Which one, from zero.
    pub index: u64,
    /// Host seconds from the preparation of its input to the readback of its result.
    pub elapsed_seconds: f64,
    /// How its timer stood; `None` without a report.
    pub timing: Option<String>,
    /// Seconds between the first and the last marker.
    pub phase_seconds: Option<f64>,
    /// Mean step after the first.
    pub steady_seconds: Option<f64>,
    /// Bytes uploaded since the report of the generation before.
    pub uploaded_bytes: Option<u64>,
    /// Ranges faulted since then.
    pub faults: Option<u64>,
}

/// The generations of a run by component, each in the order of its index; those of several runs have the run's name in front.
pub fn of(run: &Run) -> BTreeMap<String, Vec<Row>> {
    let mut all = BTreeMap::new();
    for one in run.all() {
        let prefix = if run.others.is_empty() { String::new() } else { format!("{}/", one.name) };
        all.extend(of_one(one).into_iter().map(|(name, rows)| (format!("{prefix}{name}"), rows)));
    }
    all
}

/// A generation and its report.
type Observed<'a> = (&'a Generation, Option<&'a LoadedReport>);

fn of_one(run: &Run) -> BTreeMap<String, Vec<Row>> {
    let reports = || run.components.iter().flat_map(|component| component.reports.iter().map(move |report| (component, report)));
    let mut components: BTreeMap<String, Vec<Observed<'_>>> = BTreeMap::new();
    for generation in &run.generations {
        let found = generation.report.as_ref().and_then(|file| reports().find(|(_, report)| report.file == *file));
        let name = found.map(|(component, _)| component.name.clone()).or_else(|| generation.component.clone());
        let name = name.unwrap_or_else(|| "component".into());
        components.entry(name).or_default().push((generation, found.map(|(_, report)| report)));
    }
    let rows = |mut all: Vec<Observed<'_>>| {
        all.sort_by_key(|(generation, report)| (generation.index, report.map(|report| report.file.clone())));
        let before = std::iter::once(None).chain(all.iter().map(Some));
        all.iter().zip(before).filter_map(|(one, before)| row(one, before)).collect::<Vec<_>>()
    };
    components.into_iter().map(|(name, all)| (name, rows(all))).collect()
}

fn row((generation, report): &Observed<'_>, before: Option<&Observed<'_>>) -> Option<Row> {
    let (index, elapsed_seconds) = generation.index.zip(generation.elapsed_seconds)?;
    let report = *report;
    // A hole in the numbers would add two generations together.
    let before = before.filter(|(before, _)| before.index.is_some_and(|before| before.checked_add(1) == Some(index)));
    let before = before.and_then(|(_, report)| *report);
    let added = |path: &str| {
        let value = |report: Option<&LoadedReport>| -> Option<Scalar> { report?.values.get(path).cloned() };
        match subtract(value(before).as_ref(), value(report).as_ref()) {
            Delta::Whole(added) => Some(added),
            Delta::Fraction(_) | Delta::Reset | Delta::Unavailable => None,
        }
    };
    let timing = report.and_then(|report| report.timing.as_ref());
    let sound = timing.filter(|timing| !timing.failed);
    Some(Row {
        index,
        elapsed_seconds,
        timing: timing.map(|timing| timing.status.clone()),
        phase_seconds: sound.and_then(|timing| timing.phase_seconds).map(|phase| phase.0),
        steady_seconds: sound.and_then(|timing| steps::steady(timing.step_seconds.as_ref()?)),
        uploaded_bytes: added("runtime.vmm.fast_upload_bytes"),
        faults: added("runtime.vmm.fast_faults"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Component;

    #[test]
    fn counters_are_differences_between_neighbours() {
        let mut component = Component { name: "component".into(), ..Component::default() };
        let mut generation = |index: u64, bytes: Option<u64>| {
            let file = format!("{index}.json");
            if let Some(bytes) = bytes {
                let values = [("runtime.vmm.fast_upload_bytes".into(), Scalar::U64(bytes))].into_iter().collect();
                component.reports.push(LoadedReport { file: file.clone(), values, ..LoadedReport::default() });
            }
            let (elapsed_seconds, report) = (Some(index as f64 + 0.5), bytes.map(|_| file));
            Generation { index: Some(index), elapsed_seconds, report, component: Some("component".into()) }
        };
        let generations = vec![generation(1, Some(30)), generation(0, Some(10)), generation(3, Some(90)), generation(4, None)];
        let run = Run { generations, components: vec![component], ..Run::default() };
        let rows = of(&run).remove("component").expect("one component");
        let shown: Vec<_> = rows.iter().map(|row| (row.index, row.uploaded_bytes, row.elapsed_seconds)).collect();
        assert_eq!(shown, [(0, None, 0.5), (1, Some(20), 1.5), (3, None, 3.5), (4, None, 4.5)]);
        assert!(rows.iter().all(|row| row.timing.is_none() && row.faults.is_none()));
    }
}
