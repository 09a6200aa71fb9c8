"""Numbers in the texts of data files, where what Python reads as `202001` may be a name: `2020_01`."""

from __future__ import annotations

from collections.abc import Iterable


def in_groups(texts: Iterable[str]) -> bool:
    """Return whether any of some texts has digits in groups, as only Python writes numbers: see `float`.

    >>> in_groups(["1000", "2020_01"]), float("2020_01")
    (True, 202001.0)
    """
    return "_" in "".join(texts)
