//! One line of `memory.ndjson`, and one of `host.ndjson`.

use crate::section;
use crate::unit::{Seconds, Unit};

section! {
    /// One sample of the memory monitor.
    pub struct MemorySample at "memory" {
        schema_version: u32 = Unit::Version, Version, Scope, "sample",
            "Version of the line.",
            "A reader refuses a newer version.";
        elapsed_seconds: Seconds = Unit::Seconds, Measure, Scope, "sample",
            "Monotonic time since the manifest's clock reading, at the end of the query.",
            "The gap to the next line is interval plus query time.";
        phase: Option<String> = Unit::Label, Label, Scope, "sample",
            "Phase that a host had named when the query ended.",
            "Compare peaks within one phase.";
        rss_bytes: Option<u64> = Unit::Bytes, Gauge, Scope, "sample",
            "Resident memory of the command's own process, shared and mapped pages included.",
            "Not private memory; mapped weights count while they are cached.";
        virtual_bytes: Option<u64> = Unit::Bytes, Gauge, Scope, "sample",
            "Address space of the command's own process, touched or not.",
            "Matters only under an address space limit.";
        ram_bytes: Option<u64> = Unit::Bytes, Gauge, Scope, "sample",
            "What `ram_metric` names, summed over the command's process and its descendants.",
            "Shared pages count once for each process that holds them.";
        ram_metric: Option<String> = Unit::Label, Label, Scope, "sample",
            "What was read: `rss_process_tree`, `anonymous_rss_process_tree` or `uss_process_tree`.",
            "Never compare values under different names.";
        processes: Option<u64> = Unit::Count("processes"), Gauge, Scope, "sample",
            "Processes that were summed.",
            "A process that lived between two looks is not in it.";
        anonymous_bytes: Option<u64> = Unit::Bytes, Gauge, Scope, "sample",
            "Resident pages without a file behind them, summed over the same processes.",
            "Heap, copies and pinned buffers: what cannot be dropped.";
        shared_bytes: Option<u64> = Unit::Bytes, Gauge, Scope, "sample",
            "Resident pages of files and of shared memory, summed over the same processes.",
            "Mapped weights are here; the kernel may drop clean ones.";
        control_group_bytes: Option<u64> = Unit::Bytes, Gauge, Scope, "sample",
            "Memory charged to the control group of the command, page cache included.",
            "The kernel kills when this cannot stay under the group's limit.";
        gpu_used_bytes: Option<u64> = Unit::Bytes, Gauge, Scope, "sample",
            "Device memory in use by everybody, as `gpu_metric` names it.",
            "Subtract the baseline before speaking of this run.";
        gpu_metric: Option<String> = Unit::Label, Label, Scope, "sample",
            "What was read: `nvml_device_used`, or `nvml_device_used_summed` over several devices.",
            "Other programs on the device are in it.";
        query_seconds: Seconds = Unit::Seconds, Measure, Scope, "sample",
            "Host time that the query of host memory took.",
            "The cost of looking.";
        gpu_query_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "sample",
            "Host time that the query of device memory took.",
            "The cost of looking at the device.";
        error_type: Option<String> = Unit::Label, Label, Scope, "sample",
            "Why host memory has no value here.",
            "Peaks next to a failed sample are incomplete.";
        gpu_error_type: Option<String> = Unit::Label, Label, Scope, "sample",
            "Why device memory has no value here, where a device is watched.",
            "Device peaks next to a failed sample are incomplete.";
    }
}

section! {
    /// What an embedded host told the wrapper: one line of `host.ndjson`.
    pub struct HostEvent at "host_event" {
        schema_version: u32 = Unit::Version, Version, Scope, "event",
            "Version of the line that a host appends.",
            "A reader leaves out newer lines.";
        event: String = Unit::Label, Label, Scope, "event",
            "`component`: a folder of records was claimed; `phase`: a phase began; `report`: a report was added; `generation`: one ended.",
            "Tells which of the other keys to expect.";
        monotonic_seconds: Seconds = Unit::Seconds, Measure, Scope, "event",
            "Host monotonic time of the event, the clock of the manifest.",
            "Subtract the manifest's reading to place it.";
        pid: u64 = Unit::RunLocalId, Identity, Scope, "event",
            "Process that wrote the line.",
            "Tells the hosts of one run apart.";
        phase: Option<String> = Unit::Label, Label, Scope, "event",
            "Name of the phase that began; the last one named holds for all processes.",
            "Name phases alike in every run that is compared.";
        component: Option<String> = Unit::Label, Label, Scope, "event",
            "Component that claimed a folder, or that a report is about.",
            "Look for its records in `folder`.";
        folder: Option<String> = Unit::Text, Text, Scope, "event",
            "Folder or file inside the journal, relative to it.",
            "Open it to see what the host wrote.";
        rank: Option<u64> = Unit::Index, Identity, Scope, "event",
            "`RANK` of the writing process.",
            "Compare the same rank across runs.";
        local_rank: Option<u64> = Unit::Index, Identity, Scope, "event",
            "`LOCAL_RANK` of the writing process.",
            "Usually the device that the process uses.";
        world_size: Option<u64> = Unit::Count("ranks"), Limit, Scope, "event",
            "`WORLD_SIZE` of the writing process.",
            "Fewer ranks in the folder: some have a journal elsewhere.";
    }
}
