//! "Who gets the signal?" Passes signals sent to the recorder on to the command, once.
//!
//! May use: std, rustix, signal-hook, procfs and schemas.
//!
//! The command is in the recorder's process group, so what the terminal sends (`SIGINT` by a key, `SIGHUP` by a
//! hang-up) reaches it without help. What another process sends to the recorder alone is passed on. Stopping is the
//! command's matter: the recorder follows it (`jobs`). Real-time signals keep their default action.
//!
//! Two quick interrupts by key end a command that lets them pass: it is asked to terminate, and killed when the key is
//! pressed once more. A command with a handler of its own decides for itself.
//!
//! Invariants:
//! - the recorder never dies of these signals while the command lives;
//! - what was ignored at the start stays ignored, for the recorder and the command;
//! - handlers do not survive the command's exec, so it inherits nothing of them (an ignored `SIGCHLD` alone becomes the default:
//!   its exit code would be lost otherwise);
//! - the process id signalled is never that of another process: the command is reaped after this thread has ended.
//!
//! A process that signals the whole group (`kill -- -GROUP`) cannot be told from one that signals the recorder alone;
//! the command then gets the signal a second time.

use super::error::WrapError;
use super::jobs::{Following, is_stopped};
use crate::limits::{QUICK_INTERRUPTS, SAME_REQUEST};
use ddo_schemas::Finding;
use rustix::process::{Pid, Signal, getpgid, getpgrp, getpid, getsid, kill_process};
use signal_hook::consts::{
    SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, SIGWINCH, SIGXCPU, SIGXFSZ,
};
use signal_hook::iterator::exfiltrator::WithOrigin;
use signal_hook::iterator::exfiltrator::origin::Origin;
use signal_hook::iterator::{Handle, SignalsInfo};
use signal_hook::low_level::siginfo::Cause;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Instant;

const HANDLED: [i32; 12] =
    [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH, SIGXCPU, SIGXFSZ, SIGTSTP, SIGCONT];

/// What the terminal sends to the foreground group.
const BY_KEY: [i32; 5] = [SIGINT, SIGQUIT, SIGHUP, SIGTSTP, SIGWINCH];

/// A signal's name, such as `SIGTERM`.
pub fn name(signal: i32) -> String {
    signal_hook::low_level::signal_name(signal).map_or_else(|| format!("signal {signal}"), str::to_owned)
}

/// Installed handlers, before the command exists.
#[derive(Debug)]
pub struct Signals {
    signals: SignalsInfo<WithOrigin>,
}

impl Signals {
    /// Installs the handlers, except for what is ignored.
    ///
    /// # Errors
    /// The system refused a handler.
    pub fn install() -> Result<Signals, WrapError> {
        let ignored = ignored_mask();
        // Where SIGCHLD is ignored the kernel forgets exit codes; a handler ends that.
        let wanted = HANDLED.into_iter().filter(|signal| !in_mask(ignored, *signal));
        let wanted = wanted.chain([SIGCHLD].into_iter().filter(|signal| in_mask(ignored, *signal)));
        let signals = SignalsInfo::new(wanted).map_err(WrapError::system("signal handlers cannot be installed"))?;
        Ok(Signals { signals })
    }

    /// A signal that has come already, before the command was started.
    pub fn already(&mut self) -> Option<i32> {
        let ends = |signal: &i32| ![SIGCHLD, SIGWINCH, SIGCONT, SIGTSTP].contains(signal);
        self.signals.pending().map(|origin| origin.signal).find(ends)
    }

    /// Starts the thread that passes signals on, as soon as it is told the command's process id.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn into_forwarder(self, following: Arc<Following>) -> Result<Forwarder, WrapError> {
        let (tell, told) = mpsc::channel();
        let handle = self.signals.handle();
        let thread = std::thread::Builder::new()
            .name("ddo-signals".into())
            .spawn(move || forward(self.signals, &told, &following))
            .map_err(WrapError::system("the signal thread cannot be started"))?;
        Ok(Forwarder { tell, handle, thread })
    }
}

/// Signals ignored at the start; none when the system does not tell.
fn ignored_mask() -> u64 {
    procfs::process::Process::myself().and_then(|me| me.status()).map_or(0, |status| status.sigign)
}

fn in_mask(mask: u64, signal: i32) -> bool {
    u32::try_from(signal - 1).ok().and_then(|bit| mask.checked_shr(bit)).is_some_and(|shifted| shifted & 1 == 1)
}

/// The running thread.
#[derive(Debug)]
pub struct Forwarder {
    tell: mpsc::Sender<Pid>,
    handle: Handle,
    thread: JoinHandle<Forwarded>,
}

impl Forwarder {
    /// Tells the command's process id.
    pub fn watch(&self, pid: Pid) {
        // The thread ends only in `stop`, so it listens.
        self.tell.send(pid).ok();
    }

    /// Ends the thread and gives back what it did. Signals that come later are swallowed.
    pub fn stop(self) -> Forwarded {
        self.handle.close();
        drop(self.tell);
        self.thread.join().unwrap_or_default()
    }
}

/// What the thread did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forwarded {
    sent: BTreeMap<i32, u64>,
    escalated: BTreeSet<i32>,
    failed: BTreeMap<i32, String>,
}

impl Forwarded {
    /// The findings of the seal.
    pub fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        for (signal, times) in &self.sent {
            let text = format!("{} was passed on to the command, times: {times}", name(*signal));
            findings.push(Finding::note("signal_forwarded", "ddo-record", text));
        }
        for signal in &self.escalated {
            let text = format!("{} was sent to the command because the recorder was asked again to end", name(*signal));
            findings.push(Finding::note("signal_escalated", "ddo-record", text));
        }
        for (signal, error) in &self.failed {
            let text = format!("{} could not be passed on to the command: {error}", name(*signal));
            findings.push(Finding::warning("signal_not_forwarded", "ddo-record", text));
        }
        findings
    }
}

fn forward(mut signals: SignalsInfo<WithOrigin>, told: &mpsc::Receiver<Pid>, following: &Following) -> Forwarded {
    let mut done = Forwarded::default();
    let Ok(pid) = told.recv() else { return done };
    let mut requests = Requests::default();
    for origin in signals.forever().filter(|origin| origin.signal != SIGCHLD) {
        let came = Came { signal: origin.signal, sender: sender(&origin), at: Instant::now() };
        let action = match came.sender {
            // Limits of the recorder's own, such as a full quota, are not the command's.
            Sender::Kernel if !BY_KEY.contains(&origin.signal) => Action::Leave,
            Sender::Kernel if !reached(pid, origin.signal) => Action::Forward,
            Sender::Kernel if origin.signal == SIGINT => requests.by_key(came.at, || catches(pid, SIGINT)),
            Sender::Kernel => Action::Leave,
            // A shell continues the whole group; a command that still stands was not reached.
            Sender::Process(_) if origin.signal == SIGCONT && (following.take() || !is_stopped(pid)) => Action::Leave,
            Sender::Process(_) => requests.decide(came),
        };
        tracing::debug!(signal = origin.signal, ?action, "signal");
        let signal = match action {
            Action::Leave => continue,
            Action::Forward => origin.signal,
            Action::Terminate => SIGTERM,
            Action::Kill => signal_hook::consts::SIGKILL,
        };
        let Some(named) = Signal::from_named_raw(signal) else { continue };
        match kill_process(pid, named) {
            Ok(()) if action == Action::Forward => *done.sent.entry(signal).or_default() += 1,
            Ok(()) => {
                done.escalated.insert(signal);
            }
            Err(error) => {
                done.failed.insert(signal, error.to_string());
            }
        }
    }
    done
}

fn sender(origin: &Origin) -> Sender {
    match origin.cause {
        Cause::Kernel => Sender::Kernel,
        _ => Sender::Process(origin.process.map_or(0, |process| process.pid)),
    }
}

/// True when the kernel gave the signal to the command too.
fn reached(pid: Pid, signal: i32) -> bool {
    let same_group = getpgid(Some(pid)).is_ok_and(|group| group == getpgrp());
    // At a hang-up the kernel signals the leader of the session first, and only the leader.
    let leader_only = signal == SIGHUP && getsid(None).is_ok_and(|session| session == getpid());
    same_group && !leader_only
}

/// True where the command has a handler of its own; also when the system does not tell.
fn catches(pid: Pid, signal: i32) -> bool {
    let status = procfs::process::Process::new(pid.as_raw_nonzero().get()).and_then(|command| command.status());
    status.map_or(true, |status| in_mask(status.sigcgt, signal))
}

/// Who sent a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sender {
    /// The kernel, for the terminal.
    Kernel,
    /// A process, by its id.
    Process(i32),
}

/// A signal that came.
#[derive(Clone, Copy, Debug)]
struct Came {
    signal: i32,
    sender: Sender,
    at: Instant,
}

/// What to do about a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// Nothing.
    Leave,
    /// Pass it on as it is.
    Forward,
    /// Send `SIGTERM`.
    Terminate,
    /// Send `SIGKILL`.
    Kill,
}

/// Counts the requests to end: those that were sent to the recorder alone, and those by key.
#[derive(Debug, Default)]
struct Requests {
    count: u32,
    last: Option<Came>,
    keys: u32,
    last_key: Option<Instant>,
}

impl Requests {
    /// An interrupt by key, which the command got too.
    fn by_key(&mut self, at: Instant, catches: impl FnOnce() -> bool) -> Action {
        let quick = self.last_key.is_some_and(|last| at.saturating_duration_since(last) < QUICK_INTERRUPTS);
        self.keys = if quick { self.keys.saturating_add(1) } else { 1 };
        self.last_key = Some(at);
        match self.keys {
            0 | 1 => Action::Leave,
            _ if catches() => Action::Leave,
            2 => Action::Terminate,
            _ => Action::Kill,
        }
    }

    fn decide(&mut self, came: Came) -> Action {
        if came.signal != SIGINT && came.signal != SIGTERM {
            return Action::Forward;
        }
        let same = |last: Came| {
            last.signal == came.signal && last.sender == came.sender && came.at.saturating_duration_since(last.at) < SAME_REQUEST
        };
        if self.last.is_some_and(same) {
            return Action::Leave;
        }
        self.last = Some(came);
        self.count = self.count.saturating_add(1);
        match self.count {
            1 => Action::Forward,
            2 => Action::Terminate,
            _ => Action::Kill,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn requests_escalate_and_repeats_count_once() {
        let start = Instant::now();
        let came = |signal, sender, ms| Came { signal, sender: Sender::Process(sender), at: start + Duration::from_millis(ms) };
        let mut requests = Requests::default();
        assert_eq!(requests.decide(came(SIGUSR1, 1, 0)), Action::Forward);
        assert_eq!(requests.decide(came(SIGINT, 1, 0)), Action::Forward);
        assert_eq!(requests.decide(came(SIGINT, 1, 249)), Action::Leave);
        assert_eq!(requests.decide(came(SIGHUP, 1, 250)), Action::Forward);
        assert_eq!(requests.decide(came(SIGINT, 2, 251)), Action::Terminate);
        assert_eq!(requests.decide(came(SIGTERM, 2, 252)), Action::Kill);
        assert_eq!(requests.decide(came(SIGTERM, 2, 1000)), Action::Kill);
        assert_eq!(requests.decide(came(SIGUSR2, 2, 1000)), Action::Forward);
    }

    #[test]
    fn quick_interrupts_end_a_command_without_a_handler() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut requests = Requests::default();
        let actions = [0, 2000, 2900, 3000, 6000].map(|ms| requests.by_key(at(ms), || false));
        assert_eq!(actions, [Action::Leave, Action::Leave, Action::Terminate, Action::Kill, Action::Leave]);
        let mut requests = Requests::default();
        let actions = [0, 100, 200].map(|ms| requests.by_key(at(ms), || true));
        assert_eq!(actions, [Action::Leave; 3]);
    }

    #[test]
    fn masks_count_from_signal_one() {
        assert!(in_mask(1, 1) && in_mask(1 << (SIGTERM - 1), SIGTERM) && in_mask(1 << 63, 64));
        assert!(!in_mask(u64::MAX, 65) && !in_mask(u64::MAX, 0) && !in_mask(2, 1));
    }
}
