//! Models that run under the offload runtime, each beside a reference that bypasses it. The map:
//!
//! | module | its question |
//! |---|---|
//! | [`args`] | What did the command line ask for? |
//! | [`model`] | Where is the MiniLM checkpoint, and is it the right one? |
//! | [`plain`] | What does a checkpoint hold, read into plain host memory? |
//! | [`minilm`] | How does a real sentence encoder compute, layer by layer? |
//! | [`flux`] | What is the measured workload, at any scale? |
//! | [`run`] | How does a sample run under the runtime, and is its result right? |
//! | [`mod@bench`] | How fast does the runtime stream, against what the machine could do? |
//!
//! Programs: `ddo-sample` runs one model; `ddo-bench` measures; `ddo-demo` records and analyses one run from nothing.
//!
//! Invariants: the references never touch the runtime, so that equal bits mean that the runtime moved every byte right; weights
//! are generated or fetched, never part of the source tree; the analyzer is a program to spawn, never a library to call.

pub mod args;
pub mod bench;
pub mod flux;
pub mod host_memory;
pub mod minilm;
pub mod model;
pub mod plain;
pub mod run;

/// Compiles the README's example with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
