//! `memory.ndjson` and `host.ndjson`: "How much memory did the command hold, and what did its host say?"
//!
//! Uses the declared line. Invariants: lines and their number are bounded; a last line that was cut is named; a
//! sample without a value stays without one.

use super::document::supported;
use super::flatten::Paths;
use super::notes::Notes;
use super::walk::{self, Entry};
use crate::limits::{MAX_LINE_BYTES, MAX_MEMORY_SAMPLES};
use ddo_schemas::manifest::ManifestEnd;
use ddo_schemas::memory::{HostEvent, MemorySample};
use ddo_schemas::{Finding, version};
use std::io::{BufRead, BufReader, Read};

/// Samples read so far.
#[derive(Debug, Default)]
pub(super) struct Memory {
    /// In file order.
    pub(super) samples: Vec<MemorySample>,
    /// What hosts told the recorder.
    pub(super) events: Vec<HostEvent>,
    file: Option<String>,
}

impl Memory {
    /// Reads one file line by line.
    pub(super) fn read(&mut self, entry: &Entry, paths: &mut Paths, notes: &mut Notes) {
        let file = match walk::open(entry) {
            Ok(file) => file,
            Err(source) => {
                return notes.add(Finding::error("unreadable_file", &entry.shown, format!("cannot be read: {source}")));
            }
        };
        let mut reader = BufReader::new(file);
        let mut line = Vec::new();
        let mut number = 0_u64;
        loop {
            line.clear();
            number += 1;
            match (&mut reader).take(MAX_LINE_BYTES).read_until(b'\n', &mut line) {
                Ok(0) => return,
                Ok(_) => {}
                Err(source) => {
                    return notes.add(Finding::error("unreadable_file", &entry.shown, format!("line {number}: {source}")));
                }
            }
            if self.samples.len() >= MAX_MEMORY_SAMPLES {
                let text = format!("only the first {MAX_MEMORY_SAMPLES} samples were read");
                return notes.add(Finding::warning("too_many_memory_samples", &entry.shown, text));
            }
            if !self.line(entry, &line, number, paths, notes) {
                return;
            }
        }
    }

    /// Takes one line; false when reading should stop.
    fn line(&mut self, entry: &Entry, line: &[u8], number: u64, paths: &mut Paths, notes: &mut Notes) -> bool {
        let complete = line.ends_with(b"\n");
        if line.iter().all(u8::is_ascii_whitespace) {
            return true;
        }
        let place = format!("{}:{number}", entry.shown);
        if !complete && line.len() as u64 == MAX_LINE_BYTES {
            notes.add(Finding::error(
                "memory_line_too_long",
                place,
                format!("is longer than {MAX_LINE_BYTES} bytes; reading stopped"),
            ));
            return false;
        }
        let value: serde_json::Value = match serde_json::from_slice(line) {
            Ok(value) => value,
            Err(_) if !complete => {
                notes.add(Finding::warning("memory_last_line_cut", place, "ends in the middle of a sample, which was left out"));
                return true;
            }
            Err(error) => {
                notes.add(Finding::error("memory_line_unreadable", place, format!("is no sample: {error}")));
                return true;
            }
        };
        if value.get("event").is_some() {
            return self.event(value, place, paths, notes);
        }
        if supported(&value, "the memory sample", version::MEMORY_SAMPLE, &place, notes).is_none() {
            return false;
        }
        paths.document(&value, "memory");
        match serde_json::from_value(value) {
            Ok(sample) => {
                self.file.get_or_insert_with(|| entry.shown.clone());
                self.samples.push(sample);
            }
            Err(error) => notes.add(Finding::error("memory_line_unreadable", place, format!("is no sample: {error}"))),
        }
        true
    }

    /// Takes one line of `host.ndjson`; false when reading should stop.
    fn event(&mut self, value: serde_json::Value, place: String, paths: &mut Paths, notes: &mut Notes) -> bool {
        if supported(&value, "the host event", version::HOST_EVENT, &place, notes).is_none() {
            return false;
        }
        if self.events.len() >= MAX_MEMORY_SAMPLES {
            let text = format!("only the first {MAX_MEMORY_SAMPLES} events were read");
            notes.add(Finding::warning("too_many_host_events", place, text));
            return false;
        }
        paths.document(&value, "host_event");
        match serde_json::from_value(value) {
            Ok(event) => self.events.push(event),
            Err(error) => notes.add(Finding::error("host_event_unreadable", place, format!("is no event: {error}"))),
        }
        true
    }

    /// Compares with what the seal says was written, and counts samples without a value.
    pub(super) fn check(&self, seal: Option<&ManifestEnd>, notes: &mut Notes) {
        let place = self.file.as_deref().unwrap_or("memory.ndjson");
        let read = self.samples.len() as u64;
        if let Some(written) = seal.and_then(|seal| seal.memory_samples)
            && read < written
        {
            let text = format!("{written} samples were written, {read} can be read");
            notes.add(Finding::warning("memory_samples_missing", place, text));
        }
        let failed = self.samples.iter().filter(|sample| sample.error_type.is_some()).count();
        if failed > 0 {
            notes.add(Finding::note(
                "memory_queries_failed",
                place,
                format!("{failed} sample(s) have no value; peaks may be missed"),
            ));
        }
    }
}
