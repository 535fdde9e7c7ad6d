//! The threaded executor: one named worker a stream, real time, one link that all copies share.

use super::machine::{Machine, Op};
use super::memory::HostMemory;
use super::watch::{COPY_NAME, Inside, Ran, Watch};
use crate::driver::activity::ActivityKind;
use crate::driver::{DriverError, DriverErrorKind, DriverResult, EventId, StreamId};
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The one link between host and device; copies of all streams take turns.
#[derive(Debug)]
struct Link {
    bytes_per_second: Option<u64>,
    latency: Duration,
    turn: Mutex<()>,
}

impl Link {
    /// Carries the bytes when it is their turn; when that was.
    fn carry(&self, bytes: u64, copy: impl FnOnce()) -> Instant {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let start = Instant::now();
        copy();
        let least = match self.bytes_per_second {
            Some(rate) => self.latency + Duration::from_secs_f64(bytes as f64 / rate as f64),
            None => self.latency,
        };
        // The imitated link is busy until then: nobody else may copy meanwhile.
        if let Some(rest) = least.checked_sub(start.elapsed()) {
            std::thread::sleep(rest);
        }
        start
    }
}

#[derive(Debug)]
struct Shared {
    machine: Mutex<Machine>,
    changed: Condvar,
    start: Instant,
    link: Link,
    watch: Arc<Watch>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn work(&self, stream: StreamId, memory: &HostMemory) {
        loop {
            let mut machine = self.lock();
            let op = loop {
                if let Some(op) = machine.start(stream) {
                    break op;
                }
                if machine.ended(stream) {
                    return;
                }
                machine = self.changed.wait(machine).unwrap_or_else(PoisonError::into_inner);
            };
            drop(machine);
            let record = self.execute(stream, op, memory);
            let now = self.now();
            self.lock().finish(stream, record, now);
            self.changed.notify_all();
        }
    }

    fn execute(&self, stream: StreamId, op: Op, memory: &HostMemory) -> Option<(EventId, u64)> {
        match op {
            Op::Copy { to, from, number } => {
                let start = self.link.carry(from.bytes(), || memory.write(to, from.as_slice()));
                self.ran(number, ActivityKind::Copy, COPY_NAME, stream, start, Some(from.bytes()));
                None
            }
            Op::Work { launch, number } => {
                let (start, least, name) = (Instant::now(), launch.lasting(), Arc::clone(&launch.unit));
                launch.run_host(memory.is_backed(), Inside::of(&self.watch, number, stream, self.start));
                // Work that imitates a device's keeps its stream busy for as long as it declares.
                if let Some(rest) = least.checked_sub(start.elapsed()) {
                    std::thread::sleep(rest);
                }
                self.ran(number, ActivityKind::Work, &name, stream, start, None);
                None
            }
            Op::Record { event, number } => Some((event, number)),
            Op::Wait { .. } => None,
        }
    }

    /// Keeps what an operation did that began at `start` and ends now.
    fn ran(&self, number: u64, kind: ActivityKind, name: &str, stream: StreamId, start: Instant, bytes: Option<u64>) {
        if number != 0 {
            let start = start.saturating_duration_since(self.start).as_nanos();
            let start = u64::try_from(start).unwrap_or(u64::MAX);
            self.watch.ran(number, &Ran { kind, name, stream, start, end: self.now(), bytes });
        }
    }
}

/// Workers of all streams.
#[derive(Debug)]
pub(super) struct Threaded {
    shared: Arc<Shared>,
    memory: Arc<HostMemory>,
    workers: Mutex<BTreeMap<StreamId, JoinHandle<()>>>,
}

impl Threaded {
    pub(super) fn new(
        link_bytes_per_second: Option<u64>,
        latency: Duration,
        memory: Arc<HostMemory>,
        watch: Arc<Watch>,
    ) -> Threaded {
        let link = Link { bytes_per_second: link_bytes_per_second, latency, turn: Mutex::new(()) };
        let shared = Shared { machine: Mutex::default(), changed: Condvar::new(), start: Instant::now(), link, watch };
        Threaded { shared: Arc::new(shared), memory, workers: Mutex::default() }
    }

    fn workers(&self) -> MutexGuard<'_, BTreeMap<StreamId, JoinHandle<()>>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn start_worker(&self, stream: StreamId) -> DriverResult<()> {
        let (shared, memory) = (Arc::clone(&self.shared), Arc::clone(&self.memory));
        let builder = std::thread::Builder::new().name(format!("ddo-stream-{}", stream.0));
        match builder.spawn(move || shared.work(stream, &memory)) {
            Ok(handle) => {
                self.workers().insert(stream, handle);
                Ok(())
            }
            Err(error) => {
                self.shared.lock().stream_remove(stream);
                Err(DriverError::new("stream_create", DriverErrorKind::System, error))
            }
        }
    }

    /// Waits for the worker of a closing stream.
    pub(super) fn join_worker(&self, stream: StreamId) -> DriverResult<()> {
        let worker = self.workers().remove(&stream);
        match worker.map(JoinHandle::join) {
            Some(Err(_)) => Err(DriverError::new("stream_destroy", DriverErrorKind::System, "the stream's worker panicked")),
            _ => Ok(()),
        }
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Machine) -> DriverResult<T>) -> DriverResult<T> {
        let result = change(&mut self.shared.lock());
        self.shared.changed.notify_all();
        result
    }

    pub(super) fn look<T>(&self, look: impl FnOnce(&mut Machine) -> T) -> T {
        look(&mut self.shared.lock())
    }

    pub(super) fn wait_until(&self, done: impl Fn(&Machine) -> bool) {
        let mut machine = self.shared.lock();
        while !done(&machine) {
            machine = self.shared.changed.wait(machine).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until the condition holds, at most for the given time; whether it does.
    pub(super) fn wait_at_most(&self, at_most: Duration, done: impl Fn(&Machine) -> bool) -> bool {
        let machine = self.shared.lock();
        let waited = self.shared.changed.wait_timeout_while(machine, at_most, |machine| !done(machine));
        let (machine, _) = waited.unwrap_or_else(PoisonError::into_inner);
        done(&machine)
    }

    pub(super) fn now(&self) -> u64 {
        self.shared.now()
    }
}

impl Drop for Threaded {
    /// Lets the workers end by themselves: dropping never blocks on work in flight.
    fn drop(&mut self) {
        let streams: Vec<StreamId> = self.workers().keys().copied().collect();
        let mut machine = self.shared.lock();
        for stream in streams {
            let _ = machine.stream_close(stream);
        }
        drop(machine);
        self.shared.changed.notify_all();
    }
}
