"""The encoding of a table that is read block by block; the very one that `fit_table` fits to the whole table."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from erasurehead.arrays import BoolArray
from erasurehead.datasets.base import Task
from erasurehead.datasets.columns import Choice, Columns, features
from erasurehead.datasets.csvfile import Layout
from erasurehead.datasets.features import Feature, OneHot
from erasurehead.datasets.moments import Moments
from erasurehead.datasets.onehot import joint_keys
from erasurehead.datasets.sharded.distinct import Combinations, Distinct
from erasurehead.datasets.sharded.labels import LabelValues
from erasurehead.datasets.table import Column, Numbers, Table, Texts
from erasurehead.datasets.table_encoding import TableEncoding, numeric_feature
from erasurehead.datasets.vocabulary import Codes, Vocabulary, vocabulary_of
from erasurehead.errors import DataError


class TableFit:
    """Gathers what an encoding needs to know: distinct values, distinct combinations, means and deviations.

    Arguments:
        layout: how the file is laid out.
        choice: which of its columns are read, and which holds the labels.
        columns: how the others are to be read.
        task: what the labels are for; None to tell from them.
        path: of the file, for messages.
        delimiter: of a CSV file, if it was named.
    """

    def __init__(
        self, layout: Layout, choice: Choice, columns: Columns, task: Task | None, path: Path,
        delimiter: str | None = None,
    ) -> None:  # fmt: skip
        self._layout = layout
        self._read = choice.read
        self._label = label = choice.label
        self._delimiter = delimiter
        self._columns = columns
        self._path = path
        self._labels = LabelValues(label, task)
        self._texts: set[str] = set()
        self._values: dict[str, Distinct] = {}
        self._moments: dict[str, Moments] = {}
        groups = {tuple(group) for group in columns.interactions}
        self._combinations = {group: Combinations(len(group)) for group in groups}

    def add(self, block: Table, training: BoolArray | None) -> None:
        """Take the next rows of the file.

        Arguments:
            block: the rows.
            training: which of them are for training; None for all.

        Raises:
            DataError: if a label is missing, or a column holds texts that nobody said are categories.
        """
        self._labels.add(block.column(self._label), block.place)
        features(block, self._label, self._columns)  # refuses texts, and says where they are
        rows = None if training is None else np.flatnonzero(training)
        codes: dict[str, Codes] = {}
        for name, whole in block.columns.items():
            if name == self._label:
                continue
            column = whole if rows is None else whole.take(rows)
            if isinstance(column, Texts):
                self._texts.add(name)
            elif not self._columns.is_named(name):
                values = column.values
                self._moments.setdefault(name, Moments()).add(values[~np.isnan(values)])
            if isinstance(column, Texts) or self._columns.is_named(name) or name in self._columns.combined:
                codes[name] = self._values.setdefault(name, Distinct()).codes(column)
        for group, combinations in self._combinations.items():
            combinations.add([codes[name] for name in group])

    def encoding(self, constant: bool) -> TableEncoding:
        """Return the encoding.

        Arguments:
            constant: whether to add a column of ones.

        Raises:
            DataError: if a column has no value in any training row, or the labels cannot be used.
        """
        target = self._labels.target()
        source = str(self._path)
        numeric, groups = features(self._kinds(source), self._label, self._columns)
        columns = {name: self._column(name) for name in dict.fromkeys(name for group in groups for name in group)}
        vocabularies = {name: vocabulary_of(column) for name, column in columns.items()}
        made: list[Feature] = [
            numeric_feature(name, self._moments.get(name, Moments()), self._columns.standardize, source)
            for name in numeric
        ]
        for group in groups:
            made.append(OneHot(group) if len(group) == 1 else self._joint(group, columns, vocabularies))
        return TableEncoding(
            self._layout.names, self._layout.header, vocabularies, tuple(made), target, constant, self._delimiter
        )

    def _kinds(self, source: str) -> Table:
        """Return a table without rows whose columns are of the kinds of the file's."""
        texts, numbers = Texts(np.zeros(0, dtype=np.int32), ()), Numbers(np.zeros(0))
        columns: dict[str, Column] = {name: texts if name in self._texts else numbers for name in self._read}
        return Table(source, columns, 0, lambda row: source)

    def _column(self, name: str) -> Column:
        column = self._values[name].column()
        if column is None:
            raise DataError(f"{self._path}: no row has a value in column {name!r}; leave the column out.")
        return column

    def _joint(self, group: tuple[str, ...], columns: dict[str, Column], vocabularies: dict[str, Vocabulary]) -> OneHot:
        final = [vocabularies[name].codes(columns[name]) for name in group]
        found = self._combinations[group].rows()
        codes = [known[own] for known, own in zip(final, found, strict=True)]
        keys = np.unique(joint_keys(codes, [vocabularies[name].size for name in group]))
        if not len(keys):
            raise DataError(f"{self._path}: no row has a value in all of {', '.join(group)}; do not combine them.")
        return OneHot(group, keys)
