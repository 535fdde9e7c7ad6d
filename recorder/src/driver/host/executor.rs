//! What all executors share: changing and reading the machine, and waiting for it.

use super::HostMode;
use super::machine::Machine;
use super::memory::HostMemory;
use super::stepped::Stepped;
use super::threaded::Threaded;
use super::watch::Watch;
use crate::driver::{DriverResult, EventId, Priority, StreamId};
use std::sync::Arc;
use std::time::Duration;

/// Who runs the machine.
#[derive(Debug)]
pub(super) enum Executor {
    Threaded(Threaded),
    Stepped(Stepped),
}

impl Executor {
    pub(super) fn new(
        mode: HostMode,
        rate: Option<u64>,
        latency: Duration,
        memory: Arc<HostMemory>,
        watch: Arc<Watch>,
    ) -> Executor {
        match mode {
            HostMode::Threaded => Executor::Threaded(Threaded::new(rate, latency, memory, watch)),
            HostMode::Stepped => Executor::Stepped(Stepped::new(None, rate, latency, memory, watch)),
            HostMode::Interleaved { seed } => Executor::Stepped(Stepped::new(Some(seed), rate, latency, memory, watch)),
        }
    }

    /// Changes the machine; what became ready may run afterwards.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Machine) -> DriverResult<T>) -> DriverResult<T> {
        match self {
            Executor::Threaded(threaded) => threaded.change(change),
            Executor::Stepped(stepped) => stepped.change(change),
        }
    }

    /// Reads the machine; nothing runs because of it.
    pub(super) fn look<T>(&self, look: impl FnOnce(&mut Machine) -> T) -> T {
        match self {
            Executor::Threaded(threaded) => threaded.look(look),
            Executor::Stepped(stepped) => stepped.look(look),
        }
    }

    fn wait_until(&self, call: &'static str, done: impl Fn(&Machine) -> bool) -> DriverResult<()> {
        match self {
            Executor::Threaded(threaded) => {
                threaded.wait_until(done);
                Ok(())
            }
            Executor::Stepped(stepped) => stepped.run_until(call, done),
        }
    }

    pub(super) fn now(&self) -> u64 {
        match self {
            Executor::Threaded(threaded) => threaded.now(),
            Executor::Stepped(stepped) => stepped.now(),
        }
    }

    pub(super) fn stream_create(&self, _priority: Priority) -> DriverResult<StreamId> {
        let stream = self.look(Machine::stream_create);
        if let Executor::Threaded(threaded) = self {
            threaded.start_worker(stream)?;
        }
        Ok(stream)
    }

    pub(super) fn stream_destroy(&self, stream: StreamId) -> DriverResult<()> {
        self.change(|machine| machine.stream_close(stream))?;
        let ended = match self {
            Executor::Threaded(threaded) => threaded.join_worker(stream),
            Executor::Stepped(stepped) => stepped.run_until("stream_destroy", |machine| machine.ended(stream)),
        };
        self.look(|machine| machine.stream_remove(stream));
        ended
    }

    pub(super) fn stream_synchronize(&self, stream: StreamId) -> DriverResult<()> {
        let count = self.look(|machine| machine.enqueued("stream_synchronize", stream))?;
        self.wait_until("stream_synchronize", |machine| machine.finished(stream, count))
    }

    pub(super) fn context_synchronize(&self) -> DriverResult<()> {
        let all = self.look(|machine| machine.all_enqueued());
        self.wait_until("context_synchronize", |machine| all.iter().all(|(stream, count)| machine.finished(*stream, *count)))
    }

    pub(super) fn event_synchronize(&self, event: EventId) -> DriverResult<()> {
        let number = self.look(|machine| machine.recorded(event, "event_synchronize"))?;
        self.wait_until("event_synchronize", |machine| machine.passed_record(event, number))
    }

    pub(super) fn event_wait(&self, event: EventId, at_most: Duration) -> DriverResult<bool> {
        let number = self.look(|machine| machine.recorded(event, "event_wait"))?;
        let done = |machine: &Machine| machine.passed_record(event, number);
        match self {
            Executor::Threaded(threaded) => Ok(threaded.wait_at_most(at_most, done)),
            Executor::Stepped(stepped) => Ok(stepped.run_at_most(at_most, done)),
        }
    }
}
