"""Files that outlast a crash, written by path: see `storage` for what is written into an open folder."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable
from pathlib import Path

from erasurehead._internal.storage import Access, Folder
from erasurehead.errors import RecordsError


def write_whole(path: Path, pieces: Iterable[bytes | memoryview], access: Access | None = "private") -> None:
    """Write a file as a whole: whoever reads it finds the old one or the new one, also after a crash.

    Raises:
        RecordsError: if that cannot be done; what was there before is there still.
    """
    with writing(path), Folder.open(path.parent, access) as folder:
        folder.write_whole(path.name, pieces)


@contextlib.contextmanager
def writing(path: Path) -> Generator[None]:
    """Raise what the system refuses in this block as a `RecordsError` that names a file."""
    try:
        yield
    except OSError as error:
        raise unwritable(path, error) from error


def unwritable(path: Path, error: OSError) -> RecordsError:
    """Return the error that says which file cannot be written, and why."""
    return error if isinstance(error, RecordsError) else RecordsError(f"{path} cannot be written: {why(error)}.")


def why(error: OSError) -> str:
    """Return why the system refused, for a sentence."""
    return error.strerror or str(error) or type(error).__name__
