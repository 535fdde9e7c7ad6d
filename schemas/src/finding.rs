//! A finding: something noticed about a run, never a crash.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know; nothing is missing.
    Note,
    /// Something is missing or doubtful; the rest stands.
    Warning,
    /// Data that should be there was lost or contradicts itself.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

/// One finding. `code` is stable; `text` is for people.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// Stable identifier, such as `journal_step_missing`.
    pub code: String,
    /// The file, record or field that it is about.
    #[serde(rename = "where")]
    pub place: String,
    /// One sentence with the value and the limit.
    pub text: String,
}

impl Finding {
    /// A finding of the given severity.
    pub fn new(severity: Severity, code: &str, place: impl Into<String>, text: impl Into<String>) -> Finding {
        Finding { severity, code: code.into(), place: place.into(), text: text.into() }
    }

    /// A note.
    pub fn note(code: &str, place: impl Into<String>, text: impl Into<String>) -> Finding {
        Finding::new(Severity::Note, code, place, text)
    }

    /// A warning.
    pub fn warning(code: &str, place: impl Into<String>, text: impl Into<String>) -> Finding {
        Finding::new(Severity::Warning, code, place, text)
    }

    /// An error.
    pub fn error(code: &str, place: impl Into<String>, text: impl Into<String>) -> Finding {
        Finding::new(Severity::Error, code, place, text)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {} ({}) [{}]", self.severity, self.text, self.place, self.code)
    }
}
