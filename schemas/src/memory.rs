//! One line of `memory.ndjson`.

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
        rss_bytes: Option<u64> = Unit::Bytes, Gauge, Scope, "sample",
            "Resident memory of the command's own process, shared and mapped pages included.",
            "Not private memory; mapped weights count while they are cached.";
        query_seconds: Seconds = Unit::Seconds, Measure, Scope, "sample",
            "Host time that the query took.",
            "The cost of looking.";
        error_type: Option<String> = Unit::Label, Label, Scope, "sample",
            "Why this sample has no value.",
            "Peaks next to a failed sample are incomplete.";
    }
}
