//! What is settled before any resource is taken: units, parts, who stays, and the shape of stream memory.

use super::component::Component;
use super::state::{PartPlan, TensorPlace, UnitId, UnitInfo, UnitPlan};
use crate::config::{OffloadConfig, ResidencyMode};
use crate::driver::DeviceFacts;
use crate::error::{Error, Refusal, Result};
use crate::limits::{ARENA_ALIGNMENT_BYTES, SLOT_ALIGNMENT_BYTES};
use crate::plan::{BatchTensor, Layout, Part, PartSize, UnitSize, Units};
use crate::plan::{check_slots, cut_into_parts, execution_units, plan_parts, plan_residency, whole_units};
use std::sync::Arc;

/// The shape of stream memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamShape {
    /// Fixed slots.
    Slots { count: u64, bytes: u64 },
    /// One ring.
    Ring { bytes: u64 },
}

impl StreamShape {
    /// The effective residency mode.
    pub(super) fn mode(self) -> ResidencyMode {
        match self {
            StreamShape::Slots { .. } => ResidencyMode::Classic,
            StreamShape::Ring { .. } => ResidencyMode::Parts,
        }
    }
}

/// Who stays, and where everything lies.
pub(super) struct Placement {
    pub(super) parts: Vec<Part>,
    pub(super) layout: Layout,
    pub(super) resident: Vec<bool>,
    pub(super) stream: StreamShape,
    pub(super) arena_ceiling_bytes: u64,
    pub(super) streamed_bytes: u64,
}

/// The whole plan.
pub(super) struct Planned {
    pub(super) units: Units,
    pub(super) placement: Placement,
    pub(super) managed_bytes: u64,
    pub(super) ceiling_bytes: u64,
}

/// Sizes of all tensors, by unit.
type Sizes = [Vec<u64>];

pub(super) fn plan(component: &Component, config: &OffloadConfig, facts: &DeviceFacts) -> Result<Planned> {
    let units = execution_units(&component.root);
    let name = || format!("component {:?}", component.name);
    if units.units.is_empty() {
        let reason = "no execution unit: it has neither a numbered module list nor a linear module".to_string();
        return Err(Error::invalid(name(), reason));
    }
    let sizes: Vec<Vec<u64>> =
        units.units.iter().map(|unit| unit.parameters.iter().map(|parameter| parameter.bytes).collect()).collect();
    let overflow = || Error::invalid(name(), "its layout exceeds 64 bits".to_string());
    let managed_bytes = sizes.iter().flatten().try_fold(0u64, |sum, bytes| sum.checked_add(*bytes)).ok_or_else(overflow)?;
    let ceiling_bytes = config.ceiling.resolve(managed_bytes)?;
    check_slots(config.slots)?;
    let classic = || classic(&sizes, config, facts.page_bytes, ceiling_bytes).ok_or_else(overflow);
    let parts = || parts(&sizes, config, facts.page_bytes, ceiling_bytes).ok_or_else(overflow);
    let placement = match config.residency {
        ResidencyMode::Classic => classic()?,
        ResidencyMode::Parts => parts()?,
        ResidencyMode::Auto => match (classic()?, parts()?) {
            (Ok(classic), Ok(parts)) if parts.streamed_bytes < classic.streamed_bytes => Ok(parts),
            (Err(_), parts) => parts,
            (classic, _) => classic,
        },
    };
    Ok(Planned { units, placement: placement?, managed_bytes, ceiling_bytes })
}

fn streamed_bytes(sizes: &[Vec<u64>], resident: &[bool]) -> u64 {
    let streamed = sizes.iter().zip(resident).filter(|(_, stays)| !**stays);
    streamed.flat_map(|(sizes, _)| sizes).sum()
}

/// Whole units in slots; `None` when the layout overflows.
fn classic(
    sizes: &Sizes,
    config: &OffloadConfig,
    page_bytes: u64,
    ceiling_bytes: u64,
) -> Option<std::result::Result<Placement, Refusal>> {
    let layout = Layout::new(sizes, SLOT_ALIGNMENT_BYTES, ARENA_ALIGNMENT_BYTES)?;
    let places = layout.arena_starts.iter().zip(&layout.parts);
    let places: Vec<UnitSize> = places.map(|(start, unit)| UnitSize { arena_start: *start, bytes: unit.bytes }).collect();
    let plan = plan_residency(&places, page_bytes, ceiling_bytes, config.slots);
    Some(plan.map(|plan| Placement {
        parts: whole_units(sizes),
        layout,
        streamed_bytes: streamed_bytes(sizes, &plan.resident),
        resident: plan.resident,
        stream: StreamShape::Slots { count: plan.slots, bytes: plan.slot_bytes },
        arena_ceiling_bytes: plan.arena_ceiling_bytes,
    }))
}

/// Parts in a ring; `None` when the layout overflows.
fn parts(
    sizes: &Sizes,
    config: &OffloadConfig,
    page_bytes: u64,
    ceiling_bytes: u64,
) -> Option<std::result::Result<Placement, Refusal>> {
    let parts = cut_into_parts(sizes, config.part_bytes);
    let tensors = |part: &Part| sizes.get(part.unit).and_then(|unit| unit.get(part.tensors.clone())).unwrap_or_default().to_vec();
    let part_sizes: Vec<Vec<u64>> = parts.iter().map(tensors).collect();
    let layout = Layout::new(&part_sizes, SLOT_ALIGNMENT_BYTES, ARENA_ALIGNMENT_BYTES)?;
    let places: Vec<PartSize> =
        parts.iter().zip(&layout.parts).map(|(part, packed)| PartSize { unit: part.unit, bytes: packed.bytes }).collect();
    let plan = match plan_parts(&places, page_bytes, ceiling_bytes, config.launches) {
        Ok(plan) => plan,
        Err(refusal) => return Some(Err(refusal)),
    };
    let layout = layout.with_first(&plan.resident, SLOT_ALIGNMENT_BYTES.max(ARENA_ALIGNMENT_BYTES))?;
    Some(Ok(Placement {
        streamed_bytes: streamed_bytes(&part_sizes, &plan.resident),
        parts,
        layout,
        resident: plan.resident,
        stream: StreamShape::Ring { bytes: plan.ring_bytes },
        arena_ceiling_bytes: plan.arena_ceiling_bytes,
    }))
}

/// Everything that is settled about parts.
pub(super) fn part_plans(planned: &Planned) -> Vec<PartPlan> {
    let Placement { parts, layout, resident, .. } = &planned.placement;
    let places = layout.arena_starts.iter().zip(&layout.parts).zip(resident);
    let plan = |(part, ((start, packed), resident)): (&Part, ((&u64, &crate::plan::Packed), &bool))| {
        let parameters = planned.units.units.get(part.unit).and_then(|unit| unit.parameters.get(part.tensors.clone()));
        let placed = parameters.unwrap_or_default().iter().zip(&packed.offsets);
        let batch: Vec<BatchTensor> =
            placed.map(|(p, offset)| BatchTensor { source: p.source, offset: *offset, bytes: p.bytes }).collect();
        PartPlan {
            unit: part.unit,
            resident: *resident,
            arena_start: *start,
            span_bytes: packed.bytes,
            payload_bytes: batch.iter().map(|tensor| tensor.bytes).sum(),
            batch,
        }
    };
    parts.iter().zip(places).map(plan).collect()
}

/// Everything that is settled about units.
pub(super) fn unit_plans(planned: &Planned, parts: &[PartPlan]) -> Vec<UnitPlan> {
    let mut first = 0;
    let plan = |(index, unit): (usize, &crate::plan::PlannedUnit)| {
        let own = parts.iter().skip(first).take_while(|part| part.unit == index).count();
        let range = first..first + own;
        first += own;
        let mut tensors = std::collections::BTreeMap::new();
        for part in range.clone() {
            let (Some(cut), Some(packed)) = (planned.placement.parts.get(part), planned.placement.layout.parts.get(part)) else {
                continue;
            };
            let parameters = unit.parameters.get(cut.tensors.clone()).unwrap_or_default();
            for (index, (parameter, offset)) in parameters.iter().zip(&packed.offsets).enumerate() {
                let crate::plan::Parameter { name, dtype, shape, bytes, .. } = parameter.clone();
                tensors.insert(name, TensorPlace { part, index, offset: *offset, bytes, dtype, shape });
            }
        }
        let streamed = parts.get(range.clone()).unwrap_or_default().iter().filter(|part| !part.resident).count();
        UnitPlan { name: Arc::from(unit.name.as_str()), parts: range, streamed_parts: streamed as u64, tensors }
    };
    planned.units.units.iter().enumerate().map(plan).collect()
}

/// What a host may know about the units.
pub(super) fn unit_infos(units: &[UnitPlan], parts: &[PartPlan]) -> Vec<UnitInfo> {
    let info = |(index, plan): (usize, &UnitPlan)| {
        let own = parts.get(plan.parts.clone()).unwrap_or_default();
        UnitInfo {
            id: UnitId(index),
            name: plan.name.to_string(),
            bytes: own.iter().map(|part| part.payload_bytes).sum(),
            resident: plan.streamed_parts == 0,
            streamed_bytes: own.iter().filter(|part| !part.resident).map(|part| part.payload_bytes).sum(),
        }
    };
    units.iter().enumerate().map(info).collect()
}
