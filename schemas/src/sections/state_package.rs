//! State of a component in reports of the Python package: "What was placed where, and what was copied?"
//!
//! May use: units and the declaring macro. Invariant: `_gb` counts GiB, rounded; sums of rounded values differ from the total
//! in the last digit.

use crate::field::{Rate, RateScope};
use crate::section;
use crate::unit::{Gib, Seconds, Unit};
use std::collections::BTreeMap;

section! {
    /// Work of one copy path.
    pub struct CopyPath at "runtime.state.copy_runtime.*" {
        calls: u64 = Unit::Count("calls"), Counter, Session, "forward",
            "Copies issued on this path.",
            "Divide by the steps for the copies of one.";
        seconds: Seconds = Unit::Seconds, Counter, Session, "forward",
            "Host time spent issuing these copies; they run on after it.",
            "Not a transfer time: a rate from it can exceed any link.";
        gb: Gib = Unit::Gib, Counter, Session, "forward",
            "Payload handed to this path so far.",
            "Divide by the steps for the traffic of one.",
            { rate: Some(Rate { seconds: "seconds", scope: RateScope::Enqueue }) };
    }
}

section! {
    /// Payload by where it was placed.
    pub struct BytesByPlacement at "runtime.state.bytes_by_placement" {
        resident_module: Option<Gib> = Unit::Gib, Gauge, Session, "attach",
            "Payload of modules that stay on the device as a whole.",
            "Raise the resident budget to enlarge it.";
        resident_small: Option<Gib> = Unit::Gib, Gauge, Session, "attach",
            "Payload of tensors kept on the device because they are small.",
            "The small tensor threshold decides it.";
        streamed_large: Option<Gib> = Unit::Gib, Gauge, Session, "attach",
            "Payload that is copied to the device when it is needed.",
            "This is the traffic of one step.";
    }
}

section! {
    /// Quantised parameters on the host after preparation; the plain quantised route only.
    pub struct SdnqPinning at "runtime.state.sdnq_parameter_pinning" {
        pinned_count: Option<u64> = Unit::Count("parameters"), Gauge, Session, "attach",
            "Host parameters in page-locked memory; one object counts once, storage shared by two objects twice.",
            "Zero in an older report proves nothing about the loader.";
        unpinned_count: Option<u64> = Unit::Count("parameters"), Gauge, Session, "attach",
            "Host parameters left in pageable memory.",
            "Their copies cannot run beside compute.";
        pinned_gb: Option<Gib> = Unit::Gib, Gauge, Session, "attach",
            "Packed payload of the page-locked ones, scales included.",
            "Neither device memory nor a peak of main memory.";
        unpinned_gb: Option<Gib> = Unit::Gib, Gauge, Session, "attach",
            "Packed payload of the pageable ones, scales included.",
            "Compare with the pinning budget.";
    }
}

section! {
    /// One tensor of the component.
    pub struct StateEntry at "runtime.state.entries[]" {
        module_name: Option<String> = Unit::Text, Identity, Session, "attach",
            "Path of the module that owns the tensor.",
            "Match tensors of two runs by it.";
        module_type: Option<String> = Unit::Label, Label, Session, "attach",
            "Class of the owning module.",
            "Only some classes are offloaded.";
        tensor_name: Option<String> = Unit::Text, Identity, Session, "attach",
            "Name of the tensor inside its module.",
            "With the module's path it names the tensor.";
        shape: Option<Vec<u64>> = Unit::Count("elements"), Limit, Session, "attach",
            "Extent of the tensor in each dimension.",
            "Packed formats have fewer elements than the layer suggests.";
        dtype: Option<String> = Unit::Label, Label, Session, "attach",
            "Element type of the tensor.",
            "A different type changes every byte count.";
        device: Option<String> = Unit::Label, Label, Session, "attach",
            "Where the tensor lay when the report was made.",
            "Streamed tensors show their home, not their last use.";
        gb: Option<Gib> = Unit::Gib, Gauge, Session, "attach",
            "Payload of one tensor, to six decimals.",
            "Small tensors round to nothing; count them by number.";
        placement: Option<String> = Unit::Label, Label, Session, "attach",
            "Which placement the plan gave the tensor.",
            "Sum entries of one placement to see its members.";
    }
}

section! {
    /// The rest of the state, in reports of the Python package.
    #[derive(Default)]
    pub struct PackageState at "runtime.state" {
        patched_module_count: Option<u64> = Unit::Count("modules"), Gauge, Session, "attach",
            "Modules whose forward was replaced to fetch weights.",
            "Fewer than the modules: the rest is resident.", { deterministic: true };
        bytes_by_placement: Option<BytesByPlacement> = Unit::Structure, Structure, Session, "attach",
            "Payload split by placement.",
            "See its rows.";
        copy_runtime: Option<BTreeMap<String, CopyPath>> = Unit::Structure, Structure, Session, "snapshot",
            "Copies by the path that issued them.",
            "See its rows.";
        selected_resident_modules: Option<Vec<String>> = Unit::Text, Identity, Session, "attach",
            "Modules that were chosen to stay on the device.",
            "Check that they are spread over the model.";
        selected_resident_linear_weights: Option<Vec<String>> = Unit::Text, Identity, Session, "attach",
            "Single linear modules whose weight was kept on the device.",
            "Empty where whole modules are chosen.";
        selected_pinned_linear_weights: Option<Vec<String>> = Unit::Text, Identity, Session, "attach",
            "Linear modules whose weight is page-locked on the host.",
            "A streamed module that is missing here copies slowly.";
        resolved_resident_module_patterns: Option<Vec<String>> = Unit::Text, Label, Session, "attach",
            "Patterns of residents after `auto` was replaced.",
            "Empty: no module could become a resident.";
        sdnq_parameter_pinning: Option<SdnqPinning> = Unit::Structure, Structure, Session, "attach",
            "Where quantised parameters lie on the host.",
            "See its rows.";
        entries: Option<Vec<StateEntry>> = Unit::Structure, Structure, Session, "attach",
            "Every tensor that the plan knows.",
            "See its rows.";
    }
}
