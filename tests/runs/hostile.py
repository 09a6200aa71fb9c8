"""The forms that a file in somebody else's folder may have, each made in the place of an honest one."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path

SECRET = b"a file of the user's, far from any run\n"


def _link(path: Path, foreign: Path) -> None:
    path.symlink_to(foreign)


def _dangling(path: Path, foreign: Path) -> None:
    path.symlink_to(foreign.with_name("not-there-yet"))


def _linked_folder(path: Path, foreign: Path) -> None:
    path.symlink_to(foreign.parent)


def _second_name(path: Path, foreign: Path) -> None:
    os.link(foreign, path)


def _pipe(path: Path, foreign: Path) -> None:
    os.mkfifo(path)


def _folder(path: Path, foreign: Path) -> None:
    path.mkdir()
    (path / "thesis.tex").write_bytes(SECRET)


def _socket(path: Path, foreign: Path) -> None:
    here = Path.cwd()
    os.chdir(path.parent)  # the names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.chdir(here)


def _device(path: Path, foreign: Path) -> None:
    path.symlink_to("/dev/zero")


FORMS: Mapping[str, Callable[[Path, Path], None]] = {
    "link": _link,
    "link to nothing": _dangling,
    "link to a folder": _linked_folder,
    "link to a device": _device,
    "second name": _second_name,
    "pipe": _pipe,
    "socket": _socket,
    "folder": _folder,
}
"""How it is called -> makes it at a path; the second path is that of a foreign file."""


def remove(path: Path) -> None:
    """Remove what lies at a path, whatever it is, and nothing that it leads to."""
    if path.is_dir() and not path.is_symlink():
        for entry in path.iterdir():
            remove(entry)
        path.rmdir()
    elif os.path.lexists(path):
        path.unlink()


def picture(folder: Path) -> dict[str, object]:
    """Return all that is in a folder: what each name is, where links lead, and what files hold."""
    found: dict[str, object] = {}
    for place, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(place, name)
            state = path.lstat()
            said: object = state.st_mode
            if path.is_symlink():
                said = os.readlink(path)
            elif path.is_file():
                said = path.read_bytes()
            found[str(path.relative_to(folder))] = said
    return found
