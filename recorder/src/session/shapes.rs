//! Slots or a ring, and who stays: the ways that there are, and the one that simulated passes prefer.

use super::planning::{Placement, Prediction, batch_of};
use crate::config::OffloadConfig;
use crate::driver::DeviceFacts;
use crate::error::Refusal;
use crate::limits::{ARENA_ALIGNMENT_BYTES, ASSUMED_LINK_BYTES_PER_SECOND, ASSUMED_WORK_PERCENTS, SLOT_ALIGNMENT_BYTES};
use crate::plan::{
    Choice, Costs, Layout, LinkModel, Part, PartCost, PartSize, PartsPlan, PlannedUnit, Scene, StreamPlan, UnitSize, Way, choose,
    cut_into_parts, plan_residency, steady_pass_ns, ways_to_place_parts, whole_units,
};

/// What is asked of the planner.
pub(super) struct Asked<'a> {
    pub(super) units: &'a [PlannedUnit],
    pub(super) config: &'a OffloadConfig,
    pub(super) facts: &'a DeviceFacts,
    pub(super) ceiling_bytes: u64,
    pub(super) managed_bytes: u64,
}

/// A placement, or why there is none; `None` when the layout overflows.
type Answer = Option<std::result::Result<Placement, Refusal>>;

impl Asked<'_> {
    /// Sizes of all tensors, by unit.
    fn sizes(&self) -> Vec<Vec<u64>> {
        self.units.iter().map(|unit| unit.parameters.iter().map(|parameter| parameter.bytes).collect()).collect()
    }

    /// Whole units in slots.
    pub(super) fn classic(&self) -> Answer {
        let sizes = self.sizes();
        let layout = Layout::new(&sizes, SLOT_ALIGNMENT_BYTES, ARENA_ALIGNMENT_BYTES)?;
        let places = layout.arena_starts.iter().zip(&layout.parts);
        let places: Vec<UnitSize> = places.map(|(start, unit)| UnitSize { arena_start: *start, bytes: unit.bytes }).collect();
        let plan = match plan_residency(&places, self.facts.page_bytes, self.ceiling_bytes, self.config.slots) {
            Ok(plan) => plan,
            Err(refusal) => return Some(Err(refusal)),
        };
        let parts = whole_units(&sizes);
        let stream = StreamPlan::Slots { count: plan.slots, bytes: plan.slot_bytes };
        let scenes = self.scenes(&parts, &layout);
        let way = Way { resident: &plan.resident, stream };
        let prediction = choose(&scenes, &[way]).map(|choice| self.prediction(&scenes, &way, choice));
        let arena_ceiling_bytes = plan.arena_ceiling_bytes;
        let streamed_bytes = streamed_bytes(&sizes, &plan.resident);
        Some(Ok(Placement { parts, layout, streamed_bytes, resident: plan.resident, stream, arena_ceiling_bytes, prediction }))
    }

    /// Whole units that come and go in the arena.
    pub(super) fn demand(&self) -> Answer {
        let sizes = self.sizes();
        let layout = Layout::new(&sizes, SLOT_ALIGNMENT_BYTES, ARENA_ALIGNMENT_BYTES)?;
        let page = self.facts.page_bytes.max(1);
        let pages = |start: u64, bytes: u64| if bytes == 0 { 0 } else { (start + bytes).div_ceil(page) - start / page };
        let places = layout.arena_starts.iter().zip(&layout.parts);
        let largest = places.map(|(start, unit)| pages(*start, unit.bytes)).max().unwrap_or_default();
        let all_stay = pages(0, layout.arena_bytes) <= self.ceiling_bytes / page;
        if largest > self.ceiling_bytes / page && !self.config.fault_fallback {
            let what = "the weight ceiling cannot hold the largest unit".to_string();
            let (code, got, limit) = ("weight_ceiling_below_unit", self.ceiling_bytes, largest.saturating_mul(page));
            return Some(Err(Refusal { code, what, got, limit, unit: "bytes" }));
        }
        let resident = vec![false; sizes.len()];
        Some(Ok(Placement {
            // As far as the ceiling decides; a device without memory can make units come and go all the same.
            streamed_bytes: if all_stay { 0 } else { streamed_bytes(&sizes, &resident) },
            parts: whole_units(&sizes),
            layout,
            resident,
            stream: StreamPlan::Arena,
            arena_ceiling_bytes: self.ceiling_bytes,
            prediction: None,
        }))
    }

    /// Parts in a ring.
    pub(super) fn parts(&self) -> Answer {
        let sizes = self.sizes();
        let parts = cut_into_parts(&sizes, self.config.part_bytes);
        let tensors =
            |part: &Part| sizes.get(part.unit).and_then(|unit| unit.get(part.tensors.clone())).unwrap_or_default().to_vec();
        let part_sizes: Vec<Vec<u64>> = parts.iter().map(tensors).collect();
        let layout = Layout::new(&part_sizes, SLOT_ALIGNMENT_BYTES, ARENA_ALIGNMENT_BYTES)?;
        let places: Vec<PartSize> =
            parts.iter().zip(&layout.parts).map(|(part, packed)| PartSize { unit: part.unit, bytes: packed.bytes }).collect();
        let ways = match ways_to_place_parts(&places, self.facts.page_bytes, self.ceiling_bytes, self.config.launches) {
            Ok(ways) => ways,
            Err(refusal) => return Some(Err(refusal)),
        };
        let scenes = self.scenes(&parts, &layout);
        let seen: Vec<Way<'_>> =
            ways.iter().map(|way| Way { resident: &way.resident, stream: StreamPlan::Ring { bytes: way.ring_bytes } }).collect();
        let choice = choose(&scenes, &seen);
        let index = choice.map_or_else(|| usual_way(&ways), |choice| choice.way);
        let prediction = choice.zip(seen.get(index)).map(|(choice, way)| self.prediction(&scenes, way, choice));
        let PartsPlan { resident, ring_bytes, arena_ceiling_bytes } = ways.into_iter().nth(index)?;
        let layout = layout.with_first(&resident, SLOT_ALIGNMENT_BYTES.max(ARENA_ALIGNMENT_BYTES))?;
        Some(Ok(Placement {
            streamed_bytes: streamed_bytes(&part_sizes, &resident),
            parts,
            layout,
            resident,
            stream: StreamPlan::Ring { bytes: ring_bytes },
            arena_ceiling_bytes,
            prediction,
        }))
    }

    fn prediction(&self, scenes: &[Scene], way: &Way<'_>, choice: Choice) -> Prediction {
        let known = self.measured_unit_ns().is_some() && self.link_rate().is_some();
        let step_ns = scenes.first().filter(|_| known).and_then(|scene| steady_pass_ns(&scene.costs, way));
        Prediction { floor_ratio: choice.worst_ratio, step_seconds: step_ns.map(|ns| ns as f64 / 1e9) }
    }

    /// The link's rate: measured, or the one that the driver imitates.
    fn link_rate(&self) -> Option<u64> {
        let measured = self.config.measured.as_ref().map(|measured| measured.link_bytes_per_second);
        measured.or(self.facts.link_bytes_per_second)
    }

    /// Nanoseconds of each unit's work, where all were measured.
    fn measured_unit_ns(&self) -> Option<Vec<u64>> {
        let measured = self.config.measured.as_ref()?;
        let of_unit = |unit: &PlannedUnit| measured.unit_seconds.get(&unit.name).map(|seconds| (seconds * 1e9) as u64);
        self.units.iter().map(of_unit).collect()
    }

    /// What the ways are compared in: the measured times, or some amounts of work, spread evenly over the units.
    fn scenes(&self, parts: &[Part], layout: &Layout) -> Vec<Scene> {
        let rate = self.link_rate().unwrap_or(ASSUMED_LINK_BYTES_PER_SECOND);
        let link = LinkModel { bytes_per_second: Some(rate), latency_ns: 0 };
        let must_stream_ns = link.copy_ns(self.managed_bytes.saturating_sub(self.ceiling_bytes));
        let scene = |unit_ns: Vec<u64>| {
            let floor_ns = must_stream_ns.max(unit_ns.iter().sum());
            Scene { costs: self.costs(parts, layout, link, &unit_ns), floor_ns }
        };
        if let Some(measured) = self.measured_unit_ns() {
            return vec![scene(measured)];
        }
        let even = |percent: &u64| {
            let all = u128::from(must_stream_ns) * u128::from(*percent) / 100;
            let each = all / self.units.len().max(1) as u128;
            vec![u64::try_from(each).unwrap_or(u64::MAX); self.units.len()]
        };
        ASSUMED_WORK_PERCENTS.iter().map(|percent| scene(even(percent))).collect()
    }

    fn costs(&self, parts: &[Part], layout: &Layout, link: LinkModel, unit_ns: &[u64]) -> Costs {
        let cost = |(part, packed): (&Part, &crate::plan::Packed)| {
            let unit = self.units.get(part.unit);
            let all: u128 = unit.map_or(0, |unit| unit.parameters.iter().map(|parameter| u128::from(parameter.bytes)).sum());
            let own = unit.and_then(|unit| unit.parameters.get(part.tensors.clone())).unwrap_or_default();
            let ns = unit_ns.get(part.unit).copied().unwrap_or_default();
            let share = |bytes: u64| (u128::from(ns) * u128::from(bytes)).checked_div(all).unwrap_or_default();
            let work_ns = own.iter().map(|parameter| u64::try_from(share(parameter.bytes)).unwrap_or(u64::MAX)).collect();
            PartCost::of_batch(part.unit, packed.bytes, &batch_of(own, packed), work_ns)
        };
        Costs {
            parts: parts.iter().zip(&layout.parts).map(cost).collect(),
            link,
            launches: self.config.launches,
            least_stage_bytes: self.config.part_bytes,
            look_ahead: self.config.look_ahead,
        }
    }
}

/// Without a simulation: the first ring that holds two launches, else the largest.
fn usual_way(ways: &[PartsPlan]) -> usize {
    let least = ways.first().map_or(0, |way| way.ring_bytes);
    let two = ways.iter().position(|way| way.ring_bytes >= least.saturating_mul(2));
    two.unwrap_or(ways.len().saturating_sub(1))
}

fn streamed_bytes(sizes: &[Vec<u64>], resident: &[bool]) -> u64 {
    let streamed = sizes.iter().zip(resident).filter(|(_, stays)| !**stays);
    streamed.flat_map(|(sizes, _)| sizes).sum()
}
