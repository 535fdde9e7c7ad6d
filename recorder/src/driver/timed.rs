//! A wrapper that measures every call: how often, how long on the host, how many failed, and what access answered.
//!
//! The numbers belong to a [`CallMeter`], which any number of wrappers share: one meter stands for all calls of a
//! process. Off, a call costs one relaxed load.

use super::activity::StreamActivity;
use super::{CALLS, Driver, DriverErrorKind, DriverResult};
use crate::meter::{Clock, Counter, HostScope, Nanos};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

#[derive(Debug, Default)]
struct Call {
    calls: Counter,
    nanoseconds: Counter,
    failures: Counter,
}

#[derive(Debug, Default)]
struct Access {
    success: Counter,
    not_ready: Counter,
    out_of_memory: Counter,
    other: Counter,
}

/// Numbers of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallStats {
    /// Times called, failures included.
    pub calls: u64,
    /// Host nanoseconds inside, blocking included.
    pub nanoseconds: u64,
    /// Times that it failed.
    pub failed_calls: u64,
}

impl CallStats {
    /// Host seconds inside, blocking included.
    pub fn host_seconds(&self) -> f64 {
        self.nanoseconds as f64 / 1e9
    }

    /// What came on top since an earlier reading.
    pub fn since(&self, earlier: &CallStats) -> CallStats {
        CallStats {
            calls: self.calls.saturating_sub(earlier.calls),
            nanoseconds: self.nanoseconds.saturating_sub(earlier.nanoseconds),
            failed_calls: self.failed_calls.saturating_sub(earlier.failed_calls),
        }
    }
}

/// One reading of a meter. Readings subtract.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TimedReading {
    /// By name of the call.
    pub calls: BTreeMap<&'static str, CallStats>,
    /// `memory_set_access` by what it returned: success, not ready, out of memory, other.
    pub access_returns: [u64; 4],
    /// Entries into the arena's fault routine, from entry to exit; failures are not told apart.
    pub fault_range: CallStats,
}

impl TimedReading {
    /// What came on top since an earlier reading.
    pub fn since(&self, earlier: &TimedReading) -> TimedReading {
        let before = |name: &str| earlier.calls.get(name).copied().unwrap_or_default();
        let mut access_returns = self.access_returns;
        for (now, then) in access_returns.iter_mut().zip(earlier.access_returns) {
            *now = now.saturating_sub(then);
        }
        TimedReading {
            calls: self.calls.iter().map(|(name, stats)| (*name, stats.since(&before(name)))).collect(),
            access_returns,
            fault_range: self.fault_range.since(&earlier.fault_range),
        }
    }

    /// Numbers of one call, by its name in [`Driver`].
    pub fn call(&self, name: &str) -> CallStats {
        self.calls.get(name).copied().unwrap_or_default()
    }
}

/// What wrappers count into, and who has switched it on.
#[derive(Debug)]
pub struct CallMeter {
    on: AtomicBool,
    owned: AtomicBool,
    calls: BTreeMap<&'static str, Call>,
    access: Access,
    faults: HostScope,
}

impl Default for CallMeter {
    fn default() -> CallMeter {
        let calls = CALLS.iter().map(|call| (*call, Call::default())).collect();
        let (on, owned) = (AtomicBool::new(false), AtomicBool::new(false));
        CallMeter { on, owned, calls, access: Access::default(), faults: HostScope::default() }
    }
}

impl CallMeter {
    /// The meter of this process: every session counts here unless it is given another one.
    pub fn of_process() -> Arc<CallMeter> {
        static PROCESS: LazyLock<Arc<CallMeter>> = LazyLock::new(Arc::default);
        Arc::clone(&PROCESS)
    }

    /// Switches counting on for one owner until the lease is dropped; `None` while there is another owner.
    pub fn acquire(self: &Arc<Self>) -> Option<MeterLease> {
        if self.owned.swap(true, Ordering::AcqRel) {
            return None;
        }
        self.on.store(true, Ordering::Relaxed);
        Some(MeterLease { meter: Arc::clone(self) })
    }

    /// The numbers so far. Concurrent calls may straddle a reading.
    pub fn reading(&self) -> TimedReading {
        let stats = |call: &Call| CallStats {
            calls: call.calls.get(),
            nanoseconds: call.nanoseconds.get(),
            failed_calls: call.failures.get(),
        };
        let Access { success, not_ready, out_of_memory, other } = &self.access;
        TimedReading {
            calls: self.calls.iter().map(|(name, call)| (*name, stats(call))).collect(),
            access_returns: [success, not_ready, out_of_memory, other].map(Counter::get),
            fault_range: CallStats { calls: self.faults.calls(), nanoseconds: self.faults.nanoseconds(), failed_calls: 0 },
        }
    }

    /// Runs the arena's fault routine; timed while the meter is on.
    pub(crate) fn fault_range<T>(&self, clock: &dyn Clock, work: impl FnOnce() -> T) -> T {
        if self.on.load(Ordering::Relaxed) { self.faults.time(clock, work) } else { work() }
    }

    fn note(&self, call: &'static str, nanoseconds: u64, failure: Option<DriverErrorKind>) {
        if let Some(numbers) = self.calls.get(call) {
            numbers.nanoseconds.add(nanoseconds);
            numbers.calls.add(1);
            numbers.failures.add(u64::from(failure.is_some()));
        }
        if call == "memory_set_access" {
            let category = match failure {
                None => &self.access.success,
                Some(DriverErrorKind::NotReady) => &self.access.not_ready,
                Some(DriverErrorKind::OutOfMemory) => &self.access.out_of_memory,
                Some(_) => &self.access.other,
            };
            category.add(1);
        }
    }
}

/// A meter that is switched on; dropped, it is off and free for another owner.
#[derive(Debug)]
pub struct MeterLease {
    meter: Arc<CallMeter>,
}

impl MeterLease {
    /// The numbers so far.
    pub fn reading(&self) -> TimedReading {
        self.meter.reading()
    }
}

impl Drop for MeterLease {
    fn drop(&mut self) {
        self.meter.on.store(false, Ordering::Relaxed);
        self.meter.owned.store(false, Ordering::Release);
    }
}

/// Measures calls while its meter is switched on; one relaxed load a call otherwise.
#[derive(Debug)]
pub struct Timed {
    inner: Arc<dyn Driver>,
    clock: Arc<dyn Clock>,
    meter: Arc<CallMeter>,
}

impl Timed {
    /// Wraps a driver, with a meter of its own that is off.
    pub fn new(inner: Arc<dyn Driver>, clock: Arc<dyn Clock>) -> Arc<Timed> {
        Timed::sharing(inner, clock, Arc::default())
    }

    /// Wraps a driver and counts into the given meter.
    pub fn sharing(inner: Arc<dyn Driver>, clock: Arc<dyn Clock>, meter: Arc<CallMeter>) -> Arc<Timed> {
        Arc::new(Timed { inner, clock, meter })
    }

    /// The meter that calls count into.
    pub fn meter(&self) -> &Arc<CallMeter> {
        &self.meter
    }

    fn records(&self) -> Option<&dyn StreamActivity> {
        self.inner.activity()
    }

    fn around<T>(&self, call: &'static str, work: impl FnOnce() -> DriverResult<T>) -> DriverResult<T> {
        if !self.meter.on.load(Ordering::Relaxed) {
            return work();
        }
        let start: Nanos = self.clock.now();
        let result = work();
        self.meter.note(call, self.clock.now().since(start), result.as_ref().err().map(|error| error.kind));
        result
    }
}

super::wrap_driver!(Timed);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::driver::{HostDriver, HostOptions, PhysicalId};
    use crate::meter::FakeClock;

    #[test]
    fn one_owner_at_a_time_and_off_counts_nothing() {
        let host: Arc<dyn Driver> = HostDriver::new(HostOptions::default()).expect("a host driver");
        let meter: Arc<CallMeter> = Arc::default();
        let wrap = || Timed::sharing(Arc::clone(&host), Arc::new(FakeClock::default()), Arc::clone(&meter));
        let (one, two) = (wrap(), wrap());
        one.memory_info().expect("answers");
        assert_eq!(meter.reading().call("memory_info").calls, 0);
        let lease = meter.acquire().expect("free");
        assert!(meter.acquire().is_none(), "two owners");
        let before = lease.reading();
        one.memory_info().expect("answers");
        two.memory_info().expect("answers");
        two.memory_release(PhysicalId(7)).expect_err("there is no such memory");
        let delta = meter.reading().since(&before);
        assert_eq!((delta.call("memory_info").calls, delta.call("memory_release").failed_calls), (2, 1));
        drop(lease);
        one.memory_info().expect("answers");
        assert_eq!(meter.reading().since(&before), delta, "what was counted stays, and no more comes");
        assert!(meter.acquire().is_some(), "given back");
    }
}
