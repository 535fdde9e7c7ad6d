//! `summary.json`: what the analyzer says in one screen, for machines.

use crate::finding::Finding;
use crate::section;
use crate::section::JsonShape;
use crate::unit::{Nullable, Seconds, Unit};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// One term of the floor: its seconds, how it is known, or why it is not.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FloorTerm {
    /// Seconds a step; null when unknown.
    pub seconds: Nullable<Seconds>,
    /// `measured`, `supplied` or `unknown`.
    pub origin: String,
    /// How it follows from the run, or what is missing.
    pub basis: String,
}

impl JsonShape for FloorTerm {
    fn schema() -> Value {
        json!({"type": "object", "required": ["seconds", "origin", "basis"], "properties": {
            "seconds": {"anyOf": [{"type": "number"}, {"type": "null"}]},
            "origin": {"type": "string", "enum": ["measured", "supplied", "unknown"]},
            "basis": {"type": "string"}}})
    }
}

section! {
    /// The wrapped run.
    pub struct RunSummary at "summary.run" {
        command: Nullable<Vec<String>> = Unit::Text, Text, Scope, "analysis",
            "The command; null without a manifest.",
            "Run it again to repeat the run.";
        status: String = Unit::Label, Label, Scope, "analysis",
            "`exited 0`, `exited N`, `signal N`, `not sealed` or `unknown`.",
            "Not sealed: the recorder did not finish.";
        duration_seconds: Nullable<Seconds> = Unit::Seconds, Measure, Scope, "analysis",
            "Duration from the seal; null without one.",
            "Loading is in it.";
        labels: BTreeMap<String, String> = Unit::Text, Label, Scope, "analysis",
            "Words that the user attached when it was started.",
            "Runs are matched by them.";
    }
}

section! {
    /// The terms of the floor of one step.
    pub struct FloorTerms at "summary.steps.floor_terms" {
        compute: FloorTerm = Unit::Structure, Structure, Scope, "analysis",
            "Seconds a step takes with every weight resident.",
            "Unknown unless measured or supplied.";
        upload: FloorTerm = Unit::Structure, Structure, Scope, "analysis",
            "Bytes streamed a step over the link's rate.",
            "Unknown while the link's rate is.";
        disk: FloorTerm = Unit::Structure, Structure, Scope, "analysis",
            "Bytes read from disk a step over the disk's rate.",
            "Unknown while reads are not observed.";
    }
}

section! {
    /// Steps and how near they come to their floor.
    pub struct StepsSummary at "summary.steps" {
        count: Nullable<u64> = Unit::Count("steps"), Measure, Scope, "analysis",
            "Steps of the run; null when nothing says it.",
            "Compare with what the host ran.";
        seconds_per_step: Nullable<Seconds> = Unit::Seconds, Measure, Scope, "analysis",
            "Mean of the steps after the first, on the stream's clock; null when not timed.",
            "Compare runs of equal settings.";
        efficiency: Nullable<Seconds> = Unit::Ratio, Measure, Scope, "analysis",
            "Floor over measured step; null unless compute and upload terms are known.",
            "Near one: nothing is left to gain from the schedule.";
        floor_seconds: Nullable<Seconds> = Unit::Seconds, Measure, Scope, "analysis",
            "The largest of the known terms when compute and upload are known; null otherwise.",
            "See the terms.";
        floor_terms: FloorTerms = Unit::Structure, Structure, Scope, "analysis",
            "What bounds a step from below: compute, upload and disk.",
            "See its rows.";
    }
}

section! {
    /// The summary of one folder.
    pub struct Summary at "summary" {
        schema_version: u32 = Unit::Version, Version, Scope, "analysis",
            "Version of this one-screen document.",
            "A reader refuses a newer version.";
        run: RunSummary = Unit::Structure, Structure, Scope, "analysis",
            "What was started, how it ended and how long it took.",
            "See its rows.";
        steps: StepsSummary = Unit::Structure, Structure, Scope, "analysis",
            "Step count and step time against their floor.",
            "See its rows.";
        findings: Vec<Finding> = Unit::Structure, Structure, Scope, "analysis",
            "What is missing, broken or doubtful.",
            "Read them first.";
        outputs: BTreeMap<String, String> = Unit::Text, Text, Scope, "analysis",
            "Files written beside this one, by kind.",
            "Open the trace in ui.perfetto.dev.";
    }
}
