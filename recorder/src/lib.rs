//! The embeddable offload runtime and recorder.
//!
//! Weights stay in files and host memory and are streamed to the device under a ceiling; what happens is reported
//! honestly. Seven rooms, bottom to top:
//!
//! | room | question |
//! |---|---|
//! | `meter` | how do we count? |
//! | [`plan`] | what should happen? |
//! | [`driver`] | how do we talk to the device? |
//! | [`memory`] | where do the bytes live? |
//! | [`transfer`] | how do the bytes move? |
//! | [`session`] | when does it happen? |
//! | [`observe`] | what do we report? |
//! | [`wrap`] | how do we run a child? (the program `ddo-record`) |
//!
//! A room uses only rooms below it; `plan` is pure values and may be used by `driver` (data types), `memory`,
//! `transfer` and `session`.

pub mod config;
pub mod driver;
pub mod error;
#[doc(hidden)]
pub mod fuzz;
pub mod limits;
pub mod memory;
pub mod meter;
pub mod observe;
pub mod plan;
pub mod session;
pub mod transfer;
pub mod wrap;

pub use config::{
    Ceiling, HostMemorySettings, LaunchScope, MakeViews, MeasuredCosts, OffloadConfig, RegistrationPolicy, RegistrationTiming,
    ResidencyMode, SourceChoice,
};
pub use driver::{
    Driver, DriverError, DriverErrorKind, Element, HostContext, HostDriver, HostOptions, Job, JobError, StreamId, View,
};
pub use error::{Admission, Error, Refusal, Result};
pub use memory::{Checkpoint, HostBudget, HostTensor};
pub use observe::{
    AllocationOptions, AllocationRecord, AllocationScope, ExecutionTimer, Generation, Generations, JournalOptions,
    MetricsJournal, OperatorOptions, OperatorScope, Operators, RecordRun, SnapshotOptions, TimerOptions, Timing,
};
pub use session::{CloseReport, Component, Offload, Range, RegistrationProgress, UnitGuard, UnitId, UnitInfo, enable_offload};
