//! `ddo-analyze`: turns a journal folder into a Perfetto trace, a summary for machines and one screen for people.
//!
//! A pipeline of four rooms; an arrow points to what may be used:
//!
//! ```text
//!  output -> analysis -> run <- ingest
//! ```
//!
//! | module | question |
//! |---|---|
//! | [`ingest`] | what did we find on disk? (reads files; values and findings) |
//! | [`run`] | what happened? (plain values) |
//! | [`analysis`] | what does it mean? (pure) |
//! | [`output`] | how do we show it? (trace, summary, terminal) |
//! | [`cli`] | what was asked for? |
//! | [`text`], [`limits`], [`error`] | small helpers, every bound, the error type |
//!
//! Invariants: input is never trusted and never fatal per file; absent is never zero; integers stay exact; the same
//! input gives the same bytes; the input is never written to.

pub mod analysis;
pub mod cli;
pub mod error;
pub mod ingest;
pub mod limits;
pub mod output;
pub mod run;
pub mod text;

pub use error::Error;
pub use output::{Options, analyze};
