"""Whether a worker costs the same among ten thousand as among thirty: a step of training, divided by its workers.

The scheme is `uncoded`, a step waits for the first half of the workers, and each writes a constant vector of ten
numbers: next to all of the time is the library's. On the virtual engine that is one process. With real processes it
is all that the machine does in a step, and what the coordinator alone does for each arrival is printed beside it.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from common import report
from erasurehead import codes, delays, schemes, training
from erasurehead._internal.arrays import Array
from erasurehead.engines import Engine, ProcessEngine, VirtualEngine
from erasurehead.optimizers import GradientDescent
from erasurehead.problems import Problem, Shard
from erasurehead.training import Callback, StepRow

LENGTH = 10
VIRTUAL = {30: 400, 300: 60, 1_000: 20, 3_000: 8, 10_000: 4}
"""Workers -> steps of a run."""
PROCESSES = {30: 100, 100: 30, 300: 10}
REPETITIONS = 3


@dataclass(eq=False)
class _Constant(Shard):
    """Writes the same ten numbers, whatever the model is."""

    n_tasks: int

    def __post_init__(self) -> None:
        self.support = None
        self.n_samples = self.n_tasks

    def combine(self, local: Array, coefficients: Array, step: int, out: Array) -> float:
        out[:] = 1.0
        return 1.0


class Constant(Problem):
    """A problem of so many samples whose partial gradients are all the same."""

    def __init__(self, n_samples: int) -> None:
        self.n_samples, self.n_parameters, self.l2 = n_samples, LENGTH, 0.0

    def shard(self, tasks: Sequence[slice]) -> Shard:
        return _Constant(len(tasks))

    def loss(self, x: Array) -> float:
        return 1.0

    def gradient(self, x: Array) -> Array:
        return np.ones(LENGTH)

    def metrics(self, x: Array) -> dict[str, float]:
        return {}


@dataclass
class Clock(Callback):
    """When the first step began and each step ended, and what the coordinator's process had computed by then."""

    ends: list[float] = field(default_factory=list[float])
    used: list[float] = field(default_factory=list[float])

    def on_start(self, seconds: float) -> None:
        self._tick()

    def on_step_end(self, row: StepRow, x: Array) -> None:
        self._tick()

    def _tick(self) -> None:
        self.ends.append(time.perf_counter())
        self.used.append(time.process_time())


@dataclass(frozen=True)
class Measured:
    """One run.

    Attributes:
        start: seconds until the first step could begin.
        step: median seconds of a step.
        computed: median seconds that the coordinator's process computed in a step.
    """

    start: float
    step: float
    computed: float


def run(engine: Engine, workers: int, steps: int) -> Measured:
    """Train for so many steps."""
    clock = Clock()
    problem = Constant(workers)
    scheme = schemes.custom(codes.uncoded(workers), f"first({workers // 2})")
    begin = time.perf_counter()
    training.train(problem, scheme, GradientDescent(np.zeros(LENGTH), 1e-3), engine, steps, [clock], evaluate_every=0)
    # The first step loads what it needs.
    lasted, computed = (np.diff(values)[1:] for values in (clock.ends, clock.used))
    return Measured(clock.ends[0] - begin, float(np.median(lasted)), float(np.median(computed)))


def best(make: Callable[[], Engine], workers: int, steps: int) -> Measured:
    """Return the median run by its steps."""
    found = [run(make(), workers, steps) for _ in range(REPETITIONS)]
    return sorted(found, key=lambda one: one.step)[len(found) // 2]


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--virtual-only", action="store_true", help="leave the real processes out")
    options = parser.parse_args()
    ratios: dict[str, float] = {}
    targets: dict[str, str] = {}
    run(VirtualEngine(), 30, 3)
    cost: dict[int, float] = {}
    for workers, steps in VIRTUAL.items():
        found = best(lambda: VirtualEngine(delays.Exponential(mean=0.5, seed=0)), workers, steps)
        cost[workers] = 1e6 * found.step / workers
        print(
            f"virtual, {workers:>6,} workers: start {1e6 * found.start / workers:6.1f} us a worker, "
            f"step {1e3 * found.step:8.2f} ms, {cost[workers]:6.1f} us a worker"
        )
        ratios[f"virtual us a worker at {workers}"] = cost[workers]
        if workers >= 300:
            targets[f"virtual us a worker at {workers}"] = "<= 30"
        ratios[f"virtual start us a worker at {workers}"] = 1e6 * found.start / workers
    ratios["virtual step ms at 30"] = 30 * cost[30] / 1e3
    targets["virtual step ms at 30"] = "<= 1"
    ratios["virtual 10000 over 300"] = cost[10_000] / cost[300]
    targets["virtual 10000 over 300"] = "<= 1.25"
    for workers, steps in {} if options.virtual_only else PROCESSES.items():
        found = best(ProcessEngine, workers, steps)
        arrivals = workers // 2
        print(
            f"processes, {workers:>4,} workers: start {found.start:6.2f} s, step {1e3 * found.step:8.2f} ms, "
            f"{1e6 * found.step / workers:6.1f} us a worker; the coordinator computes "
            f"{1e6 * found.computed / arrivals:6.1f} us an arrival"
        )
        ratios[f"processes us a worker at {workers}"] = 1e6 * found.step / workers
        ratios[f"processes coordinator us an arrival at {workers}"] = 1e6 * found.computed / arrivals
    report("scale", ratios, targets)


if __name__ == "__main__":
    main()
