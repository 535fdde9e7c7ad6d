//! Journal records: partial observations at the host's step boundaries.

use crate::report::Report;
use crate::section;
use crate::unit::{Nullable, Seconds, Unit};

/// The label of every record: an observation, not a result.
pub const OBSERVATION: &str = "partial_host_step_boundary";

section! {
    /// One published record.
    pub struct JournalRecord at "journal" {
        schema_version: u32 = Unit::Version, Version, Scope, "publication",
            "Version of the wrapper; the nested report has its own.",
            "A reader refuses a newer version.";
        observation: String = Unit::Label, Label, Scope, "publication",
            "Always `partial_host_step_boundary`.",
            "Never take a record for a final result.";
        step_index: Nullable<u64> = Unit::Index, Identity, Scope, "publication",
            "Step after whose submission the record was taken; null before the first.",
            "Submission, not completion, is what it marks.";
        host_elapsed_seconds: Seconds = Unit::Seconds, Measure, Scope, "publication",
            "Monotonic host time since the journal was opened, the journal's own I/O included.",
            "Not a step time of the device.";
        gpu_completion_proven: bool = Unit::Flag, Flag, Scope, "publication",
            "Always false.",
            "Work in flight stays in flight.";
        completion_collection_requested: bool = Unit::Flag, Flag, Scope, "publication",
            "Always false: looking does not collect.",
            "Collect explicitly at a phase boundary.";
        metrics: Report = Unit::Structure, Structure, Scope, "publication",
            "The report at that moment.",
            "Compare with the previous record.";
    }
}

/// Which record a file name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordName {
    /// `before_denoise.json`
    Before,
    /// `step_0000.json` and on.
    Step(u64),
}

impl RecordName {
    /// The file name: at least four digits, more when needed.
    pub fn file_name(self) -> String {
        match self {
            RecordName::Before => "before_denoise.json".into(),
            RecordName::Step(step) => format!("step_{step:04}.json"),
        }
    }

    /// Reads a file name; `None` for anything that the journal does not write.
    pub fn parse(name: &str) -> Option<RecordName> {
        if name == "before_denoise.json" {
            return Some(RecordName::Before);
        }
        let digits = name.strip_prefix("step_")?.strip_suffix(".json")?;
        let canonical = digits.len() >= 4 && digits.bytes().all(|b| b.is_ascii_digit());
        let step: u64 = digits.parse().ok()?;
        (canonical && RecordName::Step(step).file_name() == name).then_some(RecordName::Step(step))
    }

    /// True for the temporary name of a record that was never published: `NAME.<32 hex>.tmp`.
    pub fn is_temporary(name: &str) -> bool {
        let Some(rest) = name.strip_suffix(".tmp") else { return false };
        match rest.rsplit_once('.') {
            Some((base, hex)) => hex.len() == 32 && hex.bytes().all(|b| b.is_ascii_hexdigit()) && !base.is_empty(),
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_grow_past_four_digits_and_read_back() {
        for step in [0, 9, 9_999, 10_000, u64::MAX] {
            let name = RecordName::Step(step).file_name();
            assert_eq!(RecordName::parse(&name), Some(RecordName::Step(step)), "{name}");
        }
        assert_eq!(RecordName::Step(10_000).file_name(), "step_10000.json");
        assert!(RecordName::Step(9_999) < RecordName::Step(10_000));
        assert!(RecordName::Before < RecordName::Step(0));
    }

    #[test]
    fn foreign_names_are_not_records() {
        for name in ["step_1.json", "step_00001.json", "step_-001.json", "step_abcd.json", "step_0001.json.tmp", "x.json"] {
            assert_eq!(RecordName::parse(name), None, "{name}");
        }
    }
}
