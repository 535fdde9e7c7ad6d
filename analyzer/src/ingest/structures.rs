//! Structures inside a report: "Which of them does this reader know?"
//!
//! Uses the shared versions. Invariants: a structure that is newer than this reader costs only itself: one finding
//! names it and its values are left out; an older one is read; a structure that stands alone in a file is recognised
//! by its fixed label.

use super::document::supported;
use super::notes::Notes;
use ddo_schemas::{Finding, version};
use serde_json::{Map, Value, json};

/// Structures of `runtime` and `setup` with a version of their own, and the newest that is known.
const KNOWN: [(&str, &str, u32); 8] = [
    ("execution_timing", "the execution timing", version::EXECUTION_TIMING),
    ("native_timeline", "the native timeline", version::NATIVE_TIMELINE),
    ("allocation_diagnostics", "the allocation diagnostics", 1),
    ("operator_diagnostics", "the operator diagnostics", 1),
    ("component_ownership", "the component ownership", 1),
    ("execution_auxiliary_ownership", "the auxiliary ownership", 1),
    ("capacity_inspection", "the capacity inspection", 1),
    ("component_capacity", "the component capacity", 1),
];

/// Structures that must name their version.
const NEEDED: [&str; 2] = ["execution_timing", "native_timeline"];

/// Values of `runtime.vmm` that share a beginning and have a version among them.
const GROUPS: [(&str, &str, u32); 2] = [
    ("fast_source_cache_pressure_observation_", "the pressure observation", 1),
    ("fast_torch_allocator_pool_", "the allocator pool", 1),
];

/// Newest native version of the allocation counters.
const NATIVE_ALLOCATION: u32 = 2;

/// Fixed labels of structures, and the key under which a report has them.
const LABELS: [(&str, &str); 4] = [
    ("native_stream_windows_not_engine_activity", "native_timeline"),
    ("compute_stream_with_dependencies", "execution_timing"),
    ("process_native_driver_host_calls", "allocation_diagnostics"),
    ("selected_forward_operators", "operator_diagnostics"),
];

/// Takes structures out of a report that are newer than this reader.
pub(super) fn refuse_newer(report: &mut Value, place: &str, notes: &mut Notes) {
    for section in ["runtime", "setup"] {
        let Some(map) = report.get_mut(section).and_then(Value::as_object_mut) else { continue };
        map.retain(|key, value| known(section, key, value, place, notes));
    }
    if let Some(vmm) = report.pointer_mut("/runtime/vmm").and_then(Value::as_object_mut) {
        for (beginning, what, newest) in GROUPS {
            let key = format!("{beginning}schema_version");
            let Some(got) = vmm.get(&key).filter(|got| !got.is_null()) else { continue };
            if supported(&json!({"schema_version": got}), what, newest, place, notes).is_none() {
                vmm.retain(|key, _| !key.starts_with(beginning));
            }
        }
    }
}

fn known(section: &str, key: &str, value: &Value, place: &str, notes: &mut Notes) -> bool {
    if !value.is_object() || (value.get("schema_version").is_none() && !NEEDED.contains(&key)) {
        return true;
    }
    let Some((_, what, newest)) = KNOWN.iter().find(|(name, ..)| *name == key) else {
        let place = format!("{place}: {section}.{}", crate::run::shorten(key));
        return supported(value, "this structure", 1, &place, notes).is_some();
    };
    if supported(value, what, *newest, place, notes).is_none() {
        return false;
    }
    match value.get("native_schema_version").filter(|got| key == "allocation_diagnostics" && !got.is_null()) {
        Some(native) => {
            let native = json!({"schema_version": native});
            supported(&native, "the native allocation counters", NATIVE_ALLOCATION, place, notes).is_some()
        }
        None => true,
    }
}

/// The key under which a report would have this structure, for a file that holds nothing else.
pub(super) fn alone(value: &Value) -> Option<&'static str> {
    let label = value.get("scope").and_then(Value::as_str)?;
    LABELS.iter().find(|(known, _)| *known == label).map(|(_, key)| *key)
}

/// True for a file that holds such structures by their keys and no report around them.
pub(super) fn bundle(value: &Value) -> bool {
    LABELS.iter().any(|(_, key)| value.get(key).is_some_and(Value::is_object))
}

/// A report around structures that stand alone, so that they are read like all others.
pub(super) fn report_of(value: Value) -> Value {
    let runtime = match (alone(&value), value) {
        (Some(key), value) => Value::Object(Map::from_iter([(key.to_string(), value)])),
        (None, value) => value,
    };
    json!({"schema_version": version::REPORT, "runtime": runtime})
}

/// Says that a file is a structure and no report.
pub(super) fn note_alone(place: &str, notes: &mut Notes) {
    let text = "holds a single structure without the report around it; settings and counters are unavailable";
    notes.add(Finding::note("structure_alone", place, text));
}
