//! Asking for a unit: pins it, never waits on the host for a copy.

use super::state::{Inner, Offload, State, UnitId};
use crate::driver::{DeviceAddress, DriverErrorKind, View};
use crate::error::{Admission, Error, Result};
use crate::memory::Holding;
use crate::plan::Arrival;
use std::sync::Arc;

/// A pinned unit. Its views stay valid until it is launched and the work has ended, or it is dropped.
#[derive(Debug)]
#[must_use = "a guard that is dropped lets its unit go"]
pub struct UnitGuard {
    pub(super) inner: Arc<Inner>,
    pub(super) unit: usize,
    pub(super) place: DeviceAddress,
    pub(super) slot: Option<usize>,
    pub(super) armed: bool,
}

impl Offload {
    /// Pins a unit; uploads it first when it is not on its way already. Never waits on the host for a copy.
    ///
    /// # Errors
    /// A refusal when every slot is in hand or the ceiling leaves no page; the driver's errors; what went wrong since
    /// the last call.
    pub fn unit(&self, id: UnitId) -> Result<UnitGuard> {
        let inner = &self.inner;
        let plan = inner.plan(id.0)?;
        let mut state = inner.open()?;
        state.reap(&*inner.driver, false)?;
        if state.order.arrive(id.0) == Arrival::Mismatch {
            let cancelled = state.slots.cancel_ahead(Some(id.0));
            inner.counters.ahead_cancelled.add(cancelled);
        }
        let slot = if plan.resident {
            inner.place_in_arena(&mut state, id.0)?;
            None
        } else {
            Some(inner.place_in_slot(&mut state, id.0)?)
        };
        let place = match slot {
            Some(slot) => state.slots.address(slot),
            None => state.arena.address(plan.arena_start),
        };
        if let Some(slot) = slot {
            state.slots.guard(slot);
        }
        if let Some(residence) = state.residence.get_mut(id.0) {
            residence.pins += 1;
        }
        Ok(UnitGuard { inner: Arc::clone(inner), unit: id.0, place, slot, armed: true })
    }
}

impl Inner {
    fn place_in_arena(&self, state: &mut State, unit: usize) -> Result<()> {
        let plan = self.plan(unit)?;
        if state.residence.get(unit).is_some_and(|residence| residence.in_arena) {
            self.counters.signature_hits.add(plan.batch.len() as u64);
            return Ok(());
        }
        match state.arena.fault(plan.arena_start..plan.arena_start + plan.span_bytes) {
            Ok(Admission::Granted) => {}
            Ok(Admission::Refused(refusal)) => {
                self.counters.fault_failures.add(1);
                self.counters.capacity_admission_failures.add(1);
                return Err(Error::Refused(refusal));
            }
            Err(error) => {
                self.counters.fault_failures.add(1);
                if error.kind == DriverErrorKind::OutOfMemory {
                    self.counters.device_admission_failures.add(1);
                }
                return Err(Error::Driver(error));
            }
        }
        let place = state.arena.address(plan.arena_start);
        self.upload(state, unit, place, None)?;
        if let Some(residence) = state.residence.get_mut(unit) {
            residence.in_arena = true;
        }
        Ok(())
    }

    fn place_in_slot(&self, state: &mut State, unit: usize) -> Result<usize> {
        if let Some((slot, holding)) = state.slots.find(unit) {
            if holding.ahead {
                self.counters.ahead_hits.add(1);
                state.slots.consume(slot);
            } else {
                self.counters.signature_hits.add(self.plan(unit)?.batch.len() as u64);
            }
            return Ok(slot);
        }
        let slot = match state.slots.choose(&[]) {
            Some(slot) => slot,
            None => {
                // Look-ahead gives way to demand.
                let cancelled = state.slots.cancel_ahead(None);
                self.counters.ahead_cancelled.add(cancelled);
                let (got, limit) = (state.slots.count() + 1, state.slots.count());
                let refused =
                    || Error::refused("execution_slots_in_hand", "streamed units in hand at the same time", got, limit, "units");
                state.slots.choose(&[]).ok_or_else(refused)?
            }
        };
        self.fill_slot(state, unit, slot, false)?;
        Ok(slot)
    }

    /// Uploads a unit into a slot and notes what the slot holds.
    pub(super) fn fill_slot(&self, state: &mut State, unit: usize, slot: usize, ahead: bool) -> Result<()> {
        state.slots.hold(slot, None);
        let place = state.slots.address(slot);
        self.upload(state, unit, place, Some(slot))?;
        state.slots.hold(slot, Some(Holding { owner: unit, ahead }));
        self.counters.slot_uploads.add(1);
        self.counters.slot_bytes.add(self.plan(unit)?.payload_bytes);
        Ok(())
    }
}

impl UnitGuard {
    /// The unit.
    pub fn id(&self) -> UnitId {
        UnitId(self.unit)
    }

    /// Where a tensor of the unit lies, by its name relative to the unit.
    ///
    /// # Errors
    /// [`Error::UnknownName`].
    pub fn view(&self, name: &str) -> Result<View> {
        let plan = self.inner.plan(self.unit)?;
        let unknown = || Error::UnknownName { kind: "tensor", name: name.into(), place: format!("unit {:?}", plan.name) };
        let tensor = plan.tensors.get(name).ok_or_else(unknown)?;
        let pointer = self.place.offset(tensor.offset);
        View::new(pointer, tensor.dtype, &tensor.shape, tensor.bytes).ok_or_else(unknown)
    }

    /// Names of the unit's tensors.
    pub fn tensor_names(&self) -> impl Iterator<Item = &str> {
        self.inner.units.get(self.unit).into_iter().flat_map(|plan| plan.tensors.keys().map(String::as_str))
    }
}

impl Drop for UnitGuard {
    /// Lets the unit go. Its upload may still be in flight; the next upload into the same place runs behind it.
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let mut state = self.inner.lock();
        if let Some(slot) = self.slot {
            state.slots.unguard(slot, None);
        }
        if let Some(residence) = state.residence.get_mut(self.unit) {
            residence.pins = residence.pins.saturating_sub(1);
        }
    }
}
