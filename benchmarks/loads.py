"""How much load, and how many messages? `adaptive` with 1 to 10 tasks a worker, by how delays and computing grow.

Thirty workers on the virtual clock, whose delays have a mean of 0.5 s a step whatever they hold, or of 0.5 s a task, or
are those that were recorded on AWS Lambda, one after the other; a task takes what it was measured to take, or as many
milliseconds as `--dear` says. Workers send the sum of their tasks, or with `multi_message` each task by itself, which
then has a delay of its own. Times are medians over the seeds. It needs the real data: set ERASUREHEAD_DATA to their
folder.

    python benchmarks/loads.py                   ten seeds, about two minutes
    python benchmarks/loads.py --seeds 1
    python benchmarks/loads.py --only "grow with the load, carry"
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import math
import statistics
from dataclasses import dataclass

from common import report
from erasurehead import engines, optimizers, training
from erasurehead._internal.arrays import Array
from erasurehead.schemes import parse_scheme
from target_cells import DATA, LATE, WORKERS, law, optimum, problem_of, task_seconds

CHOICES = {f"load {load}": f"adaptive(load={load})" for load in (1, 2, 3, 5, 10)} | {
    f"load {load}, a message per task": f"adaptive(load={load}, multi_message=True)" for load in (2, 3, 5)
}
USUAL, MOST = "load 3", "load 10"
GAPS = {"1e-2": 1e-2, "1e-3": 1e-3}
STEPS = 2000  # of few arrivals, at most


@dataclass(frozen=True)
class Kind:
    """What grows with the load.

    Arguments:
        name: of the rows.
        law: of the delays, as `time_to_target.law` has it.
        dear: whether a task takes what `--dear` says.
    """

    name: str
    law: str
    dear: bool


KINDS = (
    Kind("cheap tasks", "exponential", False),
    Kind("dear tasks", "exponential", True),
    Kind("delays that grow with the load", "by load", False),
    Kind("recorded delays", "trace desktop", False),
)


class _Reached(Exception):
    """The last gap is there."""


class _Watch(training.Callback):
    """Takes the time of each gap."""

    def __init__(self, data: str) -> None:
        self.problem, self.optimum = problem_of(data), optimum(data)
        self.times: dict[str, float] = {}

    def on_step_end(self, row: training.StepRow, x: Array) -> None:
        gap = self.optimum.gap(self.problem.objective(x))
        for name, depth in GAPS.items():
            if gap <= depth:
                self.times.setdefault(name, row.end)
        if len(self.times) == len(GAPS):
            raise _Reached


def seconds_to(data: str, kind: Kind, late: str, scheme: str, seed: int, dear: float) -> dict[str, float]:
    """Train with a scheme, and return when each gap was reached."""
    watch, problem = _Watch(data), problem_of(data)
    task = dear if kind.dear else task_seconds(data)
    engine = engines.VirtualEngine(law(kind.law, seed), late=late, seconds_per_task=task)
    with contextlib.suppress(_Reached):
        training.train(
            problem,
            parse_scheme(scheme, WORKERS),
            optimizers.QuasiNewton(problem.initial()),
            engine,
            STEPS,
            [watch],
            evaluate_every=0,
            tolerance=None,
        )
    return watch.times


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="kc_housing", choices=DATA)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first", type=int, default=1000, help="the first seed")
    parser.add_argument("--dear", type=float, default=100.0, help="milliseconds that a dear task takes")
    parser.add_argument(
        "--only", default="", help="part of the names of rows: what grows, and what becomes of late work"
    )
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.seeds)
    ratios: dict[str, float] = {}
    print(f"{given.data}: a task takes {1e6 * task_seconds(given.data):.0f} microseconds; {given.dear:g} ms where dear")
    for kind, late in itertools.product(KINDS, LATE):
        if given.only not in f"{kind.name}, {late}":
            continue
        found = {
            choice: [seconds_to(given.data, kind, late, scheme, seed, 1e-3 * given.dear) for seed in seeds]
            for choice, scheme in CHOICES.items()
        }
        for gap in GAPS:
            times = {choice: sorted(run.get(gap, math.inf) for run in runs) for choice, runs in found.items()}
            middle = {choice: statistics.median(some) for choice, some in times.items()}
            said = "; ".join(
                f"{choice}: {middle[choice]:.3g} ({some[0]:.3g} to {some[-1]:.3g})" for choice, some in times.items()
            )
            print(f"{kind.name}, {late}, seconds to {gap}: {said}", flush=True)
            ratios |= {f"{kind.name}, {late}, to {gap}, seconds: {choice}": middle[choice] for choice in CHOICES}
            ratios[f"{kind.name}, {late}, to {gap}: {USUAL} over {MOST}"] = middle[USUAL] / middle[MOST]
    free = [key for key in ratios if key.startswith(KINDS[0].name) and key.endswith(f" over {MOST}")]
    report("loads", ratios, dict.fromkeys(free, ">= 1"))


if __name__ == "__main__":
    main()
