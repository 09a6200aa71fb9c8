"""CSV and Parquet files as streams of encoded rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from erasurehead.arrays import IntArray
from erasurehead.datasets.base import Task
from erasurehead.datasets.columns import HINT, Columns, choose_columns, csv_kinds
from erasurehead.datasets.csvcolumns import Kind
from erasurehead.datasets.csvfile import Layout, count_rows, csv_blocks, look
from erasurehead.datasets.encoding import Encoding
from erasurehead.datasets.features import Numeric
from erasurehead.datasets.forms import form
from erasurehead.datasets.sharded.fitting import TableFit
from erasurehead.datasets.sharded.sources import BLOCK_ROWS, CHANGED, EMPTY, Fitted, Piece, Places, Source, Split
from erasurehead.datasets.table import Table, Texts
from erasurehead.datasets.table_encoding import TableEncoding
from erasurehead.errors import DataError


class TableSource(Source):
    """A CSV or Parquet file.

    Arguments:
        path: of the file.
        target: the column of the labels; None for the last.
        columns: how the columns are to be read.
        delimiter: of a CSV file, as `check_delimiter` returns it; None to find it out.
    """

    def __init__(self, path: Path, target: str | None, columns: Columns, delimiter: str | None = None) -> None:
        super().__init__(path)
        self._parquet = form(path, delimited=delimiter is not None) == "parquet"
        self._delimiter = delimiter
        self._layout = self._look()
        self._choice = choose_columns(self._layout.names, target, columns, path.name)
        self._label = self._choice.label
        self._columns = columns
        kind = csv_kinds(self._choice, columns)
        self._kinds: dict[str, Kind] = {name: how for name in self._layout.names if (how := kind(name)) is not None}

    def _look(self) -> Layout:
        if not self._parquet:
            return look(self.path, self._delimiter)
        from erasurehead.datasets.parquetfile import parquet_columns

        return Layout(parquet_columns(self.path))

    def _count(self) -> int:
        if self._parquet:
            from erasurehead.datasets.parquetfile import parquet_rows

            found = parquet_rows(self.path)
        else:
            found = count_rows(self.path, self._layout)
        if not found:
            raise DataError(EMPTY.format(path=self.path))
        return found

    def fit(self, split: Split, task: Task | None, constant: bool) -> Fitted:
        # The encoding is that of the training rows; which these are is not known before all are counted.
        places = split.places(self._count()) if split.test_fraction else None
        fit = TableFit(self._layout, self._choice, self._columns, task, self.path, self._delimiter)
        n_rows = 0
        notes: list[str] = []
        for block in self._blocks(notes):
            rows = np.arange(n_rows, n_rows + block.n_rows)
            training = None if places is None else places.of(rows, self.path) < places.n_train
            fit.add(block, training)
            self._settle(block)
            n_rows += block.n_rows
        if not n_rows:
            raise DataError(EMPTY.format(path=self.path))
        encoding = fit.encoding(constant)
        notes += self._choice.notes(self._columns.drop)
        notes.append(f"label {self._label!r}: {encoding.target.task}, {encoding.target.meaning()}")
        if not self._layout.header:
            notes.append(f"no header: the columns are called 1 to {len(self._layout.names)}")
        dense = all(isinstance(feature, Numeric) for feature in encoding.features)
        return Fitted(encoding, places or split.places(n_rows), len(encoding.features) + constant, dense, tuple(notes))

    def pieces(self, encoding: Encoding, places: Places) -> Iterator[Piece]:
        assert isinstance(encoding, TableEncoding)
        before = 0
        for block in self._blocks():
            place = places.of(np.arange(before, before + block.n_rows), self.path)
            y, _ = encoding.target.apply(block.column(self._label), block.place)
            training = place < places.n_train
            parts: list[IntArray] = [np.flatnonzero(training), np.flatnonzero(~training)]
            for rows, encoded in zip(parts, encoding.encode(block, parts), strict=True):
                if rows is parts[0] and encoded.report.unseen:  # the encoding was fitted to these very rows
                    raise DataError(CHANGED.format(path=self.path))
                yield Piece(before + rows, encoded.X, y[rows], encoded.report)
            before += block.n_rows

    def _blocks(self, notes: list[str] | None = None) -> Iterator[Table]:
        if not self._parquet:
            return csv_blocks(self.path, self._layout, self._kinds.get, HINT, notes)
        from erasurehead.datasets.parquetfile import parquet_blocks

        rows = max(1, min(BLOCK_ROWS, (1 << 22) // len(self._layout.names)))
        return parquet_blocks(self.path, self._choice.read, rows)

    def _settle(self, block: Table) -> None:
        """Let the first value of a column say what all the others are to be: a number, or a text."""
        for name, kind in self._kinds.items():
            if kind in ("auto", "label"):
                column = block.column(name)
                if isinstance(column, Texts):
                    self._kinds[name] = "text"
                elif not bool(column.missing().all()):
                    self._kinds[name] = "number"
