//! What people have today is read: folders of the older Python recorder, loose reports, single structures, crash remains.
//!
//! Proves: every recorded folder loads with exactly the findings that are listed here; every recorded window is drawn; recorded
//! summaries follow from their windows; a structure that is newer than this reader costs only itself; ranks are processes.

use crate::support::trace::{Reading, sound};
use crate::support::{Scratch, command, data, ran, scratch};
use ddo_analyzer::analysis::overlap;
use ddo_analyzer::ingest::load;
use ddo_analyzer::output::perfetto::{Align, TraceOptions, write};
use ddo_analyzer::run::{LoadedReport, Run, Scalar, Window, WindowState};
use ddo_schemas::Severity;
use ddo_schemas::timeline::SampleKind;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

const FOLDERS: [&str; 5] = ["big-cache-4", "big-linear-auto", "big-ring-4", "small-cache-full", "small-ring"];

fn peer(name: &str) -> Run {
    load(&data("peer-runs").join(name)).expect("a recorded folder")
}

fn serious(run: &Run) -> Vec<&str> {
    run.findings.iter().filter(|f| f.severity > Severity::Note).map(|f| f.code.as_str()).collect()
}

fn report<'a>(run: &'a Run, name: &str) -> &'a LoadedReport {
    let mut reports = run.components.iter().flat_map(|component| &component.reports);
    reports.find(|report| report.short_name() == name).unwrap_or_else(|| panic!("no report {name}"))
}

fn trace(run: &Run, align: Align) -> Reading {
    let mut bytes = Vec::new();
    write(run, &TraceOptions { align, ..TraceOptions::default() }, &mut bytes).expect("memory takes everything");
    sound(&bytes)
}

fn json_of(path: &str) -> Value {
    serde_json::from_slice(&std::fs::read(data(path)).expect("recorded")).expect("JSON")
}

fn put(at: &Scratch, name: &str, value: &Value) {
    let path = at.path().join(name);
    std::fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
    std::fs::write(path, value.to_string()).expect("written");
}

#[test]
fn every_recorded_folder_loads_with_exactly_these_findings() {
    let at = scratch("compat-folders");
    for name in FOLDERS {
        let wanted: &[&str] = if name == "small-cache-full" { &["timeline_truncated"] } else { &[] };
        let run = peer(name);
        assert_eq!(serious(&run), wanted, "{name}");
        let component = if name == "big-linear-auto" { "component" } else { "transformer" };
        assert_eq!(run.components.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), [component], "{name}: a helper names it");
        let out = at.path().join(name);
        ran(command("ddo-analyze").arg("trace").arg(data("peer-runs").join(name)).arg("--out").arg(&out)).ended(0);
        sound(&std::fs::read(out.join("run.perfetto-trace")).expect("written"));
    }
    let all = load(&data("peer-runs")).expect("several folders at once");
    let counts: BTreeMap<&str, (usize, usize)> =
        all.components.iter().map(|c| (c.name.as_str(), (c.records.len(), c.reports.len()))).collect();
    let wanted = [(0, 6), (0, 1), (0, 6), (4, 10), (4, 10)];
    assert_eq!(counts, FOLDERS.into_iter().zip(wanted).collect(), "reports stay with the folder that they lie in");
}

#[test]
fn every_recorded_window_is_a_slice() {
    let mut run = peer("small-cache-full");
    // Their arrows have stories of their own.
    run.operators.clear();
    let reading = trace(&run, Align::Recorded);
    for (name, windows) in [("final", 230), ("step_wait", 154), ("truncated_timeline", 64)] {
        let timeline = report(&run, name).timeline.as_ref().expect("recorded");
        assert_eq!(timeline.windows.len(), windows);
        let group = format!("stream windows (device, unaligned, {name})");
        assert_eq!(reading.on(&group).count(), windows, "{name}");
        for kind in SampleKind::WINDOWS {
            let wanted: i64 = timeline.intervals(kind).iter().map(|(start, end)| end - start).sum();
            let drawn: u64 = reading.on(&group).filter(|slice| slice.category == kind.name()).map(|s| s.end - s.start).sum();
            assert_eq!(drawn, wanted as u64, "{name}, {}", kind.name());
        }
    }
    let unit = "transformer_blocks.1";
    assert_eq!(reading.slices.iter().filter(|s| s.name == unit && s.track.contains(", final)")).count(), 3, "once a step");
    let dropped = reading.instants.iter().filter(|(name, _)| name == "dropped windows").count();
    assert_eq!(dropped, 1, "90 windows found no room");
    // Uploads carry numbers of the native library that no table maps to units: nothing proves an arrow.
    let names = &report(&run, "final").timeline.as_ref().expect("recorded").recorded.execution_units;
    let windows = &report(&run, "final").timeline.as_ref().expect("recorded").windows;
    let upload = |window: &&Window| window.kind == SampleKind::UploadBatchWindow;
    assert!(windows.iter().filter(upload).all(|window| !names.contains_key(&window.unit.to_string())));
    assert_eq!(reading.flows, 0);
}

#[test]
fn journals_become_counters_with_the_recorded_values() {
    let run = peer("small-cache-full");
    let reading = trace(&run, Align::Recorded);
    let path = "runtime.vmm.fast_uploads";
    let recorded: Vec<i64> = run.components[0]
        .records
        .iter()
        .map(|record| i64::try_from(record.values[path].as_u64().expect("whole")).expect("small"))
        .collect();
    let drawn: Vec<i64> = reading.points.iter().filter(|(track, ..)| track.ends_with("/ fast_uploads")).map(|p| p.2).collect();
    assert_eq!(drawn, recorded);
    let added: Vec<i64> =
        reading.points.iter().filter(|(track, ..)| track.ends_with("/ fast_uploads, added by the step")).map(|p| p.2).collect();
    assert_eq!(added, recorded.windows(2).map(|pair| pair[1] - pair[0]).collect::<Vec<_>>());
}

#[test]
fn recorded_summaries_follow_from_their_windows() {
    let mut checked = Vec::new();
    for name in FOLDERS {
        for component in peer(name).components {
            for mut report in component.reports {
                assert_eq!(overlap::verify(&report), [], "{name}/{}", report.file);
                let Some(timeline) = &mut report.timeline else { continue };
                let Some(summary) = &mut timeline.recorded.warm_window_summary else { continue };
                checked.push(format!("{name}/{}", report.file));
                summary.union_seconds.execution_unit_window.0 += 1e-10;
                let codes: Vec<String> = overlap::verify(&report).into_iter().map(|finding| finding.code).collect();
                assert_eq!(codes, ["summary_differs"], "a change of 0.1 ns is seen");
            }
        }
    }
    let wanted = [
        "small-cache-full/final.json",
        "small-cache-full/step_wait.json",
        "small-ring/final.json",
        "small-ring/step_wait.json",
        "small-ring/truncated_timeline.json",
    ];
    assert_eq!(checked, wanted);
}

#[test]
fn what_a_build_does_not_report_is_unavailable() {
    let cache = |name: &str| {
        let run = peer(name);
        let values =
            run.components.iter().flat_map(|c| c.records.iter().map(|r| &r.values).chain(c.reports.iter().map(|r| &r.values)));
        values.flat_map(|values| values.keys()).filter(|path| path.starts_with("runtime.vmm.fast_source_cache_")).count()
    };
    assert_eq!(cache("small-ring"), 0, "unavailable, not zero");
    assert!(cache("small-cache-full") > 500);
    let run = peer("small-ring");
    assert!(run.components[0].records.iter().all(|record| record.values.contains_key("runtime.vmm.fast_uploads")));
}

#[test]
fn a_truncated_timeline_alone_says_so() {
    let run = load(&data("peer-runs/small-cache-full/truncated_timeline.json")).expect("one file");
    assert_eq!(serious(&run), ["timeline_truncated"]);
    assert!(
        run.findings[0].text.ends_with("90 window(s) found no room in 64 samples; the timeline is truncated and has no summary")
    );
    let timeline = report(&run, "truncated_timeline").timeline.as_ref().expect("recorded");
    assert_eq!((timeline.recorded.window_summary.as_ref(), timeline.recorded.warm_window_summary.as_ref()), (None, None));
    let reading = trace(&run, Align::Recorded);
    assert_eq!(reading.on("stream windows").count(), 64);
}

#[test]
fn reports_of_every_recorded_route_keep_their_values() {
    let run = peer("small-cache-full");
    let text = |text: &str| Scalar::Text(text.into());
    let cases = [
        ("model_load", "model_load", "setup.weight_source.bound", Scalar::U64(136)),
        ("inspect_vmm_component", "vmm_capacity_inspection", "setup.capacity_inspection.observation", text("metadata_only")),
        ("preflight", "vmm_component_preflight", "setup.component_capacity.execution_slot_count", Scalar::U64(2)),
        ("inspect_host_memory", "host_memory_observation", "setup.host_memory.host.process_rss_bytes", Scalar::U64(878_252_032)),
        ("host_cache_release", "pytorch_host_cache_release", "setup.host_cache_release.released", Scalar::Bool(false)),
        ("after_plain", "dynamic_offload", "configuration.dynamic_offload_execution_mode", text("vmm_fast_runtime")),
        ("final", "dynamic_offload", "runtime.completion_collection.tickets_retired", Scalar::U64(37)),
        ("step_wait", "dynamic_offload", "runtime.execution_timing.diagnostic_step_wait.calls", Scalar::U64(2)),
    ];
    for (name, route, path, value) in cases {
        let found = report(&run, name);
        assert_eq!((found.route.as_deref(), found.values.get(path)), (Some(route), Some(&value)), "{name} {path}");
    }
    let linear = peer("big-linear-auto");
    let copies = "runtime.state.copy_runtime.linear_weight.calls";
    assert!(report(&linear, "final").values.contains_key(copies) && !report(&linear, "final").has_counters());
    let diagnostic: Vec<&str> =
        run.components[0].reports.iter().filter(|report| report.is_diagnostic()).map(LoadedReport::short_name).collect();
    assert_eq!(diagnostic, ["operators", "step_wait"]);
    let reading = trace(&run, Align::Recorded);
    let drawn: Vec<&str> = reading.instants.iter().map(|(name, _)| name.as_str()).collect();
    for name in ["model_load", "preflight", "inspect_host_memory", "host_cache_release", "inspect_vmm_component"] {
        assert!(drawn.contains(&name), "{name} is among {drawn:?}");
    }
}

#[test]
fn reports_of_routes_that_were_not_recorded_load_as_well() {
    let at = scratch("compat-routes");
    let observed = [
        ("native_vmm_idle_cache_release", "device_cache_release", json!({"status": "completed", "trim_executed": true})),
        ("vmm_auxiliary_source_detachment", "auxiliary_source_detachment", json!({"status": "s", "copied_bytes": 7})),
        ("none", "unmanaged_module_moved_to_execution_device", json!(true)),
        ("diffusers_group_offload", "offload_type", json!("leaf_level")),
        ("vmm_fast_runtime", "module_count", json!(3)),
    ];
    for (route, key, value) in &observed {
        let document = json!({"schema_version": 1, "route": route, "configuration": {}, "setup": {*key: value}, "runtime": {}});
        put(&at, &format!("{route}.json"), &document);
    }
    let run = load(at.path()).expect("loads");
    assert_eq!(serious(&run), [""; 0]);
    for (route, key, _) in observed {
        let found = report(&run, route);
        assert_eq!(found.route.as_deref(), Some(route));
        assert!(found.values.keys().any(|path| path.starts_with(&format!("setup.{key}"))), "{route}");
    }
}

#[test]
fn operator_reports_become_rows() {
    let run = peer("small-cache-full");
    let operators = report(&run, "operators").operators.as_ref().expect("recorded");
    assert_eq!((operators.status.as_deref(), operators.observed), (Some("complete"), Some(3)));
    assert_eq!((operators.module_path.as_deref(), operators.requested.as_slice()), (Some("transformer_blocks.1"), &[0, 2][..]));
    let shapes: Vec<_> =
        operators.samples.iter().map(|s| (s.invocation, s.top_host.len(), s.top_device.len(), s.child_ranges.len())).collect();
    assert_eq!(shapes, [(Some(0), 40, 40, 14), (Some(2), 40, 40, 14)]);
    let first = &operators.samples[0];
    assert_eq!((first.host_forward_seconds, first.device_activity_events), (Some(0.012382397000010315), Some(93)));
    let row = &first.top_device[0];
    assert_eq!(
        (row.name.as_str(), row.calls, row.device_seconds),
        ("Memcpy HtoD (Pinned -> Device)", Some(16), Some(0.005165006))
    );
    assert!(first.child_ranges.iter().all(|row| row.name.starts_with("ddo.forward.")));
}

fn allocation() -> Value {
    let step = |index: u64, seconds: f64, reuse: u64| {
        json!({"step_index": index, "host_submission_seconds": seconds, "pool_observed_peak_mapped_bytes": 4096,
            "driver_delta": {"pool_reuse_calls": reuse, "create_calls": 0, "create_host_seconds": 0.25}})
    };
    json!({"schema_version": 1, "scope": "process_native_driver_host_calls", "boundary": "cpu_submission_no_cuda_wait",
        "benchmark_eligible": false, "failed": false, "status": "complete", "native_schema_version": 2,
        "host_scope_seconds": 3.5, "steps": [step(0, 1.0, 5), step(1, 2.0, 6)],
        "total_delta": {"pool_reuse_calls": 11}, "pool_observed_peak_mapped_bytes": 4096})
}

#[test]
fn an_allocation_scope_is_drawn_step_by_step_and_only_where_recorded() {
    let at = scratch("compat-allocation");
    put(&at, "allocation.json", &allocation());
    let run = load(at.path()).expect("a structure that stands alone");
    let scope = report(&run, "allocation").allocation.as_ref().expect("read");
    assert_eq!(scope.total_delta.get("pool_reuse_calls"), Some(&Scalar::U64(11)));
    assert_eq!((scope.native_schema_version, scope.steps.len()), (Some(2), 2));
    assert!(report(&run, "allocation").is_diagnostic());
    let reading = trace(&run, Align::Recorded);
    let steps: Vec<(u64, u64)> = reading.on("allocation diagnostics (allocation)").map(|s| (s.start, s.end)).collect();
    assert_eq!(steps, [(1, 1_000_000_001), (1_000_000_001, 3_000_000_001)]);
    let values = |end: &str| reading.points.iter().filter(|p| p.0.ends_with(end)).map(|p| (p.1, p.2)).collect::<Vec<_>>();
    assert_eq!(values("pool_reuse_calls, added by the step"), [(1_000_000_001, 5), (3_000_000_001, 6)]);
    assert_eq!(values("create_host_seconds, added by the step"), [(1_000_000_001, 250_000_000), (3_000_000_001, 250_000_000)]);
    assert_eq!(values("create_calls, added by the step"), [], "zero in every step");

    for (status, code) in [("failed", "allocation_diagnostics_failed"), ("not_finished", "allocation_diagnostics_not_finished")] {
        let mut other = allocation();
        other["status"] = json!(status);
        other.as_object_mut().expect("an object").remove("steps");
        put(&at, "allocation.json", &other);
        let run = load(at.path()).expect("loads");
        assert_eq!(serious(&run), [code]);
        assert_eq!(trace(&run, Align::Recorded).slices, [], "{status}: nothing is made up");
    }
    let mut hole = allocation();
    hole["steps"][1]["step_index"] = json!(4);
    put(&at, "allocation.json", &hole);
    let reading = trace(&load(at.path()).expect("loads"), Align::Recorded);
    assert_eq!(reading.on("allocation diagnostics").count(), 1);
    assert!(reading.instants.iter().any(|(name, _)| name == "allocation step without a place"));
}

#[test]
fn a_structure_without_its_report_is_read() {
    let at = scratch("compat-alone");
    let full = json_of("peer-runs/small-cache-full/final.json");
    put(&at, "timeline.json", &full["runtime"]["native_timeline"]);
    put(&at, "timing.json", &full["runtime"]["execution_timing"]);
    put(&at, "both.json", &json!({"execution_timing": full["runtime"]["execution_timing"]}));
    let run = load(&at.path().join("timeline.json")).expect("a timeline");
    assert_eq!(run.findings.iter().map(|f| f.code.as_str()).collect::<Vec<_>>(), ["structure_alone"]);
    assert_eq!(trace(&run, Align::Recorded).on("stream windows").count(), 230);
    assert_eq!(overlap::verify(report(&run, "timeline")), []);
    for name in ["timing", "both"] {
        let run = load(&at.path().join(format!("{name}.json"))).expect("a timing");
        let timing = report(&run, name).timing.as_ref().expect("read");
        let seconds: Vec<f64> = timing.step_seconds.as_ref().expect("complete").iter().map(|step| step.0).collect();
        let reading = trace(&run, Align::Recorded);
        let track = format!("DDO / steps (device, {name})");
        let drawn: Vec<(&str, u64)> = reading.on(&track).map(|s| (s.name.as_str(), s.end - s.start)).collect();
        assert_eq!(drawn.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["step 0", "step 1", "step 2", "after step 2"]);
        for ((_, length), seconds) in drawn.iter().zip(seconds) {
            assert!((*length as f64 - seconds * 1e9).abs() <= 1.0, "{length} ns for {seconds} s");
        }
    }
}

#[test]
fn pending_failed_and_contradictory_windows_are_instants() {
    let at = scratch("compat-doubt");
    let mut timeline = json_of("peer-runs/small-cache-full/final.json")["runtime"]["native_timeline"].take();
    for key in ["window_summary", "warm_window_summary"] {
        timeline.as_object_mut().expect("an object").remove(key);
    }
    for (sample, status) in [(10, "pending"), (11, "failed")] {
        let sample = timeline["samples"][sample].as_object_mut().expect("an object");
        sample.insert("status".into(), json!(status));
        sample.remove("start_seconds");
        sample.remove("end_seconds");
    }
    timeline["samples"][12]["end_seconds"] = json!(-1.0);
    timeline["status"] = json!("failed");
    put(&at, "timeline.json", &timeline);
    let run = load(at.path()).expect("loads");
    assert_eq!(serious(&run), ["timeline_pending", "timeline_samples_failed", "timeline_samples_contradict"]);
    let timeline = report(&run, "timeline").timeline.as_ref().expect("read");
    assert_eq!(timeline.windows.iter().filter(|w| w.state == WindowState::Pending).count(), 1);
    let reading = trace(&run, Align::Recorded);
    assert_eq!(reading.on("stream windows").count(), 227);
    for word in ["pending: ", "failed: ", "contradictory times: "] {
        assert_eq!(reading.instants.iter().filter(|(name, _)| name.starts_with(word)).count(), 1, "{word}");
    }
}

#[test]
fn a_newer_structure_costs_only_itself() {
    let at = scratch("compat-newer");
    let cases = [
        ("final", "/runtime/native_timeline/schema_version", "the native timeline has schema version 9"),
        ("final", "/runtime/execution_timing/schema_version", "the execution timing has schema version 9"),
        ("operators", "/runtime/operator_diagnostics/schema_version", "the operator diagnostics has schema version 9"),
        ("preflight", "/setup/component_capacity/schema_version", "the component capacity has schema version 9"),
        ("inspect_vmm_component", "/setup/capacity_inspection/schema_version", "the capacity inspection has schema version 9"),
        ("final", "/runtime/weather/schema_version", "this structure has schema version 9"),
        (
            "final",
            "/runtime/vmm/fast_source_cache_pressure_observation_schema_version",
            "the pressure observation has schema version 9",
        ),
    ];
    for (name, pointer, text) in cases {
        let mut document = json_of(&format!("peer-runs/small-cache-full/{name}.json"));
        document["runtime"]["weather"] = json!({"schema_version": 1, "wind": 3});
        *document.pointer_mut(pointer).unwrap_or_else(|| panic!("{pointer} is recorded")) = json!(9);
        put(&at, &format!("{name}.json"), &document);
        let run = load(&at.path().join(format!("{name}.json"))).expect("the rest loads");
        assert_eq!(serious(&run), ["schema_version_unknown"], "{pointer}");
        let finding = run.findings.iter().find(|f| f.code == "schema_version_unknown").expect("just seen");
        assert_eq!(finding.text, format!("{text}; this reader knows versions up to 1"));
        assert!(finding.place.starts_with(&format!("{name}.json")), "{finding}");
        let found = report(&run, name);
        let gone = pointer.trim_start_matches('/').replace('/', ".");
        let prefix = gone.trim_end_matches("schema_version");
        assert!(!found.values.keys().any(|path| path.starts_with(prefix)), "{prefix} is left out");
        assert!(!found.values.is_empty());
        assert_eq!(found.timeline.is_some(), name == "final" && !pointer.contains("native_timeline"));
    }
    let mut whole = json_of("peer-runs/small-cache-full/final.json");
    whole["schema_version"] = json!(2);
    put(&at, "whole.json", &whole);
    let refused = load(&at.path().join("whole.json")).expect_err("nothing else is there").to_string();
    assert!(refused.contains("the report has schema version 2; this reader knows versions up to 1"), "{refused}");
}

#[test]
fn step_markers_align_on_demand_and_say_that_it_is_an_estimate() {
    let run = peer("small-cache-full");
    let reading = trace(&run, Align::Steps);
    let device: Vec<_> = reading.on("DDO / steps (between markers, aligned by step markers, an estimate, final)").collect();
    let host: Vec<_> = reading.on("DDO / steps (host)").collect();
    let end = |slices: &[&crate::support::trace::Slice], name: &str| slices.iter().find(|s| s.name == name).map(|s| s.end);
    let delays: Vec<u64> = ["step 0", "step 1", "step 2"]
        .iter()
        .map(|name| {
            end(&device, name).expect("drawn").checked_sub(end(&host, name).expect("drawn")).expect("not before its record")
        })
        .collect();
    assert_eq!(delays.iter().min(), Some(&0), "the shortest delay is taken as none: {delays:?}");
    assert_eq!(reading.on("stream windows (device, unaligned, step_wait)").count(), 154, "two steps are not the journal's three");
    let at = scratch("compat-align");
    let said = |words: &[&str]| {
        let mut command = command("ddo-analyze");
        command.arg("trace").arg(data("peer-runs/small-ring")).arg("--out").arg(at.path().join("out")).args(words);
        ran(&mut command)
    };
    said(&["--align", "steps"]).ended(0);
    assert!(said(&["--align", "guess"]).ended(2).err.contains("recorded, steps"));
}

/// A run of one rank: its manifest, a journal and a report.
fn rank(at: &Scratch, folder: &str, rank: Value, monotonic: f64, wall: &str) {
    let mut manifest = json!({"schema_version": 1, "tool": "t", "command": ["true"], "environment": {"WORLD_SIZE": "3"},
        "labels": {}, "settings": {"schema_version": 1, "journal": "steps", "gpu_timing": false, "native_timeline": false,
        "native_timeline_capacity": 1}, "settings_origin": {}, "memory_monitor": "rss", "memory_interval_seconds": 0.1,
        "clocks": {"monotonic_seconds": monotonic, "wall_utc": wall}, "machine": {}});
    manifest["labels"]["RANK"] = rank;
    put(at, &format!("{folder}/manifest.json"), &manifest);
    put(
        at,
        &format!("{folder}/manifest.end.json"),
        &json!({"schema_version": 1, "status": "exited", "exit_code": 0, "duration_seconds": 1.0, "findings": []}),
    );
    for (name, step, after) in [("before_denoise", Value::Null, 1.0), ("step_0000", json!(0), 2.0)] {
        let record = json!({"schema_version": 1, "observation": "partial_host_step_boundary", "step_index": step,
            "host_elapsed_seconds": after, "gpu_completion_proven": false, "completion_collection_requested": false,
            "metrics": {"schema_version": 1, "runtime": {"observed_monotonic_seconds": monotonic + after,
                "vmm": {"fast_uploads": after as u64}}}});
        put(at, &format!("{folder}/snapshots/transformer/{name}.json"), &record);
    }
    let report = json!({"schema_version": 1, "route": "dynamic_offload", "configuration": {}, "setup": {},
        "runtime": {"vmm": {"fast_uploads": 2}}});
    put(at, &format!("{folder}/reports/final.json"), &report);
}

#[test]
fn ranks_are_processes_on_one_axis() {
    let at = scratch("compat-ranks");
    rank(&at, "node-b", json!("10"), 500.0, "2026-01-01T00:00:00.25Z");
    rank(&at, "node-a", json!("2"), 7.0, "2026-01-01T00:00:00Z");
    let run = load(at.path()).expect("two runs");
    assert_eq!(run.all().map(|run| run.name.as_str()).collect::<Vec<_>>(), ["node-a", "node-b"], "by number, not by name");
    assert_eq!(
        run.all().map(|run| (run.components.len(), run.components[0].reports.len())).collect::<Vec<_>>(),
        [(1, 1), (1, 1)]
    );
    assert_eq!(serious(&run), ["ranks_missing"]);
    assert!(run.findings.iter().any(|f| f.text == "2 of 3 ranks are in this input"));
    let reading = trace(&run, Align::Recorded);
    let starts: Vec<(&str, u64)> =
        reading.on("steps (host)").map(|s| (s.track.split(" / ").next().expect("a process"), s.start)).collect();
    assert_eq!(starts, [("rank 2 of 3, node-a", 1), ("rank 10 of 3, node-b", 250_000_001)], "a quarter of a second apart");

    rank(&at, "node-b", json!("2"), 500.0, "yesterday");
    let run = load(at.path()).expect("two runs");
    assert_eq!(serious(&run), ["rank_twice", "ranks_missing"]);
    let reading = trace(&run, Align::Recorded);
    assert!(reading.on("steps (host)").all(|slice| slice.track.contains("(unaligned)") && slice.start == 1));
    let out = at.path().join("out");
    ran(command("ddo-analyze").arg(at.path().join("node-b")).arg("--out").arg(&out)).ended(0);
    assert!(out.join("summary.json").exists());
}

#[test]
fn crash_remains_and_extreme_numbers_of_the_cases() {
    let case = |name: &str| load(&data("cases").join(name)).expect("a case");
    let torn = case("C39");
    assert_eq!(serious(&torn), ["empty_file", "unpublished_temporary"]);
    assert_eq!(torn.components[0].records.iter().map(|r| r.step).collect::<Vec<_>>(), [None, Some(0), Some(1)]);
    let values = |run: &Run, component: usize, path: &str| -> Vec<Option<u64>> {
        run.components[component].records.iter().map(|record| record.values.get(path)?.as_u64()).collect()
    };
    let dma = "runtime.vmm.fast_source_cache_dma_bytes";
    assert_eq!(values(&case("C40"), 0, dma), [Some(100), Some(300), Some(50), Some(250)]);
    let big = case("C41");
    assert_eq!(values(&big, 0, dma), [Some(9_007_199_254_740_993), Some(u64::MAX)]);
    let above = trace(&big, Align::Recorded).instants.into_iter().filter(|(name, _)| name == "value above 2^63-1").count();
    assert!(above >= 1, "such a value is no point of a counter");
    let missing = case("C42");
    assert_eq!(missing.components.iter().map(|c| c.name.as_str()).collect::<Vec<_>>(), ["base", "new"]);
    let failures = "runtime.vmm.fast_fault_failures";
    assert!(values(&missing, 0, failures).iter().all(Option::is_some));
    assert_eq!(values(&missing, 1, failures), [None, None], "absent is not zero");
    for name in ["C39", "C40", "C41", "C42"] {
        assert_eq!(trace(&case(name), Align::Recorded).problems, [""; 0]);
    }
    assert!(Path::new(&data("cases/C39/torn/step_0002.json.tmp")).exists(), "the input is never changed");
}
