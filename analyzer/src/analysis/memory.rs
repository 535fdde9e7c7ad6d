//! Memory: "Did the weights stay under their ceiling, and what did the process hold?"
//!
//! Uses `run`. Invariants: a peak is always named by what was read; sampled peaks can miss short ones and say so.

use super::lookahead::last_values;
use crate::run::{Component, Run};
use ddo_schemas::Finding;
use ddo_schemas::unit::human_bytes;

const RESIDENT: &str = "runtime.vmm.fast_total_weight_resident_bytes";

/// The ceiling that a component was attached with.
pub fn ceiling(component: &Component) -> Option<u64> {
    component.configured("weight_ceiling_bytes")
}

/// Device memory that held weights, by the last snapshot.
pub fn weights_resident(component: &Component) -> Option<u64> {
    last_values(component)?.get(RESIDENT).and_then(|value| value.as_u64())
}

/// Largest sampled resident memory of the command's own process.
pub fn peak_rss(run: &Run) -> Option<u64> {
    let sealed = run.seal.as_ref().and_then(|seal| seal.peak_rss_bytes);
    sealed.or_else(|| run.memory.iter().filter_map(|sample| sample.rss_bytes).max())
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
