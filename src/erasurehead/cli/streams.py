"""Standard output and standard error as they may be: closed, full, cut off by their reader, or in ASCII.

What explains and warns goes to standard error, and is never required: where it cannot be written, it is left out. A
result that cannot be written is an error, unless whoever read it has gone, or nobody wanted it.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
import sys
from collections.abc import Generator
from typing import IO, Any, cast

from erasurehead.errors import ErasureHeadError


class _Optional(io.RawIOBase):
    """A file that takes everything, and writes what can be written.

    Arguments:
        descriptor: of the file.
    """

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, data: Any) -> int:
        left = memoryview(data).cast("B")
        size = len(left)
        with contextlib.suppress(OSError):
            while left:
                left = left[os.write(self._descriptor, left) :]
        return size


class _Cut(_Optional):
    """A pipe or connection that takes everything, too, once its reader has gone: they have what they wanted."""

    def write(self, data: Any) -> int:
        left = memoryview(data).cast("B")
        size = len(left)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            while left:
                left = left[os.write(self._descriptor, left) :]
        return size


def prepare() -> None:
    """Make the standard streams such that no text and no state of theirs ends a command.

    A descriptor that is closed leads nowhere from then on, instead of to the next file that is opened; letters that an
    encoding does not have are written as escapes.
    """
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDONLY if descriptor == 0 else os.O_WRONLY)  # takes the lowest one that is free
    stdin, stdout, stderr = cast("tuple[object, object, object]", (sys.stdin, sys.stdout, sys.stderr))
    if stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115
    if stdout is None:
        sys.stdout = _text(io.BufferedWriter(_Optional(1)), "utf-8", buffered=True)
    elif isinstance(stdout, io.TextIOWrapper):
        number = stdout.fileno()
        if stat.S_ISFIFO(mode := os.fstat(number).st_mode) or stat.S_ISSOCK(mode):
            sys.stdout = io.TextIOWrapper(io.BufferedWriter(_Cut(number)), stdout.encoding, "backslashreplace")
        else:
            stdout.reconfigure(errors="backslashreplace")
    if stderr is None or isinstance(stderr, io.TextIOWrapper):
        encoding = "utf-8" if stderr is None else stderr.encoding
        sys.stderr = _text(io.BufferedWriter(_Optional(2)), encoding, buffered=False)


def _text(stream: io.BufferedWriter, encoding: str, buffered: bool) -> io.TextIOWrapper:
    return io.TextIOWrapper(stream, encoding, "backslashreplace", line_buffering=True, write_through=not buffered)


@contextlib.contextmanager
def results() -> Generator[IO[str]]:
    """Write a result on standard output, to the last byte.

    Raises:
        OutputError: if it cannot be written.
    """
    try:
        yield sys.stdout
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read it has what they wanted
        lead_nowhere()
    except OSError as error:
        lead_nowhere()
        raise OutputError(
            f"The result cannot be written to standard output: {error.strerror}. What a run or a plan leaves in its "
            "folder is complete."
        ) from None


class OutputError(ErasureHeadError, OSError):
    """The result of a command cannot be written to standard output."""


def finish() -> None:
    """Write what is left in standard output; nothing more can go wrong when the interpreter does."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        lead_nowhere()


def lead_nowhere() -> None:
    """Have what is still to be written to standard output vanish."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
