"""Columns that hold only row numbers: the index of a frame that was written to a file."""

from __future__ import annotations

import re
from collections.abc import Sequence

_UNNAMED = re.compile(r"Unnamed: \d+(_level_\d+)?(\.\d+)*")
"""The name that pandas gives to a column without one."""

_STORED = re.compile(r"__index_level_\d+__")
"""The name that pandas gives to an index in a Parquet file, where it follows the columns."""


def index_columns(names: Sequence[str]) -> tuple[str, ...]:
    """Return which columns are a frame's index, by name: first ones without a name, and those that pandas names.

    >>> index_columns(["Unnamed: 0", "size", "price"])
    ('Unnamed: 0',)
    """
    first = next((place for place, name in enumerate(names) if not _UNNAMED.fullmatch(name)), len(names))
    return (*names[:first], *(name for name in names[first:] if _STORED.fullmatch(name)))


def nameless_behind(names: Sequence[str]) -> tuple[str, ...]:
    """Return the last columns if they have no name, as where lines end with a delimiter, by the names that they got.

    >>> nameless_behind(["size", "price", "Unnamed: 2"])
    ('Unnamed: 2',)
    """
    last = next((place for place in range(len(names), 0, -1) if not _UNNAMED.fullmatch(names[place - 1])), 0)
    return tuple(names[last:]) if last else ()


def named(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names in a header whose first columns may have none: these are named as by pandas."""
    nameless = next((place for place, name in enumerate(names) if name), 0)
    return (*(unnamed(place, names) for place in range(nameless)), *names[nameless:])


def is_numbering(names: Sequence[str]) -> bool:
    """Return whether a first line is the header of a frame with an index, whose columns are named 0, 1, 2, ..."""
    return names[0] == "" and list(names[1:]) == list(map(str, range(len(names) - 1)))


def unnamed(place: int, names: Sequence[str] = ()) -> str:
    """Return a name for a column without one, as pandas does."""
    name = f"Unnamed: {place}"
    while name in names:
        name += ".1"
    return name
