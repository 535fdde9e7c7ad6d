//! Operator traces in words and tables: "What cost the most, on the host and on the device?"
//!
//! Uses the analysis of operators. Invariants: what is unavailable says so and is null for machines; times are whole
//! nanoseconds, exact also where they pass 2^53; inclusive times overlap and no total is made of them.

use crate::analysis::operators::{findings, host_self_ns, summary};
use crate::limits::{SCREEN_OPERATOR_TRACES, TEXT_COLUMNS};
use crate::run::operators::{DeviceRow, HostRow, OperatorTrace};
use crate::run::{OperatorDiagnostics, Run, shorten, shorten_to};
use comfy_table::{CellAlignment, Table, presets};
use ddo_schemas::unit::human_bytes;
use serde_json::{Value, json};

/// Version of the tables for machines.
const SCHEMA_VERSION: u32 = 1;

/// Largest whole number that every reader of JSON keeps exactly.
const EXACT_IN_JSON: u64 = 1 << 53;

/// Stands for what was not recorded.
const UNAVAILABLE: &str = "unavailable";

/// Longest name in a table, in characters.
const NAME_CHARS: usize = 56;

/// One line a trace for the one screen.
pub fn lines(run: &Run) -> Vec<String> {
    let mut lines: Vec<String> = run.operators.iter().take(SCREEN_OPERATOR_TRACES).map(line).collect();
    let more = run.operators.len().saturating_sub(SCREEN_OPERATOR_TRACES);
    if more > 0 {
        lines.push(format!("and {more} more operator trace(s)"));
    }
    lines
}

fn line(trace: &OperatorTrace) -> String {
    let found = summary(trace);
    let host = match host_self_ns(found) {
        Some(ns) if found.has_operators => format!("host rows {}", milliseconds(ns)),
        Some(ns) => format!("host operators unavailable, other host rows {}", milliseconds(ns)),
        None => "host unavailable".into(),
    };
    let device = match found.busy {
        Some(busy) => format!("{} device rows, busy {}", busy.events, milliseconds(busy.union_ns)),
        None => "device unavailable".into(),
    };
    let state = if trace.complete { "" } else { "incomplete; " };
    format!("{}: {state}{} events; {host}; {device}; not a benchmark", shorten(&trace.file), trace.events)
}

fn milliseconds(ns: u64) -> String {
    format!("{:.3} ms", ns as f64 / 1e6)
}

/// Which form a table has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// For a terminal.
    Text,
    /// For a page.
    Markdown,
}

/// The top tables of all traces of a run.
pub fn tables(run: &Run, top: usize, form: Form) -> String {
    let mut out = String::new();
    for trace in &run.operators {
        one(&mut out, trace, top, form);
    }
    for (file, scope) in scopes(run) {
        children(&mut out, file, scope, form);
    }
    out
}

fn heading(out: &mut String, form: Form, level: &str, text: &str) {
    match form {
        Form::Text => out.push_str(&format!("{text}\n")),
        Form::Markdown => out.push_str(&format!("{level} {text}\n\n")),
    }
}

fn one(out: &mut String, trace: &OperatorTrace, top: usize, form: Form) {
    let found = summary(trace);
    heading(out, form, "##", &line(trace));
    if let Some(busy) = found.busy {
        let text = format!(
            "device work: {} added up, {} with at least one running; {} mark(s) are no work ({})",
            milliseconds(busy.sum_ns),
            milliseconds(busy.union_ns),
            found.marks.0,
            milliseconds(found.marks.1)
        );
        out.push_str(&format!("{text}\n"));
    }
    out.push('\n');
    heading(out, form, "###", "host rows by self time (inclusive times overlap)");
    match found.host.is_empty() {
        true => out.push_str("unavailable: no host row was recorded\n"),
        false => out.push_str(&host_table(trace, found.host.iter().take(top), form)),
    }
    more(out, found.host.len(), top);
    heading(out, form, "###", "device work by time");
    match found.device.is_empty() {
        true => out.push_str("unavailable: no device activity was recorded\n"),
        false => out.push_str(&device_table(trace, found.device.iter().take(top), form)),
    }
    more(out, found.device.len(), top);
}

/// Scopes of operator diagnostics that reports hold, with the report's file; disabled ones have nothing to show.
pub fn scopes(run: &Run) -> impl Iterator<Item = (&str, &OperatorDiagnostics)> {
    let reports = run.all().flat_map(|run| &run.components).flat_map(|component| &component.reports);
    let scopes = reports.filter_map(|report| Some((report.file.as_str(), report.operators.as_ref()?)));
    scopes.filter(|(_, scope)| scope.status.as_deref() != Some("disabled"))
}

/// Forwards of the direct children of a sampled module, as a report adds them up.
fn children(out: &mut String, file: &str, scope: &OperatorDiagnostics, form: Form) {
    let word = |text: &Option<String>| text.as_deref().map_or_else(|| UNAVAILABLE.to_string(), shorten);
    let observed = scope.observed.map_or_else(|| UNAVAILABLE.into(), |calls| calls.to_string());
    let text = format!(
        "{}: child ranges of {}; scope {}, {} of {} samples, calls seen: {observed}; not a benchmark",
        shorten(file),
        name(&word(&scope.module_path), form),
        word(&scope.status),
        scope.samples.len(),
        scope.requested.len()
    );
    heading(out, form, "##", &text);
    for sample in &scope.samples {
        let number = sample.invocation.map_or_else(|| UNAVAILABLE.into(), |number| number.to_string());
        let forward = microseconds_of(sample.host_forward_seconds);
        heading(out, form, "###", &format!("invocation {number}: forward {forward} us on the host (inclusive times overlap)"));
        if sample.child_ranges.is_empty() {
            out.push_str("unavailable: no child range was announced\n\n");
            continue;
        }
        let mut table = table(form, &["child", "calls", "self us", "inclusive us", "own device us", "device us"], 1);
        for row in &sample.child_ranges {
            let calls = row.calls.map_or_else(|| UNAVAILABLE.into(), |calls| calls.to_string());
            let times = [row.self_host_seconds, row.host_seconds, row.self_device_seconds, row.device_seconds];
            table.add_row([name(&row.name, form), calls].into_iter().chain(times.map(microseconds_of)));
        }
        out.push_str(&format!("{}\n\n", table.trim_fmt()));
    }
}

fn microseconds_of(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| UNAVAILABLE.into(), |seconds| format!("{:.3}", seconds * 1e6))
}

fn scope_json(file: &str, scope: &OperatorDiagnostics) -> Value {
    let samples: Vec<Value> = scope
        .samples
        .iter()
        .map(|sample| {
            let rows: Vec<Value> = sample
                .child_ranges
                .iter()
                .map(|row| {
                    json!({"name": row.name, "calls": row.calls, "self_host_seconds": row.self_host_seconds,
                        "host_seconds": row.host_seconds, "self_device_seconds": row.self_device_seconds,
                        "device_seconds": row.device_seconds})
                })
                .collect();
            json!({"invocation_index": sample.invocation, "host_forward_seconds": sample.host_forward_seconds,
                "profiler_stop_seconds": sample.profiler_stop_seconds, "child_ranges": rows})
        })
        .collect();
    json!({"file": file, "status": scope.status, "module_path": scope.module_path, "observed_invocations": scope.observed,
        "requested_invocations": scope.requested, "benchmark_eligible": false, "samples": samples})
}

fn more(out: &mut String, rows: usize, top: usize) {
    let more = rows.saturating_sub(top);
    out.push_str(&if more > 0 { format!("and {more} more row(s)\n\n") } else { "\n".to_string() });
}

fn table(form: Form, header: &[&str], texts: usize) -> Table {
    let mut table = Table::new();
    table.load_preset(match form {
        Form::Text => presets::NOTHING,
        Form::Markdown => presets::ASCII_MARKDOWN,
    });
    table.set_header(header.iter().copied());
    for column in table.column_iter_mut().skip(texts) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn name(text: &str, form: Form) -> String {
    match form {
        Form::Text => shorten_to(text, NAME_CHARS),
        Form::Markdown => shorten_to(text, TEXT_COLUMNS).replace('\\', "\\\\").replace('|', "\\|").replace('<', "&lt;"),
    }
}

fn microseconds(ns: u64) -> String {
    format!("{}.{:03}", ns / 1_000, ns % 1_000)
}

fn optional(ns: Option<u64>) -> String {
    ns.map_or_else(|| "unavailable".into(), microseconds)
}

fn host_table<'a>(trace: &OperatorTrace, rows: impl Iterator<Item = &'a HostRow>, form: Form) -> String {
    let header = ["name", "kind", "calls", "self us", "inclusive us", "own device us", "device us"];
    let mut table = table(form, &header, 2);
    for row in rows {
        table.add_row([
            name(trace.name(row.name), form),
            trace.class(row.category).word().to_string(),
            row.calls.to_string(),
            microseconds(row.self_ns),
            microseconds(row.inclusive_ns),
            optional(row.self_device_ns),
            optional(row.device_ns),
        ]);
    }
    format!("{}\n", table.trim_fmt())
}

fn device_table<'a>(trace: &OperatorTrace, rows: impl Iterator<Item = &'a DeviceRow>, form: Form) -> String {
    let header = ["name", "category", "calls", "total us", "longest us", "bytes", "impossible"];
    let mut table = table(form, &header, 2);
    for row in rows {
        table.add_row([
            name(trace.name(row.name), form),
            name(trace.category(row.category), form),
            row.calls.to_string(),
            microseconds(row.total_ns),
            microseconds(row.longest_ns),
            row.bytes.map(human_bytes).unwrap_or_default(),
            if row.impossible > 0 { row.impossible.to_string() } else { String::new() },
        ]);
    }
    format!("{}\n", table.trim_fmt())
}

/// The same for machines.
pub fn json(run: &Run, top: usize) -> Value {
    let traces: Vec<Value> = run.operators.iter().map(|trace| trace_json(trace, top)).collect();
    let scopes: Vec<Value> = scopes(run).map(|(file, scope)| scope_json(file, scope)).collect();
    json!({"schema_version": SCHEMA_VERSION, "traces": traces, "scopes": scopes, "findings": crate::analysis::findings(run)})
}

/// A whole number, as text where a reader of JSON would round it.
pub(super) fn exact(value: u64) -> Value {
    if value <= EXACT_IN_JSON { json!(value) } else { json!(value.to_string()) }
}

fn trace_json(trace: &OperatorTrace, top: usize) -> Value {
    let found = summary(trace);
    let nullable = |value: Option<u64>| value.map_or(Value::Null, exact);
    let host: Vec<Value> = found
        .host
        .iter()
        .take(top)
        .map(|row| {
            json!({"name": trace.name(row.name), "category": trace.category(row.category),
                "kind": trace.class(row.category).word(), "calls": exact(row.calls), "self_host_ns": exact(row.self_ns),
                "host_ns": exact(row.inclusive_ns), "self_device_ns": nullable(row.self_device_ns),
                "device_ns": nullable(row.device_ns)})
        })
        .collect();
    let device: Vec<Value> = found
        .device
        .iter()
        .take(top)
        .map(|row| {
            json!({"name": trace.name(row.name), "category": trace.category(row.category), "calls": exact(row.calls),
                "device_ns": exact(row.total_ns), "longest_ns": exact(row.longest_ns), "bytes": nullable(row.bytes),
                "impossible": exact(row.impossible)})
        })
        .collect();
    let busy = found.busy.map(|busy| {
        json!({"events": exact(busy.events), "sum_ns": exact(busy.sum_ns), "union_ns": exact(busy.union_ns),
            "impossible": exact(busy.impossible), "impossible_ns": exact(busy.impossible_ns)})
    });
    json!({
        "file": trace.file, "complete": trace.complete, "json_bytes": exact(trace.json_bytes), "events": exact(trace.events),
        "slices": exact(trace.slice_count()), "base_time_ns": trace.base_time_ns.map(exact),
        "display_time_unit": trace.display_time_unit, "host_operators_available": found.has_operators,
        "host_self_ns": nullable(host_self_ns(found)), "device": busy,
        "benchmark_eligible": false, "device_marks": {"events": exact(found.marks.0), "sum_ns": exact(found.marks.1)},
        "overlaps": exact(found.overlaps),
        "before_launch": {"events": exact(found.before_launch.0), "most_ns": exact(found.before_launch.1)},
        "launches_without_work": exact(found.launches_without_work),
        "work_without_launch": exact(found.work_without_launch),
        "arrows": {"drawn": exact(found.arrows), "unmatched": exact(found.flows_unmatched),
            "backwards": exact(found.flows_backwards)},
        "host_rows": found.host.len(), "device_rows": found.device.len(), "top_host": host, "top_device": device,
        "findings": findings(trace),
    })
}
