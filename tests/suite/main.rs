//! The one test binary: the list of stories.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod catalogue;
mod checkpoint;
mod cli;
mod cuda_library;
mod disabled_is_free;
mod driver_contract;
mod faults;
mod golden;
mod journal_crash;
mod ledgers;
mod minilm;
mod parts;
mod parts_simulation;
mod perfetto_oracle;
mod runtime;
mod simulation;
mod story;
mod support;
mod tidy;
mod tidy_rules;
mod wrap;
