"""Opening data files, compressed or not, with errors that say where they are truncated."""

from __future__ import annotations

import io
import re
from collections import deque
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

from erasurehead._internal.user_files import BROKEN, broken_off, check_text, open_bytes, other_encoding
from erasurehead.errors import DataError

_NEWLINE = re.compile(rb"\r\n|\r|\n")


def suffix(path: Path) -> str:
    """Return the suffix of a file name in lower case, ignoring that of its compression.

    >>> suffix(Path("a/train.CSV.gz"))
    '.csv'
    """
    endings = [ending.lower() for ending in path.suffixes]
    while endings and endings[-1] in {".gz", ".bz2"}:
        endings.pop()
    return endings[-1] if endings else ""


class Lines(Iterator[str]):
    """The lines of a text file (UTF-8), one by one.

    Attributes:
        count: number of lines read so far.
        last: the last one, with its newline if it has one.
        n_empty: how many rows at the end of a table had nothing in any field, when all have been read.
    """

    def __init__(self, stream: BinaryIO, path: Path) -> None:
        self._stream = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        self._path = path
        self.count = 0
        self.last = ""
        self.n_empty = 0

    def __next__(self) -> str:
        try:
            self.last = next(self._stream)
        except UnicodeDecodeError as error:
            # The stream decodes blocks of many lines; all lines of earlier blocks have been counted.
            line = self.count + 1 + len(_NEWLINE.findall(error.object, 0, error.start))
            raise DataError(
                f"{self._path}, line {line}: not UTF-8 text (byte {error.object[error.start]:#04x})"
                f"{other_encoding(error.object)}."
            ) from None
        except BROKEN as error:
            raise broken_off(self._path, self.count, error) from None
        self.count += 1
        return self.last


@contextmanager
def text_lines(path: Path) -> Generator[Lines]:
    """Open a text file for reading line by line.

    Raises:
        DataError: on reading, if the file is truncated, damaged or not UTF-8; the error names the line.
    """
    check_text(path)
    with open_bytes(path) as stream:
        yield Lines(stream, path)


def blocks(path: Path, size: int = 1 << 22) -> Iterator[tuple[int, bytes]]:
    """Yield the text of a file in blocks of whole lines, each with the number of its first line, from 1.

    Every block ends in a newline; one is added to the last if it has none.

    Raises:
        DataError: if the file is truncated or damaged; the error names the line.
    """
    check_text(path)
    line, rest = 1, b""
    with open_bytes(path) as stream:
        while True:
            try:
                read = stream.read(size)
            except BROKEN:
                with text_lines(path) as lines:
                    deque(lines, 0)  # which says after what line
                raise
            if not read:
                break
            if line == 1 and not rest:
                read = read.removeprefix(b"\xef\xbb\xbf")
            whole, newline, tail = (rest + read).rpartition(b"\n")
            rest = tail
            if newline:
                yield line, whole + newline
                line += whole.count(b"\n") + 1
    if rest:
        yield line, rest + b"\n"
