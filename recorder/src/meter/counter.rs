//! Counters and host scopes.

use super::{Clock, Nanos};
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that only grows.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// Adds to the counter.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// Reads the counter.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Host time and entries of one named scope; failures count like successes.
#[derive(Debug, Default)]
pub struct HostScope {
    nanoseconds: Counter,
    calls: Counter,
}

impl HostScope {
    /// Runs `work` inside the scope.
    pub fn time<T>(&self, clock: &dyn Clock, work: impl FnOnce() -> T) -> T {
        let start = clock.now();
        let result = work();
        self.add(clock, start);
        result
    }

    /// Adds one pass through the scope that began at `start` and ends now.
    pub fn add(&self, clock: &dyn Clock, start: Nanos) {
        self.nanoseconds.add(clock.now().since(start));
        self.calls.add(1);
    }

    /// Adds one pass that began at `start`, but for so many nanoseconds that other scopes account for.
    pub fn add_but(&self, clock: &dyn Clock, start: Nanos, elsewhere: u64) {
        self.nanoseconds.add(clock.now().since(start).saturating_sub(elsewhere));
        self.calls.add(1);
    }

    /// Seconds spent inside so far.
    pub fn seconds(&self) -> f64 {
        self.nanoseconds.get() as f64 / 1e9
    }

    /// Nanoseconds spent inside so far.
    pub fn nanoseconds(&self) -> u64 {
        self.nanoseconds.get()
    }

    /// Times the scope was left so far.
    pub fn calls(&self) -> u64 {
        self.calls.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::FakeClock;

    #[test]
    fn a_scope_counts_its_own_time_and_failures_too() {
        let clock = FakeClock::default();
        let scope = HostScope::default();
        let _: Result<(), ()> = scope.time(&clock, || {
            clock.advance(1_500_000_000);
            Err(())
        });
        clock.advance(7);
        assert_eq!((scope.seconds(), scope.calls()), (1.5, 1));
        let start = clock.now();
        clock.advance(500_000_000);
        scope.add_but(&clock, start, 200_000_000);
        assert_eq!((scope.nanoseconds(), scope.calls()), (1_800_000_000, 2));
    }
}
