"""Opening data files, compressed or not, and saying where they break off."""

from __future__ import annotations

import bz2
import gzip
import io
import re
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

from erasurehead.errors import DataError
from erasurehead.files import other_encoding

_COMPRESSED = (".gz", ".bz2")
_MARK = b"\xff\xfe"
_NEWLINE = re.compile(rb"\r\n|\r|\n")
_BROKEN = (EOFError, zlib.error, gzip.BadGzipFile, OSError)


def suffix(path: Path) -> str:
    """Return the ending of a file name in lower case, without that of its compression.

    >>> suffix(Path("a/train.CSV.gz"))
    '.csv'
    """
    endings = [ending.lower() for ending in path.suffixes]
    while endings and endings[-1] in {".gz", ".bz2"}:
        endings.pop()
    return endings[-1] if endings else ""


def open_bytes(path: Path) -> BinaryIO:
    """Open a file for reading bytes, through gzip or bz2 if it begins as their files do, whatever its name.

    Raises:
        DataError: if it cannot be opened, or its name says that it is compressed and it is not.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(3)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    if magic[:2] == b"\x1f\x8b":
        return cast("BinaryIO", gzip.open(path, "rb"))
    if magic == b"BZh":
        return cast("BinaryIO", bz2.open(path, "rb"))
    if path.suffix.lower() in _COMPRESSED and magic:
        raise DataError(f"{path} is not compressed, although its name ends in {path.suffix}; take that off its name.")
    return path.open("rb")


def beginning(path: Path, size: int = 4096) -> bytes:
    """Return the first bytes of a file, decompressed.

    Raises:
        DataError: if the file cannot be read.
    """
    with open_bytes(path) as stream:
        try:
            return stream.read(size)
        except _BROKEN as error:
            raise broken_off(path, 0, error) from None


def check_text(path: Path) -> None:
    """Raise if a file begins as no text in UTF-8 does.

    Raises:
        DataError: saying what it is and what to do.
    """
    first = beginning(path)
    wide = first[:2] in (b"\xff\xfe", b"\xfe\xff") or (len(first) > 3 and first[1::2].count(0) > len(first) // 4)
    if wide:
        raise DataError(f"{path}, line 1: not a text in UTF-8{other_encoding(first if first[0] > 127 else _MARK)}.")
    if 0 in first:
        raise DataError(f"{path} is not a text: byte {first.index(0)} of it is 0. Name a text file, or convert it.")


class Lines(Iterator[str]):
    """The lines of a text file (UTF-8), one by one.

    Attributes:
        count: lines read so far.
        last: the last of them, with its newline if it has one.
    """

    def __init__(self, stream: BinaryIO, path: Path) -> None:
        self._stream = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
        self._path = path
        self.count = 0
        self.last = ""

    def __next__(self) -> str:
        try:
            self.last = next(self._stream)
        except UnicodeDecodeError as error:
            # The stream decodes blocks of many lines; those of earlier blocks have all been counted.
            line = self.count + 1 + len(_NEWLINE.findall(error.object, 0, error.start))
            raise DataError(
                f"{self._path}, line {line}: not a text in UTF-8 (byte {error.object[error.start]:#04x})"
                f"{other_encoding(error.object)}."
            ) from None
        except _BROKEN as error:
            raise broken_off(self._path, self.count, error) from None
        self.count += 1
        return self.last


def broken_off(path: Path, line: int, error: Exception) -> DataError:
    """Return the error for a file that cannot be read any further."""
    return DataError(f"{path}, after line {line}: the file is cut off or damaged ({error}).")


@contextmanager
def text_lines(path: Path) -> Generator[Lines]:
    """Open a text file for reading line by line.

    Raises:
        DataError: on reading, if the file is cut off, damaged or not UTF-8, naming the line.
    """
    check_text(path)
    with open_bytes(path) as stream:
        yield Lines(stream, path)


def blocks(path: Path, size: int = 1 << 22) -> Iterator[tuple[int, bytes]]:
    """Yield the text of a file in blocks of whole lines, each with the number of its first line, from 1.

    Every block ends in a newline; one is added to the last if it has none.

    Raises:
        DataError: if the file is cut off or damaged, naming the line.
    """
    check_text(path)
    line, rest = 1, b""
    with open_bytes(path) as stream:
        while True:
            try:
                read = stream.read(size)
            except _BROKEN as error:
                raise broken_off(path, line - 1 + rest.count(b"\n"), error) from None
            if not read:
                break
            whole, newline, tail = (rest + read).rpartition(b"\n")
            rest = tail
            if newline:
                yield line, whole + newline
                line += whole.count(b"\n") + 1
    if rest:
        yield line, rest + b"\n"
