//! Checks of what was found out beside a run: "Do capacities and censuses partition what they count?"
//!
//! Uses the recorded setup. Invariant: lists are held against the totals that stand beside them.

use super::facts::{Found, items, whole_at};
use crate::run::LoadedReport;
use serde_json::Value;

/// Most tensor names that a storage record gives.
const EXAMPLES: i128 = 3;

/// A part of the recorded setup and the path of its fields.
struct Part<'a> {
    value: &'a Value,
    path: String,
}

impl<'a> Part<'a> {
    fn of(report: &'a LoadedReport, name: &str) -> Option<Part<'a>> {
        let value = report.setup.get(name).filter(|value| value.is_object())?;
        Some(Part { value, path: format!("setup.{name}") })
    }

    fn whole(&self, field: &str) -> Option<i128> {
        whole_at(self.value, &format!("/{field}"))
    }

    fn field(&self, field: &str) -> String {
        format!("{}.{field}", self.path)
    }

    /// Compares a field with a number that follows from others.
    fn equal(&self, field: &str, expected: Option<i128>, needs: &str) -> Found {
        match (expected, self.whole(field)) {
            (Some(expected), Some(got)) => Found::equal(&self.field(field), expected, got),
            (None, _) => Found::unavailable(&self.field(field), &[self.field(needs)]),
            (_, None) => Found::unavailable(&self.field(field), &[self.field(field)]),
        }
    }
}

/// Sums one field of a list; `None` where an item lacks it.
fn total(list: &[Value], field: &str) -> Option<i128> {
    list.iter().map(|item| whole_at(item, &format!("/{field}"))).sum()
}

pub(super) fn preflight(report: &LoadedReport) -> Vec<Found> {
    let Some(part) = Part::of(report, "component_capacity") else { return Vec::new() };
    let payload = part.whole("execution_slot_payload_bytes");
    let slots = part.whole("execution_slot_count");
    let product = payload.zip(slots).map(|(payload, slots)| payload.saturating_mul(slots));
    let mut found = vec![part.equal("execution_slot_total_payload_bytes", product, "execution_slot_payload_bytes")];
    let units = items(part.value, "/units");
    if !units.is_empty() {
        let largest = units.iter().filter_map(|unit| whole_at(unit, "/execution_slot_payload_bytes")).max();
        found.push(part.equal("execution_slot_payload_bytes", largest, "units"));
        found.push(part.equal("execution_units", Some(units.len() as i128), "units"));
    }
    found
}

pub(super) fn inspection(report: &LoadedReport) -> Vec<Found> {
    let Some(part) = Part::of(report, "capacity_inspection") else { return Vec::new() };
    let selected = part.whole("selected_unique_parameter_bytes");
    let others = part.whole("nonselected_unique_parameter_bytes");
    let shared = part.whole("shared_selected_nonselected_bytes");
    let unique = selected.zip(others).zip(shared).map(|((selected, others), shared)| selected + others - shared);
    let mut found = vec![part.equal("unique_parameter_bytes", unique, "selected_unique_parameter_bytes")];
    if part.value.get("selected_modules").is_some() {
        let count = items(part.value, "/selected_modules").len() as i128;
        found.push(part.equal("selected_module_count", Some(count), "selected_modules"));
    }
    if part.value.get("parameters").is_some() {
        let bytes = total(items(part.value, "/parameters"), "bytes");
        found.push(part.equal("unique_parameter_bytes", bytes, "parameters[].bytes"));
    }
    found
}

/// A tiny view can keep a whole storage alive, so storages may hold more than the references count: only their number and
/// the listed part are bounded.
pub(super) fn host_memory(report: &LoadedReport) -> Vec<Found> {
    let Some(part) = Part::of(report, "host_memory") else { return Vec::new() };
    let Some(storages) = part.value.get("cpu_storages").filter(|value| value.is_object()) else { return Vec::new() };
    let part = Part { value: storages, path: part.path.clone() + ".cpu_storages" };
    let mut found = Vec::new();
    if let Some(omitted) = part.whole("omitted_storage_count") {
        let listed = items(storages, "/storage_samples");
        let count = Some(listed.len() as i128 + omitted);
        found.push(part.equal("unique_storage_count", count, "storage_samples"));
        if let (Some(bytes), Some(all)) = (total(listed, "storage_bytes"), part.whole("unique_storage_bytes")) {
            found.push(Found::at_most(&part.field("storage_samples[].storage_bytes"), all, "unique_storage_bytes", bytes));
        }
        let most = listed.iter().map(|item| items(item, "/examples").len() as i128).max();
        if let Some(most) = most {
            found.push(Found::at_most(&part.field("storage_samples[].examples"), EXAMPLES, "names a storage", most));
        }
    }
    if let (Some(storages), Some(references)) = (part.whole("unique_storage_count"), part.whole("cpu_tensor_references")) {
        found.push(Found::at_most(&part.field("unique_storage_count"), references, "cpu_tensor_references", storages));
    }
    let status = report.setup.pointer("/host_memory/status").and_then(Value::as_str);
    if let (Some(status), Some(errors)) = (status, part.whole("inspection_errors")) {
        let expected = if errors > 0 { "partial" } else { "observed" };
        found.push(Found::that("setup.host_memory.status", expected, status, status == expected));
    }
    found
}

/// Counters that a build does not support are left out or null; then the change is null, too.
pub(super) fn cache_release(report: &LoadedReport) -> Vec<Found> {
    let Some(part) = Part::of(report, "host_cache_release") else { return Vec::new() };
    let mut found = Vec::new();
    let (before, after) = (whole_at(part.value, "/before/allocated_bytes"), whole_at(part.value, "/after/allocated_bytes"));
    let field = part.field("allocator_bytes_delta");
    match (before.zip(after), part.whole("allocator_bytes_delta")) {
        (Some((before, after)), Some(delta)) => found.push(Found::equal(&field, before - after, delta)),
        (Some((before, after)), None) => {
            found.push(Found::that(&field, (before - after).to_string(), "nothing", false));
        }
        (None, Some(delta)) => found.push(Found::that(&field, "nothing without both readings", delta.to_string(), false)),
        (None, None) => {}
    }
    for side in ["before", "after"] {
        let Some(consistent) = part.value.pointer(&format!("/{side}/active_counter_consistent")).and_then(Value::as_bool) else {
            continue;
        };
        let active = part.value.pointer(&format!("/{side}/active_bytes")).filter(|value| !value.is_null());
        let got = active.map_or_else(|| "none".to_string(), ToString::to_string);
        let expected = if consistent { "active bytes" } else { "none, as the counter is inconsistent" };
        found.push(Found::that(&part.field(&format!("{side}.active_bytes")), expected, got, consistent == active.is_some()));
        let allocated = whole_at(part.value, &format!("/{side}/allocated_bytes"));
        if let (Some(active), Some(allocated)) = (whole_at(part.value, &format!("/{side}/active_bytes")), allocated) {
            found.push(Found::at_most(&part.field(&format!("{side}.active_bytes")), allocated, "allocated_bytes", active));
        }
    }
    found
}
