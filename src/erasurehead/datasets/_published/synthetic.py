"""Synthetic stand-ins for the paper's data sets: same shape, sparsity and skew, without files or network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.datasets._base import Dataset
from erasurehead.datasets._published.recipe import Recipe, follow as follow_recipe
from erasurehead.datasets._published.recipes import AMAZON, AREAS, COVERTYPE, KC_HOUSING, QUANTITIES, SOILS
from erasurehead.datasets._published.skew import SkewedColumn, by_rank, exact_counts, follow, stand_in
from erasurehead.datasets._readers.table import Table
from erasurehead.errors import check_choice, check_count

_LEAST_ROWS = 500  # with fewer, columns with dozens of values and both classes do not fit

_staff = partial(SkewedColumn, power=1, low=1, step=1, follows=(0.9999995,))
_STAFF: dict[str, SkewedColumn] = {
    "RESOURCE": _staff(7518, 839, power=0.8),
    "MGR_ID": _staff(4243, 152, power=0.7),
    "ROLE_ROLLUP_1": _staff(128, 21_407),
    "ROLE_ROLLUP_2": _staff(177, 4424),
    "ROLE_DEPTNAME": _staff(449, 1135),
    "ROLE_TITLE": _staff(343, 4649),
    "ROLE_FAMILY_DESC": _staff(2358, 6896),
    "ROLE_FAMILY": _staff(67, 10_980),
}
# In this share of the rows each column goes its own way: so the pairs of columns have about as many distinct values as
# in the public file, whose design matrix has 241,915 columns.
_OUTSIDERS = 0.122

_DENIED = 1897 / 32_769  # share of label 0

# Chosen so that full gradient descent with the published settings learns about as fast and as far as on the public file
_EFFECTS = {"RESOURCE": 1.0, "MGR_ID": 1.4, "ROLE_DEPTNAME": 1.0}
_CHANCE = 0.42
_COMMON = 50  # values that occur more often have milder effects, so that no single one decides how hard the data are

_house = partial(SkewedColumn, jitter=0.02)
_HOUSES: dict[str, SkewedColumn] = {
    "bedrooms": _house(13, 9824, 3, 0, 1, (0.42, 0)),
    "bathrooms": _house(30, 5380, 3, 0, 0.25, (0.66, 0)),
    "sqft_living": _house(1038, 138, 6, 290, 10, (0.9, 0)),
    "sqft_lot": _house(9782, 358, 0.8, 520, 13, (0.18, -0.12), lowest=True),
    "floors": _house(6, 10680, 2, 1, 0.5, (0.36, 0), lowest=True),
    "waterfront": _house(2, 21450, 3, 0, 1, (0.36, 0.12), lowest=True),
    "view": _house(5, 19489, 3, 0, 1, (0.48, 0.12), lowest=True),
    "condition": _house(5, 14031, 2, 1, 1, (0.06, 0), lowest=True),
    "grade": _house(12, 8981, 3, 1, 1, (0.9, 0.12)),
    "sqft_above": _house(946, 212, 5, 290, 10, (0.78, 0)),
    "sqft_basement": _house(306, 13126, 1.2, 0, 10, (0.36, 0), lowest=True),
    "yr_built": _house(116, 559, 2, 1900, 1, (0.12, -0.36)),
    "yr_renovated": _house(70, 20699, 2, 1946, 1, (0.18, 0), lowest=True),
    "zipcode": _house(70, 602, 2, 98001, 2, (0, 0.97)),
    "lat": _house(5034, 17, 12, 47.1559, 0.0001, (0, 0.78)),
    "long": _house(752, 116, 3, -122.519, 0.001, (0, 0.36)),
    "sqft_living15": _house(777, 197, 5, 399, 7, (0.72, 0)),
    "sqft_lot15": _house(8689, 427, 0.8, 651, 11, (0.12, -0.12), lowest=True),
}
# log(price) = _LEVEL + _SPREAD * u + _TAIL * u^2 with u standard normal: mean 0.54, deviation 0.37 million as in the
# public file, whose prices have a longer tail than the log-normal law
_LEVEL, _SPREAD, _TAIL = 12.99, 0.5, 0.06

N_ROWS = 495_141
"""Rows of the two classes in the public file; the synthetic stand-in has no others."""

_SECOND = 283_301 / N_ROWS  # share of class 2

_SOIL_TOP = 0.21  # share of the most common soil
_AREA_SHARES = (0.45, 0.44, 0.06, 0.05)
_FOLLOWS_AREA, _FOLLOWS_SOIL = 0.3, 0.6
_NOISE = 0.35  # of the cover, against a hidden terrain of deviation 1


# The distinct values of the ten columns add up to those of the public file in the rows of the two classes: 15,420 of
# its 15,509 columns, the others being 2 for each binary column and the constant. How the sum is divided among the ten
# is estimated from the whole file.
_QUANTITIES = (
    SkewedColumn(1560, 3000, 4, 2100, 1, (0.8,)),
    SkewedColumn(361, 6000, 2, 0, 1, (0.15,)),
    SkewedColumn(66, 30_000, 4, 0, 1, (0.1,)),
    SkewedColumn(551, 24_000, 2, 0, 1, (0.2,)),
    SkewedColumn(692, 38_000, 2, -170, 1, (0.1,)),
    SkewedColumn(5760, 900, 4, 0, 1, (0.3,)),
    SkewedColumn(207, 12_000, 4, 40, 1, (0.25,)),
    SkewedColumn(170, 14_000, 4, 80, 1, (0.15,)),
    SkewedColumn(255, 9000, 4, 0, 1, (0.1,)),
    SkewedColumn(5798, 700, 4, 0, 1, (0.3,)),
)


def amazon_table(rng: np.random.Generator, n_rows: int) -> Table:
    """Return raw columns of requests by people of a hidden place in an organisation, which the columns follow.

    With 32,769 rows every column has exactly as many distinct values as in the public file, and their pairs about as
    many. Whether access is granted depends on resource, manager, department, and chance.
    """
    place, outside = rng.standard_normal(n_rows), rng.random(n_rows) < _OUTSIDERS
    columns: dict[str, Array] = {}
    for name, column in _STAFF.items():
        own = np.where(outside, rng.standard_normal(n_rows), place)
        columns[name] = column.draw(rng, (own,), AMAZON.n_rows)
    merit = _CHANCE * rng.logistic(size=n_rows)
    for name, weight in _EFFECTS.items():
        uses = np.bincount(columns[name].astype(np.int64))
        effect = (rng.standard_normal(len(uses)) / np.sqrt(1 + uses / _COMMON))[columns[name].astype(np.int64)]
        merit += weight * (effect - effect.mean()) / effect.std()
    denied = round(_DENIED * n_rows)
    granted = by_rank(merit, np.array([denied, n_rows - denied]))
    return stand_in({**columns, "ROLE_CODE": columns["ROLE_TITLE"], "ACTION": granted.astype(np.float64)})


def kc_housing_table(rng: np.random.Generator, n_rows: int) -> Table:
    """Return raw columns of houses of hidden quality and location, which price and columns both follow.

    With 21,613 rows every column has exactly as many distinct values as in the public file.
    """
    quality, place, rest = (rng.standard_normal(n_rows) for _ in range(3))
    columns = {name: column.draw(rng, (quality, place), KC_HOUSING.n_rows) for name, column in _HOUSES.items()}
    merit: Array = 0.7 * quality + 0.4 * place + 0.1 * rest
    merit = merit / float(merit.std())
    worth: Array = _LEVEL + merit * (_SPREAD + _TAIL * merit)
    return stand_in({**columns, "price": np.rint(np.exp(worth))})


def covertype_table(rng: np.random.Generator, n_rows: int) -> Table:
    """Return raw columns of terrain of a hidden kind, which the cover and the columns both follow.

    With 495,141 rows there are as many distinct values in all columns together as in the public file.
    """
    terrain = rng.standard_normal(n_rows)
    columns = {name: column.draw(rng, (terrain,), N_ROWS) for name, column in zip(QUANTITIES, _QUANTITIES, strict=True)}
    areas = np.maximum(1, np.round(n_rows * np.array(_AREA_SHARES))).astype(np.int64)
    areas[0] += n_rows - areas.sum()
    area = by_rank(follow(rng, (terrain,), (_FOLLOWS_AREA,)), areas)
    soils = rng.permutation(exact_counts(n_rows, len(SOILS), round(_SOIL_TOP * n_rows), power=2.0))
    soil = by_rank(follow(rng, (terrain,), (_FOLLOWS_SOIL,)), soils)
    for names, codes in ((AREAS, area), (SOILS, soil)):
        columns |= {name: (codes == place).astype(np.float64) for place, name in enumerate(names)}
    tendency = terrain + _NOISE * rng.standard_normal(n_rows)
    n_second = round(_SECOND * n_rows)
    return stand_in({**columns, "Cover_Type": 1.0 + by_rank(tendency, np.array([n_rows - n_second, n_second]))})


_STAND_INS: dict[str, tuple[Recipe, Callable[[np.random.Generator, int], Table], int]] = {
    "amazon": (AMAZON, amazon_table, AMAZON.n_rows),
    "kc_housing": (KC_HOUSING, kc_housing_table, KC_HOUSING.n_rows),
    "covertype": (COVERTYPE, covertype_table, N_ROWS),
}


def synthetic(name: str, seed: int = 0, rows: int | None = None) -> Dataset:
    """Make the synthetic stand-in for a data set of the paper; it needs neither file nor network, and takes seconds.

    Exact at full size are the shapes of both parts (KC Housing 17,290 and 4,323 x 27,654; Covertype 396,112 and
    99,029 x 15,509; Amazon 26,215 and 6,554 rows, whose columns are within 2 % of 241,915), the entries of each row
    (44, 19, 55), and for Amazon and KC Housing the number of distinct values of each column. Approximate are how common
    the common values are, which columns are related, and how fast and how far the published settings learn.

    Arguments:
        name: `amazon`, `kc_housing` or `covertype`.
        seed: seed of everything that is drawn, at least 0; the same seed gives the same data.
        rows: number of rows before the 80/20 split, at least 500; None for all of them. With fewer there are fewer
            distinct values, roughly in proportion to the root of the number of rows.

    Raises:
        InvalidArgument: if there is no such data set, or rows is out of range.
    """
    check_choice("name", name, _STAND_INS)
    recipe, make, whole = _STAND_INS[name]
    check_count("seed", seed, at_least=0)
    n_rows = whole if rows is None else check_count("rows", rows, _LEAST_ROWS, whole)
    table = make(np.random.default_rng(seed), n_rows)
    source = f"synthetic stand-in of {name}, seed {seed}"
    return replace(follow_recipe(recipe, table, source, (), f"{name}-synthetic", whole), synthetic=True)
