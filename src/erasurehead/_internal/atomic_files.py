"""Atomic writes of files by path; `storage` has those into an open folder."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable
from pathlib import Path

from erasurehead._internal.storage.access import Access
from erasurehead._internal.storage.folders import Folder
from erasurehead.errors import RecordsError


def write_whole(path: Path, pieces: Iterable[bytes | memoryview], access: Access = "private") -> None:
    """Write a file atomically: readers find either the old file or the new one, even after a crash.

    Raises:
        RecordsError: if it cannot be written; the old file is left as it was.
    """
    with writing(path), Folder.open(path.parent, access) as folder:
        folder.write_whole(path.name, pieces)


@contextlib.contextmanager
def writing(path: Path) -> Generator[None]:
    """Convert each `OSError` raised in this block to a `RecordsError` that names a file."""
    try:
        yield
    except OSError as error:
        raise unwritable(path, error) from error


def unwritable(path: Path, error: OSError) -> RecordsError:
    """Return the error that says which file cannot be written, and why."""
    return error if isinstance(error, RecordsError) else RecordsError(f"{path} cannot be written: {why(error)}.")


def why(error: OSError) -> str:
    """Return the reason of an `OSError`, as a clause."""
    return error.strerror or str(error) or type(error).__name__
