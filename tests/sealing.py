"""Files of folders that somebody has edited, with checksums that fit again."""

from __future__ import annotations

from pathlib import Path

from erasurehead._internal.storage.checksums import Checksum, read_checksums, write_checksums
from erasurehead._internal.storage.folders import Folder


def seal(place: Path, file: str) -> None:
    """Enter the checksum of an edited file of a run folder."""
    with Folder.open(place) as folder:
        sums = read_checksums(folder)
        write_checksums(folder, {**sums, file: (Checksum.of((place / file).read_bytes()),)})
