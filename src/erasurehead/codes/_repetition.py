"""Uncoded work and repetition: groups of workers that hold the same tasks, equal or of unequal size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from erasurehead._internal.arrays import IntArray, whole_numbers
from erasurehead.codes._assemble import even_sizes, from_rows, ranges, stragglers_and_load, workers_and_tasks
from erasurehead.codes._base import GradientCode, one_message_code
from erasurehead.codes._structure import Structure
from erasurehead.errors import check_count, check_size, invalid


def uncoded(n_workers: int, n_tasks: int | None = None) -> GradientCode:
    """Every task is on exactly one worker, which sends the sum of its partial gradients.

    Arguments:
        n_workers: number of workers.
        n_tasks: number of tasks, at least one per worker; `n_workers` if not given. They are dealt out in
            consecutive blocks whose sizes differ by at most one.

    Structure:
        decoder: `"groups"`: each worker is its own group.

    Guarantees: exact when every worker answers; each straggler costs its own tasks and nothing else.
    Choose it: as the baseline, or with backup workers (wait for the first r and rescale).
    Raises:
        InvalidArgument: if there are fewer tasks than workers.

    >>> code = uncoded(4, n_tasks=6)
    >>> code.loads.tolist(), code.tolerance
    ([2, 2, 1, 1], 0)
    """
    n_workers, n_tasks = workers_and_tasks(n_workers, n_tasks)
    if n_tasks < n_workers:
        raise invalid("n_tasks", f"must be at least n_workers = {n_workers}", n_tasks, f"use {n_tasks} workers")
    return one_message_code(
        name="uncoded",
        parameters={"n_workers": n_workers, "n_tasks": n_tasks},
        encoding=from_rows(np.arange(n_tasks), even_sizes(n_tasks, n_workers), n_tasks),
        groups=np.arange(n_workers),
        tolerance=0,
        source="the baseline of Tandon et al. (ICML 2017); backup workers: Chen et al. (arXiv:1604.00981)",
        structure=Structure(decoder="groups"),
    )


def fractional_repetition(
    n_workers: int, load: int, n_tasks: int | None = None, sizes: Sequence[int] | None = None
) -> GradientCode:
    """Groups of workers that hold the same tasks; the first to answer speaks for its group.

    The tasks are split into ceil(n_tasks / load) groups, and the workers are spread over the groups. Where this does
    not divide, sizes differ by one: any number of workers can serve any number of tasks.

    Arguments:
        n_workers: number of workers (the ErasureHead paper's k).
        load: tasks per worker, at most (the paper's c).
        n_tasks: number of tasks (the paper's n), which may exceed or fall short of `n_workers`, the default.
        sizes: number of workers of each group, at least 1 each; by default as even as possible, the larger ones first.

    Structure:
        decoder: `"groups"`: all messages of a group are equal.

    Guarantees: exact as soon as one worker of every group has answered, often long before all but the stragglers
        have; so for any set of at most (smallest group - 1) stragglers. A missing group costs its own tasks.
    Choose it: by default. It decodes early, instantly and without rounding errors.
    Raises:
        InvalidArgument: if the load exceeds n_tasks, or there are fewer workers than groups.

    >>> code = fractional_repetition(30, load=3)
    >>> code.tolerance, int(code.groups.max()) + 1
    (2, 10)
    >>> fractional_repetition(11, load=3).tolerance  # four groups of 3, 3, 3 and 2 workers
    1
    """
    n_workers, n_tasks = workers_and_tasks(n_workers, n_tasks)
    load = check_count("load", load)
    if load > n_tasks:
        raise invalid("load", f"must be at most the number of tasks, {n_tasks}", load)
    n_groups = -(-n_tasks // load)
    if n_groups > n_workers:
        least = -(-n_tasks // n_workers)
        raise invalid(
            "load",
            f"must be at least n_tasks / n_workers = {n_tasks}/{n_workers}, so that every task finds a worker",
            load,
            f"use load={least}",
        )
    tasks_each, workers_each = even_sizes(n_tasks, n_groups), even_sizes(n_workers, n_groups)
    if sizes is not None:
        workers_each = whole_numbers("sizes", sizes)
        if len(workers_each) != n_groups or workers_each.min() < 1 or workers_each.sum() != n_workers:
            raise invalid("sizes", f"must be {n_groups} positive numbers that add up to {n_workers}", list(sizes))
    groups = np.repeat(np.arange(n_groups, dtype=np.int64), workers_each)
    starts = np.cumsum(tasks_each) - tasks_each
    columns = ranges(starts[groups], tasks_each[groups])
    return one_message_code(
        name="fractional_repetition",
        parameters={"n_workers": n_workers, "load": load, "n_tasks": n_tasks}
        | ({} if sizes is None else {"sizes": workers_each.tolist()}),
        encoding=from_rows(columns, tasks_each[groups], n_tasks),
        groups=groups,
        tolerance=int(workers_each.min()) - 1,
        source="Tandon et al. (ICML 2017), fractional repetition; ErasureHead (arXiv:1901.09671), section 3",
        structure=Structure(decoder="groups"),
    )


def binary_repetition(n_workers: int, stragglers: int, n_tasks: int | None = None) -> GradientCode:
    """All coefficients are one, for any number of workers: each of stragglers + 1 classes shares out all tasks.

    Worker i is in class i mod (stragglers + 1). That many stragglers leave one class complete, whose messages add up to
    the full gradient.

    Arguments:
        n_workers: number of workers (n).
        stragglers: number of stragglers to tolerate (s), less than `n_workers`.
        n_tasks: number of tasks, at least as many as the largest class has workers; `n_workers` if not given.

    Structure:
        decoder: `"classes"`; classes.

    Guarantees: exact for any set of at most `stragglers` stragglers, without rounding errors. Loads differ between
        classes, up to ceil(n_tasks / floor(n / (s + 1))).
    Choose it: instead of a cyclic code if stragglers + 1 does not divide the number of workers and messages are
        float32.
    Raises:
        InvalidArgument: if there are too many stragglers, or fewer tasks than a class has workers.

    >>> code = binary_repetition(11, stragglers=3)
    >>> sorted(set(code.loads.tolist())), set(code.replication.tolist())
    ([3, 4, 5, 6], {4})
    """
    n_workers = check_size("n_workers", n_workers)
    stragglers, n_classes = stragglers_and_load(stragglers, None, n_workers)
    n_tasks = n_workers if n_tasks is None else check_size("n_tasks", n_tasks)
    most = -(-n_workers // n_classes)
    if n_tasks < most:
        raise invalid("n_tasks", f"must be at least {most}, the workers of the largest class", n_tasks)
    classes = np.arange(n_workers) % n_classes
    starts, sizes = np.empty(n_workers, dtype=np.int64), np.empty(n_workers, dtype=np.int64)
    for members in (np.arange(first, n_workers, n_classes) for first in range(n_classes)):
        sizes[members] = even_sizes(n_tasks, len(members))
        starts[members] = np.cumsum(sizes[members]) - sizes[members]
    columns: IntArray = ranges(starts, sizes)
    return one_message_code(
        name="binary_repetition",
        parameters={"n_workers": n_workers, "stragglers": stragglers, "n_tasks": n_tasks},
        encoding=from_rows(columns, sizes, n_tasks),
        tolerance=stragglers,
        source="Charalambides, Mahdavifar, Hero (arXiv:2109.10484), numerically stable binary gradient coding",
        structure=Structure(decoder="classes", classes=classes),
    )
