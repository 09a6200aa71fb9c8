"""The synthetic stand-in of KC Housing: houses of hidden quality and location, which price and columns both follow."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.datasets.published.kc_housing import KC_HOUSING
from erasurehead.datasets.published.skew import by_rank, exact_counts, scaled
from erasurehead.datasets.readers.table import Column, NumberColumn, Table


class _Column(NamedTuple):
    """A column of the public file, as its distinct values show it.

    `size` distinct values from `low` on in steps of `step`; the most common comes `top` times in 21,613 rows and is
    the lowest or in the middle; counts fall with `power`; `quality` and `place` are correlations with what is hidden.
    """

    size: int
    top: int
    power: float
    low: float
    step: float
    quality: float
    place: float
    lowest: bool = False


_COLUMNS = {
    "bedrooms": _Column(13, 9824, 3, 0, 1, 0.42, 0),
    "bathrooms": _Column(30, 5380, 3, 0, 0.25, 0.66, 0),
    "sqft_living": _Column(1038, 138, 6, 290, 10, 0.9, 0),
    "sqft_lot": _Column(9782, 358, 0.8, 520, 13, 0.18, -0.12, lowest=True),
    "floors": _Column(6, 10680, 2, 1, 0.5, 0.36, 0, lowest=True),
    "waterfront": _Column(2, 21450, 3, 0, 1, 0.36, 0.12, lowest=True),
    "view": _Column(5, 19489, 3, 0, 1, 0.48, 0.12, lowest=True),
    "condition": _Column(5, 14031, 2, 1, 1, 0.06, 0, lowest=True),
    "grade": _Column(12, 8981, 3, 1, 1, 0.9, 0.12),
    "sqft_above": _Column(946, 212, 5, 290, 10, 0.78, 0),
    "sqft_basement": _Column(306, 13126, 1.2, 0, 10, 0.36, 0, lowest=True),
    "yr_built": _Column(116, 559, 2, 1900, 1, 0.12, -0.36),
    "yr_renovated": _Column(70, 20699, 2, 1946, 1, 0.18, 0, lowest=True),
    "zipcode": _Column(70, 602, 2, 98001, 2, 0, 0.97),
    "lat": _Column(5034, 17, 12, 47.1559, 0.0001, 0, 0.78),
    "long": _Column(752, 116, 3, -122.519, 0.001, 0, 0.36),
    "sqft_living15": _Column(777, 197, 5, 399, 7, 0.72, 0),
    "sqft_lot15": _Column(8689, 427, 0.8, 651, 11, 0.12, -0.12, lowest=True),
}
# log(price) = _LEVEL + _SPREAD * u + _TAIL * u^2 with u standard normal: mean 0.54, deviation 0.37 million as in the
# public file, whose prices have a longer tail than the log-normal law
_LEVEL, _SPREAD, _TAIL = 12.99, 0.5, 0.06


def kc_housing_table(rng: np.random.Generator, n_rows: int) -> Table:
    """Return raw columns of houses.

    With 21,613 rows every column has exactly as many distinct values as in the public file.
    """
    quality, place, rest = (rng.standard_normal(n_rows) for _ in range(3))
    columns: dict[str, Column] = {
        name: NumberColumn(_values(rng, column, quality, place)) for name, column in _COLUMNS.items()
    }
    merit: Array = 0.7 * quality + 0.4 * place + 0.1 * rest
    merit = merit / float(merit.std())
    worth: Array = _LEVEL + merit * (_SPREAD + _TAIL * merit)
    columns["price"] = NumberColumn(np.rint(np.exp(worth)))
    return Table("the synthetic stand-in", columns, n_rows, lambda row: f"the synthetic stand-in, row {row}")


def _values(rng: np.random.Generator, column: _Column, quality: Array, place: Array) -> Array:
    n_rows = len(quality)
    size, top = scaled(column.size, column.top, n_rows, KC_HOUSING.n_rows)
    counts = exact_counts(n_rows, size, top, column.power)
    own = math.sqrt(max(0.0, 1 - column.quality**2 - column.place**2))
    score = column.quality * quality + column.place * place + own * rng.standard_normal(n_rows)
    codes = by_rank(score, counts[_order(rng, size, column.lowest)])
    return np.round(column.low + column.step * codes.astype(np.float64), 6)


def _order(rng: np.random.Generator, size: int, lowest: bool) -> IntArray:
    """Return which of the values, common to rare, stands where: the common ones lowest, or in the middle."""
    rank = np.arange(size)
    place = rank if lowest else np.where(rank % 2, rank, -rank)
    return np.argsort(place + 0.02 * size * rng.standard_normal(size))
