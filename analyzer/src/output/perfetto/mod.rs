//! A run as a Perfetto trace: "How does it look on a time axis?"
//!
//! Uses `run` and `analysis`. The file opens in <https://ui.perfetto.dev>. Invariants: one writer, one packet
//! sequence; every time is a whole nanosecond of at least 1; nothing is drawn that was not recorded: what has no
//! time is an instant on the data quality track; every track's parent is described before it is used.

mod allocation;
mod clocks;
mod encode;
mod facts;
mod host_memory;
mod journal;
mod lanes;
mod model;
mod observations;
mod operators;
mod order;
#[allow(missing_docs, unreachable_pub, dead_code, clippy::all)]
#[rustfmt::skip]
#[path = "perfetto.protos.rs"]
pub(crate) mod protos;
mod stream;
mod timing;
mod writer;

use crate::analysis::{self, alignment, alignment::Key};
use crate::error::Error;
use crate::limits::MAX_BROWSER_TRACE_BYTES;
use crate::run::{Component, Run, shorten};
use clocks::Clocks;
use ddo_schemas::Finding;
use model::Model;
pub use operators::CHILD_TRACK;
use std::io::Write;

/// By what timelines and journals are put beside each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Align {
    /// By recorded correlations alone; groups without one are labelled unaligned.
    #[default]
    Recorded,
    /// Also by step markers where nothing was recorded: an estimate, and labelled as one.
    Steps,
}

/// What a trace contains besides the minimum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceOptions {
    /// Adds sequence, unit and bytes to every window's slice.
    pub annotate: bool,
    /// How groups are aligned.
    pub align: Align,
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
    write_noticed(run, &analysis::noticed(run), options, out)
}

/// Writes the trace of a run whose findings were made already: those that belong to a place on its axis.
///
/// # Errors
/// When the output cannot be written.
pub fn write_noticed(run: &Run, noticed: &[Finding], options: &TraceOptions, out: &mut dyn Write) -> Result<TraceStats, Error> {
    let clocks = Clocks::of_all(run, options.align);
    let mut model = build(run, noticed, &clocks, options);
    let mut stats = TraceStats { shift_ns: clocks.first().and_then(|clocks| clocks.monotonic_shift_ns), ..TraceStats::default() };
    let traces: Vec<_> = run.all().flat_map(|run| &run.operators).collect();
    let alone = traces.len() == 1 && clocks.iter().all(|clocks| clocks.all().is_empty());
    let mut sources: Vec<Box<dyn writer::Source + '_>> = Vec::new();
    for (at, trace) in traces.into_iter().enumerate() {
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

fn build(run: &Run, noticed: &[Finding], clocks: &[Clocks], options: &TraceOptions) -> Model {
    let mut model = Model::default();
    let several = !run.others.is_empty();
    for ((number, run), clocks) in run.all().enumerate().zip(clocks) {
        let labels = run.manifest.iter().flat_map(|manifest| &manifest.labels).map(|(key, value)| format!("{key}={value}"));
        let process = model.process(number, &process_name(run, several, clocks), labels.collect());
        let root = model.root(process, "DDO", "What this run recorded about its offloaded components.");
        components(&mut model, run, number, root, clocks, options);
        // The first run has the findings of all.
        facts::draw(&mut model, run, number, clocks, root, if number == 0 { noticed } else { &[] });
    }
    model
}

/// A run by its rank and name; among several, those that lie on an axis of their own say so.
fn process_name(run: &Run, several: bool, clocks: &Clocks) -> String {
    let rank = run.rank().words();
    let name = rank.map_or_else(|| run.name.clone(), |rank| format!("{rank}, {}", run.name));
    if several && !clocks.by_wall_clock { format!("{name} (unaligned)") } else { name }
}

fn components(model: &mut Model, run: &Run, number: usize, root: u64, clocks: &Clocks, options: &TraceOptions) {
    // The order of the groups is the one in which a reader asks: steps, streams, memory, then single numbers.
    let one = run.components.len() == 1;
    for (at, component) in run.components.iter().enumerate() {
        let parent = if one { root } else { model.track(root, &component.name, "One attached component.") };
        let journal = journal_target(component, at, parent, clocks);
        if let Some(target) = &journal {
            journal::steps(model, component, target);
        }
        timelines(model, component, (number, at), parent, clocks, options);
        if one {
            memory(model, run, root, clocks);
        }
        if let Some(target) = &journal {
            journal::values(model, component, target);
        }
        for (report, loaded) in component.reports.iter().enumerate() {
            let key = Key::Allocation(at, report);
            if let (Some(scope), Some(shift)) = (&loaded.allocation, clocks.shift(key)) {
                let target = allocation::Target { parent, shift, label: clocks.label(key), file: loaded.short_name() };
                allocation::draw(model, scope, &target);
            }
        }
        observations::draw(model, component, parent);
    }
    if !one {
        memory(model, run, root, clocks);
    }
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

fn timelines(
    model: &mut Model,
    component: &Component,
    (number, at): (usize, usize),
    parent: u64,
    clocks: &Clocks,
    options: &TraceOptions,
) {
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
    for (report, loaded) in component.reports.iter().enumerate() {
        let key = Key::Timing(at, report);
        if let (Some(timing), Some(shift)) = (&loaded.timing, clocks.shift(key)) {
            let words = [clock_words(&timing.clock), clocks.label(key), loaded.short_name()];
            let words: Vec<&str> = words.into_iter().filter(|word| !word.is_empty()).collect();
            timing::draw(model, timing, parent, &format!("steps ({})", words.join(", ")), shift);
        }
    }
    for (_, timeline, shift, label, file) in &placed {
        stream::steps(model, timeline, parent, &name("steps", "between markers", label, file), *shift);
    }
    for (report, timeline, shift, label, file) in &placed {
        let clock = clock_words(&timeline.recorded.clock);
        let description = format!("Native windows of {file} on the clock `{}`.", shorten(&timeline.recorded.clock));
        let group = model.track(parent, &name("stream windows", clock, label, file), &description);
        // Words of the first run stay short: most inputs hold one.
        let of_run = if number == 0 { String::new() } else { format!("{number}/") };
        let target = stream::Target { parent: group, shift: *shift, id: format!("{of_run}{at}/{report}") };
        stream::draw(model, timeline, &target, options);
    }
}

/// A recorded clock in a reader's words.
fn clock_words(clock: &str) -> &str {
    match clock {
        "cuda_event" => "device",
        "host_stream" => "host driver",
        other => other,
    }
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
