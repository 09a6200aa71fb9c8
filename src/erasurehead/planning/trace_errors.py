"""How well a trace tells the mean time of a step: the standard error that its own rounds, in their order, speak for."""

from __future__ import annotations

import math

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


def trace_error(scheme: Scheme, delays: Delays, seconds_per_task: float) -> float | None:
    """Return the standard error of the mean step that a trace leaves, as a part of that mean.

    The trace is gone through once, in its own order. Rounds that are alike for a while make means of stretches of them
    differ more than those of single rounds would let them: the largest of these errors is taken, each widened by
    Student's t, as few stretches know little of their own spread. And one round of all may be of a kind that was not
    seen so far, in which a step takes as long as waiting for everybody does.

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
    in_order = Bootstrap(delays.table, block=rounds, seed=delays.seed, scale_with_load=delays.scale_with_load)
    seconds = stop_times(scheme.decoder, scheme.rule, in_order, rounds, seconds_per_task)
    mean = float(seconds.mean())
    if not math.isfinite(mean) or mean <= 0.0:
        return None
    blocks = _BLOCKS if delays.block > 1 else _BLOCKS[:1]  # what lasts, lasts longer than so short a trace can show
    lengths = {1, *(min(count * delays.block, rounds // _FEWEST) for count in blocks)}
    known = max(_of_stretches(seconds, length) for length in lengths)
    finite = np.where(np.isfinite(delays.table), delays.table, 0.0)
    everybody = float(finite.max(axis=1).mean()) + seconds_per_task * scheme.code.load
    unseen = max(0.0, everybody - mean) / max(1.0, delays.effective_rounds)
    return math.hypot(known, unseen) / mean


def _of_stretches(seconds: Array, length: int) -> float:
    """Return the error of the mean that stretches speak for, such that 1.96 times it holds as Student's t does."""
    count = len(seconds) // length
    means = seconds[: count * length].reshape(count, length).mean(axis=1)
    student = float(special.stdtrit(count - 1, _SURE)) / float(special.ndtri(_SURE))
    return student * float(means.std(ddof=1)) / math.sqrt(count)
