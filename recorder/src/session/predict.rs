//! What a pass should take: the session's own plan, simulated.

use super::state::Offload;
use crate::memory::StreamMemory;
use crate::plan::{Costs, Forecast, LaunchScope, LinkModel, PartCost, Places, StreamPlan};
use std::time::Duration;

impl Offload {
    /// Simulates passes over all units in tree order with the session's plan and a host that is far ahead of the
    /// device; the time at which each pass ends. `work` tells how long the launch that reads a tensor lasts, by the
    /// names of unit and tensor; a launch of a whole unit lasts the sum. Makes no driver call.
    ///
    /// `None` when stream memory cannot hold what a launch reads, and where units come and go in the arena.
    pub fn predict(&self, link: LinkModel, work: impl Fn(&str, &str) -> Duration, passes: usize) -> Option<Vec<Duration>> {
        if self.inner.rules.paged {
            return None;
        }
        let costs = self.costs(link, work);
        let resident: Vec<bool> = self.inner.parts.iter().map(|part| part.resident).collect();
        let stream = stream_plan(&self.inner.lock().stream);
        let mut forecast = Forecast::new(&costs, &resident, stream);
        (0..passes).map(|_| forecast.pass().map(Duration::from_nanos)).collect()
    }

    fn costs(&self, link: LinkModel, work: impl Fn(&str, &str) -> Duration) -> Costs {
        let inner = &self.inner;
        let part = |(index, part): (usize, &super::state::PartPlan)| {
            let unit = inner.units.get(part.unit);
            let mut tensors: Vec<(usize, &str)> = unit
                .into_iter()
                .flat_map(|unit| &unit.tensors)
                .filter(|(_, place)| place.part == index)
                .map(|(name, place)| (place.index, name.as_str()))
                .collect();
            tensors.sort_unstable();
            let unit_name = unit.map_or("", |unit| &unit.name);
            let lasting = |(_, name): &(usize, &str)| u64::try_from(work(unit_name, name).as_nanos()).unwrap_or(u64::MAX);
            PartCost::of_batch(part.unit, part.span_bytes, &part.batch, tensors.iter().map(lasting).collect())
        };
        Costs {
            parts: inner.parts.iter().enumerate().map(part).collect(),
            link,
            launches: if inner.rules.by_part { LaunchScope::Parts } else { LaunchScope::Units },
            least_stage_bytes: inner.rules.least_stage_bytes,
            look_ahead: inner.rules.depth > 0,
        }
    }
}

fn stream_plan(memory: &StreamMemory) -> StreamPlan {
    match &**memory {
        Places::Slots(slots) => StreamPlan::Slots { count: slots.count(), bytes: slots.slot_bytes() },
        Places::Ring(ring) => StreamPlan::Ring { bytes: ring.capacity_bytes() },
    }
}
