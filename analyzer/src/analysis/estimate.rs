//! Alignment by step markers: "Where would a timeline lie on the journal's clock, if nobody recorded it?"
//!
//! Uses `run` and `alignment`. A host marks a step and then records it, so the device passes the marker after the
//! step's submission and, where the host keeps up, soon after its record. The step with the shortest delay gives the
//! estimate: no marker is placed before its record. Invariants: it is an estimate and carries how far the steps
//! disagree; it is made only where the steps are the same in number and no other timeline has as many.

use super::alignment::{self, Key};
use crate::run::{Component, Timeline};
use ddo_schemas::timeline::{END_MARKER, SampleKind};

/// A timeline placed on the clock of its component's journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// The timeline.
    pub key: Key,
    /// The timeline's zero on the journal's clock, in nanoseconds.
    pub zero_ns: i64,
    /// Steps that were compared.
    pub steps: usize,
    /// How far they disagree: the longest delay of a marker after its record.
    pub spread_ns: i64,
}

/// The estimate for the component at this position; `None` where its journal and timelines allow none.
pub fn of(component: &Component, at: usize) -> Option<Estimate> {
    let clock = component.record_clock();
    let records: Vec<(u64, i64)> =
        component.records.iter().filter_map(|record| Some((record.step?, record.at(clock)?))).collect();
    if records.is_empty() || records.iter().zip(0..).any(|((step, _), number)| *step != number) {
        return None;
    }
    let mut fitting = alignment::timelines(component).into_iter().filter_map(|(report, timeline)| {
        let ends = step_ends(timeline)?;
        (ends.len() == records.len()).then_some((report, ends, timeline))
    });
    let (report, ends, timeline) = fitting.next()?;
    if fitting.next().is_some() || alignment::epoch(timeline).is_some() {
        return None;
    }
    let zeros = records.iter().zip(&ends).map(|((_, recorded), end)| recorded.saturating_sub(*end));
    let (first, last) = (zeros.clone().min()?, zeros.max()?);
    let key = Key::Timeline(at, report);
    Some(Estimate { key, zero_ns: last, steps: records.len(), spread_ns: last.saturating_sub(first) })
}

/// Times of the markers that end the steps, where every marker is complete and numbered without a hole.
fn step_ends(timeline: &Timeline) -> Option<Vec<i64>> {
    let markers = timeline.windows.iter().filter(|window| window.kind == SampleKind::StepMarker && window.unit != END_MARKER);
    let mut markers: Vec<(u64, i64)> =
        markers.map(|window| window.times().map(|(start, _)| (window.unit, start))).collect::<Option<_>>()?;
    markers.sort_unstable();
    let numbered = markers.iter().zip(0..).all(|((unit, _), number)| *unit == number);
    (numbered && markers.len() > 1 && recorded_whole(timeline)).then(|| markers.iter().skip(1).map(|(_, start)| *start).collect())
}

/// A truncated timeline may have lost its last markers.
fn recorded_whole(timeline: &Timeline) -> bool {
    timeline.recorded.dropped == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{LoadedReport, Record};
    use serde_json::json;

    fn component(recorded: &[i64], markers: &[&[f64]]) -> Component {
        let record =
            |(step, at): (usize, &i64)| Record { step: Some(step as u64), host_elapsed_ns: Some(*at), ..Record::default() };
        let report = |markers: &&[f64]| {
            let samples: Vec<_> = markers
                .iter()
                .enumerate()
                .map(|(unit, at)| {
                    json!({"sequence": unit + 1, "unit": unit, "stream": 0, "bytes": null, "kind": "step_marker",
                        "status": "complete", "start_seconds": at, "end_seconds": at})
                })
                .collect();
            let recorded = json!({"schema_version": 1, "clock": "cuda_event", "unit": "seconds", "scope": "s",
                "status": "complete", "capacity": 64, "dropped": 0, "failures": 0, "pending": 0, "samples": samples,
                "execution_units": {}});
            let timeline = Timeline::new(serde_json::from_value(recorded).expect("a timeline"));
            LoadedReport { timeline: Some(timeline), ..LoadedReport::default() }
        };
        Component {
            records: recorded.iter().enumerate().map(record).collect(),
            reports: markers.iter().map(report).collect(),
            ..Component::default()
        }
    }

    #[test]
    fn no_marker_is_placed_before_its_record_and_the_spread_is_kept() {
        let found = of(&component(&[1_000, 2_000], &[&[0.0, 1e-6, 3e-6]]), 4).expect("an estimate");
        assert_eq!(found, Estimate { key: Key::Timeline(4, 0), zero_ns: 0, steps: 2, spread_ns: 1_000 });
        for (record, marker) in [(1_000, 1_000), (2_000, 3_000)] {
            assert!(marker + found.zero_ns >= record);
        }
    }

    #[test]
    fn other_numbers_of_steps_and_two_candidates_allow_no_estimate() {
        assert_eq!(of(&component(&[1, 2, 3], &[&[0.0, 1e-9, 2e-9]]), 0), None);
        assert_eq!(of(&component(&[1], &[&[0.0, 1e-9], &[0.0, 1e-9]]), 0), None);
        assert_eq!(of(&component(&[], &[&[0.0, 1e-9]]), 0), None);
        assert!(of(&component(&[1], &[&[0.0, 1e-9, 2e-9], &[0.0, 1e-9]]), 0).is_some_and(|e| e.key == Key::Timeline(0, 1)));
    }
}
