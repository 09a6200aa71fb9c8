"""How small a lie can be distinguished from rounding by a code whose checks are powers on the unit circle.

All honest messages together vanish on consecutive Fourier frequencies. What a worker adds shows up there as multiples
of the powers of its point; a lie is proved if no other workers, as many as may lie, could have produced the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import Array, IntArray

MISSED = 1e-11
"""Largest violation of the checks by honest messages in float64, relative to the largest message."""

NUMBERS = 8
"""Random projections of each message that are compared in place of it."""

CHANCE = 0.01
"""Largest probability, over the projections, that lies of the size of `smallest_lie` are not all proved."""


def circle(n: int) -> NDArray[np.complex128]:
    """Return n evenly spaced points on the unit circle, beginning with 1."""
    return np.exp(2j * np.pi * np.arange(n) / n)


def distance(points: NDArray[np.complex128], worker: int, gone: Sequence[int], pretenders: int) -> float:
    """Return a lower bound on the distance of a worker's part in the checks from those of other workers.

    Arguments:
        points: points of the workers on the unit circle, shape (n_workers,).
        worker: the worker.
        gone: other workers that are given.
        pretenders: number of further, arbitrary workers; together with `gone` fewer than there are checks.
    """
    apart: Array = np.abs(points - points[worker])
    others: IntArray = np.setdiff1d(np.arange(len(apart)), [worker, *gone])
    nearest = np.sort(apart[others])[:pretenders]
    product = float(np.prod(apart[list(gone)]) * np.prod(nearest))
    # The norm of a polynomial's coefficients is at most its largest absolute value on the circle: at most 2 for each
    # root.
    return product / 2.0 ** (len(gone) + pretenders) / math.sqrt(len(points))


def smallest_lie(n_workers: int, corrupted: int) -> float:
    """Return how large lies of neighbours must be to be proved in float64, relative to an honest message's norm.

    Neighbours are the hardest to distinguish: their points are the closest. What is compared are random projections.
    All of a lie may be shorter than it by chance, and one of an honest message longer, which counts as larger rounding;
    with a probability of at least `1 - CHANCE` neither is by more than is allowed for here, whatever the lies are.

    Arguments:
        n_workers: number of workers around the circle, each with two real messages.
        corrupted: number of liars, which is half the number of checks.

    >>> smallest_lie(9, 2) < 1e-7, smallest_lie(100, 7) > 1e4
    (True, True)
    """
    normal = NormalDist()
    # Projections are normal. Those of a lie are the shortest by chance if it is all in one of a worker's two messages.
    shorter = normal.inv_cdf((1.0 + (CHANCE / 2 / corrupted) ** (1 / NUMBERS)) / 2)
    longer = normal.inv_cdf(1.0 - CHANCE / 4 / (2 * n_workers * NUMBERS))
    # The hardest case for any of them: other liars and pretenders are the 2 liars - 1 workers nearest to it.
    nearest = distance(circle(n_workers), 0, range(1, corrupted), corrupted)
    return MISSED * math.sqrt(2 * n_workers) * longer / shorter / max(nearest, 1e-300)
