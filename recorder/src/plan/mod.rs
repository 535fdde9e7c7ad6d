//! "What should happen?"
//!
//! May use: `limits`, `error` for refusals. Pure: values in, values out; no driver, no files, no clock.
//!
//! Invariants: a plan never exceeds the ceiling it was given; the order of units is learned, never assumed.

mod baseline;
pub mod checkpoint;
mod choose;
mod copies;
mod forecast;
mod host;
mod layout;
mod lifetime;
mod order;
mod pages;
mod parts;
mod places;
mod residency;
mod timing;
mod tree;
mod view_groups;

pub use baseline::{Baseline, least_recently_used, resident_prefix};
pub use choose::{Choice, Scene, Way, choose, steady as steady_pass_ns};
pub use copies::{BatchTensor, Cut, cut_at_fences, merged};
pub use forecast::{Costs, Forecast, LinkModel, PartCost, StreamPlan};
pub use host::{
    HostMemorySettings, RegistrationPolicy, RetainedShape, RingShape, is_spread, retained_shape, ring_shape, staging_shape,
};
pub use layout::{Layout, Packed, pack, round_up};
pub use lifetime::{LifetimePlan, LifetimeTensor, SourceSpace, SourceTensor, plan_lifetime};
pub use order::{Arrival, PassOrder};
pub use pages::{Pages, Shortage, Supply};
pub use parts::{LaunchScope, Part, PartSize, PartsPlan, cut_into_parts, ways_to_place_parts, whole_units};
pub use places::{Blocked, Claim, Fence, Holding, PlaceKey, Places, Reader, RingPlaces, SlotPlaces, Want};
pub use residency::{ResidencyPlan, UnitSize, check_slots, plan_residency};
pub use timing::{ColdStart, RegistrationTiming};
pub use tree::{Leaf, Module, Parameter, ParameterSource, PlannedUnit, Units, build_tree, execution_units};
pub use view_groups::{ViewGroup, view_groups, whole_pages};
