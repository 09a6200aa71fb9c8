"""The synthetic stand-in of Covertype: terrain of a hidden kind, which the cover and the columns both follow."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.datasets.published.covertype import AREAS, QUANTITIES, SOILS
from erasurehead.datasets.published.skew import by_rank, exact_counts, scaled
from erasurehead.datasets.readers.table import Column, NumberColumn, Table

N_ROWS = 495_141
"""Rows of the two classes in the public file; the synthetic stand-in has no others."""

_SECOND = 283_301 / N_ROWS  # share of class 2

_SOIL_TOP = 0.21  # share of the most common soil
_AREA_SHARES = (0.45, 0.44, 0.06, 0.05)
_FOLLOWS_AREA, _FOLLOWS_SOIL = 0.3, 0.6
_NOISE = 0.35  # of the cover, against a hidden terrain of deviation 1


class _Quantity(NamedTuple):
    """A column: `size` distinct values from `low` on, the most common `top` times in all rows, counts falling with
    `power`; `follows` is its correlation with the hidden terrain."""

    size: int
    low: float
    top: int
    power: float
    follows: float


# The distinct values of the ten columns add up to those of the public file in the rows of the two classes: 15,420 of
# its 15,509 columns, the others being 2 for each binary column and the constant. How the sum is divided among the ten
# is estimated from the whole file.
_QUANTITIES = (
    _Quantity(1560, 2100, 3000, 4, 0.8),
    _Quantity(361, 0, 6000, 2, 0.15),
    _Quantity(66, 0, 30_000, 4, 0.1),
    _Quantity(551, 0, 24_000, 2, 0.2),
    _Quantity(692, -170, 38_000, 2, 0.1),
    _Quantity(5760, 0, 900, 4, 0.3),
    _Quantity(207, 40, 12_000, 4, 0.25),
    _Quantity(170, 80, 14_000, 4, 0.15),
    _Quantity(255, 0, 9000, 4, 0.1),
    _Quantity(5798, 0, 700, 4, 0.3),
)


def covertype_table(rng: np.random.Generator, n_rows: int) -> Table:
    """Return raw columns of terrain in rows of the two classes.

    With 495,141 rows there are as many distinct values in all columns together as in the public file.
    """
    terrain = rng.standard_normal(n_rows)
    columns: dict[str, Column] = {}
    for name, quantity in zip(QUANTITIES, _QUANTITIES, strict=True):
        size, top = scaled(quantity.size, quantity.top, n_rows, N_ROWS)
        rank = np.arange(size)
        middle = np.argsort(np.where(rank % 2, rank, -rank))  # common values in the middle, rare ones at the ends
        counts = exact_counts(n_rows, size, top, quantity.power)[middle]
        codes = by_rank(_follow(rng, terrain, quantity.follows), counts)
        columns[name] = NumberColumn(quantity.low + codes.astype(np.float64))
    areas = np.maximum(1, np.round(n_rows * np.array(_AREA_SHARES))).astype(np.int64)
    areas[0] += n_rows - areas.sum()
    columns |= _indicators(AREAS, by_rank(_follow(rng, terrain, _FOLLOWS_AREA), areas))
    soils = rng.permutation(exact_counts(n_rows, len(SOILS), round(_SOIL_TOP * n_rows), power=2.0))
    columns |= _indicators(SOILS, by_rank(_follow(rng, terrain, _FOLLOWS_SOIL), soils))
    tendency = terrain + _NOISE * rng.standard_normal(n_rows)
    second = by_rank(tendency, np.array([n_rows - round(_SECOND * n_rows), round(_SECOND * n_rows)]))
    columns["Cover_Type"] = NumberColumn(1.0 + second.astype(np.float64))
    return Table("the synthetic stand-in", columns, n_rows, lambda row: f"the synthetic stand-in, row {row}")


def _follow(rng: np.random.Generator, hidden: Array, correlation: float) -> Array:
    return correlation * hidden + math.sqrt(1 - correlation**2) * rng.standard_normal(len(hidden))


def _indicators(names: Sequence[str], codes: IntArray) -> dict[str, Column]:
    return {name: NumberColumn((codes == place).astype(np.float64)) for place, name in enumerate(names)}
