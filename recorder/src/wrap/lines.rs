//! "How does a line get onto disk?" Appends whole lines to one file until the first failure.
//!
//! May use: std and serde.
//!
//! Invariants: a line is written by one call; after a failed write the file ends with a whole line again and is left alone.

use serde::Serialize;
use std::fs::File;
use std::io;

/// Where lines go: a file, or a failing stand-in.
pub(super) trait Sink: io::Write {
    /// Cuts the file back to its first `length` bytes.
    fn cut(&mut self, length: u64) -> io::Result<()>;
}

impl Sink for File {
    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
}

/// A file of lines.
#[derive(Debug)]
pub(super) struct Lines<S> {
    sink: S,
    length: u64,
    /// Lines written.
    pub(super) written: u64,
    /// Why no more lines are written.
    pub(super) broken: Option<String>,
}

impl<S: Sink> Lines<S> {
    pub(super) fn new(sink: S) -> Lines<S> {
        Lines { sink, length: 0, written: 0, broken: None }
    }

    /// Appends one line, unless an earlier one failed.
    pub(super) fn append(&mut self, line: &impl Serialize) {
        if self.broken.is_some() {
            return;
        }
        match self.try_append(line) {
            Ok(bytes) => {
                self.length = self.length.saturating_add(bytes);
                self.written = self.written.saturating_add(1);
            }
            Err(error) => {
                let cut = self.sink.cut(self.length);
                let torn = cut.map_or_else(|e| format!(" (and its rest could not be cut off: {e})"), |()| String::new());
                self.broken = Some(format!("a line could not be written: {error}{torn}"));
            }
        }
    }

    fn try_append(&mut self, line: &impl Serialize) -> io::Result<u64> {
        let mut line = serde_json::to_vec(line)?;
        line.push(b'\n');
        let wrote = loop {
            match self.sink.write(&line) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                other => break other?,
            }
        };
        if wrote == line.len() {
            return Ok(wrote as u64);
        }
        Err(io::Error::new(io::ErrorKind::StorageFull, format!("only {wrote} of {} bytes were taken", line.len())))
    }
}

impl Lines<File> {
    /// Flushes the file to disk.
    pub(super) fn sync(&mut self) {
        if let Err(error) = self.sink.sync_all() {
            self.broken.get_or_insert(format!("the file could not be flushed to disk: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes `room` bytes, then refuses.
    struct Full {
        bytes: Vec<u8>,
        room: usize,
        calls: u64,
    }

    impl io::Write for Full {
        fn write(&mut self, data: &[u8]) -> io::Result<usize> {
            self.calls += 1;
            let taken = data.len().min(self.room - self.bytes.len());
            if taken == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.bytes.extend(data.iter().take(taken));
            Ok(taken)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Sink for Full {
        fn cut(&mut self, length: u64) -> io::Result<()> {
            self.bytes.truncate(usize::try_from(length).expect("small"));
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_leaves_whole_lines_and_is_tried_once() {
        let text = "a line of text";
        let line = serde_json::to_vec(text).expect("text").len() + 1;
        for spare in [0, 1, line - 1] {
            let mut lines = Lines::new(Full { bytes: Vec::new(), room: 2 * line + spare, calls: 0 });
            for _ in 0..5 {
                lines.append(&text);
            }
            assert_eq!((lines.written, lines.sink.calls), (2, 3), "{spare}");
            assert_eq!(lines.sink.bytes.len(), 2 * line);
            assert!(lines.broken.is_some());
        }
    }
}
