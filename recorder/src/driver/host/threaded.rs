//! The threaded executor: one named worker a stream, real time, one link that all copies share.

use crate::driver::{DriverError, DriverErrorKind, DriverResult, Elapsed, EventId, Priority, StreamId};
use super::machine::{Machine, Op};
use super::memory::HostMemory;
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
    fn carry(&self, bytes: u64, copy: impl FnOnce()) {
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
    }
}

#[derive(Debug)]
struct Shared {
    machine: Mutex<Machine>,
    changed: Condvar,
    start: Instant,
    link: Link,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Machine> {
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    fn wait_until(&self, done: impl Fn(&Machine) -> bool) -> DriverResult<()> {
        let mut machine = self.lock();
        while !done(&machine) {
            machine = self.changed.wait(machine).unwrap_or_else(PoisonError::into_inner);
        }
        Ok(())
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
            let record = self.execute(op, memory);
            let now = self.now();
            self.lock().finish(stream, record, now);
            self.changed.notify_all();
        }
    }

    fn execute(&self, op: Op, memory: &HostMemory) -> Option<(EventId, u64)> {
        match op {
            Op::Copy { to, from } => {
                self.link.carry(from.bytes(), || memory.write(to, from.as_slice()));
                None
            }
            Op::Work(launch) => {
                launch.run_host();
                None
            }
            Op::Record { event, number } => Some((event, number)),
            Op::Wait { .. } => None,
        }
    }
}

/// Streams, events and their workers.
#[derive(Debug)]
pub(super) struct Executor {
    shared: Arc<Shared>,
    workers: Mutex<BTreeMap<StreamId, JoinHandle<()>>>,
}

impl Executor {
    pub(super) fn new(link_bytes_per_second: Option<u64>, latency: Duration) -> Executor {
        let link = Link { bytes_per_second: link_bytes_per_second, latency, turn: Mutex::new(()) };
        let shared = Shared { machine: Mutex::default(), changed: Condvar::new(), start: Instant::now(), link };
        Executor { shared: Arc::new(shared), workers: Mutex::default() }
    }

    pub(super) fn stream_create(&self, _priority: Priority, memory: Arc<HostMemory>) -> DriverResult<StreamId> {
        let id = self.shared.lock().stream_create();
        let shared = Arc::clone(&self.shared);
        let worker = std::thread::Builder::new().name(format!("ddo-stream-{}", id.0)).spawn(move || shared.work(id, &memory));
        match worker {
            Ok(handle) => {
                self.workers.lock().unwrap_or_else(PoisonError::into_inner).insert(id, handle);
                Ok(id)
            }
            Err(error) => {
                self.shared.lock().stream_remove(id);
                Err(DriverError::new("stream_create", DriverErrorKind::System, error))
            }
        }
    }

    pub(super) fn stream_destroy(&self, stream: StreamId) -> DriverResult<()> {
        self.shared.lock().stream_close(stream)?;
        self.shared.changed.notify_all();
        let worker = self.workers.lock().unwrap_or_else(PoisonError::into_inner).remove(&stream);
        let joined = worker.map(JoinHandle::join);
        self.shared.lock().stream_remove(stream);
        match joined {
            Some(Err(_)) => Err(DriverError::new("stream_destroy", DriverErrorKind::System, "the stream's worker panicked")),
            _ => Ok(()),
        }
    }

    pub(super) fn enqueue(&self, call: &'static str, stream: StreamId, op: Op) -> DriverResult<()> {
        self.change(|machine| machine.enqueue(call, stream, op))
    }

    pub(super) fn record(&self, event: EventId, stream: StreamId) -> DriverResult<()> {
        self.change(|machine| machine.record(event, stream))
    }

    pub(super) fn wait_event(&self, stream: StreamId, event: EventId) -> DriverResult<()> {
        self.change(|machine| machine.wait_event(stream, event))
    }

    fn change<T>(&self, change: impl FnOnce(&mut Machine) -> DriverResult<T>) -> DriverResult<T> {
        let result = change(&mut self.shared.lock());
        self.shared.changed.notify_all();
        result
    }

    pub(super) fn stream_synchronize(&self, stream: StreamId) -> DriverResult<()> {
        let count = self.shared.lock().enqueued("stream_synchronize", stream)?;
        self.shared.wait_until(|machine| machine.finished(stream, count))
    }

    pub(super) fn event_create(&self, timing: bool) -> EventId {
        self.shared.lock().event_create(timing)
    }

    pub(super) fn event_query(&self, event: EventId) -> DriverResult<bool> {
        self.shared.lock().passed(event, "event_query")
    }

    pub(super) fn event_synchronize(&self, event: EventId) -> DriverResult<()> {
        let number = self.shared.lock().recorded(event, "event_synchronize")?;
        self.shared.wait_until(|machine| machine.passed_record(event, number))
    }

    pub(super) fn event_elapsed(&self, from: EventId, to: EventId) -> DriverResult<Elapsed> {
        let nanoseconds = self.shared.lock().elapsed(from, to)?;
        Ok(Elapsed { seconds: nanoseconds as f64 / 1e9, resolution_seconds: 1e-9 })
    }

    pub(super) fn event_destroy(&self, event: EventId) -> DriverResult<()> {
        self.shared.lock().event_destroy(event)
    }
}

impl Drop for Executor {
    /// Lets the workers end by themselves: dropping never blocks on work in flight.
    fn drop(&mut self) {
        let streams: Vec<StreamId> = self.workers.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect();
        let mut machine = self.shared.lock();
        for stream in streams {
            let _ = machine.stream_close(stream);
        }
        drop(machine);
        self.shared.changed.notify_all();
    }
}
