//! One file per table of the catalogue: "Which fields exist?"

pub mod collection;
pub mod configuration;
pub mod state;
pub mod timing;
pub mod vmm;
pub mod vmm_parts;

pub use collection::CompletionCollection;
pub use configuration::Configuration;
pub use state::{PlannerDecisions, SetupAction, State};
pub use timing::ExecutionTiming;
pub use vmm::Vmm;
pub use vmm_parts::VmmParts;
