//! "What do people see?" Lines on the standard error stream.
//!
//! May use: std only.
//!
//! Invariants: nothing is ever written to standard output; a closed or full standard error never stops the recorder.

use std::io::Write as _;

/// Writes one line, with the program's name before it, in one piece.
pub fn line(text: &str) {
    let line = format!("ddo-record: {text}\n");
    // The reader may be gone; the command matters more than the line.
    std::io::stderr().write_all(line.as_bytes()).ok();
}
