"""Uncoded work and repetition: groups of workers that hold the same tasks, equal or of unequal size."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from erasurehead._internal.arrays import Array, IntArray, whole_numbers
from erasurehead._internal.shares import check_speeds, parts
from erasurehead.codes._assemble import even_sizes, from_rows, ranges, stragglers_and_load, workers_and_tasks
from erasurehead.codes._base import GradientCode, one_message_code
from erasurehead.codes._structure import Structure
from erasurehead.errors import check_count, check_size, invalid

PIECES = 16
"""Tasks of the average worker where they are dealt out by speed, unless it is said how many there are. With speeds from
1 to 4 the last of 30 workers is then through within 5% of the earliest time that any division allows."""


def uncoded(
    n_workers: int, n_tasks: int | None = None, speeds: Sequence[float] | None = None, pieces: int | None = None
) -> GradientCode:
    """Every task is on exactly one worker, which sends the sum of its partial gradients.

    Arguments:
        n_workers: number of workers.
        n_tasks: number of tasks, at least one per worker; if not given, `n_workers`, or 16 times as many with `speeds`.
            They are dealt out in consecutive blocks whose sizes differ by at most one, or go by speed.
        speeds: how fast each worker is, in any unit, `n_workers` positive numbers: its tasks are in proportion. One
            that is so slow that the others are sooner through without it gets no task, and sends nothing.
        pieces: how many tasks are one unit of work, that of a worker where each has one task: by default 1, or as many
            as the average worker computes where the number of tasks goes by `speeds`.

    Structure:
        decoder: `"groups"`: each worker is its own group.

    Guarantees: exact when every worker answers; each straggler costs its own tasks and nothing else.
    Choose it: as the baseline, or with backup workers (wait for the first r and rescale); with `speeds` first of all
        where some workers are slow for good: it takes less than any code.
    Raises:
        InvalidArgument: if there are fewer tasks than workers, or not as many speeds.

    >>> code = uncoded(4, n_tasks=6)
    >>> code.loads.tolist(), code.tolerance
    ([2, 2, 1, 1], 0)
    >>> uncoded(4, n_tasks=22, speeds=[1, 2, 4, 4]).loads.tolist()
    [2, 4, 8, 8]
    """
    n_workers, n_tasks, known, pieces = _by_speed(n_workers, n_tasks, speeds, pieces, 1)
    if known is None and n_tasks < n_workers:
        raise invalid("n_tasks", f"must be at least n_workers = {n_workers}", n_tasks, f"use {n_tasks} workers")
    sizes = even_sizes(n_tasks, n_workers) if known is None else parts(n_tasks, known)
    return _one_class_or_more(
        "uncoded",
        {"n_workers": n_workers, "n_tasks": n_tasks},
        known,
        np.cumsum(sizes) - sizes,
        sizes,
        n_tasks,
        tolerance=0,
        source="the baseline of Tandon et al. (ICML 2017); backup workers: Chen et al. (arXiv:1604.00981)",
        pieces=pieces,
    )


def _by_speed(
    n_workers: int, n_tasks: int | None, speeds: Sequence[float] | None, pieces: int | None, n_classes: int
) -> tuple[int, int, Array | None, int]:
    """Return the numbers of workers and of tasks, the speeds, and the tasks of a unit of work, checked.

    Arguments:
        n_workers, n_tasks, speeds, pieces: as for the codes.
        n_classes: how many workers hold each task.
    """
    n_workers = check_size("n_workers", n_workers)
    if pieces is None:
        pieces = 1 if speeds is None or n_tasks is not None else -(-PIECES // n_classes)
    if n_tasks is None:
        n_tasks = n_workers * check_count("pieces", pieces)
    _, n_tasks = workers_and_tasks(n_workers, n_tasks)
    return (
        n_workers,
        n_tasks,
        None if speeds is None else check_speeds(speeds, n_workers),
        check_count("pieces", pieces),
    )


def _one_class_or_more(
    name: str,
    parameters: dict[str, object],
    speeds: Array | None,
    starts: IntArray,
    sizes: IntArray,
    n_tasks: int,
    tolerance: int,
    source: str,
    pieces: int,
    classes: IntArray | None = None,
) -> GradientCode:
    """Return a code whose workers each hold consecutive tasks, and send their sum; who holds none sends nothing.

    Arguments:
        name, parameters, n_tasks, tolerance, source: as for `GradientCode`.
        speeds: of the workers, if that is what their numbers of tasks go by.
        starts: the first task of each worker, shape (n_workers,).
        sizes: how many it has, shape (n_workers,).
        pieces: tasks of a unit of work.
        classes: the class of each worker; None if no two hold the same task, so that each is a group.
    """
    busy = np.flatnonzero(sizes)
    return GradientCode(
        name=name,
        parameters=parameters
        | ({} if speeds is None else {"speeds": speeds.tolist()})
        | ({} if pieces == 1 else {"pieces": pieces}),
        encoding=from_rows(ranges(starts[busy], sizes[busy]), sizes[busy], n_tasks),
        owner=busy,
        n_workers=len(sizes),
        n_tasks=n_tasks,
        groups=np.arange(len(busy)) if classes is None else None,
        tolerance=tolerance,
        source=source,
        task_work=1.0 / pieces,
        structure=Structure(decoder="groups")
        if classes is None
        else Structure(decoder="classes", classes=classes[busy]),
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


def binary_repetition(
    n_workers: int,
    stragglers: int,
    n_tasks: int | None = None,
    speeds: Sequence[float] | None = None,
    pieces: int | None = None,
) -> GradientCode:
    """All coefficients are one, for any number of workers: each of stragglers + 1 classes shares out all tasks.

    Worker i is in class i mod (stragglers + 1). That many stragglers leave one class complete, whose messages add up to
    the full gradient. With `speeds`, classes are equally fast in sum, and in each the tasks go by speed: all workers
    are through at about the same time.

    Arguments:
        n_workers: number of workers (n).
        stragglers: number of stragglers to tolerate (s), less than `n_workers`.
        n_tasks: number of tasks, at least as many as the largest class has workers; if not given, `n_workers`, or with
            `speeds` so many that the average worker has 16.
        speeds: how fast each worker is, in any unit, `n_workers` positive numbers; the slowest may get no task, and
            send nothing.
        pieces: how many tasks are one unit of work, that of a worker where each has one task: by default 1, or as many
            as the average worker computes where the number of tasks goes by `speeds`.

    Structure:
        decoder: `"classes"`; classes.

    Guarantees: exact for any set of at most `stragglers` stragglers, without rounding errors. Loads differ between
        classes, up to ceil(n_tasks / floor(n / (s + 1))). With `speeds` from 1 to 4, time over the ideal, n_tasks
        (s + 1) / sum(speeds), is at most 1.08 for 30 workers.
    Choose it: instead of a cyclic code if stragglers + 1 does not divide the number of workers and messages are
        float32; with `speeds`, where workers differ for good, and some die or stall besides.
    Raises:
        InvalidArgument: if there are too many stragglers, fewer tasks than a class has workers, or not as many speeds
            as workers.

    >>> code = binary_repetition(11, stragglers=3)
    >>> sorted(set(code.loads.tolist())), set(code.replication.tolist())
    ([3, 4, 5, 6], {4})
    >>> binary_repetition(5, stragglers=1, n_tasks=7, speeds=[1, 2, 3, 4, 4]).loads.tolist()
    [1, 2, 3, 4, 4]
    """
    checked, n_classes = stragglers_and_load(stragglers, None, check_size("n_workers", n_workers))
    n_workers, n_tasks, known, pieces = _by_speed(n_workers, n_tasks, speeds, pieces, n_classes)
    classes = np.arange(n_workers) % n_classes if known is None else _equally_fast(known, n_classes)
    most = int(np.bincount(classes).max())
    if n_tasks < most and known is None:
        raise invalid("n_tasks", f"must be at least {most}, the workers of the largest class", n_tasks)
    starts, sizes = np.empty(n_workers, dtype=np.int64), np.empty(n_workers, dtype=np.int64)
    for members in (np.flatnonzero(classes == one) for one in range(n_classes)):
        sizes[members] = even_sizes(n_tasks, len(members)) if known is None else parts(n_tasks, known[members])
        starts[members] = np.cumsum(sizes[members]) - sizes[members]
    return _one_class_or_more(
        "binary_repetition",
        {"n_workers": n_workers, "stragglers": checked, "n_tasks": n_tasks},
        known,
        starts,
        sizes,
        n_tasks,
        tolerance=checked,
        source="Charalambides, Mahdavifar, Hero (arXiv:2109.10484), numerically stable binary gradient coding; with "
        "speeds, the setting of Wang et al. (arXiv:1901.09339), heterogeneity-aware gradient coding",
        pieces=pieces,
        classes=classes,
    )


def _equally_fast(speeds: Array, n_classes: int) -> IntArray:
    """Return the class of each worker, shape (n_workers,): the fastest first, each joins the class that is slowest."""
    totals, classes = np.zeros(n_classes), np.empty(len(speeds), dtype=np.int64)
    for worker in np.argsort(-speeds, kind="stable").tolist():
        classes[worker] = int(totals.argmin())
        totals[classes[worker]] += speeds[worker] / speeds.max()  # whose sum is finite
    return classes
