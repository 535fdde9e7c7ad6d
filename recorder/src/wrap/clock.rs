//! "When?" The monotonic clock that all elapsed times refer to.
//!
//! May use: rustix only.

use rustix::time::{ClockId, clock_gettime};

/// Seconds of the system's monotonic clock; the same clock in every process of the machine.
pub fn monotonic_seconds() -> f64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}
