"""What may be the name of a file in a folder: one that cannot lead anywhere else."""

from __future__ import annotations

from typing import TypeGuard

_LONGEST = 255  # bytes that file systems allow
_BESIDE = len("..new")  # what a file that is not whole yet is called besides


def is_name(name: object) -> TypeGuard[str]:
    """Say whether something is the name of a file in a folder, and nothing but that.

    It is not if it is empty, a folder's own names (`.` and `..`), has a separator of any system or a character that
    does not print (NUL among them), is too long, or is no text at all.

    >>> [is_name(name) for name in ("task-00001.safetensors", "..", "", "/etc/passwd", "a/b", "a" + chr(0))]
    [True, False, False, False, False, False]
    """
    if not isinstance(name, str) or name in ("", ".", ".."):
        return False
    if any(letter in "/\\" or not letter.isprintable() for letter in name):
        return False
    return len(name.encode(errors="replace")) + _BESIDE <= _LONGEST
