//! "How is it going?" The live line, and the size of the journal with its budget.
//!
//! May use: std, the limits and the other modules of this room.
//!
//! Invariants: off unless asked for; nothing is written while another job owns the terminal; measuring the folder takes a
//! small share of the time; a budget that is reached stops records and samples, never the command.

use super::jobs;
use super::words::shown;
use crate::limits::{FOLDER_MEASURE_SHARE, MAX_MEASURED_FILES, STATUS_INTERVAL, STATUS_LOG_INTERVAL};
use crate::observe::publish::publish_new;
use crate::observe::{DISK_STOP_FILE, STEP_FILE_START};
use ddo_schemas::Finding;
use ddo_schemas::unit::human_bytes;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Clears the line that the cursor is on.
const CLEAR: &str = "\r\x1b[K";
/// A level that was never read.
const UNKNOWN: u64 = u64::MAX;

/// What the monitor and the status line share.
#[derive(Debug)]
pub struct Live {
    ram: AtomicU64,
    gpu: AtomicU64,
    full: AtomicBool,
}

impl Default for Live {
    fn default() -> Live {
        Live { ram: AtomicU64::new(UNKNOWN), gpu: AtomicU64::new(UNKNOWN), full: AtomicBool::new(false) }
    }
}

impl Live {
    /// Shows the last levels.
    pub fn show(&self, ram: Option<u64>, gpu: Option<u64>) {
        self.ram.store(ram.unwrap_or(UNKNOWN), Ordering::Relaxed);
        self.gpu.store(gpu.unwrap_or(UNKNOWN), Ordering::Relaxed);
    }

    /// True once the disk budget was reached.
    pub fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }
}

/// What is in the folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Bytes of all files.
    pub bytes: u64,
    /// Records of steps.
    pub steps: u64,
    files: u64,
}

/// Measures a folder without following links.
pub fn measure(folder: &Path) -> Size {
    let mut size = Size::default();
    let mut open = vec![folder.to_path_buf()];
    while let Some(next) = open.pop() {
        let Ok(entries) = std::fs::read_dir(&next) else { continue };
        for entry in entries.flatten() {
            let Ok(about) = entry.metadata() else { continue };
            if about.is_dir() {
                open.push(entry.path());
                continue;
            }
            size.files += 1;
            size.bytes = size.bytes.saturating_add(about.len());
            let is_step = entry.file_name().to_str().is_some_and(|n| n.starts_with(STEP_FILE_START) && n.ends_with(".json"));
            size.steps += u64::from(is_step);
            if size.files >= MAX_MEASURED_FILES {
                return size;
            }
        }
    }
    size
}

/// What the thread does.
#[derive(Debug)]
pub struct Task {
    /// The journal folder.
    pub folder: PathBuf,
    /// Print a live line.
    pub line: bool,
    /// Stop recording at this size.
    pub budget_bytes: Option<u64>,
    /// Levels to show.
    pub live: Arc<Live>,
}

/// The running thread.
#[derive(Debug)]
pub struct Status {
    stop: mpsc::Sender<()>,
    thread: JoinHandle<Vec<Finding>>,
}

impl Status {
    /// Starts the thread where it has something to do.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn start(task: Task) -> io::Result<Option<Status>> {
        if !task.line && task.budget_bytes.is_none() {
            return Ok(None);
        }
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::Builder::new().name("ddo-status".into()).spawn(move || run(&task, &stopped))?;
        Ok(Some(Status { stop, thread }))
    }

    /// Ends the thread.
    pub fn stop(self) -> Vec<Finding> {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
    }
}

fn run(task: &Task, stopped: &mpsc::Receiver<()>) -> Vec<Finding> {
    let began = Instant::now();
    let terminal = io::stderr().is_terminal();
    let every = if terminal || task.budget_bytes.is_some() { STATUS_INTERVAL } else { STATUS_LOG_INTERVAL };
    let (mut findings, mut pause, mut shown_at) = (Vec::new(), Duration::ZERO, None::<Instant>);
    while stopped.recv_timeout(pause) != Err(RecvTimeoutError::Disconnected) {
        let measuring = Instant::now();
        let size = measure(&task.folder);
        pause = every.max(measuring.elapsed().saturating_mul(FOLDER_MEASURE_SHARE));
        if let Some(budget) = task.budget_bytes.filter(|budget| size.bytes >= *budget && !task.live.is_full()) {
            findings.extend(stop_recording(task, size, budget));
        }
        let log_due = shown_at.is_none_or(|at| at.elapsed() >= STATUS_LOG_INTERVAL);
        if task.line && (log_due || terminal) && (!terminal || jobs::may_write_to_terminal()) {
            let text = text(began.elapsed(), size, &task.live);
            let line = if terminal { format!("{CLEAR}{text}") } else { format!("{text}\n") };
            io::stderr().write_all(line.as_bytes()).ok();
            shown_at = Some(Instant::now());
        }
    }
    if task.line && terminal && shown_at.is_some() && jobs::may_write_to_terminal() {
        io::stderr().write_all(CLEAR.as_bytes()).ok();
    }
    findings
}

/// Tells the monitor and embedded recorders to write no more.
fn stop_recording(task: &Task, size: Size, budget: u64) -> Vec<Finding> {
    task.live.full.store(true, Ordering::Relaxed);
    let text = format!(
        "the journal reached {} of its budget of {}; later records and samples were not written (policy keep_first)",
        human_bytes(size.bytes),
        human_bytes(budget)
    );
    let mut findings = vec![Finding::warning("disk_budget_reached", shown(task.folder.as_os_str()), text)];
    let mark = format!("{{\"disk_budget_bytes\":{budget},\"journal_bytes\":{}}}\n", size.bytes);
    if let Err(error) = publish_new(&task.folder, DISK_STOP_FILE, mark.as_bytes()) {
        let text = format!("embedded recorders could not be told that the disk budget is reached: {error}");
        findings.push(Finding::warning("disk_budget_not_told", DISK_STOP_FILE, text));
    }
    findings
}

fn text(elapsed: Duration, size: Size, live: &Live) -> String {
    let level = |name: &str, value: &AtomicU64| match value.load(Ordering::Relaxed) {
        UNKNOWN => String::new(),
        bytes => format!(", {name} {}", human_bytes(bytes)),
    };
    let (ram, gpu) = (level("memory", &live.ram), level("device", &live.gpu));
    let seconds = elapsed.as_secs();
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let time = format!("{hours}:{minutes:02}:{:02}", seconds % 60);
    format!("ddo-record: {time}, {} steps{ram}{gpu}, journal {}", size.steps, human_bytes(size.bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_leaves_out_what_is_unknown() {
        let live = Live::default();
        let size = Size { bytes: 2048, steps: 3, files: 4 };
        assert_eq!(text(Duration::from_secs(3725), size, &live), "ddo-record: 1:02:05, 3 steps, journal 2.0 KiB");
        live.show(Some(1 << 30), None);
        assert_eq!(text(Duration::ZERO, size, &live), "ddo-record: 0:00:00, 3 steps, memory 1.00 GiB, journal 2.0 KiB");
    }

    #[test]
    fn a_folder_is_measured_with_its_steps() {
        let folder = std::env::temp_dir().join(format!("ddo-size-{:032x}", fastrand::u128(..)));
        std::fs::create_dir_all(folder.join("snapshots/a")).expect("made");
        for (name, bytes) in [("manifest.json", 10), ("snapshots/a/step_0000.json", 20), ("snapshots/a/step_0001.json.x.tmp", 5)]
        {
            std::fs::write(folder.join(name), vec![b' '; bytes]).expect("written");
        }
        assert_eq!(measure(&folder), Size { bytes: 35, steps: 1, files: 3 });
        let live = Arc::new(Live::default());
        let task = Task { folder: folder.clone(), line: false, budget_bytes: Some(30), live: live.clone() };
        let codes = |found: Vec<Finding>| found.into_iter().map(|finding| finding.code).collect::<Vec<_>>();
        assert_eq!(codes(stop_recording(&task, measure(&folder), 30)), ["disk_budget_reached"]);
        assert!(live.is_full() && folder.join(DISK_STOP_FILE).exists());
        assert_eq!(codes(stop_recording(&task, measure(&folder), 30)), ["disk_budget_reached", "disk_budget_not_told"]);
        std::fs::remove_dir_all(&folder).ok();
    }
}
