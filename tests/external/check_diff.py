"""Holds the statistics of `ddo-analyze diff` against scipy's, and its JUnit file against an independent reader.

    python check_diff.py DDO_ANALYZE SAMPLE_JOURNAL WORK_FOLDER

Makes sides of runs from one recorded journal with seeded noise, ties included, and recomputes what verdict.json says from its own values.
"""

import json
import math
import pathlib
import random
import shutil
import subprocess
import sys

import junitparser
import numpy
from scipy import stats

CLOSE = 1e-9


def slower(run, factor, start):
    """Scales every clock of a run."""
    report_path = run / "reports/final.json"
    report = json.loads(report_path.read_text())
    timing = report["runtime"]["execution_timing"]
    timing["step_seconds"] = [seconds * factor for seconds in timing["step_seconds"]]
    for key in ("phase_seconds", "steady_state_seconds_per_step"):
        timing[key] *= factor
    report_path.write_text(json.dumps(report))
    for path in (run / "snapshots").rglob("*.json"):
        record = json.loads(path.read_text())
        record["host_elapsed_seconds"] *= factor
        path.write_text(json.dumps(record))
    manifest_path = run / "manifest.json"
    manifest = json.loads(manifest_path.read_text())
    manifest["clocks"]["wall_utc"] = f"2026-01-01T00:{start:02}:00Z"
    manifest_path.write_text(json.dumps(manifest))


def side(sample, folder, factors, offset):
    for index, factor in enumerate(factors):
        run = folder / f"{index:02}"
        shutil.copytree(sample, run)
        slower(run, factor, 2 * index + offset)


def chance(smaller, larger):
    """One-sided exact p of "the second side is larger", by every permutation where there are ties."""
    if len(set(smaller + larger)) == len(smaller) + len(larger):
        return stats.mannwhitneyu(larger, smaller, alternative="greater", method="exact").pvalue
    ranked = lambda a, b, axis: stats.mannwhitneyu(a, b, alternative="greater", method="asymptotic", axis=axis).statistic
    return stats.permutation_test(
        (larger, smaller), ranked, permutation_type="independent", n_resamples=10**6, alternative="greater", vectorized=True
    ).pvalue


def check(verdict):
    """Compares p, ratio and interval of every gated time and size; returns how many values were compared."""
    compared = 0
    gated = [m for m in verdict["metrics"] if m["gated"] and m["rule"] == "statistical"]
    usable = [m for m in gated if None not in m["base"] + m["candidate"]]
    rising = [chance(m["base"], m["candidate"]) for m in usable]
    falling = [chance(m["candidate"], m["base"]) for m in usable]
    adjusted = {True: stats.false_discovery_control(rising), False: stats.false_discovery_control(falling)}
    for at, metric in enumerate(usable):
        if metric["effect"] is None:
            continue
        base, candidate = numpy.array(metric["base"], float), numpy.array(metric["candidate"], float)
        ratios = numpy.sort(numpy.outer(candidate, 1 / base).ravel())
        middle = math.exp(numpy.median(numpy.log(ratios)))
        assert math.isclose(metric["effect"]["ratio"], middle, rel_tol=CLOSE), (metric["path"], metric["effect"], middle)
        compared += 1
        if metric["p"] is not None:
            wanted = adjusted[metric["effect"]["ratio"] > 1][at]
            assert math.isclose(metric["p"], wanted, rel_tol=CLOSE), (metric["path"], metric["p"], wanted)
            compared += 1
    return compared


def main():
    program, sample, work = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    seeded = random.Random(20260101)
    compared, tested = 0, 0
    for case, (runs, shift, digits) in enumerate([(5, 1.2, 6), (6, 0.85, 6), (8, 1.12, 2), (5, 1.15, 2), (12, 1.3, 6)]):
        folder = work / f"diff-{case}"
        noise = lambda: round(seeded.gauss(1.0, 0.02), digits)
        side(sample, folder / "base", [noise() for _ in range(runs)], 0)
        side(sample, folder / "candidate", [shift * noise() for _ in range(runs)], 1)
        out = folder / "out"
        command = [program, "diff", str(folder / "base"), "--out", str(out), "--", str(folder / "candidate")]
        code = subprocess.run(command, stdout=subprocess.DEVNULL).returncode
        verdict = json.loads((out / "verdict.json").read_text())
        assert code == verdict["exit_code"] == (1 if shift > 1 else 0), (command, code)
        compared += check(verdict)
        tested += sum(m["p"] is not None for m in verdict["metrics"] if m["gated"])
        suites = junitparser.JUnitXml.fromfile(str(out / "verdict.junit.xml"))
        failed = sum(suite.failures for suite in suites)
        worse = sum(m["gated"] and m["verdict"] in ("regression", "new") for m in verdict["metrics"])
        assert failed == worse and sum(len(list(suite)) for suite in suites) == sum(m["gated"] for m in verdict["metrics"]) + 1
        shutil.rmtree(folder)
    assert compared >= 20 and tested >= 5, (compared, tested)
    print(f"diff: {compared} values as scipy has them, {tested} of them chances")


main()
