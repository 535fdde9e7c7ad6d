//! Conservation checks, through the program's own entry.
//!
//! Proves: sound recorded runs pass; each check of the table fails on a copy with one broken statement, with exit code 5, and
//! nothing unrelated fails with it; a check without such a case fails this test.

use crate::support::{data, root, scratch};
use ddo_analyzer::analysis::check::CHECKS;
use ddo_schemas::generate;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// What a broken copy starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Base {
    /// One recorded report.
    Report(&'static str),
    /// The recorded journal.
    Journal,
    /// A made report with what no recorded one has.
    Made,
}

/// One statement broken.
struct Case {
    check: &'static str,
    base: Base,
    /// The record of a journal, by file name; unused elsewhere.
    file: &'static str,
    damage: fn(&mut Value),
    /// Checks that say the same in other words.
    also: &'static [&'static str],
}

const FINAL: Base = Base::Report("small-cache-full/final.json");
const NONE: &[&str] = &[];

const fn case(check: &'static str, base: Base, damage: fn(&mut Value)) -> Case {
    Case { check, base, file: "", damage, also: NONE }
}

const fn step(check: &'static str, file: &'static str, damage: fn(&mut Value)) -> Case {
    Case { check, base: Base::Journal, file, damage, also: NONE }
}

fn vmm<'a>(report: &'a mut Value, name: &str) -> &'a mut Value {
    report.pointer_mut("/runtime/vmm").and_then(|vmm| vmm.get_mut(name)).unwrap_or_else(|| panic!("no {name}"))
}

fn at<'a>(report: &'a mut Value, pointer: &str) -> &'a mut Value {
    report.pointer_mut(pointer).unwrap_or_else(|| panic!("no {pointer}"))
}

fn remove(report: &mut Value, pointer: &str, name: &str) {
    at(report, pointer).as_object_mut().and_then(|map| map.remove(name)).unwrap_or_else(|| panic!("no {name}"));
}

/// Stands for a number that JSON does not have; written without its quotes.
const NOT_A_NUMBER: &str = "not a number";

#[rustfmt::skip]
const CASES: &[Case] = &[
    step("numbers_finite", "step_0001.json", |r| *at(r, "/metrics/runtime/vmm/evictions") = json!(NOT_A_NUMBER)),
    step("journal_labels", "step_0000.json", |r| r["gpu_completion_proven"] = json!(true)),
    step("journal_keys", "step_0001.json", |r| remove(r, "/metrics/runtime/vmm", "evictions")),
    step("counters_grow", "step_0002.json", |r| *at(r, "/metrics/runtime/vmm/fast_uploads") = json!(1)),
    Case { also: &["counters_grow"], ..step("source_requests", "step_0002.json", |r| *at(r, "/metrics/runtime/vmm/fast_source_cache_hits") = json!(1)) },
    case("pool_partition", FINAL, |r| *vmm(r, "fast_torch_allocator_pool_available_bytes") = json!(49_835_521)),
    case("pool_requests", FINAL, |r| *vmm(r, "fast_torch_allocator_pool_requested_bytes") = json!(36_987_905)),
    case("pool_idle", FINAL, |r| *vmm(r, "fast_torch_allocator_pool_idle_backing_bytes") = json!(421_527_553)),
    case("footprint_partition", Base::Made, |r| *vmm(r, "fast_torch_allocator_footprint_reuse_excess_bytes") = json!(301)),
    case("footprint_minimum", Base::Made, |r| *vmm(r, "fast_torch_allocator_footprint_minimum_mapped_bytes") = json!(1_201)),
    case("weights_total", FINAL, |r| *vmm(r, "fast_resident_bytes") = json!(750_780_415)),
    Case { also: &["arena_ceiling"], ..case("weights_ceiling", FINAL, |r| *vmm(r, "fast_fault_ceiling_bytes") = json!(1)) },
    case("arena_ceiling", FINAL, |r| {
        *vmm(r, "fast_execution_buffer_resident_bytes") = json!(0);
        *vmm(r, "fast_total_weight_resident_bytes") = json!(750_780_416);
        *vmm(r, "fast_fault_ceiling_bytes") = json!(750_780_415);
    }),
    case("execution_buffer", FINAL, |r| *vmm(r, "fast_execution_buffer_slots") = json!(3)),
    case("lifetime_backing", Base::Made, |r| *at(r, "/runtime/component_ownership/component_lifetime_uploads") = json!(2)),
    case("registered_limit", FINAL, |r| *vmm(r, "fast_source_cache_registered_limit_bytes") = json!(4_294_967_297_u64)),
    case("registered_peak", FINAL, |r| *vmm(r, "fast_source_cache_peak_registered_bytes") = json!(1)),
    case("process_limit", FINAL, |r| *vmm(r, "fast_source_cache_process_limit_bytes") = json!(2_952_790_015_u64)),
    case("committed", FINAL, |r| *vmm(r, "fast_source_cache_retained_bytes") = json!(2_684_354_561_u64)),
    case("pressure_entries", FINAL, |r| *vmm(r, "fast_source_cache_pressure_observation_entries") = json!(1)),
    case("collection_tickets", FINAL, |r| *at(r, "/runtime/completion_collection/tickets_retired") = json!(36)),
    case("collected_events", FINAL, |r| *vmm(r, "fast_source_cache_transfer_owned_events") = json!(1)),
    case("pooled_events", FINAL, |r| *vmm(r, "fast_source_cache_pooled_events") = json!(257)),
    case("source_windows", Base::Made, |r| *vmm(r, "fast_source_cache_source_dispatcher_window_limit") = json!(5)),
    case("look_ahead_units", FINAL, |r| *vmm(r, "fast_gpu_prefetch_hits") = json!(31)),
    case("source_read_ahead", Base::Made, |r| *vmm(r, "fast_prefetch_hits") = json!(5)),
    case("scope_calls", FINAL, |r| remove(r, "/runtime/vmm", "fast_native_transport_batch_transport_submit_calls")),
    case("nested_calls", FINAL, |r| *vmm(r, "fast_source_cache_batch_bridge_submit_ffi_calls") = json!(63)),
    case("nested_scopes", FINAL, |r| *vmm(r, "fast_source_cache_copy_total_seconds") = json!(0.5)),
    case("timing_status", FINAL, |r| *at(r, "/runtime/execution_timing/status") = json!("pending")),
    case("steps_and_tail", FINAL, |r| *at(r, "/runtime/execution_timing/phase_seconds") = json!(0.147_511)),
    case("steady_state", FINAL, |r| *at(r, "/runtime/execution_timing/steady_state_seconds_per_step") = json!(0.0458)),
    case("step_markers", FINAL, |r| {
        let samples = at(r, "/runtime/native_timeline/samples").as_array_mut().expect("a list");
        let marker = samples.iter_mut().find(|sample| sample["kind"] == "step_marker" && sample["unit"] == 2);
        marker.expect("recorded")["unit"] = json!(7);
    }),
    case("timeline_status", Base::Report("small-cache-full/truncated_timeline.json"), |r| *at(r, "/runtime/native_timeline/status") = json!("pending")),
    case("timeline_samples", FINAL, |r| *at(r, "/runtime/native_timeline/capacity") = json!(229)),
    case("summary_complete", FINAL, |r| {
        *at(r, "/runtime/native_timeline/status") = json!("truncated");
        *at(r, "/runtime/native_timeline/dropped") = json!(1);
        *at(r, "/runtime/native_timeline/capacity") = json!(230);
    }),
    case("summary_recomputed", FINAL, |r| *at(r, "/runtime/native_timeline/window_summary/union_seconds/upload_batch_window") = json!(0.117_711_968)),
    case("preflight_slots", Base::Report("small-cache-full/preflight.json"), |r| *at(r, "/setup/component_capacity/execution_slot_total_payload_bytes") = json!(1_359_327_233)),
    case("inspection_capacity", Base::Report("small-cache-full/inspect_vmm_component.json"), |r| *at(r, "/setup/capacity_inspection/shared_selected_nonselected_bytes") = json!(1)),
    case("host_storages", Base::Report("small-cache-full/inspect_host_memory.json"), |r| *at(r, "/setup/host_memory/cpu_storages/omitted_storage_count") = json!(119)),
    case("host_cache_release", Base::Made, |r| *at(r, "/setup/host_cache_release/allocator_bytes_delta") = json!(-401)),
    case("detached_sources", Base::Made, |r| *at(r, "/setup/auxiliary_source_detachment/copied_tensor_owners") = json!(6)),
    case("driver_calls", Base::Made, |r| *at(r, "/runtime/allocation_diagnostics/total_delta/map_failed_calls") = json!(9)),
    case("driver_steps", Base::Made, |r| *at(r, "/runtime/allocation_diagnostics/steps/1/driver_delta/map_calls") = json!(7)),
    case("operator_rows", Base::Report("small-cache-full/operators.json"), |r| *at(r, "/runtime/operator_diagnostics/samples/0/top_host/0/self_host_seconds") = json!(0.1)),
    case("operator_samples", Base::Report("small-cache-full/operators.json"), |r| *at(r, "/runtime/operator_diagnostics/requested_invocations") = json!([0])),
];

/// A sound report with what the recorded runs lack.
fn made() -> Value {
    let access = json!({"map_calls": 3, "map_failed_calls": 1, "map_host_seconds": 0.5, "access_calls": 6,
        "access_return_success_calls": 4, "access_return_not_ready_calls": 2, "access_return_out_of_memory_calls": 0,
        "access_return_other_calls": 0});
    let whole = json!({"map_calls": 8, "map_failed_calls": 2, "map_host_seconds": 1.5, "access_calls": 12,
        "access_return_success_calls": 8, "access_return_not_ready_calls": 4, "access_return_out_of_memory_calls": 0,
        "access_return_other_calls": 0});
    let ownership = json!({"component_lifetime_parameter_bytes": 90, "component_lifetime_native_capacity_bytes": 100,
        "component_lifetime_budget_charge_bytes": 100, "declared_total_weight_ceiling_bytes": 1_000,
        "arena_weight_ceiling_bytes": 900, "component_lifetime_uploads": 1});
    json!({"schema_version": 1, "route": "dynamic_offload", "configuration": {},
        "setup": {
            "host_cache_release": {"phase": "p", "status": "released", "released": true, "allocator_bytes_delta": -400,
                "before": {"allocated_bytes": 100, "active_bytes": 50, "active_counter_consistent": true},
                "after": {"allocated_bytes": 500, "active_bytes": null, "active_counter_consistent": false}},
            "auxiliary_source_detachment": {"status": "detached", "copied_storage_groups": 3, "copied_tensor_owners": 4,
                "copied_named_references": 5}},
        "runtime": {
            "component_ownership": ownership,
            "allocation_diagnostics": {"schema_version": 1, "status": "complete", "total_delta": whole,
                "steps": [{"step_index": 0, "driver_delta": access}, {"step_index": 1, "driver_delta": access}]},
            "state": {"planner_decisions": {"vmm_native_source_cache_slots": 64}},
            "vmm": {"fast_torch_allocator_footprint_requested_bytes": 1_000, "fast_torch_allocator_footprint_minimum_mapped_bytes": 1_200,
                "fast_torch_allocator_footprint_mapped_bytes": 1_500, "fast_torch_allocator_footprint_granularity_padding_bytes": 200,
                "fast_torch_allocator_footprint_reuse_excess_bytes": 300, "fast_native_transport_source_workers": 4,
                "fast_source_cache_source_dispatcher_owned_windows": 1, "fast_source_cache_source_dispatcher_peak_windows": 3,
                "fast_source_cache_source_dispatcher_window_limit": 4, "fast_component_lifetime_capacity_bytes": 100,
                "fast_component_lifetime_resident_bytes": 100, "fast_prefetch_attempts": 9, "fast_prefetch_hits": 6,
                "fast_prefetch_dropped_tensors": 1, "fast_prefetch_in_flight_tensors": 2}}})
}

fn recorded(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).expect("recorded")).expect("JSON")
}

/// The files of a base.
fn files(base: Base) -> BTreeMap<String, Value> {
    match base {
        Base::Made => BTreeMap::from([("made.json".into(), made())]),
        Base::Report(path) => {
            let name = path.rsplit('/').next().expect("a name");
            BTreeMap::from([(name.into(), recorded(&data("peer-runs").join(path)))])
        }
        Base::Journal => {
            let folder = data("peer-runs/small-cache-full/denoise_snapshots");
            let entries = fs::read_dir(&folder).expect("recorded").map(|entry| entry.expect("an entry").path());
            entries.map(|path| (path.file_name().expect("named").to_string_lossy().into_owned(), recorded(&path))).collect()
        }
    }
}

/// Runs the checks on some files; gives the exit code and the document.
fn check(files: &BTreeMap<String, Value>) -> (u8, Value) {
    let folder = scratch("check");
    for (name, value) in files {
        let text = value.to_string().replace(&format!("\"{NOT_A_NUMBER}\""), "NaN");
        fs::write(folder.path().join(name), text).expect("written");
    }
    checked(folder.path())
}

fn checked(folder: &Path) -> (u8, Value) {
    let words = ["ddo-analyze".into(), "check".into(), folder.into(), "--json".into()];
    let mut out = Vec::new();
    let code = ddo_analyzer::cli::main(words, &mut out);
    (code, serde_json::from_slice(&out).expect("JSON alone"))
}

/// Names of the checks with a result of that kind.
fn with(document: &Value, ok: Option<bool>) -> BTreeSet<String> {
    let checks = document["checks"].as_array().expect("a list");
    let fits = checks.iter().filter(|check| check["ok"].as_bool() == ok);
    fits.map(|check| check["name"].as_str().expect("named").to_owned()).collect()
}

#[test]
fn every_recorded_run_is_sound() {
    let mut seen = BTreeSet::new();
    let runs = ["big-cache-4", "big-linear-auto", "big-ring-4", "small-cache-full", "small-ring"];
    let folders = runs.map(|run| data("peer-runs").join(run)).into_iter().chain([root().join("samples/journals/flux-h200")]);
    for folder in folders {
        let (code, document) = checked(&folder);
        assert_eq!((code, with(&document, Some(false))), (0, BTreeSet::new()), "{}", folder.display());
        assert_eq!(document["ok"], true);
        seen.extend(with(&document, Some(true)));
        let names: BTreeSet<&str> =
            document["checks"].as_array().expect("a list").iter().filter_map(|c| c["name"].as_str()).collect();
        assert_eq!(names, CHECKS.iter().map(|check| check.name).collect(), "each check is named once at least");
    }
    let held: BTreeSet<&str> = seen.iter().map(String::as_str).collect();
    let never: Vec<&str> = CHECKS.iter().map(|check| check.name).filter(|name| !held.contains(name)).collect();
    let made_only = [
        "footprint_partition",
        "footprint_minimum",
        "lifetime_backing",
        "source_windows",
        "source_read_ahead",
        "host_cache_release",
        "detached_sources",
        "driver_calls",
        "driver_steps",
    ];
    assert_eq!(never, made_only, "what no recorded run has is checked on a made one");
}

#[test]
fn each_check_fails_on_its_own_damage_and_nothing_unrelated_does() {
    let covered: BTreeSet<&str> = CASES.iter().map(|case| case.check).collect();
    let missing: Vec<&str> = CHECKS.iter().map(|check| check.name).filter(|name| !covered.contains(name)).collect();
    assert_eq!(missing, [""; 0], "a check without a case that breaks it");
    let mut sound = BTreeMap::new();
    for case in CASES {
        let mut files = files(case.base);
        let document = sound.entry(case.base).or_insert_with(|| {
            let (code, document) = check(&files);
            assert_eq!(code, 0, "{:?}: {:?}", case.base, with(&document, Some(false)));
            document
        });
        assert!(with(document, Some(true)).contains(case.check), "{}: not made on its base", case.check);
        let name = if case.file.is_empty() { files.keys().next().expect("a file").clone() } else { case.file.to_owned() };
        (case.damage)(files.get_mut(&name).expect("a file of the base"));
        let (code, document) = check(&files);
        let failed = with(&document, Some(false));
        assert!(failed.contains(case.check), "{} does not see its damage; failed: {failed:?}", case.check);
        let unrelated: Vec<&String> =
            failed.iter().filter(|name| *name != case.check && !case.also.contains(&name.as_str())).collect();
        assert!(unrelated.is_empty(), "{}: {unrelated:?} fail with it", case.check);
        assert_eq!((code, &document["ok"]), (5, &json!(false)), "{}", case.check);
    }
}

#[test]
fn a_failure_is_named_first_and_becomes_a_finding_of_the_whole_run() {
    let folder = scratch("check-text");
    let mut report = recorded(&data("peer-runs/small-cache-full/final.json"));
    *vmm(&mut report, "fast_torch_allocator_pool_available_bytes") = json!(49_835_521);
    fs::write(folder.path().join("final.json"), report.to_string()).expect("written");
    let run = |words: &[&str]| {
        let mut out = Vec::new();
        let all = ["ddo-analyze"].iter().chain(words).map(|word| word.into()).collect::<Vec<std::ffi::OsString>>();
        let code = ddo_analyzer::cli::main(all, &mut out);
        (code, String::from_utf8(out).expect("text"))
    };
    let input = folder.path().to_str().expect("text");
    let (code, text) = run(&["check", input]);
    assert_eq!(code, 5);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "FAILED  pool_partition: mapped = leased + available + pending + quarantined");
    assert_eq!(lines[1].trim(), "final.json: runtime.vmm.fast_torch_allocator_pool_mapped_bytes");
    assert_eq!((lines[2].trim(), lines[3].trim()), ("expected  421527553", "got       421527552"));
    assert!(lines[4].starts_with("1 check fails at 1 place"), "{text}");
    let results = scratch("check-results");
    let out = results.path().join("out");
    let (code, screen) = run(&[input, "--out", out.to_str().expect("text")]);
    assert_eq!(code, 0, "findings do not fail the default run");
    assert!(screen.starts_with("ERROR   final.json"), "{screen}");
    let document = recorded(&out.join("check.json"));
    assert_eq!(document["ok"], false);
    let findings = recorded(&out.join("summary.json"))["findings"].clone();
    assert_eq!(findings[0]["code"], "check_pool_partition");
    let schemas = generate::json_schemas();
    let (_, text) = schemas.iter().find(|(name, _)| *name == "check.schema.json").expect("generated");
    let schema = jsonschema::validator_for(&serde_json::from_str(text).expect("JSON")).expect("a schema");
    assert_eq!(schema.iter_errors(&document).map(|error| error.to_string()).collect::<Vec<_>>(), [""; 0]);
    let (code, _) = run(&["check", input, "--all"]);
    assert_eq!(code, 5);
}
