//! "What did the streams run, and who asked for it?" The records of a capture.
//!
//! May use: the driver's error types. Invariants: a record has both of its times, on one clock that the source names; what was
//! left out is counted; one capture a source at a time; without a capture nothing is recorded and nothing is allocated.

use super::DriverResult;
use std::fmt::Debug;

/// How the name of a child module's range begins.
pub const CHILD_RANGE: &str = "ddo.forward.";

/// Which records a capture keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivityFilter {
    /// Work, copies, fills, and the calls that queued them.
    All,
    /// Copies alone: the least disturbance.
    Copies,
}

/// What a stream ran.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivityKind {
    /// A kernel, or host work on the host driver.
    Work,
    /// A copy.
    Copy,
    /// A fill.
    Fill,
    /// A stretch inside host work that the work itself has announced.
    Inside,
}

/// Something that a stream ran.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activity {
    /// What it was.
    pub kind: ActivityKind,
    /// Name of the kernel, of the kind of copy, or of the unit that host work belongs to.
    pub name: String,
    /// Stream, as the source numbers it.
    pub stream: u64,
    /// First nanosecond, on the records' clock.
    pub start_ns: u64,
    /// Last nanosecond, not before the first.
    pub end_ns: u64,
    /// Bytes moved or filled.
    pub bytes: Option<u64>,
    /// The number that it shares with the call that queued it.
    pub correlation: u64,
}

/// A call that queued something.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ActivityCall {
    /// The call.
    pub name: String,
    /// First nanosecond, on the records' clock.
    pub start_ns: u64,
    /// Last nanosecond.
    pub end_ns: u64,
    /// The number that what it queued carries, too.
    pub correlation: u64,
    /// The range that the thread was in; 0 for none.
    pub range: u64,
}

/// Everything that a capture kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activities {
    /// Reading of the records' clock after the last record, in nanoseconds.
    pub now_ns: u64,
    /// What streams ran, in the order in which it became known.
    pub works: Vec<Activity>,
    /// Calls, in the order in which they became known.
    pub calls: Vec<ActivityCall>,
    /// Records left out for want of room.
    pub dropped: u64,
}

/// A source of stream records.
pub trait StreamActivity: Send + Sync + Debug {
    /// Starts a capture of at most `most` records.
    ///
    /// # Errors
    /// A capture is running, or records cannot be had here.
    fn start(&self, filter: ActivityFilter, most: usize) -> DriverResult<()>;

    /// The reading of the records' clock, in nanoseconds.
    ///
    /// # Errors
    /// The source's.
    fn now(&self) -> DriverResult<u64>;

    /// What this thread queues from here on belongs to the range of this number; 0 for none.
    ///
    /// # Errors
    /// The source's.
    fn enter(&self, range: u64) -> DriverResult<()>;

    /// Ends the capture.
    ///
    /// # Errors
    /// The source's. The capture has ended then, too.
    ///
    /// # Cost
    /// Waits until all streams have run everything queued so far.
    fn stop(&self) -> DriverResult<Activities>;
}
