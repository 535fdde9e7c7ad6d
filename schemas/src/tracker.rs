//! The host's run tracker: "How much memory did the whole run use, and how was it read?"
//!
//! May use: units and the declaring macro. Invariant: no peak without its label; a sampled peak is no exact maximum; what a
//! monitor could not read is absent.

use crate::section;
use crate::unit::{Gib, Nullable, Seconds, Unit};
use serde_json::Value;

section! {
    /// How the tracker reads memory.
    pub struct MonitorSetup at "tracker.memory_monitor" {
        mode: Option<String> = Unit::Label, Label, Scope, "tracker setup",
            "`full` or `rss`: which reading of main memory the peaks hold.",
            "Never compare peaks of two modes.";
        ram_metric: Option<String> = Unit::Label, Label, Scope, "tracker setup",
            "Name of that reading, such as `rss`, `uss` or `anonymous_rss`.",
            "Print it with every peak.";
        gpu_metric: Option<String> = Unit::Label, Label, Scope, "tracker setup",
            "Name of the relative device reading, such as `cuda_mem_get_info_used_minus_baseline`.",
            "Other users of the device show in it.";
        gpu_absolute_metric: Option<String> = Unit::Label, Label, Scope, "tracker setup",
            "Name of the absolute device reading, such as `cuda_mem_get_info_used`.",
            "Neither this process alone nor shared memory.";
        memory_unit: Option<String> = Unit::Label, Label, Scope, "tracker setup",
            "Unit of all memory rows of the tracker: `GiB`.",
            "The `_gb` in their names does not mean GB.";
        interval_sec: Option<Seconds> = Unit::Seconds, Limit, Scope, "tracker setup",
            "Pause after a query before the next one; the period is longer.",
            "Short peaks between two samples are not seen.";
    }
}

section! {
    /// What monitoring one phase took.
    pub struct PhaseMonitor at "tracker.steps[].memory_monitor" {
        samples: Option<u64> = Unit::Count("samples"), Measure, Scope, "phase end",
            "Samples behind the phase's peaks, the first and the explicit ones included.",
            "Few samples: trust the peak less.";
        ram_query_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "phase end",
            "Host time spent reading main memory, failed tries included.",
            "May run beside the work; not a delay of it.";
        gpu_query_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "phase end",
            "Host time spent asking the device for its memory.",
            "Large: the driver answers late under load.";
        error_type: Option<Nullable<String>> = Unit::Label, Label, Scope, "phase end",
            "What stopped the monitor; null when nothing did.",
            "With an error the peaks are incomplete: the phase did not pass.";
    }
}

section! {
    /// One phase of the run.
    pub struct TrackedPhase at "tracker.steps[]" {
        name: Option<String> = Unit::Label, Label, Scope, "phase end",
            "Name of the phase as the host gave it; `run` for the time before the first one, and for a run without phases.",
            "Name phases alike in every run that is compared.";
        peak_ram_gb: Option<Gib> = Unit::Gib, Peak, Scope, "phase end",
            "Highest sampled main memory of the phase, in the reading that its label names.",
            "Compare phases of one reading.";
        ram_metric: Option<String> = Unit::Label, Label, Scope, "phase end",
            "Reading behind the phase's main memory peak.",
            "It may differ from the setup's after a fallback.";
        peak_vram_gb: Option<Gib> = Unit::Gib, Peak, Scope, "phase end",
            "Highest sampled device memory of the phase above the baseline.",
            "Says nothing about a limit of the device.";
        peak_vram_absolute_gb: Option<Gib> = Unit::Gib, Peak, Scope, "phase end",
            "Highest sampled device memory of the phase, from the same samples, baseline included.",
            "Hold device limits against this one.";
        memory_monitor: Option<PhaseMonitor> = Unit::Structure, Structure, Scope, "phase end",
            "What monitoring took.",
            "See its rows.";
    }
}

section! {
    /// One generation with an attached model.
    pub struct GenerationObservation at "tracker.generation_observations[]" {
        repeat_index: Option<u64> = Unit::Index, Identity, Scope, "generation end",
            "Which repetition with the same model it was.",
            "The first one is cold.";
        elapsed_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "generation end",
            "Host time from the preparation of latents to their readback.",
            "Loading, report, cleanup and decoding are not in it.";
        ddo_report: Option<Nullable<Value>> = Unit::Structure, Structure, Scope, "generation end",
            "Report with the generation's timer; null without GPU timing. Its counters run on from generation to generation.",
            "Subtract equivalent reports.";
    }
}

section! {
    /// The tracker of one run.
    #[derive(Default)]
    pub struct Tracker at "tracker" {
        memory_monitor: Option<MonitorSetup> = Unit::Structure, Structure, Scope, "tracker setup",
            "How memory is read.",
            "See its rows.";
        vram_baseline_gb: Option<Gib> = Unit::Gib, Gauge, Scope, "tracker setup",
            "Device memory in use before timing starts, after the device was opened.",
            "Use it unrounded when a limit is checked.";
        vram_baseline_moment: Option<String> = Unit::Label, Label, Scope, "tracker setup",
            "When the device baseline was read: `before_child` is before the command started, so its device context is in the peaks.",
            "Compare relative peaks of one moment only.";
        global_peak_ram_gb: Option<Gib> = Unit::Gib, Peak, Scope, "run end",
            "Highest sampled main memory of the run; the setup's label says which reading.",
            "A drop may come from another reading.";
        global_peak_vram_gb: Option<Gib> = Unit::Gib, Peak, Scope, "run end",
            "Highest device sample of the run above the baseline; below zero when others gave memory back.",
            "Says nothing about a limit of the device; the absolute peak does.";
        global_peak_vram_absolute_gb: Option<Gib> = Unit::Gib, Peak, Scope, "run end",
            "Highest of the baseline and all device samples of the run.",
            "Not a cap at any instant; others' allocations count.";
        steps: Option<Vec<TrackedPhase>> = Unit::Structure, Structure, Scope, "phase end",
            "Phases of the run in order.",
            "See its rows.";
        generation_observations: Option<Vec<GenerationObservation>> = Unit::Structure, Structure, Scope, "generation end",
            "Generations with one loaded model.",
            "See its rows.";
        text_encoder_native_vmm: Option<bool> = Unit::Flag, Flag, Scope, "run start",
            "Whether the native route was asked for the text encoder.",
            "A wish, no proof; the component's report tells what ran.";
        text_encoder_group_offload: Option<bool> = Unit::Flag, Flag, Scope, "run start",
            "Whether the preset asked for group offload of the text encoder.",
            "A native request overrides it.";
        text_encoder_dynamic_offload: Option<bool> = Unit::Flag, Flag, Scope, "run start",
            "Whether the preset asked for dynamic offload of the text encoder.",
            "Read the route for what was applied.";
        text_encoder_offload_route: Option<String> = Unit::Label, Label, Scope, "attach",
            "Route that applying the settings returned for the text encoder.",
            "This is the one to compare.";
    }
}
