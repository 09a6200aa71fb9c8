"""Workers that are slow not by chance but persistently: found in a trace, and named."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from erasurehead._internal.arrays import Array
from erasurehead.delays._trace import Trace
from erasurehead.errors import check_size, invalid, real

_SURE = 0.01  # probability of naming any worker although all are alike


@dataclass(frozen=True)
class SlowWorker:
    """A worker that is slower than the others in most steps.

    Attributes:
        worker: its number, 0..n_workers-1.
        name: its name in the trace.
        rank: its mean rank within a step, from 0 (always the first to answer) to 1 (always the last).
        factor: its median delay over the median of all others; a lower bound if over half of its samples are censored,
            and inf if the others have no delay in half of the steps.
    """

    worker: int
    name: str
    rank: float
    factor: float


def slow_workers(trace: Trace, at_least: float = 1.1, rounds: int | None = None) -> tuple[SlowWorker, ...]:
    """Return the workers that are persistently slow, the slowest first.

    A worker is named if its mean rank among the workers of a step is higher than chance allows (a normal test of the
    mean of ranks that are drawn from those of its steps, with a probability of 0.01, over all workers together, of
    naming any wrongly), and its median delay exceeds that of the others by the given factor. Ranks within a step are
    not disturbed by steps in which all are slow; workers that were not waited for share the last rank.

    Arguments:
        trace: a trace of at least two workers and two steps, or none can be named.
        at_least: the least factor, at least 1.
        rounds: the most rounds of a worker that count as evidence, where others repeat them; None if none do.
    """
    if not real(at_least) >= 1.0:
        raise invalid("at_least", "must be a number of at least 1", at_least)
    if rounds is not None:
        rounds = check_size("rounds", rounds)
    ranks, variances = _places(trace)
    slow: list[SlowWorker] = []
    for worker, name in enumerate(trace.names):
        own = trace.worker == worker
        if not own.any() or own.all():
            continue
        mean = float(ranks[own].mean())
        spread, count = math.sqrt(float(variances[own].sum())), int(own.sum())
        z = float((ranks[own] - 0.5).sum()) / spread if spread > 0.0 else 0.0
        if rounds is not None:  # repeats of a round are no further evidence
            z *= math.sqrt(min(1.0, rounds / count))
        if special.ndtr(-z) * trace.n_workers > _SURE:
            continue
        usual, longer = float(np.median(trace.seconds[~own])), float(np.median(trace.seconds[own]))
        delayed = longer > 0.0 or bool(np.median(trace.censored[own]) == 1.0)  # censored ones are longer than they say
        factor = longer / usual if usual > 0.0 else math.inf
        if delayed and factor >= at_least:
            slow.append(SlowWorker(worker, name, mean, factor))
    return tuple(sorted(slow, key=lambda item: -item.factor))


def _places(trace: Trace) -> tuple[Array, Array]:
    """Return each sample's rank within its step, and the variance of all ranks there: of few, it exceeds 1/12."""
    keys = np.where(trace.censored, np.inf, trace.seconds)
    places, variances = np.full(len(keys), 0.5), np.zeros(len(keys))
    order = np.argsort(trace.step, kind="stable")
    bounds = np.flatnonzero(np.diff(trace.step[order])) + 1
    for members in np.split(order, bounds):
        if len(members) > 1:
            _, inverse, counts = np.unique(keys[members], return_inverse=True, return_counts=True)
            middle = np.cumsum(counts) - 0.5 * (counts + 1)
            places[members] = middle[inverse] / (len(members) - 1)
            variances[members] = places[members].var()
    return places, variances
