//! "How much memory does the command use?" The memory monitor.
//!
//! May use: std, schemas and procfs.
//!
//! Invariants:
//! - the pause begins after a query has completed; it is no sampling period;
//! - a sample is one line, written by one call; after a failed write the file ends with a whole line again;
//! - a query that fails because the command has just ended is no error;
//! - nothing that goes wrong here touches the command.

use super::clock::monotonic_seconds;
use super::error::WrapError;
use ddo_schemas::memory::MemorySample;
use ddo_schemas::{Finding, Seconds, version};
use procfs::ProcError;
use procfs::process::Process;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// File name of the samples.
pub const MEMORY_FILE: &str = "memory.ndjson";

/// What the monitor measures against and how often.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    /// The manifest's reading of the monotonic clock, seconds.
    pub epoch_seconds: f64,
    /// Pause after a query.
    pub interval: Duration,
}

/// What the monitor saw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// Lines written.
    pub samples: u64,
    /// Largest resident memory, where any query succeeded.
    pub peak_rss_bytes: Option<u64>,
    /// What went wrong.
    pub findings: Vec<Finding>,
}

/// The file of samples, made before the command starts.
#[derive(Debug)]
pub struct MemoryFile {
    lines: Lines<File>,
}

impl MemoryFile {
    /// Creates the file; it must not exist.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(dir: &Path) -> Result<MemoryFile, WrapError> {
        let path = dir.join(MEMORY_FILE);
        let file = OpenOptions::new()
            .append(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)
            .map_err(|e| WrapError::output(&path, "the file cannot be created", e))?;
        Ok(MemoryFile { lines: Lines::new(file) })
    }

    /// Starts the thread, which begins as soon as it is told the command's process id.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn into_monitor(self, pace: Pace) -> Result<Monitor, WrapError> {
        let (tell, told) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("ddo-memory".into())
            .spawn(move || watch(self.lines, pace, &told))
            .map_err(WrapError::system("the memory monitor's thread cannot be started"))?;
        Ok(Monitor { tell, thread })
    }
}

/// The running thread.
#[derive(Debug)]
pub struct Monitor {
    tell: mpsc::Sender<i32>,
    thread: JoinHandle<Watched>,
}

impl Monitor {
    /// Tells the command's process id; the first query follows at once.
    pub fn watch(&self, pid: i32) {
        // The thread ends only in `stop`, so it listens.
        self.tell.send(pid).ok();
    }

    /// Ends the thread and gives back what it saw.
    ///
    /// # Cost
    /// Waits for the query in progress, and flushes the file to disk.
    pub fn stop(self) -> Watched {
        drop(self.tell);
        self.thread.join().unwrap_or_default()
    }
}

fn watch(mut lines: Lines<File>, pace: Pace, told: &mpsc::Receiver<i32>) -> Watched {
    let Ok(pid) = told.recv() else { return Watched::default() };
    let mut process = None;
    let mut tally = Tally::default();
    loop {
        let looked = Instant::now();
        let answer = query(&mut process, pid);
        let query_seconds = looked.elapsed().as_secs_f64();
        let elapsed_seconds = monotonic_seconds() - pace.epoch_seconds;
        let sample = |rss_bytes, error_type: Option<&str>| MemorySample {
            schema_version: version::MEMORY_SAMPLE,
            elapsed_seconds: Seconds(elapsed_seconds),
            rss_bytes,
            query_seconds: Seconds(query_seconds),
            error_type: error_type.map(str::to_owned),
        };
        if let Answer::Rss(bytes) = answer {
            tally.peak = tally.peak.max(Some(bytes));
            lines.append(&sample(Some(bytes), None));
        }
        match told.recv_timeout(pace.interval) {
            Err(RecvTimeoutError::Timeout) | Ok(_) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        // Only now is it known that the failure was not the command's end.
        if let Answer::Failed(error_type) = answer {
            tally.failed = tally.failed.saturating_add(1);
            lines.append(&sample(None, Some(error_type)));
        }
    }
    tally.watched(lines)
}

#[derive(Debug, Default)]
struct Tally {
    peak: Option<u64>,
    failed: u64,
}

impl Tally {
    fn watched(self, mut lines: Lines<File>) -> Watched {
        if let Err(error) = lines.sink.sync_all() {
            lines.broken.get_or_insert(format!("the file could not be flushed to disk: {error}"));
        }
        let mut findings = Vec::new();
        if self.failed > 0 {
            let text = format!("{} memory queries failed while the command ran", self.failed);
            findings.push(Finding::warning("memory_query_failed", MEMORY_FILE, text));
        }
        if let Some(reason) = lines.broken {
            let text = format!("after {} samples {reason}; later samples are missing", lines.written);
            findings.push(Finding::error("memory_write_failed", MEMORY_FILE, text));
        }
        Watched { samples: lines.written, peak_rss_bytes: self.peak, findings }
    }
}

/// What a query gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// Resident bytes.
    Rss(u64),
    /// Why there is no value.
    Failed(&'static str),
    /// The process has ended and waits to be reaped.
    Ended,
}

fn query(process: &mut Option<Process>, pid: i32) -> Answer {
    match resident(process, pid) {
        Ok(0) if process.as_ref().is_none_or(|p| !p.is_alive()) => Answer::Ended,
        Ok(bytes) => Answer::Rss(bytes),
        Err(error) => Answer::Failed(error_type(&error)),
    }
}

fn resident(process: &mut Option<Process>, pid: i32) -> Result<u64, ProcError> {
    let process = match process {
        Some(process) => process,
        None => process.insert(Process::new(pid)?),
    };
    Ok(process.statm()?.resident.saturating_mul(procfs::page_size()))
}

fn error_type(error: &ProcError) -> &'static str {
    match error {
        ProcError::PermissionDenied(_) => "permission_denied",
        ProcError::NotFound(_) => "not_found",
        ProcError::Incomplete(_) => "incomplete",
        ProcError::Io(..) => "io",
        ProcError::Other(_) | ProcError::InternalError(_) => "unreadable",
    }
}

/// Where lines go: a file, or a failing stand-in.
trait Sink: io::Write {
    /// Cuts the file back to its first `length` bytes.
    fn cut(&mut self, length: u64) -> io::Result<()>;
}

impl Sink for File {
    fn cut(&mut self, length: u64) -> io::Result<()> {
        self.set_len(length)
    }
}

/// Appends whole lines until the first failure.
#[derive(Debug)]
struct Lines<S> {
    sink: S,
    length: u64,
    written: u64,
    broken: Option<String>,
}

impl<S: Sink> Lines<S> {
    fn new(sink: S) -> Lines<S> {
        Lines { sink, length: 0, written: 0, broken: None }
    }

    fn append(&mut self, sample: &MemorySample) {
        if self.broken.is_some() {
            return;
        }
        match self.try_append(sample) {
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

    fn try_append(&mut self, sample: &MemorySample) -> io::Result<u64> {
        let mut line = serde_json::to_vec(sample)?;
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

    fn sample() -> MemorySample {
        MemorySample {
            schema_version: version::MEMORY_SAMPLE,
            elapsed_seconds: Seconds(0.5),
            rss_bytes: Some(4096),
            query_seconds: Seconds(0.25),
            error_type: None,
        }
    }

    #[test]
    fn a_full_disk_leaves_whole_lines_and_is_tried_once() {
        let line = serde_json::to_vec(&sample()).expect("finite").len() + 1;
        for spare in [0, 1, line - 1] {
            let mut lines = Lines::new(Full { bytes: Vec::new(), room: 2 * line + spare, calls: 0 });
            for _ in 0..5 {
                lines.append(&sample());
            }
            assert_eq!((lines.written, lines.sink.calls), (2, 3), "{spare}");
            assert_eq!(lines.sink.bytes.len(), 2 * line);
            assert!(lines.broken.is_some());
        }
    }

    #[test]
    fn a_living_process_has_resident_memory() {
        let pid = i32::try_from(std::process::id()).expect("small");
        assert!(matches!(query(&mut None, pid), Answer::Rss(1..)));
        assert_eq!(query(&mut None, i32::MAX), Answer::Failed("not_found"));
    }
}
