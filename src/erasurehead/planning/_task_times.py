"""Measured times of the gradients of tasks on this machine, used as computing times on the virtual clock."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from threadpoolctl import threadpool_limits  # pyright: ignore[reportMissingTypeStubs]  # ships none

from erasurehead._internal.arrays import Array
from erasurehead._internal.partition import split_samples
from erasurehead.delays import Bootstrap
from erasurehead.errors import check_size
from erasurehead.problems import Problem, _kernels as kernels

_SECONDS = 0.5  # time limit of a measurement
_ROUNDS = (5, 60)  # least and largest number of rounds
_FEW, _BRIEFLY, _MOST = 5, 0.2, 10_000  # for a plan: tasks that are timed, seconds for it, and most measured times


@dataclass(frozen=True, eq=False)
class TaskTimes:
    """Measured times of every task's gradient, computed one after the other in one process.

    They are processor times, so that other programs on this machine do not affect them; otherwise schemes that wait for
    all workers would look many times slower on a busy machine.

    Arguments:
        table: processor seconds, shape (rounds, n_tasks).
    """

    table: Array

    @property
    def typical(self) -> float:
        """The median time, in seconds."""
        return float(np.median(self.table))

    @property
    def fastest(self) -> float:
        """The smallest time, in seconds."""
        return float(self.table.min())

    def jitter(self, seed: int) -> Bootstrap:
        """Return the excess of the measured times over the fastest as a delay model, with one draw per message.

        Where no delays are injected, this jitter alone decides which messages arrive first. Without it, these would
        always be those of the workers with the lowest numbers, and the other workers' samples would never be used.

        Arguments:
            seed: seed of the draws, at least 0.
        """
        return Bootstrap(self.table - self.fastest, keep="pooled", seed=seed)


def measure_tasks(problem: Problem, n_tasks: int) -> TaskTimes:
    """Measure the time of each task's gradient as a worker computes it, with one thread, in several rounds.

    Arguments:
        problem: the problem whose samples are split into tasks.
        n_tasks: number of tasks.

    Returns:
        Processor times of every task in each round.
    """
    kernels.load_with(problem.preload)
    with threadpool_limits(limits=1):
        clocks = [_clock(problem, samples) for samples in split_samples(problem.n_samples, n_tasks)]

        def once() -> list[float]:
            return [clock() for clock in clocks]

        once()  # compiles, and loads the data into memory
        least, most = _ROUNDS
        rounds = [once()]
        while len(rounds) < least or (len(rounds) < most and sum(map(sum, rounds)) < _SECONDS):
            rounds.append(once())
    return TaskTimes(np.array(rounds))


def measure_task(problem: Problem, n_tasks: int) -> float:
    """Measure the time of one task's gradient in less than half a second, as the computing time of a plan.

    A few tasks, spread over all samples, are timed repeatedly, as a worker computes them. The result is their median,
    rounded to one significant digit, so that plans made one after the other assume the same time. If tasks are so large
    that the time does not suffice for several, at least one of them is timed.

    Arguments:
        problem: the problem whose samples are split into tasks.
        n_tasks: number of tasks, at least 1: that of workers, if a task is what an uncoded worker computes.

    Returns:
        Seconds of processor time.
    """
    check_size("n_tasks", n_tasks)
    ranges = split_samples(problem.n_samples, n_tasks)
    chosen = sorted({(n_tasks - 1) * number // (_FEW - 1) for number in range(_FEW)})
    kernels.load_with(problem.preload)
    with threadpool_limits(limits=1):
        clocks: list[Callable[[], float]] = []
        spent, times = 0.0, list[float]()
        for samples in (ranges[place] for place in chosen):
            if times and spent >= _BRIEFLY:
                break
            clocks.append(_clock(problem, samples))
            first = clocks[-1]()  # compiles, and loads the data into memory
            times.append(clocks[-1]())
            spent += times[-1] + (first if len(clocks) > 1 else 0.0)
        while spent < _BRIEFLY and len(times) < _MOST:
            times += [clock() for clock in clocks]
            spent += sum(times[-len(clocks) :])
    return _to_one_digit(float(np.median(times)))


def _clock(problem: Problem, samples: slice) -> Callable[[], float]:
    """Return a function that computes a task's gradient at the initial model, and returns the processor seconds."""
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
