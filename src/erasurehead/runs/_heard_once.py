"""The physical limit of a comparison: how soon enough of the data can have been heard once."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.partition import split_samples
from erasurehead.codes import GradientCode
from erasurehead.delays import Delays
from erasurehead.optimizers._scaling import penalty_curvature
from erasurehead.planning._arrivals import ArrivalTimes
from erasurehead.problems import Problem
from erasurehead.reports._descents import GAPS
from erasurehead.runs._experiment import Experiment
from erasurehead.training._programs import own_model

_NEWTON = {"steps": 8, "iterations": 30}  # that lead to the minimum of some tasks
_MOST_ROUNDS, _MOST_NUMBERS = 1000, 2**22  # of first messages that are drawn; how many of these in all


@dataclass(frozen=True)
class HeardOnce:
    """How soon a gap can be reached at the earliest.

    Attributes:
        share: the least fraction of the data, in whole tasks, whose own minimum has no greater gap.
        seconds: when messages about so much of the data have come, in the mean, where that is soonest.
        scheme: which scheme that is.
    """

    share: float
    seconds: float
    scheme: str


def heard_once(
    experiments: Mapping[str, Experiment], least: float, pass_seconds: float, limit: float
) -> dict[float, HeardOnce]:
    """Return the limit of each gap, as far as it can be found.

    Arguments:
        experiments: what is compared, by the names of the schemes.
        least: the least objective.
        pass_seconds: how long a worker would compute for a pass over the data.
        limit: processor seconds after which no further minimum is sought.
    """
    first, found = next(iter(experiments.values())), dict[float, HeardOnce]()
    for gap, share in shares(first.problem, first.first_model(), least, first.scheme.code.n_tasks, limit):
        times = [(soonest(one.scheme.code, one.delays, share, pass_seconds), name) for name, one in experiments.items()]
        seconds, scheme = min(times)
        if math.isfinite(seconds):
            found[gap] = HeardOnce(share, seconds, scheme)
    return found


def shares(problem: Problem, x: Array, least: float, n_tasks: int, limit: float) -> Iterator[tuple[float, float]]:
    """Yield gaps, and the least fraction of the tasks whose own minimum has no greater one; end when time is up.

    It is found by halving; which tasks come first is drawn once. What the search misses of the least objective with all
    tasks, it may miss with fewer: a gap is left out where that would explain why fewer tasks are not enough.

    Arguments:
        problem: what is minimised.
        x: the first model.
        least, n_tasks, limit: as for `heard_once`.
    """
    if not (problem.newton and problem.convex) or problem.regularizer.sharp:
        return
    ranges, order = split_samples(problem.n_samples, n_tasks), random.Random(0).sample(range(n_tasks), n_tasks)
    damping = float(penalty_curvature(problem.regularizer, problem.n_parameters).mean())
    span, ends, known, low = problem.objective(x) - least, time.process_time() + limit, {n_tasks: 0.0}, 1
    missed = (_objective(problem, x, list(ranges), damping) - least) / span
    if not missed <= max(GAPS):
        return
    for gap in GAPS:
        high = n_tasks
        while low < high:
            middle = (low + high) // 2
            if middle not in known:
                if time.process_time() > ends:
                    return
                rows = [ranges[task] for task in sorted(order[:middle])]
                known[middle] = (_objective(problem, x, rows, damping) - least) / span
            low, high = (low, middle) if known[middle] <= gap else (middle + 1, high)
        if low == 1 or known[low - 1] - missed > gap:
            yield gap, low / n_tasks


def _objective(problem: Problem, x: Array, rows: list[slice], damping: float) -> float:
    """Return the objective at the model that is best for some tasks alone, as Newton steps from a first one find it."""
    shard, share = problem.shard(rows), sum(map(problem.weight, rows)) / problem.n_samples
    whole = np.array(x, dtype=np.float64)
    asked = {**_NEWTON, "damping": damping, "share": share}
    local = own_model(shard, shard.take(whole), np.ones(len(rows)), asked)
    whole[slice(None) if shard.support is None else shard.support] = local
    return problem.objective(whole)


def soonest(code: GradientCode, delays: Delays, share: float, pass_seconds: float) -> float:
    """Return when messages about so much of the data have come, in the mean, of workers that are idle at first.

    Arguments:
        code: who computes what.
        delays: how slow the workers are.
        share: a fraction of the tasks.
        pass_seconds: how long a worker would compute for all tasks.
    """
    count = max(1, min(_MOST_ROUNDS, _MOST_NUMBERS // code.n_messages))
    times = ArrivalTimes(code, delays, pass_seconds / code.n_tasks).block(0, count)
    heard = np.full((code.n_tasks, count), np.inf)
    for message in range(code.n_messages):
        for task in code.tasks_of_message(message).tolist():
            np.minimum(heard[task], times[:, message], out=heard[task])
    return float(np.sort(heard, axis=0)[math.ceil(share * code.n_tasks - 1e-9) - 1].mean())
