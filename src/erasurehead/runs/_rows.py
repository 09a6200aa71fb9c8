"""The rows of a run, in its folder: they are read when they are asked for, and take no memory before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Generic, TypeVar, cast, overload

from erasurehead._internal.typed import row_maker
from erasurehead.runs._jsonl import JsonlWriter, LinesOnDisk, object_in

_Row = TypeVar("_Row")

_KEPT = 1_000
"""Most rows that stay in memory once all of them were read."""


class RowsInFolder(Sequence[_Row], Generic[_Row]):
    """Rows that are read from their file, each time that they are asked for; those that are not in it are kept.

    Few rows stay in memory once all were read. A copy, or what is pickled, is a list.

    Arguments:
        kind: of the rows.
        path: of the file, for errors.

    Attributes:
        stored: the lines of the file; None before there is one.
        more: rows that could not be written any more, which follow those of the file.
    """

    def __init__(self, kind: type[_Row], path: Path) -> None:
        self.stored: LinesOnDisk | JsonlWriter | None = None
        self.more: list[_Row] = []
        self._path = path
        self._make = row_maker(kind, path)
        self._read: list[_Row] = []

    def __len__(self) -> int:
        if self.stored is None:
            return len(self.more)
        if isinstance(self.stored, JsonlWriter):
            self.stored.settle()
        return len(self.stored) + len(self.more)

    @overload
    def __getitem__(self, index: int) -> _Row: ...
    @overload
    def __getitem__(self, index: slice) -> list[_Row]: ...
    def __getitem__(self, index: int | slice) -> _Row | list[_Row]:
        if isinstance(index, slice):
            first, last, by = index.indices(len(self))
            if by == 1:
                return list(self._rows(first, last))
            return [self[place] for place in range(first, last, by)]
        count = len(self)
        place = index + count if index < 0 else index
        if not 0 <= place < count:
            raise IndexError(f"there are {count} rows, and {index} is none of them")
        return next(self._rows(place, place + 1))

    def __iter__(self) -> Iterator[_Row]:
        count = len(self)
        if count > _KEPT:
            return self._rows(0, count)
        if len(self._read) != count:
            self._read = list(self._rows(0, count))
        return iter(self._read)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        others = cast("Sequence[object]", other)
        return len(self) == len(others) and all(one == two for one, two in zip(self, others, strict=True))

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        return f"<{len(self):,} rows, to be read when they are asked for>"

    def __reduce__(self) -> tuple[type[list[_Row]], tuple[list[_Row]]]:
        return list, (list(self),)

    def _rows(self, first: int, last: int) -> Iterator[_Row]:
        written = 0 if self.stored is None else len(self.stored)
        if self.stored is not None and first < written:
            for number, line in enumerate(self.stored.read(first, last), start=first + 1):
                yield self._make(number, object_in(line, self._path, number))
        yield from self.more[max(0, first - written) : max(0, last - written)]
