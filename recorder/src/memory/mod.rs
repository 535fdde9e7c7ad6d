//! "Where do the bytes live?"
//!
//! May use: `driver`, `meter`, `plan` (values only), `limits`, `error`.
//!
//! Invariants: knows no units, only sizes, places and leases. Mapped device memory never exceeds what the ledger was
//! given. What cannot be proven free is quarantined, never reused.

mod arena;
mod checkpoint;
mod mapping;
mod registration;
mod sources;
mod stream;

pub use arena::{Arena, ArenaLevels};
pub use checkpoint::Checkpoint;
pub use mapping::{GiveBackError, MappingBook, give_back, map_fresh};
pub use registration::Registrations;
pub use sources::{HostTensor, SourceBytes, SourceKind, Sources};
pub use stream::{Consumer, StreamClaim, StreamMemory};
