//! "How do the bytes move?"
//!
//! May use: `memory`, `driver`, `meter`, `plan` (values only), `limits`, `error`.
//!
//! Invariants: one batch a part, built once and again when more of its bytes are registered; a copy owns its source bytes until it has run; an event is used again
//! only after its completion was proven; threads that read files make no driver call. Only bytes that the device cannot read
//! where they lie are waited for on the host, for a file read or for a slot, and that is counted.

mod ahead;
mod batch;
mod book;
mod event_pool;
mod source_reader;
mod staged;
mod store;
mod supply;
mod ticket;

pub use ahead::AheadBook;
pub use batch::{Carrier, PartBatch, Stage};
pub use book::SupplyBook;
pub use event_pool::{EventLevels, EventPool};
pub use source_reader::{Purpose, ReadBook, ReadCounts, ReadFailure, ReadFrom, Reading, SourceReaders};
pub use staged::{Staged, StagedBook};
pub use store::StoreLevels;
pub use supply::{Stopped, Supply};
pub use ticket::{Ticket, TicketLedger};
