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
mod operators;
mod order;
#[allow(missing_docs, unreachable_pub, dead_code, clippy::all)]
#[rustfmt::skip]
#[path = "perfetto.protos.rs"]
pub(crate) mod protos;
mod stream;
mod writer;

use crate::analysis::{self, alignment, alignment::Key};
use crate::error::Error;
use crate::limits::MAX_BROWSER_TRACE_BYTES;
use crate::run::{Component, Run, shorten};
use clocks::{Clocks, ORIGIN};
use ddo_schemas::Finding;
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
    let mut model = build(run, &clocks, options);
    let mut stats = TraceStats { shift_ns: clocks.monotonic_shift_ns, ..TraceStats::default() };
    let alone = run.operators.len() == 1 && clocks.all().is_empty();
    let mut sources: Vec<Box<dyn writer::Source + '_>> = Vec::new();
    for (at, trace) in run.operators.iter().enumerate() {
        let label = if alone { "" } else { "unaligned" };
        let drawing = operators::draw(&mut model, trace, at, label);
        stats.slices += drawing.slices;
        stats.instants += drawing.instants;
        stats.counter_values += drawing.counter_values;
        sources.extend(drawing.sources);
    }
    stats.bytes = writer::write(&model, sources, out)?;
    stats.tracks = model.tracks.len() as u64;
    stats.slices += model.slices.len() as u64;
    stats.instants += model.instants.len() as u64;
    stats.counter_values += model.points.len() as u64;
    stats.flows = model.flows;
    Ok(stats)
}

/// Code of the finding about a trace that no browser opens.
pub const TOO_LARGE: &str = "trace_too_large_for_a_browser";

/// What to say about a trace that no browser opens.
pub fn too_large(bytes: u64) -> Option<Finding> {
    (bytes > MAX_BROWSER_TRACE_BYTES).then(|| {
        let text = format!(
            "has {bytes} bytes; a browser opens at most {MAX_BROWSER_TRACE_BYTES}: load it with `trace_processor --httpd` first"
        );
        Finding::warning(TOO_LARGE, "run.perfetto-trace", text)
    })
}

fn build(run: &Run, clocks: &Clocks, options: &TraceOptions) -> Model {
    let mut model = Model::default();
    let labels = run.manifest.iter().flat_map(|manifest| &manifest.labels).map(|(key, value)| format!("{key}={value}"));
    let process = model.process(&run.name, labels.collect());
    let root = model.root(process, "DDO", "What this run recorded about its offloaded components.");
    // The order of the groups is the one in which a reader asks: steps, streams, memory, then single numbers.
    let one = run.components.len() == 1;
    for (at, component) in run.components.iter().enumerate() {
        let parent = if one { root } else { model.track(root, &component.name, "One attached component.") };
        let journal = journal_target(component, at, parent, clocks);
        if let Some(target) = &journal {
            journal::steps(&mut model, component, target);
        }
        timelines(&mut model, component, at, parent, clocks, options);
        if one {
            memory(&mut model, run, root, clocks);
        }
        if let Some(target) = &journal {
            journal::values(&mut model, component, target);
        }
    }
    if !one {
        memory(&mut model, run, root, clocks);
    }
    facts(&mut model, run, clocks, root);
    model
}

fn memory(model: &mut Model, run: &Run, root: u64, clocks: &Clocks) {
    if let Some(shift) = clocks.shift(Key::Memory) {
        host_memory::draw(model, &run.memory, root, shift, clocks.label(Key::Memory));
    }
}

fn journal_target<'a>(component: &Component, at: usize, parent: u64, clocks: &Clocks) -> Option<journal::Target<'a>> {
    let shift = clocks.shift(Key::Journal(at))?;
    Some(journal::Target { parent, clock: component.record_clock(), shift, label: clocks.label(Key::Journal(at)) })
}

fn timelines(model: &mut Model, component: &Component, at: usize, parent: u64, clocks: &Clocks, options: &TraceOptions) {
    let timelines = alignment::timelines(component);
    let several = timelines.len() > 1;
    let placed: Vec<_> = timelines
        .into_iter()
        .filter_map(|(report, timeline)| {
            let key = Key::Timeline(at, report);
            let file = component.reports.get(report).map_or("timeline", |report| report.short_name());
            Some((report, timeline, clocks.shift(key)?, clocks.label(key), file))
        })
        .collect();
    let name = |what: &str, first: &str, label: &str, file: &str| {
        let words = [first, label, if several { file } else { "" }];
        let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
        format!("{what} ({})", words.join(", "))
    };
    for (_, timeline, shift, label, file) in &placed {
        stream::steps(model, timeline, parent, &name("steps", "between markers", label, file), *shift);
    }
    for (report, timeline, shift, label, file) in &placed {
        let clock = match timeline.recorded.clock.as_str() {
            "cuda_event" => "device",
            "host_stream" => "host driver",
            other => other,
        };
        let description = format!("Native windows of {file} on the clock `{}`.", shorten(&timeline.recorded.clock));
        let group = model.track(parent, &name("stream windows", clock, label, file), &description);
        let target = stream::Target { parent: group, shift: *shift, id: format!("{at}/{report}") };
        stream::draw(model, timeline, &target, options);
    }
}

/// What holds for the whole trace: as attributes for queries, and as an instant for eyes.
fn facts(model: &mut Model, run: &Run, clocks: &Clocks, root: u64) {
    let mut facts = vec![("ddo.run".to_string(), run.name.clone())];
    if let Some(shift) = clocks.monotonic_shift_ns {
        facts.push(("ddo.shift_ns".into(), shift.to_string()));
    }
    for (key, shift) in clocks.all() {
        let name = match key {
            Key::Journal(at) => format!("ddo.journal.{at}"),
            Key::Timeline(at, report) => format!("ddo.timeline.{at}.{report}"),
            Key::Memory => "ddo.memory".into(),
        };
        facts.push((format!("{name}.offset_ns"), shift.offset_ns.to_string()));
        let alignment = match shift.interval_ns {
            None => "unaligned",
            Some(0) => "host monotonic clock",
            Some(_) => "host monotonic clock, by the middle of the host interval around the epoch",
        };
        facts.push((format!("{name}.alignment"), alignment.into()));
        if let Some(interval) = shift.interval_ns {
            facts.push((format!("{name}.alignment_interval_ns"), interval.to_string()));
        }
    }
    for (at, component) in run.components.iter().enumerate() {
        for (report, loaded) in component.reports.iter().enumerate() {
            if let Some(resolution) = loaded.timeline.as_ref().and_then(|timeline| timeline.recorded.resolution_seconds) {
                facts.push((format!("ddo.timeline.{at}.{report}.resolution_seconds"), resolution.0.to_string()));
            }
        }
    }
    facts.push(("ddo.constant_zero_tracks".into(), model.constant_zero.len().to_string()));
    if !model.constant_zero.is_empty() {
        facts.push(("ddo.constant_zero_fields".into(), model.constant_zero.join(" ")));
    }
    for (at, trace) in run.operators.iter().enumerate() {
        facts.push((format!("ddo.operators.{at}.file"), trace.file.clone()));
        facts.push((format!("ddo.operators.{at}.alignment"), "unaligned".into()));
        if let Some(first) = trace.first_ns() {
            facts.push((format!("ddo.operators.{at}.offset_ns"), operators::offset_ns(first).to_string()));
        }
        if let Some(base) = trace.base_time_ns {
            facts.push((format!("ddo.operators.{at}.base_time_ns"), base.to_string()));
        }
    }
    for finding in analysis::findings(run).iter().filter(|finding| analysis::is_serious(finding) && !has_own_instant(finding)) {
        let notes = vec![model.text("where", &finding.place), model.text("text", &finding.text)];
        model.doubt(ORIGIN, &finding.code, notes);
    }
    let notes = facts.iter().map(|(key, value)| model.text(key, value)).collect();
    let about =
        model.track(root, "about this trace", "Facts for the whole trace; click the instant. The same as its attributes.");
    model.instant(about, ORIGIN, "origin of the axis", "about", notes);
    model.attributes = facts;
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
pub(crate) mod tests;
