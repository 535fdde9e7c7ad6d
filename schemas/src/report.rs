//! The report envelope: "What does one report contain?"

use crate::section;
use crate::sections::{
    AllocationDiagnostics, CompletionCollection, ComponentOwnership, Configuration, ExecutionAuxiliaryOwnership, ExecutionTiming,
    OperatorDiagnostics, Setup, State, Vmm,
};
use crate::timeline::NativeTimeline;
use crate::unit::{Seconds, Unit};

/// Route of a report about an attached component.
pub const ROUTE_DYNAMIC_OFFLOAD: &str = "dynamic_offload";

section! {
    /// What happened while the route ran.
    pub struct Runtime at "runtime" {
        session_id: Option<String> = Unit::Text, Identity, Session, "attach",
            "Random name of the attached session, the same in its records and reports.",
            "Use it to tell sessions of one component name apart; it means nothing in another run.";
        observed_monotonic_seconds: Option<Seconds> = Unit::Seconds, Identity, Scope, "snapshot",
            "Host monotonic time of this snapshot, on the clock of the manifest and of the timeline's epoch.",
            "Use it to place records beside memory samples and stream windows.";
        state: State = Unit::Structure, Structure, Session, "snapshot",
            "Setup work and decisions.",
            "See its rows.";
        vmm: Option<Vmm> = Unit::Structure, Structure, Session, "snapshot",
            "Counters and gauges of the offload runtime; present only while a component is attached.",
            "See its rows.";
        completion_collection: Option<CompletionCollection> = Unit::Structure, Structure, Scope, "snapshot with collection",
            "Present only where the snapshot was asked to collect.",
            "See its rows.";
        execution_timing: Option<ExecutionTiming> = Unit::Structure, Structure, Scope, "snapshot with a timer",
            "Present only where a timer was given to the snapshot.",
            "See its rows.";
        native_timeline: Option<NativeTimeline> = Unit::Structure, Structure, Scope, "snapshot with a timer",
            "Present only where the timer recorded native windows.",
            "See its rows.";
        component_ownership: Option<ComponentOwnership> = Unit::Structure, Structure, Session, "snapshot",
            "Present only where the component adapter was asked for.",
            "See its rows.";
        execution_auxiliary_ownership: Option<ExecutionAuxiliaryOwnership> = Unit::Structure, Structure, Session, "snapshot",
            "Present only where auxiliary parameters were attached natively.",
            "See its rows.";
        allocation_diagnostics: Option<AllocationDiagnostics> = Unit::Structure, Structure, Scope, "attached scope",
            "Present only where a scope over driver calls was attached to the report.",
            "See its rows.";
        operator_diagnostics: Option<OperatorDiagnostics> = Unit::Structure, Structure, Scope, "attached scope",
            "Present only where a scope over operators was attached to the report.",
            "See its rows.";
    }
}

section! {
    /// A detached report: plain values, no owners.
    pub struct Report at "" {
        schema_version: u32 = Unit::Version, Version, Scope, "report",
            "Version of the report envelope.",
            "A reader refuses a newer version.";
        route: String = Unit::Label, Label, Scope, "report",
            "Which route produced the report.",
            "Fields depend on it.";
        configuration: Configuration = Unit::Structure, Structure, Session, "attach",
            "Settings of the component.",
            "Runs that differ here are not compared.";
        setup: Setup = Unit::Structure, Structure, Session, "attach",
            "Observations of helper routes; empty for an attached component.",
            "See the helper's own rows.";
        runtime: Runtime = Unit::Structure, Structure, Session, "snapshot",
            "State, counters and the scopes that were given to the snapshot.",
            "See its rows.";
    }
}
