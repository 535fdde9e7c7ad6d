//! Operator diagnostics: "Which operators did a few forwards of one module run, and what did they cost?"
//!
//! | file | its question |
//! |---|---|
//! | here | what may be asked for, and what is reported? |
//! | `watcher` | which announced ranges belong to a sampled forward? |
//! | `table` | what do the ranges, calls and stream records of one forward add up to? |
//! | `trace` | how does a forward look as a file in Chrome's format? |
//!
//! May use: `session`, `driver`, `publish`, `limits`. Invariants: disabled, nothing is looked at and nothing is made; neither
//! inputs, outputs, shapes nor stacks are kept; a failure of the scope is reported by the scope and never by the forward that it
//! watches; no file is overwritten; a device without records has no device times, never zero.

mod table;
mod trace;
mod watcher;

use super::journal::make_folder;
use super::publish::PublishError;
use crate::driver::DriverError;
use crate::driver::activity::ActivityFilter;
use crate::error::{Error, Result};
use crate::session::{Inner, Offload, Ranges};
use ddo_schemas::sections::OperatorDiagnostics;
use ddo_schemas::settings::{DEFAULT_OPERATOR_INVOCATIONS, check_operators};
use ddo_schemas::{Report, version};
use std::path::PathBuf;
use std::sync::Arc;
use watcher::{Target, Watcher};

/// What a scope samples. Off by default.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorOptions {
    /// Whether anything is sampled at all.
    pub enabled: bool,
    /// The module, by its full path.
    pub module_path: Option<String>,
    /// Which of its calls, counted from 0: one to four different ones, at most 31.
    pub invocations: Vec<u64>,
    /// Where the traces go; made if it is missing.
    pub output_dir: Option<PathBuf>,
    /// Whether device activity is captured: by the driver's own records on `host`, by CUPTI on `cuda`.
    pub use_cuda: bool,
}

impl Default for OperatorOptions {
    fn default() -> OperatorOptions {
        OperatorOptions {
            enabled: false,
            module_path: None,
            invocations: DEFAULT_OPERATOR_INVOCATIONS.to_vec(),
            output_dir: None,
            use_cuda: true,
        }
    }
}

/// File of one sampled call.
pub fn trace_name(invocation: u64) -> String {
    format!("operators_invocation_{invocation:02}.json")
}

fn no_activity(reason: impl ToString) -> Error {
    Error::Unsupported { what: "device activity for operator diagnostics".into(), reason: reason.to_string() }
}

impl Offload {
    /// Opens a scope that samples calls of one module. The host announces them with [`Offload::forward`]. Disabled, it touches
    /// nothing.
    ///
    /// # Errors
    /// [`Error::Operators`] for what cannot be sampled; [`Error::UnknownName`] for a module that the component does not have;
    /// a refusal while another scope is open; [`Error::Publish`] for a trace that exists; [`Error::Io`] for a folder that cannot be
    /// made or written; [`Error::Unsupported`] where device activity cannot be had.
    ///
    /// # Cost
    /// Enabled with device activity, captures once for a trial, which waits for all streams.
    pub fn operator_diagnostics(&self, options: OperatorOptions) -> Result<OperatorScope> {
        if !options.enabled {
            return Ok(OperatorScope { inner: Arc::clone(&self.inner), operators: Operators { watcher: None } });
        }
        let module = options.module_path.unwrap_or_default();
        check_operators(&module, &options.invocations)?;
        if !self.has_module(&module) {
            let place = format!("component {:?}", self.component());
            return Err(Error::UnknownName { kind: "module", name: module, place });
        }
        let dir = options.output_dir.ok_or_else(|| Error::invalid("operator diagnostics", "no output folder is named"))?;
        if self.inner.ranges.get().is_some() {
            return Err(in_use());
        }
        for path in options.invocations.iter().map(|invocation| dir.join(trace_name(*invocation))) {
            if std::fs::symlink_metadata(&path).is_ok() {
                return Err(PublishError::Exists { path }.into());
            }
        }
        make_folder(&dir)?;
        let writable = rustix::fs::access(&dir, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK);
        writable.map_err(|error| Error::io("write to", &dir, error))?;
        if options.use_cuda {
            self.try_capture()?;
        }
        let target = Target { module, invocations: options.invocations, dir, use_device: options.use_cuda };
        let watcher = Arc::new(Watcher::new(&self.inner, target));
        let ranges: Arc<dyn Ranges> = Arc::<Watcher>::clone(&watcher);
        if !self.inner.ranges.install(ranges) {
            return Err(in_use());
        }
        Ok(OperatorScope { inner: Arc::clone(&self.inner), operators: Operators { watcher: Some(watcher) } })
    }

    /// What cannot be captured is refused here, and the first sample does not pay for the loading.
    fn try_capture(&self) -> Result<()> {
        let source = self.inner.driver.activity();
        let source = source.ok_or_else(|| no_activity(format!("the driver {:?} keeps no records", self.inner.facts.driver)))?;
        let failed = |error: DriverError| no_activity(error);
        source.start(ActivityFilter::All, 1).map_err(failed)?;
        source.stop().map_err(failed)?;
        Ok(())
    }
}

fn in_use() -> Error {
    Error::refused("operators_in_use", "scopes of operator diagnostics of one component at a time", 2, 1, "scopes")
}

/// An open scope. Ends with [`OperatorScope::finish`]; dropped earlier, it stays `not_finished`.
#[derive(Debug)]
#[must_use = "a scope samples until it is finished"]
pub struct OperatorScope {
    inner: Arc<Inner>,
    operators: Operators,
}

impl OperatorScope {
    /// What the scope reports, now and later; outlives the scope.
    pub fn operators(&self) -> Operators {
        self.operators.clone()
    }

    /// Ends the scope.
    ///
    /// # Errors
    /// The first thing that went wrong while sampling; [`OperatorScope::operators`], taken before, still reports.
    pub fn finish(self) -> Result<Operators> {
        self.end(false)
    }

    /// Ends a scope whose body failed: the body's error is what the host goes on with, so nothing is raised here.
    pub fn finish_failed(self) -> Operators {
        let operators = self.operators();
        let _ = self.end(true);
        operators
    }

    fn end(self, failed: bool) -> Result<Operators> {
        let Some(watcher) = &self.operators.watcher else { return Ok(self.operators()) };
        watcher.finish(failed);
        match watcher.take_error() {
            Some(error) => Err(error),
            None => Ok(self.operators()),
        }
    }
}

impl Drop for OperatorScope {
    fn drop(&mut self) {
        if self.operators.watcher.is_some() {
            self.inner.ranges.remove();
        }
    }
}

/// What a scope has to report.
#[derive(Clone, Debug)]
pub struct Operators {
    watcher: Option<Arc<Watcher>>,
}

impl Operators {
    /// The report with the scope in it.
    #[must_use]
    pub fn attach(&self, mut report: Report) -> Report {
        report.runtime.operator_diagnostics = Some(self.diagnostics());
        report
    }

    /// The scope alone.
    pub fn diagnostics(&self) -> OperatorDiagnostics {
        match &self.watcher {
            Some(watcher) => watcher.diagnostics(),
            // Nothing was profiled, so nothing speaks against the run.
            None => OperatorDiagnostics { may_synchronize: None, benchmark_eligible: None, ..base("disabled") },
        }
    }
}

fn base(status: &str) -> OperatorDiagnostics {
    OperatorDiagnostics {
        schema_version: Some(version::OPERATOR_DIAGNOSTICS),
        status: Some(status.into()),
        module_path: None,
        requested_invocations: None,
        observed_invocations: None,
        use_cuda: None,
        may_synchronize: Some(true),
        benchmark_eligible: Some(false),
        scope: Some("selected_forward_operators".into()),
        samples: None,
    }
}
