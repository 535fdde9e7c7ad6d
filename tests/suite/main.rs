//! The one test binary: the list of stories.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

mod catalogue;
mod catalogue_rules;
mod check;
mod checkpoint;
mod cli;
mod compat;
mod compat_broken;
mod cuda_library;
mod delta;
mod diff;
mod disabled_is_free;
mod driver_contract;
mod faults;
mod fuzz;
mod golden;
mod journal_crash;
mod ledgers;
mod minilm;
mod operator_scopes;
mod operators;
mod parts;
mod parts_simulation;
mod perfetto_oracle;
mod power;
mod profile;
mod reconcile;
mod runtime;
mod simulation;
mod story;
mod support;
mod tidy;
mod tidy_rules;
mod vmm_rows;
mod wrap;
mod wrap_jobs;
mod wrap_memory;

#[global_allocator]
static ALLOCATOR: support::ffi::Counting = support::ffi::Counting;
