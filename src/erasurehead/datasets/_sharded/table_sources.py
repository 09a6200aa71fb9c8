"""CSV and Parquet files as streams of encoded rows; the encoding is fitted block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from erasurehead._internal.arrays import Array, BoolArray, IntArray
from erasurehead.datasets._base import RowSplit
from erasurehead.datasets._encoded import Task
from erasurehead.datasets._preprocessing.column_uses import copy_warning, rounded_warning
from erasurehead.datasets._preprocessing.columns import (
    HINT,
    Choice,
    Columns,
    choose_columns,
    csv_kinds,
    features,
    tallies_of,
    typed_notes,
)
from erasurehead.datasets._preprocessing.derived import DerivedFit, derived_notes, with_derived
from erasurehead.datasets._preprocessing.design import Numeric
from erasurehead.datasets._preprocessing.encoding import Encoding
from erasurehead.datasets._preprocessing.feature_fit import DistinctValues, FeatureFit
from erasurehead.datasets._preprocessing.label_copies import LabelCopy
from erasurehead.datasets._preprocessing.table_encoding import TableEncoding, as_read
from erasurehead.datasets._preprocessing.target import MOST_CLASSES, Target, check_all_there, fit_target
from erasurehead.datasets._preprocessing.vocabulary import Codes
from erasurehead.datasets._readers.csv import Kind, Mixed, count_rows, csv_blocks
from erasurehead.datasets._readers.dialects import Dialect
from erasurehead.datasets._readers.layouts import TableLayout
from erasurehead.datasets._readers.mixed_columns import settled
from erasurehead.datasets._readers.table import Column, NumberColumn, Table, TextColumn, are_numbers, with_numbers
from erasurehead.datasets._reading import dates_in, layout_of
from erasurehead.datasets._sharded.sources import (
    BLOCK_ROWS,
    CHANGED,
    EMPTY,
    EncodedRows,
    Fitted,
    Places,
    RowSource,
)
from erasurehead.errors import DataError


class LabelValues:
    """Collects the distinct labels of a file.

    Arguments:
        name: name of the column; empty if labels have none.
        task: what to train; None to choose it from the labels.
    """

    def __init__(self, name: str, task: Task | None) -> None:
        self._name = name
        self._task: Task | None = task
        self._values = DistinctValues()
        self._codes: list[Codes] = []
        self._first: Callable[[int], str] | None = None

    def add(self, column: Column, place: Callable[[int], str]) -> None:
        """Add the labels of some rows.

        Raises:
            DataError: if one is missing; the message says where.
        """
        check_all_there(column, self._name, place)
        self._first = self._first or place
        if isinstance(column, NumberColumn) and self._enough():
            self._codes.clear()  # they are quantities
        else:
            self._codes.append(self._values.codes(column))

    def _enough(self) -> bool:
        # Quantities may have as many values as there are rows; the first ones suffice to tell that.
        return self._task in (None, "least_squares") and len(self._values) > MOST_CLASSES

    def target(self) -> Target:
        """Return how labels become numbers; see `fit_target`."""
        first = self._first
        assert first is not None
        column = self._values.column() or TextColumn(np.zeros(0, dtype=np.int32), ())
        return fit_target(column, self._name, self._task, lambda _: first(0))

    def classes(self, target: Target) -> Codes | None:
        """Return the code of each row's class, shape (n_rows,); None if labels are no classes."""
        column = self._values.column()
        if target.classes is None or column is None:
            return None
        return target.classes.codes(column)[np.concatenate(self._codes)]


def moved_note(labels: LabelValues, target: Target, places: Places, path: Path) -> tuple[str, ...]:
    """Return a note about rows that are for training as their classes had no other there.

    Raises:
        DataError: if the labels are not classes but identifiers.
    """
    classes = labels.classes(target)
    return () if classes is None else target.moved_note(classes[places.moved], places.n_train, str(path))


class TableFit:
    """Collects what an encoding needs: distinct values, distinct combinations, means and standard deviations.

    Arguments:
        layout: how the file is laid out.
        choice: which of its columns are read, and which holds the labels.
        task: the kind of problem; None to choose it from the labels.
        path: path of the file, for messages.
        dialect: what the user said about a CSV file.
        made: what is known of columns that are made from others.
    """

    def __init__(
        self,
        layout: TableLayout,
        choice: Choice,
        task: Task | None,
        path: Path,
        dialect: Dialect,
        made: DerivedFit,
    ) -> None:
        self._layout = layout
        self._derived, self._words = made.derived(choice.read), made.words()
        self._read = list[str]()
        for name in choice.read:
            self._read += [one.name for one in self._derived if one.source == name] or [name]
        self._label = label = choice.label
        self._dialect = dialect
        self._columns = columns = choice.columns
        self._path = path
        self.labels = LabelValues(label, task)
        """What is known of the labels."""
        self._texts: set[str] = set()
        self._first: dict[str, type[Column]] = {}  # the kind of the first values of other columns
        self._copies = {name: LabelCopy() for name in self._read if name != label}
        self._rounded: dict[str, str] = {}
        self._features = FeatureFit(columns.interactions, str(path))

    def add(self, block: Table, training: BoolArray | None) -> None:
        """Add the next rows of the file.

        Arguments:
            block: the rows.
            training: which of them are training rows; None for all.

        Raises:
            DataError: if a label is missing, or a column holds texts but was not declared to hold categories.
        """
        block = with_derived(block, self._derived)
        self.labels.add(block.column(self._label), block.place)
        features(block, self._label, self._columns)  # refuses texts, and says where they are
        rows = None if training is None else np.flatnonzero(training)
        labels = block.column(self._label) if rows is None else block.column(self._label).take(rows)
        numbers: dict[str, Array] = {}
        values: dict[str, Column] = {}
        for name, whole in block.columns.items():
            if name == self._label:
                continue
            column = whole if rows is None else whole.take(rows)
            if self._columns.has_words(name):
                continue
            self._copies[name].add(column, labels)
            self._kind(block, name)
            if isinstance(column, NumberColumn) and column.rounded and not self._columns.is_named(name):
                self._rounded[name] = rounded_warning(name, column)
            if not self._columns.is_named(name) and are_numbers(column):
                numbers[name] = column.numbers()
            if isinstance(column, TextColumn) or self._columns.is_named(name) or name in self._columns.combined:
                values[name] = column
        self._features.add(numbers, values)

    def _kind(self, block: Table, name: str) -> None:
        """Note whether a column holds categories, by all of its rows, whether they are for training or not."""
        column = block.columns[name]
        if bool(column.missing().all()):
            return
        if not are_numbers(column) or name in block.categories:
            self._texts.add(name)
        elif self._first.setdefault(name, type(column)) is not type(column):
            raise DataError(
                f"{block.place(0)}, column {name!r}: there are numbers in it, and truth values; write all of them as "
                "numbers, such as 0 and 1."
            )

    def warnings(self) -> list[str]:
        """Return possible problems with the columns, and what would help, as sentences without a full stop."""
        copied = {name: copy_warning(copy, name, self._label) for name, copy in self._copies.items()}
        return [warning for name, copy in copied.items() if (warning := copy or self._rounded.get(name, ""))]

    def encoding(self, target: Target, constant: bool) -> TableEncoding:
        """Return the encoding.

        Arguments:
            target: how labels become numbers.
            constant: whether to add a column of ones.

        Raises:
            DataError: if a column has no value in any training row, or the labels cannot be used.
        """
        numeric, groups = features(self._kinds(str(self._path)), self._label, self._columns)
        vocabularies, fitted = self._features.features(numeric, groups, self._columns.standardize)
        dialect = as_read(self._dialect, self._layout)
        names, header = self._layout.names, self._layout.header
        whole = (*fitted, *self._words)
        return TableEncoding(names, header, vocabularies, whole, target, constant, dialect, self._derived)

    def _kinds(self, source: str) -> Table:
        """Return a table whose columns have the kinds of the file's."""
        text, none = TextColumn(np.zeros(1, dtype=np.int32), ("text",)), NumberColumn(np.zeros(0))
        columns: dict[str, Column] = {name: text if name in self._texts else none for name in self._read}
        return Table(source, columns, 0, lambda row: source, categories=frozenset(self._texts))


class TableSource(RowSource):
    """A CSV or Parquet file.

    Arguments:
        path: of the file.
        target: the column of the labels; None for the last.
        columns: how the columns are read.
        dialect: what the user says about a CSV file.
    """

    def __init__(self, path: Path, target: str | None, columns: Columns, dialect: Dialect) -> None:
        super().__init__(path)
        self._layout, self._parquet = layout_of(path, dialect)
        self._dialect = dialect
        self._choice = choose_columns(self._layout.names, target, columns, path.name)
        self._label = self._choice.label
        self._dates = [] if self._parquet else dates_in(path, self._layout, self._choice)
        kind = csv_kinds(self._choice, self._dates)
        self._columns = self._choice.columns
        self._kinds: dict[str, Kind] = {name: how for name in self._layout.names if (how := kind(name)) is not None}
        if self._parquet:  # the values decide what columns of texts hold, and others have a type
            self._kinds = {name: "auto" if how == "number" else how for name, how in self._kinds.items()}
        self._begun: set[str] = set()
        self._typed: dict[str, None] = {}  # columns of numbers whose type is that of texts
        self._made = DerivedFit(self._columns, self._label)

    def _count(self) -> int:
        if self._parquet:
            from erasurehead.datasets._readers.parquet import parquet_rows

            n_rows = parquet_rows(self.path)
        else:
            n_rows = count_rows(self.path, self._layout)
        if not n_rows:
            raise DataError(EMPTY.format(path=self.path))
        return n_rows

    def fit(self, split: RowSplit, task: Task | None, constant: bool) -> Fitted:
        # The encoding is fitted to the training rows, which are known only after all rows are counted.
        places = Places.of_split(split, self._count()) if split.test_fraction else None
        while True:
            try:
                fit, n_rows, notes = self._fit(places, task)
            except Mixed as mixed:  # they were fitted as numbers so far
                self._kinds |= dict.fromkeys(mixed.names, "text")
                continue
            if not n_rows:
                raise DataError(EMPTY.format(path=self.path))
            target = fit.labels.target()
            final = Places.of_split(split, n_rows, fit.labels.classes(target))
            if places is None or final.n_train == places.n_train:
                break
            places = final
        self._kinds |= dict.fromkeys(self._begun, "number")
        moved = moved_note(fit.labels, target, final, self.path)
        encoding = fit.encoding(target, constant)
        typed = [name for name in self._layout.names if name in self._typed and self._kinds.get(name) != "text"]
        notes += [
            *typed_notes(typed, target),
            *derived_notes(encoding.derived),
            *self._choice.notes(self._choice.columns.drop),
        ]
        notes += [encoding.target.note(task), *moved]
        notes += fit.warnings()
        dense = all(isinstance(feature, Numeric) for feature in encoding.features)
        return Fitted(encoding, final, len(encoding.features) + constant, dense, tuple(notes))

    def _fit(self, places: Places | None, task: Task | None) -> tuple[TableFit, int, list[str]]:
        """Read the whole file; return what its encoding needs, the number of rows, and notes."""
        self._made = self._derived(places)
        fit = TableFit(self._layout, self._choice, task, self.path, self._dialect, self._made)
        tallies = tallies_of(self._choice.read, self._choice.columns)
        n_rows = 0
        self._begun = set[str]()
        notes = list(self._layout.notes)
        for block in self._blocks(notes):
            rows = np.arange(n_rows, n_rows + block.n_rows)
            training = None if places is None else places.of(rows, self.path) < places.n_train
            self._settle(block)
            for name, tally in tallies.items():
                tally.add(block, name)
            fit.add(block, training)
            n_rows += block.n_rows
        notes += settled(tallies, not self._parquet, self._label)
        return fit, n_rows, notes

    def _derived(self, places: Places | None) -> DerivedFit:
        """Read the whole file, if columns are to be made from some that depend on all of their values."""
        made, n_rows = DerivedFit(self._columns, self._label), 0
        if self._parquet or self._dates or self._columns.made:
            for block in self._blocks():
                rows = np.arange(n_rows, n_rows + block.n_rows)
                training = None if places is None else places.of(rows, self.path) < places.n_train
                made.add(block, None if training is None else np.flatnonzero(training))
                n_rows += block.n_rows
        return made

    def pieces(self, encoding: Encoding, places: Places) -> Iterator[EncodedRows]:
        assert isinstance(encoding, TableEncoding)
        before = 0
        for block in self._blocks():
            place = places.of(np.arange(before, before + block.n_rows), self.path)
            y, _ = encoding.target.apply(block.column(self._label), block.place)
            training = place < places.n_train
            parts: list[IntArray] = [np.flatnonzero(training), np.flatnonzero(~training)]
            for rows, encoded in zip(parts, encoding.encode(block, parts), strict=True):
                if rows is parts[0] and encoded.report.unseen:  # the encoding was fitted to exactly these rows
                    raise DataError(CHANGED.format(path=self.path))
                yield EncodedRows(before + rows, encoded.X, y[rows], encoded.report)
            before += block.n_rows

    def _blocks(self, notes: list[str] | None = None) -> Iterator[Table]:
        if not self._parquet:
            return csv_blocks(self.path, self._layout, self._kinds.get, HINT, notes)
        from erasurehead.datasets._readers.parquet import parquet_blocks

        rows = max(1, min(BLOCK_ROWS, (1 << 22) // len(self._layout.names)))
        return map(self._with_numbers, parquet_blocks(self.path, self._choice.read, rows, self._choice.exact))

    def _with_numbers(self, block: Table) -> Table:
        texts = [name for name, kind in self._kinds.items() if kind == "text"]
        block, converted = with_numbers(block, texts, self._label)
        self._typed |= dict.fromkeys(converted)
        return block

    def _settle(self, block: Table) -> None:
        """Raise if a column of texts began with numbers in earlier blocks; later blocks of one that did not are texts.

        Raises:
            Mixed: if so.
        """
        kinds = {name: block.column(name) for name, kind in self._kinds.items() if kind in ("auto", "label")}
        texts = {name for name, column in kinds.items() if isinstance(column, TextColumn)}
        if mixed := texts & self._begun:
            raise Mixed(mixed)
        self._begun |= {name for name, column in kinds.items() if not bool(column.missing().all())} - texts
        self._kinds |= dict.fromkeys(texts, "text")
