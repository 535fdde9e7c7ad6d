//! Driver calls as tables: "Which calls did memory cost in each step?"
//!
//! Uses `analysis`. Invariants: every page says that such a run is not a benchmark; host times are called so; what a native version
//! lacks is a dash, never zero; waits and faults that lie around other calls have columns of their own and are part of no sum.

use super::text::seconds;
use crate::analysis::driver_calls::{CALLS, DriverCalls, Interval, all};
use crate::limits::MAX_TABLE_STEPS;
use crate::run::{Run, Scalar, shorten};
use comfy_table::{CellAlignment, Table, presets::NOTHING};
use serde_json::{Map, Value, json};

/// Version of the tables for machines.
const SCHEMA_VERSION: u32 = 1;
const NONE: &str = "-";
/// What stands on every page.
pub const NO_BENCHMARK: &str = "not a benchmark: each call was timed";

/// The tables for people.
pub fn text(run: &Run) -> String {
    let found = all(run);
    if found.is_empty() {
        return "no report counted driver calls; record with --allocation-diagnostics\n".into();
    }
    let mut out = String::new();
    for (component, report, calls) in &found {
        let (component, report) = (shorten(component), shorten(report.short_name()));
        out.push_str(&format!("{component}, {report}: {} ({NO_BENCHMARK})\n", calls.status));
        if calls.intervals.is_empty() && calls.total.values.is_empty() {
            out.push_str("  the scope has no numbers\n");
            continue;
        }
        out.push_str("\ncalls and their host time\n");
        out.push_str(&table(&head(), calls, calls_row));
        out.push_str("\nanswers of access calls, waits between tries, and faults around all of them (host time, never added)\n");
        out.push_str(&table(
            &["step", "success", "not ready", "out of memory", "other", "retry waits", "faults"],
            calls,
            answers_row,
        ));
        out.push('\n');
    }
    out
}

/// One line for the one screen.
pub(super) fn lines(run: &Run) -> Vec<String> {
    all(run).iter().map(|(component, _, calls)| line(component, calls)).collect()
}

fn line(component: &str, calls: &DriverCalls) -> String {
    let Some((count, time, failed)) = calls.total.all_calls() else {
        return format!("{}: {} ({NO_BENCHMARK})", shorten(component), calls.status);
    };
    let steps: Vec<&Interval> = calls.intervals.iter().filter(|one| one.step.is_some()).collect();
    let most = steps
        .iter()
        .filter_map(|one| Some((one.all_calls()?, one.step?)))
        .max_by_key(|((count, ..), step)| (*count, std::cmp::Reverse(*step)));
    let most = match most {
        Some(((0, ..), _)) => ", none in a step".into(),
        Some(((count, time, _), step)) => format!(", most in step {step}: {count} in {}", seconds(time)),
        None => String::new(),
    };
    let failed = if failed > 0 { format!(", {failed} failed") } else { String::new() };
    let name = shorten(component);
    format!("{name}: {count} memory calls, {} of host time{failed}{most} ({NO_BENCHMARK})", seconds(time))
}

fn head() -> Vec<&'static str> {
    ["step", "submitted", "on stream"]
        .into_iter()
        .chain(CALLS.map(|kind| if kind == "address_free" { "free" } else { kind }))
        .chain(["failed"])
        .collect()
}

fn table(head: &[&str], calls: &DriverCalls, row: fn(&Interval) -> Vec<String>) -> String {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(head);
    let named = |one: &Interval| one.step.map_or_else(|| "after".into(), |step| step.to_string());
    let half = MAX_TABLE_STEPS / 2;
    let count = calls.intervals.len();
    for (at, one) in calls.intervals.iter().enumerate() {
        if count <= MAX_TABLE_STEPS || at < half || at >= count - half {
            table.add_row(std::iter::once(named(one)).chain(row(one)).collect::<Vec<_>>());
        } else if at == half {
            table.add_row([format!("... {} more", count - 2 * half)]);
        }
    }
    table.add_row(std::iter::once("all".to_string()).chain(row(&calls.total)).collect::<Vec<_>>());
    table.column_iter_mut().skip(1).for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    let lines = table.to_string();
    lines.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

fn time(value: Option<f64>) -> String {
    value.map_or_else(|| NONE.into(), seconds)
}

/// A count, and its time where there is one.
fn pair(one: &Interval, calls: &str, time: &str) -> String {
    match (one.count(calls), one.seconds(time)) {
        (Some(0), _) => "0".into(),
        (Some(count), Some(time)) => format!("{count} {}", seconds(time)),
        (Some(count), None) => count.to_string(),
        (None, _) => NONE.into(),
    }
}

fn calls_row(one: &Interval) -> Vec<String> {
    let kinds = CALLS.iter().map(|kind| pair(one, &format!("{kind}_calls"), &format!("{kind}_host_seconds")));
    let failed: Option<u64> = CALLS.iter().map(|kind| one.count(&format!("{kind}_failed_calls"))).sum();
    let failed = failed.map_or_else(|| NONE.into(), |failed| failed.to_string());
    [time(one.host_seconds), time(one.stream_seconds)].into_iter().chain(kinds).chain([failed]).collect()
}

fn answers_row(one: &Interval) -> Vec<String> {
    let answers = ["success", "not_ready", "out_of_memory", "other"]
        .map(|answer| one.count(&format!("access_return_{answer}_calls")).map_or_else(|| NONE.into(), |count| count.to_string()));
    let around = ["access_retry_sync", "fault_range"];
    answers.into_iter().chain(around.map(|kind| pair(one, &format!("{kind}_calls"), &format!("{kind}_host_seconds")))).collect()
}

/// The tables for machines.
pub fn json(run: &Run) -> Value {
    let scopes = all(run).into_iter().map(|(component, report, calls)| {
        json!({
            "component": component, "report": report.file, "status": calls.status, "benchmark_eligible": false,
            "intervals": calls.intervals.iter().map(interval).collect::<Vec<_>>(), "total": interval(&calls.total),
        })
    });
    json!({"schema_version": SCHEMA_VERSION, "scopes": scopes.collect::<Vec<_>>()})
}

fn interval(one: &Interval) -> Value {
    let value = |value: &Scalar| match value {
        Scalar::U64(value) => super::operators::exact(*value),
        Scalar::I64(value) => json!(value),
        Scalar::F64(value) => json!(value),
        Scalar::Bool(_) | Scalar::Text(_) | Scalar::Uncollected => Value::Null,
    };
    let values: Map<String, Value> = one.values.iter().map(|(name, of)| (name.to_string(), value(of))).collect();
    json!({"step": one.step, "host_seconds": one.host_seconds, "stream_seconds": one.stream_seconds, "values": values})
}
