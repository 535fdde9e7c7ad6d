//! "How do we run a child?" The program `ddo-record`: a wrapper around any command.
//!
//! May use: `observe` (publication, folder claims, readings of host memory) and schemas; std, rustix, procfs, signal-hook,
//! nvml-wrapper and jiff.
//!
//! | module | question |
//! |---|---|
//! | [`request`], `parse` | what was asked for, and is it within the bounds? |
//! | [`folder`] | where does the journal go? |
//! | [`manifest`], [`clock`], [`words`] | who ran what, where, when, and how is it written down? |
//! | [`child`] | how does the command start and end? |
//! | [`signals`], [`jobs`] | who gets a signal, and who gets the terminal back? |
//! | [`memory`], `tracker`, `lines` | how much memory does the command use, phase by phase? |
//! | [`tree`], [`group`], [`device`] | which processes, control group and devices are watched? |
//! | `host_events` | what did an embedded host say? |
//! | [`story`] | why was it killed? |
//! | [`status`] | how is it going, and how large is the journal? |
//! | [`run`](mod@run) | in which order? |
//! | [`repeat`] | how do several runs come to be comparable? |
//! | [`say`], [`error`] | what do people see? |
//!
//! Invariants:
//! - the command is sacred: it keeps its standard streams, terminal and process group, gets every signal once, and its
//!   exit code is the recorder's;
//! - nothing is ever overwritten, and problems with the folder are found before the command starts;
//! - absent: no pipe between the command and its streams, no pseudo-terminal, no process group of its own, nothing on
//!   standard output, no open file that the command would inherit.

pub mod child;
pub mod clock;
pub mod device;
pub mod error;
pub mod folder;
pub mod group;
mod host_events;
pub mod jobs;
mod lines;
pub mod manifest;
pub mod memory;
mod parse;
pub mod repeat;
pub mod request;
pub mod run;
pub mod say;
pub mod signals;
pub mod status;
pub mod story;
mod tracker;
pub mod tree;
pub mod words;

pub use error::WrapError;
pub use request::Request;
pub use run::run;
