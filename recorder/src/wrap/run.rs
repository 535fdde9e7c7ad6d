//! "In which order?" One run from the request to the exit code.
//!
//! May use: the other modules of this room.
//!
//! Invariants: everything that can fail before the command starts is done before it starts; every command that was
//! asked for gets its seal, started or not; the command is reaped last.

use super::child::{self, EXIT_RECORDER, NotStarted, Outcome};
use super::error::WrapError;
use super::manifest::{self, Handover};
use super::memory::{MemoryFile, Monitor, Pace, Watched};
use super::request::{self, Plan, Request};
use super::signals::{self, Forwarder, Signals};
use super::{folder, say, words};
use ddo_schemas::manifest::ManifestEnd;
use ddo_schemas::settings::ENV_SETTINGS;
use ddo_schemas::{Finding, Seconds, Severity, version};
use rustix::process::Pid;
use std::process::Child;
use std::time::{Duration, Instant};

/// Runs the request and gives back the exit code of the recorder.
///
/// # Cost
/// Blocks for as long as the command runs.
pub fn run(request: Request) -> i32 {
    let prepared = request.plan(std::env::var_os(ENV_SETTINGS).as_deref()).and_then(Prepared::new);
    match prepared {
        Ok(prepared) => prepared.run(),
        Err(error) => {
            say::line(&format!("error: {error}"));
            EXIT_RECORDER
        }
    }
}

/// Everything that is ready before the command starts.
struct Prepared {
    plan: Plan,
    handover: Handover,
    forwarder: Forwarder,
    monitor: Option<Monitor>,
    interrupted: Option<i32>,
}

impl Prepared {
    fn new(plan: Plan) -> Result<Prepared, WrapError> {
        let settings = serde_json::to_string(&plan.settings)
            .map_err(|source| WrapError::Json { document: "the settings object", source })?;
        let handover = Handover { dir: folder::make(plan.out.as_deref())?, settings };
        let mut signals = Signals::install()?;
        let file = match plan.monitor {
            request::Monitor::Rss => Some(MemoryFile::create(&handover.dir)?),
            request::Monitor::Off => None,
        };
        let document = manifest::build(&plan, &handover);
        manifest::publish(&handover.dir, &document)?;
        let pace = Pace { epoch_seconds: document.clocks.monotonic_seconds.0, interval: plan.interval };
        let monitor = file.map(|file| file.into_monitor(pace)).transpose()?;
        say::line(&format!("recording into {}", words::shown(handover.dir.as_os_str())));
        let interrupted = signals.already();
        Ok(Prepared { forwarder: signals.into_forwarder()?, plan, handover, monitor, interrupted })
    }

    fn run(self) -> i32 {
        let began = Instant::now();
        let started = match self.interrupted {
            Some(signal) => Err(interrupted(signal)),
            None => child::start(&self.plan.program, &self.plan.arguments, &self.handover),
        };
        let mut findings = Vec::new();
        let pid = started.as_ref().ok().map(Pid::from_child);
        if let Some(pid) = pid {
            self.forwarder.watch(pid);
            if let Some(monitor) = &self.monitor {
                monitor.watch(pid.as_raw_nonzero().get());
            }
            if let Err(error) = child::wait_for_end(pid) {
                let text = format!("waiting for the command without reaping it failed: {error}");
                findings.push(Finding::note("wait_failed", "ddo-record", text));
            }
        }
        let duration = began.elapsed();
        findings.extend(self.forwarder.stop().findings());
        let watched = self.monitor.map(Monitor::stop);
        let outcome = match started {
            Ok(child) => reap(child, &mut findings),
            Err(why) => Outcome::NotStarted(why),
        };
        if let Outcome::NotStarted(why) = &outcome {
            let text = format!("the command was not started: {}", why.reason);
            findings.push(Finding::error(why.code, "command", text));
        }
        let ended = Ended { plan: &self.plan, handover: &self.handover, outcome, duration };
        ended.report(watched, findings)
    }
}

fn interrupted(signal: i32) -> NotStarted {
    NotStarted {
        code: "interrupted_before_start",
        exit: child::EXIT_SIGNAL + signal,
        reason: format!("{} came first", signals::name(signal)),
    }
}

fn reap(mut child: Child, findings: &mut Vec<Finding>) -> Outcome {
    match child.wait() {
        Ok(status) => child::outcome(status),
        Err(error) => {
            let text = format!("the command's exit status could not be read: {error}");
            findings.push(Finding::error("exit_status_unknown", "command", text));
            Outcome::Exited(EXIT_RECORDER)
        }
    }
}

/// A command that has ended, or was not started.
struct Ended<'a> {
    plan: &'a Plan,
    handover: &'a Handover,
    outcome: Outcome,
    duration: Duration,
}

impl Ended<'_> {
    /// Publishes the seal, tells people, and gives back the exit code.
    fn report(&self, watched: Option<Watched>, mut findings: Vec<Finding>) -> i32 {
        let (samples, peak) = match watched {
            Some(watched) => {
                findings.extend(watched.findings);
                (Some(watched.samples), watched.peak_rss_bytes)
            }
            None => (None, None),
        };
        let (exit_code, signal) = match self.outcome {
            Outcome::Exited(code) => (Some(code), None),
            Outcome::Signaled(signal) => (None, Some(signal)),
            Outcome::NotStarted(_) => (None, None),
        };
        let end = ManifestEnd {
            schema_version: version::MANIFEST,
            status: self.outcome.status().into(),
            exit_code,
            signal,
            duration_seconds: Seconds(self.duration.as_secs_f64()),
            memory_samples: samples,
            peak_rss_bytes: peak,
            findings,
        };
        let sealed = manifest::seal(&self.handover.dir, &end);
        for finding in end.findings.iter().filter(|f| f.severity > Severity::Note) {
            say::line(&finding.to_string());
        }
        let problems = end.findings.iter().any(|f| f.severity > Severity::Note) || sealed.is_err();
        self.say_end();
        match sealed {
            Ok(()) => say::line(&format!("analyse with: ddo-analyze {}", words::quoted(self.handover.dir.as_os_str()))),
            Err(error) => say::line(&format!("error: the journal is not sealed: {error}")),
        }
        let code = self.outcome.exit_code();
        if self.plan.strict && problems && code == 0 {
            say::line(&format!("exit code {EXIT_RECORDER} because of --strict-recording"));
            return EXIT_RECORDER;
        }
        code
    }

    fn say_end(&self) {
        let name = child::name(&self.plan.program);
        let seconds = self.duration.as_secs_f64();
        let dir = words::shown(self.handover.dir.as_os_str());
        say::line(&match &self.outcome {
            Outcome::Exited(code) => format!("{name} exited {code} after {seconds:.1} s; journal: {dir}"),
            Outcome::Signaled(signal) => {
                format!("{name} was ended by {} after {seconds:.1} s; journal: {dir}", signals::name(*signal))
            }
            Outcome::NotStarted(why) => format!("{name} was not started: {}; journal: {dir}", why.reason),
        });
    }
}
