"""Repetition without divisibility: classes of workers, each of which covers all tasks once."""

from __future__ import annotations

import numpy as np

from erasurehead.arrays import IntArray
from erasurehead.codes.assemble import even_sizes, from_rows, ranges, stragglers_and_load
from erasurehead.codes.base import GradientCode
from erasurehead.errors import check_count, invalid


def binary_repetition(n_workers: int, stragglers: int, n_tasks: int | None = None) -> GradientCode:
    """All coefficients are one, for any number of workers: each of stragglers + 1 classes shares out all tasks.

    Worker i is in class i mod (stragglers + 1). So many stragglers leave one class untouched, whose messages add up to
    the full gradient.

    Arguments:
        n_workers: number of workers (n).
        stragglers: how many stragglers must be borne (s), less than `n_workers`.
        n_tasks: number of tasks, at least as many as the largest class has workers; `n_workers` if not given.

    Labels:
        decoder: `"classes"`; classes.

    Guarantees: exact for any set of at most `stragglers` stragglers, with no rounding at all. Loads differ between
        classes, up to ceil(n_tasks / floor(n / (s + 1))).
    Choose it: instead of a cyclic code where stragglers + 1 does not divide the workers and messages are float32.
    Raises:
        InvalidArgument: more stragglers than workers can bear, or fewer tasks than a class has workers.

    >>> code = binary_repetition(11, stragglers=3)
    >>> sorted(set(code.loads.tolist())), set(code.replication.tolist())
    ([3, 4, 5, 6], {4})
    """
    n_workers = check_count("n_workers", n_workers)
    stragglers, n_classes = stragglers_and_load(stragglers, None, n_workers)
    n_tasks = n_workers if n_tasks is None else check_count("n_tasks", n_tasks)
    most = -(-n_workers // n_classes)
    if n_tasks < most:
        raise invalid("n_tasks", f"must be at least {most}, the workers of the largest class", n_tasks)
    classes = np.arange(n_workers) % n_classes
    starts, sizes = np.empty(n_workers, dtype=np.int64), np.empty(n_workers, dtype=np.int64)
    for members in (np.arange(first, n_workers, n_classes) for first in range(n_classes)):
        sizes[members] = even_sizes(n_tasks, len(members))
        starts[members] = np.cumsum(sizes[members]) - sizes[members]
    columns: IntArray = ranges(starts, sizes)
    return GradientCode(
        name="binary_repetition",
        parameters={"n_workers": n_workers, "stragglers": stragglers, "n_tasks": n_tasks},
        encoding=from_rows(columns, sizes, n_tasks),
        owner=np.arange(n_workers),
        n_workers=n_workers,
        n_tasks=n_tasks,
        tolerance=stragglers,
        source="Charalambides, Mahdavifar, Hero (arXiv:2109.10484), numerically stable binary gradient coding",
        labels={"decoder": "classes", "classes": classes},
    )
