//! `deltas.json`: what changed between records and reports, for machines.
//!
//! May use: units and the declaring macro. Invariant: a difference is written only where the field's kind has one; the state
//! says why a value is missing.

use crate::scalar::JsonScalar;
use crate::section::labels;
use crate::unit::{Nullable, Seconds, Unit};
use crate::{section, version};

labels! {
    /// What a row of the delta table says about its field.
    pub enum DeltaState {
        /// Both values are there and their difference is.
        Value = "value",
        /// Both are there and equal.
        Unchanged = "unchanged",
        /// Both are there and differ, and the kind has no difference.
        Changed = "changed",
        /// A counter went down, so it was started again in between.
        Reset = "reset",
        /// The difference covers more than one step, because a record is missing.
        SpansGap = "spans_gap",
        /// At least one value is not in its report.
        Unavailable = "unavailable",
        /// At least one value is a recorded null.
        Uncollected = "uncollected",
        /// At least one value was still in flight.
        Pending = "pending",
        /// At least one value comes from a failed collection.
        Failed = "failed",
    }
}

section! {
    /// One field between two records or reports.
    pub struct DeltaRow at "deltas.rows[]" {
        component: Nullable<String> = Unit::Label, Label, Scope, "analysis",
            "Component of both sides; null when they do not name one.",
            "Rows of two components are never added.";
        from: String = Unit::Text, Identity, Scope, "analysis",
            "Record or report of the earlier value.",
            "Open it to see the value in its place.";
        to: String = Unit::Text, Identity, Scope, "analysis",
            "Record or report of the later value.",
            "Not the neighbour of the earlier one where a record is missing.";
        path: String = Unit::Text, Identity, Scope, "analysis",
            "Path of the compared field in its report.",
            "`explain` says what it counts.";
        kind: String = Unit::Label, Label, Scope, "analysis",
            "Kind of the compared field, which decides how two values compare; `unspecified` for a field that is not declared.",
            "Only counters and gauges are subtracted.";
        unit: String = Unit::Label, Label, Scope, "analysis",
            "What the three values are counted in.",
            "Legacy fields in GiB stay in GiB.";
        state: DeltaState = Unit::Label, Label, Scope, "analysis",
            "`value`, `unchanged`, `changed`, `reset`, `spans_gap`, `unavailable`, `uncollected`, `pending` or `failed`.",
            "Read it before the numbers: null says nothing without it.";
        before: JsonScalar = Unit::Unspecified, Measure, Scope, "analysis",
            "Earlier value, in the compared field's own unit; null when there is none. Integers above 2^53 are strings.",
            "Null is not zero.";
        after: JsonScalar = Unit::Unspecified, Measure, Scope, "analysis",
            "Later value, written like the earlier one.",
            "For a peak, this is the value to read.";
        delta: JsonScalar = Unit::Unspecified, Measure, Scope, "analysis",
            "Later minus earlier, exact for integers; null where the kind has no difference or the state forbids one.",
            "Over a reset there is none, not even an estimate.";
        seconds: Nullable<Seconds> = Unit::Seconds, Measure, Scope, "analysis",
            "Host time between the two sides; null when either does not say when it was taken.",
            "Submission times of steps, not device times.";
    }
}

section! {
    /// All rows of one folder.
    pub struct Deltas at "deltas" {
        schema_version: u32 = Unit::Version, Version, Scope, "analysis",
            "Version of the document of differences.",
            "A reader refuses a newer version.";
        rows: Vec<DeltaRow> = Unit::Structure, Structure, Scope, "analysis",
            "Differences between neighbours, between the first and the last record, and between reports.",
            "See its rows.";
    }
}

impl Deltas {
    /// The version that this crate writes.
    pub const VERSION: u32 = version::DELTAS;
}
