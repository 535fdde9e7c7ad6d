//! Profiles of made-up reports: what a line says where a value is missing, null, zero or not to be used.

use super::*;
use crate::run::{AllocationDiagnostics, AllocationStep, OperatorDiagnostics, OperatorRow, OperatorSample, Scalar, Values};
use serde_json::json;

fn values(list: &[(&str, Scalar)]) -> Values {
    list.iter().map(|(path, value)| ((*path).into(), value.clone())).collect()
}

fn profile(report: LoadedReport) -> String {
    let component = Component { name: "c".into(), reports: vec![report], ..Component::default() };
    of_component(&component).expect("a report")
}

fn text(value: &str) -> Scalar {
    Scalar::Text(value.into())
}

#[test]
fn what_is_missing_null_or_zero_is_told_apart() {
    let recorded = values(&[
        ("runtime.vmm.resident_bytes", Scalar::U64(0)),
        ("setup.host_cache_release.status", text("released")),
        ("setup.host_cache_release.allocator_bytes_delta", Scalar::Uncollected),
    ]);
    let text = profile(LoadedReport { file: "final.json".into(), values: recorded, ..LoadedReport::default() });
    assert!(text.contains("  vmm=resident_gb=0.0000 materializations=unavailable\n"), "{text}");
    assert!(text.contains("host_cache_release=released phase=unavailable allocator_bytes_delta=uncollected ("), "{text}");
    for absent in ["torch_", "source_cache", "gpu_prefetch", "tickets", "sdnq", "ownership"] {
        assert!(!text.contains(absent), "{absent}: {text}");
    }
}

#[test]
fn a_failed_timer_and_a_diagnostic_run_show_no_times_and_no_efficiency() {
    let recorded = values(&[
        ("runtime.execution_timing.status", text("failed")),
        ("runtime.execution_timing.scope", text("s")),
        ("runtime.execution_timing.failed", Scalar::Bool(true)),
        ("runtime.execution_timing.phase_seconds", Scalar::F64(1.0)),
    ]);
    let shown = profile(LoadedReport { file: "final.json".into(), values: recorded, ..LoadedReport::default() });
    assert!(shown.contains("stream_phase_seconds=unavailable (") && !shown.contains("1.000000"), "{shown}");

    let timing = json!({"schema_version": 1, "clock": "host_stream", "unit": "seconds", "scope": "s", "failed": false,
        "status": "complete", "step_seconds": [2.0, 1.0]});
    let mut report = LoadedReport {
        file: "final.json".into(),
        state: json!({"planner_decisions": {"vmm_streamed_bytes_per_pass": 0, "vmm_streamed_units": 0}}),
        timing: Some(serde_json::from_value(timing).expect("a timing")),
        ..LoadedReport::default()
    };
    let shown = profile(report.clone());
    assert!(shown.contains("floor_seconds_per_step=1.000000 efficiency=100.0%\n"), "{shown}");
    report.values = values(&[("runtime.execution_timing.diagnostic_step_wait.benchmark_eligible", Scalar::Bool(false))]);
    let shown = profile(report);
    assert!(shown.contains("efficiency=unavailable (a diagnostic run)\n"), "{shown}");
}

#[test]
fn diagnostic_scopes_count_from_one_and_keep_the_first_rows() {
    let row = |name: &str| OperatorRow { name: name.into(), calls: Some(2), ..OperatorRow::default() };
    let rows: Vec<OperatorRow> = ["a", "b", "c", "d"].map(row).to_vec();
    let sample = OperatorSample { invocation: Some(0), top_host: rows.clone(), top_device: rows, ..OperatorSample::default() };
    let step = AllocationStep {
        step: Some(0),
        host_submission_seconds: Some(0.25),
        driver_delta: values(&[("map_host_seconds", Scalar::F64(1e-9)), ("access_return_not_ready_calls", Scalar::U64(3))]),
        ..AllocationStep::default()
    };
    let shown = profile(LoadedReport {
        file: "final.json".into(),
        operators: Some(OperatorDiagnostics {
            status: Some("complete".into()),
            samples: vec![sample],
            ..OperatorDiagnostics::default()
        }),
        allocation: Some(AllocationDiagnostics { steps: vec![step], ..AllocationDiagnostics::default() }),
        ..LoadedReport::default()
    });
    let step = "allocation_step=1 host_submit_s=0.250000 create_s=unavailable map_s=<0.000001 access_s=unavailable \
                unmap_s=unavailable release_s=unavailable access_not_ready_calls=3\n";
    assert!(shown.contains(step), "{shown}");
    assert!(shown.contains("allocation_diagnostics=unavailable steps=1 "), "{shown}");
    assert!(
        shown.contains("operator_invocation=1 ") && shown.contains("top_host=c ") && !shown.contains("top_host=d "),
        "{shown}"
    );
    assert_eq!(shown.matches("top_device=").count(), 3);
}

#[test]
fn a_record_speaks_where_no_report_was_written() {
    let record = Record {
        file: "step_0001.json".into(),
        step: Some(1),
        values: values(&[("runtime.vmm.resident_bytes", Scalar::U64(1 << 30))]),
        ..Record::default()
    };
    let component = Component {
        name: "c".into(),
        records: vec![record],
        configuration: json!({"dynamic_offload_execution_mode": "vmm_fast_runtime", "driver": "host"}),
        state: json!({"module_count": 3, "total_gb": 0.5}),
        ..Component::default()
    };
    let shown = of_component(&component).expect("a record");
    for wanted in [
        "record=step_0001.json component=c (",
        "mode=vmm_fast_runtime driver=host",
        "modules=3 total_gb=0.5000",
        "resident_gb=1.0000",
    ] {
        assert!(shown.contains(wanted), "{wanted}: {shown}");
    }
    let nothing = of(&Run::default());
    assert_eq!(nothing, "DDO profile\n  no report and no journal record was found\n");
}
