//! "How much is too much?" Every bound of the wrapper, with unit and reason.
//!
//! May use: std only.

use std::time::Duration;

/// Pause between two memory queries unless told otherwise.
pub const DEFAULT_INTERVAL: Duration = Duration::from_millis(100);
/// The shortest pause: below it the looking costs more than it shows.
pub const MIN_INTERVAL: Duration = Duration::from_millis(10);
/// The longest pause: above it a run has no useful samples.
pub const MAX_INTERVAL: Duration = Duration::from_secs(60);
/// Characters of a component name; it becomes a folder name.
pub const MAX_COMPONENT_CHARS: usize = 64;
/// Characters of a label's key; it becomes a table header.
pub const MAX_LABEL_KEY_CHARS: usize = 64;
/// Bytes of a label's value; it is a word, not a document.
pub const MAX_LABEL_VALUE_BYTES: usize = 1024;
/// Labels of one run.
pub const MAX_LABELS: usize = 64;
/// Redaction patterns of one run; each is searched for at every byte.
pub const MAX_PATTERNS: usize = 64;
/// A supervisor that signals the process and then its group sends the same signal twice; within this time the two count as one request.
pub const SAME_REQUEST: Duration = Duration::from_millis(250);
