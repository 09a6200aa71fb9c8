"""Which samples of a task are in a step's mini-batch: drawn from (seed, task, step), so that replicas agree."""

from __future__ import annotations

import zlib

import numpy as np

from erasurehead._internal.arrays import IntArray

_SAMPLES, _NOISE = zlib.crc32(b"mini-batches"), zlib.crc32(b"random numbers in a model")


def draw_batch(seed: int, task: slice, step: int, size: int) -> IntArray:
    """Return a mini-batch: distinct indices of samples, counted from the task's first, ascending.

    Arguments:
        seed: seed of the problem.
        task: the task's range of samples, which identifies it whoever holds it.
        step: number of the optimizer's step.
        size: number of samples; all of them if the task has no more.

    >>> draw_batch(0, slice(10, 20), 3, 4)
    array([0, 1, 3, 8])
    """
    count: int = task.stop - task.start
    if size >= count:
        return np.arange(count)
    chosen: IntArray = np.random.default_rng(_key(seed, _SAMPLES, task, step)).choice(count, size, replace=False)
    chosen.sort()
    return chosen


def noise_seed(seed: int, task: slice, step: int) -> int:
    """Return the seed of the random numbers that a model draws while it computes a task, such as for dropout."""
    return int(_key(seed, _NOISE, task, step).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _key(seed: int, purpose: int, task: slice, step: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(seed, spawn_key=(purpose, task.start, task.stop, step))
