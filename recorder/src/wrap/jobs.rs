//! "Does the shell get its terminal back?" Job control: the recorder stops when its command has stopped.
//!
//! May use: std, rustix and procfs.
//!
//! Without a wrapper, a shell sees that its foreground job has stopped and takes the terminal back. With one it waits
//! for the wrapper, so the wrapper stops too; the shell's `fg` or `bg` continues both, because both are in one group.
//!
//! Invariants: the recorder stops only where a shell waits for it: in the foreground, with a parent of the same
//! session in another group. Elsewhere nobody would continue it, and a command that is continued by its process id
//! would end unseen. A stop that came after the recorder was continued is never undone by it.

use super::child;
use crate::limits::MAX_ANCESTORS;
use procfs::process::{Process, Stat};
use rustix::process::{Pid, Signal, getpid, kill_process};
use std::sync::atomic::{AtomicBool, Ordering};

/// Set while the recorder has stopped with its command: whoever continues it then is answered here, and not by the
/// thread that passes signals on, which may be late by a stop.
#[derive(Debug, Default)]
pub struct Following(AtomicBool);

impl Following {
    /// True once for each time that the recorder stopped with its command.
    pub fn take(&self) -> bool {
        self.0.swap(false, Ordering::SeqCst)
    }
}

/// Stops the recorder where the command has stopped and a shell waits for both; returns after they were continued.
///
/// # Cost
/// Blocks for as long as the job is stopped.
pub fn follow_stop(command: Pid, following: &Following) {
    let Some(own) = stat(getpid()) else { return };
    // The shell may have continued the command by now; stopping after it would leave the recorder behind.
    if own.tpgid == own.pgrp && shell_waits(&own) && is_stopped(command) {
        tracing::debug!("the command has stopped; the recorder stops too");
        following.0.store(true, Ordering::SeqCst);
        // A process may always stop itself.
        kill_process(getpid(), Signal::STOP).ok();
        // A shell continues the whole group. Where the recorder alone was continued, its command is still in the same stop.
        if is_stopped(command) && !child::has_stopped_again(command) {
            kill_process(command, Signal::CONT).ok();
        }
    }
}

/// True while the process is stopped by a signal.
pub fn is_stopped(pid: Pid) -> bool {
    stat(pid).is_some_and(|stat| stat.state == 'T')
}

/// True while the recorder's group owns the terminal, or there is no terminal.
pub fn may_write_to_terminal() -> bool {
    stat(getpid()).is_some_and(|own| own.tpgid == own.pgrp || own.tpgid < 0)
}

/// True where the nearest ancestor outside the group is of the same session: the shell that started the job.
fn shell_waits(own: &Stat) -> bool {
    let mut parent = own.ppid;
    for _ in 0..MAX_ANCESTORS {
        let Some(ancestor) = Pid::from_raw(parent).and_then(stat) else { return false };
        if ancestor.session != own.session {
            return false;
        }
        if ancestor.pgrp != own.pgrp {
            return true;
        }
        parent = ancestor.ppid;
    }
    false
}

fn stat(pid: Pid) -> Option<Stat> {
    Process::new(pid.as_raw_nonzero().get()).and_then(|process| process.stat()).ok()
}
