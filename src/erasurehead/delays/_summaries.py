"""Delays in a few figures: how long, how unequal within a step, and which workers are always slow."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from erasurehead._internal.arrays import Array, BoolArray, IntArray
from erasurehead._internal.resources import check_memory
from erasurehead.delays._base import Delays, check_rows
from erasurehead.delays._kaplan_meier import kaplan_meier
from erasurehead.delays._slow_workers import SlowWorker, slow_workers
from erasurehead.delays._trace import Trace
from erasurehead.errors import InvalidArgument, check_size, counted

SHARES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
"""The quantiles that a summary has; 0 is the smallest delay, 1 the longest."""

_ROOM = 100
"""Approximate bytes that a summary needs per delay."""


@dataclass(frozen=True, eq=False)
class Summary:
    """Delays in a few figures.

    Attributes:
        n_workers: number of workers.
        n_steps: number of steps.
        n_samples: number of delays.
        n_censored: number of delays that are known only to be longer.
        mean: mean of the samples, in seconds; NaN if some are censored. For a model, its exact mean if that is known.
        quantiles: seconds by probability, for `SHARES`. With censored samples, by Kaplan and Meier; inf beyond the
            longest wait (in a model: for workers that never answer).
        spread: ratio of the longest delay of a step to its median, shape (n_steps,), NaN for a median of 0. Where some
            are censored, this is a lower bound, which is 1 where the median is not known.
        slow: workers that are slower than the others step after step, the slowest first.
    """

    n_workers: int
    n_steps: int
    n_samples: int
    n_censored: int
    mean: float
    quantiles: Mapping[float, float]
    spread: Array
    slow: tuple[SlowWorker, ...]


def summarize(trace: Trace) -> Summary:
    """Return the summary of a trace.

    Arguments:
        trace: the trace, with its censored samples.
    """
    hidden = trace.censored
    mean = math.nan if hidden.any() else float(trace.seconds.mean())
    quantiles = _quantiles(trace.seconds, hidden)
    spread = _spread(trace.seconds, trace.step, hidden)
    return Summary(
        trace.n_workers,
        trace.n_steps,
        len(trace.seconds),
        int(hidden.sum()),
        mean,
        quantiles,
        spread,
        slow_workers(trace),
    )


def summarize_model(model: Delays, n_workers: int, steps: int = 1000) -> Summary:
    """Return the summary of a delay model's draws for one unit of work, a second apart where it follows the clock.

    Arguments:
        model: how slow the workers are.
        n_workers: number of workers.
        steps: number of steps to draw, at least 1.
    """
    check_size("n_workers", n_workers)
    check_size("steps", steps)
    hint = "look at fewer steps (--steps) or workers (--workers)"
    check_memory(
        f"A table of {counted('step', steps)} of {counted('worker', n_workers)}", _ROOM * steps * n_workers, hint
    )
    try:
        model.check_workers(n_workers)
    except InvalidArgument as error:
        raise error.inside("model", str(model)) from None
    if model.follows_clock:  # whose draws may be a moment apart
        drawn = np.concatenate([model.rows_at(step, float(step), n_workers) for step in range(steps)])
    else:
        drawn = model.rows(0, steps, n_workers)
    table = check_rows(model, drawn, 0, steps, n_workers)
    never = ~np.isfinite(table)
    step, worker = (index.ravel() for index in np.indices(table.shape))
    longest = float(table[~never].max(initial=0.0))
    seconds = np.where(never, longest, table).ravel()
    names = tuple(map(str, range(n_workers)))
    trace = Trace(step, worker, seconds, np.ones(table.size), never.ravel(), names, "the model")
    expected = model.expected  # a mean of draws is far off where few are slow, or the tail is heavy
    mean = math.inf if never.any() else float(table.mean()) if expected is None else expected
    spread = _spread(table.ravel(), step, np.zeros(table.size, dtype=bool))
    slow = slow_workers(trace, rounds=model.rounds_known)
    return Summary(n_workers, steps, table.size, 0, mean, _quantiles(seconds, trace.censored), spread, slow)


def _quantiles(seconds: Array, censored: BoolArray) -> dict[float, float]:
    if censored.all():
        return dict.fromkeys(SHARES, math.inf)
    longer, points = kaplan_meier(seconds, censored)
    places = [int(np.searchsorted(1.0 - longer, share - 1e-9)) for share in SHARES]
    return {
        share: float(points[place]) if place < len(points) else math.inf
        for share, place in zip(SHARES, places, strict=True)
    }


def _spread(seconds: Array, step: IntArray, censored: BoolArray) -> Array:
    order = np.argsort(step, kind="stable")
    bounds = np.flatnonzero(np.diff(step[order])) + 1
    spread: list[float] = []
    for own, hidden in zip(np.split(seconds[order], bounds), np.split(censored[order], bounds), strict=True):
        middle = (len(own) - 1) // 2
        median = float(np.sort(own)[middle])
        if 0.0 < median < math.inf:
            # A censored delay may be any longer one: the median is at most what it is if all of them are endless.
            at_most = float(np.sort(np.where(hidden, math.inf, own))[middle])
            spread.append(max(1.0, float(own.max()) / at_most))
        else:
            spread.append(math.nan)
    return np.array(spread)
