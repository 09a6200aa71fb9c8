"""Which machine has which tasks of a folder of shards: what was copied where, as whoever copied it says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any, TypeAlias, cast

import numpy as np

from erasurehead._internal.arrays import whole_numbers
from erasurehead._internal.documents import from_json
from erasurehead._internal.user_files import StrPath, read_text
from erasurehead.errors import InvalidArgument, counted, invalid, some

PLACEMENT = "placement.json"
"""Name of the file in a folder of shards; it is no part of the data, and may change."""

Placement: TypeAlias = Mapping[str, Sequence[int]]
"""The tasks that each machine has, by its name."""


def read_placement(path: StrPath, n_tasks: int) -> Placement:
    """Read which machine has which tasks.

    Arguments:
        path: a file of JSON: the name of each machine, and the numbers of its tasks.
        n_tasks: how many tasks there are.

    Raises:
        InvalidArgument: if it is no such file, or nobody has some task.
    """
    rule, hint = (
        "must be a file of JSON that names the tasks of each machine",
        'such as {"node1": [0, 1], "node2": [1, 0]}',
    )
    text = read_text(path, "placement")
    try:
        read: Any = from_json(text)
    except ValueError as error:
        raise invalid("placement", rule, str(path), f"{hint}: {error}") from None
    if not isinstance(read, dict) or not read:
        raise invalid("placement", rule, str(path), hint)
    placement: dict[str, list[int]] = {}
    for name, tasks in cast("dict[str, Any]", read).items():
        placement[name] = np.unique(whole_numbers(f"placement[{name!r}]", tasks)).tolist()
        if wrong := {*placement[name]} - {*range(n_tasks)}:
            raise invalid(f"placement[{name!r}]", f"must name tasks from 0 to {n_tasks - 1}", min(wrong))
    missing = sorted({*range(n_tasks)}.difference(*placement.values()))
    if missing:
        it = "it" if len(missing) == 1 else "them"
        hint = f"Name the machine that has {it}, or copy {it} to one."
        sentence = f"placement must name every task, but no machine has {_few(missing)}. {hint}"
        raise InvalidArgument("placement", "must name every task", str(path), sentence=sentence)
    return placement


def tolerated(placement: Placement) -> int:
    """Return how many machines may be missing, whichever they are."""
    return min(Counter(chain(*placement.values())).values()) - 1


def described(placement: Placement) -> str:
    """Return what a placement is good for, as a line: it names the tasks that the fewest machines have."""
    spare, holders = tolerated(placement), Counter(chain(*placement.values()))
    scarce = sorted(task for task, count in holders.items() if count == spare + 1)
    few = "every task is" if len(scarce) == len(holders) else f"{_few(scarce)} {'is' if len(scarce) == 1 else 'are'}"
    who, on = counted("machine", len(placement)), f"as {few} on {spare + 1 if spare else 'one alone'}"
    return f"{who}: {f'any {spare}' if spare else 'none'} of them may be late or missing, {on}"


def _few(tasks: Sequence[int]) -> str:
    return f"task{'s' * (len(tasks) != 1)} {some(tasks, 6)}"
