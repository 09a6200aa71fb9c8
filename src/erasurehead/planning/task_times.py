"""How long the gradients of tasks take on this machine: what computing costs on the virtual clock."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits  # pyright: ignore[reportMissingTypeStubs]  # ships none

from erasurehead._internal.arrays import Array
from erasurehead.delays.bootstrap import Bootstrap
from erasurehead.errors import check_count
from erasurehead.problems import kernels
from erasurehead.problems.base import Problem, split_samples

_SECONDS = 0.5  # that a measurement may take
_ROUNDS = (5, 60)  # at least, at most
_FEW, _BRIEFLY, _MOST = 5, 0.2, 10_000  # tasks that a plan measures, the seconds for it, and times at most


@dataclass(frozen=True, eq=False)
class TaskTimes:
    """Measured times of every task's gradient, one after the other in one process.

    They are processor times: what other programs of this machine take away meanwhile is not part of them, as it would
    make whoever waits for all workers look many times slower on a busy machine.

    Arguments:
        table: seconds, shape (rounds, n_tasks).
    """

    table: Array

    @property
    def typical(self) -> float:
        """The median, in seconds."""
        return float(np.median(self.table))

    @property
    def fastest(self) -> float:
        """The smallest, in seconds."""
        return float(self.table.min())

    def jitter(self, seed: int) -> Bootstrap:
        """Return what was measured beyond the fastest time as a delay model: each message draws one such excess.

        It is all there is where no delays are injected, and decides who is among the first to arrive; without it
        that would always be the workers of the lowest numbers, and the others' samples would never be seen.
        """
        return Bootstrap(self.table - self.fastest, keep="pooled", seed=seed)


def measure_tasks(problem: Problem, n_tasks: int) -> TaskTimes:
    """Time the gradient of each task as a worker computes it, with one thread, several rounds of all tasks.

    Arguments:
        problem: whose samples are cut into tasks.
        n_tasks: how many.
    """
    kernels.load_with(problem.preload)
    with threadpool_limits(limits=1):
        clocks = [_clock(problem, samples) for samples in split_samples(problem.n_samples, n_tasks)]

        def once() -> list[float]:
            return [clock() for clock in clocks]

        once()  # compiles, and brings the data into memory
        least, most = _ROUNDS
        rounds = [once()]
        while len(rounds) < least or (len(rounds) < most and sum(map(sum, rounds)) < _SECONDS):
            rounds.append(once())
    return TaskTimes(np.array(rounds))


def measure_task(problem: Problem, n_tasks: int) -> float:
    """Return what the gradient of one task takes, measured in less than half a second: what a plan goes by.

    A few tasks, spread over all samples, are timed again and again, as a worker computes them; the median counts, to
    one significant digit, so that plans made one after the other are for the same time. Tasks so large that few of them
    can be timed are timed at least once.

    Arguments:
        problem: whose samples are cut into tasks.
        n_tasks: how many: one for each worker, where a task is what an uncoded worker has.

    Returns:
        Seconds of processor time.
    """
    check_count("n_tasks", n_tasks)
    ranges = split_samples(problem.n_samples, n_tasks)
    chosen = sorted({(n_tasks - 1) * number // (_FEW - 1) for number in range(_FEW)})
    kernels.load_with(problem.preload)
    with threadpool_limits(limits=1):
        clocks: list[Callable[[], float]] = []
        spent, found = 0.0, list[float]()
        for samples in (ranges[place] for place in chosen):
            if found and spent >= _BRIEFLY:
                break
            clocks.append(_clock(problem, samples))
            first = clocks[-1]()  # compiles, and brings the data into memory
            found.append(clocks[-1]())
            spent += found[-1] + (first if len(clocks) > 1 else 0.0)
        while spent < _BRIEFLY and len(found) < _MOST:
            found += [clock() for clock in clocks]
            spent += sum(found[-len(clocks) :])
    return _to_one_digit(float(np.median(found)))


def _clock(problem: Problem, samples: slice) -> Callable[[], float]:
    """Return what computes a task's gradient at the problem's first model, and returns what that took."""
    shard = problem.shard([samples])
    model = shard.take(problem.initial())
    room, one = np.empty(len(model)), np.ones(1)

    def timed() -> float:
        begin = time.process_time()
        shard.combine(model, one, 0, room)
        return time.process_time() - begin

    return timed


def _to_one_digit(seconds: float) -> float:
    """Return a time to one significant digit.

    >>> _to_one_digit(3.4e-05), _to_one_digit(0.0)
    (3e-05, 0.0)
    """
    return float(f"{seconds:.1g}") if math.isfinite(seconds) else seconds
