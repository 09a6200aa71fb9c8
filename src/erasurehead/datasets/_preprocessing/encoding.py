"""The fitted encoding: how raw rows become rows of the design matrix, saved beside a model as JSON."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Self, TypeAlias

from erasurehead._internal.arrays import Array
from erasurehead._internal.documents import Entries, PlainData, from_json
from erasurehead._internal.storage.sealed import Unfit
from erasurehead._internal.typed import maker, written
from erasurehead._internal.user_files import StrPath
from erasurehead.datasets._encoded import Encoded
from erasurehead.datasets._matrices import Matrix
from erasurehead.datasets._preprocessing.target import Target
from erasurehead.datasets._readers.table import Table
from erasurehead.errors import DataError, ErasureHeadError

if TYPE_CHECKING:
    from erasurehead.datasets._readers.frames import Frame

CONSTANT = "(constant)"
"""The name of the column of ones."""

FORMAT = "erasurehead-encoding"
VERSION = 2
_READ = (1, VERSION)
"""Versions that can be read; the first rounded whole numbers beyond 2^53 that were categories."""

Source: TypeAlias = "StrPath | Table | Frame | Sequence[Mapping[str, object]] | Matrix"
"""Data that can be encoded: a file, a table, a DataFrame, rows as mappings from column name to value, or a matrix."""


class Encoding(ABC):
    """How raw rows become rows of the design matrix and labels become numbers.

    Attributes:
        target: how labels become numbers.
        constant: whether the last column of the matrix is ones.
    """

    target: Target
    constant: bool
    _kinds: ClassVar[dict[str, type[Encoding]]] = {}

    def __init_subclass__(cls, *, kind: str) -> None:
        """Register a kind of encoding by its name, for `from_json`."""
        Encoding._kinds[kind] = cls

    @property
    @abstractmethod
    def n_columns(self) -> int:
        """Number of columns of the design matrix, the constant included."""

    @abstractmethod
    def apply(self, source: Source, labels: bool | StrPath = True) -> Encoded:
        """Encode data that the encoding may never have seen.

        Arguments:
            source: a file in the format of the training file, or rows in memory.
            labels: whether to look for labels. With False every row is kept, whatever its label. For arrays it may
                be the file that holds the labels.

        Returns:
            The design matrix, the labels (None if there are none or they were not requested), and a report that counts
            unseen and missing values by column.

        Raises:
            DataError: if the data cannot be used: a missing column, a field that is not a number, a label
                that is not one of the classes; the message says where.
        """

    def texts(self, source: Source, names: Sequence[str] = ()) -> dict[str, list[str]]:
        """Return columns of data by name, as texts, row by row; a missing value is empty.

        Arguments:
            source: as for `apply`.
            names: the columns; empty for all.

        Raises:
            DataError: if the data cannot be used, have no such column, or are a matrix.
        """
        raise DataError("The rows of a matrix have no columns with names that could stand beside predictions.")

    @property
    @abstractmethod
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns of the design matrix: `size`, `town=Ely`, `town=Ely x year=1999`, `(constant)`."""

    @property
    def standardization(self) -> Mapping[str, tuple[float, float]]:
        """For each column of numbers, its shift and its divisor; without columns that are not standardised."""
        return {}

    def named_coefficients(self, weights: Array, standardized: bool = False) -> dict[str, float]:
        """Return the coefficients by column, for values as in the file, or for standardised values.

        Arguments:
            weights: one per column of the design matrix.
            standardized: whether coefficients of numbers refer to the standardised values.
        """
        return dict(zip(self.column_names, weights.tolist(), strict=True))

    def to_dict(self) -> PlainData:
        """Return the encoding as plain JSON data, with its `kind`."""
        return {"kind": next(kind for kind, own in Encoding._kinds.items() if own is type(self)), **written(self)}

    @classmethod
    def from_dict(cls, data: Entries) -> Self:
        """Return the encoding that `to_dict` returned as plain data, with the version of its file if that has one.

        Raises:
            Unfit: if it is damaged.
            DataError: if its version is not right about what it holds.
        """
        return maker(cls)(data)

    def to_json(self) -> str:
        """Return the encoding as JSON. Vocabularies of integers are written as differences, which keeps them short."""
        return json.dumps({"format": FORMAT, "version": VERSION, **self.to_dict()}, separators=(",", ":"))

    @staticmethod
    def from_json(text: str | bytearray) -> Encoding:
        """Return the encoding that `to_json` wrote.

        Raises:
            DataError: if the text is not such JSON, has a later version, or an earlier one that rounded categories.
        """
        try:
            data = from_json(text)
            if data["format"] != FORMAT or data["version"] not in _READ:
                version = f"{data['format']} of version {data['version']}"
                raise DataError(f"The encoding must be {FORMAT} of version {VERSION}, but it is {version}.")
            return Encoding._kinds[data["kind"]].from_dict(data)
        except DataError:
            raise
        except Unfit as error:
            raise DataError(f"The encoding is damaged: {error}.") from None
        except (ErasureHeadError, LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
            raise DataError(
                f"This is not an encoding that erasurehead wrote ({type(error).__name__}: {error})."
            ) from None
