//! "How do the bytes move?"
//!
//! May use: `memory`, `driver`, `meter`, `plan` (values only), `limits`, `error`.
//!
//! Invariants: one batch a part, built once and again when more of its bytes are registered; a copy owns its source bytes until it has run; an event is used again
//! only after its completion was proven; threads that read files make no driver call. Only the supply of bytes that no
//! lease covers waits on the host, for a file read or a ring slot, and counts it.

mod batch;
mod event_pool;
mod source_reader;
mod store;
mod supply;
mod ticket;

pub use batch::{PartBatch, Stage};
pub use event_pool::{EventLevels, EventPool};
pub use source_reader::{Purpose, ReadBook, ReadCounts, ReadFailure, ReadFrom, Reading, SourceReaders};
pub use store::StoreLevels;
pub use supply::{Stopped, Supply, SupplyBook};
pub use ticket::{Ticket, TicketLedger};
