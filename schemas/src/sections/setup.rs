//! `setup` of a report: "What did a helper or the applied route observe?"
//!
//! May use: the tables of the helpers. Invariant: a report of an attached component of this recorder has none of it; keys that
//! the Python package copies here from the state or the settings are kept as they are.

use super::cache_release::{DeviceCacheRelease, HostCacheRelease};
use super::capacity::{CapacityInspection, ComponentCapacity};
use super::detachment::SourceDetachment;
use super::host_memory::HostMemory;
use super::weight_source::WeightSource;
use crate::section;
use crate::unit::Unit;
use serde_json::Value;
use std::collections::BTreeMap;

section! {
    /// Modules of a quantised backend that the package recognised.
    pub struct QuantizedBackend at "setup.quantized_backend" {
        sdnq_module_count: Option<u64> = Unit::Count("modules"), Gauge, Session, "attach",
            "Modules whose weights are stored quantised.",
            "Above zero the quantised route may apply.", { deterministic: true };
        sdnq_status: Option<String> = Unit::Label, Label, Session, "attach",
            "What the package did about quantised modules, in its own word.",
            "The specification lists no words; compare only.";
    }
}

section! {
    /// Observations of helper routes and of routes that only place modules.
    #[derive(Default)]
    pub struct Setup at "setup" {
        weight_source: Option<WeightSource> = Unit::Structure, Structure, Scope, "after loading",
            "Loaded weights and their checkpoint ranges.",
            "See its rows.";
        capacity_inspection: Option<CapacityInspection> = Unit::Structure, Structure, Scope, "inspection",
            "Sizes from metadata alone.",
            "See its rows.";
        component_capacity: Option<ComponentCapacity> = Unit::Structure, Structure, Scope, "preflight",
            "Sizes of a loaded component.",
            "See its rows.";
        host_memory: Option<HostMemory> = Unit::Structure, Structure, Scope, "phase boundary",
            "Host memory and the storages behind a module.",
            "See its rows.";
        host_cache_release: Option<HostCacheRelease> = Unit::Structure, Structure, Scope, "phase boundary",
            "Release of idle page-locked blocks.",
            "See its rows.";
        device_cache_release: Option<DeviceCacheRelease> = Unit::Structure, Structure, Scope, "phase boundary",
            "Trim of idle device memory.",
            "See its rows.";
        auxiliary_source_detachment: Option<SourceDetachment> = Unit::Structure, Structure, Scope, "before the first forward",
            "Small sources moved off their shards.",
            "See its rows.";
        quantized_backend: Option<QuantizedBackend> = Unit::Structure, Structure, Session, "attach",
            "What is known about quantised modules.",
            "See its rows.";
        offload_type: Option<String> = Unit::Label, Label, Session, "attach, group route",
            "Whether the group route moves blocks or leaves: `block_level` or `leaf_level`.",
            "Leaves need less device memory and more copies.";
        use_stream: Option<bool> = Unit::Flag, Flag, Session, "attach, group route",
            "Whether the group route copies on a stream of its own.",
            "Off: copies and compute alternate.";
        record_stream: Option<bool> = Unit::Flag, Flag, Session, "attach, group route",
            "Whether tensors are tied to the copying stream instead of waited for.",
            "Saves waits, holds memory longer.";
        low_cpu_mem_usage: Option<bool> = Unit::Flag, Flag, Session, "attach, group route",
            "Whether the group route page-locks only what it is about to copy.",
            "Saves host memory, costs time.";
        num_blocks_per_group: Option<u64> = Unit::Count("blocks"), Limit, Session, "attach, group route",
            "Blocks that the group route moves together.",
            "More blocks mean fewer, larger copies.";
        unmanaged_module_moved_to_execution_device: Option<bool> = Unit::Flag, Flag, Session, "attach, no route",
            "Whether a module that no route manages was placed on the device whole.",
            "Its memory is outside every ceiling.";
    }
    flatten { rest: BTreeMap<String, Value> }
}
