//! One monotonic clock, and a fake one for tests.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, Ordering};

/// Integer nanoseconds of a monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Nanoseconds since an earlier reading; zero when the earlier one is later.
    pub fn since(self, earlier: Nanos) -> u64 {
        self.0.saturating_sub(earlier.0)
    }

    /// As seconds.
    pub fn seconds(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

/// A monotonic clock.
pub trait Clock: Send + Sync + Debug {
    /// The current reading.
    fn now(&self) -> Nanos;
}

/// The machine's monotonic clock (`CLOCK_MONOTONIC`), the one that run manifests refer to.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Nanos {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        // CLOCK_MONOTONIC counts from boot and is never negative.
        Nanos(time.tv_sec.unsigned_abs() * 1_000_000_000 + time.tv_nsec.unsigned_abs())
    }
}

/// A clock that moves only when told to.
#[derive(Debug, Default)]
pub struct FakeClock(AtomicU64);

impl FakeClock {
    /// Moves the clock forward.
    pub fn advance(&self, nanoseconds: u64) {
        self.0.fetch_add(nanoseconds, Ordering::Relaxed);
    }
}

impl Clock for FakeClock {
    fn now(&self) -> Nanos {
        Nanos(self.0.load(Ordering::Relaxed))
    }
}
