"""The encoding of tables: numbers remain numbers, and each distinct value of a one-hot column becomes a column.

A missing number becomes the mean of its column, and a missing category none of the columns.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import numpy as np

from erasurehead._internal.arrays import Array, BoolArray, IntArray
from erasurehead._internal.documents import Entries, PlainData
from erasurehead._internal.storage.sealed import Unfit
from erasurehead._internal.user_files import StrPath
from erasurehead.datasets._encoded import Encoded, EncodingReport
from erasurehead.datasets._matrices import LARGEST, too_large
from erasurehead.datasets._preprocessing.derived import Derived, with_derived, word_block
from erasurehead.datasets._preprocessing.design import (
    CodeBlock,
    Feature,
    NumberBlock,
    Numeric,
    OneHot,
    WordBlock,
    Words,
    design,
    joint_keys,
    split_keys,
)
from erasurehead.datasets._preprocessing.encoding import CONSTANT, VERSION, Encoding, Source
from erasurehead.datasets._preprocessing.target import Target
from erasurehead.datasets._preprocessing.vocabulary import (
    Codes,
    NumberVocabulary,
    Vocabulary,
)
from erasurehead.datasets._readers.csv import Kind, csv_blocks, read_csv
from erasurehead.datasets._readers.dialects import Dialect, check_dialect
from erasurehead.datasets._readers.fields import EXACT, absent
from erasurehead.datasets._readers.forms import form, opened
from erasurehead.datasets._readers.frames import is_frame, read_frame
from erasurehead.datasets._readers.index_columns import index_columns
from erasurehead.datasets._readers.layouts import TableLayout, look, n_fields
from erasurehead.datasets._readers.table import Column, Table, as_texts, written_out
from erasurehead.datasets._readers.values import table_of_rows
from erasurehead.errors import DataError, counted

_AUTO = Dialect()


@dataclass(frozen=True, eq=False)
class TableEncoding(Encoding, kind="table"):
    """How the rows of a table become rows of a design matrix: features from left to right, then the constant.

    Arguments:
        columns: the file's columns, in order.
        header: whether the file's first line holds their names.
        vocabularies: one for each column that one-hot features use.
        features: the features, from left to right.
        target: how labels become numbers.
        constant: whether the last column is ones.
        dialect: how the training file was written, as `as_read` returns it; what was detected is detected in other
            files, too.
        derived: columns that are made from those of the file, before features are.
    """

    columns: tuple[str, ...]
    header: bool
    vocabularies: Mapping[str, Vocabulary]
    features: tuple[Feature, ...]
    target: Target
    constant: bool = True
    dialect: Dialect = _AUTO
    derived: tuple[Derived, ...] = ()

    def __repr__(self) -> str:
        return (
            f"TableEncoding({counted('column', len(self.columns))} of a table -> {self.n_columns:,} of a matrix, label"
            f" {self.target.name!r})"
        )

    @property
    def n_columns(self) -> int:
        return sum(self.width(feature) for feature in self.features) + self.constant

    def width(self, feature: Feature) -> int:
        """Return how many columns of the design matrix a feature takes."""
        if isinstance(feature, Numeric):
            return 1
        if isinstance(feature, Words):
            return len(feature.weights)
        return self.vocabularies[feature.columns[0]].size if feature.keys is None else len(feature.keys)

    @property
    def column_names(self) -> tuple[str, ...]:
        names = [name for feature in self.features for name in self._names(feature)]
        return (*names, CONSTANT) if self.constant else tuple(names)

    def _names(self, feature: Feature) -> list[str]:
        if isinstance(feature, Numeric):
            return [feature.column]
        if isinstance(feature, Words):
            return [f"{feature.column}~{name}" for name in feature.names]
        labels = [self.vocabularies[name].labels() for name in feature.columns]
        if feature.keys is None:
            return [f"{feature.columns[0]}={value}" for value in labels[0]]
        places = split_keys(feature.keys, [len(values) for values in labels])
        parts = [
            [f"{name}={values[place]}" for place in column.tolist()]
            for name, values, column in zip(feature.columns, labels, places, strict=True)
        ]
        return [" x ".join(each) for each in zip(*parts, strict=True)]

    @property
    def standardization(self) -> Mapping[str, tuple[float, float]]:
        numeric = [feature for feature in self.features if isinstance(feature, Numeric)]
        return {feature.column: (feature.mean, feature.scale) for feature in numeric}

    def named_coefficients(self, weights: Array, standardized: bool = False) -> dict[str, float]:
        coefficients = super().named_coefficients(weights, standardized)
        if standardized:
            return coefficients
        shift = 0.0
        for feature in self.features:
            if isinstance(feature, Numeric):
                coefficients[feature.column] /= feature.scale
                shift -= coefficients[feature.column] * feature.mean
        if self.constant or shift:
            coefficients[CONSTANT] = coefficients.get(CONSTANT, 0.0) + shift
        return coefficients

    def apply(self, source: Source, labels: bool | StrPath = True) -> Encoded:
        if not isinstance(labels, bool):
            raise DataError(f"Labels of a table are a column of it, not a file of their own ({os.fspath(labels)!r}).")
        table = self.table(source, labels)
        column = self._labels(table) if labels else None
        if column is None:
            return self.encode(table)[0]
        y, kept = self.target.apply(column, table.place)
        encoded = self.encode(table, [kept])[0]
        dropped = table.n_rows - len(kept)
        return Encoded(encoded.X, y, EncodingReport(len(kept), encoded.report.unseen, encoded.report.missing, dropped))

    def _labels(self, table: Table) -> Column | None:
        """Return the column of raw labels, or None if there is none or it has no values."""
        name = next((name for name in self.target.names if name in table.columns), None)
        if name is None:
            return None
        column = table.column(name)
        return None if bool(column.missing().all()) else column

    def table(self, source: Source, labels: bool = True) -> Table:
        """Return a file or rows as a table of the columns that the encoding uses.

        Raises:
            DataError: if the data are not a table, or a column is missing; the message names it.
        """
        return self._table(source, self._wanted(labels))

    def texts(self, source: Source, names: Sequence[str] = ()) -> dict[str, list[str]]:
        table = self._table(source, dict.fromkeys(names, "text") or None)
        return {name: written_out(table.column(name)) for name in names or table.columns}

    def _table(self, source: Source, wanted: Mapping[str, Kind] | None) -> Table:
        """Return some columns as a table, each read as it is wanted; None for all of them, as texts."""
        if isinstance(source, Table):
            return source
        if isinstance(source, str | os.PathLike):
            return self._read(opened(source), wanted)
        exact = _looked_up(wanted or {})
        if is_frame(source):
            return read_frame(source, wanted, exact, absent(self.dialect.missing))
        if isinstance(source, Sequence):
            return table_of_rows(source, wanted=wanted, exact=exact, missing=absent(self.dialect.missing))
        raise DataError("This encoding reads tables: give a file, a frame or rows with named columns, not a matrix.")

    def _wanted(self, labels: bool) -> dict[str, Kind]:
        """Return the columns to read, and how."""
        sources = {one.name: one.source for one in self.derived}
        wanted: dict[str, Kind] = dict.fromkeys((sources.get(name, name) for name in self.vocabularies), "text")
        for feature in self.features:
            if not isinstance(feature, OneHot):
                number = isinstance(feature, Numeric) and feature.column not in sources
                wanted[sources.get(feature.column, feature.column)] = "number" if number else "text"
        if labels:
            label: Kind = "number" if self.target.classes is None else "text"
            wanted |= dict.fromkeys(self.target.names, label)
        return wanted

    def _read(self, path: Path, wanted: Mapping[str, Kind] | None) -> Table:
        kind = form(path, delimited=self.dialect.delimiter is not None)
        if kind not in ("csv", "parquet"):
            raise DataError(f"{path} holds a matrix, but the model was trained on a table; name a CSV or Parquet file.")
        if kind == "parquet":
            from erasurehead.datasets._readers.parquet import parquet_columns, read_parquet

            wanted = dict.fromkeys(parquet_columns(path), "text") if wanted is None else wanted
            return read_parquet(path, wanted, _looked_up(wanted), absent(self.dialect.missing))
        return read_csv(path, self._layout(path), (lambda name: "text") if wanted is None else wanted.get)

    def blocks(self, path: Path, first: int, last: int) -> Iterator[Table]:
        """Yield some rows of a folder of Parquet files, with their labels, as tables of some rows each.

        Arguments:
            path: of the folder.
            first: number of the first row.
            last: number of the row behind the last one.
        """
        from erasurehead.datasets._readers.parquet import parquet_blocks

        wanted = self._wanted(True)
        yield from parquet_blocks(
            path, wanted, exact=_looked_up(wanted), missing=absent(self.dialect.missing), span=(first, last)
        )

    def _layout(self, path: Path) -> TableLayout:
        """Return how a file is laid out, of which the header is known, and the decimal mark if nothing contradicts."""
        dialect = replace(self.dialect, header=self.header, names=())
        alike = dialect.decimal or "."
        if self.header and not self.dialect.names:
            layout, expected = look(path, dialect, alike), {*self.columns, *self.target.names}
            if alike == "," == layout.delimiter and index_columns(layout.names):  # or it is a column, with decimals
                column = look(path, replace(dialect, delimiter=";", quotes="none"), alike)
                layout = column if expected & set(column.names) else layout
            if not expected & set(layout.names):
                raise DataError(
                    f"{path}, line {layout.skip}: there must be a header with the columns' names, such as "
                    f"{next(iter(self._wanted(False)))!r}; it has {', '.join(map(repr, layout.names[:3]))}."
                )
            return layout
        width, names = n_fields(path, dialect), self.columns
        if width == len(names) - 1:
            names = tuple(name for name in names if name != self.target.name)
        if width != len(names):
            raise DataError(
                f"{path}, line 1: {counted('field', width)} instead of {len(self.columns)}; the model was trained on "
                f"the columns {', '.join(self.columns[:30])}."
            )
        layout = look(path, replace(dialect, names=names), alike)
        if not self.header and look(path, replace(dialect, header=None, names=names), alike).header:
            self._refuse_header(path, layout)
        return layout

    def _refuse_header(self, path: Path, layout: TableLayout) -> None:
        """Raise if the first line of a file of data has nothing in it that the model knows.

        Raises:
            DataError: that names the line.
        """
        wanted = self._wanted(False)
        block = next(csv_blocks(path, layout, lambda name: "text" if name in wanted else None), None)
        if block is None:
            return
        sources = {one.source for one in self.derived}
        block = replace(block, columns={name: one for name, one in block.columns.items() if name not in sources})
        first = {name: as_texts(column.take(np.arange(1))) for name, column in block.columns.items()}
        vocabularies = {name: codes for name, codes in self.vocabularies.items() if name in first}
        texts = {feature.column for feature in self.features if isinstance(feature, Words)}
        seen = any(codes.codes(first[name])[0] >= 0 for name, codes in vocabularies.items())
        words = any(np.isnan(first[name].numbers()[0]) for name in first.keys() - vocabularies.keys() - texts)
        line = [text for column in first.values() for text in column.used()]
        if line and len(line) == len(first) and not seen and (words or block.n_rows > 1):
            raise DataError(
                f"{block.place(0)}: {', '.join(line)[:200]!r} looks like a header, but the model was trained on a file "
                "without one; leave that line out, or put another row before it if it is one."
            )

    def encode(self, table: Table, parts: Sequence[IntArray | None] = (None,)) -> list[Encoded]:
        """Return the design matrices of parts of a table, without labels.

        Arguments:
            table: holds at least the columns that the features use.
            parts: the rows of each matrix, in its order; None for all.

        Raises:
            DataError: if a column is missing, or a column of numbers holds texts.
        """
        orders = {one.name: table.column(one.source).missing() for one in self.derived if one.kind == "ordinal"}
        table = with_derived(table, self.derived)
        codes = {name: vocabulary.codes(table.column(name)) for name, vocabulary in self.vocabularies.items()}
        absent = {name: table.column(name).missing() for name in self.vocabularies}
        blocks: list[CodeBlock | NumberBlock | WordBlock] = []
        missing: dict[str, BoolArray] = {}
        unseen: dict[str, BoolArray] = {}
        for feature in self.features:
            if isinstance(feature, Numeric):
                values = table.numbers(feature.column)
                none = np.isnan(values)
                missing[feature.column] = orders.get(feature.column, none)
                unseen[feature.column] = none & ~missing[feature.column]  # texts that are in no order
                filled = np.where(none, feature.fill, values)
                with np.errstate(over="ignore"):
                    scaled = (filled - feature.mean) / feature.scale
                if len(large := np.flatnonzero(np.abs(scaled) > LARGEST)):
                    raise too_large(table.place(large[0]), feature.column, float(values[large[0]]))
                blocks.append(NumberBlock(scaled))
            elif isinstance(feature, Words):
                missing[feature.column] = table.column(feature.column).missing()
                blocks.append(word_block(table.column(feature.column), feature))
            else:
                row_codes = self._codes(feature, codes)
                none = np.logical_or.reduce([absent[name] for name in feature.columns])
                missing[feature.label], unseen[feature.label] = none, (row_codes < 0) & ~none
                blocks.append(CodeBlock(row_codes, self.width(feature)))
        encoded: list[Encoded] = []
        for rows in parts:
            X = design(blocks, rows, self.constant, table.n_rows)
            encoded.append(
                Encoded(X, None, EncodingReport(int(X.shape[0]), _counts(unseen, rows), _counts(missing, rows)))
            )
        return encoded

    def feature_codes(self, feature: OneHot, table: Table) -> Codes:
        """Return which of a feature's columns has the 1 of each row of a table; -1 for none."""
        return self._codes(
            feature, {name: self.vocabularies[name].codes(table.column(name)) for name in feature.columns}
        )

    def _codes(self, feature: OneHot, codes: Mapping[str, Codes]) -> Codes:
        if feature.keys is None:
            return codes[feature.columns[0]]
        sizes = [self.vocabularies[name].size for name in feature.columns]
        keys = joint_keys([codes[name] for name in feature.columns], sizes)
        places = np.searchsorted(feature.keys, keys)
        places[places == len(feature.keys)] = 0
        return np.where(feature.keys[places] == keys, places, -1).astype(np.int32)

    def to_dict(self) -> PlainData:
        facts = super().to_dict()
        facts |= facts.pop("dialect", {})
        return facts | ({"renamed": bool(facts.pop("names"))} if self.dialect.names else {})

    @classmethod
    def from_dict(cls, data: Entries) -> Self:
        dialect = {key: data.get(key) for key in ("delimiter", "decimal", "quotes")}
        encoding = super().from_dict({**data, "dialect": {**dialect, "missing": data.get("missing") or []}})
        names = encoding.columns if data.get("renamed") else ()
        for feature in (one for one in encoding.features if isinstance(one, OneHot)):
            if lacks := [name for name in feature.columns if name not in encoding.vocabularies]:
                raise Unfit(f"there is no vocabulary of column {lacks[0]!r}")
            most = math.prod(encoding.vocabularies[name].size for name in feature.columns)
            if feature.keys is not None and (feature.keys >= most).any():
                raise Unfit(f"there are {most} combinations of {feature.label}, and a key beyond them")
        if data.get("version", VERSION) < VERSION:
            _check_exact({**encoding.vocabularies, encoding.target.name: encoding.target.classes})
        written = encoding.dialect
        checked = check_dialect(written.delimiter, None, names, written.decimal, written.quotes, written.missing)
        return replace(encoding, dialect=checked)


def _check_exact(vocabularies: Mapping[str, Vocabulary | None]) -> None:
    """Raise if values of version 1 may have been rounded to one."""
    for name, vocabulary in vocabularies.items():
        if isinstance(vocabulary, NumberVocabulary) and bool((np.abs(vocabulary.values) >= EXACT).any()):
            raise DataError(
                f"The encoding is of an earlier version, which could take different whole numbers beyond {EXACT:,} in "
                f"column {name!r} for one; train again."
            )


def as_read(dialect: Dialect, layout: TableLayout) -> Dialect:
    """Return what is known of how a file is written: what the user said, and decimal commas that were seen."""
    return replace(dialect, header=None, decimal="," if layout.decimal == "," else dialect.decimal)


def _looked_up(wanted: Mapping[str, Kind]) -> tuple[str, ...]:
    """Return the columns whose values are looked up, or shown, and so must not be rounded."""
    return tuple(name for name, kind in wanted.items() if kind == "text")


def _counts(which: Mapping[str, BoolArray], rows: IntArray | None) -> dict[str, int]:
    chosen = slice(None) if rows is None else rows
    counts = {label: int(np.count_nonzero(mask[chosen])) for label, mask in which.items()}
    return {label: count for label, count in counts.items() if count}
