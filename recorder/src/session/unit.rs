//! Asking for a unit and for its weights: pins them, never waits on the host for a copy.

use super::marks::OpenWindow;
use super::paged::{ArenaHold, Taken};
use super::place::HeldPart;
use super::state::{Inner, Offload, State, TensorPlace, UnitId};
use crate::driver::{DeviceAddress, View};
use crate::error::{Error, Result};
use crate::limits::CAPACITY_WAIT_SLICE;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A pinned unit. Its views stay valid until they are released or the guard ends; what was launched with them holds
/// them on until it has run.
#[derive(Debug)]
#[must_use = "a guard that is dropped lets its unit go"]
pub struct UnitGuard {
    pub(super) inner: Arc<Inner>,
    pub(super) unit: usize,
    /// Locked inside the session's lock, never around it.
    hand: Mutex<Hand>,
}

/// What a guard has in hand.
#[derive(Debug, Default)]
pub(super) struct Hand {
    pub(super) parts: Vec<HeldPart>,
    /// The unit window, from the first launch to the end of the guard.
    pub(super) window: Option<OpenWindow>,
    pub(super) launched: bool,
    ended: bool,
}

impl Offload {
    /// Pins a unit and uploads what is not on its way already. Never waits on the host for a copy of its own. Where units
    /// come and go in the arena (`ResidencyMode::Demand`), it waits for the oldest work while all memory is in use.
    ///
    /// Where launches go part by part (see [`crate::OffloadConfig::launches`]) weights are uploaded and pinned when
    /// their view is asked for instead.
    ///
    /// # Errors
    /// A refusal when what is in hand or the ceiling leaves no place; the driver's errors; what went wrong since the
    /// last call.
    pub fn unit(&self, id: UnitId) -> Result<UnitGuard> {
        let inner = &self.inner;
        let plan = inner.plan(id.0)?;
        let mut state = inner.open()?;
        state.reap(&*inner.driver, false)?;
        inner.note_request(&mut state, id.0);
        let parts = match inner.rules.by_part {
            true => Vec::new(),
            false => {
                let taken = inner.take(state, &plan.parts).map(|(state, parts)| {
                    drop(state);
                    parts
                });
                taken.inspect_err(|_| inner.note_let_go(&mut inner.lock(), id.0))?
            }
        };
        let hand = Mutex::new(Hand { parts, ..Hand::default() });
        Ok(UnitGuard { inner: Arc::clone(inner), unit: id.0, hand })
    }
}

impl UnitGuard {
    /// The unit.
    pub fn id(&self) -> UnitId {
        UnitId(self.unit)
    }

    pub(super) fn hand(&self) -> MutexGuard<'_, Hand> {
        self.hand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tensor(&self, name: &str) -> Result<&TensorPlace> {
        let plan = self.inner.plan(self.unit)?;
        let unknown = || Error::UnknownName { kind: "tensor", name: name.into(), place: format!("unit {:?}", plan.name) };
        plan.tensors.get(name).ok_or_else(unknown)
    }

    /// Where a tensor of the unit lies, by its name relative to the unit. A tensor that is not in hand, because work
    /// is launched part by part or because it was released, is uploaded and pinned first. What is launched next waits
    /// for the upload of each part in hand, and for nothing else.
    ///
    /// # Errors
    /// [`Error::UnknownName`]; for a tensor that is not in hand also those of [`Offload::unit`].
    pub fn view(&self, name: &str) -> Result<View> {
        let tensor = self.tensor(name)?;
        let unknown = || Error::invalid(format!("tensor {name:?}"), "its shape has no view".to_string());
        let known = self.hand().parts.iter().any(|held| held.part == tensor.part);
        let state = match known {
            true => self.inner.lock(),
            false => {
                let (state, held) = self.inner.take(self.inner.open()?, &(tensor.part..tensor.part + 1))?;
                self.hand().parts.extend(held);
                state
            }
        };
        let mut hand = self.hand();
        let held = hand.parts.iter_mut().find(|held| held.part == tensor.part).ok_or_else(unknown)?;
        held.released.retain(|index| *index != tensor.index);
        let place = self.inner.place_of(&state, held)?;
        View::new(place.offset(tensor.offset), tensor.dtype, &tensor.shape, tensor.bytes).ok_or_else(unknown)
    }

    /// Says that no further launch reads this tensor. Once that holds for all tensors of a part, its stream memory is
    /// free behind the work launched so far, and the parts expected next are uploaded ahead.
    ///
    /// # Errors
    /// [`Error::UnknownName`]; what went wrong since the last call.
    pub fn release(&self, name: &str) -> Result<()> {
        let tensor = self.tensor(name)?;
        let tensors = self.inner.part(tensor.part)?.batch.len();
        let mut state = self.inner.open()?;
        let mut hand = self.hand();
        let Some(index) = hand.parts.iter().position(|held| held.part == tensor.part) else { return Ok(()) };
        if let Some(held) = hand.parts.get_mut(index)
            && !held.released.contains(&tensor.index)
        {
            held.released.push(tensor.index);
        }
        if hand.parts.get(index).is_some_and(|held| held.released.len() >= tensors) {
            let held = hand.parts.remove(index);
            self.inner.let_go(&mut state, &[held]);
            self.inner.counters.part_releases.add(1);
            self.inner.look_ahead(&mut state);
        }
        Ok(())
    }

    /// Names of the unit's tensors.
    pub fn tensor_names(&self) -> impl Iterator<Item = &str> {
        self.inner.units.get(self.unit).into_iter().flat_map(|plan| plan.tensors.keys().map(String::as_str))
    }

    /// Ends the guard inside the session's lock; the second time nothing happens.
    pub(super) fn end(&self, state: &mut State) {
        let mut hand = self.hand();
        if std::mem::replace(&mut hand.ended, true) {
            return;
        }
        let parts = std::mem::take(&mut hand.parts);
        self.inner.let_go(state, &parts);
        self.inner.note_let_go(state, self.unit);
        if let Some(window) = hand.window.take() {
            window.close();
        }
    }
}

impl Inner {
    /// Takes parts of one unit into hand. Waits, without the session's lock, while memory in use has to come free first.
    fn take<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        parts: &Range<usize>,
    ) -> Result<(MutexGuard<'a, State>, Vec<HeldPart>)> {
        loop {
            let event = match self.try_take(&mut state, parts.clone())? {
                Taken::Held(parts) => return Ok((state, parts)),
                Taken::Busy(event) => event,
            };
            self.counters.capacity_event_waits.add(1);
            state.events.begin_wait(event);
            state.waiting += 1;
            // A session that is closed or fails meanwhile ends the wait.
            let passed = loop {
                drop(state);
                let passed = self.driver.event_wait(event, CAPACITY_WAIT_SLICE);
                state = self.lock();
                if !matches!(passed, Ok(false)) || state.closed || state.poisoned.is_some() {
                    break passed;
                }
            };
            state.waiting -= 1;
            state.events.end_wait(event)?;
            drop(state);
            state = self.open()?;
            passed?;
            state.reap(&*self.driver, false)?;
        }
    }

    /// First byte of a part in hand.
    pub(super) fn place_of(&self, state: &State, held: &HeldPart) -> Result<DeviceAddress> {
        let plan = self.part(held.part)?;
        Ok(match (held.key, &held.hold) {
            (Some(key), _) => state.stream.address(key),
            (None, Some(ArenaHold::Temporary(id))) => {
                let gone = || Error::invalid("temporary memory", "it was given back while it was in hand");
                state.temporaries.address(*id).ok_or_else(gone)?
            }
            (None, _) => state.arena.address(plan.arena_start),
        })
    }
}

impl Drop for UnitGuard {
    /// Lets the unit go. Its upload may still be in flight; the next upload into the same place runs behind it.
    fn drop(&mut self) {
        let mut state = self.inner.lock();
        self.end(&mut state);
    }
}
