//! Operator traces: "What did a profiler record, in Chrome's format?"
//!
//! | file | its question |
//! |---|---|
//! | `window` | which part of the file is in memory? |
//! | `stream` | where are the events, and where does it break off? |
//! | `cursor` | what stands at this byte? |
//! | `decimal` | how many nanoseconds is it, exactly? |
//! | `event` | which members of an event matter? |
//! | `build`, `names`, `pairs` | where does each event belong? |
//! | `repairs` | what was wrong, and was anything lost? |
//!
//! May use `run`, `limits`. Invariants: no tree of the file is built; the bytes in memory are a window; every
//! departure from the format is counted by its name, or ends reading with one finding that names the file and the byte.
//! Format: <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>.

mod build;
mod cursor;
mod decimal;
mod event;
mod names;
mod pairs;
mod repairs;
mod stream;
#[cfg(test)]
mod tests;
mod window;

use super::notes::Notes;
use super::walk::{self, Entry};
use crate::limits::PEEK_BYTES;
use crate::run::operators::OperatorTrace;
use build::Builder;
use ddo_schemas::Finding;
use std::io::{self, Read};
use stream::{Outcome, Reader};
use window::Window;

/// The two bytes that packed files begin with.
const GZ_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// True where the file begins like an operator trace.
pub(super) fn recognise(entry: &Entry) -> bool {
    let mut head = Vec::new();
    // A packed file may be cut inside its head; what there is decides.
    let _ = open(entry).and_then(|file| file.take(PEEK_BYTES as u64).read_to_end(&mut head));
    begins_a_trace(&head)
}

fn begins_a_trace(head: &[u8]) -> bool {
    let text = String::from_utf8_lossy(head);
    let has = |words: &str| text.contains(words);
    if has("\"traceEvents\"") || (has("\"schemaVersion\"") && has("\"deviceProperties\"")) {
        return true;
    }
    let inner = text.trim_start_matches('\u{feff}').trim_start().strip_prefix('[');
    inner.is_some_and(|inner| inner.trim_start().starts_with('{')) && has("\"ph\"")
}

/// Opens a file, unpacked where it is packed.
fn open(entry: &Entry) -> io::Result<Box<dyn Read>> {
    let mut file = walk::open(entry)?;
    let mut magic = Vec::new();
    Read::by_ref(&mut file).take(2).read_to_end(&mut magic)?;
    let packed = magic == GZ_MAGIC;
    let whole = io::Cursor::new(magic).chain(file);
    Ok(if packed { Box::new(window::unpack(whole)) } else { Box::new(whole) })
}

/// Reads a trace; `None` and a finding where nothing of it is usable.
pub(super) fn read(entry: &Entry, notes: &mut Notes) -> Option<OperatorTrace> {
    let source = match open(entry) {
        Ok(source) => source,
        Err(error) => {
            notes.add(Finding::error("unreadable_file", &entry.shown, format!("cannot be read: {error}")));
            return None;
        }
    };
    let (trace, findings) = read_from(source, &entry.shown);
    findings.into_iter().for_each(|finding| notes.add(finding));
    trace
}

/// Reads a trace from a stream of bytes.
fn read_from(source: impl Read, place: &str) -> (Option<OperatorTrace>, Vec<Finding>) {
    let mut builder = Builder::default();
    let mut reader = Reader { window: Window::new(source), builder: &mut builder, outcome: Outcome::default() };
    reader.run();
    let (outcome, bytes, failure) = (reader.outcome, reader.window.offset(), reader.window.failure.take());
    let mut trace = builder.finish();
    let mut findings = Vec::new();
    if let Some(error) = &failure {
        let text = format!("cannot be read beyond byte {bytes} (unpacked): {error}");
        findings.push(Finding::error("operator_read_failed", place, text));
    }
    findings.extend(outcome.findings(place));
    if trace.events == 0 {
        if findings.is_empty() {
            let text = if outcome.has_events { "holds no events" } else { "holds no list of events" };
            findings.push(Finding::error("operator_no_events", place, text));
        }
        return (None, findings);
    }
    findings.extend(builder.tally.findings(place));
    if !builder.other_phases.is_empty() {
        let phase = |(phase, count): (&u8, &u64)| format!("{} {}", count, char::from(*phase).escape_default());
        let list: Vec<String> = builder.other_phases.iter().map(phase).collect();
        let text = format!("events of phases that are not drawn: {}", list.join(", "));
        findings.push(Finding::note("operator_other_phases", place, text));
    }
    trace.file = place.into();
    trace.json_bytes = bytes;
    trace.complete = failure.is_none() && !outcome.unclosed && outcome.lost == 0 && outcome.stopped.is_none();
    (Some(trace), findings)
}

impl Outcome {
    fn findings(&self, place: &str) -> Vec<Finding> {
        let mut findings = Vec::new();
        if let Some(stopped) = self.stopped {
            let text = format!("cannot be read on from byte {}: {}", stopped.byte, stopped.what);
            findings.push(Finding::error("operator_trace_broken", place, text));
        }
        if let Some(first) = self.first_lost {
            let text = format!(
                "{} event(s) cannot be read and were left out; the first at byte {}: {}",
                self.lost, first.byte, first.what
            );
            findings.push(Finding::warning("operator_event_unreadable", place, text));
        }
        if let Some(byte) = self.cut {
            let text = format!("breaks off inside the event that begins at byte {byte}, which was discarded");
            findings.push(Finding::warning("operator_cut_event", place, text));
        }
        if self.unclosed {
            let text = "ends before its closing bracket: it is incomplete";
            findings.push(Finding::warning("operator_unclosed", place, text));
        }
        findings
    }
}
