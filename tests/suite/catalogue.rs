//! Every number that is written is declared, and what is generated from the declarations is current.
//!
//! Proves: the generated files are what the declarations generate; every leaf of every document of a run has a row and fits its
//! schema; runs write the counters that they always wrote; a path that the specification names is spelled as it is there; integers stay exact.

use crate::support::ledger::Ledger;
use crate::support::small::{component, config, pass};
use crate::support::{command, data, ran, root, scratch};
use crate::vmm_rows::WRITTEN;
use ddo_recorder::{
    AllocationOptions, Checkpoint, Component, HostMemorySettings, HostOptions, JournalOptions, LaunchScope, Offload,
    OffloadConfig, ResidencyMode, SnapshotOptions, SourceChoice, TimerOptions, enable_offload,
};
use ddo_samples::flux::{Dtype, make_checkpoint};
use ddo_schemas::{Report, Unit, catalogue, generate};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::OnceLock;
use std::time::Duration;

/// A document of a run: the schema that it must fit, and its value.
type Documents = Vec<(&'static str, Value)>;

/// The smallest generated model.
const SCALE: f64 = 0.000_01;

#[test]
fn generated_files_are_current() {
    let schemas = root().join("schemas");
    let mut files = vec![(schemas.join("FIELDS.md"), generate::fields_markdown())];
    files.extend(generate::json_schemas().into_iter().map(|(name, text)| (schemas.join("json").join(name), text)));
    let listed = files.iter().filter(|(path, _)| path.extension().is_some_and(|end| end == "json")).count();
    for (path, text) in &files {
        if std::env::var_os("DDO_BLESS").is_some() {
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("writable");
            std::fs::write(path, text).expect("writable");
        }
        let found = std::fs::read_to_string(path).unwrap_or_default();
        assert!(found == *text, "{} is not what the declarations generate; run again with DDO_BLESS=1", path.display());
    }
    assert_eq!(std::fs::read_dir(schemas.join("json")).expect("there").count(), listed, "a schema that nothing generates");
}

/// A timed and journalled run of three steps; its records and its report.
fn recorded(offload: &Offload, at: &Path, step: impl Fn(&Offload)) -> Documents {
    let mut journal = offload.metrics_journal(at, JournalOptions { enabled: true });
    let mut paths = vec![journal.record(None).expect("published")];
    let scope = offload.allocation_diagnostics(AllocationOptions { enabled: true }).expect("nobody else counts");
    let timer = offload
        .execution_timer(TimerOptions { enabled: true, native_units: true, native_capacity: 512, ..TimerOptions::default() })
        .expect("starts");
    for index in 0..3 {
        step(offload);
        paths.push(journal.record(Some(index)).expect("published"));
    }
    let timing = timer.finish().expect("finishes");
    let complete = scope.finish();
    let again = offload.allocation_diagnostics(AllocationOptions { enabled: true }).expect("given back");
    let failed = again.finish_failed(&"the body's own error");
    let value = |report: Report| serde_json::to_value(report).expect("JSON");
    let with = |allocation, collect_completed| {
        let options = SnapshotOptions { collect_completed, timing: Some(&timing), allocation, ..SnapshotOptions::default() };
        ("report", value(offload.metrics_snapshot(options).expect("a report")))
    };
    let report = |collect_completed| with(Some(&complete), collect_completed);
    let early = report(false);
    offload.wait_idle().expect("idle");
    let mut documents = vec![early, report(true)];
    offload.close(Duration::from_secs(10)).expect("closes");
    documents.push(report(false));
    documents.push(with(Some(&failed), false));
    let read = |path: &Path| serde_json::from_slice(&std::fs::read(path).expect("published")).expect("whole");
    documents.extend(paths.into_iter().flatten().map(|path| ("journal", read(&path))));
    documents
}

fn from_memory() -> Documents {
    let at = scratch("catalogue-memory");
    let ledger =
        Ledger::new(HostOptions { page_bytes: 4096, link_bytes_per_second: Some(1 << 40), ..HostOptions::default() }, u64::MAX);
    let config = OffloadConfig { lifetime_limit_bytes: 1 << 20, ..config(ledger) };
    let offload = enable_offload(component(6), config).expect("attached");
    recorded(&offload, &at.path().join("journal"), |offload| {
        pass(offload, &[0, 1, 2, 3, 4, 5]).expect("a pass");
    })
}

fn from_file() -> Documents {
    let at = scratch("catalogue-file");
    let path = at.path().join("model.safetensors");
    make_checkpoint(&path, SCALE, Dtype::F32, 3).expect("made");
    let checkpoint = Checkpoint::open(&path).expect("opens");
    let component = Component::from_checkpoint("transformer", &checkpoint, |_| None).expect("a component");
    let ledger = Ledger::new(HostOptions { page_bytes: 4096, ..HostOptions::default() }, u64::MAX);
    let config =
        OffloadConfig { source: SourceChoice::Mapped, ceiling: "40%".parse().expect("a ceiling"), ..OffloadConfig::new(ledger) };
    let offload = enable_offload(component, config).expect("attached");
    recorded(&offload, &at.path().join("journal"), |offload| {
        for unit in offload.units() {
            let guard = offload.unit(unit.id).expect("pinned");
            offload.launch(offload.compute_stream(), guard, ddo_recorder::Job::host(|_| Ok(()))).expect("queued");
        }
        offload.mark_step().expect("a step");
        offload.wait_stream(offload.compute_stream()).expect("done");
    })
}

/// The same file in parts, matrix by matrix.
fn from_parts() -> Documents {
    let at = scratch("catalogue-parts");
    let path = at.path().join("model.safetensors");
    make_checkpoint(&path, SCALE, Dtype::F32, 3).expect("made");
    let checkpoint = Checkpoint::open(&path).expect("opens");
    let component = Component::from_checkpoint("transformer", &checkpoint, |_| None).expect("a component");
    let ledger = Ledger::new(HostOptions { page_bytes: 4096, ..HostOptions::default() }, u64::MAX);
    let config = OffloadConfig {
        ceiling: "40%".parse().expect("a ceiling"),
        residency: ResidencyMode::Parts,
        launches: LaunchScope::Parts,
        part_bytes: 1,
        ..OffloadConfig::new(ledger)
    };
    let offload = enable_offload(component, config).expect("attached");
    recorded(&offload, &at.path().join("journal"), |offload| {
        for unit in offload.units() {
            let guard = offload.unit(unit.id).expect("pinned");
            for name in guard.tensor_names() {
                guard.view(name).expect("a tensor");
                offload.launch_part(offload.compute_stream(), &guard, ddo_recorder::Job::host(|_| Ok(()))).expect("queued");
                guard.release(name).expect("released");
            }
        }
        offload.mark_step().expect("a step");
        offload.wait_stream(offload.compute_stream()).expect("done");
    })
}

/// The same file read through the ring, or kept in part and registered in part.
fn from_streamed(source: SourceChoice) -> Documents {
    let at = scratch("catalogue-streamed");
    let path = at.path().join("model.safetensors");
    make_checkpoint(&path, SCALE, Dtype::F32, 3).expect("made");
    let checkpoint = Checkpoint::open(&path).expect("opens");
    let component = Component::from_checkpoint("transformer", &checkpoint, |_| None).expect("a component");
    let ledger = Ledger::new(HostOptions { page_bytes: 4096, ..HostOptions::default() }, u64::MAX);
    let ring = HostMemorySettings { staging_bytes: 64 << 10, staging_slot_bytes: 8 << 10, ..HostMemorySettings::default() };
    let host = match source {
        SourceChoice::Retained => {
            HostMemorySettings { retained_slot_bytes: 64 << 10, retained_slots: 2, registered_bytes: 64 << 10, ..ring }
        }
        _ => ring,
    };
    let config = OffloadConfig { source, host, ceiling: "40%".parse().expect("a ceiling"), ..OffloadConfig::new(ledger) };
    let offload = enable_offload(component, config).expect("attached");
    recorded(&offload, &at.path().join("journal"), |offload| {
        for unit in offload.units() {
            let guard = offload.unit(unit.id).expect("pinned");
            offload.launch(offload.compute_stream(), guard, ddo_recorder::Job::host(|_| Ok(()))).expect("queued");
        }
        offload.mark_step().expect("a step");
        offload.wait_stream(offload.compute_stream()).expect("done");
    })
}

/// Everything that the programs leave behind.
fn from_programs() -> Documents {
    let at = scratch("catalogue-programs");
    let sample = crate::support::program("ddo-sample");
    let mut record = command("ddo-record");
    record.current_dir(at.path()).args([
        "-o",
        "journal",
        "--gpu-timing",
        "--native-timeline",
        "--diagnostic-step-wait",
        "--allocation-diagnostics",
        "--repeats",
        "2",
        "--label",
        "a=b",
        "--component",
        "mine",
    ]);
    record.args(["--interval", "10ms", "--"]).arg(sample).args(["flux_shaped", "--steps", "3", "--model", "model.safetensors"]);
    ran(record.args(["--scale", &format!("{SCALE:.5}"), "--link-gb-per-second", "0.1"])).ended(0);
    let mut failing = command("ddo-record");
    ran(failing.current_dir(at.path()).args(["-o", "failed", "--", "ddo-no-such-program"])).ended(127);
    ran(command("ddo-analyze").current_dir(at.path()).arg("journal")).ended(0);
    let mut documents = Documents::new();
    for (path, bytes) in crate::support::files(at.path()) {
        let name = path.to_str().expect("text");
        if name.ends_with(".ndjson") {
            let text = String::from_utf8(bytes).expect("text");
            let kind = if name.ends_with("/host.ndjson") { "host-event" } else { "memory" };
            documents.extend(text.lines().map(|line| (kind, serde_json::from_str(line).expect("a whole line"))));
            continue;
        }
        let kind = match name {
            _ if name.ends_with("/manifest.json") => "manifest",
            _ if name.ends_with("/manifest.end.json") => "manifest-end",
            _ if name.ends_with("/summary.json") => "summary",
            _ if name.ends_with("/check.json") => "check",
            _ if name.ends_with("/reconciliation.json") => "reconciliation",
            _ if name.contains("/snapshots/mine/") => "journal",
            _ if name.contains("/reports/") => "report",
            _ if name.contains("/generations/mine/") => "tracker",
            "model.safetensors" | "journal.analysis/run.perfetto-trace" => continue,
            _ if name.ends_with("/deltas.json") => "deltas",
            _ if name.contains("/dataset/") || name.ends_with(".csv") || name.ends_with(".md") || name.ends_with(".txt") => {
                continue;
            }
            _ if name.ends_with("/tracker.json") => "tracker",
            _ if name.starts_with("journal.analysis/plots/") => continue,
            other => panic!("{other} is no file of a run"),
        };
        documents.push((kind, serde_json::from_slice(&bytes).expect("whole")));
    }
    documents
}

fn documents() -> &'static Documents {
    static DOCUMENTS: OnceLock<Documents> = OnceLock::new();
    DOCUMENTS.get_or_init(|| {
        [
            from_memory(),
            from_file(),
            from_parts(),
            from_streamed(SourceChoice::Ring),
            from_streamed(SourceChoice::Retained),
            from_streamed(SourceChoice::Staged),
            from_programs(),
        ]
        .concat()
    })
}

/// Paths of all leaves; empty lists and maps are leaves too.
fn leaves(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, inner) in map {
                leaves(inner, &if path.is_empty() { key.clone() } else { format!("{path}.{key}") }, found);
            }
        }
        Value::Array(list) if !list.is_empty() => {
            let item = if list.iter().any(Value::is_object) { format!("{path}[]") } else { path.to_owned() };
            list.iter().for_each(|inner| leaves(inner, &item, found));
        }
        _ => drop(found.insert(path.to_owned())),
    }
}

/// Shapes without rows of their own: their row is that of the list or map that holds them.
const FIXED: [(&str, &[&str]); 2] =
    [("findings[]", &["severity", "code", "where", "text"]), ("floor_terms", &["seconds", "origin", "basis"])];

/// True where a leaf has a row, or a map of free words has one.
fn is_declared(path: &str) -> bool {
    let Some((above, last)) = path.rsplit_once('.') else { return catalogue::find(path).is_some() };
    let in_map = || catalogue::find(above).is_some_and(|row| row.field.unit != Unit::Structure);
    let fixed = || {
        let shape = FIXED.iter().find(|(list, _)| path.contains(list));
        let holder = if above.contains("floor_terms") { Some(above) } else { path.split("[]").next() };
        shape.is_some_and(|(_, keys)| keys.contains(&last)) && holder.is_some_and(|holder| catalogue::find(holder).is_some())
    };
    catalogue::find(path).is_some() || in_map() || fixed()
}

/// Where a tracker holds whole reports.
const GENERATION_REPORT: &str = "generation_observations[].ddo_report.";

/// Where the rows of a document of this kind begin.
fn rows_of(kind: &str, leaf: &str) -> String {
    match kind {
        "report" => leaf.to_owned(),
        "journal" => leaf.strip_prefix("metrics.").map_or_else(|| format!("journal.{leaf}"), str::to_owned),
        "manifest" => {
            leaf.strip_prefix("settings.").map_or_else(|| format!("manifest.{leaf}"), |rest| format!("settings.{rest}"))
        }
        "manifest-end" => format!("manifest_end.{leaf}"),
        "host-event" => format!("host_event.{leaf}"),
        // A generation's report is a report.
        "tracker" if leaf.starts_with(GENERATION_REPORT) => leaf.trim_start_matches(GENERATION_REPORT).to_owned(),
        other => format!("{other}.{leaf}"),
    }
}

#[test]
fn every_leaf_of_a_run_is_declared() {
    let mut undeclared = BTreeSet::new();
    let mut count = BTreeMap::new();
    for (kind, document) in documents() {
        let mut found = BTreeSet::new();
        leaves(document, "", &mut found);
        let paths = found.iter().map(|leaf| rows_of(kind, leaf));
        undeclared.extend(paths.filter(|path| !is_declared(path)));
        *count.entry(*kind).or_insert(0) += 1;
    }
    assert_eq!(undeclared, BTreeSet::new());
    let kinds: Vec<&str> = count.keys().copied().collect();
    assert_eq!(
        kinds,
        [
            "check",
            "deltas",
            "host-event",
            "journal",
            "manifest",
            "manifest-end",
            "memory",
            "reconciliation",
            "report",
            "summary",
            "tracker"
        ],
        "{count:?}"
    );
    assert!(
        !is_declared("runtime.vmm.fast_nonsense") && !is_declared("manifest.nonsense") && !is_declared("summary.findings[].x")
    );
}

/// Structures whose every row of the specification comes out of a run here.
const DIAGNOSED: [&str; 4] = [
    "runtime.allocation_diagnostics.",
    "runtime.execution_timing.",
    "runtime.native_timeline.",
    "tracker.generation_observations[].",
];
/// Rows that no run can have: there is no span pool that would reuse or create backings.
const WITHOUT_A_POOL: [&str; 3] = ["pool_reuse_calls", "pool_new_backings", "pool_observed_peak_mapped_bytes"];

#[test]
fn every_row_of_the_scopes_comes_out_of_a_run() {
    let mut emitted = BTreeSet::new();
    for (kind, document) in documents() {
        let mut found = BTreeSet::new();
        leaves(document, "", &mut found);
        for leaf in found {
            let path = rows_of(kind, &leaf);
            // A structure comes out with its first leaf.
            let above = path.match_indices('.').map(|(at, _)| path[..at].to_owned());
            emitted.extend(above.chain([path.clone(), format!("{kind}.{leaf}")]).collect::<Vec<_>>());
            emitted.extend(
                (kind == &"tracker" && leaf.starts_with(GENERATION_REPORT))
                    .then(|| "tracker.generation_observations[].ddo_report".to_owned()),
            );
        }
    }
    let units = emitted.iter().any(|path| path.starts_with("runtime.native_timeline.execution_units."));
    let text = std::fs::read_to_string(data("spec/fields.tsv")).expect("the list");
    let rows = text.lines().skip(1).filter_map(|line| line.split('\t').next());
    let rows: Vec<&str> = rows.filter(|row| DIAGNOSED.iter().any(|scope| row.starts_with(scope))).collect();
    assert!(rows.len() > 100, "{} rows", rows.len());
    let by_unit = |row: &str| units && row.ends_with("execution_units.*");
    let emitted = |row: &str| by_unit(row) || emitted.contains(row.trim_end_matches(".*"));
    let missing = rows.iter().filter(|row| !emitted(row));
    let last = |row: &str| row.rsplit('.').next().unwrap_or_default().to_owned();
    let (pool, missing): (Vec<&str>, Vec<&str>) = missing.partition(|row| WITHOUT_A_POOL.contains(&last(row).as_str()));
    assert_eq!(missing, [""; 0]);
    assert_eq!(pool.len(), 6, "{pool:?}");
    let statuses: BTreeSet<&str> =
        documents().iter().filter_map(|(_, value)| value.pointer("/runtime/allocation_diagnostics/status")?.as_str()).collect();
    assert_eq!(statuses, BTreeSet::from(["complete", "failed"]));
}

#[test]
fn every_document_of_a_run_fits_its_schema() {
    let compile = |(name, text): (&'static str, String)| {
        let schema = serde_json::from_str(&text).expect("JSON");
        (name, jsonschema::validator_for(&schema).expect("a schema"))
    };
    let schemas: BTreeMap<&str, _> = generate::json_schemas().into_iter().map(compile).collect();
    for (kind, document) in documents() {
        let schema = &schemas[format!("{kind}.schema.json").as_str()];
        let errors: Vec<String> =
            schema.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert_eq!(errors, [""; 0], "{kind}");
    }
    let (_, report) = documents().iter().find(|(kind, _)| *kind == "report").expect("one");
    let mut damaged = report.clone();
    damaged["runtime"]["vmm"]["fast_faults"] = Value::Bool(true);
    assert!(!schemas["report.schema.json"].is_valid(&damaged), "a bool is no number");
}

#[test]
fn the_counters_that_runs_write_are_the_same_as_ever() {
    let mut emitted = BTreeSet::new();
    for (kind, document) in documents() {
        let vmm = document.pointer(if *kind == "journal" { "/metrics/runtime/vmm" } else { "/runtime/vmm" });
        emitted.extend(vmm.and_then(Value::as_object).into_iter().flatten().map(|(name, _)| name.as_str()));
    }
    assert_eq!(emitted, WRITTEN.iter().copied().collect());
}

/// Documents that the specification does not describe.
const OWN_DOCUMENTS: [&str; 10] = [
    "manifest",
    "settings.",
    "memory.",
    "host_event.",
    "summary",
    "manifest_end",
    "reconciliation",
    "deltas",
    "check",
    "verdict",
];

/// Rows of reports and journals that neither the specification nor a recorded run names: additive, never a misspelling.
const ADDITIVE: &[&str] = &[
    "configuration.clear_cublas_workspaces",
    "configuration.component_lifetime_limit_bytes",
    "configuration.device_page_bytes",
    "configuration.device_reserve_bytes",
    "configuration.driver",
    "configuration.execution_slots",
    "configuration.launch_scope",
    "configuration.least_part_bytes",
    "configuration.link_bytes_per_second",
    "configuration.look_ahead",
    "configuration.max_copy_bytes",
    "configuration.requested_residency_mode",
    "configuration.requested_source",
    "configuration.requested_source_registration_timing",
    "configuration.residency_mode",
    "configuration.weight_ceiling_bytes",
    "runtime.execution_timing.resolution_seconds",
    "runtime.execution_timing.step_count",
    "runtime.native_timeline.epoch_host_after_seconds",
    "runtime.native_timeline.epoch_host_before_seconds",
    "runtime.native_timeline.resolution_seconds",
    "runtime.observed_monotonic_seconds",
    "runtime.session_id",
    "runtime.state.planner_decisions.vmm_component_lifetime_bytes",
    "runtime.state.planner_decisions.vmm_effective_source",
    "runtime.state.planner_decisions.vmm_host_bytes",
    "runtime.state.planner_decisions.vmm_look_ahead_depth",
    "runtime.state.planner_decisions.vmm_look_ahead_wraps",
    "runtime.state.planner_decisions.vmm_managed_bytes",
    "runtime.state.planner_decisions.vmm_predicted_floor_ratio",
    "runtime.state.planner_decisions.vmm_predicted_step_seconds",
    "runtime.state.planner_decisions.vmm_resident_parts",
    "runtime.state.planner_decisions.vmm_resident_units",
    "runtime.state.planner_decisions.vmm_source_registration",
    "runtime.state.planner_decisions.vmm_source_registration_timing",
    "runtime.state.planner_decisions.vmm_streamed_bytes_per_pass",
    "runtime.state.planner_decisions.vmm_streamed_parts",
    "runtime.state.planner_decisions.vmm_streamed_units",
    "runtime.vmm.fast_cpu_source_dma_bytes",
    "runtime.vmm.fast_cpu_source_registered_bytes",
    "runtime.vmm.fast_gpu_prefetch_in_flight_units",
    "runtime.vmm.fast_gpu_prefetch_partial_units",
    "runtime.vmm.fast_mapped_source_dma_bytes",
    "runtime.vmm.fast_mapped_source_mapped_bytes",
    "runtime.vmm.fast_mapped_source_registered_bytes",
    "runtime.vmm.fast_mapped_source_registration_calls",
    "runtime.vmm.fast_mapped_source_registration_refusals",
    "runtime.vmm.fast_mapped_source_registration_seconds",
    "runtime.vmm.fast_mapped_source_registration_waiting_bytes",
    "runtime.vmm.fast_native_transport_ring_total_calls",
    "runtime.vmm.fast_native_transport_ring_total_seconds",
    "runtime.vmm.fast_part_prefetch_cancelled_parts",
    "runtime.vmm.fast_part_prefetch_hits",
    "runtime.vmm.fast_part_prefetch_in_flight_parts",
    "runtime.vmm.fast_part_prefetch_parts",
    "runtime.vmm.fast_part_releases",
    "runtime.vmm.fast_part_uploads",
    "runtime.vmm.fast_pass_floor_seconds",
    "runtime.vmm.fast_pass_link_bytes_per_second",
    "runtime.vmm.fast_pass_must_stream_bytes",
    "runtime.vmm.fast_pass_predicted_step_seconds",
    "runtime.vmm.fast_pass_work_seconds",
    "runtime.vmm.fast_pinned_units",
    "runtime.vmm.fast_prefetch_dropped_tensors",
    "runtime.vmm.fast_prefetch_in_flight_tensors",
    "runtime.vmm.fast_quarantined_bytes",
    "runtime.vmm.fast_stream_ring_bytes",
    "runtime.vmm.fast_stream_ring_restarts",
    "runtime.vmm.fast_temporary_peak_bytes",
    "runtime.vmm.fast_temporary_resident_bytes",
    "runtime.vmm.fast_transfer_batch_submissions",
    "runtime.vmm.fast_transfer_copies",
    "runtime.vmm.fast_transfer_events_created",
    "runtime.vmm.fast_transfer_events_reused",
    "runtime.vmm.fast_transfer_live_tickets",
    "runtime.vmm.fast_transfer_owned_events",
    "runtime.vmm.fast_transfer_pooled_events",
    "setup.device_cache_release.cublas_workspaces_cleared",
    "setup.device_cache_release.elapsed_seconds",
    "setup.device_cache_release.library",
    "setup.device_cache_release.phase",
    "setup.device_cache_release.status",
    "setup.device_cache_release.trim_executed",
    "setup.low_cpu_mem_usage",
    "setup.num_blocks_per_group",
    "setup.offload_type",
    "setup.quantized_backend.sdnq_module_count",
    "setup.quantized_backend.sdnq_status",
    "setup.record_stream",
    "setup.unmanaged_module_moved_to_execution_device",
    "setup.use_stream",
    "tracker.global_peak_vram_gb",
    "tracker.steps[].name",
    "tracker.vram_baseline_moment",
];

/// The lists know free keys and list items in the same notation as the catalogue.
#[test]
fn names_of_the_specification_are_kept() {
    let read = |name: &str| std::fs::read_to_string(data(&format!("spec/{name}"))).expect("the list");
    let texts = [read("fields.tsv"), read("observed-leaves.tsv")];
    let paths = texts.iter().flat_map(|text| text.lines().skip(1)).filter_map(|line| line.split('\t').next());
    let named: BTreeSet<&str> = paths.map(|path| path.trim_end_matches("[]").trim_end_matches(".*")).collect();
    assert!(named.len() > 800, "{} names", named.len());
    let copied = |path: &str| catalogue::COPIES.iter().any(|(_, place)| path.starts_with(place));
    let ours = catalogue::rows().iter().filter(|row| row.field.unit != Unit::Structure).map(|row| row.path.as_str());
    let ours = ours.filter(|path| !copied(path) && !OWN_DOCUMENTS.iter().any(|document| path.starts_with(document)));
    let additive: BTreeSet<&str> = ours.filter(|path| !named.contains(path)).collect();
    assert_eq!(additive.into_iter().collect::<Vec<_>>(), ADDITIVE);
}

#[test]
fn the_largest_integer_survives_a_report() {
    let (_, document) = documents().iter().find(|(kind, _)| *kind == "report").expect("one");
    let mut report: Report = serde_json::from_value(document.clone()).expect("a report");
    report.configuration.weight_ceiling_bytes = u64::MAX;
    let timeline = report.runtime.native_timeline.as_mut().expect("recorded");
    timeline.samples[0].unit = u64::MAX;
    timeline.samples[0].bytes.0 = Some((1 << 53) + 1);
    let text = serde_json::to_string(&report).expect("JSON");
    assert!(text.contains("\"unit\":18446744073709551615") && text.contains("\"weight_ceiling_bytes\":18446744073709551615"));
    assert_eq!(serde_json::from_str::<Report>(&text).expect("reads back"), report);
}
