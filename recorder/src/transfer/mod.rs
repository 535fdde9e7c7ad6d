//! "How do the bytes move?"
//!
//! May use: `memory`, `driver`, `meter`, `plan` (values only), `limits`, `error`.
//!
//! Invariants: one batch a part, built once; a copy owns its source bytes until it has run; an event is used again
//! only after its completion was proven; nothing here waits on the host.

mod batch;
mod event_pool;
mod ticket;

pub use batch::{PartBatch, Stage};
pub use event_pool::{EventLevels, EventPool};
pub use ticket::{Ticket, TicketLedger};
