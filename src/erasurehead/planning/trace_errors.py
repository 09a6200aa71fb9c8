"""How well a trace tells the mean time of a step: the standard error that its own rounds, in their order, speak for."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from scipy import special

from erasurehead._internal.arrays import Array
from erasurehead.delays.base import Delays
from erasurehead.delays.bootstrap import Bootstrap
from erasurehead.planning.simulation import stop_times
from erasurehead.schemes.named import Scheme

_BLOCKS = (2, 4)  # of the trace, that a stretch is made of
_FEWEST = 4  # stretches that a variance is told from
_SURE = 0.975
_RECOMBINED = 800  # rounds that those of a trace are put together anew to


def trace_error(scheme: Scheme, delays: Delays, seconds_per_task: float) -> float | None:
    """Return the standard error of the mean step that a trace leaves, as a part of that mean.

    The trace is gone through once, in its own order. Rounds that are alike for a while make means of stretches of them
    differ more than those of single rounds would let them: the largest of these errors is taken, each widened by
    Student's t, as few stretches know little of their own spread. And one round of all may be of a kind that was not
    seen so far. Where rounds do not remember each other, what workers did in different rounds might have come
    together: such rounds, put together anew, show what is rare, and a step of an unseen kind takes as long as the
    longest that was seen. Where rounds are alike for a while, too few stretches were seen to tell what comes together:
    there it takes as long as waiting for everybody does.

    Arguments:
        scheme: of which a step is simulated, with all workers idle at each order.
        delays: of which nothing is said unless they are drawn from a trace by whole rounds.
        seconds_per_task: computing time of a task.

    Returns:
        None where there is nothing to go by: another kind of delays, fewer than eight rounds, or steps without end.
    """
    if not isinstance(delays, Bootstrap) or delays.keep != "rounds" or scheme.rule.remembers:
        return None
    rounds = len(delays.table)
    if rounds < 2 * _FEWEST:
        return None
    seconds = _in_order(scheme, delays, delays.table, seconds_per_task)
    mean = float(seconds.mean())
    if not math.isfinite(mean) or mean <= 0.0:
        return None
    blocks = _BLOCKS if delays.block > 1 else _BLOCKS[:1]  # what lasts, lasts longer than so short a trace can show
    lengths = {1, *(min(count * delays.block, rounds // _FEWEST) for count in blocks)}
    known = max(_of_stretches(seconds, length) for length in lengths)
    if delays.block == 1:
        known = max(known, _of_what_might_come(scheme, delays, seconds_per_task, lengths))
        longest = float(seconds.max())
    else:
        finite = np.where(np.isfinite(delays.table), delays.table, 0.0)
        longest = float(finite.max(axis=1).mean()) + seconds_per_task * scheme.code.load
    unseen = max(0.0, longest - mean) / max(1.0, delays.effective_rounds)
    return math.hypot(known, unseen) / mean


def _in_order(scheme: Scheme, delays: Bootstrap, table: Array, seconds_per_task: float) -> Array:
    """Return the steps of the rounds of a table, each once."""
    drawn = Bootstrap(table, block=len(table), seed=delays.seed, scale_with_load=delays.scale_with_load)
    return stop_times(scheme.decoder, scheme.rule, drawn, len(table), seconds_per_task)


def _of_what_might_come(scheme: Scheme, delays: Bootstrap, seconds_per_task: float, lengths: Iterable[int]) -> float:
    """Return the largest error of the mean that stretches of rounds speak for that are put together anew.

    Each worker's rounds stay in their order, and begin anywhere (the trace is taken as a circle). 0 where some such
    step has no end: how often that happens is not told by so few.
    """
    rounds, workers = delays.table.shape
    random = np.random.default_rng(delays.seed)
    starts = random.integers(rounds, size=(max(1, _RECOMBINED // rounds), 1, workers))
    anew = delays.table[(np.arange(rounds)[:, None] + starts) % rounds, np.arange(workers)]
    seconds = _in_order(scheme, delays, anew.reshape(-1, workers), seconds_per_task).reshape(len(starts), rounds)
    if not np.isfinite(seconds).all():
        return 0.0
    return max(math.sqrt(float(np.mean([_variance(row, length) for row in seconds]))) for length in lengths)


def _variance(seconds: Array, length: int) -> float:
    """Return the variance of the mean that stretches speak for."""
    count = len(seconds) // length
    means = seconds[: count * length].reshape(count, length).mean(axis=1)
    return float(means.var(ddof=1)) / count


def _of_stretches(seconds: Array, length: int) -> float:
    """Return the error of the mean that stretches speak for, such that 1.96 times it holds as Student's t does."""
    student = float(special.stdtrit(len(seconds) // length - 1, _SURE)) / float(special.ndtri(_SURE))
    return student * math.sqrt(_variance(seconds, length))
