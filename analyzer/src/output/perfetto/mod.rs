//! A run as a Perfetto trace: "How does it look on a time axis?"
//!
//! Uses `run` and `analysis`. The file opens in <https://ui.perfetto.dev>. Invariants: one writer, one packet
//! sequence; every time is a whole nanosecond of at least 1; nothing is drawn that was not recorded: what has no
//! time is an instant on the data quality track; every track's parent is described before it is used.

mod clocks;
mod encode;
mod host_memory;
mod journal;
mod lanes;
mod model;
mod order;
#[allow(missing_docs, unreachable_pub, dead_code, clippy::all)]
#[rustfmt::skip]
#[path = "perfetto.protos.rs"]
mod protos;
mod stream;
mod writer;

use crate::error::Error;
use crate::run::{Component, Run};
use clocks::{Clocks, Key};
use ddo_schemas::{Finding, Severity};
use model::Model;
use std::io::Write;

/// What a trace contains besides the minimum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceOptions {
    /// Adds sequence, unit and bytes to every window's slice.
    pub annotate: bool,
}

/// What a trace contains.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceStats {
    /// Bytes written.
    pub bytes: u64,
    /// Tracks described.
    pub tracks: u64,
    /// Slices.
    pub slices: u64,
    /// Instants.
    pub instants: u64,
    /// Counter values.
    pub counter_values: u64,
    /// Arrows.
    pub flows: u64,
    /// The constant that host monotonic time was shifted by, where any group has it.
    pub shift_ns: Option<i64>,
}

/// Writes the trace of a run.
///
/// # Errors
/// When the output cannot be written.
pub fn write(run: &Run, options: &TraceOptions, out: &mut dyn Write) -> Result<TraceStats, Error> {
    let clocks = Clocks::of(run);
    let model = build(run, &clocks, options);
    let bytes = writer::write(&model, out)?;
    Ok(TraceStats {
        bytes,
        tracks: model.tracks.len() as u64,
        slices: model.slices.len() as u64,
        instants: model.instants.len() as u64,
        counter_values: model.points.len() as u64,
        flows: model.flows,
        shift_ns: clocks.monotonic_shift_ns,
    })
}

fn build(run: &Run, clocks: &Clocks, options: &TraceOptions) -> Model {
    let mut model = Model::default();
    let labels = run.manifest.iter().flat_map(|manifest| &manifest.labels).map(|(key, value)| format!("{key}={value}"));
    let process = model.process(&run.name, labels.collect());
    let root = model.track(process, "DDO", "What this run recorded about its offloaded components.");
    let mut parents = Vec::new();
    for component in &run.components {
        let one = run.components.len() == 1;
        parents.push(if one { root } else { model.track(root, &component.name, "One attached component.") });
    }
    // Described before the groups refer to it, and shown last.
    let quality = model.last_track(root, "data quality", "What is missing, failed or doubtful. Never a duration.");
    for (at, (component, parent)) in run.components.iter().zip(&parents).enumerate() {
        draw_component(&mut model, component, at, *parent, quality, clocks, options);
    }
    if let Some(shift) = clocks.shift(Key::Memory) {
        host_memory::draw(&mut model, &run.memory, root, quality, shift, clocks.label(Key::Memory));
    }
    facts(&mut model, run, clocks, quality);
    model
}

fn draw_component(
    model: &mut Model,
    component: &Component,
    at: usize,
    parent: u64,
    quality: u64,
    clocks: &Clocks,
    options: &TraceOptions,
) {
    let journal_shift = clocks.shift(Key::Journal(at));
    let journal = journal_shift.map(|shift| journal::Target { parent, quality, shift, label: clocks.label(Key::Journal(at)) });
    if let Some(target) = &journal {
        journal::steps(model, component, target);
    }
    let timelines = clocks::timelines(component);
    for (report, timeline) in &timelines {
        let key = Key::Timeline(at, *report);
        let Some(shift) = clocks.shift(key) else { continue };
        let file = component.reports.get(*report).map_or("timeline", |report| report.short_name());
        let mut words = Vec::new();
        if timelines.len() > 1 {
            words.push(file);
        }
        if !clocks.label(key).is_empty() {
            words.push(clocks.label(key));
        }
        let suffix = if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) };
        let description = format!("Native windows of {file} on the clock `{}`.", timeline.recorded.clock);
        let group = model.track(parent, &format!("GPU stream windows{suffix}"), &description);
        let target = stream::Target { parent: group, quality, shift, id: format!("{at}/{report}") };
        stream::draw(model, timeline, &target, options);
    }
    if let Some(target) = &journal {
        journal::values(model, component, target);
    }
}

/// What holds for the whole trace: as attributes for queries, and as an instant for eyes.
fn facts(model: &mut Model, run: &Run, clocks: &Clocks, quality: u64) {
    let mut facts = vec![("ddo.run".to_string(), run.name.clone())];
    if let Some(shift) = clocks.monotonic_shift_ns {
        facts.push(("ddo.shift_ns".into(), shift.to_string()));
    }
    for (key, shift) in clocks.all() {
        let name = match key {
            Key::Journal(at) => format!("journal.{at}"),
            Key::Timeline(at, report) => format!("timeline.{at}.{report}"),
            Key::Memory => "memory".into(),
        };
        facts.push((format!("ddo.{name}.offset_ns"), shift.offset_ns.to_string()));
        let alignment = shift.uncertainty_ns.map_or_else(|| "unaligned".into(), |width| format!("aligned within {width} ns"));
        facts.push((format!("ddo.{name}.alignment"), alignment));
    }
    for (at, component) in run.components.iter().enumerate() {
        for (report, loaded) in component.reports.iter().enumerate() {
            if let Some(resolution) = loaded.timeline.as_ref().and_then(|timeline| timeline.recorded.resolution_seconds) {
                facts.push((format!("ddo.timeline.{at}.{report}.resolution_seconds"), resolution.0.to_string()));
            }
        }
    }
    let notes = facts.iter().map(|(key, value)| model.text(key, value)).collect();
    model.instant(quality, 1, "origin of the axis", notes);
    model.attributes = facts;
    for finding in run.findings.iter().filter(|finding| finding.severity > Severity::Note && !has_own_instant(finding)) {
        let notes = vec![model.text("where", &finding.place), model.text("text", &finding.text)];
        model.instant(quality, 1, &finding.code, notes);
    }
}

/// Findings that are drawn where they happened.
fn has_own_instant(finding: &Finding) -> bool {
    matches!(
        finding.code.as_str(),
        "journal_step_missing"
            | "timeline_truncated"
            | "timeline_pending"
            | "timeline_samples_failed"
            | "timeline_samples_contradict"
    )
}

/// Encodes `count` slices to memory; returns bytes.
pub fn encode_slices(count: u64) -> u64 {
    let mut buffer = Vec::with_capacity(count.min(1 << 22) as usize * 48);
    let mut written = 0_u64;
    for at in 0..count {
        let start = 1 + at * 1_000;
        encode::slice_begin(&mut buffer, start, 5 + at % 40, 1 + at % 100, 1 + at % 5);
        encode::slice_end(&mut buffer, start + 900, 5 + at % 40);
        if buffer.len() > (64 << 20) {
            written += buffer.len() as u64;
            buffer.clear();
        }
    }
    written + buffer.len() as u64
}

#[cfg(test)]
mod tests;
