"""Liars among replicas: what it takes to name them, and what an exact step costs that is safe from them.

Workers whose equal messages differ are questioned (`--verify`). On the virtual clock: one liar, two who tell different
lies, and two who tell the same one, among three replicas of 16 tasks, of which three must agree. Then the mean time of
a step of thirty workers that waits until each task has come from two: of the two that hold it where they are
questioned, or of three where a third is there to vote.

    python benchmarks/liars.py                 ten seconds
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from common import report
from erasurehead import FaultPolicy, codes, optimizers, problems, schemes, training
from erasurehead.delays import parse
from erasurehead.drills import Fault, FaultyEngine
from erasurehead.engines import VirtualEngine

LIES = {"one liar": {1: "shift"}, "two liars": {1: "shift", 2: "flip"}, "two in league": {1: "flip", 2: "flip"}}
LAWS = {
    "machines alike": "shifted_exponential(shift=1, mean=0.05, scale_with_load=True)",
    "exponential by load": "exponential(mean=0.1, scale_with_load=True)",
    "exponential": "exponential(mean=0.1)",
}
WORKERS, STEPS = 30, 2000


def found(lies: dict[int, str]) -> tuple[int, int, int, float]:
    """Return how many rounds of questions, numbers in them, and tasks computed here named the liars; and the error."""
    rng = np.random.default_rng(0)
    problem = problems.LeastSquares(rng.standard_normal((640, 10)), rng.standard_normal(640))
    code = codes.build("fractional_repetition", n_workers=3, load=16, n_tasks=16)
    faults = [Fault("corrupt", 0.0, worker, lie=lie) for worker, lie in lies.items()]

    def run(scheme: schemes.Scheme, schedule: Sequence[Fault]) -> training.Run:
        engine = FaultyEngine(VirtualEngine(), schedule)
        optimizer = optimizers.GradientDescent(problem.initial(), 0.1)
        return training.train(problem, scheme, optimizer, engine, 10, fault_policy=FaultPolicy("leave", verify=True))

    exact = training.train(
        problem, schemes.uncoded(3), optimizers.GradientDescent(problem.initial(), 0.1), VirtualEngine(), 10
    )
    lied = run(schemes.custom(code, "decodable() & confirmed(3)"), faults)
    named = [notice for notice in lied.notices if notice.kind == "lied"]
    assert sorted(notice.worker or 0 for notice in named) == sorted(lies)
    asked = {event.round for row in lied.steps for event in row.events if event.kind == "asked"}
    numbers = sum(row.round in asked for row in lied.arrivals)
    computed = sum(notice.data.get("computed", 0) for notice in named)
    return len(asked), numbers, computed, float(np.abs(lied.x - exact.x).max() / np.abs(exact.x).max())


def mean_step(law: str, load: int) -> float:
    """Return how long an exact step takes on average in which each task has come from two workers."""
    scheme = schemes.custom(codes.fractional_repetition(WORKERS, load=load), "decodable() & confirmed(2)")
    times = parse(law).rows(0, STEPS, WORKERS, work=float(load))
    return float(np.mean(scheme.rule.stop_times(times, scheme.decoder)))


def main() -> None:
    """Print the rows."""
    ratios: dict[str, float] = {}
    for name, lies in LIES.items():
        rounds, numbers, computed, error = found(lies)
        ratios |= {
            f"{name}: rounds of questions": rounds,
            f"{name}: numbers": numbers,
            f"{name}: tasks computed here": computed,
            f"{name}: error of the model": error,
        }
    ratios |= {
        f"{name}: step at load 2 over load 3": mean_step(law, 2) / mean_step(law, 3) for name, law in LAWS.items()
    }
    targets = {
        "one liar: tasks computed here": "<= 1",
        "two liars: tasks computed here": "<= 2",
        "two liars: rounds of questions": "<= 8",
        "two liars: numbers": "<= 16",
        "two in league: tasks computed here": "<= 2",
        "two in league: rounds of questions": "<= 8",
        "two in league: error of the model": "<= 1e-9",
        "one liar: error of the model": "<= 1e-9",
        "two liars: error of the model": "<= 1e-9",
    }
    report("liars", ratios, targets)


if __name__ == "__main__":
    main()
