//! The shared language of the recorder and the analyzer: "What do the words mean?"
//!
//! Every number that a run writes is declared here once, with its unit, kind, lifetime, the boundary where it is
//! collected, its meaning and what to do about it. From that one declaration come the Rust structs, the JSON
//! Schemas in `json/`, `FIELDS.md` and the analyzer's `explain`.
//!
//! | module | question |
//! |---|---|
//! | [`mod@unit`] | in which unit is it counted? |
//! | [`field`], [`mod@section`] | how is a field declared? |
//! | [`sections`] | which fields exist, table by table? |
//! | [`report`] | what does one report contain? |
//! | [`timeline`] | which windows did a stream pass through? |
//! | [`journal`] | how is a partial record wrapped and named? |
//! | [`manifest`], [`settings`], [`memory`] | what does `ddo-record` write and hand over? |
//! | [`summary`] | what does `ddo-analyze` print for machines? |
//! | [`reconciliation`], [`deltas`], [`check`] | what do its other documents hold? |
//! | [`verdict`] | what does a comparison of runs answer? |
//! | [`scalar`] | how is one value of any field written? |
//! | [`tracker`] | how much memory did a whole run use? |
//! | [`catalogue`] | all field rows, looked up by JSON path |
//! | [`scope`] | which host time lies inside which? |
//! | [`words`] | what do the rules of a row say to people? |
//! | [`generate`] | the generated files, as text |
//!
//! Invariants: no I/O, no unsafe code, no GPU. An unavailable value is `None` and left out of JSON; zero is a
//! measurement. Integers are exact to 64 bits.

pub mod catalogue;
pub mod check;
pub mod deltas;
pub mod field;
pub mod finding;
pub mod generate;
pub mod journal;
pub mod manifest;
pub mod memory;
pub mod reconciliation;
pub mod report;
pub mod scalar;
pub mod scope;
pub mod section;
pub mod sections;
pub mod settings;
pub mod summary;
pub mod timeline;
pub mod tracker;
pub mod unit;
pub mod verdict;
pub mod version;
pub mod words;

pub use field::{Field, Kind, Lifetime};
pub use finding::{Finding, Severity};
pub use report::Report;
pub use unit::{Gib, Nullable, Ratio, Seconds, Unit};
