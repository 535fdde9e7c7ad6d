//! Reconciliation of made values: remainders, missing parts, excesses, routes, intervals and the choice of the input.

use super::*;
use crate::run::{Component, LoadedReport, Record, Scalar};

const TRANSPORT: &str = "fast_native_transport_batch_transport_total";
const FFI: &str = "fast_source_cache_batch_bridge_submit_ffi";
const NATIVE: &str = "fast_source_cache_batch_submit";

/// Values of `runtime.vmm`: seconds as fractions, calls as whole numbers.
fn values(seconds: &[(&str, f64)], counts: &[(&str, u64)]) -> Values {
    let path = |name: &str| format!("runtime.vmm.{name}").into();
    let seconds = seconds.iter().map(|(name, value)| (path(&format!("{name}_seconds")), Scalar::F64(*value)));
    seconds.chain(counts.iter().map(|(name, value)| (path(name), Scalar::U64(*value)))).collect()
}

fn row(values: &Values, scope: &str) -> Row {
    let rows = scopes(&Interval::lifetime(values));
    rows.into_iter().find(|row| row.scope.scope == scope).expect("a scope of the tree")
}

fn near(got: Option<Seconds>, want: f64) -> bool {
    got.is_some_and(|got| (got.0 - want).abs() < 5e-5)
}

/// The specification's measured diagnostic.
fn golden() -> Values {
    let calls = format!("{TRANSPORT}_calls");
    let ffi = format!("{FFI}_calls");
    values(&[(TRANSPORT, 67.2670), (FFI, 67.2392), (NATIVE, 13.4883)], &[(&calls, 232), (&ffi, 232)])
}

#[test]
fn the_golden_case_leaves_two_residuals_and_attributes_neither() {
    let values = golden();
    let transport = row(&values, TRANSPORT);
    assert!(near(transport.scope.residual_seconds.0, 0.0278), "{transport:?}");
    assert_eq!(
        (transport.scope.children.as_slice(), transport.scope.verdict),
        ([FFI.to_string()].as_slice(), ScopeVerdict::Reconciles)
    );
    assert!(
        transport.spans_levels && transport.scope.unavailable.contains(&"fast_source_cache_batch_bridge_submit_total".into())
    );
    let ffi = row(&values, FFI);
    assert!(near(ffi.scope.residual_seconds.0, 53.7509), "{ffi:?}");
    assert_eq!((ffi.scope.verdict, ffi.scope.calls.0), (ScopeVerdict::ResidualDominates, Some(232)));
    let choice = Choice { interval: Interval::lifetime(&values), words: "golden".into() };
    let found = of("c", &choice);
    let headline = found.document.headline.0.as_ref().expect("known");
    assert_eq!((headline.scope.as_str(), headline.seconds.0, headline.share.0), (NATIVE, 13.4883, None));
    assert_eq!(found.unexplained().map(|(row, _)| row.scope.scope.clone()), Some(FFI.into()));
    assert_eq!(found.document.notes, [""; 0], "232 calls in both");
}

#[test]
fn the_golden_case_with_every_level_gives_the_same_residuals() {
    let prefix = "fast_source_cache_batch_bridge_submit";
    let names = ["total", "lock_wait", "prepare", "result"].map(|part| format!("{prefix}_{part}"));
    let levels = [
        ("fast_native_transport_batch_transport_prepare", 0.0),
        ("fast_native_transport_batch_transport_submit", 67.2392),
        (names[0].as_str(), 67.2392),
        (names[1].as_str(), 0.0),
        (names[2].as_str(), 0.0),
        (names[3].as_str(), 0.0),
    ];
    let mut all = golden();
    all.extend(values(&levels, &[]));
    assert!(near(row(&all, TRANSPORT).scope.residual_seconds.0, 0.0278));
    assert!(!row(&all, TRANSPORT).spans_levels);
    assert!(near(row(&all, FFI).scope.residual_seconds.0, 53.7509));
    assert!(near(row(&all, "fast_native_transport_batch_transport_submit").scope.residual_seconds.0, 0.0));
}

/// A copy with its parts on the retained route.
fn copy() -> Values {
    let parts = ["source_ready", "event_acquire", "dma_submit", "dma_event", "registration_schedule"];
    let names: Vec<String> = parts.iter().map(|part| format!("fast_source_cache_{part}")).collect();
    let mut seconds: Vec<(&str, f64)> = names.iter().map(|name| (name.as_str(), 1.0)).collect();
    seconds.push(("fast_source_cache_copy_total", 6.0));
    values(&seconds, &[])
}

#[test]
fn a_missing_part_makes_the_rest_unknown_and_a_missing_scope_has_no_verdict_of_its_own() {
    let whole = row(&copy(), "fast_source_cache_copy_total");
    assert_eq!((whole.scope.residual_seconds.0, whole.scope.verdict), (Some(Seconds(1.0)), ScopeVerdict::Reconciles));
    let mut less = copy();
    less.remove("runtime.vmm.fast_source_cache_dma_event_seconds");
    let less = row(&less, "fast_source_cache_copy_total");
    assert_eq!((less.scope.residual_seconds.0, less.scope.verdict), (None, ScopeVerdict::ChildUnavailable));
    assert_eq!(less.scope.unavailable, ["fast_source_cache_dma_event"]);
    let mut none = copy();
    none.remove("runtime.vmm.fast_source_cache_copy_total_seconds");
    let none = row(&none, "fast_source_cache_copy_total");
    assert_eq!((none.scope.total_seconds.0, none.scope.verdict), (None, ScopeVerdict::Unavailable));
}

#[test]
fn an_excess_is_a_defect_unless_a_part_also_runs_elsewhere() {
    let mut more = copy();
    more.insert("runtime.vmm.fast_source_cache_source_ready_seconds".into(), Scalar::F64(9.0));
    let found = row(&more, "fast_source_cache_copy_total");
    assert_eq!((found.scope.verdict, found.scope.residual_seconds.0), (ScopeVerdict::ChildExceedsParent, Some(Seconds(-7.0))));
    let rounding =
        values(&[("fast_torch_allocator_reset_sync", 1.0), ("fast_torch_allocator_cache_eviction_sync", 1.000_000_5)], &[]);
    assert_eq!(row(&rounding, "fast_torch_allocator_reset_sync").scope.verdict, ScopeVerdict::Reconciles, "within the tolerance");
    let reap = values(&[("fast_source_cache_batch_reap", 1.0), ("fast_source_cache_close_total", 2.0)], &[]);
    let found = row(&reap, "fast_source_cache_batch_reap");
    assert_eq!((found.scope.verdict, found.scope.residual_seconds.0), (ScopeVerdict::ChildPartlyOutside, None));
}

#[test]
fn what_overlaps_is_never_subtracted_or_summed() {
    let path = |name: &str| format!("runtime.allocation_diagnostics.total_delta.{name}").into();
    let list = [("fault_range_host_seconds", 1.0), ("map_host_seconds", 0.75), ("access_host_seconds", 0.75)];
    let values: Values = list.into_iter().map(|(name, value)| (path(name), Scalar::F64(value))).collect();
    let found = row(&values, "fault_range_host");
    assert_eq!((found.scope.verdict, found.scope.children.len()), (ScopeVerdict::Leaf, 0));
    assert_eq!(row(&values, "map_host").scope.parent.0, None);
}

#[test]
fn the_first_creation_is_not_split_once_sources_were_prepared_ahead() {
    let prepare = "fast_native_transport_batch_transport_prepare";
    let (create, ahead) = ("fast_native_transport_batch_transport_create", "fast_native_transport_source_prepare");
    let plain = values(&[(prepare, 3.0), (create, 2.0), (ahead, 0.0)], &[]);
    assert_eq!(row(&plain, prepare).scope.residual_seconds.0, Some(Seconds(1.0)));
    assert_eq!(row(&plain, create).scope.parent.0.as_deref(), Some(prepare));
    let prepared = values(&[(prepare, 3.0), (create, 2.0), (ahead, 4.0)], &[]);
    for parent in [prepare, ahead] {
        let found = row(&prepared, parent);
        assert_eq!((found.scope.residual_seconds.0, found.scope.verdict), (None, ScopeVerdict::ChildUnavailable), "{parent}");
        assert!(found.scope.unavailable.contains(&create.into()), "{found:?}");
    }
    assert_eq!(row(&prepared, ahead).scope.parent.0, None, "a root of its own");
}

#[test]
fn calls_that_differ_are_named_with_the_field_that_would_show_why() {
    let (total, submit) = (format!("{TRANSPORT}_calls"), "fast_native_transport_batch_transport_submit_calls");
    let values = values(&[], &[(&total, 62), (submit, 60)]);
    let found = of("c", &Choice { interval: Interval::lifetime(&values), words: String::new() });
    assert_eq!(found.document.notes.len(), 1);
    assert!(found.document.notes[0].contains("60 times") && found.document.notes[0].contains("batch_submissions"));
}

fn component(records: Vec<Values>, reports: Vec<(&str, Values)>) -> Component {
    let record = |(step, values): (usize, Values)| Record {
        file: format!("step_{step:04}.json"),
        step: Some(step as u64),
        values,
        ..Record::default()
    };
    let report =
        |(name, values): (&str, Values)| LoadedReport { file: format!("{name}.json"), values, ..LoadedReport::default() };
    Component {
        name: "c".into(),
        records: records.into_iter().enumerate().map(record).collect(),
        reports: reports.into_iter().map(report).collect(),
        ..Component::default()
    }
}

#[test]
fn an_interval_is_what_was_added_and_a_restart_makes_it_unavailable() {
    let at =
        |seconds: f64, calls: u64| values(&[(TRANSPORT, seconds), (BROAD, seconds)], &[(&format!("{TRANSPORT}_calls"), calls)]);
    let journal = component(vec![at(1.0, 10), at(4.0, 16), at(0.5, 2)], Vec::new());
    let choice = between(&journal, "0", "1").expect("recorded");
    let found = of("c", &choice);
    let transport = found.row(TRANSPORT).expect("there");
    assert_eq!((transport.scope.total_seconds.0, transport.scope.calls.0), (Some(Seconds(3.0)), Some(6)));
    assert_eq!(found.document.interval, "step_0000.json to step_0001.json");
    let found = of("c", &between(&journal, "1", "2").expect("recorded"));
    let transport = found.row(TRANSPORT).expect("there");
    assert_eq!((transport.scope.total_seconds.0, transport.scope.verdict), (None, ScopeVerdict::Unavailable));
    assert!(matches!(between(&journal, "2", "1"), Err(Unfit::Backwards { .. })));
    assert!(matches!(between(&journal, "0", "7"), Err(Unfit::NoSuchStep { .. })));
}

#[test]
fn the_final_report_speaks_first_then_the_last_record_then_the_latest_plain_report() {
    let some = || values(&[(BROAD, 1.0)], &[]);
    let words = |component: &Component| choose(component, None).map(|choice| choice.words).unwrap_or_default();
    assert!(words(&component(vec![some()], vec![("a", some()), ("final", some())])).starts_with("final.json"));
    assert!(words(&component(vec![some(), some()], vec![("z", some())])).starts_with("step_0001.json"));
    let mut profiled = some();
    profiled.insert("runtime.operator_diagnostics.status".into(), Scalar::Text("complete".into()));
    let reports = component(Vec::new(), vec![("a", some()), ("b", some()), ("c", profiled.clone())]);
    assert!(words(&reports).starts_with("b.json"));
    let only = component(Vec::new(), vec![("c", profiled)]);
    assert!(choose(&only, None).expect_err("diagnostic").to_string().contains("--report"));
    assert!(choose(&only, Some("c")).is_ok(), "named");
}
