//! A wrapper that fails calls on purpose: the k-th call of all, or calls of one name by script.

use super::activity::{Activities, ActivityFilter, StreamActivity};
use super::{Driver, DriverError, DriverErrorKind, DriverResult};
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Which calls fail, and with what. A failed call does not reach the device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Number of the call that fails, counted from 1 over all calls, and its answer.
    pub fail_call: Option<(u64, DriverErrorKind)>,
    /// From that call on, every call fails.
    pub and_all_later: bool,
    /// Answers of the next calls of a name; `None` lets the call through.
    pub by_name: BTreeMap<&'static str, VecDeque<Option<DriverErrorKind>>>,
}

/// Fails calls as its script says.
#[derive(Debug)]
pub struct Faulty {
    inner: Arc<dyn Driver>,
    count: AtomicU64,
    script: Mutex<Script>,
}

impl Faulty {
    /// Wraps a driver.
    pub fn new(inner: Arc<dyn Driver>, script: Script) -> Arc<Faulty> {
        Arc::new(Faulty { inner, count: AtomicU64::new(0), script: Mutex::new(script) })
    }

    /// Replaces the script; calls go on being counted.
    pub fn follow(&self, script: Script) {
        *self.script.lock().unwrap_or_else(PoisonError::into_inner) = script;
    }

    /// Calls so far, failed ones included.
    pub fn calls(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    fn records(&self) -> Option<&dyn StreamActivity> {
        self.inner.activity().map(|_| self as &dyn StreamActivity)
    }

    fn source(&self, call: &'static str) -> DriverResult<&dyn StreamActivity> {
        let none = || DriverError::new(call, DriverErrorKind::System, "there is no source of records");
        self.inner.activity().ok_or_else(none)
    }

    fn around<T>(&self, call: &'static str, work: impl FnOnce() -> DriverResult<T>) -> DriverResult<T> {
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let mut script = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        let scripted = script.by_name.get_mut(call).and_then(VecDeque::pop_front).flatten();
        let counted =
            script.fail_call.filter(|(k, _)| *k == number || (script.and_all_later && number > *k)).map(|(_, kind)| kind);
        drop(script);
        match scripted.or(counted) {
            Some(kind) => Err(DriverError::new(call, kind, format!("call {number} fails as the script says"))),
            None => work(),
        }
    }
}

super::wrap_driver!(Faulty);

impl StreamActivity for Faulty {
    fn start(&self, filter: ActivityFilter, most: usize) -> DriverResult<()> {
        self.around("activity_start", || self.source("activity_start")?.start(filter, most))
    }

    fn now(&self) -> DriverResult<u64> {
        self.source("activity_now")?.now()
    }

    fn enter(&self, range: u64) -> DriverResult<()> {
        self.around("activity_enter", || self.source("activity_enter")?.enter(range))
    }

    fn stop(&self) -> DriverResult<Activities> {
        // The capture ends, whatever the script says.
        let stopped = self.source("activity_stop")?.stop();
        self.around("activity_stop", || stopped)
    }
}
