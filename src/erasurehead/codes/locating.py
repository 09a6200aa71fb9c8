"""How small a lie can be told from rounding by a code whose checks are powers on the unit circle.

All honest messages together vanish on neighbouring Fourier frequencies. What a worker has added shows there as
multiples of its point's powers; a lie is proved where no others, as many as may lie, could have made the same.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import Array, IntArray

MISSED = 1e-11
"""By how much honest messages in float64 may miss the checks, over the largest message."""


def circle(n: int) -> NDArray[np.complex128]:
    """Return n points evenly around the unit circle, from 1 on."""
    return np.exp(2j * np.pi * np.arange(n) / n)


def distance(points: NDArray[np.complex128], worker: int, gone: Sequence[int], pretenders: int) -> float:
    """Return a lower bound of how far a worker's part in the checks is from those of others.

    Arguments:
        points: of the workers on the unit circle, shape (n_workers,).
        worker: whose part.
        gone: others that are given.
        pretenders: so many more, whoever they are; together with `gone` fewer than there are checks.
    """
    apart: Array = np.abs(points - points[worker])
    others: IntArray = np.setdiff1d(np.arange(len(apart)), [worker, *gone])
    nearest = np.sort(apart[others])[:pretenders]
    product = float(np.prod(apart[list(gone)]) * np.prod(nearest))
    # The length of a polynomial's coefficients is at most its largest size on the circle: at most 2 for each root.
    return product / 2.0 ** (len(gone) + pretenders) / math.sqrt(len(points))


def smallest_lie(n_workers: int, corrupted: int) -> float:
    """Return how large lies of neighbours must be to be proved in float64, in lengths of an honest message.

    Neighbours are the hardest to tell from each other: their points are the closest.

    Arguments:
        n_workers: around the circle, each with two real messages.
        corrupted: how many lie, which is half of the checks.

    >>> smallest_lie(9, 2) < 1e-8, smallest_lie(100, 7) > 1e4
    (True, True)
    """
    # Whichever of them is looked at: with those that may pretend, they are the 2 liars - 1 workers nearest to it.
    nearest = distance(circle(n_workers), 0, range(1, corrupted), corrupted)
    return MISSED * math.sqrt(2 * n_workers) / max(nearest, 1e-300)
