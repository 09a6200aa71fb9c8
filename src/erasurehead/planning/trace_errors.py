"""The standard error of the mean step time that is estimated from a trace, from the rounds of the trace in order."""

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

_BLOCKS = (2, 4)  # blocks of the trace in a stretch
_FEWEST = 4  # least number of stretches to estimate a variance from
_SURE = 0.975
_RECOMBINED = 800  # approximate number of rounds made by recombining those of a trace


def trace_error(scheme: Scheme, delays: Delays, seconds_per_task: float) -> float | None:
    """Return the relative standard error of the mean step time that is due to the limited length of a trace.

    The rounds of the trace are simulated once, in order. If successive rounds are correlated, the means of stretches of
    rounds vary more than independent rounds would. The error is estimated from stretches of several lengths, each
    widened by Student's t, as their number is small, and the largest of these errors is taken.

    A further term stands for a kind of round that the trace does not contain, which is expected to occur once in as
    many rounds as the trace has. If rounds are independent, what workers did in different rounds could have coincided:
    recombined rounds show such rare coincidences, and a step of an unseen kind is taken to be as long as the longest
    one seen. If rounds are correlated, there are too few stretches to recombine, and a step of an unseen kind is taken
    to be as long as waiting for all workers takes.

    Arguments:
        scheme: the scheme whose steps are simulated, with all workers idle at each order.
        delays: the delays; only those drawn from a trace by whole rounds have such an error.
        seconds_per_task: computing time of a task.

    Returns:
        The standard error divided by the mean; None if it cannot be estimated: for another kind of delays, fewer than
        eight rounds, or steps that never end.
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
    blocks = _BLOCKS if delays.block > 1 else _BLOCKS[:1]  # correlations may last longer than the estimated block
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
    """Return the step times of the rounds of a table, each used once, in order."""
    drawn = Bootstrap(table, block=len(table), seed=delays.seed, scale_with_load=delays.scale_with_load)
    return stop_times(scheme.decoder, scheme.rule, drawn, len(table), seconds_per_task)


def _of_what_might_come(scheme: Scheme, delays: Bootstrap, seconds_per_task: float, lengths: Iterable[int]) -> float:
    """Return the largest error of the mean, estimated from stretches of recombined rounds.

    Each worker's rounds stay in order, but begin at a random one (cyclically). 0 if some recombined step never ends, as
    so few rounds do not show how often that happens.
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
    """Return the variance of the mean, estimated from stretches of `length` steps."""
    count = len(seconds) // length
    means = seconds[: count * length].reshape(count, length).mean(axis=1)
    return float(means.var(ddof=1)) / count


def _of_stretches(seconds: Array, length: int) -> float:
    """Return the error of the mean, estimated from stretches, scaled so that 1.96 times it is Student's 95% bound."""
    student = float(special.stdtrit(len(seconds) // length - 1, _SURE)) / float(special.ndtri(_SURE))
    return student * math.sqrt(_variance(seconds, length))
