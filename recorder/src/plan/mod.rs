//! "What should happen?"
//!
//! May use: `limits`, `error` for refusals. Pure: values in, values out; no driver, no files, no clock.
//!
//! Invariants: a plan never exceeds the ceiling it was given; the order of units is learned, never assumed.

pub mod checkpoint;
mod host;
mod layout;
mod order;
mod parts;
mod residency;
mod tree;

pub use host::{HostMemorySettings, RegistrationPolicy, RetainedShape, RingShape, is_spread, retained_shape, ring_shape};
pub use layout::{Layout, Packed, pack, round_up};
pub use order::{Arrival, PassOrder};
pub use parts::{LaunchScope, Part, PartSize, PartsPlan, cut_into_parts, plan_parts, whole_units};
pub use residency::{ResidencyPlan, UnitSize, check_slots, plan_residency};
pub use tree::{Leaf, Module, Parameter, ParameterSource, PlannedUnit, Units, build_tree, execution_units};
