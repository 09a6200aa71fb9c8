"""Files that outlast a crash: written to a temporary name, flushed to the disk, and then renamed."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable
from pathlib import Path

from erasurehead.errors import RecordsError

_NO_SUCH_THING = frozenset({errno.EINVAL, errno.ENOTSUP, errno.EACCES})
"""What file systems answer that do not flush folders; they need not be asked to."""


def write_whole(path: Path, pieces: Iterable[bytes | memoryview]) -> None:
    """Write a file as a whole: whoever reads it finds the old one or the new one, also after a crash.

    The name itself outlasts a crash once `sync_folder` was called.

    Raises:
        RecordsError: if that cannot be done; what was there before is there still.
    """
    scratch = path.with_name(f".{path.name}.new")
    try:
        descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            for piece in pieces:
                write_all(descriptor, piece)
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        os.replace(scratch, path)
    except BaseException as error:  # Ctrl-C, too, leaves no scratch behind
        with contextlib.suppress(OSError):
            os.unlink(scratch)
        if isinstance(error, OSError):
            raise unwritable(path, error) from error
        raise


def write_all(descriptor: int, data: bytes | memoryview) -> None:
    """Write all of some bytes: the system may take them in several bites."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def sync_file(path: Path) -> None:
    """Flush a file to the disk, whoever is writing it.

    Raises:
        RecordsError: if that cannot be done.
    """
    _sync(path, os.O_RDONLY, frozenset())


def sync_folder(path: Path) -> None:
    """Flush the names in a folder to the disk.

    Raises:
        RecordsError: if that cannot be done.
    """
    _sync(path, os.O_RDONLY | getattr(os, "O_DIRECTORY", 0), _NO_SUCH_THING)


def _sync(path: Path, flags: int, excused: frozenset[int]) -> None:
    try:
        descriptor = os.open(path, flags)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        if error.errno not in excused:
            raise unwritable(path, error) from error


def remove(paths: Iterable[Path]) -> None:
    """Remove files; those that are not there are removed already.

    Raises:
        RecordsError: if one cannot be removed.
    """
    for path in paths:
        try:
            os.unlink(path)
        except FileNotFoundError:
            pass
        except OSError as error:
            raise unwritable(path, error) from error


def unwritable(path: Path, error: OSError) -> RecordsError:
    """Return the error that says which file cannot be written, and why."""
    return error if isinstance(error, RecordsError) else RecordsError(f"{path} cannot be written: {_why(error)}.")


def _why(error: OSError) -> str:
    return error.strerror or str(error) or type(error).__name__
