"""The encoding of matrices: columns stay as they are; it keeps their number and the meaning of the labels."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, cast

from erasurehead._internal.typed import COUNT
from erasurehead._internal.user_files import StrPath, readable
from erasurehead.datasets._encoded import Encoded, EncodingReport
from erasurehead.datasets._matrices import LARGEST, Matrix, check_matrix, split_last_column, too_large, with_constant
from erasurehead.datasets._preprocessing.encoding import CONSTANT, Encoding, Source
from erasurehead.datasets._preprocessing.target import Target
from erasurehead.datasets._readers.arrays import Arrays, read_arrays, read_labels
from erasurehead.datasets._readers.frames import is_frame
from erasurehead.datasets._readers.table import NumberColumn, Table
from erasurehead.errors import DataError, counted


@dataclass(frozen=True, eq=False)
class ArrayEncoding(Encoding, kind="arrays"):
    """How the rows of a matrix become rows of the design matrix: unchanged, with an optional constant.

    Arguments:
        n_features: number of columns of the matrix, without labels and constant.
        target: how labels become numbers.
        constant: whether the design matrix has a last column of ones.
        base: for svmlight files: index of the first column, 0 or 1.
        labels_last: whether the last column of a training matrix held the labels; a matrix with one column more
            than `n_features` then has labels.
    """

    n_features: Annotated[int, COUNT]
    target: Target
    constant: bool = True
    base: Annotated[int, COUNT] = 0
    labels_last: bool = False

    @property
    def n_columns(self) -> int:
        return self.n_features + self.constant

    @property
    def column_names(self) -> tuple[str, ...]:
        names = tuple(str(self.base + place) for place in range(self.n_features))
        return (*names, CONSTANT) if self.constant else names

    def apply(self, source: Source, labels: bool | StrPath = True) -> Encoded:
        if isinstance(source, str | os.PathLike):
            source = readable(source)
        arrays = self._arrays(source)
        raw_labels = arrays.y
        if not isinstance(labels, bool):
            beside = source if isinstance(source, Path) else Path()
            raw_labels = read_labels(labels, beside, int(arrays.X.shape[0]))
        design = self.design(arrays)
        unseen = {f"columns beyond {self.n_features}": arrays.beyond} if arrays.beyond else {}
        report = EncodingReport(int(design.shape[0]), unseen, {})
        if labels is False or raw_labels is None:
            return Encoded(design, None, report)
        y, _ = self.target.apply(NumberColumn(raw_labels), arrays.place)
        return Encoded(design, y, report)

    def design(self, arrays: Arrays) -> Matrix:
        """Return the design matrix of some rows.

        Raises:
            DataError: if a number is too large to square.
        """
        X: Any = arrays.X
        if min(X.shape) and max(X.max(), -X.min()) > LARGEST:
            row, column = (int(places[0]) for places in (abs(X) > LARGEST).nonzero())
            raise too_large(arrays.place(row), self.column_names[column], X[row, column])
        return with_constant(X) if self.constant else X

    def _arrays(self, source: Source) -> Arrays:
        if isinstance(source, str | os.PathLike):
            arrays = read_arrays(readable(source), self.n_features, self.base)
        elif isinstance(source, Table) or _are_mappings(source) or is_frame(source):
            raise DataError("This encoding reads matrices: give a svmlight, npz or npy file or a matrix, not a table.")
        else:
            arrays = Arrays(check_matrix(source, "the matrix"), None, lambda row: f"the matrix, row {row}")
        width = int(arrays.X.shape[1])
        if self.labels_last and width == self.n_features + 1:
            rest, y = split_last_column(arrays.X)
            return Arrays(rest, y, arrays.place)
        if width != self.n_features:
            name = str(source) if isinstance(source, str | os.PathLike) else "The matrix"
            more = f" (or {self.n_features + 1} with labels)" if self.labels_last else ""
            raise DataError(
                f"{name} has {counted('column', width)}, but the model was trained on {self.n_features}{more}."
            )
        return arrays


def _are_mappings(source: Any) -> bool:
    return isinstance(source, list) and all(isinstance(row, Mapping) for row in cast("list[object]", source))
