//! Which announced ranges belong to a sampled forward?
//!
//! May use: `session`'s ranges, the driver's records, `table`, `trace`, `publish`. Invariants: only the thread that opened the
//! scope is listened to; ranges outside a sampled forward are followed by path alone; the first failure ends all sampling and is
//! kept for the scope's end; the host never sees it earlier.

use super::table::{self, Owner, Sampled, SampledRange};
use super::{base, no_activity, trace, trace_name};
use crate::driver::activity::{Activities, ActivityFilter, CHILD_RANGE, StreamActivity};
use crate::driver::{DeviceFacts, Driver, DriverResult};
use crate::error::{Error, Result};
use crate::limits::{CLOCK_READINGS, MAX_ACTIVITY_RECORDS, MAX_OPERATOR_RANGES};
use crate::meter::Clock;
use crate::observe::publish::publish_new;
use crate::session::{Inner, RangeKind, Ranges};
use ddo_schemas::sections::{OperatorDiagnostics, OperatorSample};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

/// What is sampled, and where it goes.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) module: String,
    pub(super) invocations: Vec<u64>,
    pub(super) dir: PathBuf,
    pub(super) use_device: bool,
}

/// A range that has begun.
#[derive(Debug)]
struct Open {
    number: u64,
    /// Full path of a module; `None` for an operator.
    path: Option<String>,
    /// Its place among the ranges of the sample.
    sampled: Option<usize>,
}

/// Where the clock of a device's records stands, seen from the host's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alignment {
    /// Added to a record's time to get the host's, in nanoseconds.
    pub(super) offset_ns: i128,
    /// Half the time that reading both clocks took.
    pub(super) uncertainty_ns: u64,
}

/// A forward that is being sampled.
#[derive(Debug)]
struct Capture {
    invocation: u64,
    ranges: Vec<SampledRange>,
    alignment: Option<Alignment>,
    left_out: u64,
}

#[derive(Debug, Default)]
struct State {
    open: Vec<Open>,
    last_number: u64,
    invocations: u64,
    capture: Option<Capture>,
    samples: Vec<OperatorSample>,
    error: Option<Error>,
    failed: bool,
    without_device: bool,
    finished: bool,
}

impl State {
    fn fail(&mut self, error: Error) {
        self.failed = true;
        self.error = self.error.take().or(Some(error));
    }

    fn lose_device(&mut self, error: Error) {
        self.without_device = true;
        self.error = self.error.take().or(Some(error));
    }

    fn is_sampling(&self) -> bool {
        !self.failed && !self.without_device && !self.finished
    }
}

/// The observer of one scope.
#[derive(Debug)]
pub(super) struct Watcher {
    driver: Arc<dyn Driver>,
    facts: DeviceFacts,
    clock: Arc<dyn Clock>,
    target: Target,
    owner: ThreadId,
    state: Mutex<State>,
}

impl Watcher {
    pub(super) fn new(inner: &Inner, target: Target) -> Watcher {
        Watcher {
            driver: Arc::clone(&inner.driver),
            facts: inner.facts.clone(),
            clock: Arc::clone(&inner.clock),
            target,
            owner: std::thread::current().id(),
            state: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn source(&self) -> Option<&dyn StreamActivity> {
        self.driver.activity().filter(|_| self.target.use_device)
    }

    pub(super) fn finish(&self, failed: bool) {
        let mut state = self.lock();
        // A guard may outlive the scope; its sample ends here.
        if state.capture.is_some() {
            self.end_capture(&mut state);
            state.fail(Error::invalid("operator diagnostics", "the scope ended inside a sampled forward"));
        }
        state.failed |= failed;
        state.finished = true;
    }

    pub(super) fn take_error(&self) -> Option<Error> {
        self.lock().error.take()
    }

    pub(super) fn diagnostics(&self) -> OperatorDiagnostics {
        let state = self.lock();
        let status = match () {
            () if !state.finished => "not_finished",
            () if state.failed => "failed",
            () if state.without_device => "cuda_activity_unavailable",
            () if state.samples.len() < self.target.invocations.len() => "incomplete",
            () => "complete",
        };
        OperatorDiagnostics {
            module_path: Some(self.target.module.clone()),
            requested_invocations: Some(self.target.invocations.clone()),
            observed_invocations: Some(state.invocations),
            use_cuda: Some(self.target.use_device),
            samples: Some(state.samples.clone()),
            ..base(status)
        }
    }

    /// Starts sampling a call of the module.
    fn begin_capture(&self, state: &mut State, invocation: u64) {
        let mut alignment = None;
        if self.target.use_device {
            let none = || no_activity("the driver keeps no records");
            let started = self.source().ok_or_else(none).and_then(|source| {
                source.start(ActivityFilter::All, MAX_ACTIVITY_RECORDS).map_err(no_activity)?;
                let aligned = Alignment::of(&*self.clock, source).map_err(no_activity);
                aligned.inspect_err(|_| {
                    let _ = source.stop();
                })
            });
            match started {
                Ok(found) => alignment = Some(found),
                Err(error) => return state.lose_device(error),
            }
        }
        state.capture = Some(Capture { invocation, ranges: Vec::new(), alignment, left_out: 0 });
    }

    /// Ends the sample, reads the device's records, writes the trace.
    fn end_capture(&self, state: &mut State) {
        let Some(mut capture) = state.capture.take() else { return };
        let start = self.clock.now();
        for range in capture.ranges.iter_mut().filter(|range| range.end.is_none()) {
            range.end = Some(start.0);
        }
        let stopped = self.source().map(StreamActivity::stop).transpose();
        let stop_ns = self.clock.now().since(start);
        match stopped {
            Err(error) => state.lose_device(no_activity(error)),
            Ok(found) => match self.sample(&capture, found, stop_ns) {
                Ok(sample) => state.samples.push(sample),
                Err(error @ Error::Unsupported { .. }) => state.lose_device(error),
                Err(error) => state.fail(error),
            },
        }
    }

    fn sample(&self, capture: &Capture, found: Option<Activities>, stop_ns: u64) -> Result<OperatorSample> {
        let Capture { invocation, ref ranges, alignment, left_out } = *capture;
        if let Some(found) = found.as_ref().filter(|found| found.works.is_empty()) {
            let calls = found.calls.len();
            let reason =
                format!("invocation {invocation} of {:?} left no record of a stream, {calls} of calls", self.target.module);
            return Err(no_activity(reason));
        }
        let dropped = left_out + found.as_ref().map_or(0, |found| found.dropped);
        if dropped > 0 {
            let what = format!("records of invocation {invocation} of {:?}", self.target.module);
            let limit = MAX_ACTIVITY_RECORDS as u64;
            return Err(Error::refused("operators_too_many_records", what, limit.saturating_add(dropped), limit, "records"));
        }
        let sampled = Sampled::new(ranges, found.as_ref(), self.facts.driver == "host");
        let json =
            trace::json(&sampled, &trace::Header { facts: &self.facts, module: &self.target.module, invocation, alignment });
        let path = publish_new(&self.target.dir, &trace_name(invocation), json.as_bytes())?;
        Ok(table::sample(&sampled, invocation, stop_ns, &path))
    }
}

impl Alignment {
    /// The closest of several readings of both clocks.
    fn of(clock: &dyn Clock, source: &dyn StreamActivity) -> DriverResult<Alignment> {
        let read = || {
            let before = clock.now();
            let reading = source.now()?;
            let uncertainty_ns = clock.now().since(before).div_ceil(2);
            Ok(Alignment { offset_ns: i128::from(before.0 + uncertainty_ns) - i128::from(reading), uncertainty_ns })
        };
        let mut closest: Alignment = read()?;
        for _ in 1..CLOCK_READINGS {
            let next = read()?;
            if next.uncertainty_ns < closest.uncertainty_ns {
                closest = next;
            }
        }
        Ok(closest)
    }

    /// A record's time on the host's clock; never before its zero.
    pub(super) fn host(&self, record_ns: u64) -> u64 {
        u64::try_from(i128::from(record_ns) + self.offset_ns).unwrap_or_default()
    }
}

impl Watcher {
    /// Full path of a module that begins; `None` for an operator.
    fn path(state: &State, kind: RangeKind, name: &str) -> Option<String> {
        match kind {
            RangeKind::Operator => None,
            RangeKind::Forward => Some(name.into()),
            RangeKind::Child => {
                let around = state.open.iter().rev().find_map(|open| open.path.as_deref());
                Some(around.map_or_else(|| name.into(), |around| format!("{around}.{name}")))
            }
        }
    }

    /// Notes a call of the module; starts sampling if it is one of those asked for.
    fn note_call(&self, state: &mut State) {
        let module = Some(self.target.module.as_str());
        if state.open.iter().any(|open| open.path.as_deref() == module) {
            let what = format!("calls of {:?} inside one another", self.target.module);
            return state.fail(Error::refused("operators_recursion", what, 2, 1, "calls"));
        }
        let invocation = state.invocations;
        state.invocations += 1;
        if self.target.invocations.contains(&invocation) && state.is_sampling() {
            self.begin_capture(state, invocation);
        }
    }

    /// Adds a range to the sample; its place there.
    fn add(&self, state: &mut State, path: Option<&str>, name: &str) -> Option<usize> {
        let around = state.open.iter().rev().find_map(|open| open.sampled);
        let capture = state.capture.as_mut()?;
        if capture.ranges.len() >= MAX_OPERATOR_RANGES {
            capture.left_out += 1;
            return None;
        }
        let relative =
            |path: &str| path.strip_prefix(&self.target.module).and_then(|rest| rest.strip_prefix('.')).map(String::from);
        let (owner, name) = match path {
            Some(path) if around.is_none() => (Owner::Module, path.into()),
            Some(path) => {
                let owner = if around == Some(0) { Owner::Child } else { Owner::Descendant };
                (owner, format!("{CHILD_RANGE}{}", relative(path).unwrap_or_else(|| path.into())))
            }
            None => (Owner::Operator, name.into()),
        };
        capture.ranges.push(SampledRange { name, owner, around, start: 0, end: None });
        let place = capture.ranges.len() - 1;
        self.tell(state, Some(place));
        // Read last: what the scope itself does is in no range.
        let now = self.clock.now().0;
        if let Some(range) = state.capture.as_mut().and_then(|capture| capture.ranges.get_mut(place)) {
            range.start = now;
        }
        Some(place)
    }

    /// Tells the source of records which range the thread is in.
    fn tell(&self, state: &mut State, place: Option<usize>) {
        let number = place.map_or(0, |place| place as u64 + 1);
        let told = self.source().map(|source| source.enter(number)).transpose();
        if let Err(error) = told {
            state.fail(error.into());
        }
    }
}

impl Ranges for Watcher {
    fn enter(&self, kind: RangeKind, name: &str) -> u64 {
        let mut guard = self.lock();
        let state = &mut *guard;
        if state.finished {
            return 0;
        }
        if std::thread::current().id() != self.owner {
            let what = format!("threads that announce operators; {name:?} came from another one");
            state.fail(Error::refused("operators_other_thread", what, 2, 1, "threads"));
            return 0;
        }
        let path = Watcher::path(state, kind, name);
        if path.as_deref() == Some(self.target.module.as_str()) {
            self.note_call(state);
        }
        let sampled = self.add(state, path.as_deref(), name);
        state.last_number += 1;
        let number = state.last_number;
        state.open.push(Open { number, path, sampled });
        number
    }

    fn leave(&self, number: u64) {
        let now = self.clock.now().0;
        let mut guard = self.lock();
        let state = &mut *guard;
        // Ranges nest, so it is the last one; a number that is not open is of a refused range.
        let Some(at) = state.open.iter().rposition(|open| open.number == number) else { return };
        let closed = state.open.split_off(at);
        let Some(capture) = state.capture.as_mut() else { return };
        for place in closed.iter().filter_map(|open| open.sampled) {
            if let Some(range) = capture.ranges.get_mut(place) {
                range.end = Some(now);
            }
        }
        match state.open.iter().rev().find_map(|open| open.sampled) {
            Some(around) => self.tell(state, Some(around)),
            None => {
                self.tell(state, None);
                self.end_capture(state);
            }
        }
    }
}
