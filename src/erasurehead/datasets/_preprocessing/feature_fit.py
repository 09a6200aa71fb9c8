"""Fitting features to the rows of a table, block by block: distinct values, combinations, means and deviations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from erasurehead._internal.arrays import Array, IntArray, ShortIntArray
from erasurehead.datasets._preprocessing.design import Feature, Numeric, OneHot, joint_keys
from erasurehead.datasets._preprocessing.moments import Moments
from erasurehead.datasets._preprocessing.vocabulary import Codes, Vocabulary, distinct, nothing_in, vocabulary_of_column
from erasurehead.datasets._readers.table import Column, NumberColumn, TextColumn
from erasurehead.errors import DataError

_HALF = 32  # bits of a code within a pair


class DistinctValues:
    """Distinct values of a column, each with a code: 0, 1, ... in the order of first occurrence."""

    def __init__(self) -> None:
        self._codes: dict[str | float, int] = {}  # of texts, or of numbers
        self._rounded = False

    def __len__(self) -> int:
        return len(self._codes)

    def codes(self, column: Column) -> Codes:
        """Add the values of some rows, and return their codes, int32, shape (n_rows,); -1 where one is missing."""
        if isinstance(column, NumberColumn):
            self._rounded |= column.rounded
            values, codes = distinct(column.values)
            codes_of_values = [self._codes.setdefault(value, len(self._codes)) for value in values.tolist()]
            return np.array([*codes_of_values, -1], dtype=np.int32)[codes]
        own = np.full(len(column.values) + 1, -1, dtype=np.int32)
        used: list[int] = np.unique(column.codes[column.codes >= 0]).tolist()
        for code in used:
            own[code] = self._codes.setdefault(column.values[code], len(self._codes))
        return own[column.codes]

    def column(self) -> Column | None:
        """Return a column with each value once, in the order of the codes; None if there is no value."""
        texts = tuple(value for value in self._codes if isinstance(value, str))
        if texts:
            return TextColumn(np.arange(len(texts), dtype=np.int32), texts)
        return NumberColumn(np.array([*self._codes], dtype=np.float64), self._rounded) if self._codes else None


class FeatureFit:
    """Gathers what features have to know of the training rows.

    Arguments:
        groups: columns, or combinations of columns, whose distinct values may become columns.
        source: where the rows are from, for messages.
    """

    def __init__(self, groups: Iterable[Sequence[str]], source: str) -> None:
        self._source = source
        self._values: dict[str, DistinctValues] = {}
        self._moments: dict[str, Moments] = {}
        self._combinations: dict[tuple[str, ...], ShortIntArray] = {  # of codes, shape (n_combinations, n_columns)
            tuple(group): np.zeros((0, len(group)), dtype=np.int32) for group in groups if len(group) > 1
        }

    def add(self, numbers: Mapping[str, Array], values: Mapping[str, Column]) -> None:
        """Add some rows.

        Arguments:
            numbers: columns that may become numbers, NaN where one is missing, shape (n_rows,) each.
            values: columns whose values, or their combinations, may become columns.
        """
        for name, column in numbers.items():
            self._moments.setdefault(name, Moments()).add(column[~np.isnan(column)])
        codes = {name: self._values.setdefault(name, DistinctValues()).codes(one) for name, one in values.items()}
        for group, earlier in self._combinations.items():
            rows = np.stack([codes[name] for name in group], axis=1)
            rows = np.concatenate([earlier, rows[(rows >= 0).all(axis=1)]])  # a missing value is part of no combination
            self._combinations[group] = rows[_first_of_each(rows)]

    def features(
        self, numeric: Sequence[str], groups: Sequence[tuple[str, ...]], standardize: bool
    ) -> tuple[dict[str, Vocabulary], tuple[Feature, ...]]:
        """Return the vocabularies and the features.

        Arguments:
            numeric: columns of numbers, which come first.
            groups: columns, and combinations of columns, whose distinct values become columns.
            standardize: whether numbers are shifted and scaled to mean 0 and standard deviation 1.

        Raises:
            DataError: if a column or a combination has no value, or a variance is beyond float64.
        """
        columns = {name: self._values[name].column() for group in groups for name in group}
        vocabularies = {name: vocabulary_of_column(column, name, self._source) for name, column in columns.items()}
        features: list[Feature] = [self._numeric(name, standardize) for name in numeric]
        for group in groups:
            keys = None
            if len(group) > 1:
                combinations = self._combinations[group]
                if not len(combinations):
                    raise DataError(
                        f"{self._source}: no row has a value in all of {', '.join(group)}; do not combine them."
                    )
                codes: list[Codes] = []
                for name, own in zip(group, combinations.T, strict=True):
                    column = columns[name]
                    assert column is not None  # or there were no vocabulary
                    codes.append(vocabularies[name].codes(column)[own])
                keys = np.unique(joint_keys(codes, [vocabularies[name].size for name in group]))
            features.append(OneHot(group, keys))
        return vocabularies, tuple(features)

    def _numeric(self, name: str, standardize: bool) -> Numeric:
        moments = self._moments.get(name, Moments())
        if not moments.count:
            raise nothing_in(name, self._source)
        mean, deviation = moments.mean, moments.deviation
        if not np.isfinite(deviation):
            raise DataError(
                f"{self._source}: the numbers of column {name!r} are too large to square; change their unit."
            )
        if not standardize:
            return Numeric(name, 0.0, 1.0, fill=mean)
        # A constant column has no scale; neither has one that varies only by rounding errors.
        varies = deviation > 1e-12 * max(abs(mean), moments.largest)
        return Numeric(name, mean, deviation if varies else 1.0, fill=mean)


def _first_of_each(rows: ShortIntArray) -> IntArray:
    """Return where each distinct row of codes occurs first."""
    joined, first = rows[:, 0].astype(np.int64), np.zeros(0, dtype=np.int64)
    for column in rows.T[1:]:
        _, first, joined = np.unique(joined << _HALF | column, return_index=True, return_inverse=True)
    return first
