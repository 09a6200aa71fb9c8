"""Balanced incomplete block designs as codes: the residual depends on how many straggle, never on who."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from erasurehead.codes.assemble import AnyIntArray, from_rows
from erasurehead.codes.base import GradientCode
from erasurehead.errors import invalid

_SOURCE = "Kadhe, Koyluoglu, Ramchandran (arXiv:1904.13373)"


def block_design(blocks: Sequence[Sequence[int]]) -> GradientCode:
    """The code of a balanced incomplete block design of your own: workers are points, tasks are blocks.

    Arguments:
        blocks: for each task the workers that hold it, equally many, counted from 0 without gaps; any two workers
            must share equally many tasks.

    Labels:
        decoder: `"bibd"`; bibd, mean_load.

    Guarantees: exact when all workers answer. With any s stragglers the best weights are all equal, and the residual
        is exactly b - r^2 (v - s) / (r + lambda (v - s - 1)) for (v, b, r, k, lambda): as good for an adversary's
        straggler set as for a random one, and the least spectral bound of all biregular codes. For very few
        stragglers some cyclic codes are better.
    Choose it: when stragglers may be chosen by an adversary and a design of that size exists (`design_for` tells).
    Raises:
        InvalidArgument: the blocks are not such a design; the message says which count is off.

    >>> block_design([[0, 1], [1, 2], [0, 2]]).labels["bibd"]
    (3, 3, 2, 2, 1)
    """
    sizes = {len(block) for block in blocks}
    if len(sizes) != 1 or min(sizes) < 2:
        raise invalid("blocks", "must all have the same number of workers, at least 2", sorted(sizes))
    members = np.sort(np.array(blocks, dtype=np.int64), axis=1)
    if members.min() < 0 or (np.diff(members, axis=1) == 0).any() or not np.bincount(members.ravel()).all():
        raise invalid("blocks", "must name the workers 0, 1, 2, ... without gaps and none twice", members[:3].tolist())
    n_workers, n_tasks = int(members.max()) + 1, len(members)
    loads = np.bincount(members.ravel())
    if loads.min() != loads.max():
        raise invalid("blocks", "must put equally many on each worker", f"{loads.min()} to {loads.max()} a worker")
    order = np.argsort(members.ravel(), kind="stable")
    columns = (order // members.shape[1]).reshape(n_workers, -1)
    gram = from_rows(columns.ravel(), loads, n_tasks)
    overlaps = (gram @ gram.T).toarray()[~np.eye(n_workers, dtype=bool)]
    if overlaps.min() != overlaps.max():
        seen = f"pairs that share {overlaps.min():.0f} to {overlaps.max():.0f} tasks"
        raise invalid("blocks", "must give any two workers equally many common tasks", seen)
    return design_code("block_design", {"blocks": members.tolist()}, columns, n_tasks, int(overlaps[0]), _SOURCE)


def design_code(
    name: str, parameters: dict[str, object], columns: AnyIntArray, n_tasks: int, common: int, construction: str
) -> GradientCode:
    """Return the code of a design that is known to be balanced.

    Arguments:
        name: of the family.
        parameters: what it was built from.
        columns: tasks of each worker, shape (n_workers, load).
        n_tasks: number of tasks (blocks).
        common: tasks that any two workers share (lambda).
        construction: where the design comes from.
    """
    n_workers, load = len(columns), len(columns[0])
    design = (n_workers, n_tasks, load, n_workers * load // n_tasks, common)
    source = construction if construction == _SOURCE else f"{_SOURCE}; {construction}"
    return GradientCode(
        name=name,
        parameters=parameters,
        encoding=from_rows(columns.ravel(), np.full(n_workers, load), n_tasks),
        owner=np.arange(n_workers),
        n_workers=n_workers,
        n_tasks=n_tasks,
        tolerance=0,
        source=source,
        labels={"decoder": "bibd", "bibd": design, "mean_load": float(load)},
    )
