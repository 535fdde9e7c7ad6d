//! "When?" The monotonic clock that all elapsed times refer to, and the one that goes on in suspend.
//!
//! May use: rustix only. Invariant: time asleep is never part of a duration; it is told beside it.

use rustix::time::{ClockId, clock_gettime};

/// Seconds of the system's monotonic clock; the same clock in every process of the machine.
pub fn monotonic_seconds() -> f64 {
    seconds(ClockId::Monotonic)
}

/// Seconds of the clock that goes on while the machine is suspended.
pub fn boottime_seconds() -> f64 {
    seconds(ClockId::Boottime)
}

fn seconds(clock: ClockId) -> f64 {
    let now = clock_gettime(clock);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

/// Two clocks at one moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moment {
    /// The monotonic clock.
    pub monotonic: f64,
    /// The clock that goes on in suspend.
    pub boottime: f64,
}

impl Moment {
    /// Reads both.
    pub fn now() -> Moment {
        Moment { monotonic: monotonic_seconds(), boottime: boottime_seconds() }
    }

    /// Seconds that the machine was suspended until a later moment; zero within what two readings can tell.
    pub fn suspended_until(&self, later: &Moment) -> f64 {
        let gained = (later.boottime - self.boottime) - (later.monotonic - self.monotonic);
        if gained > READING { gained } else { 0.0 }
    }
}

/// Reading two clocks takes time, more so when the thread is interrupted between the readings; shorter sleeps do not exist.
const READING: f64 = 0.1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_asleep_is_the_gain_of_the_clock_that_goes_on() {
        let at = |monotonic, boottime| Moment { monotonic, boottime };
        assert_eq!(at(10.0, 10.0).suspended_until(&at(12.0, 3612.0)), 3600.0);
        assert_eq!(at(10.0, 500.0).suspended_until(&at(12.0, 502.05)), 0.0);
        assert_eq!(at(10.0, 500.0).suspended_until(&at(12.0, 502.0)), 0.0);
        let now = Moment::now();
        assert_eq!(now.suspended_until(&Moment::now()), 0.0);
    }
}
