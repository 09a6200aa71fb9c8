"""Reed-Solomon gradient codes: exact, for any number of tasks that the workers can share evenly."""

from __future__ import annotations

import math

import numpy as np

from erasurehead.codes.base import GradientCode
from erasurehead.codes.complex_rows import real_rows
from erasurehead.errors import check_count, invalid


def reed_solomon(n_workers: int, load: int, n_tasks: int | None = None) -> GradientCode:
    """Worker i stands for a point of the unit circle, each task for a polynomial that vanishes where nobody holds it.

    Worker i holds tasks i*load, i*load + 1, ... around the circle of tasks, so that each task is on
    d = n_workers * load / n_tasks workers. The coefficients are those polynomials at the workers' points; rows are
    divided by their first coefficient, and where this makes a row real it is one message instead of two.

    Arguments:
        n_workers: number of workers (n).
        load: tasks per worker (w).
        n_tasks: number of tasks (k), a divisor of n_workers * load; `n_workers` if not given.

    Labels:
        decoder: `"least_squares"`; complex_part, largest_coefficient.

    Guarantees: exact for any set of at most d - 1 stragglers, d = n_workers * load / n_tasks; the least possible load.
    Choose it: when tasks and workers differ in number and every straggler set of that size must decode.
    Raises:
        InvalidArgument: more load than tasks, or n_tasks does not divide n_workers * load.

    >>> reed_solomon(8, load=2, n_tasks=4).tolerance
    3
    """
    n_workers = check_count("n_workers", n_workers)
    n_tasks = n_workers if n_tasks is None else check_count("n_tasks", n_tasks)
    load = check_count("load", load, at_most=n_tasks)
    if n_workers * load % n_tasks:
        step = n_tasks // math.gcd(n_workers, n_tasks)
        near = min(max(step, step * round(load / step)), n_tasks)
        raise invalid(
            "load",
            f"times {n_workers} workers must be a multiple of the {n_tasks} tasks, so that all have equal shares",
            load,
            f"use load={near}",
        )
    columns = (np.arange(n_workers)[:, None] * load + np.arange(load)) % n_tasks
    replication = n_workers * load // n_tasks
    holders = np.argsort(columns.ravel(), kind="stable").reshape(n_tasks, replication) // load
    points = np.exp(2j * np.pi * np.arange(n_workers) / n_workers)
    # t_j(x) over n x^(n-1), at a holder's point, is one over the product of its distances to the other holders: the
    # product over all points is n x^(n-1), and dividing a row by a constant changes nothing.
    product = np.ones(columns.shape, dtype=np.complex128)
    for rank in range(replication):
        other = holders[columns, rank]
        own = other == np.arange(n_workers)[:, None]
        product *= np.where(own, 1.0, points[:, None] - points[other])
    encoding, owner, part = real_rows(columns, 1.0 / product, n_tasks)
    return GradientCode(
        name="reed_solomon",
        parameters={"n_workers": n_workers, "load": load, "n_tasks": n_tasks},
        encoding=encoding,
        owner=owner,
        n_workers=n_workers,
        n_tasks=n_tasks,
        tolerance=replication - 1,
        source="Halbawi, Azizan, Salehi, Hassibi (arXiv:1706.05436), section 3",
        labels={
            "decoder": "least_squares",
            "complex_part": part,
            "largest_coefficient": float(np.abs(encoding.data).max()),
        },
    )
