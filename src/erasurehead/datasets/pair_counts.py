"""Bringing the number of distinct pairs of values, over several pairs of columns, to an exact total."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from erasurehead.arrays import IntArray
from erasurehead.datasets.skew import repeated


def count_pairs(codes: Mapping[str, IntArray], pairs: Sequence[tuple[str, str]]) -> int:
    """Return the number of distinct pairs of values, added up over pairs of columns."""
    return sum(len(np.unique(_keys(codes[first], codes[second]))) for first, second in pairs)


def reach_total(
    rng: np.random.Generator, codes: Mapping[str, IntArray], changed: str, grouped: str,
    pairs: Sequence[tuple[str, str]], total: int,
) -> None:  # fmt: skip
    """Change values of one column, in place, until the pairs have exactly the wanted number of distinct values.

    A row is given a value drawn from all rows, which tends to make new pairs, or from the rows of the same group,
    which tends to make fewer. A change is kept if it brings the total nearer. No value of the column gets lost.

    Arguments:
        rng: source of the draws.
        codes: columns of whole numbers from 0, shape (n_rows,) each.
        changed: the column whose values change.
        grouped: the column whose values group the rows.
        pairs: the pairs of columns.
        total: the wanted number.
    """
    others = [codes[first if second == changed else second] for first, second in pairs if changed in (first, second)]
    column = _Column(codes[changed], others)
    members = np.argsort(codes[grouped], kind="stable")
    begin = np.searchsorted(codes[grouped][members], codes[grouped])
    size = np.bincount(codes[grouped])[codes[grouped]]
    lack = total - count_pairs(codes, pairs)
    while lack:
        for row in repeated(rng, column.values):
            donor = rng.integers(len(column.values)) if lack > 0 else members[begin[row] + rng.integers(size[row])]
            new = int(column.values[donor])
            gain = column.gain(row, new)
            if abs(lack - gain) < abs(lack):
                column.change(row, new)
                lack -= gain
            if not lack:
                return


class _Column:
    """A column whose values change one by one, and how often each of its pairs with other columns comes."""

    def __init__(self, values: IntArray, others: Sequence[IntArray]) -> None:
        self.values = values
        self._others = others
        self._counts = [Counter(zip(values.tolist(), other.tolist(), strict=True)) for other in others]
        self._uses = np.bincount(values)

    def gain(self, row: int, new: int) -> int:
        """Return by how much the number of distinct pairs would rise; 0 also if the old value would get lost."""
        old = int(self.values[row])
        if new == old or self._uses[old] == 1:
            return 0
        beside = [int(other[row]) for other in self._others]
        return sum((count[new, value] == 0) - (count[old, value] == 1)
                   for count, value in zip(self._counts, beside, strict=True))  # fmt: skip

    def change(self, row: int, new: int) -> None:
        """Give a row another value."""
        old = int(self.values[row])
        for count, other in zip(self._counts, self._others, strict=True):
            count[new, int(other[row])] += 1
            count[old, int(other[row])] -= 1
        self.values[row] = new
        self._uses[new] += 1
        self._uses[old] -= 1


def _keys(first: IntArray, second: IntArray) -> IntArray:
    return first * (int(second.max()) + 1) + second
