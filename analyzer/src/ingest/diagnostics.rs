//! Diagnostic scopes of a report: "Which operators and driver calls were measured?"
//!
//! Uses the plain values of `run`. Invariants: a value of the wrong type is left out and counted, never zero; a row
//! without a name is no row; texts are bounded.

use super::flatten::scalar;
use super::notes::Notes;
use crate::limits::MAX_NAME_CHARS;
use crate::run::{AllocationDiagnostics, AllocationStep, OperatorDiagnostics, OperatorRow, OperatorSample, Values};
use crate::run::{Scalar, shorten, shorten_to};
use ddo_schemas::Finding;
use serde_json::Value;

/// Reads `runtime.operator_diagnostics`.
pub(super) fn operators(value: &Value, place: &str, notes: &mut Notes) -> Option<OperatorDiagnostics> {
    let mut reader = Reader::of(value, "the operator diagnostics", place, notes)?;
    let read = OperatorDiagnostics {
        status: reader.text(value, "status"),
        module_path: reader.text(value, "module_path"),
        requested: reader.list(value, "requested_invocations").iter().filter_map(Value::as_u64).collect(),
        observed: reader.whole(value, "observed_invocations"),
        samples: reader.list(value, "samples").iter().map(|sample| operator_sample(&mut reader, sample)).collect(),
    };
    reader.finish(place, notes);
    status(read.status.as_deref(), "the operator scope", "operators", place, notes);
    Some(read)
}

fn operator_sample(reader: &mut Reader, sample: &Value) -> OperatorSample {
    OperatorSample {
        invocation: reader.whole(sample, "invocation_index"),
        host_forward_seconds: reader.number(sample, "host_forward_seconds"),
        profiler_stop_seconds: reader.number(sample, "profiler_stop_seconds"),
        trace_path: reader.text(sample, "trace_path"),
        device_activity_events: reader.whole(sample, "device_activity_events"),
        operator_count: reader.whole(sample, "operator_count"),
        top_host: operator_rows(reader, sample, "top_host"),
        top_device: operator_rows(reader, sample, "top_device"),
        child_ranges: operator_rows(reader, sample, "child_ranges"),
    }
}

fn operator_rows(reader: &mut Reader, sample: &Value, key: &str) -> Vec<OperatorRow> {
    let mut rows = Vec::new();
    for row in reader.list(sample, key) {
        let Some(name) = reader.text(row, "name") else {
            reader.bad += usize::from(row.get("name").is_none());
            continue;
        };
        rows.push(OperatorRow {
            name,
            calls: reader.whole(row, "calls"),
            self_host_seconds: reader.number(row, "self_host_seconds"),
            host_seconds: reader.number(row, "host_seconds"),
            self_device_seconds: reader.number(row, "self_device_seconds"),
            device_seconds: reader.number(row, "device_seconds"),
        });
    }
    rows
}

/// Reads `runtime.allocation_diagnostics`.
pub(super) fn allocation(value: &Value, place: &str, notes: &mut Notes) -> Option<AllocationDiagnostics> {
    let mut reader = Reader::of(value, "the allocation diagnostics", place, notes)?;
    let read = AllocationDiagnostics {
        status: reader.text(value, "status"),
        failed: value.get("failed").and_then(Value::as_bool),
        error: reader.text(value, "error"),
        native_schema_version: reader.whole(value, "native_schema_version"),
        host_scope_seconds: reader.number(value, "host_scope_seconds"),
        steps: reader.list(value, "steps").iter().map(|step| allocation_step(&mut reader, step)).collect(),
        total_delta: reader.counters(value, "total_delta"),
        observed_peak_mapped_bytes: reader.whole(value, "pool_observed_peak_mapped_bytes"),
    };
    reader.finish(place, notes);
    let told = status(read.status.as_deref(), "the allocation scope", "allocation_diagnostics", place, notes);
    if read.failed == Some(true) && !told {
        notes.add(Finding::warning("allocation_diagnostics_failed", place, "the body of the allocation scope failed"));
    }
    Some(read)
}

fn allocation_step(reader: &mut Reader, step: &Value) -> AllocationStep {
    AllocationStep {
        step: reader.whole(step, "step_index"),
        host_submission_seconds: reader.number(step, "host_submission_seconds"),
        driver_delta: reader.counters(step, "driver_delta"),
        observed_peak_mapped_bytes: reader.whole(step, "pool_observed_peak_mapped_bytes"),
    }
}

/// Says what a status other than `complete` and `disabled` means; true where it said something.
fn status(status: Option<&str>, what: &str, code: &str, place: &str, notes: &mut Notes) -> bool {
    let (end, text) = match status {
        Some("complete" | "disabled") => return false,
        Some("failed") => ("failed", format!("{what} failed; it has no usable values")),
        Some("not_finished") => ("not_finished", format!("{what} was still open when the report was taken")),
        Some("incomplete") => ("incomplete", format!("{what} ended before every requested invocation was seen")),
        Some("cuda_activity_unavailable") => {
            ("without_device", format!("{what} saw no device activity; device times are unavailable, not zero"))
        }
        Some(other) => ("status_unknown", format!("{what} has the unknown status {}", shorten(other))),
        None => ("status_unknown", format!("{what} has no status")),
    };
    notes.add(Finding::warning(&format!("{code}_{end}"), place, text));
    true
}

/// Reads values of one structure and counts those of a wrong type.
struct Reader {
    what: &'static str,
    bad: usize,
}

const EMPTY: &[Value] = &[];

impl Reader {
    fn of(value: &Value, what: &'static str, place: &str, notes: &mut Notes) -> Option<Reader> {
        if !value.is_object() {
            let text = format!("{what} could not be read: {} is no object", shorten(&value.to_string()));
            notes.add(Finding::error("structure_unreadable", place, text));
            return None;
        }
        Some(Reader { what, bad: 0 })
    }

    fn finish(&self, place: &str, notes: &mut Notes) {
        if self.bad > 0 {
            let text = format!("{} value(s) of {} have a wrong type and were left out", self.bad, self.what);
            notes.add(Finding::error("structure_values_unreadable", place, text));
        }
    }

    /// A value by its key; null and absent are no value.
    fn typed<T>(&mut self, from: &Value, key: &str, read: impl Fn(&Value) -> Option<T>) -> Option<T> {
        let value = from.get(key).filter(|value| !value.is_null())?;
        let read = read(value);
        self.bad += usize::from(read.is_none());
        read
    }

    fn whole(&mut self, from: &Value, key: &str) -> Option<u64> {
        self.typed(from, key, Value::as_u64)
    }

    fn number(&mut self, from: &Value, key: &str) -> Option<f64> {
        self.typed(from, key, Value::as_f64)
    }

    fn text(&mut self, from: &Value, key: &str) -> Option<String> {
        self.typed(from, key, |value| Some(shorten_to(value.as_str()?, MAX_NAME_CHARS)))
    }

    fn list<'a>(&mut self, from: &'a Value, key: &str) -> &'a [Value] {
        let Some(value) = from.get(key).filter(|value| !value.is_null()) else { return EMPTY };
        let list = value.as_array().map(Vec::as_slice);
        self.bad += usize::from(list.is_none());
        list.unwrap_or(EMPTY)
    }

    fn counters(&mut self, from: &Value, key: &str) -> Values {
        let Some(value) = from.get(key).filter(|value| !value.is_null()) else { return Values::new() };
        let Some(map) = value.as_object() else {
            self.bad += 1;
            return Values::new();
        };
        let mut values = Values::new();
        for (name, value) in map {
            match scalar(value) {
                Some(number @ (Scalar::U64(_) | Scalar::I64(_) | Scalar::F64(_) | Scalar::Uncollected)) => {
                    values.insert(shorten_to(name, MAX_NAME_CHARS).into(), number);
                }
                _ => self.bad += 1,
            }
        }
        values
    }
}
