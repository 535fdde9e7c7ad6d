//! What attaching did and what the planner decided.

use super::planner_package::{PackageBudgetDecisions, PackageVmmDecisions};
use super::state_package::PackageState;
use crate::section;
use crate::unit::{Gib, Ratio, Seconds, Unit};
use std::collections::BTreeMap;

section! {
    /// Work of one setup action.
    pub struct SetupAction at "runtime.state.setup_runtime.*" {
        seconds: Seconds = Unit::Seconds, Measure, Session, "attach",
            "Host time inside this action; actions do not overlap.",
            "The largest action is where attaching spends its time.";
        gb: Gib = Unit::Gib, Measure, Session, "attach",
            "Payload that the action handled, in GiB despite the suffix.",
            "Zero where the action moves no weights.";
    }
}

section! {
    /// What the planner chose and why.
    pub struct PlannerDecisions at "runtime.state.planner_decisions" {
        vmm_backend: String = Unit::Label, Label, Session, "attach",
            "The memory scheme: `native_model_arena`.",
            "Nothing to do.";
        vmm_effective_source: String = Unit::Label, Label, Session, "attach",
            "The source that serves streamed units: `mapped`, `retained`, `ring` or `cpu`.",
            "Differs from the requested one only for `auto`.";
        vmm_source_registration: Option<String> = Unit::Label, Label, Session, "attach",
            "Which retained segments are registered below their ceiling: `stable_subset`, always the same ones, or `recycle`, the \
             one that is needed next.",
            "Left out where nothing is retained.";
        vmm_source_registration_timing: Option<String> = Unit::Label, Label, Session, "attach",
            "When mapped segments are registered: `attach`, before the first pass, `background`, by a thread beside passes, or \
             `host`, by calls of the host beside passes.",
            "Left out where nothing is mapped; beside passes the first ones are read through the ring.";
        vmm_resident_units: u64 = Unit::Count("units"), Limit, Session, "attach",
            "Units that stay in the arena after their first use, with all their parts.",
            "Each one saves its bytes in every step.", { deterministic: true };
        vmm_streamed_units: u64 = Unit::Count("units"), Limit, Session, "attach",
            "Units of which something is uploaded in every step.",
            "With residents they make up all units.", { deterministic: true };
        vmm_streamed_bytes_per_pass: u64 = Unit::Bytes, Limit, Session, "attach",
            "Payload that one whole pass must upload.",
            "Divide by the link's rate for the upload term of the floor.", { deterministic: true };
        vmm_managed_bytes: u64 = Unit::Bytes, Limit, Session, "attach",
            "Payload of all units together; a ceiling in percent refers to it.",
            "Compare with the ceiling.", { deterministic: true };
        vmm_host_bytes: u64 = Unit::Bytes, Limit, Session, "attach",
            "Payload that stays on the host and is never uploaded, such as lookup tables.",
            "It is outside the ceiling.", { deterministic: true };
        vmm_component_lifetime_bytes: Option<u64> = Unit::Bytes, Limit, Session, "attach",
            "Payload of the root module, uploaded once while attaching and kept on the device, without the padding to whole pages; left \
             out where it stays on the host.",
            "Compare with the capacity of its buffer, which the ceiling is charged with.", { deterministic: true };
        vmm_fast_payload_bytes: u64 = Unit::Bytes, Limit, Session, "attach",
            "Address span of the arena's layout, alignment included.",
            "Compare with the managed payload for the cost of alignment.", { deterministic: true };
        vmm_look_ahead_depth: Option<u64> = Unit::Count("units"), Limit, Session, "attach",
            "How many streamed units may be uploaded ahead of the running one.",
            "It is the slots minus one; zero without look-ahead, left out where the ring's bytes are the depth.";
        vmm_look_ahead_wraps: bool = Unit::Flag, Flag, Session, "attach",
            "Whether look-ahead continues from the last unit to the first of the next pass.",
            "Without wrapping, every step starts cold.";
        vmm_resident_parts: Option<u64> = Unit::Count("parts"), Limit, Session, "attach",
            "Parts that stay in the arena; left out in the classic mode.",
            "With the streamed ones they make up all parts.";
        vmm_streamed_parts: Option<u64> = Unit::Count("parts"), Limit, Session, "attach",
            "Parts uploaded into the ring in every step; left out in the classic mode.",
            "Compare with the uploads of parts in one step.";
        vmm_predicted_floor_ratio: Option<Ratio> = Unit::Ratio, Limit, Session, "attach",
            "The longest simulated step divided by its floor, over the unit times that were measured before or the amounts of work that were tried.",
            "Far above 1: the ceiling leaves no good plan; null where simulating would have cost too much.";
        vmm_predicted_step_seconds: Option<Seconds> = Unit::Seconds, Limit, Session, "attach",
            "What a steady step should take with the unit times and the link rate of an earlier attachment.",
            "Compare with the steady step; null where nothing was measured before.";
    }
    flatten { vmm: PackageVmmDecisions, budget: PackageBudgetDecisions }
}

section! {
    /// State of the attached component.
    pub struct State at "runtime.state" {
        module_count: u64 = Unit::Count("modules"), Gauge, Session, "attach",
            "Modules with parameters in the component's tree.",
            "Compare with the model's own count.", { deterministic: true };
        total_gb: Gib = Unit::Gib, Gauge, Session, "attach",
            "Payload of all parameters, in GiB despite the suffix.",
            "Compare with the checkpoint.";
        setup_runtime: BTreeMap<String, SetupAction> = Unit::Structure, Structure, Session, "attach",
            "Setup actions by name.",
            "Look at the largest.";
        planner_decisions: PlannerDecisions = Unit::Structure, Structure, Session, "attach",
            "What was decided from the configuration; for diagnosis, not for control flow.",
            "Compare requested and effective values.";
    }
    flatten { package: PackageState }
}
