//! "In which order?" One run from the request to the exit code.
//!
//! May use: the other modules of this room.
//!
//! Invariants: everything that can fail before the command starts is done before it starts; every command that was
//! asked for gets its seal, started or not; the command is reaped last; what is wrong with the command is no problem of
//! the recording.

use super::child::{self, Change, EXIT_RECORDER, NotStarted, Outcome};
use super::clock::Moment;
use super::device::{self, Devices, Opened, Used};
use super::error::WrapError;
use super::group::{self, Group};
use super::jobs::{self, Following};
use super::manifest::{self, Handover};
use super::memory::{MemoryFile, Metric, Monitor, Watch, Watched};
use super::request::{self, Plan, Request};
use super::signals::{self, Forwarder, Signals};
use super::status::{self, Live, Status, Task};
use super::tracker::TRACKER_FILE;
use super::{folder, say, story, words};
use ddo_schemas::manifest::{Limits, ManifestEnd};
use ddo_schemas::settings::ENV_SETTINGS;
use ddo_schemas::{Finding, Seconds, Severity, version};
use procfs::process::Process;
use rustix::process::Pid;
use std::process::Child;
use std::sync::Arc;
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
    following: Arc<Following>,
    monitor: Option<Monitor>,
    status: Option<Status>,
    before: Start,
    interrupted: Option<i32>,
}

/// What is compared with the end.
struct Start {
    moment: Moment,
    limits: Limits,
    machine_kills: Option<u64>,
    findings: Vec<Finding>,
}

impl Prepared {
    fn new(plan: Plan) -> Result<Prepared, WrapError> {
        let settings = serde_json::to_string(&plan.settings)
            .map_err(|source| WrapError::Json { document: "the settings object", source })?;
        let handover = Handover { dir: folder::make(plan.out.as_deref())?, settings };
        let mut signals = Signals::install()?;
        let metric = metric(plan.monitor);
        let file = metric.map(|_| MemoryFile::create(&handover.dir)).transpose()?;
        let mut findings = unusable_ranks();
        let devices = if metric.is_some() { devices(&mut findings) } else { None };
        let group = Process::myself().ok().as_ref().and_then(Group::of);
        let machine_kills = group::kills_of_the_machine();
        let facts = devices.as_ref().map(|(devices, used)| (devices.facts.clone(), *used));
        let before = manifest::Before { metric, devices: facts, group, moment: Moment::now() };
        let document = manifest::build(&plan, &handover, &before);
        manifest::publish(&handover.dir, &document)?;
        let live = Arc::new(Live::default());
        let monitor = match (file, metric) {
            (Some(file), Some(metric)) => Some(file.into_monitor(Watch {
                folder: handover.dir.clone(),
                mode: plan.monitor.name(),
                metric,
                epoch_seconds: before.moment.monotonic,
                interval: plan.interval,
                devices,
                live: live.clone(),
            })?),
            _ => None,
        };
        let task = Task { folder: handover.dir.clone(), line: plan.status, budget_bytes: plan.disk_budget_bytes, live };
        say::line(&format!("recording into {}", words::shown(handover.dir.as_os_str())));
        let status = Status::start(task).map_err(WrapError::system("the status thread cannot be started"))?;
        let limits = manifest::limits(before.group.as_ref());
        let before = Start { moment: before.moment, limits, machine_kills, findings };
        let interrupted = signals.already();
        let following = Arc::new(Following::default());
        Ok(Prepared {
            forwarder: signals.into_forwarder(following.clone())?,
            following,
            plan,
            handover,
            monitor,
            status,
            before,
            interrupted,
        })
    }

    fn run(mut self) -> i32 {
        let began = Instant::now();
        let started = match self.interrupted {
            Some(signal) => Err(interrupted(signal)),
            None => child::start(&self.plan.program, &self.plan.arguments, &self.handover),
        };
        let mut findings = std::mem::take(&mut self.before.findings);
        let pid = started.as_ref().ok().map(Pid::from_child);
        if let Some(pid) = pid {
            self.forwarder.watch(pid);
            if let Some(monitor) = &self.monitor {
                monitor.watch(pid.as_raw_nonzero().get());
            }
            findings.extend(wait(pid, &self.following));
        }
        let duration = began.elapsed();
        let end = Moment::now();
        findings.extend(self.status.map(Status::stop).into_iter().flatten());
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
        let ended = Ended { plan: &self.plan, handover: &self.handover, start: &self.before, end, outcome, duration };
        ended.report(watched, findings)
    }
}

fn metric(monitor: request::Monitor) -> Option<Metric> {
    match monitor {
        request::Monitor::Full => Some(Metric::choose(true)),
        request::Monitor::Rss => Some(Metric::choose(false)),
        request::Monitor::Off => None,
    }
}

/// Opens the devices and reads their baseline.
fn devices(findings: &mut Vec<Finding>) -> Option<(Devices, Used)> {
    match device::open() {
        Opened::Absent => None,
        Opened::Silent => {
            let text = "the GPU's management library did not answer in time; device memory is not sampled";
            findings.push(Finding::warning("gpu_not_watched", "ddo-record", text));
            None
        }
        Opened::Watched(mut devices) => {
            let used = devices.used();
            if let Err(error_type) = used {
                let text =
                    format!("device memory before the command could not be read ({error_type}); relative peaks are absent");
                findings.push(Finding::warning("gpu_baseline_missing", "ddo-record", text));
            }
            Some((devices, used))
        }
    }
}

/// Rank variables that are set to something else than a number.
fn unusable_ranks() -> Vec<Finding> {
    let bad =
        |name: &&str| std::env::var_os(name).is_some_and(|text| text.to_str().and_then(|t| t.parse::<u64>().ok()).is_none());
    let names: Vec<&str> = ["RANK", "LOCAL_RANK", "WORLD_SIZE"].into_iter().filter(bad).collect();
    if names.is_empty() {
        return Vec::new();
    }
    let text = format!("{} is set to something else than a whole number and was not recorded", names.join(", "));
    vec![Finding::note("rank_not_a_number", "manifest.json", text)]
}

/// Waits until the command has ended; stops with it where a shell waits for both.
fn wait(pid: Pid, following: &Following) -> Option<Finding> {
    loop {
        match child::wait_for_change(pid) {
            Ok(Change::Stopped) => jobs::follow_stop(pid, following),
            Ok(Change::Ended) => return None,
            Err(error) => {
                let text = format!("waiting for the command without reaping it failed: {error}");
                return Some(Finding::note("wait_failed", "ddo-record", text));
            }
        }
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
    start: &'a Start,
    end: Moment,
    outcome: Outcome,
    duration: Duration,
}

impl Ended<'_> {
    /// Publishes the seal, tells people, and gives back the exit code.
    fn report(&self, watched: Option<Watched>, mut findings: Vec<Finding>) -> i32 {
        let monitored = watched.is_some();
        let mut watched = watched.unwrap_or_default();
        findings.append(&mut watched.findings);
        findings.extend(self.publish_tracker(watched.tracker.take()));
        // What follows is about the command, not about the recording.
        let recording_failed = |findings: &[Finding]| findings.iter().any(|f| f.severity > Severity::Note);
        let problems = recording_failed(&findings);
        let suspended = self.start.moment.suspended_until(&self.end);
        findings.extend(self.about_the_command(&mut watched, suspended));
        let end = self.seal(monitored, watched, suspended, findings);
        let sealed = manifest::seal(&self.handover.dir, &end);
        for finding in end.findings.iter().filter(|f| f.severity > Severity::Note) {
            say::line(&finding.to_string());
        }
        self.say_end();
        let problems = problems || sealed.is_err();
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

    fn publish_tracker(&self, tracker: Option<serde_json::Result<Vec<u8>>>) -> Option<Finding> {
        let published = tracker?
            .map_err(|source| WrapError::Json { document: TRACKER_FILE, source })
            .and_then(|bytes| manifest::publish_bytes(&self.handover.dir, TRACKER_FILE, bytes));
        published.err().map(|error| Finding::warning("tracker_not_written", TRACKER_FILE, error.to_string()))
    }

    fn about_the_command(&self, watched: &mut Watched, suspended: f64) -> Vec<Finding> {
        let kills = watched.group.kills();
        let machine_kills =
            group::kills_of_the_machine().zip(self.start.machine_kills).map(|(now, then)| now.saturating_sub(then));
        let evidence = story::Evidence { outcome: &self.outcome, kills, machine_kills, limits: &self.start.limits, watched };
        let mut findings = story::tell(&evidence);
        if suspended > 0.0 {
            let text = format!("the machine slept for {suspended:.1} s during the run; no duration counts it");
            findings.push(Finding::note("suspended", "ddo-record", text));
        }
        if watched.processes_left > 0 {
            let text = format!("{} descendant(s) of the command go on; they are not recorded any more", watched.processes_left);
            findings.push(Finding::note("processes_left", "command", text));
        }
        findings
    }

    fn seal(&self, monitored: bool, mut watched: Watched, suspended: f64, findings: Vec<Finding>) -> ManifestEnd {
        let (exit_code, signal) = match self.outcome {
            Outcome::Exited(code) => (Some(code), None),
            Outcome::Signaled(signal) => (None, Some(signal)),
            Outcome::NotStarted(_) => (None, None),
        };
        let measured = self.plan.status || self.plan.disk_budget_bytes.is_some();
        let above = |(peak, baseline): (u64, u64)| i64::try_from(i128::from(peak) - i128::from(baseline)).ok();
        ManifestEnd {
            schema_version: version::MANIFEST,
            status: self.outcome.status().into(),
            exit_code,
            signal,
            duration_seconds: Seconds(self.duration.as_secs_f64()),
            memory_samples: monitored.then_some(watched.samples),
            peak_rss_bytes: watched.peak_rss_bytes,
            peak_ram_bytes: watched.peak_ram_bytes,
            peak_gpu_used_bytes: watched.peak_gpu_bytes.max(watched.gpu_baseline_bytes),
            peak_gpu_above_baseline_bytes: watched.peak_gpu_bytes.zip(watched.gpu_baseline_bytes).and_then(above),
            control_group_peak_bytes: watched.group.peak_bytes,
            out_of_memory_kills: watched.group.kills(),
            processes_left: monitored.then_some(watched.processes_left),
            suspended_seconds: Some(Seconds(suspended)),
            journal_bytes: measured.then(|| status::measure(&self.handover.dir).bytes),
            findings,
        }
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
