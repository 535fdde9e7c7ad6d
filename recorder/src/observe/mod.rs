//! "What do we report?"
//!
//! May use: `session` and every room below it.
//!
//! Invariants: reading never waits and changes nothing, except where a snapshot is asked to collect. What is off
//! makes no driver call, no file and no folder. Nothing that exists is ever overwritten.

mod allocation;
pub mod folder;
mod generations;
mod host_events;
pub mod host_memory;
mod journal;
pub mod operators;
pub mod publish;
mod run;
mod snapshot;
mod source_rows;
mod timeline;
mod timer;
mod windows;

pub use allocation::{AllocationOptions, AllocationRecord, AllocationScope};
pub use generations::{Generation, Generations, ObservedGeneration};
pub use host_events::{DISK_STOP_FILE, HOST_EVENTS_FILE, ranks_of_environment};
pub(crate) use journal::STEP_FILE_START;
pub use journal::{JournalOptions, MetricsJournal};
pub use operators::{OperatorOptions, OperatorScope, Operators};
pub use run::RecordRun;
pub use snapshot::SnapshotOptions;
pub use timer::{ExecutionTimer, TimerOptions, Timing};
