"""Names of columns: those that a table may have, and how they are written in messages and options."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence

from erasurehead.errors import DataError


def checked_names(names: Sequence[str], source: str) -> tuple[str, ...]:
    """Return the names of a table's columns.

    Raises:
        DataError: if there are none, or two have the same name.
    """
    twice = next((name for place, name in enumerate(names) if name in names[:place]), None)
    if twice is not None or not names:
        fault = "no columns" if twice is None else f"two columns with the name {twice!r}; rename one of them"
        raise DataError(f"{source} has {fault}.")
    return tuple(names)


def listed(names: Iterable[str], between: str = ", ") -> str:
    """Return names as options take them: one that contains a comma is quoted.

    >>> listed(["town", "size, m2"])
    'town, "size, m2"'
    """
    return between.join('"{}"'.format(name.replace('"', '""')) if "," in name else name for name in names)


def as_option(*names: str) -> str:
    """Return names as the value of an option in a shell.

    >>> as_option("town", "price")
    'town,price'
    """
    return shlex.quote(listed(names, ","))
