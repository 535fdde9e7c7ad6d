//! `check.json`: which conservations and identities hold, for machines.
//!
//! May use: units and the declaring macro. Invariant: a check whose values are missing has no result; it is never a pass.

use crate::scalar::JsonScalar;
use crate::unit::{Nullable, Unit};
use crate::{section, version};

section! {
    /// One check of one report, record or scope.
    pub struct CheckResult at "check.checks[]" {
        name: String = Unit::Text, Identity, Scope, "analysis",
            "Stable name of what is checked.",
            "Use it to find the same check in another run.";
        place as "where": String = Unit::Text, Identity, Scope, "analysis",
            "Report, record and field that were checked.",
            "Open it at that place.";
        expected: JsonScalar = Unit::Unspecified, Measure, Scope, "analysis",
            "What the other values say that it must be, or the bound as a text; null when they do not say it.",
            "Compare with what was found.";
        got: JsonScalar = Unit::Unspecified, Measure, Scope, "analysis",
            "What was found there; null when nothing was recorded.",
            "Null is not zero.";
        ok: Nullable<bool> = Unit::Flag, Flag, Scope, "analysis",
            "Whether the check held; null when a value that it needs is unavailable.",
            "Null is no pass: record what is missing.";
    }
}

section! {
    /// All checks of one folder.
    pub struct Check at "check" {
        schema_version: u32 = Unit::Version, Version, Scope, "analysis",
            "Version of the document of checks.",
            "A reader refuses a newer version.";
        ok: bool = Unit::Flag, Flag, Scope, "analysis",
            "False when at least one check failed.",
            "True says nothing about checks without a result.";
        checks: Vec<CheckResult> = Unit::Structure, Structure, Scope, "analysis",
            "Every check that applies, failed ones included.",
            "See its rows.";
    }
}

impl Check {
    /// The version that this crate writes.
    pub const VERSION: u32 = version::CHECK;
}
