//! Facts for a whole run: "What must a reader know before trusting a position?"
//!
//! Uses `model`, `clocks` and the findings. They stand in the trace twice: as attributes for queries, and as an
//! instant for eyes. Invariants: every shift and uncertainty is named; a finding that is drawn where it happened is
//! not repeated.

use super::clocks::{Clocks, How, ORIGIN};
use super::model::Model;
use super::operators;
use crate::analysis;
use crate::analysis::alignment::Key;
use crate::run::Run;
use ddo_schemas::Finding;

/// Adds the facts of one run; those of the first have no number in their names.
pub(super) fn draw(model: &mut Model, run: &Run, number: usize, clocks: &Clocks, root: u64, findings: &[Finding]) {
    let prefix = if number == 0 { "ddo".to_string() } else { format!("ddo.run.{number}") };
    let name = if number == 0 { "ddo.run".to_string() } else { format!("{prefix}.name") };
    let mut facts = vec![(name, run.name.clone())];
    if let Some(rank) = run.rank().words() {
        facts.push((format!("{prefix}.rank"), rank));
    }
    if let Some(shift) = clocks.monotonic_shift_ns {
        facts.push((format!("{prefix}.shift_ns"), shift.to_string()));
    }
    if clocks.by_wall_clock {
        facts.push((format!("{prefix}.alignment_of_runs"), "wall clock of the manifests".into()));
    }
    placement(clocks, &prefix, &mut facts);
    for (at, component) in run.components.iter().enumerate() {
        for (report, loaded) in component.reports.iter().enumerate() {
            if let Some(resolution) = loaded.timeline.as_ref().and_then(|timeline| timeline.recorded.resolution_seconds) {
                facts.push((format!("{prefix}.timeline.{at}.{report}.resolution_seconds"), resolution.0.to_string()));
            }
            let scopes = loaded.diagnostic_scopes();
            if !scopes.is_empty() {
                facts.push((format!("{prefix}.report.{at}.{report}.not_a_benchmark"), scopes.join(" ")));
            }
        }
    }
    for (at, trace) in run.operators.iter().enumerate() {
        facts.push((format!("{prefix}.operators.{at}.file"), trace.file.clone()));
        facts.push((format!("{prefix}.operators.{at}.alignment"), "unaligned".into()));
        if let Some(first) = trace.first_ns() {
            facts.push((format!("{prefix}.operators.{at}.offset_ns"), operators::offset_ns(first).to_string()));
        }
        if let Some(base) = trace.base_time_ns {
            facts.push((format!("{prefix}.operators.{at}.base_time_ns"), base.to_string()));
        }
    }
    let zero = std::mem::take(&mut model.constant_zero);
    facts.push((format!("{prefix}.constant_zero_tracks"), zero.len().to_string()));
    if !zero.is_empty() {
        facts.push((format!("{prefix}.constant_zero_fields"), zero.join(" ")));
    }
    for finding in findings.iter().filter(|finding| analysis::is_serious(finding) && !has_own_instant(finding)) {
        let notes = vec![model.text("where", &finding.place), model.text("text", &finding.text)];
        model.doubt(ORIGIN, &finding.code, notes);
    }
    let notes = facts.iter().map(|(key, value)| model.text(key, value)).collect();
    let text = "Facts for the whole trace; click the instant. The same as its attributes.";
    let about = model.track(root, "about this trace", text);
    model.instant(about, ORIGIN, "origin of the axis", "about", notes);
    model.attributes.extend(facts);
}

fn placement(clocks: &Clocks, prefix: &str, facts: &mut Vec<(String, String)>) {
    for (key, shift) in clocks.all() {
        let name = match key {
            Key::Journal(at) => format!("{prefix}.journal.{at}"),
            Key::Timeline(at, report) => format!("{prefix}.timeline.{at}.{report}"),
            Key::Memory => format!("{prefix}.memory"),
            Key::Timing(at, report) => format!("{prefix}.timing.{at}.{report}"),
            Key::Allocation(at, report) => format!("{prefix}.allocation.{at}.{report}"),
        };
        facts.push((format!("{name}.offset_ns"), shift.offset_ns.to_string()));
        let alignment = match shift.how {
            How::Alone => "unaligned",
            How::Recorded(0) => "host monotonic clock",
            How::Recorded(_) => "host monotonic clock, by the middle of the host interval around the epoch",
            How::Estimated(_) => "estimate: step markers beside the journal's records, the shortest delay taken as none",
        };
        facts.push((format!("{name}.alignment"), alignment.into()));
        match shift.how {
            How::Alone => {}
            How::Recorded(interval) => facts.push((format!("{name}.alignment_interval_ns"), interval.to_string())),
            How::Estimated(estimate) => {
                facts.push((format!("{name}.alignment_steps"), estimate.steps.to_string()));
                facts.push((format!("{name}.alignment_spread_ns"), estimate.spread_ns.to_string()));
            }
        }
    }
}

/// Findings that are drawn where they happened.
fn has_own_instant(finding: &Finding) -> bool {
    matches!(
        finding.code.as_str(),
        "counter_reset"
            | "journal_step_missing"
            | "timeline_truncated"
            | "timeline_pending"
            | "timeline_samples_failed"
            | "timeline_samples_contradict"
    )
}
