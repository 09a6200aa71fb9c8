"""Files of rows, one JSON object per line, that remain readable after any crash."""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from erasurehead._internal.atomic_files import unwritable
from erasurehead._internal.storage import Access, Folder
from erasurehead._internal.storage.checksums import Running, Sum
from erasurehead._internal.storage.folders import write_all
from erasurehead.errors import DataError, RecordsError

_encode = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


def to_line(data: Mapping[str, Any]) -> str:
    """Return data as one line of JSON; numbers that are not finite, which JSON does not have, become null."""
    try:
        return _encode(data) + "\n"
    except ValueError:
        return _encode(_finite(data)) + "\n"


def to_text(data: Any) -> str:
    """Return data as JSON for people: indented, with numbers that are not finite as null."""
    return json.dumps(_finite(data), allow_nan=False, indent=2, ensure_ascii=False) + "\n"


def read_lines(path: Path, size: int | None = None) -> list[dict[str, Any]]:
    """Read the objects of a file, without a truncated last line.

    Arguments:
        path: path of the file, which must not be a link.
        size: number of bytes to read from its beginning; None for all.

    Returns:
        The objects; empty if there is no such file.

    Raises:
        DataError: if a line before the last is damaged.
    """
    try:
        with Folder.open(path.parent) as folder:
            data = folder.read(path.name, size)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None
    return lines_in(data, path)


def lines_in(data: bytes, path: Path) -> list[dict[str, Any]]:
    """Return the objects in the bytes of a file; arguments and errors as for `read_lines`."""
    lines = data.decode(errors="replace").split("\n")
    found: list[dict[str, Any]] = []
    for number, line in enumerate(lines[:-1], start=1):  # whatever follows the last newline is incomplete
        try:
            row = json.loads(line)
        except (RecursionError, ValueError) as error:  # nested too deep, or a number of thousands of digits
            said = error.msg if isinstance(error, json.JSONDecodeError) else error
            raise DataError(f"{path}, line {number}: not JSON ({said}).") from None
        if not isinstance(row, dict):
            raise DataError(f"{path}, line {number}: must be an object with keys, but it is {line[:40]!r}.")
        found.append(cast("dict[str, Any]", row))
    return found


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in cast("Mapping[str, Any]", value).items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in cast("list[Any]", value)]
    return None if isinstance(value, float) and not math.isfinite(value) else value


class JsonlWriter:
    """Appends rows, many at a time. If that fails, the file ends with the last complete line that fitted.

    Arguments:
        path: of the file.
        size: number of bytes to keep, in whole lines; the rest is cut off.
        access: who may read it.

    Attributes:
        size: bytes written.

    Raises:
        DataError: if the file is shorter than that, or would be cut within a line.
        RecordsError: if it cannot be written, or is not a regular file of our own.
    """

    def __init__(self, path: Path, size: int = 0, access: Access = "private") -> None:
        self.path = path
        self.size = size
        self._lines: list[str] = []
        try:
            with Folder.open(path.parent, access) as folder:
                self._file = folder.writable(path.name)
        except OSError as error:
            raise unwritable(path, error) from error
        try:
            _check_end(self._file, path, size)
            os.ftruncate(self._file, size)
            os.lseek(self._file, size, os.SEEK_SET)
        except OSError as error:
            self.close()
            raise unwritable(path, error) from error
        except DataError:
            self.close()
            raise

    def add(self, row: Mapping[str, Any]) -> None:
        """Add a row; it is written by the next flush."""
        self._lines.append(to_line(row))

    def flush(self) -> None:
        """Write the rows so far, so that others can read them; what does not fit is kept for the next flush.

        Raises:
            RecordsError: if they cannot be written, or the file was removed.
        """
        data = "".join(self._lines).encode()
        try:
            os.lseek(self._file, self.size, os.SEEK_SET)  # after a failure, there may be half a line
            write_all(self._file, data)
            self.size += len(data)
            self._lines.clear()
            there = os.fstat(self._file).st_nlink
        except OSError as error:
            with contextlib.suppress(OSError):
                self._keep_whole_lines(data)
            raise unwritable(self.path, error) from error
        if not there:
            raise RecordsError(f"{self.path} cannot be written: it was removed while the run went on.")

    def _keep_whole_lines(self, data: bytes) -> None:
        written = os.lseek(self._file, 0, os.SEEK_CUR) - self.size
        kept = data.rfind(b"\n", 0, max(written, 0)) + 1
        os.ftruncate(self._file, self.size + kept)
        self.size += kept
        del self._lines[: data.count(b"\n", 0, kept)]

    @property
    def closed(self) -> bool:
        """Whether the file is closed."""
        return self._file < 0

    def close(self) -> None:
        """Close the file, without the rows that were not flushed; may be called twice."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def check_cut(folder: Folder, name: str, written: Sum) -> Running:
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
        raise DataError(f"{path} cannot be read: {error.strerror}.") from None


def _check_end(file: int, path: Path, size: int) -> None:
    there = os.fstat(file).st_size
    if there < size:
        raise DataError(f"{path} has {there} bytes, where the checkpoint says that {size} were written.")
    if size and os.pread(file, 1, size - 1) != b"\n":
        raise DataError(f"{path} is damaged: no line ends at byte {size}, where the checkpoint says that one does.")
