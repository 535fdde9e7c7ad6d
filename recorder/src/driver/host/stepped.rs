//! The stepped executor: virtual time in integer nanoseconds, one operation after another.
//!
//! Copies are really executed and work really runs, at virtual times: a copy holds the one link for its latency plus
//! its bytes over the link's rate, work lasts as long as it declares. With a seed, every call of the host may let
//! some operations run first, ready streams start in an order that the seed picks, and the effect of an operation
//! shows at its begin or at its end. Work must not call the driver or the session.

use super::machine::{Machine, Op};
use super::memory::HostMemory;
use super::watch::{COPY_NAME, Ran, Watch};
use crate::driver::activity::ActivityKind;
use crate::driver::{DriverError, DriverErrorKind, DriverResult, EventId, StreamId};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Most operations that one call of the host lets run, with a seed.
const MOST_PROGRESS: usize = 4;
/// How many calls of the host go by between two that let operations run; each seed picks one. The last one stands for
/// a host that is always far ahead of the device.
const CALLS_BETWEEN_PROGRESS: [u64; 4] = [1, 4, 16, 1 << 32];

#[derive(Debug)]
struct Running {
    stream: StreamId,
    /// Taken when its effect has shown.
    op: Option<Op>,
    record: Option<(EventId, u64)>,
    ends: u64,
}

#[derive(Debug)]
struct World {
    machine: Machine,
    running: Vec<Running>,
    now: u64,
    link_free_at: u64,
    seed: Option<fastrand::Rng>,
    calls_between_progress: u64,
    bytes_per_second: Option<u64>,
    latency: u64,
    memory: Arc<HostMemory>,
    watch: Arc<Watch>,
}

/// The executor.
#[derive(Debug)]
pub(super) struct Stepped {
    world: Mutex<World>,
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl World {
    /// Virtual nanoseconds that a copy holds the link for, rounded up.
    fn copy_time(&self, bytes: u64) -> u64 {
        let moving = self.bytes_per_second.map_or(0, |rate| (u128::from(bytes) * 1_000_000_000).div_ceil(u128::from(rate)));
        self.latency.saturating_add(u64::try_from(moving).unwrap_or(u64::MAX))
    }

    /// Starts every operation that is ready.
    fn start_ready(&mut self) {
        let mut streams = self.machine.ready_streams();
        if let Some(seed) = &mut self.seed {
            seed.shuffle(&mut streams);
        }
        for stream in streams {
            let Some(op) = self.machine.start(stream) else { continue };
            let (record, ends) = match &op {
                Op::Record { event, number } => (Some((*event, *number)), self.now),
                Op::Wait { .. } => (None, self.now),
                Op::Work { launch, number } => {
                    let (start, end) = (self.now, self.now.saturating_add(nanoseconds(launch.lasting())));
                    let (kind, name) = (ActivityKind::Work, &*launch.unit);
                    self.watch.ran(*number, &Ran { kind, name, stream, start, end, bytes: None });
                    (None, end)
                }
                Op::Copy { from, number, .. } => {
                    let start = self.link_free_at.max(self.now);
                    self.link_free_at = start.saturating_add(self.copy_time(from.bytes()));
                    let (kind, end, bytes) = (ActivityKind::Copy, self.link_free_at, Some(from.bytes()));
                    self.watch.ran(*number, &Ran { kind, name: COPY_NAME, stream, start, end, bytes });
                    (None, end)
                }
            };
            let early = self.seed.as_mut().is_some_and(fastrand::Rng::bool);
            let op = if early {
                self.effect(op);
                None
            } else {
                Some(op)
            };
            self.running.push(Running { stream, op, record, ends });
        }
    }

    fn effect(&self, op: Op) {
        match op {
            Op::Copy { to, from, .. } => self.memory.write(to, from.as_slice()),
            Op::Work { launch, .. } => launch.run_host(self.memory.is_backed(), None),
            Op::Record { .. } | Op::Wait { .. } => {}
        }
    }

    /// When the next operation ends; `None` when nothing can run.
    fn next_end(&mut self) -> Option<u64> {
        self.start_ready();
        self.running.iter().map(|running| running.ends).min()
    }

    /// Ends the operation that ends first; false when nothing can run.
    fn step(&mut self) -> bool {
        let Some(first) = self.next_end() else { return false };
        let ties: Vec<usize> =
            self.running.iter().enumerate().filter(|(_, running)| running.ends == first).map(|(index, _)| index).collect();
        let pick = self.seed.as_mut().map_or(0, |seed| seed.usize(..ties.len()));
        let Some(index) = ties.get(pick) else { return false };
        let running = self.running.remove(*index);
        self.now = self.now.max(running.ends);
        if let Some(op) = running.op {
            self.effect(op);
        }
        self.machine.finish(running.stream, running.record, self.now);
        true
    }

    fn progress(&mut self) {
        let Some(seed) = &mut self.seed else { return };
        if seed.u64(..self.calls_between_progress) > 0 {
            return;
        }
        let steps = seed.usize(..=MOST_PROGRESS);
        for _ in 0..steps {
            if !self.step() {
                break;
            }
        }
    }
}

impl Stepped {
    pub(super) fn new(
        seed: Option<u64>,
        bytes_per_second: Option<u64>,
        latency: Duration,
        memory: Arc<HostMemory>,
        watch: Arc<Watch>,
    ) -> Stepped {
        let mut seed = seed.map(fastrand::Rng::with_seed);
        let between = seed.as_mut().and_then(|seed| seed.choice(CALLS_BETWEEN_PROGRESS));
        let world = World {
            machine: Machine::default(),
            running: Vec::new(),
            now: 0,
            link_free_at: 0,
            seed,
            calls_between_progress: between.unwrap_or(1),
            bytes_per_second,
            latency: nanoseconds(latency),
            memory,
            watch,
        };
        Stepped { world: Mutex::new(world) }
    }

    fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn now(&self) -> u64 {
        self.lock().now
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Machine) -> DriverResult<T>) -> DriverResult<T> {
        let mut world = self.lock();
        world.progress();
        let result = change(&mut world.machine);
        world.progress();
        result
    }

    pub(super) fn look<T>(&self, look: impl FnOnce(&mut Machine) -> T) -> T {
        look(&mut self.lock().machine)
    }

    /// Runs until the condition holds; an error when nothing is left that could make it hold.
    pub(super) fn run_until(&self, call: &'static str, done: impl Fn(&Machine) -> bool) -> DriverResult<()> {
        let mut world = self.lock();
        while !done(&world.machine) {
            if !world.step() {
                let detail = "every stream waits for an event that nothing records";
                return Err(DriverError::new(call, DriverErrorKind::System, detail));
            }
        }
        Ok(())
    }

    /// Runs until the condition holds, at most for the given virtual time; whether it does.
    pub(super) fn run_at_most(&self, at_most: Duration, done: impl Fn(&Machine) -> bool) -> bool {
        let mut world = self.lock();
        let until = world.now.saturating_add(nanoseconds(at_most));
        while !done(&world.machine) && world.next_end().is_some_and(|end| end <= until) {
            world.step();
        }
        done(&world.machine)
    }
}
