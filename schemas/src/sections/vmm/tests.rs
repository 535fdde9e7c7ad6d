//! One JSON object out of many tables: nothing is lost, invented or doubled, and every rule names what exists.

use super::*;
use crate::catalogue;
use crate::field::{Condition, Gate, Kind};
use crate::scope::SCOPES;
use crate::section::{JsonShape, Section};
use crate::{Field, Seconds};
use serde_json::json;

fn rows() -> impl Iterator<Item = &'static Field> {
    catalogue::rows().iter().map(|row| row.field).filter(|field| field.path.starts_with("runtime.vmm."))
}

#[test]
fn integers_of_every_table_survive_exactly_and_what_is_absent_stays_absent() {
    let text = r#"{"copied_bytes":18446744073709551615,"fast_page_bytes":0,"fast_dma_enqueue_bytes":9007199254740993,
        "fast_source_cache_hits":18446744073709551614,"fast_source_cache_source_dispatcher_enabled":true,
        "fast_torch_allocator_pool_eviction_wait_seconds":0}"#;
    let vmm: Vmm = serde_json::from_str(text).expect("reads");
    assert_eq!(vmm.copied_bytes, Some(u64::MAX));
    assert_eq!(vmm.arena.fast_page_bytes, Some(0), "zero is a measurement");
    assert_eq!(vmm.uploads.fast_dma_enqueue_bytes, Some((1 << 53) + 1));
    assert_eq!(vmm.source_cache.fast_source_cache_hits, Some(u64::MAX - 1));
    assert_eq!(vmm.allocator_pool.fast_torch_allocator_pool_eviction_wait_seconds, Some(Seconds(0.0)));
    assert_eq!((vmm.reserved_bytes, vmm.arena.fast_faults), (None, None));
    let written = serde_json::to_value(&vmm).expect("writes");
    assert_eq!(
        written,
        json!({"copied_bytes": u64::MAX, "fast_page_bytes": 0, "fast_dma_enqueue_bytes": (1_u64 << 53) + 1,
            "fast_source_cache_hits": u64::MAX - 1, "fast_source_cache_source_dispatcher_enabled": true,
            "fast_torch_allocator_pool_eviction_wait_seconds": 0.0})
    );
    assert_eq!(serde_json::from_value::<Vmm>(written).expect("reads again"), vmm);
    assert_eq!(serde_json::to_string(&Vmm::default()).expect("writes"), "{}");
}

#[test]
fn a_value_of_the_wrong_kind_is_refused_inside_a_table_too() {
    for text in [r#"{"fast_faults":true}"#, r#"{"fast_faults":-1}"#, r#"{"fast_dma_enqueue_seconds":"1"}"#] {
        assert!(serde_json::from_str::<Vmm>(text).is_err(), "{text}");
    }
}

#[test]
fn the_schema_has_every_row_of_every_table() {
    let schema = Vmm::schema();
    let properties = schema["properties"].as_object().expect("an object");
    for field in rows() {
        let name = field.path.trim_start_matches("runtime.vmm.");
        assert!(properties.contains_key(name), "{name}");
        assert!(!field.required, "{name}: a part that is not in use leaves its fields out");
    }
    assert_eq!(properties.len(), rows().count());
    assert!(Vmm::FIELDS.len() < properties.len(), "most rows stand in tables of their own");
}

#[test]
fn rules_name_rows_of_the_same_object() {
    let declared = |name: &str| catalogue::find(&format!("runtime.vmm.{name}")).map(|row| row.field);
    for field in rows() {
        if let Condition::SiblingNonZero(name) = field.meaningful_if {
            assert!(declared(name).is_some(), "{}: {name}", field.path);
            assert_ne!(field.path, format!("runtime.vmm.{name}"));
        }
        if let Some(rate) = field.rate {
            assert_eq!(field.unit, Unit::Bytes, "{}", field.path);
            assert_eq!(
                declared(rate.seconds).map(|row| (row.unit, row.kind)),
                Some((Unit::Seconds, Kind::Counter)),
                "{}",
                field.path
            );
        }
        let safety = [Gate::MustBeZero, Gate::NoIncrease].contains(&field.gate);
        let name = field.path;
        let unsafe_name = name.ends_with("failures") || name.contains("quarantined") || name.contains("temporary");
        assert!(!unsafe_name || safety, "{name} reports something unsafe and has no gate");
        assert!(!(field.deterministic && field.unit == Unit::Seconds), "{name}: times differ between equal runs");
    }
}

#[test]
fn every_time_of_the_runtime_is_a_scope_and_every_scope_has_rows() {
    for field in rows().filter(|field| field.unit == Unit::Seconds && field.kind == Kind::Counter) {
        assert!(SCOPES.iter().any(|scope| scope.seconds == field.path), "{}", field.path);
    }
    for scope in SCOPES.iter().filter(|scope| !scope.seconds.contains("allocation_diagnostics")) {
        assert!(catalogue::find(scope.seconds).is_some_and(|row| row.field.unit == Unit::Seconds), "{}", scope.seconds);
        let counted = |calls| catalogue::find(calls).is_some_and(|row| matches!(row.field.unit, Unit::Count(_)));
        assert!(scope.calls.is_none_or(counted), "{:?}", scope.calls);
    }
}
