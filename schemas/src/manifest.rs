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
        host_name: Option<String> = Unit::Text, Text, Scope, "start",
            "Name by which its network knows the computer.",
            "Redact it before sharing the folder.";
        gpus: Option<Vec<Gpu>> = Unit::Structure, Structure, Scope, "start",
            "Devices that the driver's management library lists and the command may see; absent without that library.",
            "See its rows.";
        gpu_driver: Option<String> = Unit::Text, Text, Scope, "start",
            "Version of the GPU driver.",
            "Compare before comparing times.";
    }
}

section! {
    /// One device.
    pub struct Gpu at "manifest.machine.gpus[]" {
        index: u64 = Unit::Index, Identity, Scope, "start",
            "Position in the management library's order, which may differ from CUDA's.",
            "Match by uuid instead.";
        name: Option<String> = Unit::Text, Text, Scope, "start",
            "Model of the device.",
            "Runs on different models are not comparable.";
        uuid: Option<String> = Unit::Text, Identity, Scope, "start",
            "Identity of the device.",
            "Tells two devices of one model apart.";
        memory_bytes: Option<u64> = Unit::Bytes, Limit, Scope, "start",
            "Memory of the device.",
            "Ceilings given as a share do not refer to it.";
    }
}

section! {
    /// Limits that the command inherits.
    pub struct Limits at "manifest.limits" {
        control_group: Option<String> = Unit::Text, Text, Scope, "start",
            "Control group whose memory is watched, as the kernel names it.",
            "The command may move to another one.";
        control_group_bytes: Option<u64> = Unit::Bytes, Limit, Scope, "start",
            "Least memory limit of the control group and those around it; absent without one.",
            "Plan host memory below this, whatever the machine has.";
        address_space_bytes: Option<u64> = Unit::Bytes, Limit, Scope, "start",
            "Address space limit; absent when unlimited.",
            "Allocations fail when it is reached; mapped files count.";
        data_bytes: Option<u64> = Unit::Bytes, Limit, Scope, "start",
            "Limit of private writable memory; absent when unlimited.",
            "Allocations fail when it is reached.";
        locked_memory_bytes: Option<u64> = Unit::Bytes, Limit, Scope, "start",
            "Limit of locked memory; absent when unlimited.",
            "Some ways to pin host memory fail when it is reached.";
        file_size_bytes: Option<u64> = Unit::Bytes, Limit, Scope, "start",
            "Largest file that may be written; absent when unlimited.",
            "Records fail when it is reached.";
        open_files: Option<u64> = Unit::Count("files"), Limit, Scope, "start",
            "Limit of open files; absent when unlimited.",
            "Checkpoints of many files need many.";
    }
}

section! {
    /// Place of the process among several.
    pub struct Ranks at "manifest.ranks" {
        rank: Option<u64> = Unit::Index, Identity, Scope, "start",
            "`RANK` of the recorder's environment.",
            "Compare runs rank by rank.";
        local_rank: Option<u64> = Unit::Index, Identity, Scope, "start",
            "`LOCAL_RANK` of the recorder's environment.",
            "Usually the device of the command.";
        world_size: Option<u64> = Unit::Count("ranks"), Limit, Scope, "start",
            "`WORLD_SIZE` of the recorder's environment.",
            "Expect as many journals.";
    }
}

section! {
    /// Memory in use before the command started.
    pub struct Baseline at "manifest.baseline" {
        moment: String = Unit::Label, Label, Scope, "start",
            "`before_child`: read before the command was started.",
            "A baseline of another moment is not the same figure.";
        control_group_bytes: Option<u64> = Unit::Bytes, Gauge, Scope, "start",
            "Memory charged to the control group before the start.",
            "What others in the group held, page cache included.";
        gpu_used_bytes: Option<u64> = Unit::Bytes, Gauge, Scope, "start",
            "Device memory in use before the start, as the samples' `gpu_metric` names it.",
            "Above zero on an idle device: the driver's own share, or another program.";
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
        boottime_seconds: Option<Seconds> = Unit::Seconds, Identity, Scope, "start",
            "The clock that goes on while the machine is suspended, at the same moment.",
            "Its gain over the monotonic clock is time asleep.";
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
            "`full`: anonymous or unique memory; `rss`: resident memory; `off`: no samples.",
            "Never compare different modes.";
        ram_metric: Option<String> = Unit::Label, Label, Scope, "start",
            "What the samples' `ram_bytes` counts; absent when the monitor is off.",
            "Print it with every peak.";
        gpu_metric: Option<String> = Unit::Label, Label, Scope, "start",
            "What the samples' `gpu_used_bytes` counts; absent when no device is watched.",
            "Print it with every peak.";
        baseline: Option<Baseline> = Unit::Structure, Structure, Scope, "start",
            "Memory in use before the command; absent when the monitor is off.",
            "See its rows.";
        memory_interval_seconds: Seconds = Unit::Seconds, Limit, Scope, "start",
            "Pause after one memory query before the next.",
            "It is not a sampling period.";
        clocks: Clocks = Unit::Structure, Structure, Scope, "start",
            "Clock readings.",
            "See its rows.";
        machine: Machine = Unit::Structure, Structure, Scope, "start",
            "Where the run took place, as far as it matters for times.",
            "See its rows.";
        limits: Option<Limits> = Unit::Structure, Structure, Scope, "start",
            "Limits of the operating system that hold for the command.",
            "See its rows.";
        ranks: Option<Ranks> = Unit::Structure, Structure, Scope, "start",
            "The recorder's place among several; absent outside a distributed run.",
            "See its rows.";
        disk_budget_bytes: Option<u64> = Unit::Bytes, Limit, Scope, "start",
            "Size of the folder at which recording stops; absent without a budget.",
            "Raise it when the journal ends early.";
        disk_policy: Option<String> = Unit::Label, Label, Scope, "start",
            "`keep_first`: what was written stays, later records and samples are not written.",
            "The end of the run is missing when it took effect.";
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
        peak_ram_bytes: Option<u64> = Unit::Bytes, Peak, Scope, "end",
            "Largest sampled sum over the command's processes, as the manifest's `ram_metric` names it.",
            "Compare only with the same metric.";
        peak_gpu_used_bytes: Option<u64> = Unit::Bytes, Peak, Scope, "end",
            "Largest device memory in use, baseline included, as the manifest's `gpu_metric` names it.",
            "Compare absolute limits with this one.";
        peak_gpu_above_baseline_bytes: Option<i64> = Unit::Bytes, Peak, Scope, "end",
            "The same peak of the samples less the baseline; negative when others gave memory back.",
            "What the run added, if nothing else used the device.";
        control_group_peak_bytes: Option<u64> = Unit::Bytes, Peak, Scope, "end",
            "Largest sampled memory charged to the last control group that the command was in.",
            "Page cache is in it: reaching the limit alone is no danger.";
        out_of_memory_kills: Option<u64> = Unit::Count("kills"), Measure, Scope, "end",
            "Processes of the command's control group that the kernel killed for lack of memory during the run.",
            "Any: read the finding and the last samples.";
        processes_left: Option<u64> = Unit::Count("processes"), Measure, Scope, "end",
            "Known descendants that lived on when the command had ended.",
            "They are neither waited for nor watched.";
        suspended_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "end",
            "Time that the machine slept during the run; in no duration here.",
            "Wall time less duration is this, not work.";
        journal_bytes: Option<u64> = Unit::Bytes, Measure, Scope, "end",
            "Size of the folder before the seal, where a budget or a status line asked for it.",
            "Plan the disk for longer runs by it.";
        findings: Vec<Finding> = Unit::Structure, Structure, Scope, "end",
            "What the recorder could not do.",
            "Read them before trusting the folder.";
    }
}
