//! Memory: "Did the weights stay under their ceiling, and what did the process hold?"
//!
//! Uses `run`. Invariants: a peak is always named by what was read; sampled peaks can miss short ones and say so.

use super::lookahead::last_values;
use super::memory_series::series;
use crate::run::{Component, Run};
use ddo_schemas::Finding;
use ddo_schemas::unit::human_bytes;

/// Device memory that holds weights.
pub(super) const RESIDENT: &str = "runtime.vmm.fast_total_weight_resident_bytes";

/// The ceiling that a component was attached with.
pub fn ceiling(component: &Component) -> Option<u64> {
    component.configured("weight_ceiling_bytes")
}

/// Device memory that held weights, by the last snapshot.
pub fn weights_resident(component: &Component) -> Option<u64> {
    last_values(component)?.get(RESIDENT).and_then(|value| value.as_u64())
}

/// A sampled peak with the name of what was read.
#[derive(Clone, Debug, PartialEq)]
pub struct Peak {
    /// What was read.
    pub name: String,
    /// Path of the declaration.
    pub path: &'static str,
    /// The largest sampled value.
    pub bytes: u64,
    /// When it was first seen, in seconds since the manifest's reading; `None` where only the seal tells the peak.
    pub at_seconds: Option<f64>,
}

/// Peaks by kind, from the samples; where these are missing, from the seal.
pub fn peaks(run: &Run) -> Vec<Peak> {
    let from_samples = series(&run.memory).into_iter().filter_map(|series| {
        let (at, bytes) = series.peak()?;
        Some(Peak { name: series.name, path: series.path, bytes, at_seconds: Some(at) })
    });
    let mut peaks: Vec<Peak> = from_samples.collect();
    let Some(seal) = run.seal.as_ref().filter(|_| peaks.is_empty()) else { return peaks };
    let label = |metric: Option<&String>| metric.map_or_else(|| "unnamed".into(), |metric| crate::run::shorten(metric));
    let manifest = run.manifest.as_ref();
    let ram = label(manifest.and_then(|manifest| manifest.ram_metric.as_ref()));
    let gpu = label(manifest.and_then(|manifest| manifest.gpu_metric.as_ref()));
    let sealed = [
        (format!("processes ({ram})"), "memory.ram_bytes", seal.peak_ram_bytes),
        ("own process (rss)".into(), "memory.rss_bytes", seal.peak_rss_bytes),
        ("control group".into(), "memory.control_group_bytes", seal.control_group_peak_bytes),
        (format!("device ({gpu})"), "memory.gpu_used_bytes", seal.peak_gpu_used_bytes),
    ];
    let told = sealed.into_iter().filter_map(|(name, path, bytes)| Some(Peak { name, path, bytes: bytes?, at_seconds: None }));
    peaks.extend(told);
    peaks
}

/// The limit of the control group that the command started in.
pub fn group_limit(run: &Run) -> Option<u64> {
    run.manifest.as_ref()?.limits.as_ref()?.control_group_bytes
}

/// A finding where a snapshot shows more weights than the ceiling allows.
pub fn above_ceiling(component: &Component) -> Vec<Finding> {
    let Some(ceiling) = ceiling(component) else { return Vec::new() };
    let reports = component.reports.iter().map(|report| (&report.file, &report.values));
    let records = component.records.iter().map(|record| (&record.file, &record.values));
    reports
        .chain(records)
        .filter_map(|(file, values)| {
            let resident = values.get(RESIDENT)?.as_u64()?;
            let text =
                format!("weights hold {} of device memory; the ceiling is {}", human_bytes(resident), human_bytes(ceiling));
            (resident > ceiling).then(|| Finding::error("weights_above_ceiling", file, text))
        })
        .collect()
}
