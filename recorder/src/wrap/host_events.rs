//! "What did an embedded host say?" Follows `host.ndjson` while the command runs.
//!
//! May use: std, schemas and `observe` (the file's name).
//!
//! Invariants: the file may appear at any time and may be written by several processes; a line that is not whole yet is
//! read later; a line that cannot be read is counted and left out; a bounded amount is read at a time.

use crate::limits::MAX_HOST_EVENT_BYTES;
use crate::observe::HOST_EVENTS_FILE;
use ddo_schemas::memory::HostEvent;
use ddo_schemas::version;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};

/// The file, as far as it was read.
#[derive(Debug)]
pub(super) struct HostEvents {
    path: PathBuf,
    file: Option<File>,
    rest: Vec<u8>,
    /// Lines that could not be read.
    pub(super) unreadable: u64,
}

impl HostEvents {
    /// Follows the file of a journal folder.
    pub(super) fn new(folder: &Path) -> HostEvents {
        HostEvents { path: folder.join(HOST_EVENTS_FILE), file: None, rest: Vec::new(), unreadable: 0 }
    }

    /// Events that were added since the last call.
    pub(super) fn new_events(&mut self) -> Vec<HostEvent> {
        if self.file.is_none() {
            self.file = File::open(&self.path).ok();
        }
        let Some(file) = &mut self.file else { return Vec::new() };
        let read = file.take(MAX_HOST_EVENT_BYTES as u64).read_to_end(&mut self.rest);
        if read.is_err() {
            self.unreadable = self.unreadable.saturating_add(1);
            return Vec::new();
        }
        let whole = self.rest.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let lines: Vec<u8> = self.rest.drain(..whole).collect();
        if self.rest.len() > MAX_HOST_EVENT_BYTES {
            self.rest.clear();
            self.unreadable = self.unreadable.saturating_add(1);
        }
        let mut events = Vec::new();
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice::<HostEvent>(line) {
                Ok(event) if event.schema_version == version::HOST_EVENT => events.push(event),
                _ => self.unreadable = self.unreadable.saturating_add(1),
            }
        }
        events
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn lines_are_read_once_when_whole() {
        let folder = std::env::temp_dir().join(format!("ddo-events-{:032x}", fastrand::u128(..)));
        std::fs::create_dir(&folder).expect("made");
        let mut events = HostEvents::new(&folder);
        assert!(events.new_events().is_empty(), "there is no file yet");
        let mut file = File::create(folder.join(HOST_EVENTS_FILE)).expect("made");
        let line = r#"{"schema_version":1,"event":"phase","monotonic_seconds":1.0,"pid":7,"phase":"denoise"}"#;
        let (start, end) = line.split_at(20);
        write!(file, "{line}\nnonsense\n{start}").expect("written");
        let seen = events.new_events();
        assert_eq!((seen.len(), events.unreadable), (1, 1));
        assert_eq!(seen.first().and_then(|event| event.phase.as_deref()), Some("denoise"));
        assert!(events.new_events().is_empty());
        writeln!(file, "{end}").expect("written");
        assert_eq!((events.new_events().len(), events.unreadable), (1, 1));
        std::fs::remove_dir_all(&folder).ok();
    }
}
