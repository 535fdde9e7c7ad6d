//! Views of the arena that are made once, while attaching: for hosts whose framework looks at the memory behind an
//! address when it makes a tensor of it.
//!
//! Addresses of the arena never move, so such a tensor stays right for as long as the component is attached, whether
//! memory lies there or not. While the views are made, memory lies under them for a moment, and for as many at a time as
//! the arena's ceiling allows.

use super::state::{Offload, PartPlan, TensorPlace, UnitId, UnitPlan};
use crate::config::MakeViews;
use crate::driver::{Driver, DriverError, JobError, View};
use crate::error::{Error, Result};
use crate::memory::{Arena, MappingBook, Transient};
use crate::meter::{Clock, HostScope};
use crate::plan::{view_groups, whole_pages};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// What making views came to.
#[derive(Debug, Default)]
pub(crate) struct ViewScopes {
    /// Mapping memory for a moment.
    pub(crate) prepare: HostScope,
    /// Making the views, the host's own tensors included.
    pub(crate) create: HostScope,
    /// Taking the memory away again.
    pub(crate) release: HostScope,
}

/// Views by unit and name; empty where none were asked for.
pub(crate) type FixedViews = Vec<BTreeMap<String, View>>;

/// A tensor with a place in the arena.
struct Placed<'a> {
    unit: usize,
    unit_name: &'a str,
    name: &'a str,
    place: &'a TensorPlace,
    range: Range<u64>,
}

/// What views are made with.
pub(super) struct ViewSetup<'a> {
    pub(super) driver: &'a dyn Driver,
    pub(super) book: &'a MappingBook,
    pub(super) clock: &'a dyn Clock,
    pub(super) arena: &'a Arena,
    pub(super) page_bytes: u64,
    /// Whether parts that come and go have their place in the arena, too.
    pub(super) everywhere: bool,
    pub(super) scopes: &'a ViewScopes,
}

impl ViewSetup<'_> {
    /// Makes the views of every tensor with a place in the arena.
    ///
    /// # Errors
    /// The driver's when a tensor alone gets no memory, or when memory cannot be taken away again; [`Error::Job`] when
    /// the host fails. Nothing is left mapped, or the book counts it as lost.
    pub(super) fn make(&self, maker: Option<&Arc<dyn MakeViews>>, units: &[UnitPlan], parts: &[PartPlan]) -> Result<FixedViews> {
        let Some(maker) = maker else { return Ok(FixedViews::default()) };
        let mut views: FixedViews = units.iter().map(|_| BTreeMap::new()).collect();
        let tensors = placed(units, parts, self.everywhere);
        let ranges: Vec<Range<u64>> = tensors.iter().map(|tensor| tensor.range.clone()).collect();
        for group in view_groups(&ranges, self.page_bytes, self.arena.levels().ceiling_bytes) {
            let own = tensors.get(group.tensors).unwrap_or_default();
            let Some(error) = self.under_memory(group.bytes, own, &**maker, &mut views)? else { continue };
            if own.len() <= 1 {
                return Err(error.into());
            }
            // The group as a whole gets no memory: each tensor for itself.
            for tensor in own {
                let alone = whole_pages(&tensor.range, self.page_bytes);
                if let Some(error) = self.under_memory(alone, std::slice::from_ref(tensor), &**maker, &mut views)? {
                    return Err(error.into());
                }
            }
        }
        Ok(views)
    }

    /// Makes views while memory lies under them. Gives the error when there is no memory to be had.
    fn under_memory(
        &self,
        bytes: Range<u64>,
        tensors: &[Placed<'_>],
        maker: &dyn MakeViews,
        views: &mut FixedViews,
    ) -> Result<Option<DriverError>> {
        let length = bytes.end - bytes.start;
        if length == 0 {
            return self.create(tensors, maker, views).map(|()| None);
        }
        let ceiling = self.arena.levels().ceiling_bytes;
        if length > ceiling {
            return Err(Error::refused("arena_ceiling", "memory for the views of one tensor", length, ceiling, "bytes"));
        }
        let address = self.arena.address(bytes.start);
        let prepare = || Transient::map(self.driver, address, length, self.book);
        let transient = match self.scopes.prepare.time(self.clock, prepare) {
            Ok(transient) => transient,
            Err(error) => return Ok(Some(error)),
        };
        let created = self.create(tensors, maker, views);
        let released = self.scopes.release.time(self.clock, || transient.take_away(self.driver, self.book));
        created?;
        released?;
        Ok(None)
    }

    fn create(&self, tensors: &[Placed<'_>], maker: &dyn MakeViews, views: &mut FixedViews) -> Result<()> {
        for Placed { unit, unit_name, name, place, range } in tensors {
            let made = self.scopes.create.time(self.clock, || {
                let view = View::new(self.arena.address(range.start), place.dtype, &place.shape, place.bytes);
                let view = view.ok_or_else(|| JobError::new(format!("tensor {name:?} has a shape without a view")))?;
                maker.make(unit_name, name, &view).map(|()| view)
            });
            let view = made.map_err(|error| Error::Job { unit: (*unit_name).to_string(), reason: error.to_string() })?;
            if let Some(of_unit) = views.get_mut(*unit) {
                of_unit.insert((*name).to_string(), view);
            }
        }
        Ok(())
    }
}

/// Every tensor with a place in the arena, in the order of their addresses.
fn placed<'a>(units: &'a [UnitPlan], parts: &[PartPlan], everywhere: bool) -> Vec<Placed<'a>> {
    let mut all: Vec<Placed<'a>> = Vec::new();
    for (unit, plan) in units.iter().enumerate() {
        for (name, place) in &plan.tensors {
            let Some(part) = parts.get(place.part).filter(|part| part.resident || everywhere) else { continue };
            let start = part.arena_start + place.offset;
            all.push(Placed { unit, unit_name: &plan.name, name, place, range: start..start + place.bytes });
        }
    }
    all.sort_by_key(|tensor| (tensor.range.start, tensor.range.end));
    all
}

impl Offload {
    /// The view of a tensor that was made while attaching, by its name relative to the unit; `None` for what has no
    /// place in the arena, and where [`crate::OffloadConfig::prepare_views`] was not asked for.
    ///
    /// The address is right until the session is closed. What lies there is the tensor while its unit is pinned, and
    /// only then: memory may be missing at other times. A unit that was admitted outside the ceiling lies elsewhere, as
    /// the view of its guard says.
    pub fn fixed_view(&self, unit: UnitId, name: &str) -> Option<View> {
        self.inner.fixed.views.get(unit.0)?.get(name).copied()
    }
}
