//! Operator traces: "Where did host and device time go, and what of it can be believed?"
//!
//! Uses `run` and `limits`. Invariants: what was not recorded is unavailable, never zero; what contradicts itself is
//! counted and shown as recorded, never corrected; every row is passed over once and the result is kept.

mod device;
mod flows;
mod host;
mod nesting;
#[cfg(test)]
mod tests;

pub use flows::{Arrows, Place, arrows};
pub use nesting::{NO_LANE, lanes};

use crate::run::operators::{Class, OperatorSummary, OperatorTrace};
use ddo_schemas::Finding;

/// What follows from all rows of a trace.
pub fn summary(trace: &OperatorTrace) -> &OperatorSummary {
    trace.summary.get_or_init(|| {
        let mut summary = OperatorSummary::default();
        let works = device::summarise(trace, &mut summary);
        summary.host = host::rows(trace, &works);
        summary.has_operators = summary.host.iter().any(|row| trace.class(row.category) == Class::Operator);
        for track in &trace.tracks {
            let (overlaps, not_drawn) = nesting::straddling(track);
            summary.overlaps += overlaps;
            summary.not_drawn += not_drawn;
        }
        let arrows = arrows(trace);
        summary.arrows = arrows.list.len() as u64;
        summary.flows_unmatched = arrows.unmatched;
        summary.flows_backwards = arrows.backwards;
        summary
    })
}

/// Self time of all host rows; `None` where no host row was recorded.
pub fn host_self_ns(summary: &OperatorSummary) -> Option<u64> {
    (!summary.host.is_empty()).then(|| summary.host.iter().fold(0, |sum, row| u64::saturating_add(sum, row.self_ns)))
}

/// What is doubtful about a trace's values.
pub fn findings(trace: &OperatorTrace) -> Vec<Finding> {
    let summary = summary(trace);
    let mut found = Vec::new();
    let place = || trace.file.clone();
    if summary.busy.is_none() {
        let launched = trace.categories.iter().any(|category| category.class == Class::Runtime);
        let text = "no kernel, copy or fill was recorded: device time is unavailable, which does not mean that it is zero";
        found.push(match trace.names_devices || launched {
            true => Finding::warning("operator_no_device_activity", place(), text),
            false => Finding::note("operator_no_device_activity", place(), text),
        });
    }
    if !summary.has_operators {
        let text = "no operator was recorded: host operators are unavailable";
        found.push(Finding::note("operator_no_operators", place(), text));
    }
    let mut add = |count: u64, serious: bool, code: &str, text: String| {
        if count > 0 {
            let make = if serious { Finding::warning } else { Finding::note };
            found.push(make(code, place(), text));
        }
    };
    if let Some(busy) = summary.busy {
        let text = format!(
            "{} row(s) of device work end far beyond the next start on their stream ({:.3} ms in all); they are counted in no time",
            busy.impossible,
            busy.impossible_ns as f64 / 1e6
        );
        add(busy.impossible, true, "operator_impossible_duration", text);
    }
    let (count, most) = summary.before_launch;
    let text = format!("{count} row(s) of device work start before the call that launched them, by up to {most} ns: two clocks");
    add(count, true, "operator_before_launch", text);
    let count = summary.launches_without_work;
    let text = format!("{count} launch(es) have no device work: it lies outside the recording, or its records were lost");
    add(count, false, "operator_launch_without_work", text);
    let count = summary.work_without_launch;
    let text = format!("{count} row(s) of device work have no recorded launch");
    add(count, false, "operator_work_without_launch", text);
    let count = summary.overlaps;
    add(
        count,
        false,
        "operator_overlaps",
        format!("{count} row(s) overlap another of their track partly; they have lanes of their own"),
    );
    let count = summary.not_drawn;
    add(count, true, "operator_not_drawn", format!("{count} row(s) overlap too many others and are not drawn"));
    let count = summary.flows_unmatched;
    add(count, false, "operator_flow_unmatched", format!("{count} end(s) of arrows have no other end and are not drawn"));
    let count = summary.flows_backwards;
    add(count, false, "operator_flow_backwards", format!("{count} arrow(s) would point back in time and are not drawn"));
    found
}
