"""Who computes what, and in which order: time of a step where some workers are slow, beside what could be least.

Twelve workers, two of which are five times slower on average: the same ones for about 100 steps, for about ten, others
in each step, or nobody. A worker's share takes 1 s, and to begin with an order takes it an exponential time of mean 0.1
s. The steps are exact, of the real loop on the virtual clock; printed are means of seconds a step, the median over the
seeds. Then the same on real processes, in which a task is a sleep. Below, shares by speed: given, and found by a run.

    python benchmarks/orders.py                  five seeds, about a minute
    python benchmarks/orders.py --seeds 1 --steps 100 --real 0
"""

from __future__ import annotations

import argparse
import statistics
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from common import report
from erasurehead import engines, optimizers, training
from erasurehead._internal.arrays import Array
from erasurehead.delays import Delays
from erasurehead.problems import LeastSquares
from erasurehead.schemes import parse_scheme

WORKERS, LOAD, PIECES, SLOWER, BEGIN = 12, 3, 6, 5.0, 0.1
LAWS = {
    "persistent": (0.002, 0.01),  # a worker turns slow, and usual again
    "ten steps": (0.02, 0.1),
    "memoryless": (1 / 6, 5 / 6),
    "nobody": (0.0, 1.0),
}
WANTED = {"persistent": 1.8, "ten steps": 1.9, "memoryless": 2.1, "nobody": 1.35}
SCHEMES = {
    "uncoded": "uncoded()",
    "repetition": f"exact(load={LOAD})",
    "a message per task": f"custom(code='multi_message(load={LOAD * PIECES}, n_tasks={WORKERS * PIECES})', "
    "wait='decodable()')",
    "computed once": f"compute_once(load={LOAD}, pieces={PIECES})",
}


@dataclass(frozen=True)
class Slowness(Delays):
    """Time that grows with the work, on machines some of which are slow for a while, and a start of its own.

    Arguments:
        enter, leave: probability of turning slow, and usual again, from one step to the next.
        task: seconds of a task on a usual machine.
        begin: mean seconds before a worker begins with an order.
        seed: of all draws.
        speeds: of the machines; all alike if empty.
    """

    enter: float
    leave: float
    task: float
    begin: float = BEGIN
    seed: int = 0
    speeds: tuple[float, ...] = ()

    def rows(
        self,
        first: int,
        count: int,
        n_workers: int,
        unit: int = 0,
        work: float | Array = 1.0,
        out: Array | None = None,
    ) -> Array:
        drawn = np.empty((count, n_workers)) if out is None else out
        drawn[:] = self.task * work * _factors(self, first + count, n_workers)[0][first:]
        if self.speeds:
            drawn /= np.array(self.speeds)
        if unit == 0:
            drawn += _factors(self, first + count, n_workers)[1][first:]
        return drawn

    def __str__(self) -> str:
        return f"slowness({self.enter}, {self.leave}, {self.task}, {self.begin}, {self.seed})"


MOST = 2000  # steps drawn at once


@lru_cache(maxsize=64)
def _drawn(law: Slowness, n_workers: int) -> tuple[Array, Array]:
    rng = np.random.default_rng((law.seed, n_workers))
    slow = rng.random(n_workers) < law.enter / (law.enter + law.leave)
    factors = np.empty((MOST, n_workers))
    for row in factors:
        slow = np.where(slow, rng.random(n_workers) >= law.leave, rng.random(n_workers) < law.enter)
        row[:] = np.where(slow, SLOWER, 1.0)
    return factors, rng.exponential(law.begin, (MOST, n_workers)) if law.begin else np.zeros((MOST, n_workers))


def _factors(law: Slowness, steps: int, n_workers: int) -> tuple[Array, Array]:
    factors, begins = _drawn(law, n_workers)
    return factors[:steps], begins[:steps]


def problem_of(n_samples: int) -> LeastSquares:
    """Return a small problem: what is timed is waiting."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_samples, 4))
    return LeastSquares(X, X @ rng.standard_normal(4), l2=1.0)


def seconds_a_step(scheme: str, delays: Slowness, steps: int, workers: int = WORKERS, skip: int = 0) -> float:
    """Return the mean seconds of the steps of a run on the virtual clock."""
    made = parse_scheme(scheme, workers)
    problem = problem_of(4 * made.code.n_tasks)
    law = Slowness(delays.enter, delays.leave, workers / made.code.n_tasks, delays.begin, delays.seed, delays.speeds)
    run = training.train(
        problem,
        made,
        optimizers.GradientDescent(problem.initial(), 1e-3),
        engines.VirtualEngine(law),
        steps,
        evaluate_every=0,
        tolerance=None,
    )
    return statistics.fmean(row.waited for row in run.steps[skip:])


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--real", type=int, default=60, help="steps on real processes; 0 for none")
    given = parser.parse_args()
    seeds = range(given.first, given.first + given.seeds)
    ratios: dict[str, float] = {}
    targets: dict[str, str] = {}
    for law, (enter, leave) in LAWS.items():
        for name, scheme in SCHEMES.items():
            each = [seconds_a_step(scheme, Slowness(enter, leave, 0.0, seed=seed), given.steps) for seed in seeds]
            ratios[f"{law}: {name}"] = statistics.median(each)
        targets[f"{law}: computed once"] = f"<= {WANTED[law]}"
    report("orders", ratios, targets)


if __name__ == "__main__":
    main()
