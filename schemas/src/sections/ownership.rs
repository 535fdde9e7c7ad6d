//! Who owns which tensors: "What did the native adapters take over?"
//!
//! May use: units and the declaring macro. Invariant: all values describe the attachment; none is a measured use of memory.

use crate::section;
use crate::unit::Unit;

section! {
    /// Tensors of a component that the component adapter owns; present only where it was asked for.
    pub struct ComponentOwnership at "runtime.component_ownership" {
        schema_version: Option<u32> = Unit::Version, Version, Session, "attach",
            "Version of the component ownership structure.",
            "A reader refuses a newer version.";
        parameter_groups: Option<u64> = Unit::Count("identity groups"), Gauge, Session, "attach",
            "Parameters bound natively; one that several modules share counts once.",
            "Fewer than the model's names where weights are tied.", { deterministic: true };
        buffer_groups: Option<u64> = Unit::Count("identity groups"), Gauge, Session, "attach",
            "Buffers placed on the device separately, shared ones once.",
            "They are no file-backed weights.", { deterministic: true };
        payload_bytes: Option<u64> = Unit::Bytes, Gauge, Session, "layout",
            "Address span of the owned parameters, alignment included.",
            "Not what is resident.", { deterministic: true };
        buffer_bytes: Option<u64> = Unit::Bytes, Gauge, Session, "preflight",
            "Payload of the separate buffers, each copied once and charged to the buffer limit.",
            "The allocator may take more for it.", { deterministic: true };
        execution_units: Option<u64> = Unit::Count("units"), Gauge, Session, "attach",
            "Disjoint groups that are made resident and released together.",
            "Says nothing about the order of the forward.", { deterministic: true };
        lookahead: Option<bool> = Unit::Flag, Flag, Session, "attach",
            "Whether units of this adapter are uploaded ahead.",
            "False: every unit is waited for.";
        component_lifetime_parameter_groups: Option<u64> = Unit::Count("identity groups"), Gauge, Session, "attach",
            "Root parameters that live as long as the component.",
            "A parameter shared with a streamed unit is refused.", { deterministic: true };
        component_lifetime_parameter_bytes: Option<u64> = Unit::Bytes, Gauge, Session, "attach",
            "Exact payload of those root parameters, without page padding.",
            "With the buffers it must fit the component's limit.", { deterministic: true };
        component_lifetime_native_capacity_bytes: Option<u64> = Unit::Bytes, Gauge, Session, "publication",
            "Size of the one native buffer behind the root parameters, in whole pages.",
            "Not a measured use of the device.", { deterministic: true };
        component_lifetime_budget_charge_bytes: Option<u64> = Unit::Bytes, Limit, Session, "attach",
            "What the root parameters take away from the host's total weight ceiling.",
            "Must equal the native buffer.", { deterministic: true };
        declared_total_weight_ceiling_bytes: Option<u64> = Unit::Bytes, Limit, Session, "attach",
            "Weight ceiling as the host gave it.",
            "A limit, not a level.", { deterministic: true };
        arena_weight_ceiling_bytes: Option<u64> = Unit::Bytes, Limit, Session, "attach",
            "What the root parameters leave of that ceiling for streaming.",
            "A small rest can refuse every streamed unit.", { deterministic: true };
        component_lifetime_uploads: Option<u64> = Unit::Count("uploads"), Gauge, Session, "publication",
            "Uploads of the root parameters: one, at setup.",
            "More than one: they were lost and brought back.", { deterministic: true };
    }
}

section! {
    /// Small parameters beside the weights that were attached natively; present only where it was asked for.
    pub struct ExecutionAuxiliaryOwnership at "runtime.execution_auxiliary_ownership" {
        schema_version: Option<u32> = Unit::Version, Version, Session, "attach",
            "Version of the auxiliary ownership structure.",
            "A reader refuses a newer version.";
        parameter_groups: Option<u64> = Unit::Count("identity groups"), Gauge, Session, "attach",
            "Auxiliary parameters attached, shared ones once.",
            "Zero: the model has none above the small threshold.", { deterministic: true };
        parameter_bytes: Option<u64> = Unit::Bytes, Gauge, Session, "attach",
            "Payload of the auxiliary parameters before alignment.",
            "Look at slot capacity and transfers for what it costs.", { deterministic: true };
        budget_policy: Option<String> = Unit::Label, Label, Session, "attach",
            "`existing_native_ceiling`: the bytes enter the ordinary admission.",
            "No second budget exists.";
        residency_cache: Option<bool> = Unit::Flag, Flag, Session, "attach",
            "False: nothing beside the native runtime keeps them resident.",
            "Nothing to do.";
        preserved_small_tensor_threshold_bytes: Option<u64> = Unit::Bytes, Limit, Session, "attach",
            "Size up to which tensors keep their ordinary placement on the device.",
            "It is no ceiling of residency.", { deterministic: true };
    }
}
