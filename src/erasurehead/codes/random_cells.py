"""Random subsets of the cells of a huge 0/1 matrix, in memory proportional to what is chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from erasurehead.arrays import Array, IntArray
from erasurehead.codes.assemble import from_rows
from erasurehead.errors import invalid

if TYPE_CHECKING:
    from erasurehead.arrays import SparseMatrix

_DENSE = 0.25  # above this probability one random number a cell is as cheap as drawing distinct cells


def check_probability(argument: str, value: float, positive: bool = False) -> float:
    """Return a probability as a float, or raise if it is not one."""
    if not (0 <= value <= 1) or (positive and value == 0):
        raise invalid(argument, f"must be a probability in {'(0, 1]' if positive else '[0, 1]'}", value)
    return float(value)


def bernoulli_cells(n_cells: int, probability: float, random: np.random.Generator) -> IntArray:
    """Return the cells of 0..n_cells-1 that an independent coin of the given probability chooses, ascending."""
    if probability > _DENSE:
        return np.flatnonzero(random.random(n_cells) < probability)
    return distinct(n_cells, int(random.binomial(n_cells, probability)), random)


def distinct(n_cells: int, count: int, random: np.random.Generator) -> IntArray:
    """Return `count` distinct cells of 0..n_cells-1, every subset equally likely, ascending."""
    if count > n_cells / 2:
        chosen = np.ones(n_cells, dtype=bool)
        chosen[distinct(n_cells, n_cells - count, random)] = False
        return np.flatnonzero(chosen)
    cells = np.zeros(0, dtype=np.int64)
    while len(cells) < count:  # what is missing is drawn anew, so that no draw is ever dropped for its value
        cells = _union(cells, random.integers(0, n_cells, count - len(cells)))
    return cells


def fill_empty(cells: IntArray, n_rows: int, n_columns: int, random: np.random.Generator) -> IntArray:
    """Return the cells with one random cell more in every empty row, then in every empty column; sorted."""
    idle = np.flatnonzero(np.bincount(cells // n_columns, minlength=n_rows) == 0)
    cells = _union(cells, idle * n_columns + random.integers(0, n_columns, len(idle)))
    lost = np.flatnonzero(np.bincount(cells % n_columns, minlength=n_columns) == 0)
    return _union(cells, random.integers(0, n_rows, len(lost)) * n_columns + lost)


def matrix_of(cells: IntArray, n_rows: int, n_columns: int, values: Array | None = None) -> SparseMatrix:
    """Return the matrix with values, or ones, in the given cells (row * n_columns + column, ascending)."""
    sizes = np.bincount(cells // n_columns, minlength=n_rows).astype(np.int64)
    return from_rows(cells % n_columns, sizes, n_columns, values)


def _union(one: IntArray, other: IntArray) -> IntArray:
    # numpy's union1d hashes, which takes ten times as long as sorting here.
    cells = np.sort(np.concatenate([one, other]))
    kept = np.ones(len(cells), dtype=bool)
    kept[1:] = cells[1:] != cells[:-1]
    return cells[kept]
