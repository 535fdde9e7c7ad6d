//! Look-ahead: "Did uploads start before they were needed?"
//!
//! Uses `run`. Invariant: a share is given only where every number in it was recorded.

use crate::run::{Component, Run, Values};

/// Outcomes of look-ahead since the component was attached.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LookAhead {
    /// Units, or parts of units, uploaded ahead.
    pub units: Option<u64>,
    /// Requests that found their unit on its way.
    pub hits: Option<u64>,
    /// Attempts without a free slot.
    pub skips: Option<u64>,
    /// Uploaded ahead and never consumed.
    pub cancelled: Option<u64>,
    /// Uploaded ahead and not asked for yet.
    pub in_flight: Option<u64>,
    /// Streamed requests: hits plus uploads on demand.
    pub requests: Option<u64>,
}

impl LookAhead {
    /// Hits over streamed requests.
    pub fn hit_share(&self) -> Option<f64> {
        match (self.hits, self.requests) {
            (Some(hits), Some(requests)) if requests > 0 && hits <= requests => Some(hits as f64 / requests as f64),
            _ => None,
        }
    }
}

/// The last values that a component recorded: those of its leading report, else of its last record.
pub fn last_values(component: &Component) -> Option<&Values> {
    let report = Run::leading_report(component).filter(|report| report.has_counters()).map(|report| &report.values);
    report.or_else(|| component.records.last().map(|record| &record.values))
}

/// Reads the outcomes; `None` where look-ahead was not recorded.
pub fn of(component: &Component) -> Option<LookAhead> {
    let values = last_values(component)?;
    let get = |name: &str| values.get(format!("runtime.vmm.{name}").as_str()).and_then(|value| value.as_u64());
    let units = get("fast_gpu_prefetch_units");
    let hits = get("fast_gpu_prefetch_hits");
    units.or(hits)?;
    // Every slot upload is either ahead or on demand, and every request is either a hit or on demand.
    let on_demand = get("fast_execution_buffer_uploads").zip(units).and_then(|(uploads, units)| uploads.checked_sub(units));
    Some(LookAhead {
        units,
        hits,
        skips: get("fast_gpu_prefetch_capacity_skips"),
        cancelled: get("fast_gpu_prefetch_cancelled_units"),
        in_flight: get("fast_gpu_prefetch_in_flight_units"),
        requests: on_demand.zip(hits).and_then(|(on_demand, hits)| on_demand.checked_add(hits)),
    })
}

/// The same for the parts of units that pass through a stream ring; `None` where units are streamed whole. A unit that was only
/// partly on its way is no hit of its own, so units say less there.
pub fn of_parts(component: &Component) -> Option<LookAhead> {
    let values = last_values(component)?;
    let get = |name: &str| values.get(format!("runtime.vmm.{name}").as_str()).and_then(|value| value.as_u64());
    let (ahead, hits) = (get("fast_part_prefetch_parts")?, get("fast_part_prefetch_hits"));
    let on_demand = get("fast_part_uploads").and_then(|uploads| uploads.checked_sub(ahead));
    Some(LookAhead {
        units: Some(ahead),
        hits,
        skips: get("fast_gpu_prefetch_capacity_skips"),
        cancelled: get("fast_part_prefetch_cancelled_parts"),
        in_flight: get("fast_part_prefetch_in_flight_parts"),
        requests: on_demand.zip(hits).and_then(|(on_demand, hits)| on_demand.checked_add(hits)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::{Record, Scalar};

    #[test]
    fn a_share_needs_every_number() {
        let values = |list: &[(&str, u64)]| {
            list.iter().map(|(name, value)| (format!("runtime.vmm.{name}").into(), Scalar::U64(*value))).collect::<Values>()
        };
        let component = |values| Component { records: vec![Record { values, ..Record::default() }], ..Component::default() };
        let whole = [("fast_gpu_prefetch_units", 30), ("fast_gpu_prefetch_hits", 28), ("fast_execution_buffer_uploads", 42)];
        let found = of(&component(values(&whole))).expect("recorded");
        assert_eq!(found.requests, Some(40));
        assert_eq!(found.hit_share(), Some(0.7));
        let found = of(&component(values(&whole[..2]))).expect("recorded");
        assert_eq!(found.hit_share(), None);
        assert_eq!(of(&component(Values::new())), None);
        assert_eq!(of_parts(&component(values(&whole))), None, "whole units");
        let parts = [("fast_part_prefetch_parts", 30), ("fast_part_prefetch_hits", 27), ("fast_part_uploads", 33)];
        let found = of_parts(&component(values(&parts))).expect("recorded");
        assert_eq!((found.requests, found.hit_share()), (Some(30), Some(0.9)));
    }
}
