"""Files and frames of named columns as streams of encoded rows; the encoding is fitted block by block."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.datasets._base import RowSplit
from erasurehead.datasets._encoded import Encoded, Labels, Task
from erasurehead.datasets._preprocessing.column_uses import (
    ColumnUse,
    are_row_numbers,
    are_shuffled_numbers,
    column_uses,
    copy_warning,
    ends,
    number_warning,
    numbered_warning,
)
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
from erasurehead.datasets._preprocessing.derived import (
    DerivedFit,
    derived_notes,
    looks_like_a_date,
    short_notes,
    with_derived,
)
from erasurehead.datasets._preprocessing.design import Numeric
from erasurehead.datasets._preprocessing.feature_fit import FeatureFit
from erasurehead.datasets._preprocessing.label_copies import LabelCopy
from erasurehead.datasets._preprocessing.table_encoding import TableEncoding, as_read
from erasurehead.datasets._preprocessing.target import Target
from erasurehead.datasets._readers.csv import Kind, Mixed, count_rows, csv_blocks, first_values
from erasurehead.datasets._readers.dialects import Dialect
from erasurehead.datasets._readers.forms import form
from erasurehead.datasets._readers.frames import Frame, frame_layout, frame_name, read_frame
from erasurehead.datasets._readers.layouts import TableLayout, look
from erasurehead.datasets._readers.mixed_columns import settled
from erasurehead.datasets._readers.table import Column, NumberColumn, Table, TextColumn, are_numbers, with_numbers
from erasurehead.datasets._sources.labels import LabelValues
from erasurehead.datasets._sources.rows import BLOCK_ROWS, CHANGED, EMPTY, Fitted, Places, RowSource, final
from erasurehead.errors import DataError


class TableFit:
    """Collects what an encoding needs: distinct values, distinct combinations, means and standard deviations.

    Arguments:
        choice: which of its columns are read, and which holds the labels.
        task: the kind of problem; None to choose it from the labels.
        source: where the rows are from, for messages.
        derived_fit: what is known of columns that are made from others.
    """

    def __init__(self, choice: Choice, task: Task | None, source: str, derived_fit: DerivedFit) -> None:
        self._derived, self._words = derived_fit.derived(choice.read), derived_fit.words()
        self._read = list[str]()
        for name in choice.read:
            self._read += [one.name for one in self._derived if one.source == name] or [name]
        self._label = label = choice.label
        self._columns = columns = choice.columns
        self._source = source
        self.labels = LabelValues(label, task)
        """What is known of the labels."""
        self._texts: set[str] = set()
        self._first: dict[str, type[Column]] = {}  # the kind of the first values of other columns
        self._copies = {name: LabelCopy() for name in self._read if name != label}
        self._warnings: dict[str, str] = {}
        self._ends = dict[str, list[float]]()
        self._squares = dict[str, float]()
        self._n_train = self._n_rows = 0
        self._features = FeatureFit(columns.interactions, source)

    def add(self, block: Table, rows: IntArray | None) -> None:
        """Add the next rows of the file.

        Arguments:
            block: the rows.
            rows: those of them that are for training; None for all.

        Raises:
            DataError: if a label is missing, or a column holds texts but was not declared to hold categories.
        """
        block = with_derived(block, self._derived)
        features(block, self._label, self._columns)  # refuses texts, and says where they are
        self.labels.add(block.column(self._label), block.place)
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
            if not self._columns.is_named(name) and are_numbers(column):
                self._warnings[name] = self._warnings.get(name) or number_warning(name, column)
                numbers[name] = own = column.numbers()
                if len(own):
                    self._ends.setdefault(name, []).extend(ends(own))
                every = whole.numbers()  # those of test rows, too
                with np.errstate(over="ignore"):
                    self._squares[name] = self._squares.get(name, 0.0) + float(every @ every)
            if isinstance(column, TextColumn) or self._columns.is_named(name) or name in self._columns.combined:
                values[name] = column
        self._n_train, self._n_rows = self._n_train + len(labels.missing()), self._n_rows + block.n_rows
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

    def copied(self) -> dict[str, str]:
        """Return what is to be said of columns that say what the label says, as sentences without a full stop."""
        return {name: copy_warning(copy, name, self._label) for name, copy in self._copies.items()}

    def warnings(self) -> tuple[str, ...]:
        """Return possible problems with the columns, and what would help, as sentences without a full stop."""
        dates = {one.name for one in self._derived}  # a row a day numbers no rows
        numbered = [
            name
            for name, own in self._ends.items()
            if name not in dates
            and (
                are_row_numbers(own, self._n_train, self._n_rows)
                or are_shuffled_numbers(self._squares[name], self._n_rows)
            )
        ]
        of_numbers = self._warnings | {name: numbered_warning(name) for name in numbered}
        return tuple(warning for name, copy in self.copied().items() if (warning := copy or of_numbers.get(name, "")))

    def encoding(self, target: Target, constant: bool, layout: TableLayout, dialect: Dialect) -> TableEncoding:
        """Return the encoding.

        Arguments:
            target: how labels become numbers.
            constant: whether to add a column of ones.
            layout: how the file is laid out.
            dialect: what the user said about a CSV file.

        Raises:
            DataError: if a column has no value in any training row, or the labels cannot be used.
        """
        numeric, groups = features(self._kinds(), self._label, self._columns)
        vocabularies, fitted = self._features.features(numeric, groups, self._columns.standardize)
        whole, dialect = (*fitted, *self._words), as_read(dialect, layout)
        return TableEncoding(layout.names, layout.header, vocabularies, whole, target, constant, dialect, self._derived)

    def _kinds(self) -> Table:
        """Return a table whose columns have the kinds of the file's."""
        text, none = TextColumn(np.zeros(1, dtype=np.int32), ("text",)), NumberColumn(np.zeros(0))
        columns: dict[str, Column] = {name: text if name in self._texts else none for name in self._read}
        return Table(self._source, columns, 0, lambda row: self._source, categories=frozenset(self._texts))


class TableSource(RowSource[Table]):
    """A CSV or Parquet file, or a frame.

    Arguments:
        origin: the file, or the frame, which is kept whole.
        target: the column of the labels; None for the last.
        columns: how the columns are read.
        dialect: what the user says about a CSV file.
        whole: whether all rows are read at once, and kept.
    """

    def __init__(
        self, origin: Path | Frame, target: str | None, columns: Columns, dialect: Dialect, whole: bool = False
    ) -> None:
        self._origin, self._dialect, self._whole, self._kept = origin, dialect, whole, list[Table]()
        self._parquet = isinstance(origin, Path) and form(origin, dialect.delimiter is not None) == "parquet"
        self._csv = isinstance(origin, Path) and not self._parquet
        if isinstance(origin, Path):
            super().__init__(str(origin), origin.name.split(".")[0])
            self._layout = TableLayout(_parquet_columns(origin)) if self._parquet else look(origin, dialect)
            named = origin.name
        else:
            named = frame_name(origin)
            super().__init__(named, "frame", named.removeprefix("the "))
            self._layout = frame_layout(origin)
        self._choice = choose_columns(self._layout.names, target, columns, named)
        self._label, self._columns = self._choice.label, self._choice.columns
        self._dates = self._begin_with_dates() if self._csv else []
        kind = csv_kinds(self._choice, self._dates)
        self._kinds: dict[str, Kind] = {name: how for name in self._layout.names if (how := kind(name)) is not None}
        if not self._csv:  # the values decide what columns of texts hold, and others have a type
            self._kinds = {name: "auto" if how == "number" else how for name, how in self._kinds.items()}
        self._notes: list[str] = []
        self._begun: set[str] = set()
        self._typed: dict[str, None] = {}  # columns of numbers whose type is that of texts
        self._copied: dict[str, str] = {}

    def _begin_with_dates(self) -> list[str]:
        """Return the columns of a CSV file that begin with a date, and of which nobody has said what they hold."""
        assert isinstance(self._origin, Path)
        return [
            name
            for name, text in first_values(self._origin, self._layout).items()
            if name != self._label and not self._columns.is_decided(name) and looks_like_a_date(text)
        ]

    def _count(self) -> int:
        if self._whole:
            return sum(block.n_rows for block in self.blocks())
        assert isinstance(self._origin, Path)
        if self._parquet:
            from erasurehead.datasets._readers.parquet import parquet_rows

            return parquet_rows(self._origin)
        return count_rows(self._origin, self._layout)

    def fit(self, split: RowSplit, task: Task | None, constant: bool) -> Fitted:
        # The encoding is fitted to the training rows, which are known only after all rows are counted.
        places: Places | None = None
        while True:
            try:
                if split.test_fraction and places is None:
                    places = Places.of_split(split, self._counted(self._count()), self.source)
                fit, n_rows, kinds = self._fit(places, task)
            except Mixed as mixed:  # they were fitted as numbers so far
                self._kinds |= dict.fromkeys(mixed.names, "text")
                continue
            target, settled_places, moved = final(fit.labels, split, self._counted(n_rows), self.source)
            if places is None or settled_places.n_train == places.n_train:
                break
            places = settled_places
        self._kinds |= dict.fromkeys(self._begun, "number")
        encoding = fit.encoding(target, constant, self._layout, self._dialect)
        typed = [name for name in self._layout.names if name in self._typed and self._kinds.get(name) != "text"]
        notes = (
            *self._notes,
            *kinds,
            *typed_notes(typed, target),
            *derived_notes(encoding.derived),
            *short_notes(encoding.vocabularies, self._columns),
            *self._choice.notes,
            encoding.target.note(task),
            *moved,
        )
        dense = all(isinstance(feature, Numeric) for feature in encoding.features)
        self._copied = fit.copied()
        return Fitted(encoding, settled_places, len(encoding.features) + constant, dense, notes, fit.warnings())

    def _counted(self, n_rows: int) -> int:
        if not n_rows:
            raise DataError(EMPTY.format(source=self.source))
        return n_rows

    def _fit(self, places: Places | None, task: Task | None) -> tuple[TableFit, int, list[str]]:
        """Read all rows; return what their encoding needs, how many they are, and notes on what columns hold."""
        fit = TableFit(self._choice, task, self.source, self._derived(places))
        tallies = tallies_of(self._choice.read, self._columns)
        n_rows = 0
        self._begun = set[str]()
        for block in self.blocks():
            self._settle(block)
            for name, tally in tallies.items():
                tally.add(block, name)
            fit.add(block, None if places is None else places.training(n_rows, block.n_rows, self.source))
            n_rows += block.n_rows
        return fit, n_rows, [*settled(tallies, self._csv, self._label)]

    def _derived(self, places: Places | None) -> DerivedFit:
        """Read all rows, if columns are to be made from some that depend on all of their values."""
        fit, n_rows = DerivedFit(self._columns, self._label), 0
        if self._whole or self._parquet or self._dates or self._columns.made:
            for block in self.blocks():
                fit.add(block, None if places is None else places.training(n_rows, block.n_rows, self.source))
                n_rows += block.n_rows
        return fit

    def labels(self, block: Table, encoding: TableEncoding) -> Labels:
        return encoding.target.apply(block.column(self._label), block.place)[0]

    def encoded(self, block: Table, encoding: TableEncoding, parts: Sequence[IntArray]) -> list[Encoded]:
        encoded = encoding.encode(block, parts)
        if encoded[0].report.unseen:  # the encoding was fitted to exactly these rows
            raise DataError(CHANGED.format(source=self.source))
        return encoded

    def uses(self, fitted: Fitted) -> tuple[ColumnUse, ...]:
        assert isinstance(fitted.encoding, TableEncoding)
        (whole,) = self._kept
        rows = fitted.places.training(0, whole.n_rows, self.source)
        return column_uses(fitted.encoding, with_derived(whole, fitted.encoding.derived), rows, self._copied)

    def blocks(self, encoding: TableEncoding | None = None) -> Iterator[Table]:
        if self._kept or not self._whole:
            return iter(self._kept) if self._kept else self._read()
        self._kept = [*self._read()]
        return iter(self._kept)

    def _read(self) -> Iterator[Table]:
        self._notes = [*self._layout.notes]
        if self._csv:
            assert isinstance(self._origin, Path)
            return csv_blocks(self._origin, self._layout, self._kinds.get, HINT, self._notes, self._whole)
        choice = self._choice
        if not isinstance(self._origin, Path):
            frame = read_frame(self._origin, choice.read, choice.exact)
            self._notes += frame.notes
            return iter([self._with_numbers(frame)])
        from erasurehead.datasets._readers.parquet import parquet_blocks, read_parquet

        if self._whole:
            return iter([self._with_numbers(read_parquet(self._origin, choice.read, choice.exact))])
        rows = max(1, min(BLOCK_ROWS, (1 << 22) // len(self._layout.names)))
        return map(self._with_numbers, parquet_blocks(self._origin, choice.read, rows, choice.exact))

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


def _parquet_columns(path: Path) -> tuple[str, ...]:
    from erasurehead.datasets._readers.parquet import parquet_columns

    return parquet_columns(path)
