//! Allocation diagnostics: "Which driver calls did memory cost, and in which step?"
//!
//! May use: `session`, the driver's call meter, `limits`.
//!
//! Invariants: one scope in a process at a time, each used once; off, nothing is touched; on, the scope only reads
//! counters, so it calls no driver and waits for nothing; it is given back by a body that fails, and by a panic too; no
//! failure of the scope becomes the body's. What no pool could have counted is absent.

use crate::driver::{CallStats, MeterLease, TimedReading};
use crate::error::{Error, Result};
use crate::limits::MAX_ALLOCATION_STEPS;
use crate::meter::{Clock, Nanos};
use crate::session::{Inner, Offload, StepMarks};
use ddo_schemas::sections::{AllocationDiagnostics, AllocationStep, DriverDelta};
use ddo_schemas::{Seconds, version};
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Version of the counters behind a scope: retries, faults and return categories are counted.
const NATIVE_SCHEMA_VERSION: u32 = 2;

/// Whether driver calls are counted. Off by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AllocationOptions {
    /// Whether the scope counts at all.
    pub enabled: bool,
}

/// How a scope stands.
#[derive(Debug)]
enum Stage {
    /// Counting, or given up without an end.
    Open,
    Failed(String),
    Complete {
        seconds: f64,
        total: TimedReading,
    },
}

#[derive(Debug)]
struct Progress {
    /// Keeps the meter on; gone when the scope has ended.
    lease: Option<MeterLease>,
    entered: Nanos,
    first: TimedReading,
    boundary: Nanos,
    latest: TimedReading,
    steps: Vec<(f64, TimedReading)>,
    /// Steps marked after the last one that is kept.
    steps_over: u64,
    stage: Stage,
}

/// One scope, shared by its owner, the session's step marks and its records.
#[derive(Debug)]
struct Scope {
    session_id: String,
    clock: Arc<dyn Clock>,
    progress: Mutex<Progress>,
}

impl Scope {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, failure: Option<String>) {
        let now = self.clock.now();
        let mut progress = self.lock();
        let Some(lease) = progress.lease.take() else { return };
        let total = lease.reading().since(&progress.first);
        drop(lease);
        let marked = progress.steps.len() as u64 + progress.steps_over;
        let over = (progress.steps_over > 0)
            .then(|| format!("{marked} steps were marked in the scope; the limit is {MAX_ALLOCATION_STEPS}"));
        progress.stage = match failure.or(over) {
            Some(error) => Stage::Failed(error),
            None => Stage::Complete { seconds: now.since(progress.entered) as f64 / 1e9, total },
        };
    }
}

impl StepMarks for Scope {
    fn step(&self) {
        let now = self.clock.now();
        let mut progress = self.lock();
        let Some(lease) = &progress.lease else { return };
        if progress.steps.len() >= MAX_ALLOCATION_STEPS {
            progress.steps_over += 1;
            return;
        }
        let reading = lease.reading();
        let step = (now.since(progress.boundary) as f64 / 1e9, reading.since(&progress.latest));
        progress.steps.push(step);
        progress.boundary = now;
        progress.latest = reading;
    }
}

/// A running scope. Ends with [`AllocationScope::finish`], once; dropped earlier, its record stays `not_finished`.
#[derive(Debug)]
#[must_use = "a scope counts until it is finished"]
pub struct AllocationScope {
    inner: Arc<Inner>,
    scope: Option<Arc<Scope>>,
}

impl Offload {
    /// Counts and times the driver calls for memory of all sessions of the process, by the steps of this one. Every
    /// [`Offload::mark_step`] ends an interval. Disabled, it touches nothing.
    ///
    /// # Errors
    /// [`Error::Closed`] for a closed session; a refusal while another scope of the process counts.
    pub fn allocation_diagnostics(&self, options: AllocationOptions) -> Result<AllocationScope> {
        let inner = Arc::clone(&self.inner);
        if !options.enabled {
            return Ok(AllocationScope { inner, scope: None });
        }
        if inner.lock().closed {
            return Err(Error::Closed { what: "the session" });
        }
        let in_use = || {
            let what = "allocation diagnostics of one process at a time";
            Error::refused("allocation_diagnostics_in_use", what, 2, 1, "scopes")
        };
        let lease = inner.call_meter.acquire().ok_or_else(in_use)?;
        let (first, now) = (lease.reading(), inner.clock.now());
        let progress = Progress {
            lease: Some(lease),
            entered: now,
            latest: first.clone(),
            first,
            boundary: now,
            steps: Vec::new(),
            steps_over: 0,
            stage: Stage::Open,
        };
        let (session_id, clock) = (inner.session_id.clone(), Arc::clone(&inner.clock));
        let scope = Arc::new(Scope { session_id, clock, progress: Mutex::new(progress) });
        let steps: Arc<dyn StepMarks> = Arc::<Scope>::clone(&scope);
        if !inner.steps.install(steps) {
            return Err(in_use());
        }
        Ok(AllocationScope { inner, scope: Some(scope) })
    }
}

impl AllocationScope {
    /// What can be attached to a snapshot, before and after the end.
    pub fn record(&self) -> AllocationRecord {
        AllocationRecord { scope: self.scope.clone() }
    }

    /// Ends the scope behind a body that went well.
    pub fn finish(mut self) -> AllocationRecord {
        self.end(None)
    }

    /// Ends the scope behind a body that failed; its numbers are left out and the reason is kept.
    pub fn finish_failed(mut self, error: &dyn Display) -> AllocationRecord {
        self.end(Some(error.to_string()))
    }

    /// Runs a body inside the scope. Its result comes back as it is, whatever becomes of the scope.
    pub fn around<T, E: Display>(
        self,
        body: impl FnOnce() -> std::result::Result<T, E>,
    ) -> (std::result::Result<T, E>, AllocationRecord) {
        let result = body();
        let record = match &result {
            Ok(_) => self.finish(),
            Err(error) => self.finish_failed(error),
        };
        (result, record)
    }

    fn end(&mut self, failure: Option<String>) -> AllocationRecord {
        let scope = self.scope.take();
        if let Some(scope) = &scope {
            self.inner.steps.remove();
            scope.end(failure);
        }
        AllocationRecord { scope }
    }
}

impl Drop for AllocationScope {
    /// Gives the meter back; the record stays `not_finished`.
    fn drop(&mut self) {
        if let Some(scope) = self.scope.take() {
            self.inner.steps.remove();
            scope.lock().lease = None;
        }
    }
}

/// What a scope has to say, to be attached to a snapshot.
#[derive(Clone, Debug)]
pub struct AllocationRecord {
    scope: Option<Arc<Scope>>,
}

impl AllocationRecord {
    /// The report of the scope as it stands.
    ///
    /// # Errors
    /// [`Error::Invalid`] when it belongs to another session.
    pub(super) fn report(&self, inner: &Inner) -> Result<AllocationDiagnostics> {
        let Some(scope) = &self.scope else { return Ok(base("disabled")) };
        if scope.session_id != inner.session_id {
            return Err(Error::invalid("allocation diagnostics", "they belong to another session"));
        }
        let progress = scope.lock();
        Ok(match &progress.stage {
            Stage::Open => base("not_finished"),
            Stage::Failed(error) => AllocationDiagnostics { failed: Some(true), error: Some(error.clone()), ..base("failed") },
            Stage::Complete { seconds, total } => AllocationDiagnostics {
                native_schema_version: Some(NATIVE_SCHEMA_VERSION),
                host_scope_seconds: Some(Seconds(*seconds)),
                steps: Some(progress.steps.iter().zip(0..).map(step).collect()),
                total_delta: Some(delta(total)),
                ..base("complete")
            },
        })
    }
}

fn base(status: &str) -> AllocationDiagnostics {
    AllocationDiagnostics {
        schema_version: Some(version::ALLOCATION_DIAGNOSTICS),
        status: Some(status.into()),
        failed: Some(false),
        error: None,
        native_schema_version: None,
        host_scope_seconds: None,
        steps: None,
        total_delta: None,
        pool_observed_peak_mapped_bytes: None,
        boundary: Some("cpu_submission_no_cuda_wait".into()),
        scope: Some("process_native_driver_host_calls".into()),
        benchmark_eligible: Some(false),
    }
}

fn step(((seconds, reading), index): (&(f64, TimedReading), u64)) -> AllocationStep {
    AllocationStep {
        step_index: Some(index),
        host_submission_seconds: Some(Seconds(*seconds)),
        driver_delta: Some(delta(reading)),
        pool_observed_peak_mapped_bytes: None,
    }
}

/// The rows of a difference. There is no span pool, so its rows are unavailable.
fn delta(reading: &TimedReading) -> DriverDelta {
    let seconds = |stats: &CallStats| Some(Seconds(stats.host_seconds()));
    let [create, map, access, unmap, release, reserve, free, sync] = [
        "memory_create",
        "memory_map",
        "memory_set_access",
        "memory_unmap",
        "memory_release",
        "address_reserve",
        "address_free",
        // The retry of an access call is the only one who waits for the whole context.
        "context_synchronize",
    ]
    .map(|call| reading.call(call));
    let [success, not_ready, out_of_memory, other] = reading.access_returns.map(Some);
    DriverDelta {
        create_calls: Some(create.calls),
        create_host_seconds: seconds(&create),
        create_failed_calls: Some(create.failed_calls),
        map_calls: Some(map.calls),
        map_host_seconds: seconds(&map),
        map_failed_calls: Some(map.failed_calls),
        access_calls: Some(access.calls),
        access_host_seconds: seconds(&access),
        access_failed_calls: Some(access.failed_calls),
        unmap_calls: Some(unmap.calls),
        unmap_host_seconds: seconds(&unmap),
        unmap_failed_calls: Some(unmap.failed_calls),
        release_calls: Some(release.calls),
        release_host_seconds: seconds(&release),
        release_failed_calls: Some(release.failed_calls),
        reserve_calls: Some(reserve.calls),
        reserve_host_seconds: seconds(&reserve),
        reserve_failed_calls: Some(reserve.failed_calls),
        address_free_calls: Some(free.calls),
        address_free_host_seconds: seconds(&free),
        address_free_failed_calls: Some(free.failed_calls),
        pool_reuse_calls: None,
        pool_new_backings: None,
        access_retry_sync_calls: Some(sync.calls),
        access_retry_sync_host_seconds: seconds(&sync),
        access_retry_sync_failed_calls: Some(sync.failed_calls),
        fault_range_calls: Some(reading.fault_range.calls),
        fault_range_host_seconds: seconds(&reading.fault_range),
        access_return_success_calls: success,
        access_return_not_ready_calls: not_ready,
        access_return_out_of_memory_calls: out_of_memory,
        access_return_other_calls: other,
    }
}
