"""The single answers of workers in some steps, looked up in a file of arrivals that may be far too long to be read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from erasurehead._internal.documents import Entries
from erasurehead._internal.storage.folders import Folder
from erasurehead.errors import DataError
from erasurehead.runs._jsonl import object_in
from erasurehead.runs._names import ARRIVALS
from erasurehead.watch._columns import number

_PIECE = 1 << 16  # bytes that are read at once
_PROBED = 1 << 20  # bytes in which an answer in time is looked for

FIELDS = ("round", "worker", "message", "started", "seconds", "censored", "late", "used")
"""What is told of an answer, in this order."""


def answers(place: Path, first: float, last: float, low: int, high: int, most: int) -> list[list[Any]]:
    """Return the answers of some workers in some steps, by `FIELDS`; none if they cannot be read.

    Arguments:
        place: the run's folder.
        first, last: the first and the last step.
        low, high: the first worker, and one more than the last.
        most: the most answers to return.
    """
    found: list[list[Any]] = []
    try:
        with Folder.open(place) as folder:
            file = folder.opened(ARRIVALS)
        try:
            for row in map(_row, _lines(file, _begin_of(file, first))):
                if number(row, "step") > last or len(found) == most:
                    break
                if number(row, "step") >= first and low <= number(row, "worker") < high:
                    found.append([row.get(name) for name in FIELDS])
        finally:
            os.close(file)
    except (OSError, DataError):
        return found
    return found


def _begin_of(file: int, step: float) -> int:
    """Return a place in a file of arrivals, the beginning of a line, before which there is nothing of a step.

    Rows are in the order of steps, but for answers that came late, which are passed over here.
    """
    low, high = 0, os.fstat(file).st_size
    while high - low > _PIECE:
        middle = (low + high) // 2
        lines = _lines(file, middle, middle + _PROBED)
        begin = middle + len(next(lines, b"")) + 1
        row = next((row for row in map(_row, lines) if row.get("late") is not True), None)
        if row is None or number(row, "step") >= step:
            high = middle
        else:
            low = begin
    return low


def _row(line: bytes) -> Entries:
    return object_in(line, Path(ARRIVALS), 0)


def _lines(file: int, begin: int, end: float = float("inf")) -> Iterator[bytes]:
    """Yield what there is from a place on, line by line: the rest of the first one, and whole ones."""
    rest = b""
    while begin < end and (piece := os.pread(file, _PIECE, begin)):
        begin += len(piece)
        *whole, rest = (rest + piece).split(b"\n")
        yield from whole
