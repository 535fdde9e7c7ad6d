//! Words of an input: "How may they be repeated to people?"
//!
//! May use `limits` only. Invariant: text of an input never reaches a terminal with control characters, and never at
//! unbounded length.

use crate::limits::MAX_SHOWN_CHARS;

/// Shortens a text and replaces its control characters.
pub fn shorten(text: &str) -> String {
    shorten_to(text, MAX_SHOWN_CHARS)
}

/// Shortens a text to at most `limit` characters and replaces its control characters.
pub fn shorten_to(text: &str, limit: usize) -> String {
    let clean = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    if text.chars().count() <= limit {
        return text.chars().map(clean).collect();
    }
    let keep = limit.saturating_sub(3);
    text.chars().take(keep).map(clean).chain("...".chars()).collect()
}
