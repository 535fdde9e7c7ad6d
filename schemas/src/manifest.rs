//! The run manifest, written at the start, and its seal, written at the end.

use crate::finding::Finding;
use crate::section;
use crate::section::JsonShape;
use crate::settings::Settings;
use crate::unit::{Seconds, Unit};
use serde_json::{Value, json};
use std::collections::BTreeMap;

impl JsonShape for Finding {
    fn schema() -> Value {
        json!({"type": "object", "required": ["severity", "code", "where", "text"], "properties": {
            "severity": {"type": "string", "enum": ["note", "warning", "error"]},
            "code": {"type": "string"}, "where": {"type": "string"}, "text": {"type": "string"}}})
    }
}

section! {
    /// The machine of the run.
    pub struct Machine at "manifest.machine" {
        os: Option<String> = Unit::Text, Text, Scope, "start",
            "Operating system and kernel release.",
            "Compare before comparing times.";
        cpu: Option<String> = Unit::Text, Text, Scope, "start",
            "Processor model.",
            "Compare before comparing times.";
        logical_cpus: Option<u64> = Unit::Count("processors"), Limit, Scope, "start",
            "Logical processors that the recorder may use.",
            "Compare before comparing times.";
        memory_bytes: Option<u64> = Unit::Bytes, Limit, Scope, "start",
            "Physical memory of the machine.",
            "A control group may allow less.";
    }
}

section! {
    /// The clocks at the start of the run.
    pub struct Clocks at "manifest.clocks" {
        monotonic_seconds: Seconds = Unit::Seconds, Identity, Scope, "start",
            "Reading of the monotonic clock that all elapsed times refer to.",
            "Only differences mean something.";
        wall_utc: String = Unit::Text, Identity, Scope, "start",
            "Wall clock at the same moment, UTC, RFC 3339.",
            "For people; it may jump.";
    }
}

section! {
    /// Who ran what, where, with which settings.
    pub struct Manifest at "manifest" {
        schema_version: u32 = Unit::Version, Version, Scope, "start",
            "Version of the document that a run starts with.",
            "A reader refuses a newer version.";
        tool: String = Unit::Text, Text, Scope, "start",
            "Name and version of the recorder.",
            "Mention it in reports about the recorder.";
        command: Vec<String> = Unit::Text, Text, Scope, "start",
            "The wrapped command, word by word; bytes that are not UTF-8 are written as `\\xNN`, a backslash as `\\\\`.",
            "Run it again to repeat the run.";
        working_directory: Option<String> = Unit::Text, Text, Scope, "start",
            "Folder in which the command was started.",
            "Relative paths of the command refer to it.";
        environment: BTreeMap<String, String> = Unit::Text, Text, Scope, "start",
            "Variables named `DDO_*` and `CUDA_VISIBLE_DEVICES`; no others are recorded.",
            "Check for a stray override.";
        labels: BTreeMap<String, String> = Unit::Text, Label, Scope, "start",
            "Labels given on the command line.",
            "Runs are matched and refused by them.";
        component: Option<String> = Unit::Label, Label, Scope, "start",
            "Component name given on the command line.",
            "Overrides the host's own name in the folder only where the host asks.";
        settings: Settings = Unit::Structure, Structure, Scope, "start",
            "Collection settings as handed over.",
            "Compare before comparing runs.";
        settings_origin: BTreeMap<String, String> = Unit::Label, Label, Scope, "start",
            "Where each setting came from: `default`, `environment` or `command_line`.",
            "Explains an unexpected setting.";
        memory_monitor: String = Unit::Label, Label, Scope, "start",
            "`rss`: resident memory of the command's process; `off`: no samples.",
            "Never compare different modes.";
        memory_interval_seconds: Seconds = Unit::Seconds, Limit, Scope, "start",
            "Pause after one memory query before the next.",
            "It is not a sampling period.";
        clocks: Clocks = Unit::Structure, Structure, Scope, "start",
            "Clock readings.",
            "See its rows.";
        machine: Machine = Unit::Structure, Structure, Scope, "start",
            "Where the run took place, as far as it matters for times.",
            "See its rows.";
    }
}

section! {
    /// How the run ended; absent when the recorder itself did not finish.
    pub struct ManifestEnd at "manifest_end" {
        schema_version: u32 = Unit::Version, Version, Scope, "end",
            "Version of the seal.",
            "A reader refuses a newer version.";
        status: String = Unit::Label, Label, Scope, "end",
            "`exited`, `signaled` or `not_started`.",
            "Anything but `exited` with code 0 deserves a look at the command's own output.";
        exit_code: Option<i32> = Unit::Count("exit code"), Measure, Scope, "end",
            "The command's exit code, where it exited.",
            "The recorder exits with the same.";
        signal: Option<i32> = Unit::Count("signal number"), Measure, Scope, "end",
            "The signal that ended the command.",
            "9 without your doing: look for the kernel's out-of-memory killer.";
        duration_seconds: Seconds = Unit::Seconds, Measure, Scope, "end",
            "From just before the start of the command to its end.",
            "Start-up and model loading are in it.";
        memory_samples: Option<u64> = Unit::Count("samples"), Measure, Scope, "end",
            "Lines written to `memory.ndjson`.",
            "Fewer lines in the file: it was cut.";
        peak_rss_bytes: Option<u64> = Unit::Bytes, Peak, Scope, "end",
            "Largest sampled resident memory of the command's process.",
            "A sampled peak can miss a short one.";
        findings: Vec<Finding> = Unit::Structure, Structure, Scope, "end",
            "What the recorder could not do.",
            "Read them before trusting the folder.";
    }
}
