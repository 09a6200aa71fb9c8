"""Names of files in a folder, which cannot lead anywhere else."""

from __future__ import annotations

from typing import TypeGuard

_LONGEST = 255  # bytes that file systems allow
_BESIDE = len("..new")  # what the name of an unfinished file has in addition


def is_name(name: object) -> TypeGuard[str]:
    """Return whether something is a plain name of a file in a folder.

    It is not if it is empty, a folder's own names (`.` and `..`), has a separator of any system or a character that
    that does not print (such as NUL), is too long, or is not a text.

    >>> [is_name(name) for name in ("task-00001.safetensors", "..", "", "/etc/passwd", "a/b", "a" + chr(0))]
    [True, False, False, False, False, False]
    """
    if not isinstance(name, str) or name in ("", ".", ".."):
        return False
    if any(letter in "/\\" or not letter.isprintable() for letter in name):
        return False
    return len(name.encode(errors="replace")) + _BESIDE <= _LONGEST
