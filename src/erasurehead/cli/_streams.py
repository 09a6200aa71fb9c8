"""Robust standard streams, which may be closed, full, cut off by their reader, or limited to ASCII.

Explanations and warnings go to standard error; if they cannot be written, they are left out. A result that cannot be
written is an error, unless its reader has gone, or standard output is closed and the command leaves a folder or a file.
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

BAD_INPUT, FAILED, INTERRUPTED = 2, 1, 130
"""Exit codes: invalid input; failure of the command; ended by Ctrl-C, SIGTERM, SIGHUP or SIGUSR1."""


class _Optional(io.RawIOBase):
    """A file that accepts everything, writes what it can, and ignores errors.

    Arguments:
        descriptor: descriptor of the file.
    """

    _ignored: tuple[type[OSError], ...] = (OSError,)

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
        with contextlib.suppress(*self._ignored):
            while left:
                left = left[os.write(self._descriptor, left) :]
        return size


class _Cut(_Optional):
    """A pipe or connection that accepts and discards everything once its reader has gone."""

    _ignored = (BrokenPipeError, ConnectionResetError)


_closed = False  # whether this process was started without a standard output


def check_open() -> None:
    """Raise if standard output is closed, in commands that write their result nowhere else.

    Raises:
        OutputError: if so.
    """
    if _closed:
        raise OutputError(
            "Standard output is closed, and this command writes its result nowhere else: write it to a file (> FILE), "
            "or to /dev/null where it is not wanted."
        )


def prepare() -> None:
    """Replace or configure the standard streams such that neither their state nor any text ends a command.

    A closed descriptor is connected to the null device, so that the next file opened does not get it; characters that
    an encoding does not have are written as escapes.
    """
    global _closed
    _closed = False
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            _closed = _closed or descriptor == 1
            os.open(os.devnull, os.O_RDONLY if descriptor == 0 else os.O_WRONLY)  # opens the lowest free descriptor
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
    """Yield standard output for a result, and flush it at the end.

    Raises:
        OutputError: if it cannot be written.
    """
    try:
        yield sys.stdout
        sys.stdout.flush()
    except BrokenPipeError:  # the reader does not want any more
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
    """Flush standard output, so that this cannot fail when the interpreter exits."""
    try:
        sys.stdout.flush()
    except (OSError, ValueError):
        lead_nowhere()


def lead_nowhere() -> None:
    """Connect standard output to the null device, so that what is still to be written is discarded."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
