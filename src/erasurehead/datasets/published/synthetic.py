"""Synthetic stand-ins for the paper's data sets: same shape, sparsity and skew, without files or network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from erasurehead.datasets.base import Dataset
from erasurehead.datasets.published.amazon import AMAZON
from erasurehead.datasets.published.covertype import COVERTYPE
from erasurehead.datasets.published.kc_housing import KC_HOUSING
from erasurehead.datasets.published.recipe import Recipe, follow
from erasurehead.datasets.published.synthetic_amazon import amazon_table
from erasurehead.datasets.published.synthetic_covertype import N_ROWS, covertype_table
from erasurehead.datasets.published.synthetic_kc_housing import kc_housing_table
from erasurehead.datasets.readers.table import Table
from erasurehead.errors import check_count, invalid

_LEAST_ROWS = 500  # with fewer, columns with dozens of values and both classes do not fit


class _Synthetic(NamedTuple):
    recipe: Recipe
    table: Callable[[np.random.Generator, int], Table]
    n_rows: int


_STAND_INS = {
    "amazon": _Synthetic(AMAZON, amazon_table, AMAZON.n_rows),
    "kc_housing": _Synthetic(KC_HOUSING, kc_housing_table, KC_HOUSING.n_rows),
    "covertype": _Synthetic(COVERTYPE, covertype_table, N_ROWS),
}


def synthetic(name: str, seed: int = 0, rows: int | None = None) -> Dataset:
    """Make the synthetic stand-in for a data set of the paper; it needs neither file nor network, and takes seconds.

    Exact at full size are the shapes of both parts (Amazon 26,215 and 6,554 x 241,915; KC Housing 17,290 and
    4,323 x 27,654; Covertype 396,112 and 99,029 x 15,509), the entries of each row (44, 19, 55), and for Amazon and
    KC Housing the number of distinct values of each column. Approximate are how common the common values are, which
    columns are related (the distinct pairs of Amazon's columns), and how fast and how far the published settings learn.

    Arguments:
        name: `amazon`, `kc_housing` or `covertype`.
        seed: seed of everything that is drawn, at least 0; the same seed gives the same data.
        rows: number of rows before the 80/20 split, at least 500; None for all of them. With fewer there are fewer
            distinct values, roughly in proportion to the root of the number of rows.

    Raises:
        InvalidArgument: if there is no such data set, or rows is out of range.
    """
    if name not in _STAND_INS:
        raise invalid("name", f"must be one of {', '.join(_STAND_INS)}", name)
    found = _STAND_INS[name]
    check_count("seed", seed, at_least=0)
    n_rows = found.n_rows if rows is None else check_count("rows", rows, _LEAST_ROWS, found.n_rows)
    table = found.table(np.random.default_rng(seed), n_rows)
    source = f"synthetic stand-in of {name}, seed {seed}"
    return replace(follow(found.recipe, table, source, (), f"{name}-synthetic", found.n_rows), synthetic=True)
