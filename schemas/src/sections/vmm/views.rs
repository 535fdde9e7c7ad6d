//! Tensor views made while attaching: "What does setting up the arena's tensors cost?"

use crate::section;
use crate::unit::{Seconds, Unit};

section! {
    /// Attempts and host time of each part of view setup; attach only.
    #[derive(Default)]
    pub struct Views at "runtime.vmm" {
        fast_view_prepare_calls: Option<u64> = Unit::Count("attempts"), Counter, Session, "attach",
            "Attempts to map memory for a group of tensors so that views can be made; failed ones fall back to one by one.",
            "As many as tensors: grouping did not work.",
            { deterministic: true };
        fast_view_prepare_seconds: Option<Seconds> = Unit::Seconds, Counter, Session, "attach",
            "Host time to map that transient memory, failed attempts included; no weights are copied.",
            "Fewer, larger groups shorten it.";
        fast_view_create_calls: Option<u64> = Unit::Count("attempts"), Counter, Session, "attach",
            "Attempts to wrap a place in the arena as a tensor of the framework.",
            "Equal to the attached tensors when all succeed.",
            { deterministic: true };
        fast_view_create_seconds: Option<Seconds> = Unit::Seconds, Counter, Session, "attach",
            "Host time to wrap arena addresses as framework tensors; the framework's own device setup may lie in it.",
            "Per attempt it should not depend on tensor size.";
        fast_view_release_calls: Option<u64> = Unit::Count("attempts"), Counter, Session, "attach",
            "Attempts to take the transient memory of a group away again; one that fails makes the attach fail.",
            "Equal to successful preparations in an attach that succeeded.",
            { deterministic: true };
        fast_view_release_seconds: Option<Seconds> = Unit::Seconds, Counter, Session, "attach",
            "Host time to unmap the transient memory once views exist.",
            "With preparation it is the price of grouping too little.";
    }
}
