"""What ddo-record costs, and what it leaves behind. Run by hand on a quiet machine; figures go into samples/RESULTS.md.

    recorder_cost.py soak DDO_RECORD [--runs 1000] [--seconds 600] [--children 100]
    recorder_cost.py overhead DDO_RECORD [--pairs 10] [--seconds 30]

`soak` runs many short commands, then one long command that keeps starting children, and watches the recorder: no zombie, no
file left open, memory flat. `overhead` runs the same fixed work with and without the recorder, interleaved, and prints the
mean change of the pairs with its 95 % interval. Python's standard library alone; one line of JSON for each result.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

# Two-sided 97.5 % points of Student's t for the degrees of freedom of 2 to 31 pairs.
STUDENT = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
           2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042]

# Fixed work, sized by its first argument: arithmetic in registers, or copies of a block larger than any cache.
WORK = {
    "cpu": "import sys\nx = 1\nfor i in range(int(sys.argv[1])):\n    x = (x * 1103515245 + 12345) % 2147483648\n",
    "memory": "import sys\na = bytearray(256 << 20)\nb = bytearray(256 << 20)\nfor i in range(int(sys.argv[1])):\n    b[:] = a\n",
}


def status(pid, key):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1])
    raise KeyError(key)


def zombies(parent):
    found = 0
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rsplit(") ", 1)[1].split()
        except OSError:
            continue
        found += fields[0] == "Z" and int(fields[1]) == parent
    return found


def soak(record, options):
    with tempfile.TemporaryDirectory(prefix="ddo-soak-") as folder:
        began, failed, left = time.monotonic(), 0, 0
        for number in range(options.runs):
            out = pathlib.Path(folder) / f"run-{number}"
            done = subprocess.run([record, "-o", out, "--", "true"], stderr=subprocess.DEVNULL)
            failed += done.returncode != 0 or not (out / "manifest.end.json").exists()
            left += sum(1 for path in out.rglob("*.tmp"))
        seconds = time.monotonic() - began
        print(json.dumps({"soak": "short", "runs": options.runs, "failed": failed, "temporary_files_left": left,
                          "seconds": round(seconds, 3), "zombies": zombies(os.getpid())}), flush=True)

        script = f"n=0; while [ $n -lt {options.children} ]; do sleep {options.seconds / options.children}; n=$((n+1)); done"
        long = subprocess.Popen([record, "-o", f"{folder}/long", "--", "sh", "-c", script], stderr=subprocess.DEVNULL)
        readings, most_zombies = [], 0
        while long.poll() is None:
            time.sleep(max(options.seconds / 60, 0.05))
            try:
                files = len(os.listdir(f"/proc/{long.pid}/fd"))
                readings.append((status(long.pid, "VmRSS") * 1024, files))
                most_zombies = max(most_zombies, zombies(long.pid))
            except (OSError, KeyError):
                continue
        # The command's own process is a zombie for a moment at the end.
        tail = readings[len(readings) // 10:-1] or readings
        print(json.dumps({"soak": "long", "children": options.children, "seconds": options.seconds, "code": long.returncode,
                          "readings": len(readings), "rss_bytes_first": tail[0][0], "rss_bytes_last": tail[-1][0],
                          "rss_bytes_most": max(rss for rss, _ in tail),
                          "rss_bytes_tenths": [readings[len(readings) * tenth // 10][0] for tenth in range(10)], "open_files_least": min(n for _, n in tail),
                          "open_files_most": max(n for _, n in tail), "zombies_most": most_zombies}), flush=True)
        return 1 if failed or left or long.returncode else 0


def timed(words):
    began = time.monotonic()
    subprocess.run(words, check=True, stderr=subprocess.DEVNULL)
    return time.monotonic() - began


def overhead(record, options):
    for kind, work in WORK.items():
        count = 1
        while (seconds := timed([sys.executable, "-c", work, str(count)])) < min(2.0, options.seconds / 4):
            count = count * 2 if seconds > 0.2 else count * 8
        words = [sys.executable, "-c", work, str(math.ceil(count * options.seconds / seconds))]
        for mode in ("rss", "full"):
            changes, bare_seconds = [], []
            with tempfile.TemporaryDirectory(prefix="ddo-overhead-") as folder:
                for pair in range(options.pairs):
                    wrapped = [record, "-o", f"{folder}/{pair}", "--memory-monitor", mode, "--"] + words
                    # The order alternates, so that a drift of the machine meets both sides.
                    if pair % 2:
                        with_recorder, bare = timed(wrapped), timed(words)
                    else:
                        bare, with_recorder = timed(words), timed(wrapped)
                    changes.append(100 * (with_recorder / bare - 1))
                    bare_seconds.append(bare)
            mean = statistics.mean(changes)
            half = STUDENT[min(len(changes) - 2, len(STUDENT) - 1)] * statistics.stdev(changes) / math.sqrt(len(changes))
            print(json.dumps({"overhead": kind, "monitor": mode, "pairs": options.pairs,
                              "bare_seconds_mean": round(statistics.mean(bare_seconds), 3), "change_percent": round(mean, 3),
                              "interval_percent": [round(mean - half, 3), round(mean + half, 3)],
                              "distinguishable": abs(mean) > half}), flush=True)
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["soak", "overhead"])
    parser.add_argument("record")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--children", type=int, default=100)
    parser.add_argument("--pairs", type=int, default=10)
    options = parser.parse_args()
    record = os.path.abspath(options.record)
    if options.what == "soak":
        options.seconds = options.seconds or 600.0
        return soak(record, options)
    if options.pairs < 2:
        parser.error("--pairs must be at least 2 for an interval")
    options.seconds = options.seconds or 30.0
    return overhead(record, options)


if __name__ == "__main__":
    sys.exit(main())
