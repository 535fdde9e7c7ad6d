//! "How does the command start and end?" Starting, waiting and exit codes.
//!
//! May use: std and rustix.
//!
//! Invariants: the command inherits the standard streams, the process group and the terminal; it is reaped only after
//! everything that holds its process id has stopped; a descendant that holds a pipe does not keep the recorder.

use super::manifest::Handover;
use super::words::quoted;
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

/// The recorder failed before the start.
pub const EXIT_RECORDER: i32 = 125;
/// The command was found but cannot be executed.
pub const EXIT_NOT_EXECUTABLE: i32 = 126;
/// The command was not found.
pub const EXIT_NOT_FOUND: i32 = 127;
/// Added to the number of a signal that ended the command.
pub const EXIT_SIGNAL: i32 = 128;

/// How the command ended, or why it was not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It exited with a code.
    Exited(i32),
    /// A signal ended it.
    Signaled(i32),
    /// It was not started.
    NotStarted(NotStarted),
}

/// Why a command was not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotStarted {
    /// Stable code of the finding.
    pub code: &'static str,
    /// The recorder's exit code.
    pub exit: i32,
    /// One sentence without the command's name.
    pub reason: String,
}

impl Outcome {
    /// The recorder's exit code, as far as the command decides it.
    pub fn exit_code(&self) -> i32 {
        match self {
            Outcome::Exited(code) => *code,
            Outcome::Signaled(signal) => EXIT_SIGNAL + signal,
            Outcome::NotStarted(why) => why.exit,
        }
    }

    /// The word in the seal.
    pub const fn status(&self) -> &'static str {
        match self {
            Outcome::Exited(_) => "exited",
            Outcome::Signaled(_) => "signaled",
            Outcome::NotStarted(_) => "not_started",
        }
    }
}

/// Starts the command.
///
/// # Errors
/// Why it did not start.
pub fn start(program: &OsStr, arguments: &[OsString], handover: &Handover) -> Result<Child, NotStarted> {
    let mut command = Command::new(program);
    command.args(arguments).envs(handover.variables());
    command.spawn().map_err(|error| not_started(program, &error))
}

fn not_started(program: &OsStr, error: &io::Error) -> NotStarted {
    let errno = Errno::from_io_error(error);
    let names_a_file = program.as_encoded_bytes().contains(&b'/') && Path::new(program).exists();
    let (code, exit, what) = match errno {
        Some(Errno::NOENT) if names_a_file => ("command_not_found", EXIT_NOT_FOUND, "its interpreter or loader was not found"),
        Some(Errno::NOENT) => ("command_not_found", EXIT_NOT_FOUND, "it was not found"),
        Some(Errno::AGAIN | Errno::NOMEM | Errno::MFILE | Errno::NFILE) => {
            ("command_start_failed", EXIT_RECORDER, "the system has no room for another process")
        }
        Some(_) => ("command_not_executable", EXIT_NOT_EXECUTABLE, "it cannot be executed"),
        None => ("command_start_failed", EXIT_RECORDER, "it cannot be started"),
    };
    NotStarted { code, exit, reason: format!("{what} ({error})") }
}

/// What a command did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A signal stopped it; it may be continued.
    Stopped,
    /// It has ended and was not reaped.
    Ended,
}

/// Waits until the command has stopped or ended, without reaping it: its process id stays its own.
///
/// # Cost
/// Blocks for as long as the command runs.
pub fn wait_for_change(pid: Pid) -> io::Result<Change> {
    let seen = WaitIdOptions::EXITED | WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT;
    loop {
        match waitid(WaitId::Pid(pid), seen) {
            Ok(Some(status)) if status.stopped() => {
                // Each stop is told once; by now the command may run again or have ended.
                waitid(WaitId::Pid(pid), WaitIdOptions::STOPPED | WaitIdOptions::NOHANG).ok();
                return Ok(Change::Stopped);
            }
            Ok(_) => return Ok(Change::Ended),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// True where a stop came since the last one that was told.
pub fn has_stopped_again(pid: Pid) -> bool {
    let seen = WaitIdOptions::STOPPED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    waitid(WaitId::Pid(pid), seen).is_ok_and(|status| status.is_some_and(|status| status.stopped()))
}

/// Reads an exit status.
pub fn outcome(status: ExitStatus) -> Outcome {
    match (status.code(), status.signal()) {
        (Some(code), _) => Outcome::Exited(code),
        (None, Some(signal)) => Outcome::Signaled(signal),
        // Neither stopped nor continued children are waited for.
        (None, None) => Outcome::Exited(EXIT_RECORDER),
    }
}

/// The command's name for a terminal line.
pub fn name(program: &OsStr) -> String {
    quoted(Path::new(program).file_name().unwrap_or(program))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_follow_the_shell() {
        assert_eq!(outcome(ExitStatus::from_raw(42 << 8)).exit_code(), 42);
        assert_eq!(outcome(ExitStatus::from_raw(9)).exit_code(), 137);
        assert_eq!(outcome(ExitStatus::from_raw(6 | 0x80)).exit_code(), 134);
        let failed = |errno: Errno| not_started(OsStr::new("x"), &errno.into()).exit;
        assert_eq!(failed(Errno::NOENT), 127);
        for errno in [Errno::ACCESS, Errno::NOEXEC, Errno::NOTDIR, Errno::TOOBIG] {
            assert_eq!(failed(errno), 126, "{errno}");
        }
        assert_eq!(failed(Errno::AGAIN), 125);
    }
}
