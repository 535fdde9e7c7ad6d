//! What is settled before any resource is taken: units, parts, who stays, and the shape of stream memory.

use super::component::Component;
use super::lifetime::settle_lifetime;
use super::shapes::Asked;
use super::state::{PartPlan, TensorPlace, UnitId, UnitInfo, UnitPlan};
use crate::config::{OffloadConfig, ResidencyMode};
use crate::driver::DeviceFacts;
use crate::error::{Error, Result};
use crate::plan::{BatchTensor, Layout, LifetimePlan, Packed, Parameter, Part, StreamPlan, Units, check_slots, execution_units};
use std::sync::Arc;

/// The effective residency mode.
pub(super) fn mode_of(stream: StreamPlan) -> ResidencyMode {
    match stream {
        StreamPlan::Slots { .. } => ResidencyMode::Classic,
        StreamPlan::Ring { .. } => ResidencyMode::Parts,
        StreamPlan::Arena => ResidencyMode::Demand,
    }
}

/// Who stays, and where everything lies.
pub(super) struct Placement {
    pub(super) parts: Vec<Part>,
    pub(super) layout: Layout,
    pub(super) resident: Vec<bool>,
    pub(super) stream: StreamPlan,
    pub(super) arena_ceiling_bytes: u64,
    pub(super) streamed_bytes: u64,
    pub(super) prediction: Option<Prediction>,
}

/// What the planner expects of its choice.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Prediction {
    /// The largest ratio of a step to its floor that was found.
    pub(super) floor_ratio: f64,
    /// Seconds of a step; only where the unit times and the link's rate are known.
    pub(super) step_seconds: Option<f64>,
}

/// The whole plan.
pub(super) struct Planned {
    pub(super) units: Units,
    /// `None` where nothing is to live as long as the component.
    pub(super) lifetime: Option<LifetimePlan>,
    pub(super) placement: Placement,
    pub(super) managed_bytes: u64,
    pub(super) ceiling_bytes: u64,
}

pub(super) fn plan(component: &Component, config: &OffloadConfig, facts: &DeviceFacts) -> Result<Planned> {
    let mut units = execution_units(&component.root);
    let name = || format!("component {:?}", component.name);
    if units.units.is_empty() {
        let reason = "no execution unit: it has neither a numbered module list nor a linear module".to_string();
        return Err(Error::invalid(name(), reason));
    }
    let overflow = || Error::invalid(name(), "its layout exceeds 64 bits".to_string());
    let mut sizes = units.units.iter().flat_map(|unit| unit.parameters.iter().map(|parameter| parameter.bytes));
    let managed_bytes = sizes.try_fold(0u64, u64::checked_add).ok_or_else(overflow)?;
    let ceiling_bytes = config.ceiling.resolve(managed_bytes)?;
    check_slots(config.slots)?;
    let limit = Some(config.lifetime_limit_bytes).filter(|limit| *limit > 0);
    let lifetime = limit.map(|limit| settle_lifetime(component, &mut units, limit, facts.page_bytes)).transpose()?;
    let charge = lifetime.as_ref().map_or(0, |lifetime| lifetime.capacity_bytes);
    let Some(left_bytes) = ceiling_bytes.checked_sub(charge) else {
        let what = "the component's root module in whole pages, under the weight ceiling";
        return Err(Error::refused("component_lifetime_above_ceiling", what, charge, ceiling_bytes, "bytes"));
    };
    let asked = Asked { units: &units.units, config, facts, ceiling_bytes: left_bytes, managed_bytes };
    let classic = || asked.classic().ok_or_else(overflow);
    let parts = || asked.parts().ok_or_else(overflow);
    if config.fault_fallback && config.residency != ResidencyMode::Demand {
        let reason = format!("only the residency mode \"demand\" has it, and {:?} was asked for", config.residency.name());
        return Err(Error::invalid("fault fallback", reason));
    }
    let placement = match config.residency {
        ResidencyMode::Classic => classic()?,
        ResidencyMode::Parts => parts()?,
        ResidencyMode::Demand => asked.demand().ok_or_else(overflow)?,
        ResidencyMode::Auto => match (classic()?, parts()?) {
            (Ok(classic), Ok(parts)) if is_better(&parts, &classic) => Ok(parts),
            (Err(_), parts) => parts,
            (classic, _) => classic,
        },
    };
    Ok(Planned { placement: placement?, units, lifetime, managed_bytes, ceiling_bytes })
}

/// A smaller worst ratio to the floor; fewer streamed bytes where it is not known or equal.
fn is_better(this: &Placement, other: &Placement) -> bool {
    match (this.prediction, other.prediction) {
        (Some(this), Some(other)) if this.floor_ratio != other.floor_ratio => this.floor_ratio < other.floor_ratio,
        _ => this.streamed_bytes < other.streamed_bytes,
    }
}

/// The tensors of a part, each at its offset.
pub(super) fn batch_of(parameters: &[Parameter], packed: &Packed) -> Vec<BatchTensor> {
    let placed = parameters.iter().zip(&packed.offsets);
    placed.map(|(p, offset)| BatchTensor { source: p.source, offset: *offset, bytes: p.bytes }).collect()
}

/// Everything that is settled about parts.
pub(super) fn part_plans(planned: &Planned) -> Vec<PartPlan> {
    let Placement { parts, layout, resident, .. } = &planned.placement;
    let places = layout.arena_starts.iter().zip(&layout.parts).zip(resident);
    let plan = |(part, ((start, packed), resident)): (&Part, ((&u64, &Packed), &bool))| {
        let parameters = planned.units.units.get(part.unit).and_then(|unit| unit.parameters.get(part.tensors.clone()));
        let batch = batch_of(parameters.unwrap_or_default(), packed);
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
                let Parameter { name, dtype, shape, bytes, .. } = parameter.clone();
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
