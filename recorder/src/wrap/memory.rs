//! "How much memory does the command use?" The memory monitor.
//!
//! May use: std, schemas, procfs, `observe::host_memory` and the other modules of this room.
//!
//! Invariants:
//! - the pause begins after both queries have completed; it is no sampling period;
//! - a sample is one line, written by one call; after a failed write the file ends with a whole line again;
//! - a query that fails because the command has just ended is no error; any other failure is counted and told;
//! - nothing that goes wrong here touches the command.

use super::clock::monotonic_seconds;
use super::device::{Devices, Used};
use super::error::WrapError;
use super::group::GroupWatch;
use super::host_events::HostEvents;
use super::lines::Lines;
use super::status::Live;
use super::tracker::{Look, Report, Setup, Tally};
use super::tree::Tree;
use crate::limits::MAX_TREE_PROCESSES;
use crate::observe::host_memory::{self, Held};
use ddo_schemas::memory::MemorySample;
use ddo_schemas::{Finding, Seconds, version};
use procfs::process::Process;
use procfs::{ProcError, ProcResult};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// File name of the samples.
pub const MEMORY_FILE: &str = "memory.ndjson";

/// What is read of every process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Resident memory.
    Rss,
    /// Resident memory without files behind it.
    AnonymousRss,
    /// Resident memory that no other process holds.
    Uss,
}

impl Metric {
    /// The cheap one, or the private one: anonymous pages where the kernel counts them, else the unique set.
    pub fn choose(full: bool) -> Metric {
        let counted = || Process::myself().and_then(|me| me.status()).is_ok_and(|status| status.rssanon.is_some());
        match full {
            false => Metric::Rss,
            true if counted() => Metric::AnonymousRss,
            true => Metric::Uss,
        }
    }

    /// The label of every figure: all are sums over the command's processes.
    pub const fn label(self) -> &'static str {
        match self {
            Metric::Rss => "rss_process_tree",
            Metric::AnonymousRss => "anonymous_rss_process_tree",
            Metric::Uss => "uss_process_tree",
        }
    }

    fn read(self, process: &Process) -> ProcResult<Held> {
        match self {
            Metric::Rss => host_memory::counters(process),
            Metric::AnonymousRss => host_memory::kinds(process),
            Metric::Uss => host_memory::unique(process),
        }
    }

    fn of(self, held: &Held) -> Option<u64> {
        match self {
            Metric::Rss => Some(held.resident),
            Metric::AnonymousRss => held.anonymous,
            Metric::Uss => held.unique,
        }
    }
}

/// What the monitor measures against and how often.
#[derive(Debug)]
pub struct Watch {
    /// The journal folder.
    pub folder: PathBuf,
    /// `rss` or `full`.
    pub mode: &'static str,
    /// What is read.
    pub metric: Metric,
    /// The manifest's reading of the monotonic clock, seconds.
    pub epoch_seconds: f64,
    /// Pause after a query.
    pub interval: Duration,
    /// Devices, where there are any, and what they held before the command.
    pub devices: Option<(Devices, Used)>,
    /// What people and the disk budget share with the monitor.
    pub live: Arc<Live>,
}

/// What the monitor saw.
#[derive(Debug, Default)]
pub struct Watched {
    /// Lines written.
    pub samples: u64,
    /// Largest resident memory of the command's own process, where any query succeeded.
    pub peak_rss_bytes: Option<u64>,
    /// Largest sum, as the metric says.
    pub peak_ram_bytes: Option<u64>,
    /// Largest device memory of the samples.
    pub peak_gpu_bytes: Option<u64>,
    /// Device memory before the command.
    pub gpu_baseline_bytes: Option<u64>,
    /// Address space limit of the command's own process, where it has one.
    pub address_space_limit: Option<u64>,
    /// The control groups.
    pub group: GroupWatch,
    /// Known descendants that were alive at the end.
    pub processes_left: u64,
    /// The last sample with a value.
    pub last: Option<MemorySample>,
    /// The first sample with the largest sum.
    pub largest: Option<MemorySample>,
    /// The host tracker's report as JSON; `None` when the monitor never began.
    pub tracker: Option<serde_json::Result<Vec<u8>>>,
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
    pub fn into_monitor(self, watch: Watch) -> Result<Monitor, WrapError> {
        let (tell, told) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name("ddo-memory".into())
            .spawn(move || run(self.lines, watch, &told))
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
        self.thread.join().unwrap_or_else(|_| Watched {
            findings: vec![Finding::error("memory_monitor_failed", MEMORY_FILE, "the monitor's thread ended early")],
            ..Watched::default()
        })
    }
}

fn run(lines: Lines<File>, watch: Watch, told: &mpsc::Receiver<i32>) -> Watched {
    let Ok(pid) = told.recv() else { return Watched::default() };
    let mut watcher = Watcher::new(watch, lines, pid);
    loop {
        let (sample, look) = watcher.look();
        let failed = look.error_type.is_some();
        if let (Some(sample), false) = (&sample, failed) {
            watcher.keep(sample, &look);
        }
        match told.recv_timeout(watcher.watch.interval) {
            Err(RecvTimeoutError::Timeout) | Ok(_) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        // Only now is it known that the failure was not the command's end.
        if let (Some(sample), true) = (&sample, failed) {
            watcher.keep(sample, &look);
        }
    }
    watcher.end()
}

/// Sums over the command's processes.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    own: Held,
    ram: Option<u64>,
    anonymous: Option<u64>,
    shared: Option<u64>,
    processes: u64,
}

impl Sum {
    fn add(&mut self, held: &Held, value: Option<u64>) {
        let plus = |sum: &mut Option<u64>, more: Option<u64>| {
            if let Some(more) = more {
                *sum = Some(sum.map_or(more, |sum| sum.saturating_add(more)));
            }
        };
        plus(&mut self.ram, value);
        plus(&mut self.anonymous, held.anonymous);
        plus(&mut self.shared, held.shared);
        self.processes += 1;
    }
}

/// A process that is ending gives its address space back before it can be waited for.
fn has_ended(held: &Held) -> bool {
    held.address_space == 0
}

/// The state of the thread.
struct Watcher {
    watch: Watch,
    lines: Lines<File>,
    tree: Tree,
    group: GroupWatch,
    events: HostEvents,
    tally: Tally,
    own_peak: Option<u64>,
    address_space_limit: Option<u64>,
    failed: u64,
    gpu_failed: u64,
    last: Option<MemorySample>,
    largest: Option<MemorySample>,
}

impl Watcher {
    fn new(watch: Watch, lines: Lines<File>, pid: i32) -> Watcher {
        let events = HostEvents::new(&watch.folder);
        let (tree, group, tally) = (Tree::new(pid), GroupWatch::default(), Tally::new());
        Watcher {
            watch,
            lines,
            tree,
            group,
            events,
            tally,
            own_peak: None,
            address_space_limit: None,
            failed: 0,
            gpu_failed: 0,
            last: None,
            largest: None,
        }
    }

    /// One query of both memories; no sample once the command's process has ended.
    fn look(&mut self) -> (Option<MemorySample>, Look) {
        let began = Instant::now();
        let read = self.read_host();
        let control_group_bytes = self.group.used_bytes();
        let ram_seconds = began.elapsed().as_secs_f64();
        let began = Instant::now();
        let gpu = self.watch.devices.as_mut().map(|(devices, _)| (devices.used(), devices.facts.metric()));
        let gpu_seconds = gpu.map(|_| began.elapsed().as_secs_f64());
        let at = monotonic_seconds() - self.watch.epoch_seconds;
        for phase in self.events.new_events().into_iter().filter_map(|event| event.phase) {
            self.tally.begin(&phase);
        }
        let gpu_bytes = gpu.and_then(|(used, _)| used.ok());
        let gpu_error = gpu.and_then(|(used, _)| used.err());
        let (sum, error) = match read {
            Ok(Some(sum)) => (Some(sum), None),
            Ok(None) => return (None, Look::default()),
            Err(error) => (None, Some(error)),
        };
        let look =
            Look { ram_bytes: sum.and_then(|sum| sum.ram), gpu_bytes, ram_seconds, gpu_seconds, error_type: error.or(gpu_error) };
        let sample = MemorySample {
            schema_version: version::MEMORY_SAMPLE,
            elapsed_seconds: Seconds(at),
            phase: self.tally.named_phase().map(str::to_owned),
            rss_bytes: sum.map(|sum| sum.own.resident),
            virtual_bytes: sum.map(|sum| sum.own.address_space),
            ram_bytes: look.ram_bytes,
            ram_metric: look.ram_bytes.map(|_| self.watch.metric.label().to_owned()),
            processes: sum.map(|sum| sum.processes),
            anonymous_bytes: sum.and_then(|sum| sum.anonymous),
            shared_bytes: sum.and_then(|sum| sum.shared),
            control_group_bytes,
            gpu_used_bytes: gpu_bytes,
            gpu_metric: gpu.filter(|(used, _)| used.is_ok()).map(|(_, metric)| metric.to_owned()),
            query_seconds: Seconds(ram_seconds),
            gpu_query_seconds: gpu_seconds.map(Seconds),
            error_type: error.map(str::to_owned),
            gpu_error_type: gpu_error.map(str::to_owned),
        };
        (Some(sample), look)
    }

    /// Host memory of the command's processes; `None` once its own process has ended.
    fn read_host(&mut self) -> Result<Option<Sum>, &'static str> {
        let metric = self.watch.metric;
        let mut sum = Sum::default();
        let due = self.tree.is_due();
        let root = self.tree.root().map_err(|error| host_memory::error_type(&error))?;
        let held = metric.read(root).map_err(|error| host_memory::error_type(&error))?;
        if has_ended(&held) {
            return Ok(None);
        }
        // The command may have moved to another group, or set a limit for itself.
        if due {
            self.group.look(root);
            self.address_space_limit = host_memory::address_space_limit(root).or(self.address_space_limit);
            self.tree.search();
        }
        sum.own = held;
        sum.add(&held, metric.of(&held));
        let mut ended = Vec::new();
        let mut failure = None;
        for (pid, process) in self.tree.descendants() {
            match metric.read(process) {
                Ok(held) if has_ended(&held) => ended.push(pid),
                Ok(held) => sum.add(&held, metric.of(&held)),
                Err(ProcError::NotFound(_) | ProcError::Io(..)) if !process.is_alive() => ended.push(pid),
                Err(error) => failure = Some(host_memory::error_type(&error)),
            }
        }
        self.tree.forget(&ended);
        failure.map_or(Ok(Some(sum)), Err)
    }

    fn keep(&mut self, sample: &MemorySample, look: &Look) {
        self.tally.add(look);
        self.failed = self.failed.saturating_add(u64::from(sample.error_type.is_some()));
        self.gpu_failed = self.gpu_failed.saturating_add(u64::from(sample.gpu_error_type.is_some()));
        self.own_peak = self.own_peak.max(sample.rss_bytes);
        self.watch.live.show(look.ram_bytes, look.gpu_bytes);
        if !self.watch.live.is_full() {
            self.lines.append(sample);
        }
        if sample.ram_bytes.is_some() {
            self.last = Some(sample.clone());
            if self.largest.as_ref().is_none_or(|largest| largest.ram_bytes < sample.ram_bytes) {
                self.largest = Some(sample.clone());
            }
        }
    }

    fn end(mut self) -> Watched {
        self.lines.sync();
        self.tree.search();
        let findings = self.findings();
        let baseline = self.watch.devices.as_ref().and_then(|(_, before)| before.ok());
        let setup = Setup {
            mode: self.watch.mode,
            ram_metric: self.watch.metric.label(),
            gpu_metric: self.watch.devices.as_ref().map(|(devices, _)| devices.facts.metric()),
            gpu_baseline: baseline,
            interval_seconds: self.watch.interval.as_secs_f64(),
        };
        let tracker = serde_json::to_vec_pretty(&Report::of(&setup, &self.tally));
        Watched {
            samples: self.lines.written,
            peak_rss_bytes: self.own_peak,
            peak_ram_bytes: self.tally.peak_ram(),
            peak_gpu_bytes: self.tally.peak_gpu(),
            gpu_baseline_bytes: baseline,
            processes_left: self.tree.living_descendants(),
            address_space_limit: self.address_space_limit,
            group: self.group,
            last: self.last,
            largest: self.largest,
            tracker: Some(tracker),
            findings,
        }
    }

    fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let mut warn = |code, text| findings.push(Finding::warning(code, MEMORY_FILE, text));
        if self.failed > 0 {
            warn("memory_query_failed", format!("{} memory queries failed while the command ran", self.failed));
        }
        if self.gpu_failed > 0 {
            warn("gpu_query_failed", format!("{} queries of device memory failed while the command ran", self.gpu_failed));
        }
        if self.tree.overflowed {
            let text = format!("more than {MAX_TREE_PROCESSES} processes at a time; the sums leave out the others");
            warn("too_many_processes", text);
        }
        if self.events.unreadable > 0 {
            let text = format!("{} lines of host.ndjson could not be read and were left out", self.events.unreadable);
            warn("host_event_unreadable", text);
        }
        if let Some(reason) = &self.lines.broken {
            let text = format!("after {} samples {reason}; later samples are missing", self.lines.written);
            findings.push(Finding::error("memory_write_failed", MEMORY_FILE, text));
        }
        findings
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_metric_reads_what_it_names() {
        let me = Process::myself().expect("this process");
        for metric in [Metric::choose(false), Metric::choose(true), Metric::Uss] {
            let held = metric.read(&me).expect("read");
            let value = metric.of(&held).expect("a value");
            assert!(value > 0 && value <= held.resident, "{metric:?} {held:?}");
        }
        assert_eq!(Metric::choose(false).label(), "rss_process_tree");
        assert_ne!(Metric::choose(true), Metric::Rss);
    }
}
