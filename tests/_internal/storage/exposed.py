"""What other users of a machine can reach of what a command has made."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def exposed(folder: Path) -> Iterator[str]:
    """Yield what others can reach in a folder: whatever has a right for them, and lies below no closed folder.

    What is gone while it is looked at is none; links have no rights of their own.
    """
    for name in sorted(os.listdir(folder)):
        try:
            found = (folder / name).lstat()
        except FileNotFoundError:
            continue
        if found.st_uid != os.getuid():
            yield f"{folder / name} belongs to {found.st_uid}"
        if not found.st_mode & _OTHERS or stat.S_ISLNK(found.st_mode):
            continue
        yield f"{stat.filemode(found.st_mode)} {folder / name}"
        if stat.S_ISDIR(found.st_mode):
            yield from exposed(folder / name)
