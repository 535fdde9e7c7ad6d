//! The device memory of an attachment: arena and stream memory, the views made of the arena, and what lives as long as
//! the component.

use super::attach::map_memory;
use super::component::Component;
use super::lifetime::{lifetime_views, open_lifetime};
use super::planning::Planned;
use super::state::{PartPlan, UnitPlan};
use super::views::{FixedViews, ViewScopes, ViewSetup};
use crate::config::OffloadConfig;
use crate::driver::{DeviceFacts, Driver, StreamId, View};
use crate::error::Result;
use crate::memory::{Arena, LifetimeBuffer, MappingBook, StreamMemory};
use crate::meter::Nanos;
use crate::plan::StreamPlan;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What was taken, and what it came to.
pub(super) struct Backing {
    pub(super) memory: Memory,
    pub(super) book: Arc<MappingBook>,
    pub(super) scopes: ViewScopes,
    pub(super) fixed: Fixed,
}

/// Arena, stream memory, and the buffer that lives as long as the component, where there is one.
pub(super) type Memory = (Arena, StreamMemory, Option<LifetimeBuffer>);

/// Addresses that stay right as long as the component is attached.
#[derive(Debug, Default)]
pub(crate) struct Fixed {
    /// Of the arena, by unit and name; empty where none were asked for.
    pub(crate) views: FixedViews,
    /// Of what lives as long as the component, by name.
    pub(crate) lifetime: BTreeMap<String, View>,
    /// Bytes of the ceiling that units cannot have because of it.
    pub(crate) lifetime_charge_bytes: u64,
}

/// Maps memory for units, makes the views while nothing lies there yet, and uploads what lives as long as the component:
/// two setup actions.
///
/// # Errors
/// Those of each; everything is given back then.
///
/// # Cost
/// Waits for that upload.
pub(super) fn open_backing(
    driver: &Arc<dyn Driver>,
    (component, config, facts): (&Component, &OffloadConfig, &DeviceFacts),
    (planned, units, parts): (&Planned, &[UnitPlan], &[PartPlan]),
    upload: StreamId,
    action: &mut impl FnMut(&str, Nanos, u64),
) -> Result<Backing> {
    let clock = &*config.clock;
    let start = clock.now();
    let (book, scopes) = (Arc::new(MappingBook::default()), ViewScopes::default());
    let (mut arena, mut stream) = map_memory(driver, &book, planned, (config, facts.page_bytes))?;
    let page_bytes = facts.page_bytes;
    let everywhere = planned.placement.stream == StreamPlan::Arena;
    let setup = ViewSetup { driver: &**driver, book: &book, clock, arena: &arena, page_bytes, everywhere, scopes: &scopes };
    let views = setup.make(config.prepare_views.as_ref(), units, parts);
    action("vmm_fast_attach_native_model_arena", start, planned.managed_bytes);

    let start = clock.now();
    let rooted = views.and_then(|views| {
        let Some(plan) = &planned.lifetime else { return Ok((None, Fixed { views, ..Fixed::default() })) };
        let buffer = open_lifetime(driver, &book, component, plan, upload)?;
        let fixed = Fixed { views, lifetime: lifetime_views(plan, &buffer), lifetime_charge_bytes: plan.capacity_bytes };
        action("vmm_fast_component_lifetime_to_device", start, plan.payload_bytes);
        Ok((Some(buffer), fixed))
    });
    match rooted {
        Ok((lifetime, fixed)) => Ok(Backing { memory: (arena, stream, lifetime), book, scopes, fixed }),
        Err(error) => {
            let _ = stream.release().and(arena.release());
            Err(error)
        }
    }
}
