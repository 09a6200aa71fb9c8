"""Files that users name: regular ones, pipes and `-`; whatever could block for ever is refused before it is read."""

from __future__ import annotations

import bz2
import gzip
import os
import re
import select
import stat
import sys
import tempfile
import time
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, BinaryIO, TypeAlias, cast

from erasurehead._internal.documents import MOST_TOML
from erasurehead.errors import DataError, InvalidArgument, NoFile, unreadable

StrPath: TypeAlias = str | os.PathLike[str]
"""A path as users give it."""

PIPE_SECONDS = "ERASUREHEAD_PIPE_SECONDS"
"""The environment variable that says how long to wait for a writer of a pipe, in seconds (10)."""

BROKEN = (EOFError, zlib.error, gzip.BadGzipFile, OSError)
"""Exceptions of reading a truncated or damaged file."""

_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/{1,3}")  # pathlib makes https:/ of https://
_COMPRESSED = (".gz", ".bz2")
_MARK = b"\xff\xfe"
_STDIN = "-"
_PIECE = 1 << 20
_KINDS = (
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)
_kept: list[tempfile.TemporaryDirectory[str]] = []
"""Folders with the content of pipes, kept until the process ends."""


def readable(path: str | os.PathLike[str]) -> Path:
    """Return the path of a file that can be read more than once.

    A pipe, or standard input where the path is `-`, is read to its end into a temporary file of the same name.

    Raises:
        NoFile: if it does not exist.
        DataError: if it is a folder, a device or a socket, may not be read, or is a pipe that nobody writes to.
    """
    if os.fspath(path) == _STDIN:
        return _spooled(sys.stdin.buffer.raw.fileno() if hasattr(sys.stdin, "buffer") else 0, "stdin", _STDIN)  # pyright: ignore[reportAttributeAccessIssue, reportUnknownArgumentType, reportUnknownMemberType]
    _refuse_address(os.fspath(path))
    place = Path(path).expanduser()
    mode = _mode(place)
    if stat.S_ISFIFO(mode):
        descriptor = os.open(place, os.O_RDONLY | os.O_NONBLOCK)
        try:
            return _spooled(descriptor, place.name, str(place))
        finally:
            os.close(descriptor)
    return place


def as_named(text: str) -> str:
    """Return a text in which the content of pipes is called as the pipes are, and not by temporary files."""
    for folder in _kept:
        text = text.replace(f"{folder.name}{os.sep}", "")
    return text


def _refuse_address(path: str) -> None:
    """Raise if a path is an address of the network, or of a store of objects: only files are read.

    Raises:
        DataError: that says how to get the file.
    """
    match = _ADDRESS.match(path)
    if match is None or os.path.exists(path):
        return
    shown, rest = printable(path), printable(path[match.end() :])
    if match[1].lower() == "file":
        raise DataError(f"{shown!r} is an address of a file; name the file itself: /{rest.lstrip('/')}.")
    raise DataError(f"{shown!r} is an address, and only files on this machine are read; fetch it, and name the file.")


def read_text(path: str | os.PathLike[str], what: str) -> str:
    """Return the whole text of a file in UTF-8 that is typed by people, without a byte order mark.

    Arguments:
        path: path of the file.
        what: what the file is, for errors, such as `"run file"`.

    Raises:
        InvalidArgument: if it does not exist, cannot be read, is too long, or is not in UTF-8.
    """
    try:
        with readable(path).open("rb") as file:
            data = file.read(MOST_TOML + 1)
        if len(data) > MOST_TOML:
            rule = f"must have at most {MOST_TOML:,} bytes"
            raise _refused(path, what, rule, f"has more than {MOST_TOML:,} bytes, the most that is read")
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        fault = f"is not UTF-8 text (byte {error.start}){other_encoding(error.object)}"
        raise _refused(path, what, "must be a text in UTF-8", fault) from None
    except NoFile:
        raise _refused(path, what, "must be there", "cannot be read: No such file or directory") from None
    except (DataError, OSError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error).removesuffix(".")
        raise _refused(path, what, "must be readable", f"cannot be read: {why}") from None


def _refused(path: str | os.PathLike[str], what: str, rule: str, fault: str) -> InvalidArgument:
    return InvalidArgument("path", rule, str(path), sentence=f"The {what} {str(path)!r} {fault}.")


def other_encoding(text: bytes) -> str:
    """Return what to do about a text that is not in UTF-8, as the end of a sentence."""
    if text[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "; it is in UTF-16: save it as UTF-8, or convert it (iconv -f UTF-16 -t UTF-8)"
    return "; save it as UTF-8, or convert it (iconv -f WINDOWS-1252 -t UTF-8, if it is in Latin-1 or from Windows)"


def _mode(place: Path) -> int:
    """Return the file mode of a path, if it can be read."""
    shown = printable(str(place))
    try:
        mode = place.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        raise NoFile(shown) from None
    except (OSError, ValueError) as error:  # a name too long, links in a circle, no permission; a NUL in the name
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise DataError(f"The file {shown!r} cannot be read: {why}.") from None
    if stat.S_ISDIR(mode):
        raise DataError(f"{shown!r} is a folder; name a file in it.")
    for is_kind, kind in _KINDS:
        if is_kind(mode):
            raise DataError(f"{shown!r} is {kind}; name a file, a pipe, or - for standard input.")
    if not os.access(place, os.R_OK):
        raise DataError(f"The file {shown!r} may not be read by this user.")
    return mode


def printable(text: str) -> str:
    """Return a text that can be encoded in UTF-8: bytes of a name that is not UTF-8 are written `\\xff`."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")


def _spooled(descriptor: int, name: str, given: str) -> Path:
    """Read a pipe to its end into a temporary file."""
    folder = tempfile.TemporaryDirectory(prefix="erasurehead-")
    _kept.append(folder)
    place = Path(folder.name) / (name or "pipe")
    with place.open("wb") as file:
        _copy(descriptor, file, given)
    return place


def _copy(descriptor: int, file: IO[bytes], given: str) -> None:
    patience = _seconds()
    until = time.monotonic() + patience
    begun = False
    while True:
        try:
            piece = os.read(descriptor, _PIECE)
        except BlockingIOError:  # somebody has it open for writing
            begun = True
            select.select([descriptor], [], [], 1.0)
            continue
        if piece:
            begun = True
            file.write(piece)
        elif begun or os.get_blocking(descriptor):
            return
        elif time.monotonic() > until:
            raise DataError(
                f"Nobody writes to the pipe {printable(given)!r}: it was waited for {patience:g} seconds "
                f"({PIPE_SECONDS})."
            )
        else:
            time.sleep(0.05)


def _seconds() -> float:
    text = os.environ.get(PIPE_SECONDS, "10")
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0.0 <= seconds < float("inf"):
        raise InvalidArgument(PIPE_SECONDS, "must be a number of seconds of at least 0", text)
    return seconds


def open_bytes(path: Path) -> BinaryIO:
    """Open a file for reading bytes, through gzip or bz2 if it begins as their files do, whatever its name.

    Raises:
        DataError: if it cannot be opened, or its name says that it is compressed when it is not.
    """
    try:
        with path.open("rb") as file:
            magic = file.read(3)
    except OSError as error:
        raise unreadable(path, error) from None
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
        except BROKEN as error:
            raise broken_off(path, 0, error) from None


def check_text(path: Path) -> None:
    """Raise if the beginning of a file is not UTF-8 text.

    Raises:
        DataError: if it is not; the message says what it is and what to do.
    """
    first = beginning(path)
    wide = first[:2] in (b"\xff\xfe", b"\xfe\xff") or (len(first) > 3 and first[1::2].count(0) > len(first) // 4)
    if wide:
        raise DataError(f"{path}, line 1: not UTF-8 text{other_encoding(first if first[0] > 127 else _MARK)}.")
    if 0 in first:
        raise DataError(f"{path} is not a text: byte {first.index(0)} of it is 0. Name a text file, or convert it.")


def broken_off(path: Path, line: int, error: Exception) -> DataError:
    """Return the error for a file that cannot be read to its end."""
    where = f", after line {line}" if line else ""
    return DataError(f"{path}{where}: the file is cut off or damaged ({error}).")


@contextmanager
def named(path: str | os.PathLike[str]) -> Generator[None]:
    """Name the file in errors of reading it, such as those of a failing disk or network."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{printable(os.fspath(path))}: {error.strerror or error}.") from None
