//! The settings that a component was attached with.

use super::settings_package::{HelperSettings, PackageBudgetSettings, PackagePinSettings, PackageVmmSettings};
use crate::section;
use crate::unit::Unit;

section! {
    /// Settings as requested, resolved for one component.
    pub struct Configuration at "configuration" {
        component: String = Unit::Label, Label, Session, "attach",
            "Name of the component, such as `transformer`.",
            "Reports of two components are never compared.";
        dynamic_offload_execution_mode: String = Unit::Label, Label, Session, "attach",
            "The executed route: `vmm_fast_runtime`.",
            "Compare runs of one route only.";
        driver: String = Unit::Label, Label, Session, "attach",
            "Which driver runs the streams: `host` or `cuda`.",
            "Times of the host driver say nothing about a GPU.";
        weight_ceiling_bytes: u64 = Unit::Bytes, Limit, Session, "attach",
            "The most device memory that weights of this component may occupy, arena pages, and slots or stream ring.",
            "Raise it to keep more units resident.";
        requested_source: String = Unit::Label, Label, Session, "attach",
            "The source asked for: `auto`, `mapped`, `retained`, `ring` or `cpu`.",
            "The effective one stands in the planner decisions.";
        requested_source_registration_timing: Option<String> = Unit::Label, Label, Session, "attach",
            "The time asked for at which mapped segments are registered: `auto`, `attach`, `background` or `host`.",
            "With `auto` it is the background where that is a gain; the planner decisions say which.";
        residency_mode: String = Unit::Label, Label, Session, "attach",
            "What comes and goes as one: `classic`, whole units in fixed slots, or `parts`, parts of units in a ring.",
            "Runs of different modes are not compared.";
        requested_residency_mode: Option<String> = Unit::Label, Label, Session, "attach",
            "The mode asked for: `auto`, `classic` or `parts`.",
            "With `auto` the mode that streams less was taken.";
        launch_scope: Option<String> = Unit::Label, Label, Session, "attach",
            "What one launch reads: `units`, or `parts` one after the other.",
            "Launches part by part need a smaller ring and let later parts arrive meanwhile.";
        least_part_bytes: Option<u64> = Unit::Bytes, Limit, Session, "attach",
            "Smaller tensors travel with their neighbours until a part has so many bytes.",
            "Small parts cost a copy and an event each.";
        device_reserve_bytes: Option<u64> = Unit::Bytes, Limit, Session, "attach",
            "Device memory that the arena leaves to others when it grows; left out without such a reserve.",
            "Requests that it declines are counted apart from those that the ceiling declines.";
        execution_slots: u64 = Unit::Count("slots"), Limit, Session, "attach",
            "Slots asked for, at least two; used in the classic mode.",
            "More slots mean deeper look-ahead and fewer residents.";
        look_ahead: bool = Unit::Flag, Flag, Session, "attach",
            "Whether what comes next is uploaded while the current unit computes.",
            "Without it every streamed unit is waited for.";
        device_page_bytes: u64 = Unit::Bytes, Limit, Session, "attach",
            "Granularity of device memory; every mapping is a multiple.",
            "Large pages waste memory on small units.";
        link_bytes_per_second: Option<u64> = Unit::BytesPerSecond, Limit, Session, "attach",
            "Copy rate that the host driver imitates; left out when it does not hold copies back.",
            "This is a supplied rate, not a measured one.";
        component_lifetime_limit_bytes: Option<u64> = Unit::Bytes, Limit, Session, "attach",
            "The most payload of the root module that may live on the device as long as the component; left out where it stays on the host.",
            "What really lives there stands in the planner decisions.";
    }
    flatten { vmm: PackageVmmSettings, pin: PackagePinSettings, budget: PackageBudgetSettings, helper: HelperSettings }
}
