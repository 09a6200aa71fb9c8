"""Skewed categories for synthetic data: a few common values and many rare ones, each of which occurs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from erasurehead._internal.arrays import AnyArray, Array, IntArray
from erasurehead.datasets._readers.table import NumberColumn, Table


def zipf(size: int, power: float, shift: float = 0.0) -> Array:
    """Return probabilities proportional to `(k + shift)**-power`, k = 1..size (Zipf and Mandelbrot)."""
    weights = (np.arange(1, size + 1) + shift) ** -power
    return weights / weights.sum()


def exact_counts(total: int, size: int, top: int, power: float) -> IntArray:
    """Return how often each of `size` values occurs: at least once, `total` times in all, the first about `top` times.

    The counts fall as `(k + shift)**-power`, with the shift that gives the wanted `top`.

    Arguments:
        total: total number of occurrences, at least `size`.
        size: number of values.
        top: about how often the most common value occurs; if that is too small to be the most common, all occur
            equally often.
        power: how fast the counts fall.
    """
    low, high = -1 + 1e-9, 1e8  # the share of the first value falls as the shift grows
    for _ in range(100):
        middle = (low + high) / 2 if high < 1 else np.sqrt((low + 1.1) * (high + 1.1)) - 1.1
        low, high = (middle, high) if zipf(size, power, middle)[0] * total > top else (low, middle)
    counts = np.maximum(1, np.round(zipf(size, power, high) * total)).astype(np.int64)
    while (lack := total - int(counts.sum())) != 0:
        change = np.flatnonzero(counts > (1 if lack < 0 else 0))[: abs(lack)]
        counts[change] += 1 if lack > 0 else -1
    return counts


def scaled(size: int, top: int, n_rows: int, full: int) -> tuple[int, int]:
    """Return the number of distinct values, and of occurrences of the most common one, in a part of the rows.

    The number of values falls as the root of the number of rows, and is at most half the number of rows.
    """
    share = n_rows / full
    fewer = size if n_rows == full else min(size, round(size * share**0.5), n_rows // 2)
    return max(2, fewer), max(1, round(top * share))


def by_rank(score: Array, counts: IntArray) -> IntArray:
    """Return a value for each row: the rows of the lowest scores have value 0, and `counts[value]` rows have each."""
    values = np.empty(len(score), dtype=np.int64)
    values[np.argsort(score, kind="stable")] = np.repeat(np.arange(len(counts)), counts)
    return values


class SkewedColumn(NamedTuple):
    """A column of a stand-in, by what the distinct values of the public file's show.

    `size` distinct values from `low` on in steps of `step`; the most common comes `top` times in all rows of the file,
    and is the lowest or in the middle, the others around it, out of order by `jitter`; counts fall with `power`. What
    it `follows` are its correlations with what is hidden.
    """

    size: int
    top: int
    power: float
    low: float
    step: float
    follows: tuple[float, ...]
    lowest: bool = False
    jitter: float = 0.0

    def draw(self, rng: np.random.Generator, hidden: Sequence[Array], full: int) -> Array:
        """Return the column, shape (n_rows,).

        Arguments:
            rng: source of the draws.
            hidden: what the columns follow, each with mean 0 and deviation 1, shape (n_rows,).
            full: number of rows of the public file.
        """
        n_rows = len(hidden[0])
        size, top = scaled(self.size, self.top, n_rows, full)
        score, rank = follow(rng, hidden, self.follows), np.arange(size)
        place: AnyArray = rank if self.lowest else np.where(rank % 2, rank, -rank)
        if self.jitter:
            place = place + self.jitter * size * rng.standard_normal(size)
        codes = by_rank(score, exact_counts(n_rows, size, top, self.power)[np.argsort(place)])
        return np.round(self.low + self.step * codes.astype(np.float64), 6)


def follow(rng: np.random.Generator, hidden: Sequence[Array], correlations: Sequence[float]) -> Array:
    """Draw numbers with given correlations with what is hidden, shape (n_rows,)."""
    own, score = 1.0, np.zeros(len(hidden[0]))
    for values, correlation in zip(hidden, correlations, strict=True):
        own -= correlation**2
        score += correlation * values
    return score + math.sqrt(max(0.0, own)) * rng.standard_normal(len(score))


def stand_in(columns: Mapping[str, AnyArray]) -> Table:
    """Return the table of some columns of a stand-in, shape (n_rows,) each."""
    source, n_rows = "the synthetic stand-in", len(next(iter(columns.values())))
    numbers = {name: NumberColumn(np.asarray(values, dtype=np.float64)) for name, values in columns.items()}
    return Table(source, numbers, n_rows, lambda row: f"{source}, row {row}")
