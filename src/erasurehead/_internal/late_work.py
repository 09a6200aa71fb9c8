"""The setting of what workers do with late work: preempt, carry or drop, which `WorkerLoop` then does.

Apart from the engines, so that run files can check it without importing numpy.
"""

from __future__ import annotations

import math
import re
from typing import TypeAlias

from erasurehead.errors import invalid

LateWork: TypeAlias = str
"""What a worker does when a newer order is out while its injected delay still runs: drop it (`"preempt"`), sit it out
(`"carry"`), or sit it out until it is more than so many rounds old (`"drop(3)"`)."""

DROP = r"^drop\((\d{1,9})\)$"
"""The regular expression of `"drop(R)"`."""

_DROP = re.compile(DROP, re.ASCII)


def check_late(late: str) -> LateWork:
    """Return `late` if it is valid.

    Raises:
        InvalidArgument: if it is neither `"preempt"` nor `"carry"`, nor `"drop(R)"` with a number of rounds.
    """
    if late not in ("preempt", "carry") and not (isinstance(late, str) and _DROP.fullmatch(late)):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise invalid("late", "must be 'preempt' or 'carry', or 'drop(R)' with a number of rounds", late)
    return late


def rounds_kept(late: LateWork) -> float:
    """Return how many rounds old work may be before a worker drops it: 0 if all is dropped, inf if none is.

    >>> rounds_kept("preempt"), rounds_kept("drop(3)"), rounds_kept("carry")
    (0, 3, inf)
    """
    match = _DROP.fullmatch(late)
    return int(match[1]) if match else 0 if late == "preempt" else math.inf
