"""svmlight/LIBSVM files: `label index:value ...`, one row per line, read in blocks and parsed as whole arrays."""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.datasets._matrices import MAX_INDEX, csr
from erasurehead.datasets._readers.fields import parse
from erasurehead.datasets._readers.files import blocks
from erasurehead.errors import DataError

if TYPE_CHECKING:
    from erasurehead._internal.arrays import SparseMatrix

_COMMENT = re.compile(rb"#[^\n]*")
_QUERY = re.compile(rb"\sqid:\d+")


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Rows of index-value pairs, as in a file.

    Arguments:
        labels: label of each row, shape (n_rows,).
        indices: as written, 0- or 1-based, ascending within each row, shape (n_entries,).
        values: values of the entries, shape (n_entries,).
        counts: number of entries of each row, shape (n_rows,).
        lines: line number of each row, from 1, shape (n_rows,).
    """

    labels: Array
    indices: IntArray
    values: Array
    counts: IntArray
    lines: IntArray


def read_svmlight(path: Path) -> SparseRows:
    """Read an svmlight/LIBSVM file, compressed or not. Comments (`#`) and `qid:` are skipped.

    Raises:
        DataError: if a line is malformed, its indices do not ascend, or a number is not finite; the message
            names the line.
    """
    parsed = list(svmlight_blocks(path))
    if not parsed:
        raise DataError(f"{path} has no rows of data.")
    return SparseRows(
        *(np.concatenate([getattr(part, name) for part in parsed]) for name in SparseRows.__dataclass_fields__)
    )


def svmlight_blocks(path: Path) -> Iterator[SparseRows]:
    """Yield the rows of a file in blocks of a few megabytes, none of them empty.

    Raises:
        DataError: as for `read_svmlight`, when the block is reached.
    """
    parsed = (_parse(text, first, path) for first, text in blocks(path))
    return (part for part in parsed if len(part.labels))


def looks_like_svmlight(path: Path) -> bool:
    """Return whether the first nonblank line of a file is a number followed by pairs with a colon."""
    for _, text in blocks(path, 1 << 16):
        fields = next((line.split() for line in _COMMENT.sub(b"", text).split(b"\n") if line.strip()), None)
        if fields is not None:
            label = parse(fields[0].decode("latin-1"))
            return math.isfinite(label) and len(fields) > 1 and all(b":" in field for field in fields[1:])
    return False


def zero_based(rows: SparseRows) -> bool:
    """Return whether indices count from 0, which is so if one of them is 0. Otherwise they count from 1."""
    return bool(len(rows.indices)) and int(rows.indices.min()) == 0


def matrix(rows: SparseRows, n_columns: int, base: int) -> tuple[SparseMatrix, int]:
    """Return rows as a CSR matrix, and the number of rows with entries that were left out as beyond the matrix.

    Arguments:
        rows: as read.
        n_columns: number of columns.
        base: index of the first column, 0 or 1.
    """
    columns = rows.indices - base
    inside = (columns >= 0) & (columns < n_columns)
    owners = np.repeat(np.arange(len(rows.counts)), rows.counts)
    counts = np.bincount(owners[inside], minlength=len(rows.counts))
    ends = np.concatenate(([0], np.cumsum(counts))).astype(np.int32)
    X = csr(rows.values[inside], columns[inside].astype(np.int32), ends, (len(rows.counts), n_columns))
    return X, len(np.unique(owners[~inside]))


def _parse(text: bytes, first: int, path: Path) -> SparseRows:
    """Parse a block of whole lines: all numbers at once; the format is checked by the order of blanks and colons."""
    if b"#" in text:
        text = _COMMENT.sub(b"", text)
    if b"qid:" in text:
        text = _QUERY.sub(b"", text)
    lines = [b" ".join(line.split()) for line in text.split(b"\n")[:-1]]
    split = [line.partition(b" ") for line in lines if line]
    counts = np.array([rest.count(b":") for _, _, rest in split], dtype=np.int64)
    labels = _numbers(b" ".join(label for label, _, _ in split), len(split))
    joined = b" ".join(rest for _, _, rest in split if rest)
    pairs = _numbers(joined.replace(b":", b" "), 2 * int(counts.sum())) if _alternates(joined) else None
    if labels is None or pairs is None or not _rise(pairs[0::2], counts):
        raise _fault(lines, first, path)
    numbers = first + np.flatnonzero([bool(line) for line in lines])
    return SparseRows(labels, pairs[0::2].astype(np.int64), pairs[1::2].copy(), counts, numbers)


def _alternates(joined: bytes) -> bool:
    """Return whether colons and single blanks alternate, beginning and ending with a colon."""
    letters = np.frombuffer(joined, dtype=np.uint8)
    marks = letters[(letters == ord(":")) | (letters == ord(" "))]
    return len(marks) == 0 or (
        len(marks) % 2 == 1 and bool((marks[0::2] == ord(":")).all() and (marks[1::2] == ord(" ")).all())
    )


def _numbers(text: bytes, count: int) -> Array | None:
    """Return the blank-separated numbers of a text; None if they are not `count` finite numbers."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # where the text is not a number, numpy warns, and returns what it has
            numbers = np.fromstring(text, dtype=np.float64, sep=" ")
    except (ValueError, DeprecationWarning):
        return None
    return numbers if len(numbers) == count and bool(np.isfinite(numbers).all()) else None


def _rise(indices: Array, counts: IntArray) -> bool:
    """Return whether indices are nonnegative integers that ascend within each row."""
    first = np.zeros(len(indices) + 1, dtype=bool)
    first[np.cumsum(counts)] = True
    first[0] = True
    rises = (np.diff(indices, prepend=-1.0) > 0) | first[:-1]
    return bool(rises.all() and (indices >= 0).all() and (indices < MAX_INDEX).all() and (indices % 1 == 0).all())


def _fault(lines: Sequence[bytes], first: int, path: Path) -> DataError:
    """Return the error for the first wrong line of a block, found by parsing it line by line."""
    for number, line in enumerate(lines, start=first):
        fields = line.decode("utf-8", errors="replace").split()
        before = -1.0
        for place, field in enumerate(fields):
            index, colon, value = field.partition(":") if place else ("0", ":", field)
            what = "the label" if place == 0 else "the pair"
            if not (colon and math.isfinite(parse(index)) and math.isfinite(parse(value))):
                form = "a finite number" if place == 0 else "of the form index:value with finite numbers"
                first_pair = place == 0 and ":" in field
                hint = "; a line begins with its label: write 0 where it is not known" if first_pair else ""
                return DataError(f"{path}, line {number}: {what} {field!r} is not {form}{hint}.")
            if place and not (parse(index).is_integer() and 0 <= parse(index) < MAX_INDEX):
                return DataError(
                    f"{path}, line {number}: the index of {field!r} is not a whole number from 0 to {MAX_INDEX - 1:,}."
                )
            if place and parse(index) <= before:
                return DataError(f"{path}, line {number}: indices must ascend, but {index} comes after {before:.0f}.")
            before = parse(index) if place else before
    return DataError(f"{path}, lines {first} to {first + len(lines) - 1}: not in svmlight form.")
