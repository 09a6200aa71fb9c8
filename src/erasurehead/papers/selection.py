"""Which exhibits of a paper are asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from erasurehead.errors import invalid


def select(wanted: Sequence[str], exhibits: Sequence[str], several: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the exhibits that are asked for, in the paper's order; all of them if none is named.

    Arguments:
        wanted: names of exhibits, or of several at once, in letters of either case.
        exhibits: all that there are.
        several: name -> the exhibits that it stands for.

    Raises:
        InvalidArgument: naming the one that is not known, and all that are.

    >>> select(["3", "2A"], ["2a", "2b", "3a", "3b"], {"2": ["2a", "2b"], "3": ["3a", "3b"]})
    ('2a', '3a', '3b')
    """
    chosen: set[str] = set()
    for name in wanted:
        key = name.strip().lower()
        if key not in exhibits and key not in several:
            raise invalid("figure", f"must be one of {', '.join((*exhibits, *several))}", name)
        chosen.update(several.get(key, (key,)))
    return tuple(id for id in exhibits if id in chosen) if wanted else tuple(exhibits)
