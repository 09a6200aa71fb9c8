"""Hung is not slow: false alarms over those promised, and how soon a worker that hangs is found.

Answers of synthetic laws, and the latencies of 256 AWS Lambda workers where they are there (set ERASUREHEAD_DATA to the
folder that holds `traces/aws_lambda`). All on a clock of its own: the figures are the same on every machine.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np

from common import report
from erasurehead import delays
from erasurehead._internal.arrays import Array
from erasurehead._internal.late_work import LateWork
from erasurehead.delays import Delays, Trace
from erasurehead.faults import FailureDetector
from erasurehead.faults._failure_detector import Law
from simulated_rounds import simulate_rounds

WORKERS, ROUNDS, CHANCE = 30, 3000, 1e-3
LIGHT: Mapping[str, Delays] = {
    "exponential, mean 0.5": delays.Exponential(0.5, seed=1),
    "1 + exponential, mean 0.5": delays.ShiftedExponential(1.0, 0.5, seed=1),
    "Weibull, shape 3": delays.parse("weibull(1.0, 3.0, seed=1)"),
}
HEAVY: Mapping[str, Delays] = {
    "Weibull, shape 0.7": delays.parse("weibull(0.5, 0.7, seed=1)"),
    "log-normal, sigma 1": delays.parse("lognormal(0.5, 1.0, seed=1)"),
    "log-normal, sigma 1.5": delays.parse("lognormal(0.5, 1.5, seed=1)"),
    "Pareto, exponent 3": delays.parse("pareto(0.2, 3.0, seed=1)"),
    "Pareto, exponent 1.5": delays.parse("pareto(0.2, 1.5, seed=1)"),
}
WAYS: tuple[tuple[int | None, LateWork], ...] = ((None, "preempt"), (11, "preempt"), (11, "carry"))

STALL = 10.0
"""A worker of AWS that takes longer than so many seconds has stalled: to suspect it is no mistake."""


def alarms() -> tuple[dict[str, float], float, float]:
    """Return false alarms over those promised by law and way to wait, and the most of light and of heavy tails."""
    worst: list[float] = []
    table: dict[str, float] = {}
    for laws in (LIGHT, HEAVY):
        found: list[float] = []
        for name, law in laws.items():
            rows = law.rows(0, ROUNDS, WORKERS)
            rates = [
                simulate_rounds(rows, FailureDetector(floor=0.0, chance=CHANCE, late=late), first).rate / CHANCE
                for first, late in WAYS
            ]
            ways = (f"first {first}, {late}" if first else "all" for first, late in WAYS)
            table |= {f"{name}: {way}": rate for way, rate in zip(ways, rates, strict=True)}
            found += rates
        worst.append(max(found))
    return table, worst[0], worst[1]


def simpler_laws() -> dict[str, float]:
    """Return what two simpler laws would cost, alarms and patience, and the deadlines by ours."""
    answers = HEAVY["log-normal, sigma 1.5"].rows(0, 10000, WORKERS).ravel()
    excess = np.count_nonzero(answers > -math.log(CHANCE) * answers.mean()) / len(answers) / CHANCE
    answers = LIGHT["exponential, mean 0.5"].rows(0, 34, WORKERS).ravel()[:1000]
    law = Law.of(answers, np.zeros(len(answers), dtype=bool))
    assert not law.pareto
    beyond = answers[answers > law.threshold]
    heavier = replace(law, pareto=True, scale=float(np.log(beyond / law.threshold).mean()))
    hazard = -math.log(FailureDetector().chance)
    answers = HEAVY["Pareto, exponent 1.5"].rows(0, 34, WORKERS).ravel()[:1000]
    patient = Law.of(answers, np.zeros(len(answers), dtype=bool)).seconds(hazard)
    return {
        "an exponential instead: alarms over promised": excess,
        "a Pareto tail instead: patience over ours": heavier.seconds(hazard) / law.seconds(hazard),
        "deadline of exponential answers, in seconds": law.seconds(hazard),
        "deadline of Pareto answers of exponent 1.5, in seconds": patient,
        "deadline of Pareto answers of exponent 1.5, in medians": patient / float(np.median(answers)),
    }


def hangs() -> tuple[list[float], int]:
    """Return how long after its last answer one worker that hangs was found, in 20 runs; and how many of ten were."""
    silent: list[float] = []
    for seed in range(20):
        rows = delays.Exponential(0.5, seed=seed).rows(0, 300, WORKERS)
        silent += simulate_rounds(rows, FailureDetector(), 11, hung={3: 200}).detected.values()
    rows = delays.Exponential(0.5, seed=1).rows(0, 300, WORKERS)
    return silent, len(simulate_rounds(rows, FailureDetector(), 11, dict.fromkeys(range(10), 100)).detected)


def blocks() -> Iterator[tuple[str, Array]]:
    """Yield each block of the AWS latencies with its name, in seconds, shape (rounds, 256)."""
    data = Path(os.environ.get("ERASUREHEAD_DATA", Path(__file__).resolve().parent.parent.parent / "shared" / "data"))
    folder, columns = data / "traces" / "aws_lambda", {"step": "round", "seconds": "latency_s"}
    for path in sorted(folder.glob("*.csv.gz")):
        for region in ("Canada", "London", "Sydney", "Tokyo") if "mbp" in path.name else ("Canada",):
            for load in (0.0, 0.25, 0.5, 0.75, 1.0):
                trace = Trace.read(path, columns, {"region": region, "load": load})
                yield f"{path.name.split('.')[0]}, {region}, load {load:g}", trace.table()


def aws() -> dict[str, float]:
    """Return what is raised on the AWS latencies: for stalls and besides, and where the first 200 are waited for."""
    stalls = raised = false = samples = 0
    worst = 0.0
    for name, rows in blocks():
        long = rows > STALL
        stalls, samples = stalls + int(long.sum()), samples + rows.size
        found = simulate_rounds(rows, FailureDetector()).alarms
        short = sum(not long[one] for one in found)
        raised, false = raised + len(found), false + short
        hasty: list[float] = []
        for late in ("preempt", "carry"):
            some = simulate_rounds(rows, FailureDetector(late=late), 200).alarms
            hasty.append(sum(not long[one] for one in some) / rows.size)
        worst = max(worst, *hasty)
        print(
            f"{name:<50} {len(found):4} alarms for {int(long.sum()):3} stalls, {short:2} of them for others; "
            f"first 200: {hasty[0]:.2%} and {hasty[1]:.2%} of the worker-rounds"
        )
    if not samples:
        print("no AWS latencies here: set ERASUREHEAD_DATA to the folder that holds traces/aws_lambda")
        return {}
    print(f"{samples} worker-rounds")
    return {
        "AWS: alarms": raised,
        "AWS: alarms for stalls": raised - false,
        "AWS: stalls": stalls,
        "AWS: other alarms over promised": false / samples / FailureDetector().chance,
        "AWS, first 200: most false alarms a worker-round": worst,
    }


def main() -> None:
    """Measure and report."""
    table, light, heavy = alarms()
    silent, ten = hangs()
    print(
        "a worker that hangs was found so many seconds after its last answer: "
        + ", ".join(f"{one:.1f}" for one in sorted(silent))
    )
    ratios = {
        "alarms over promised, tails up to exponential": light,
        "alarms over promised, heavier tails": heavy,
        **simpler_laws(),
        "one of 30 hangs: found, of 20 runs": len(silent),
        "one of 30 hangs: most seconds of silence": max(silent, default=math.nan),
        "ten of 30 hang: found": ten,
    }
    targets = {
        "alarms over promised, tails up to exponential": "<= 1.3",
        "alarms over promised, heavier tails": "<= 3",
        "one of 30 hangs: found, of 20 runs": ">= 20",
        "ten of 30 hang: found": ">= 10",
    }
    report("failure_detector", table | ratios | aws(), targets)


if __name__ == "__main__":
    main()
