"""Files of rows, one JSON object per line, that remain readable after any crash."""

from __future__ import annotations

import contextlib
import json
import math
import os
import weakref
from array import array
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, cast

from erasurehead._internal.atomic_files import unwritable
from erasurehead._internal.documents import Entries, PlainData, from_json
from erasurehead._internal.plain_text import invisible
from erasurehead._internal.storage.access import Access
from erasurehead._internal.storage.checksums import Checksum, Running
from erasurehead._internal.storage.folders import Folder, write_all
from erasurehead.errors import DataError, RecordsError, counted, unreadable

_MARKED = 64
"""Number of lines after which the place of the next one is kept."""

_PIECE = 1 << 18  # bytes that are read at once

_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


def to_line(data: Entries) -> str:
    """Return data as one line of JSON; numbers that are not finite, which JSON does not have, become null."""
    try:
        return _encode(data) + "\n"
    except ValueError:
        return _encode(_finite(data)) + "\n"


def to_text(data: Any) -> str:
    """Return data as JSON for people: indented, numbers that are not finite as null, what cannot be seen as escapes."""
    text = json.dumps(_finite(data), allow_nan=False, indent=2, ensure_ascii=False) + "\n"
    if text.isascii() and "\x7f" not in text:
        return text
    return "".join(
        json.dumps(letter)[1:-1] if not letter.isprintable() and letter != "\n" and invisible(letter) else letter
        for letter in text
    ).replace("\x7f", "\\u007f")


def read_lines(path: Path) -> list[PlainData]:
    """Read the objects of a file, without a truncated last line.

    Arguments:
        path: path of the file, which must not be a link.

    Returns:
        The objects; empty if there is no such file.

    Raises:
        DataError: if a line before the last is damaged.
    """
    try:
        with Folder.open(path.parent) as folder:
            data = folder.read(path.name)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unreadable(path, error) from None
    return lines_in(data, path)


def lines_in(data: bytes, path: Path) -> list[PlainData]:
    """Return the objects in the bytes of a file; arguments and errors as for `read_lines`."""
    lines = data.split(b"\n")[:-1]  # whatever follows the last newline is incomplete
    return [object_in(line, path, number) for number, line in enumerate(lines, start=1)]


def object_in(line: bytes, path: Path, number: int) -> PlainData:
    """Return the object in a line of a file.

    Raises:
        DataError: if it holds none; the error names the file and the number of the line.
    """
    text = line.decode(errors="replace")
    try:
        row = from_json(text)
    except ValueError as error:
        reason = error.msg if isinstance(error, json.JSONDecodeError) else error
        raise DataError(f"{path}, line {number}: not JSON ({reason}).") from None
    if not isinstance(row, dict):
        raise DataError(f"{path}, line {number}: must be an object with keys, but it is {text[:40]!r}.")
    return cast("dict[str, Any]", row)


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in cast("list[Any]", value)]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class LinesOnDisk:
    """The lines of a file of rows, read again when they are asked for; an eighth of a byte a line stays in memory.

    They can be read as long as this object lives, also if the file has been removed meanwhile.

    Arguments:
        file: descriptor of the file; it is duplicated.
        path: of the file, for errors.

    Attributes:
        size: bytes of these lines, from the beginning of the file.
    """

    def __init__(self, file: int, path: Path) -> None:
        self._path = path
        self._file = os.dup(file)
        weakref.finalize(self, os.close, self._file)
        self.size = 0
        self._count = 0
        self._marks = array("Q")  # where every 64th line begins

    @classmethod
    def of(cls, file: int, path: Path, size: int) -> LinesOnDisk:
        """Return the whole lines in the first bytes of a file."""
        lines = cls(file, path)
        for line in lines._read(0, size):
            lines.add(line)
        return lines

    def __len__(self) -> int:
        return self._count

    def add(self, line: bytes) -> None:
        """Add a line that follows the others in the file, with its end."""
        if self._count % _MARKED == 0:
            self._marks.append(self.size)
        self._count += 1
        self.size += len(line)

    def read(self, first: int = 0, last: int | None = None) -> Iterator[bytes]:
        """Yield lines from the file, from the number `first` to before `last`.

        Raises:
            DataError: if the file has become shorter.
        """
        last = len(self) if last is None else min(last, len(self))
        if first >= last:
            return
        mark = first // _MARKED
        lines = islice(self._read(self._marks[mark], self.size), first - mark * _MARKED, last - mark * _MARKED)
        for line in lines:
            first += 1
            yield line
        if first < last:
            raise DataError(f"{self._path} was changed by another program: its rows can no longer be read.")

    def _read(self, begin: int, end: int) -> Iterator[bytes]:
        """Yield the whole lines in a range of bytes."""
        rest = b""
        while begin < end and (piece := os.pread(self._file, min(_PIECE, end - begin), begin)):
            begin += len(piece)
            *whole, rest = (rest + piece).split(b"\n")
            for line in whole:
                yield line + b"\n"


class JsonlWriter:
    """Appends rows, many at a time. If that fails, the file ends with the last complete line that fitted.

    Nothing more is written to a file that something else has cut off, extended, removed or replaced meanwhile; rows
    that are left of it can be read.

    Arguments:
        path: of the file.
        size: number of bytes to keep, in whole lines; the rest is cut off.
        access: who may read it.

    Attributes:
        lines: the rows that are in the file.

    Raises:
        DataError: if the file is shorter than that, or would be cut within a line.
        RecordsError: if it cannot be written, or is not a regular file of our own.
    """

    def __init__(
        self,
        path: Path,
        size: int = 0,
        access: Access = "private",
    ) -> None:
        self.path = path
        self._waiting: list[bytes] = []
        self._changed = False  # by something else
        try:
            with Folder.open(path.parent, access) as folder:
                self._file = folder.writable(path.name)
            self._place = path.absolute()
            self._folder = os.stat(self._place.parent)
        except OSError as error:
            raise unwritable(path, error) from error
        try:
            _check_end(self._file, path, size)
            os.ftruncate(self._file, size)
            self.lines = LinesOnDisk.of(self._file, path, size)
        except OSError as error:
            self.close()
            raise unwritable(path, error) from error
        except DataError:
            self.close()
            raise

    @property
    def size(self) -> int:
        """Bytes written."""
        return self.lines.size

    def __len__(self) -> int:
        """Return the number of rows, including those that are not flushed."""
        return len(self.lines) + len(self._waiting)

    def add(self, row: Entries) -> None:
        """Add a row; it is written by the next flush."""
        self._waiting.append(to_line(row).encode())

    def read(self, first: int, last: int) -> Iterator[bytes]:
        """Yield the lines of rows by number, including those that are not flushed; as for `LinesOnDisk.read`."""
        flushed = len(self.lines)
        yield from self.lines.read(first, last)
        yield from self._waiting[max(0, first - flushed) : max(0, last - flushed)]

    def flush(self) -> None:
        """Write the rows so far, so that others can read them; what does not fit is kept for the next flush.

        Raises:
            RecordsError: if they cannot be written, or something else has cut it off, extended, moved or removed it.
        """
        try:
            self._check()
            data = b"".join(self._waiting)
            try:
                os.lseek(self._file, self.size, os.SEEK_SET)  # after a failure, there may be half a line
                write_all(self._file, data)
            except OSError:
                with contextlib.suppress(OSError):
                    self._keep_whole_lines(data)
                raise
            self._written(len(self._waiting))
        except OSError as error:
            raise unwritable(self.path, error) from error

    def _written(self, count: int) -> None:
        for line in self._waiting[:count]:
            self.lines.add(line)
        del self._waiting[:count]

    def _keep_whole_lines(self, data: bytes) -> None:
        written = os.lseek(self._file, 0, os.SEEK_CUR) - self.size
        kept = data.rfind(b"\n", 0, max(written, 0)) + 1
        os.ftruncate(self._file, self.size + kept)
        self._written(data.count(b"\n", 0, kept))

    def settle(self) -> None:
        """See to it that the rows of the file can be read, if it is still written; those that cannot are dropped."""
        if not self.closed:
            with contextlib.suppress(OSError):
                self._check()

    def _check(self) -> None:
        """Raise if the file is not where and what it was, before it is written to."""
        ours, named, why = os.fstat(self._file), _stat(self._place), ""
        if named is None:
            folder = _stat(self._place.parent, follow=True)
            there = folder is not None and os.path.samestat(folder, self._folder)
            why = "it was removed" if there else "its folder was removed or moved"
        elif not os.path.samestat(named, ours):
            why = "another file was put in its place"
        elif self._changed or ours.st_size != self.size:
            self._changed, count = True, len(self.lines)
            self.lines = LinesOnDisk.of(self._file, self.path, min(self.size, ours.st_size))
            lost = count - len(self.lines)
            why = "something else has changed it" + (f" ({counted('row', lost)} lost)" if lost else "")
        if why:
            raise RecordsError(f"{self.path} cannot be written: {why} while the run went on.")

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return self._file < 0

    def close(self) -> None:
        """Close the file, without the rows that were not flushed; may be called twice."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def _stat(path: Path, follow: bool = False) -> os.stat_result | None:
    try:
        return os.stat(path, follow_symlinks=follow)
    except OSError:
        return None


def check_cut(folder: Folder, name: str, written: Checksum) -> Running:
    """Raise if a file of rows does not begin with what was written.

    Returns:
        Its checksum up to there, which can be continued.

    Raises:
        DataError: if it is shorter, differs, or would be cut within a line.
    """
    path = folder.path / name
    try:
        file = folder.opened(name)
        try:
            _check_end(file, path, written.bytes)
        finally:
            os.close(file)
        running = Running()
        if running.upto(folder, name, written.bytes) != written:
            raise DataError(
                f"{path} is damaged: its first {written.bytes} bytes are not those that the run wrote (their checksum"
                " differs)."
            )
        return running
    except OSError as error:
        raise unreadable(path, error) from None


def _check_end(file: int, path: Path, size: int) -> None:
    length = os.fstat(file).st_size
    if length < size:
        raise DataError(f"{path} has {length} bytes, where the checkpoint says that {size} were written.")
    if size and os.pread(file, 1, size - 1) != b"\n":
        raise DataError(f"{path} is damaged: no line ends at byte {size}, where the checkpoint says that one does.")
