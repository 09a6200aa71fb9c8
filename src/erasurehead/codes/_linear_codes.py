"""Small linear codes, given by generators, for communication-efficient gradient codes."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead._internal.factors import singular_values
from erasurehead.errors import InvalidArgument, invalid

_DRAWS = 20
_SUBSETS = 2_000  # column subsets examined when draws are compared
_LIMIT = 50_000  # column subsets examined when a distance is proved
_RANK = 1e-9  # smallest singular value, relative to the largest, of columns that count as independent


def gaussian_mds(dimension: int, length: int, random: np.random.Generator) -> Array:
    """Return a Gaussian generator, shape (dimension, length): any `dimension` columns are independent.

    Of several draws, the one whose worst such columns are best conditioned is kept.
    """
    if dimension == 1:
        return np.ones((1, length))  # the repetition code: no draw can be better conditioned
    if dimension == length:
        return np.eye(dimension)
    subsets = _some_subsets(length, dimension, random)
    best, best_worst = np.zeros((dimension, length)), 0.0
    for _ in range(_DRAWS):
        generator = random.standard_normal((dimension, length))
        generator /= np.linalg.norm(generator, axis=0)
        squares = generator[:, subsets].transpose(1, 0, 2)
        worst = float(singular_values(squares)[:, -1].min())
        if worst > best_worst:
            best, best_worst = generator, worst
    return best


def parity_check(length: int) -> Array:
    """Return the generator of the single parity check code, shape (length - 1, length): one straggler is tolerated."""
    return np.hstack([np.eye(length - 1), np.ones((length - 1, 1))])


def repetition(length: int) -> Array:
    """Return the generator of the repetition code, shape (1, length)."""
    return np.ones((1, length))


def erasures_tolerated(generator: Array) -> int:
    """Return how many arbitrary columns can be erased without loss of rank: the minimum distance minus one.

    Raises:
        InvalidArgument: if the rank is too small even with all columns, or there are too many subsets to examine.
    """
    dimension, length = generator.shape
    tolerated = -1
    while tolerated < length - dimension:
        kept = length - tolerated - 1
        if math.comb(length, kept) > _LIMIT:
            raise InvalidArgument(
                "generator",
                "must be short enough for its distance to be proved",
                hint=f"its {length} columns have {math.comb(length, kept)} subsets of {kept}, and at most {_LIMIT} are "
                "looked at; use generator='mds', whose distance is known",
            )
        subsets = _all_subsets(length, kept)
        values = singular_values(generator[:, subsets].transpose(1, 0, 2))
        if (values[:, dimension - 1] <= _RANK * values[:, 0]).any():
            break
        tolerated += 1
    if tolerated < 0:
        raise invalid("generator", f"must have rank {dimension}, the number of its rows", "a matrix of smaller rank")
    return tolerated


def _all_subsets(length: int, size: int) -> IntArray:
    return np.array([list(subset) for subset in combinations(range(length), size)], dtype=np.int64)


def _some_subsets(length: int, size: int, random: np.random.Generator) -> IntArray:
    if math.comb(length, size) <= _SUBSETS:
        return _all_subsets(length, size)
    return np.argsort(random.random((_SUBSETS, length)), axis=1)[:, :size]
