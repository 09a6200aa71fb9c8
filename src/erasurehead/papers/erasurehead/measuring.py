"""How long the gradients of tasks take on this machine: what computing costs on the virtual clock."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.delays.bootstrap import Bootstrap
from erasurehead.problems.base import Problem, split_samples

_SECONDS = 0.5  # that a measurement may take
_ROUNDS = (5, 60)  # at least, at most


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
    """Time the gradient of each task as a worker computes it, several rounds of all tasks."""
    shards = [problem.shard([samples]) for samples in split_samples(problem.n_samples, n_tasks)]
    x = problem.initial()
    models = [x if shard.support is None else x[shard.support] for shard in shards]
    rooms = [np.empty(len(model)) for model in models]
    one = np.ones(1)

    def once() -> list[float]:
        spent: list[float] = []
        for shard, model, room in zip(shards, models, rooms, strict=True):
            begin = time.thread_time()
            shard.combine(model, one, 0, room)
            spent.append(time.thread_time() - begin)
        return spent

    once()  # compiles, and brings the data into memory
    least, most = _ROUNDS
    rounds = [once()]
    while len(rounds) < least or (len(rounds) < most and sum(map(sum, rounds)) < _SECONDS):
        rounds.append(once())
    return TaskTimes(np.array(rounds))
