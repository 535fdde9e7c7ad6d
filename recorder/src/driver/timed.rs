//! A wrapper that measures every call: how often, how long on the host, how many failed, and what access answered.

use super::activity::StreamActivity;
use super::{CALLS, Driver, DriverErrorKind, DriverResult};
use crate::meter::{Clock, Counter, Nanos};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CallStats {
    /// Times called, failures included.
    pub calls: u64,
    /// Host seconds inside, blocking included.
    pub host_seconds: f64,
    /// Times that it failed.
    pub failed_calls: u64,
}

/// One reading of a [`Timed`] driver. Readings subtract.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TimedReading {
    /// By name of the call.
    pub calls: BTreeMap<&'static str, CallStats>,
    /// `memory_set_access` by what it returned: success, not ready, out of memory, other.
    pub access_returns: [u64; 4],
}

/// Measures calls while it is switched on; one relaxed load a call otherwise.
#[derive(Debug)]
pub struct Timed {
    inner: Arc<dyn Driver>,
    clock: Arc<dyn Clock>,
    on: AtomicBool,
    calls: BTreeMap<&'static str, Call>,
    access: Access,
}

impl Timed {
    /// Wraps a driver, switched off.
    pub fn new(inner: Arc<dyn Driver>, clock: Arc<dyn Clock>) -> Arc<Timed> {
        let calls = CALLS.iter().map(|call| (*call, Call::default())).collect();
        Arc::new(Timed { inner, clock, on: AtomicBool::new(false), calls, access: Access::default() })
    }

    /// Switches measuring on or off; the numbers stay.
    pub fn measure(&self, on: bool) {
        self.on.store(on, Ordering::Relaxed);
    }

    /// The numbers so far. Concurrent calls may straddle a reading.
    pub fn reading(&self) -> TimedReading {
        let stats = |call: &Call| CallStats {
            calls: call.calls.get(),
            host_seconds: call.nanoseconds.get() as f64 / 1e9,
            failed_calls: call.failures.get(),
        };
        let Access { success, not_ready, out_of_memory, other } = &self.access;
        TimedReading {
            calls: self.calls.iter().map(|(name, call)| (*name, stats(call))).collect(),
            access_returns: [success, not_ready, out_of_memory, other].map(Counter::get),
        }
    }

    fn records(&self) -> Option<&dyn StreamActivity> {
        self.inner.activity()
    }

    fn around<T>(&self, call: &'static str, work: impl FnOnce() -> DriverResult<T>) -> DriverResult<T> {
        if !self.on.load(Ordering::Relaxed) {
            return work();
        }
        let start = self.clock.now();
        let result = work();
        self.note(call, start, result.as_ref().err().map(|error| error.kind));
        result
    }

    fn note(&self, call: &'static str, start: Nanos, failure: Option<DriverErrorKind>) {
        if let Some(numbers) = self.calls.get(call) {
            numbers.nanoseconds.add(self.clock.now().since(start));
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

super::wrap_driver!(Timed);
