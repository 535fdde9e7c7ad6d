//! One file per table of the catalogue: "Which fields exist?"
//!
//! May use: units, field rules and the declaring macro. Invariant: a structure is declared where it stands first; the catalogue
//! lists the other places.

pub mod allocation;
pub mod cache_release;
pub mod capacity;
pub mod collection;
pub mod configuration;
pub mod detachment;
pub mod host_memory;
pub mod operators;
pub mod ownership;
pub mod planner_package;
pub mod settings_package;
pub mod setup;
pub mod state;
pub mod state_package;
pub mod timing;
pub mod vmm;
pub mod vmm_parts;
mod vmm_pass;
pub mod weight_source;

pub use allocation::{AllocationDiagnostics, AllocationStep, DriverDelta};
pub use cache_release::{DeviceCacheRelease, HostAllocator, HostCacheRelease};
pub use capacity::{CapacityInspection, CapacityUnit, ComponentCapacity, InspectedBuffer, InspectedParameter, SelectedModule};
pub use collection::CompletionCollection;
pub use configuration::Configuration;
pub use detachment::SourceDetachment;
pub use host_memory::{CpuStorages, HostMemory, HostSample, StorageExample, StorageSample};
pub use operators::{OperatorDiagnostics, OperatorRow, OperatorSample};
pub use ownership::{ComponentOwnership, ExecutionAuxiliaryOwnership};
pub use planner_package::{PackageBudgetDecisions, PackageVmmDecisions};
pub use settings_package::{HelperSettings, PackageBudgetSettings, PackagePinSettings, PackageVmmSettings};
pub use setup::{QuantizedBackend, Setup};
pub use state::{PlannerDecisions, SetupAction, State};
pub use state_package::{BytesByPlacement, CopyPath, PackageState, SdnqPinning, StateEntry};
pub use timing::{ExecutionTiming, StepWait};
pub use vmm::Vmm;
pub use vmm_parts::VmmParts;
pub use vmm_pass::VmmPass;
pub use weight_source::{WeightSource, WeightSourceHeader};
