"""ddo-record under a real terminal: the command keeps it, gets its signals once, shells stop and continue it, and a hang-up still
leaves a sealed journal.

    pty_check.py DDO_RECORD

Python's standard library alone. Prints one line for each case; exits 1 when one fails.
"""

import json
import os
import pathlib
import pty
import select
import shutil
import signal
import sys
import tempfile
import time

PATIENCE = 30.0
# With its end of line: a hang-up in the middle of a write is an error of the command.
READY = b"ready\r\n"
# Counts a signal, writes the count to a file and ends with 40 + count, some time after the first.
COUNTER = """
import os, pathlib, signal, sys, time
seen = 0
def count(number, frame):
    global seen
    seen += 1
signal.signal(getattr(signal, sys.argv[1]), count)
print("ready", flush=True)
end, waits = time.monotonic() + 30, False
while time.monotonic() < end:
    time.sleep(0.05)
    if seen and not waits:
        waits, end = True, time.monotonic() + 0.7
part = pathlib.Path(sys.argv[2] + ".part")
part.write_text(str(seen))
part.rename(sys.argv[2])
sys.exit(40 + seen)
"""


class Terminal:
    """A command on a terminal of its own."""

    def __init__(self, command):
        self.output, self.command = b"", command
        self.pid, self.master = pty.fork()
        if self.pid == 0:
            try:
                # A caller in the background may have switched these off.
                for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
                    signal.signal(number, signal.SIG_DFL)
                os.execv(command[0], command)
            finally:
                os._exit(99)

    def read_until(self, wanted):
        """Reads until a text has come, or to the end where it is None."""
        until = time.monotonic() + PATIENCE
        while wanted is None or wanted not in self.output:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.master], [], [], left)[0]:
                raise AssertionError(f"{wanted!r} did not come within {PATIENCE} s; got {self.output!r}")
            try:
                got = os.read(self.master, 4096)
            except OSError:  # the other side is closed
                got = b""
            if not got:
                assert wanted is None, f"{wanted!r} did not come; got {self.output!r}"
                return
            self.output += got

    def exit_code(self):
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            time.sleep(0.02)
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        raise AssertionError(f"{self.command[0]} did not end within {PATIENCE} s; got {self.output!r}")


def equal(what, got, wanted):
    assert got == wanted, f"{what} is {got!r}, not {wanted!r}"


def wait_for(path):
    until = time.monotonic() + PATIENCE
    while not path.exists():
        assert time.monotonic() < until, f"{path.name} did not come within {PATIENCE} s"
        time.sleep(0.02)
    return path.read_text()


def seal(journal):
    return json.loads(wait_for(journal / "manifest.end.json"))


def keeps_the_terminal(record, folder):
    ask = "import os; print('tty', os.isatty(0), os.isatty(1), os.isatty(2), os.tcgetpgrp(0) == os.getpgrp())"
    terminal = Terminal(record + [sys.executable, "-c", ask])
    terminal.read_until(None)
    assert b"tty True True True True" in terminal.output, terminal.output
    equal("exit code", terminal.exit_code(), 0)
    equal("exit code in the seal", seal(folder / "journal")["exit_code"], 0)


def ctrl_c_comes_once(record, folder):
    terminal = Terminal(record + [sys.executable, "-c", COUNTER, "SIGINT", str(folder / "count")])
    terminal.read_until(READY)
    os.write(terminal.master, b"\x03")
    terminal.read_until(None)
    equal("interrupts that the command got", wait_for(folder / "count"), "1")
    equal("exit code", terminal.exit_code(), 41)
    equal("exit code in the seal", seal(folder / "journal")["exit_code"], 41)


def ctrl_c_ends_a_plain_command(record, folder):
    terminal = Terminal(record + ["/bin/sh", "-c", "echo ready; exec sleep 60"])
    terminal.read_until(READY)
    os.write(terminal.master, b"\x03")
    terminal.read_until(None)
    equal("exit code", terminal.exit_code(), 128 + signal.SIGINT)
    end = seal(folder / "journal")
    equal("seal", (end["status"], end["signal"]), ("signaled", signal.SIGINT))


def hang_up_leaves_a_seal(record, folder):
    """The recorder leads the session: the kernel tells the recorder alone."""
    terminal = Terminal(record + ["/bin/sh", "-c", "echo ready; exec sleep 60"])
    terminal.read_until(READY)
    os.close(terminal.master)
    equal("exit code", terminal.exit_code(), 128 + signal.SIGHUP)
    end = seal(folder / "journal")
    equal("seal", (end["status"], end["signal"]), ("signaled", signal.SIGHUP))


def hang_up_comes_once(record, folder):
    terminal = Terminal(record + [sys.executable, "-c", COUNTER, "SIGHUP", str(folder / "count")])
    terminal.read_until(READY)
    os.close(terminal.master)
    equal("hang-ups that the command got", wait_for(folder / "count"), "1")
    equal("exit code", terminal.exit_code(), 41)
    equal("exit code in the seal", seal(folder / "journal")["exit_code"], 41)


def hang_up_under_a_shell_leaves_a_seal(record, folder):
    """A shell leads the session and goes first: the kernel tells the whole foreground group."""
    inner = " ".join(f"'{word}'" for word in record + ["/bin/sh", "-c", "echo ready; exec sleep 60"])
    terminal = Terminal(["/bin/sh", "-c", f"{inner}; exit"])
    terminal.read_until(READY)
    os.close(terminal.master)
    equal("exit code of the shell", terminal.exit_code(), -signal.SIGHUP)
    end = seal(folder / "journal")
    equal("seal", (end["status"], end["signal"]), ("signaled", signal.SIGHUP))


def quick_interrupts_end_a_command_that_ignores_them(record, folder):
    terminal = Terminal(record + ["/bin/sh", "-c", "trap '' INT; echo ready; while :; do sleep 0.05; done"])
    terminal.read_until(READY)
    os.write(terminal.master, b"\x03")
    time.sleep(0.2)
    os.write(terminal.master, b"\x03")
    equal("exit code", terminal.exit_code(), 128 + signal.SIGTERM)
    codes = [finding["code"] for finding in seal(folder / "journal")["findings"]]
    assert "signal_escalated" in codes, codes


def quick_interrupts_are_left_to_a_handler(record, folder):
    terminal = Terminal(record + [sys.executable, "-c", COUNTER, "SIGINT", str(folder / "count")])
    terminal.read_until(READY)
    for _ in range(3):
        os.write(terminal.master, b"\x03")
        time.sleep(0.15)
    equal("exit code", terminal.exit_code(), 43)
    equal("interrupts that the command got", wait_for(folder / "count"), "3")


def state_of(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(") ", 1)[1][0]


def wait_for_state(pid, wanted):
    until = time.monotonic() + PATIENCE
    while (state_of(pid) == "T") != wanted:
        assert time.monotonic() < until, f"process {pid} did not become {'stopped' if wanted else 'continued'}"
        time.sleep(0.02)


# One process without children: a shell that waits in vfork for a child that was stopped before its exec cannot be stopped
# itself, whatever wraps it.
JOB = """
import os, pathlib, signal, sys, time
os.chdir(sys.argv[1])
pathlib.Path("pid.part").write_text(str(os.getpid()))
os.rename("pid.part", "pid")
print("ready", flush=True)
if sys.argv[2] == "itself":
    os.kill(os.getpid(), signal.SIGSTOP)
while not os.path.exists("go"):
    time.sleep(0.02)
sys.exit(44)
"""


def job_control(shell, record, folder, stop):
    """Stop, fg, stop, bg, end: the shell sees the job as if nothing were between."""
    script = folder / "job.py"
    script.write_text(JOB)
    terminal = Terminal(shell)
    words = " ".join(f"'{word}'" for word in record + [sys.executable, str(script), str(folder), stop])
    os.write(terminal.master, f"{words}\n".encode())
    terminal.read_until(READY)
    pid = int(wait_for(folder / "pid"))
    if stop == "key":
        os.write(terminal.master, b"\x1a")
    terminal.read_until(b"Stopped")
    wait_for_state(pid, True)
    os.write(terminal.master, b"fg\n")
    wait_for_state(pid, False)
    terminal.output = b""
    os.write(terminal.master, b"\x1a")
    terminal.read_until(b"Stopped")
    wait_for_state(pid, True)
    os.write(terminal.master, b"bg\n")
    wait_for_state(pid, False)
    os.write(terminal.master, b"wait %1; echo code=$?\n")
    (folder / "go").touch()
    terminal.read_until(b"code=44")
    os.write(terminal.master, b"exit\n")
    terminal.exit_code()
    equal("exit code in the seal", seal(folder / "journal")["exit_code"], 44)


def bash_stops_and_continues_the_job(record, folder):
    job_control(["/bin/bash", "--norc", "--noprofile", "-i"], record, folder, "key")


def dash_stops_and_continues_the_job(record, folder):
    job_control([shutil.which("dash"), "-i"], record, folder, "key")


def bash_gets_the_terminal_of_a_job_that_stops_itself(record, folder):
    job_control(["/bin/bash", "--norc", "--noprofile", "-i"], record, folder, "itself")


def dash_gets_the_terminal_of_a_job_that_stops_itself(record, folder):
    job_control([shutil.which("dash"), "-i"], record, folder, "itself")


def a_status_line_is_drawn_and_cleared(record, folder):
    script = f"echo ready; until [ -e '{folder}/go' ]; do sleep 0.05; done"
    terminal = Terminal(record[:-1] + ["--status", "--", "/bin/sh", "-c", script])
    terminal.read_until(b" steps, memory ")
    (folder / "go").touch()
    terminal.read_until(None)
    equal("exit code", terminal.exit_code(), 0)
    assert b"\r\x1b[Kddo-record: 0:00:0" in terminal.output, terminal.output
    assert terminal.output.rstrip().split(b"\n")[-1].startswith(b"ddo-record: analyse with"), terminal.output


CASES = [
    quick_interrupts_end_a_command_that_ignores_them,
    quick_interrupts_are_left_to_a_handler,
    bash_stops_and_continues_the_job,
    dash_stops_and_continues_the_job,
    bash_gets_the_terminal_of_a_job_that_stops_itself,
    dash_gets_the_terminal_of_a_job_that_stops_itself,
    a_status_line_is_drawn_and_cleared,
    keeps_the_terminal,
    ctrl_c_comes_once,
    ctrl_c_ends_a_plain_command,
    hang_up_leaves_a_seal,
    hang_up_comes_once,
    hang_up_under_a_shell_leaves_a_seal,
]


def main(program):
    failed = 0
    for case in CASES:
        with tempfile.TemporaryDirectory(prefix="ddo-pty-") as folder:
            folder = pathlib.Path(folder)
            record = [os.path.abspath(program), "-o", str(folder / "journal"), "--"]
            try:
                case(record, folder)
                print(f"pty_check: {case.__name__.replace('_', ' ')}: ok", flush=True)
            except AssertionError as error:
                failed += 1
                print(f"pty_check: {case.__name__.replace('_', ' ')}: FAILED: {error}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]) if len(sys.argv) == 2 else __doc__)
