"""What ddo-record costs, and what it leaves behind. Run by hand on a quiet machine; figures go into samples/RESULTS.md.

    recorder_cost.py soak DDO_RECORD [--runs 1000] [--seconds 600] [--children 100]
    recorder_cost.py overhead DDO_RECORD [--pairs 10] [--seconds 30] [--jobs 1] [--limit SECONDS]

`soak` runs many short commands, then one long command that keeps starting children, and watches the recorder: no zombie, no
file left open, memory flat.

`overhead` runs the same fixed work with and without the recorder, interleaved, once bound by memory and once by the processor, with
the cheap and the full memory monitor. It prints the median change of the pairs with an exact interval (order statistics: at least
95 %, whatever the distribution), by the clock and in processor time. `--jobs N` runs N pairs at a time, each on processors of its
own; with `--limit` no pair begins that would not end in time. On 16 processors within 10 minutes:

    recorder_cost.py overhead DDO_RECORD --pairs 16 --jobs 8 --limit 590

Python's standard library alone; one line of JSON for each result.
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
import threading
import time

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


def spent(words):
    """Seconds by the clock and of processor time of a command with everything that it waited for."""
    began = time.monotonic()
    child = subprocess.Popen(words, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    seconds = time.monotonic() - began
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        raise SystemExit(f"recorder_cost: {words[0]} ended with {child.returncode}")
    return seconds, used.ru_utime + used.ru_stime


def work(kind, count):
    return [sys.executable, "-c", WORK[kind], str(count)]


def calibrate(jobs, seconds):
    """How much work of each kind takes that long while all jobs are busy."""
    counts = {}
    for kind in WORK:
        count = 1
        while (took := spent(work(kind, count))[0]) < min(2.0, seconds / 8):
            count = count * 2 if took > 0.2 else count * 8
        counts[kind] = math.ceil(count * min(4.0, seconds / 4) / took)
    kinds = [list(WORK)[at % len(WORK)] for at in range(max(len(jobs), len(WORK)))]
    took = {kind: [] for kind in WORK}
    in_turn(jobs, [lambda kind=kind: took[kind].append(spent(work(kind, counts[kind]))[0]) for kind in kinds])
    # A few percent more, so that no command stays below the time asked for.
    return {kind: math.ceil(counts[kind] * seconds * 1.05 / statistics.median(took[kind])) for kind in WORK}


def in_turn(jobs, tasks, enough=lambda: False):
    """Runs the tasks in their order, one a job at a time; each job keeps to its own processors."""
    left = list(reversed(tasks))
    failed = []

    def run(cores):
        # Of this thread alone; the commands that it starts inherit it.
        os.sched_setaffinity(0, cores)
        while left and not failed and not enough():
            try:
                left.pop()()
            except IndexError:
                return
            except BaseException as error:
                failed.append(error)

    threads = [threading.Thread(target=run, args=(cores,)) for cores in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]


def median_interval(values, confidence=0.95):
    """Median with the narrowest interval between two of the sorted values that holds the true median with at least this probability,
    whatever the distribution, and that probability; the interval is absent where there are too few values."""
    ordered, count = sorted(values), len(values)
    median = statistics.median(ordered)
    for inside in range(count // 2 - 1, -1, -1):
        outside = 2 * sum(math.comb(count, k) for k in range(inside + 1)) / 2**count
        if 1 - outside >= confidence:
            return median, [ordered[inside], ordered[count - 1 - inside]], 1 - outside
    return median, None, None


def overhead(record, options):
    began = time.monotonic()
    cores = sorted(os.sched_getaffinity(0))
    each = max(1, len(cores) // options.jobs)
    jobs = [set(cores[at * each:(at + 1) * each]) for at in range(options.jobs)]
    if not all(jobs):
        raise SystemExit(f"recorder_cost: --jobs is {options.jobs}; this process may use {len(cores)} processors")
    counts = calibrate(jobs, options.seconds)
    series = [(kind, mode) for mode in ("rss", "full") for kind in WORK]
    results = {key: [] for key in series}
    longest = [2 * options.seconds * 1.05]

    def pair(key, number, folder):
        kind, mode = key
        out = os.path.join(folder, f"{kind}-{mode}-{number}")
        bare = work(kind, counts[kind])
        wrapped = [record, "-o", out, "--memory-monitor", mode, "--"] + bare
        start = time.monotonic()
        # The order alternates, so that a drift of the machine meets both sides.
        sides = {name: spent(words) for name, words in [("bare", bare), ("with", wrapped)][::-1 if number % 2 else 1]}
        longest[0] = max(longest[0], time.monotonic() - start)
        results[key].append((sides["bare"], sides["with"]))

    with tempfile.TemporaryDirectory(prefix="ddo-overhead-") as folder:
        tasks = [lambda key=key, number=number: pair(key, number, folder) for number in range(options.pairs) for key in series]
        in_turn(jobs, tasks, lambda: options.limit and time.monotonic() - began + longest[0] > options.limit)
    percent = lambda ratio: round(100 * (ratio - 1), 3)
    for (kind, mode), pairs in results.items():
        line = {"overhead": kind, "monitor": mode, "pairs": len(pairs), "jobs": len(jobs), "processors_each": each}
        if pairs:
            bare = [bare[0] for bare, _ in pairs]
            median, interval, confidence = median_interval([wrapped[0] / bare[0] for bare, wrapped in pairs])
            line |= {"bare_seconds_least": round(min(bare), 3), "bare_seconds_median": round(statistics.median(bare), 3),
                     "change_percent_median": percent(median),
                     "interval_percent": interval and [percent(end) for end in interval],
                     "confidence": confidence and round(confidence, 4),
                     "distinguishable": bool(interval) and not interval[0] <= 1 <= interval[1]}
            median, interval, _ = median_interval([wrapped[1] / bare[1] for bare, wrapped in pairs])
            line |= {"processor_time_percent_median": percent(median),
                     "processor_time_interval_percent": interval and [percent(end) for end in interval]}
        print(json.dumps(line), flush=True)
    print(json.dumps({"overhead": "all", "seconds": round(time.monotonic() - began, 1)}), flush=True)
    return 0 if all(len(pairs) == options.pairs for pairs in results.values()) else 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["soak", "overhead"])
    parser.add_argument("record")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--children", type=int, default=100)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float)
    options = parser.parse_args()
    record = os.path.abspath(options.record)
    if options.what == "soak":
        options.seconds = options.seconds or 600.0
        return soak(record, options)
    if options.pairs < 6:
        parser.error("--pairs must be at least 6 for an interval of 95 %")
    if options.jobs < 1:
        parser.error("--jobs must be at least 1")
    options.seconds = options.seconds or 30.0
    return overhead(record, options)


if __name__ == "__main__":
    sys.exit(main())
