//! The one test binary: the list of stories.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod catalogue;
mod checkpoint;
mod driver_contract;
mod faults;
mod perfetto_oracle;
mod runtime;
mod simulation;
mod support;
mod tidy;
mod tidy_rules;
mod wrap;
