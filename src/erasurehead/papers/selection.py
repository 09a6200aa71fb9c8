"""Selecting exhibits of a paper by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from erasurehead.errors import invalid


def select(wanted: Sequence[str], exhibits: Sequence[str], several: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """Return the exhibits asked for, in the paper's order; all of them if none is named.

    Arguments:
        wanted: names of exhibits, or of groups of exhibits, in upper or lower case.
        exhibits: all exhibits of the paper.
        several: name of a group -> the exhibits in it.

    Raises:
        InvalidArgument: for an unknown name; the message lists the known ones.

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
