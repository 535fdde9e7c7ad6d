//! What lives on the device as long as the component: planned with the units, uploaded once while attaching, never again.
//!
//! The upload is proven complete before the session exists. So no stream ever waits for it, and work of any stream may
//! read it without a pin.

use super::component::Component;
use super::state::{Inner, Offload, State};
use crate::driver::{Driver, Grant, HostBytes, StreamId, View};
use crate::error::{Error, Result};
use crate::memory::{HostTensor, LifetimeBuffer, MappingBook};
use crate::plan::{LifetimePlan, Parameter, ParameterSource, SourceSpace, SourceTensor, Units, plan_lifetime};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Takes the tensors of the root module out of those that stay on the host, and lays them out.
pub(super) fn settle_lifetime(component: &Component, units: &mut Units, limit: u64, page: u64) -> Result<LifetimePlan> {
    // Only tensors of the root have a name without a module in it.
    let (root, host): (Vec<_>, Vec<_>) = std::mem::take(&mut units.host).into_iter().partition(|(name, _)| !name.contains('.'));
    units.host = host;
    let root: Vec<SourceTensor<'_>> = root.iter().map(|(name, parameter)| named(component, name.clone(), parameter)).collect();
    let of_units = units.units.iter().flat_map(|unit| {
        unit.parameters.iter().map(|parameter| named(component, format!("{}.{}", unit.name, parameter.name), parameter))
    });
    let of_host = units.host.iter().map(|(name, parameter)| named(component, name.clone(), parameter));
    let others: Vec<SourceTensor<'_>> = of_units.chain(of_host).collect();
    Ok(plan_lifetime(&root, &others, limit, page)?)
}

fn named<'a>(component: &Component, name: String, parameter: &'a Parameter) -> SourceTensor<'a> {
    let start = match parameter.source {
        ParameterSource::File { file, offset } => (SourceSpace::File(file), offset),
        ParameterSource::Memory { tensor } => match component.tensors.get(tensor).map(HostTensor::bytes) {
            Some(bytes) if !bytes.is_empty() => (SourceSpace::Host, bytes.as_ptr() as usize as u64),
            _ => (SourceSpace::Counted(tensor), 0),
        },
    };
    SourceTensor { name, parameter, start }
}

/// Maps and fills the buffer.
pub(super) fn open_lifetime(
    driver: &Arc<dyn Driver>,
    book: &Arc<MappingBook>,
    component: &Component,
    plan: &LifetimePlan,
    upload: StreamId,
) -> Result<LifetimeBuffer> {
    let groups: Vec<(String, Parameter)> = plan.groups.iter().map(|(group, _)| (group.name.clone(), group.clone())).collect();
    let sources = super::attach::host_tensors(component, &groups)?;
    let piece = |(group, offset): &(Parameter, u64)| sources.get(&group.name).map(|tensor| (*offset, tensor.lease()));
    let pieces: Vec<(u64, HostBytes)> = plan.groups.iter().filter_map(piece).collect();
    let (driver, book) = (Arc::clone(driver), Arc::clone(book));
    Ok(LifetimeBuffer::filled(driver, book, plan.capacity_bytes, &pieces, upload)?)
}

/// Views of everything in the buffer.
pub(super) fn lifetime_views(plan: &LifetimePlan, buffer: &LifetimeBuffer) -> BTreeMap<String, View> {
    let view = |tensor: &crate::plan::LifetimeTensor| {
        let view = View::new(buffer.address(tensor.offset), tensor.dtype, &tensor.shape, tensor.bytes)?;
        Some((tensor.name.clone(), view))
    };
    plan.tensors.iter().filter_map(view).collect()
}

impl Offload {
    /// Where a tensor of the component's root module lies, by its name: see
    /// [`crate::OffloadConfig::lifetime_limit_bytes`]. The view stays valid until the session is closed, and whatever is
    /// launched may read it without a pin.
    ///
    /// # Errors
    /// [`Error::UnknownName`], also where nothing lives as long as the component; [`Error::Closed`].
    pub fn lifetime_view(&self, name: &str) -> Result<View> {
        if self.inner.lock().closed {
            return Err(Error::Closed { what: "the session" });
        }
        let place = || format!("what lives on the device as long as component {:?}", self.inner.name);
        let found = self.inner.fixed.lifetime.get(name).copied();
        found.ok_or_else(|| Error::UnknownName { kind: "tensor", name: name.into(), place: place() })
    }

    /// Names of the tensors that live on the device as long as the component.
    pub fn lifetime_names(&self) -> impl Iterator<Item = &str> {
        self.inner.fixed.lifetime.keys().map(String::as_str)
    }
}

impl Inner {
    /// What every job may read beside what is in hand.
    pub(super) fn lifetime_grant(&self, state: &State) -> Option<Grant> {
        state.lifetime.as_ref().map(|buffer| Grant::new(buffer.address(0), buffer.resident_bytes()))
    }
}
