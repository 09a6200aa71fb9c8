"""Whether a run needs workers, or had better train in this process: starting them may take longer than it saves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from time import perf_counter

import numpy as np

from erasurehead.errors import DataError, InvalidArgument
from erasurehead.problems import Problem, ShardedProblem
from erasurehead.runs._config.sections import Config, FaultsSection
from erasurehead.schemes import parse_scheme
from erasurehead.schemes._text import is_adaptive, waits_for_all

START, EACH = 0.4, 0.02
"""Seconds in which the first worker process is ready, and in which each further one is, with its part of the data."""

PASSES = 50
"""Gradients of all samples that training takes, about: tables of numbers take 10 to 100 until they have converged."""


@dataclass(frozen=True)
class Unshared:
    """Why a run trains in its own process.

    Attributes:
        pass_seconds: time in which this process computes the gradient of all samples.
        start_seconds: time in which worker processes would start, by estimate.
        workers: their number; with 1, there is nobody to share the work with.
    """

    pass_seconds: float
    start_seconds: float
    workers: int


def unshared_training(asked: Config, workers: int, problem: Problem) -> Unshared | None:
    """Return why a run trains in this process; None if it starts workers.

    It starts them if the configuration asks for anything that needs them: an engine, several workers, a scheme of
    several workers, a wire, or what to do about faults. Otherwise nobody can be late, and it does so only if that saves
    more time than it takes.

    Arguments:
        asked: the configuration as given, without delays.
        workers: number of workers that would be started.
        problem: the problem. A pass over its samples is measured here, unless they are a folder of shards.
    """
    run, scheme = asked.run, asked.scheme
    several = run.says("workers") and run.workers > 1
    if several or any(map(run.says, ("engine", "preset", "wire"))):
        return None
    if asked.faults != FaultsSection() or isinstance(problem, ShardedProblem):
        return None
    if scheme is not None:
        try:
            parse_scheme(scheme, 1)
        except InvalidArgument:
            return None
        if not (is_adaptive(scheme) or waits_for_all(scheme)):
            return None
    starting = START + EACH * (workers - 1)
    passes = min(PASSES, run.steps or PASSES) * (1.0 - 1.0 / workers)
    taken = pass_seconds(problem)
    return Unshared(taken, starting, workers) if taken is not None and passes * taken <= starting else None


def pass_seconds(problem: Problem) -> float | None:
    """Return the time in which this process computes the gradient of all samples, all of them in memory.

    Of a folder of shards only the first file is read. None if it is out of reach.
    """
    x, taken, part = problem.initial(), np.inf, 1.0
    compute: Callable[[], object] = partial(problem.exact, [x])
    if isinstance(problem, ShardedProblem):
        rows = problem.folder.manifest.tasks[0].rows
        shard, part = problem.shard([slice(0, rows)]), rows / problem.n_samples
        local = shard.take(x)
        compute = partial(shard.combine, local, np.ones(1), 0, np.empty(len(local)))
    for _ in range(2):  # the first one may load machine code, and bring the data into memory
        began = perf_counter()
        try:
            with np.errstate(over="ignore", invalid="ignore"):
                compute()
        except DataError:
            return None
        taken = min(taken, perf_counter() - began)
    return taken / part
