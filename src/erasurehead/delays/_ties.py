"""Messages that arrive at the same moment: their order is drawn from (seed, step), in the same way everywhere.

Without delays, or with delays of few values, many messages tie. If workers with low numbers always came first, a rule
that does not wait for all of them would always leave out the same part of the data.
"""

from __future__ import annotations

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.delays._base import Delays
from erasurehead.delays._draws import draw

_STREAM = 1 << 20  # far from the streams of delay models, so that none draws the same numbers


def precedence(delays: Delays | None, seed: int, first: int, count: int, n_workers: int, unit: int = 0) -> Array:
    """Return the order of messages that arrive simultaneously, shape (count, n_workers).

    Smaller numbers go first. First messages of workers have numbers in [0, 1), second messages in [1, 2), and so on,
    unless the delays are those of a recorded run, whose order is known.

    Arguments:
        delays: delays of the workers; None for none.
        seed: seed of the draw, at least 0.
        first: the first step, from 0.
        count: number of steps.
        n_workers: number of workers.
        unit: 0 for the first message of a step, 1 for the second, and so on.
    """
    recorded = None if delays is None else delays.ranks(first, count, n_workers, unit)
    if recorded is not None:
        return recorded
    return unit + draw("uniform", seed, first, count, n_workers, unit, _STREAM)


def untied(times: Array, before: Array) -> Array:
    """Return arrival times without ties within a row: those that go later are later by the last bits.

    Arguments:
        times: arrival times, at least 0 or inf, shape (rounds, n_messages).
        before: the precedence of each message, of the same shape.

    Returns:
        Shape (rounds, n_messages). The order of messages with different times is kept; inf remains inf.
    """
    order = np.lexsort((before, times), axis=1)
    # Floats of at least 0 are ordered as their bits are: each is made greater than the previous one by one bit.
    bits = np.take_along_axis(times, order, axis=1).view(np.int64)
    ranks = np.arange(times.shape[1], dtype=np.int64)
    bits = np.maximum.accumulate(bits - ranks, axis=1) + ranks
    result = np.empty_like(times)
    np.put_along_axis(result, order, bits.view(np.float64), axis=1)
    result[np.isinf(times)] = np.inf
    return result
