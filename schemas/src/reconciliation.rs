//! `reconciliation.json`: what the nested host scopes contain and what stays unexplained, for machines.
//!
//! May use: units and the declaring macro. Invariant: a residual that cannot be known is null; no scope is added to one that
//! overlaps it.

use crate::section::labels;
use crate::unit::{Nullable, Ratio, Seconds, Unit};
use crate::{section, version};

labels! {
    /// How a scope's total relates to what it contains.
    pub enum ScopeVerdict {
        /// What it contains explains it.
        Reconciles = "reconciles",
        /// More is left over than its parts explain.
        ResidualDominates = "residual_dominates",
        /// A part is longer than the whole, beyond the tolerance.
        ChildExceedsParent = "child_exceeds_parent",
        /// A part is longer, and is known to run outside the whole as well.
        ChildPartlyOutside = "child_partly_outside",
        /// A part was not recorded, so the rest is unknown.
        ChildUnavailable = "child_unavailable",
        /// Nothing is nested in it.
        Leaf = "leaf",
        /// The scope itself was not recorded.
        Unavailable = "unavailable",
    }
}

section! {
    /// One scope with what it contains.
    pub struct ReconciledScope at "reconciliation.scopes[]" {
        scope: String = Unit::Text, Identity, Scope, "analysis",
            "Name of the scope: its report field without the path and without `_seconds`.",
            "`explain` with the field's name says what the scope times.";
        parent: Nullable<String> = Unit::Text, Identity, Scope, "analysis",
            "The scope that contains it; null for a root.",
            "Times of a scope are already in its parent; never add the two.";
        total_seconds: Nullable<Seconds> = Unit::Seconds, Measure, Scope, "analysis",
            "Host time inside the scope over the interval; null when not recorded.",
            "Compare with the parent by the share.";
        calls: Nullable<u64> = Unit::Count("calls"), Measure, Scope, "analysis",
            "Times the scope was entered, failures included; null where nothing counts them.",
            "Seconds over calls is the mean of one call.";
        children: Vec<String> = Unit::Text, Identity, Scope, "analysis",
            "Scopes that it contains and that were recorded.",
            "Follow the longest one.";
        residual_seconds: Nullable<Seconds> = Unit::Seconds, Measure, Scope, "analysis",
            "What the contained scopes leave over; null when one of them is missing.",
            "It has no name: do not attribute it to a cause.";
        share_of_parent: Nullable<Ratio> = Unit::Ratio, Measure, Scope, "analysis",
            "Its time over that of its parent; null for a root and under an unrecorded or empty parent.",
            "Above one only where a scope also runs outside its parent, or where intervals were mixed.";
        verdict: ScopeVerdict = Unit::Label, Label, Scope, "analysis",
            "Whether the scope is explained by what it contains: `reconciles`, `residual_dominates`, `child_exceeds_parent`, \
             `child_partly_outside`, `child_unavailable`, `leaf` or `unavailable`.",
            "`child_exceeds_parent` is a defect of the data: mixed intervals or failed calls.";
        unavailable: Vec<String> = Unit::Text, Identity, Scope, "analysis",
            "Scopes that belong inside it on this route and were not recorded.",
            "Missing is not zero; record with a build that reports them.";
    }
}

section! {
    /// The first thing to read.
    pub struct Headline at "reconciliation.headline" {
        scope: String = Unit::Text, Identity, Scope, "analysis",
            "The longest scope that contains no other.",
            "Start there.";
        seconds: Seconds = Unit::Seconds, Measure, Scope, "analysis",
            "Host time inside that longest scope.",
            "Host time is no device time; look at the stream windows beside it.";
        share: Nullable<Ratio> = Unit::Ratio, Measure, Scope, "analysis",
            "Part of the broad upload scope that the longest scope takes; null when the broad one is missing or empty.",
            "A small share means that no single cost leads.";
        next_field: Nullable<String> = Unit::Text, Identity, Scope, "analysis",
            "Report field that tells more about the longest scope; null when the catalogue names none.",
            "Look it up with `explain`.";
    }
}

section! {
    /// The reconciliation of one report, or of one interval between two.
    pub struct Reconciliation at "reconciliation" {
        schema_version: u32 = Unit::Version, Version, Scope, "analysis",
            "Version of the reconciliation document.",
            "A reader refuses a newer version.";
        component: Nullable<String> = Unit::Label, Label, Scope, "analysis",
            "Component whose scopes these are; null when the report does not name it.",
            "Reconcile components one by one.";
        interval: String = Unit::Text, Text, Scope, "analysis",
            "The report, or the two records, that the totals were taken from.",
            "Lifetime totals hold the cold start; an interval leaves it out.";
        scopes: Vec<ReconciledScope> = Unit::Structure, Structure, Scope, "analysis",
            "The scopes in the order of the tree, parents first.",
            "See its rows.";
        headline: Nullable<Headline> = Unit::Structure, Structure, Scope, "analysis",
            "The largest cost; null when no scope was recorded.",
            "See its rows.";
        notes: Vec<String> = Unit::Text, Text, Scope, "analysis",
            "Counts of calls that belong together and differ, each with the field that would show why.",
            "A difference means failed operations; look at the named field.";
    }
}

impl Reconciliation {
    /// The version that this crate writes.
    pub const VERSION: u32 = version::RECONCILIATION;
}
