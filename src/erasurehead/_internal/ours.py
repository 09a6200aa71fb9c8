"""Whose a class is: those of users' own are checked where they are used, as the library's are by its tests."""

from __future__ import annotations

from typing import Any


def ours(kind: Any) -> bool:
    """Return whether a class or a method is the library's."""
    return kind.__module__.startswith("erasurehead.")
