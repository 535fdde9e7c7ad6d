//! "When does it happen?" The conductor: attach, unit, view, launch, release, step, close.
//!
//! May use: `transfer`, `memory`, `driver`, `plan`, `meter`, `config`, `limits`, `error`.
//!
//! Invariants: asking for a unit never waits on the host for a copy of its own (where bytes pass through staging slots, it may
//! wait for a file read or for the oldest copy out of a slot, counted); order between copies and work comes from events
//! alone; a pin returns only when the end of the work that holds it is proven; nothing here knows who observes it.

mod accounts;
mod attach;
mod audit;
mod backing;
mod close;
mod component;
mod counters;
mod launch;
mod learning;
mod levels;
mod lifetime;
mod marks;
mod paged;
mod place;
mod planning;
mod predict;
mod ranges;
mod registering;
mod rows;
mod shapes;
mod slot;
mod state;
mod supply;
mod unit;
mod upload;
mod views;

pub use attach::enable_offload;
pub use close::CloseReport;
pub use component::Component;
pub use levels::Levels;
pub use marks::{MarkToken, Marks, StepMarks, StepToken};
pub use ranges::{Range, RangeKind, Ranges};
pub use registering::RegistrationProgress;
pub use state::{CompletionCounts, Offload, UnitId, UnitInfo};
pub use unit::UnitGuard;

pub(crate) use counters::Counters;
pub(crate) use learning::PassForecast;
pub(crate) use state::Inner;
pub(crate) use supply::lock as lock_supply;
pub(crate) use views::ViewScopes;
