//! Memory as tables: "What were the peaks, in which phase, and what stood beside each step?"
//!
//! Uses `analysis`. Invariants: every figure is named by what was read; what was not read is a dash, never zero; long runs
//! show their first and last steps.

use crate::analysis::memory::{Peak, group_limit, peaks};
use crate::analysis::memory_series::{Beside, Phase, beside, phases};
use crate::limits::MAX_TABLE_STEPS;
use crate::run::Run;
use comfy_table::{CellAlignment, Table, presets::NOTHING};
use ddo_schemas::unit::human_bytes;
use serde_json::{Value, json};

const NONE: &str = "-";

/// The tables for people.
pub fn text(run: &Run) -> String {
    let mut out = String::new();
    for finding in crate::analysis::findings(run).iter().filter(|finding| about_memory(&finding.code)) {
        out.push_str(&format!("{finding}\n"));
    }
    let peaks = peaks(run);
    if peaks.is_empty() {
        out.push_str("no memory samples: the monitor was off, or another program recorded this run\n");
    } else {
        let rows = peaks.iter().map(|peak| {
            let at = peak.at_seconds.map_or_else(|| NONE.into(), |at| format!("{at:.1} s"));
            vec![peak.name.clone(), human_bytes(peak.bytes), at]
        });
        out.push_str(&table(&["sampled peak", "bytes", "first at"], rows));
        if let Some(limit) = group_limit(run) {
            out.push_str(&format!("limit of the control group: {}\n", human_bytes(limit)));
        }
    }
    let phases = phases(run);
    if !phases.is_empty() {
        out.push('\n');
        let head = ["phase", "samples", "RAM is", "peak RAM", "device over baseline", "device", "looking", "error"];
        out.push_str(&table(&head, phases.iter().map(phase_row)));
    }
    for component in &run.components {
        let steps = beside(run, component);
        if steps.iter().any(|beside| beside.sample.is_some()) {
            out.push_str(&format!("\n{}: the last sample before each record\n", crate::run::shorten(&component.name)));
            out.push_str(&step_table(&steps));
        }
    }
    out
}

fn about_memory(code: &str) -> bool {
    ["out_of_memory", "memory_", "gpu_", "weights_above", "too_many_processes"].iter().any(|start| code.starts_with(start))
}

fn phase_row(phase: &Phase) -> Vec<String> {
    let gib = |value: Option<f64>| value.map_or_else(|| NONE.into(), |value| format!("{value:.4} GiB"));
    vec![
        phase.name.clone(),
        phase.samples.map_or_else(|| NONE.into(), |samples| samples.to_string()),
        phase.ram_metric.clone().unwrap_or_else(|| "unnamed".into()),
        gib(phase.peak_ram_gb),
        gib(phase.peak_vram_gb),
        gib(phase.peak_vram_absolute_gb),
        phase.query_seconds.map_or_else(|| NONE.into(), |seconds| format!("{seconds:.4} s")),
        phase.error_type.clone().unwrap_or_else(|| NONE.into()),
    ]
}

fn step_table(steps: &[Beside<'_>]) -> String {
    let bytes = |value: Option<u64>| value.map_or_else(|| NONE.to_owned(), human_bytes);
    let row = |beside: &Beside<'_>| {
        let of = |value: fn(&ddo_schemas::memory::MemorySample) -> Option<u64>| bytes(beside.sample.and_then(value));
        vec![
            beside.step.map_or_else(|| "before".into(), |step| step.to_string()),
            format!("{:.2} s", beside.at_seconds),
            of(|s| s.ram_bytes),
            of(|s| s.anonymous_bytes),
            of(|s| s.shared_bytes),
            of(|s| s.gpu_used_bytes),
            bytes(beside.weights_bytes),
        ]
    };
    let metric = steps.iter().find_map(|beside| beside.sample?.ram_metric.clone()).unwrap_or_else(|| "unnamed".into());
    let first = format!("processes ({})", crate::run::shorten(&metric));
    let head = ["step", "at", first.as_str(), "anonymous", "files and shared", "device", "weights on device"];
    let half = MAX_TABLE_STEPS / 2;
    if steps.len() <= MAX_TABLE_STEPS {
        return table(&head, steps.iter().map(row));
    }
    let (start, rest) = steps.split_at(half.min(steps.len()));
    let (left_out, end) = rest.split_at(rest.len().saturating_sub(half));
    let gap = vec![format!("... {} more", left_out.len())];
    table(&head, start.iter().map(row).chain(std::iter::once(gap)).chain(end.iter().map(row)))
}

fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_preset(NOTHING).set_header(head.to_vec());
    for mut row in rows {
        row.resize(head.len(), String::new());
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim_end().to_owned()).collect();
    format!("{}\n", lines.join("\n"))
}

/// The same for machines.
pub fn json(run: &Run) -> Value {
    let peak = |peak: &Peak| json!({"name": peak.name, "field": peak.path, "bytes": peak.bytes, "at_seconds": peak.at_seconds});
    let phase = |phase: &Phase| {
        json!({"name": phase.name, "ram_metric": phase.ram_metric, "samples": phase.samples, "peak_ram_gb": phase.peak_ram_gb,
            "peak_vram_gb": phase.peak_vram_gb, "peak_vram_absolute_gb": phase.peak_vram_absolute_gb,
            "query_seconds": phase.query_seconds, "error_type": phase.error_type})
    };
    let steps = run.components.iter().flat_map(|component| {
        let rows = beside(run, component);
        rows.into_iter().map(|beside| {
            let sample = beside.sample;
            json!({"component": component.name, "step": beside.step, "at_seconds": beside.at_seconds,
                "ram_bytes": sample.and_then(|s| s.ram_bytes), "ram_metric": sample.and_then(|s| s.ram_metric.clone()),
                "anonymous_bytes": sample.and_then(|s| s.anonymous_bytes), "shared_bytes": sample.and_then(|s| s.shared_bytes),
                "gpu_used_bytes": sample.and_then(|s| s.gpu_used_bytes), "weights_bytes": beside.weights_bytes})
        })
    });
    json!({
        "schema_version": 1, "peaks": peaks(run).iter().map(peak).collect::<Vec<_>>(),
        "control_group_limit_bytes": group_limit(run), "phases": phases(run).iter().map(phase).collect::<Vec<_>>(),
        "steps": steps.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::memory_series::tests::sample;

    #[test]
    fn tables_name_what_was_read_and_leave_out_nothing_as_zero() {
        let tracker = json!({"memory_monitor": {}, "steps": [{"name": "load", "ram_metric": "rss_process_tree", "peak_ram_gb": 1.5,
            "memory_monitor": {"samples": 2, "ram_query_seconds": 0.25, "error_type": "io"}}]});
        let run = Run { memory: vec![sample(0.5, Some(3 << 20), "rss_process_tree")], tracker: Some(tracker), ..Run::default() };
        let text = text(&run);
        assert!(text.contains("processes (rss_process_tree)") && text.contains("3.00 MiB") && text.contains("0.5 s"), "{text}");
        assert!(text.contains("1.5000 GiB") && text.contains(" io"), "{text}");
        assert_eq!(json(&run)["phases"][0]["peak_vram_gb"], Value::Null);
        assert!(super::text(&Run::default()).starts_with("no memory samples"));
    }

    #[test]
    fn long_runs_show_their_ends() {
        let steps: Vec<Beside<'_>> = (0..MAX_TABLE_STEPS as u64 + 5)
            .map(|step| Beside { step: Some(step), at_seconds: step as f64, sample: None, weights_bytes: Some(0) })
            .collect();
        let text = step_table(&steps);
        assert_eq!(text.lines().count(), MAX_TABLE_STEPS + 2);
        assert!(text.contains("... 5 more"), "{text}");
    }
}
