"""The checksums of a run's files, in a file beside them. They guard against damage, not against an attacker.

The checksum of a file is listed before the file is written, beside that of the file that it replaces: if the process
dies in between, one of the two matches. Rows that are still being written are not listed;
checkpoints record how many there were.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias, cast

from erasurehead._internal.storage.folders import Folder
from erasurehead._internal.storage.names import is_name
from erasurehead._internal.storage.sealed import NOT_SEALED, Unfit, sealed, unsealed, why
from erasurehead._internal.user_files import StrPath
from erasurehead.errors import DataError, check_count, unreadable

CHECKSUMS = "checksums.json"
FORMAT, VERSION, KEY = "erasurehead-run", 2, "files"

_BITE = 1 << 20
_SHA256 = 64  # hexadecimal digits


@dataclass(frozen=True)
class Checksum:
    """Length and checksum of a file, or of the beginning of a growing one, as it was written.

    Arguments:
        bytes: its length in bytes.
        sha256: of these bytes, in hexadecimal.
    """

    bytes: int
    sha256: str

    @classmethod
    def of(cls, data: bytes | memoryview) -> Checksum:
        """Return the sum of some bytes."""
        return cls(len(data), hashlib.sha256(data).hexdigest())

    @classmethod
    def from_plain(cls, entry: Any) -> Checksum:
        """Return the sum that `as_plain` wrote; raises `ValueError` and the like for anything else."""
        size, digest = entry
        if not isinstance(digest, str) or len(digest) != _SHA256:
            raise Unfit("no checksum")
        return cls(check_count("bytes", size, at_least=0), digest)

    def as_plain(self) -> list[int | str]:
        """Return it as plain JSON data."""
        return [self.bytes, self.sha256]


Sums: TypeAlias = dict[str, tuple[Checksum, ...]]
"""Name of a file -> its valid sums: one, or two while it is being replaced."""


class Running:
    """The running checksum of a growing file: no byte is read twice."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self._size = 0

    def upto(self, folder: Folder, name: str, size: int) -> Checksum:
        """Return the sum of the first bytes of a file, reading only those not read before.

        Raises:
            OSError: if it cannot be read, or is shorter.
        """
        if size < self._size:
            self._digest, self._size = hashlib.sha256(), 0
        descriptor = folder.opened(name)
        try:
            while self._size < size:
                piece = os.pread(descriptor, min(_BITE, size - self._size), self._size)
                if not piece:
                    sentence = f"it has {self._size} bytes, where {size} were written"
                    raise OSError(errno.EIO, sentence, str(folder.path / name))
                self._digest.update(piece)
                self._size += len(piece)
        finally:
            os.close(descriptor)
        return Checksum(size, self._digest.hexdigest())


def write_checksums(folder: Folder, sums: Mapping[str, tuple[Checksum, ...]]) -> None:
    """Write the checksums of a run's files.

    Raises:
        OSError: if they cannot be written.
    """
    body = {name: [one.as_plain() for one in sums[name]] for name in sorted(sums)}
    folder.write_whole(CHECKSUMS, [sealed(FORMAT, VERSION, KEY, body)])


def read_checksums(folder: Folder) -> Sums:
    """Read the checksums of a run's files.

    Raises:
        DataError: if there is no such file, or it is damaged.
    """
    path = folder.path / CHECKSUMS
    try:
        body = unsealed(folder.read(CHECKSUMS), FORMAT, VERSION, KEY, path)
        sums = {str(name): tuple(map(Checksum.from_plain, entries)) for name, entries in body.items()}
        if not all(map(is_name, sums)):
            raise Unfit("it names what is no file of the folder")
        return sums
    except DataError:
        raise
    except FileNotFoundError:
        raise DataError(
            f"There is no {CHECKSUMS} in {str(folder.path)!r}: the run was recorded by a version of erasurehead that"
            " kept none, or the file was removed; use it with the version that wrote it."
        ) from None
    except OSError as error:
        raise unreadable(path, error) from None
    except NOT_SEALED as error:
        raise DataError(f"{path} is damaged, or not of erasurehead ({why(error)}).") from None


def check_data(path: Path, data: bytes, sums: Mapping[str, tuple[Checksum, ...]]) -> None:
    """Raise if the bytes of a file are not those that were written; files that are not listed are not checked.

    Raises:
        DataError: if they are not; the message names the file.
    """
    if path.name in sums and Checksum.of(data) not in sums[path.name]:
        raise DataError(
            f"{path} is damaged, or was edited: it is not what the run wrote (its checksum differs). Bring it back"
            " from a copy; or, if it is meant to be so, use a copy of it outside of the run's folder."
        )


def check_beside(path: StrPath) -> None:
    """Raise if a file lies in a run's folder and is not as the run wrote it. Any other file is the user's own.

    Raises:
        DataError: if it does; the message names the file.
    """
    place = Path(path)
    try:
        with Folder.open(place.parent) as folder:
            if folder.kind(CHECKSUMS) != "file" or not is_name(place.name):
                return
            sums = cast("Mapping[str, tuple[Checksum, ...]]", read_checksums(folder))
            if place.name in sums and folder.kind(place.name):
                check_data(place, folder.read(place.name), sums)
    except OSError as error:
        raise unreadable(place, error) from None
