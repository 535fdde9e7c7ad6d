//! What the host driver's streams ran, while somebody wants to know.
//!
//! May use: the records of `activity`. Invariants: off costs one relaxed load a call; an operation carries the number of its call, and
//! numbers of an earlier capture are never taken for those of a later one.

use crate::driver::activity::{Activities, Activity, ActivityCall, ActivityFilter, ActivityKind};
use crate::driver::{DriverError, DriverErrorKind, DriverResult, StreamId};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// Name of a copy in a record.
pub(super) const COPY_NAME: &str = "Memcpy HtoD";

#[derive(Debug, Default)]
struct Log {
    /// The last number given to a call; numbers are never used again.
    last: u64,
    /// The first number of this capture.
    first: u64,
    copies_only: bool,
    most: usize,
    range: u64,
    kept: Activities,
}

impl Log {
    fn has_room(&mut self) -> bool {
        let room = self.kept.works.len() + self.kept.calls.len() < self.most;
        self.kept.dropped += u64::from(!room);
        room
    }
}

/// The record of one driver.
#[derive(Debug, Default)]
pub(super) struct Watch {
    on: AtomicBool,
    log: Mutex<Log>,
}

/// How long an operation took, and what it was.
pub(super) struct Ran<'a> {
    pub(super) kind: ActivityKind,
    pub(super) name: &'a str,
    pub(super) stream: StreamId,
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) bytes: Option<u64>,
}

impl Watch {
    fn lock(&self) -> MutexGuard<'_, Log> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn start(&self, filter: ActivityFilter, most: usize) -> DriverResult<()> {
        let mut log = self.lock();
        if self.on.load(Ordering::Relaxed) {
            let detail = "a capture is running; the number of captures at a time is 1";
            return Err(DriverError::new("activity_start", DriverErrorKind::InvalidValue, detail));
        }
        let (last, copies_only) = (log.last, filter == ActivityFilter::Copies);
        *log = Log { last, first: last + 1, copies_only, most, ..Log::default() };
        self.on.store(true, Ordering::Relaxed);
        Ok(())
    }

    pub(super) fn enter(&self, range: u64) {
        self.lock().range = range;
    }

    pub(super) fn stop(&self, now_ns: u64) -> DriverResult<Activities> {
        let mut log = self.lock();
        if !self.on.swap(false, Ordering::Relaxed) {
            return Err(DriverError::new("activity_stop", DriverErrorKind::InvalidValue, "no capture is running"));
        }
        Ok(Activities { now_ns, ..std::mem::take(&mut log.kept) })
    }

    /// Makes a call that queues something under the number given to it; 0 while nobody wants to know.
    pub(super) fn call<T>(
        &self,
        name: &str,
        now: impl Fn() -> u64,
        queue: impl FnOnce(u64) -> DriverResult<T>,
    ) -> DriverResult<T> {
        if !self.on.load(Ordering::Relaxed) {
            return queue(0);
        }
        let mut log = self.lock();
        log.last += 1;
        let (correlation, range) = (log.last, log.range);
        drop(log);
        let start_ns = now();
        let result = queue(correlation);
        let end_ns = now();
        let mut log = self.lock();
        if !log.copies_only && log.has_room() {
            log.kept.calls.push(ActivityCall { name: name.into(), start_ns, end_ns, correlation, range });
        }
        result
    }

    /// Keeps what an operation did, if its call was made in this capture.
    pub(super) fn ran(&self, number: u64, ran: &Ran<'_>) {
        if number == 0 || !self.on.load(Ordering::Relaxed) {
            return;
        }
        let mut log = self.lock();
        if number < log.first || (log.copies_only && ran.kind != ActivityKind::Copy) || !log.has_room() {
            return;
        }
        let Ran { kind, name, stream, start, end, bytes } = *ran;
        let (start_ns, end_ns) = (start, end.max(start));
        log.kept.works.push(Activity { kind, name: name.into(), stream: stream.0, start_ns, end_ns, bytes, correlation: number });
    }
}

/// What host work needs to announce stretches of itself.
#[derive(Clone, Debug)]
pub(crate) struct Inside {
    watch: Arc<Watch>,
    number: u64,
    stream: StreamId,
    clock: Instant,
}

impl Inside {
    /// For work whose call carries a number; `None` while nobody wants to know.
    pub(super) fn of(watch: &Arc<Watch>, number: u64, stream: StreamId, clock: Instant) -> Option<Inside> {
        (number != 0).then(|| Inside { watch: Arc::clone(watch), number, stream, clock })
    }

    /// Nanoseconds of the streams' clock.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.clock.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Keeps a stretch that began at `start` and ends now.
    pub(crate) fn ended(&self, name: &str, start: u64) {
        let (end, bytes) = (self.now(), None);
        self.watch.ran(self.number, &Ran { kind: ActivityKind::Inside, name, stream: self.stream, start, end, bytes });
    }
}

#[cfg(test)]
#[allow(clippy::indexing_slicing)]
mod tests {
    use super::*;

    fn copy(name: &str) -> Ran<'_> {
        Ran { kind: ActivityKind::Copy, name, stream: StreamId(1), start: 5, end: 3, bytes: Some(8) }
    }

    #[test]
    fn numbers_of_an_earlier_capture_are_nobodys() {
        let watch = Watch::default();
        let number = |watch: &Watch| watch.call("copy", || 1, Ok).expect("queued");
        assert_eq!(number(&watch), 0, "off gives no number");
        watch.start(ActivityFilter::All, 10).expect("starts");
        assert!(watch.start(ActivityFilter::All, 10).is_err(), "one capture at a time");
        let old = number(&watch);
        watch.stop(9).expect("stops");
        assert!(watch.stop(9).is_err());
        watch.start(ActivityFilter::All, 10).expect("starts again");
        watch.ran(old, &copy("old"));
        watch.enter(7);
        let new = number(&watch);
        watch.ran(new, &copy("new"));
        let kept = watch.stop(9).expect("stops");
        assert_eq!((kept.works.len(), kept.works[0].name.as_str(), kept.now_ns), (1, "new", 9));
        assert_eq!((kept.works[0].start_ns, kept.works[0].end_ns), (5, 5), "an end is never before its start");
        assert_eq!((kept.calls.len(), kept.calls[0].range, kept.calls[0].correlation), (1, 7, new));
    }

    #[test]
    fn room_is_bounded_and_copies_alone_are_copies_alone() {
        let watch = Watch::default();
        watch.start(ActivityFilter::Copies, 2).expect("starts");
        for _ in 0..3 {
            let number = watch.call("copy", || 1, Ok).expect("queued");
            watch.ran(number, &Ran { kind: ActivityKind::Work, ..copy("work") });
            watch.ran(number, &copy("copy"));
        }
        let kept = watch.stop(0).expect("stops");
        assert_eq!((kept.works.len(), kept.calls.len(), kept.dropped), (2, 0, 1));
    }

    #[test]
    fn virtual_time_is_recorded_to_the_nanosecond() {
        use crate::driver::activity::StreamActivity as _;
        use crate::driver::{Driver as _, HostBytes, HostDriver, HostMode, HostOptions, Job, JobFailures, Launch, Priority};
        use std::time::Duration;
        let (mode, rate) = (HostMode::Stepped, Some(1_000_000_000));
        let link_latency = Duration::from_nanos(7);
        let options = HostOptions { mode, page_bytes: 4096, link_bytes_per_second: rate, link_latency, ..HostOptions::default() };
        let driver = HostDriver::new(options).expect("a host driver");
        let place = driver.address_reserve(4096).expect("addresses");
        let memory = driver.memory_create(4096).expect("memory");
        driver.memory_map(place, 4096, memory).expect("mapped");
        driver.memory_set_access(place, 4096).expect("accessible");
        let (a, b) = (driver.stream_create(Priority::High).expect("a"), driver.stream_create(Priority::Normal).expect("b"));
        let bytes = |count: u64| HostBytes::new(Arc::new(vec![1u8; 4096]), 0, count).expect("inside");
        driver.copy_to_device(place, bytes(4000), a).expect("before anybody wants to know");
        driver.start(ActivityFilter::All, 100).expect("starts");
        driver.enter(3).expect("entered");
        driver.copy_to_device(place, bytes(1000), a).expect("queued");
        let job = Job::host(|_| Ok(())).lasting(Duration::from_nanos(500));
        let launch = Launch { job, grants: Vec::new(), unit: "block".into(), failures: Arc::new(JobFailures::default()) };
        driver.launch(b, launch).expect("queued");
        let found = driver.stop().expect("stopped");
        let mut ran: Vec<_> = found.works.iter().map(|w| (w.name.as_str(), w.stream, w.start_ns, w.end_ns, w.bytes)).collect();
        ran.sort_unstable();
        // The copy waits for the one before it, which nobody recorded.
        assert_eq!(ran, [(COPY_NAME, a.0, 4007, 5014, Some(1000)), ("block", b.0, 0, 500, None)]);
        assert_eq!(found.now_ns, 5014);
        let calls: Vec<_> = found.calls.iter().map(|call| (call.name.as_str(), call.range)).collect();
        assert_eq!(calls, [("copy_to_device", 3), ("launch", 3)]);
        driver.stream_destroy(a).and(driver.stream_destroy(b)).expect("ended");
    }
}
