//! Memory over time: "What did the command hold, by kind, and when?"
//!
//! Uses `run` and the catalogue. Invariants: a series is named by what was read, and two names are never one series; a
//! sample without a value is a gap, not a zero; steps stand beside samples only on one recorded clock.

use crate::run::{Component, RecordClock, Run, Values, nanoseconds};
use ddo_schemas::memory::MemorySample;
use serde_json::Value;

/// One kind of memory over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// What was read, as people see it.
    pub name: String,
    /// Path of the declaration.
    pub path: &'static str,
    /// Seconds since the manifest's reading, and bytes; in file order.
    pub points: Vec<(f64, u64)>,
}

impl Series {
    /// The largest value and when it was first seen.
    pub fn peak(&self) -> Option<(f64, u64)> {
        self.points.iter().copied().reduce(|best, next| if next.1 > best.1 { next } else { best })
    }
}

/// A kind: name, path, value, and the label that the sample gives it.
type Kind = (&'static str, &'static str, fn(&MemorySample) -> Option<u64>, fn(&MemorySample) -> Option<&str>);

/// Kinds in the order in which they are shown.
const KINDS: [Kind; 6] = [
    ("processes", "memory.ram_bytes", |s| s.ram_bytes, |s| s.ram_metric.as_deref()),
    ("own process", "memory.rss_bytes", |s| s.rss_bytes, |_| Some("rss")),
    ("anonymous", "memory.anonymous_bytes", |s| s.anonymous_bytes, |_| None),
    ("files and shared", "memory.shared_bytes", |s| s.shared_bytes, |_| None),
    ("control group", "memory.control_group_bytes", |s| s.control_group_bytes, |_| None),
    ("device", "memory.gpu_used_bytes", |s| s.gpu_used_bytes, |s| s.gpu_metric.as_deref()),
];

/// Every kind that any sample has.
pub fn series(samples: &[MemorySample]) -> Vec<Series> {
    let mut all: Vec<Series> = Vec::new();
    for (kind, path, value, label) in KINDS {
        let first = all.len();
        for sample in samples {
            let Some(bytes) = value(sample) else { continue };
            let name = label(sample).map_or_else(|| kind.to_owned(), |label| format!("{kind} ({})", crate::run::shorten(label)));
            let at = sample.elapsed_seconds.0;
            match all.iter_mut().skip(first).find(|series| series.name == name) {
                Some(series) => series.points.push((at, bytes)),
                None => all.push(Series { name, path, points: vec![(at, bytes)] }),
            }
        }
    }
    all
}

/// A step with the samples around it.
#[derive(Clone, Debug, PartialEq)]
pub struct Beside<'a> {
    /// The step after whose submission the record was taken; `None` for the record before the first.
    pub step: Option<u64>,
    /// Seconds since the manifest's reading.
    pub at_seconds: f64,
    /// The last sample that was taken before the record.
    pub sample: Option<&'a MemorySample>,
    /// Device memory that held weights, by the record.
    pub weights_bytes: Option<u64>,
}

/// Records of a component beside the samples; empty where no recorded clock relates them.
pub fn beside<'a>(run: &'a Run, component: &Component) -> Vec<Beside<'a>> {
    let zero = run.manifest.as_ref().and_then(|manifest| nanoseconds(manifest.clocks.monotonic_seconds.0));
    let Some(zero) = zero.filter(|_| component.record_clock() == RecordClock::Monotonic) else { return Vec::new() };
    let place = |record: &crate::run::Record| {
        let at_seconds = record.observed_ns?.saturating_sub(zero) as f64 / 1e9;
        let after = run.memory.partition_point(|sample| sample.elapsed_seconds.0 <= at_seconds);
        let sample = after.checked_sub(1).and_then(|last| run.memory.get(last));
        Some(Beside { step: record.step, at_seconds, sample, weights_bytes: weights(&record.values) })
    };
    component.records.iter().filter_map(place).collect()
}

fn weights(values: &Values) -> Option<u64> {
    values.get(super::memory::RESIDENT).and_then(|value| value.as_u64())
}

/// One phase of the host tracker's report.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// Its name.
    pub name: String,
    /// What its RAM figure counts.
    pub ram_metric: Option<String>,
    /// Completed samples.
    pub samples: Option<u64>,
    /// Largest RAM, GiB.
    pub peak_ram_gb: Option<f64>,
    /// Largest device memory over the baseline, GiB.
    pub peak_vram_gb: Option<f64>,
    /// Largest device memory, GiB.
    pub peak_vram_absolute_gb: Option<f64>,
    /// Host seconds that the queries took.
    pub query_seconds: Option<f64>,
    /// Why the peaks are incomplete.
    pub error_type: Option<String>,
}

/// The phases that a host tracker reported.
pub fn phases(run: &Run) -> Vec<Phase> {
    let steps = run.tracker.as_ref().and_then(|tracker| tracker.get("steps")).and_then(Value::as_array);
    steps.map(|steps| steps.iter().map(phase).collect()).unwrap_or_default()
}

fn phase(step: &Value) -> Phase {
    let text = |value: Option<&Value>| value.and_then(Value::as_str).map(crate::run::shorten);
    let number = |key: &str| step.get(key).and_then(Value::as_f64);
    let monitor = |key: &str| step.get("memory_monitor").and_then(|monitor| monitor.get(key));
    let seconds = |key: &str| monitor(key).and_then(Value::as_f64);
    let queries = [seconds("ram_query_seconds"), seconds("gpu_query_seconds")];
    let query_seconds = queries.into_iter().flatten().reduce(|ram, gpu| ram + gpu);
    Phase {
        name: text(step.get("name")).unwrap_or_else(|| "unnamed".into()),
        ram_metric: text(step.get("ram_metric")),
        samples: monitor("samples").and_then(Value::as_u64),
        peak_ram_gb: number("peak_ram_gb"),
        peak_vram_gb: number("peak_vram_gb"),
        peak_vram_absolute_gb: number("peak_vram_absolute_gb"),
        query_seconds,
        error_type: text(monitor("error_type")),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::run::Record;
    use serde_json::json;

    pub(crate) fn sample(at: f64, ram: Option<u64>, metric: &str) -> MemorySample {
        let mut value = json!({"schema_version": 1, "elapsed_seconds": at, "query_seconds": 0.0});
        if let Some(ram) = ram {
            value["ram_bytes"] = ram.into();
            value["ram_metric"] = metric.into();
            value["anonymous_bytes"] = (ram / 2).into();
        }
        serde_json::from_value(value).expect("a sample")
    }

    #[test]
    fn names_divide_series_and_gaps_stay_gaps() {
        let samples =
            [sample(0.0, Some(10), "rss_process_tree"), sample(1.0, None, ""), sample(2.0, Some(30), "uss_process_tree")];
        let found = series(&samples);
        let names: Vec<&str> = found.iter().map(|series| series.name.as_str()).collect();
        assert_eq!(names, ["processes (rss_process_tree)", "processes (uss_process_tree)", "anonymous"]);
        assert_eq!(found[0].points, [(0.0, 10)]);
        assert_eq!(found[2].points, [(0.0, 5), (2.0, 15)]);
        assert_eq!(found[2].peak(), Some((2.0, 15)));
    }

    #[test]
    fn steps_stand_beside_the_sample_before_them_on_a_recorded_clock_only() {
        let record = |step, at: Option<i64>| Record { step, observed_ns: at, ..Record::default() };
        let clocks = json!({"monotonic_seconds": 100.0, "wall_utc": "x"});
        let manifest = json!({"schema_version": 1, "tool": "t", "command": [], "environment": {}, "labels": {},
            "settings": ddo_schemas::settings::Settings::default(), "settings_origin": {}, "memory_monitor": "rss",
            "memory_interval_seconds": 0.1, "clocks": clocks, "machine": {}});
        let mut run = Run { memory: vec![sample(1.0, Some(1), "m"), sample(2.0, Some(2), "m")], ..Run::default() };
        let component = Component {
            records: vec![
                record(None, Some(100_500_000_000)),
                record(Some(0), Some(101_500_000_000)),
                record(Some(1), Some(103_000_000_000)),
            ],
            ..Component::default()
        };
        assert_eq!(beside(&run, &component), [], "no manifest, no clock");
        run.manifest = Some(serde_json::from_value(manifest).expect("a manifest"));
        let found = beside(&run, &component);
        let seen: Vec<_> = found.iter().map(|b| (b.step, b.at_seconds, b.sample.and_then(|s| s.ram_bytes))).collect();
        assert_eq!(seen, [(None, 0.5, None), (Some(0), 1.5, Some(1)), (Some(1), 3.0, Some(2))]);
        let unclear = Component { records: vec![record(Some(0), None)], ..Component::default() };
        assert_eq!(beside(&run, &unclear), []);
    }

    #[test]
    fn phases_keep_what_was_not_read_apart_from_zero() {
        let tracker = json!({"memory_monitor": {}, "steps": [
            {"name": "load", "ram_metric": "rss", "peak_ram_gb": 0.0, "memory_monitor": {"samples": 3, "ram_query_seconds": 0.5, "error_type": null}},
            {"memory_monitor": {"error_type": "io"}}, 7]});
        let found = phases(&Run { tracker: Some(tracker), ..Run::default() });
        assert_eq!(found.len(), 3);
        assert_eq!((found[0].peak_ram_gb, found[0].peak_vram_gb, found[0].query_seconds), (Some(0.0), None, Some(0.5)));
        assert_eq!(
            (found[1].name.as_str(), found[1].error_type.as_deref(), found[1].query_seconds),
            ("unnamed", Some("io"), None)
        );
    }
}
