//! The native timeline: windows between two markers on a stream.

use crate::field::Gate;
use crate::section;
use crate::unit::{Nullable, Seconds, Unit};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The unit of the marker that ends a phase.
pub const END_MARKER: u64 = u64::MAX;

/// What a window encloses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SampleKind {
    /// Submission of one upload batch on the upload stream; wider than the copy itself.
    UploadBatchWindow,
    /// The compute stream's wait for an upload.
    ComputeUploadDependency,
    /// The upload stream's wait for the last consumer of a slot.
    UploadSlotDependency,
    /// One unit's forward, after its dependencies and before its release.
    ExecutionUnitWindow,
    /// A step boundary: unit 0 the start, 1..N the steps, 2^64-1 the end.
    StepMarker,
}

impl SampleKind {
    /// The kinds whose windows are summarised, in report order.
    pub const WINDOWS: [SampleKind; 4] = [
        SampleKind::UploadBatchWindow,
        SampleKind::ComputeUploadDependency,
        SampleKind::UploadSlotDependency,
        SampleKind::ExecutionUnitWindow,
    ];

    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            SampleKind::UploadBatchWindow => "upload_batch_window",
            SampleKind::ComputeUploadDependency => "compute_upload_dependency",
            SampleKind::UploadSlotDependency => "upload_slot_dependency",
            SampleKind::ExecutionUnitWindow => "execution_unit_window",
            SampleKind::StepMarker => "step_marker",
        }
    }
}

/// Whether a window's times are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SampleStatus {
    /// Both markers are done; times are given.
    Complete,
    /// A marker is still in flight; no times.
    Pending,
    /// A marker failed or its times contradict each other; no times.
    Failed,
}

macro_rules! label_shape {
    ($ty:ty, [$($word:literal),*]) => {
        impl crate::section::JsonShape for $ty {
            fn schema() -> Value {
                json!({"type": "string", "enum": [$($word),*]})
            }
        }
    };
}
label_shape!(
    SampleKind,
    ["upload_batch_window", "compute_upload_dependency", "upload_slot_dependency", "execution_unit_window", "step_marker"]
);
label_shape!(SampleStatus, ["complete", "pending", "failed"]);

section! {
    /// One window.
    pub struct Sample at "runtime.native_timeline.samples[]" {
        sequence: u64 = Unit::Index, Identity, Scope, "window opened",
            "Order in which windows were opened, from 1.",
            "A hole means that a sample was dropped.";
        unit: u64 = Unit::RunLocalId, Identity, Scope, "window opened",
            "Run-local unit; for step markers 0 is the start, k the start of step k, 2^64-1 the end.",
            "Match units across runs by name, never by number.";
        stream: u64 = Unit::RunLocalId, Identity, Scope, "window opened",
            "Handle of the stream that carries both markers.",
            "Not an identity across runs.";
        bytes: Nullable<u64> = Unit::Bytes, Measure, Scope, "window opened",
            "Payload that the window's work moves; null where it was not collected.",
            "Null is not zero.";
        kind: SampleKind = Unit::Label, Label, Scope, "window opened",
            "What the window encloses.",
            "Windows of one kind may overlap; never add kinds together.";
        status: SampleStatus = Unit::Label, Label, Scope, "snapshot",
            "Whether both markers are done.",
            "Only complete samples have times.";
        start_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "snapshot",
            "First marker, relative to the epoch marker; may be negative.",
            "Compare only within one timeline.";
        end_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "snapshot",
            "Second marker, relative to the epoch marker.",
            "Compare only within one timeline.";
    }
}

section! {
    /// Union lengths of windows, by kind.
    pub struct UnionSeconds at "runtime.native_timeline.*.union_seconds" {
        upload_batch_window: Seconds = Unit::Seconds, Measure, Scope, "complete timelines only",
            "Time in which at least one upload window was open.",
            "Bytes over this time give a rate that the copies at least reached.";
        compute_upload_dependency: Seconds = Unit::Seconds, Measure, Scope, "complete timelines only",
            "Time in which compute waited for an upload, launch gaps included.",
            "If large, the link or the depth of look-ahead bounds the step.";
        upload_slot_dependency: Seconds = Unit::Seconds, Measure, Scope, "complete timelines only",
            "Time in which uploads waited for a slot's last consumer.",
            "If large, more slots would let uploads run further ahead.";
        execution_unit_window: Seconds = Unit::Seconds, Measure, Scope, "complete timelines only",
            "Time in which at least one unit's forward window was open.",
            "Not a kernel time; launch gaps count.";
    }
}

section! {
    /// Geometry of windows; no engine activity.
    pub struct WindowSummary at "runtime.native_timeline.*" {
        scope: String = Unit::Label, Label, Scope, "complete timelines only",
            "`window_geometry_not_engine_activity`.",
            "Do not read engine utilisation into it.";
        union_seconds: UnionSeconds = Unit::Structure, Structure, Scope, "complete timelines only",
            "Union lengths by kind.",
            "Kinds overlap; never add them.";
        upload_execution_window_intersection_seconds: Seconds = Unit::Seconds, Measure, Scope, "complete timelines only",
            "Time in which an upload window and a forward window were both open.",
            "A sign of overlap, not a proof of it.";
    }
}

section! {
    /// The windows of one timed phase.
    pub struct NativeTimeline at "runtime.native_timeline" {
        schema_version: u32 = Unit::Version, Version, Scope, "snapshot",
            "Version of this structure.",
            "A reader refuses a newer version.";
        clock: String = Unit::Label, Label, Scope, "snapshot",
            "The clock behind the markers: `cuda_event` or `host_stream`.",
            "It is not the host's wall clock.";
        unit: String = Unit::Label, Label, Scope, "snapshot",
            "The unit of all times: `seconds`.",
            "Nothing to do.";
        scope: String = Unit::Label, Label, Scope, "snapshot",
            "`native_stream_windows_not_engine_activity`.",
            "For engine activity, record the device's own activity.";
        status: String = Unit::Label, Label, Scope, "snapshot",
            "`complete`, `pending`, `truncated` or `failed`; failed outranks truncated, truncated outranks pending.",
            "Only a complete timeline has summaries.";
        capacity: u64 = Unit::Count("samples"), Limit, Scope, "opening",
            "Samples that fit; it never grows.",
            "Raise it when samples were dropped (at most 8192).";
        dropped: u64 = Unit::Count("samples"), Counter, Scope, "snapshot",
            "Windows that found no room.",
            "Not zero: the timeline is truncated.", { gate: Gate::NoIncrease };
        failures: u64 = Unit::Count("failures"), Counter, Scope, "snapshot",
            "Marker calls that failed while the phase ran; look at failed samples too.",
            "Not zero: do not trust the gaps.", { gate: Gate::MustBeZero };
        pending: u64 = Unit::Count("samples"), Gauge, Scope, "snapshot",
            "Samples whose markers are still in flight.",
            "Snapshot again after the phase's completion boundary.", { gate: Gate::Informative };
        samples: Vec<Sample> = Unit::Structure, Structure, Scope, "snapshot",
            "All windows, by sequence.",
            "See its rows.";
        execution_units: BTreeMap<String, String> = Unit::Text, Text, Session, "snapshot",
            "Module name of each run-local unit number.",
            "Use the names to match units across runs.";
        window_summary: Option<WindowSummary> = Unit::Structure, Structure, Scope, "complete timelines only",
            "Geometry of all windows.",
            "Left out unless the timeline is complete.";
        warm_window_summary: Option<WindowSummary> = Unit::Structure, Structure, Scope, "complete timelines with step 1 and end markers",
            "Geometry after the first step.",
            "Prefer it to judge the steady state.";
        event_cleanup: Option<String> = Unit::Label, Label, Scope, "after sealing",
            "`released` when every marker was given back, `retained` while some are in flight.",
            "Retained markers block the next timeline of this context until closed.";
        resolution_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "snapshot",
            "Smallest difference that the clock can show at the latest marker.",
            "Overlaps near this size are not real.";
        epoch_host_before_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "opening",
            "Host monotonic time just before the epoch marker was recorded.",
            "With the next row it bounds how the two clocks relate.";
        epoch_host_after_seconds: Option<Seconds> = Unit::Seconds, Measure, Scope, "opening",
            "Host monotonic time just after the epoch marker was recorded.",
            "The interval is the uncertainty of the alignment.";
    }
}
