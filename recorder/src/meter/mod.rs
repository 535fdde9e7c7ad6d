//! "How do we count?"
//!
//! May use: the standard library and `rustix` for the clock. Invariants: counters only grow; one monotonic clock for
//! everything; nothing here knows what is counted.

mod clock;
mod counter;

pub use clock::{Clock, FakeClock, Nanos, SystemClock};
pub use counter::{Counter, HostScope};
