"""Which host each position of a code goes to, so that replicas of a task are on different ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

import numpy as np

from erasurehead.codes import GradientCode


def spread(
    code: GradientCode, hosts: Mapping[str, int | None], settled: Mapping[int, str] | None = None
) -> list[str | None]:
    """Return the host of each of a code's workers, shape (n_workers,); None where all hosts are full.

    Worker by worker, each goes to the host that its code names for it, if there is room; else to that with the fewest
    replicas of its tasks, and among several such hosts to the emptiest, so that the loss of one host costs as few tasks
    as possible.

    Arguments:
        code: says which worker holds which tasks.
        hosts: each host, with the number of workers that it has room for; None for any number.
        settled: the hosts of workers that already run, and stay there.

    >>> from erasurehead.codes import fractional_repetition
    >>> spread(fractional_repetition(4, load=2), {"a": None, "b": None})
    ['a', 'b', 'a', 'b']
    """
    names = list(hosts)
    rooms = np.array([np.inf if room is None else room for room in hosts.values()])
    replicas = np.zeros((len(names), code.n_tasks))  # replicas of each task on each host
    count = np.zeros(len(names))
    settled, wanted = settled or {}, cast("Sequence[str]", code.parameters.get("hosts", ()))
    for worker, name in settled.items():
        if name in hosts:
            replicas[names.index(name), code.tasks_of(worker)] += 1
            count[names.index(name)] += 1
    chosen: list[str | None] = []
    for worker in range(code.n_workers):
        tasks = code.tasks_of(worker)
        if worker in settled:
            chosen.append(settled[worker])
            continue
        free = count < rooms
        if worker < len(wanted) and wanted[worker] in names and free[names.index(wanted[worker])]:
            free = np.array([name == wanted[worker] for name in names])
        if not free.any():
            chosen.append(None)
            continue
        clash = np.where(free, replicas[:, tasks].sum(axis=1), np.inf)
        fullness = np.where(np.isinf(rooms), count, count / np.maximum(rooms, 1.0))
        host = int(np.lexsort((fullness, clash))[0])
        replicas[host, tasks] += 1
        count[host] += 1
        chosen.append(names[host])
    return chosen
