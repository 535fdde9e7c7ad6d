//! Sizes of a component before it is attached: "Would it fit, and what would be managed?"
//!
//! May use: units and the declaring macro. Invariant: metadata only; equal inputs give equal values, and nothing here proves
//! that a device admitted anything.

use crate::section;
use crate::unit::Unit;

section! {
    /// One module that the attachment would select.
    pub struct SelectedModule at "setup.capacity_inspection.selected_modules[]" {
        name: Option<String> = Unit::Text, Identity, Scope, "inspection",
            "Path of a module that would be managed.",
            "Check that the pattern reaches what you expect.";
        class: Option<String> = Unit::Label, Label, Scope, "inspection",
            "Class of a module that would be managed.",
            "Only dense linear classes are selected.";
        execution_unit: Option<String> = Unit::Text, Identity, Scope, "inspection",
            "Group that would be made resident together with this module.",
            "Very uneven groups make large slots.";
    }
}

section! {
    /// One parameter of the inspected component.
    pub struct InspectedParameter at "setup.capacity_inspection.parameters[]" {
        names: Option<Vec<String>> = Unit::Text, Identity, Scope, "inspection",
            "All names that lead to one parameter object.",
            "More than one: the parameter is tied.";
        selected_names: Option<Vec<String>> = Unit::Text, Identity, Scope, "inspection",
            "Of these names, those whose module would be managed.",
            "Empty: the parameter stays outside.";
        nonselected_names: Option<Vec<String>> = Unit::Text, Identity, Scope, "inspection",
            "Of these names, those whose module would not be managed.",
            "Beside a managed name it needs explicit handling.";
        shape: Option<Vec<u64>> = Unit::Count("elements"), Limit, Scope, "inspection",
            "Extent of the parameter in each dimension.",
            "Compare with the checkpoint.";
        dtype: Option<String> = Unit::Label, Label, Scope, "inspection",
            "Element type of the parameter in memory.",
            "It may differ from the file's after a cast.";
        bytes: Option<u64> = Unit::Bytes, Measure, Scope, "inspection",
            "Payload of one parameter.",
            "Sum over the list for the component.", { deterministic: true };
    }
}

section! {
    /// One buffer of the inspected component.
    pub struct InspectedBuffer at "setup.capacity_inspection.buffers[]" {
        name: Option<String> = Unit::Text, Identity, Scope, "inspection",
            "Path of a buffer.",
            "Buffers are placed apart from weights.";
        shape: Option<Vec<u64>> = Unit::Count("elements"), Limit, Scope, "inspection",
            "Extent of the buffer in each dimension.",
            "A buffer that grows with the input does not belong to the weights.";
        dtype: Option<String> = Unit::Label, Label, Scope, "inspection",
            "Element type of the buffer.",
            "Nothing to do.";
        bytes: Option<u64> = Unit::Bytes, Measure, Scope, "inspection",
            "Payload of one buffer.",
            "Add it to what the device must hold.", { deterministic: true };
    }
}

section! {
    /// What the attachment's own selector would take; nothing is loaded or moved.
    pub struct CapacityInspection at "setup.capacity_inspection" {
        schema_version: Option<u32> = Unit::Version, Version, Scope, "inspection",
            "Version of what an inspection without data reports.",
            "A reader refuses a newer version.";
        observation: Option<String> = Unit::Label, Label, Scope, "inspection",
            "`metadata_only`: shapes were read, no data.",
            "Do not read device memory into it.";
        module_pattern: Option<String> = Unit::Text, Label, Scope, "inspection",
            "Regular expression that the selector applied.",
            "Use the run's own.";
        selected_module_count: Option<u64> = Unit::Count("modules"), Measure, Scope, "inspection",
            "Modules that would be managed.",
            "Zero: the pattern or the classes do not match.", { deterministic: true };
        selected_modules: Option<Vec<SelectedModule>> = Unit::Structure, Structure, Scope, "inspection",
            "These modules one by one.",
            "See its rows.";
        selected_aligned_payload_bytes: Option<u64> = Unit::Bytes, Measure, Scope, "inspection",
            "Arena layout of all selected bindings with alignment; a shared parameter counts for each binding.",
            "Neither device memory nor the size of a cache.", { deterministic: true };
        unique_parameter_bytes: Option<u64> = Unit::Bytes, Measure, Scope, "inspection",
            "Payload of all parameter objects, each once; two objects over one storage count twice.",
            "The whole component as the module tree sees it.", { deterministic: true };
        selected_unique_parameter_bytes: Option<u64> = Unit::Bytes, Measure, Scope, "inspection",
            "Payload of parameters with at least one managed owner.",
            "Not all owners of such a parameter need be managed.", { deterministic: true };
        nonselected_unique_parameter_bytes: Option<u64> = Unit::Bytes, Measure, Scope, "inspection",
            "Payload of parameters with at least one owner that is not managed.",
            "Someone else must place them.", { deterministic: true };
        shared_selected_nonselected_bytes: Option<u64> = Unit::Bytes, Measure, Scope, "inspection",
            "Payload that the last two totals both contain.",
            "Subtract it when you add them; above zero, tied weights cross the border.", { deterministic: true };
        parameters: Option<Vec<InspectedParameter>> = Unit::Structure, Structure, Scope, "inspection",
            "Parameters one by one, without data or addresses.",
            "See its rows.";
        unique_buffer_bytes: Option<u64> = Unit::Bytes, Measure, Scope, "inspection",
            "Payload of all named buffers, shared ones once.",
            "They are outside the weight ceiling.", { deterministic: true };
        buffers: Option<Vec<InspectedBuffer>> = Unit::Structure, Structure, Scope, "inspection",
            "Named buffers with their shape and type.",
            "See its rows.";
    }
}

section! {
    /// One execution unit of a loaded component.
    pub struct CapacityUnit at "setup.component_capacity.units[]" {
        name: Option<String> = Unit::Text, Identity, Scope, "preflight",
            "Path of the unit in the module tree.",
            "Match units of two models by it.";
        parameter_groups: Option<u64> = Unit::Count("identity groups"), Measure, Scope, "preflight",
            "Parameters of the unit, shared ones once.",
            "Each is one range of the unit's upload.", { deterministic: true };
        execution_slot_payload_bytes: Option<u64> = Unit::Bytes, Measure, Scope, "preflight",
            "The unit packed at 512 bytes a parameter.",
            "The largest one decides the slot.", { deterministic: true };
    }
}

section! {
    /// Geometry of a loaded component before a driver is opened.
    pub struct ComponentCapacity at "setup.component_capacity" {
        schema_version: Option<u32> = Unit::Version, Version, Scope, "preflight",
            "Version of the preflight structure.",
            "A reader refuses a newer version.";
        parameter_groups: Option<u64> = Unit::Count("identity groups"), Measure, Scope, "preflight",
            "Parameters of the loaded component, shared ones once.",
            "Compare with the bound storages of its weight source.", { deterministic: true };
        buffer_groups: Option<u64> = Unit::Count("identity groups"), Measure, Scope, "preflight",
            "Buffers of the loaded component, shared ones once.",
            "Many: look at their payload.", { deterministic: true };
        payload_bytes: Option<u64> = Unit::Bytes, Measure, Scope, "preflight",
            "Address span that the component's parameters would take, alignment included.",
            "The arena needs this much address space.", { deterministic: true };
        buffer_bytes: Option<u64> = Unit::Bytes, Measure, Scope, "preflight",
            "Payload that the component's buffers would take once copied.",
            "Must stay within the buffer limit.", { deterministic: true };
        execution_units: Option<u64> = Unit::Count("units"), Measure, Scope, "preflight",
            "Groups that the component would be streamed in.",
            "One unit alone cannot be streamed.", { deterministic: true };
        lookahead: Option<bool> = Unit::Flag, Flag, Scope, "preflight",
            "Whether the preflight assumes uploads ahead of use.",
            "Always false at this boundary.";
        component_lifetime_parameter_groups: Option<u64> = Unit::Count("identity groups"), Measure, Scope, "preflight",
            "Root parameters that would stay for the component's whole life.",
            "Absent unless 8-bit ownership was asked for.", { deterministic: true };
        component_lifetime_parameter_bytes: Option<u64> = Unit::Bytes, Measure, Scope, "preflight",
            "Payload of the root parameters that would stay.",
            "With the buffers it must fit the limit before anything is attached.", { deterministic: true };
        observation: Option<String> = Unit::Label, Label, Scope, "preflight",
            "`loaded_source_preflight`: loaded host tensors were measured, no device was opened.",
            "Do not take it for an execution.";
        native_admission_validated: Option<bool> = Unit::Flag, Flag, Scope, "preflight",
            "Always false: no device was asked for memory.",
            "Only an attachment shows that it fits.";
        unique_parameter_bytes: Option<u64> = Unit::Bytes, Measure, Scope, "preflight",
            "Payload of the loaded component's parameters, each object once, buffers left out.",
            "Compare with the weight ceiling.", { deterministic: true };
        execution_slot_count: Option<u64> = Unit::Count("slots"), Limit, Scope, "preflight",
            "Slots of the classic execution pool: two.",
            "The runtime may be configured for more.", { deterministic: true };
        execution_slot_payload_bytes: Option<u64> = Unit::Bytes, Measure, Scope, "preflight",
            "Largest packed unit; one slot must hold it.",
            "Pages round it up on the device.", { deterministic: true };
        execution_slot_total_payload_bytes: Option<u64> = Unit::Bytes, Measure, Scope, "preflight",
            "Slot payload times slots: the least that streaming needs beside residents.",
            "Not a recommended ceiling.", { deterministic: true };
        units: Option<Vec<CapacityUnit>> = Unit::Structure, Structure, Scope, "preflight",
            "What each group of the component would need in a slot.",
            "See its rows.";
    }
}
