"""Reed-Solomon gradient codes: exact, for any number of tasks that workers can share evenly.

Cyclic MDS codes, from roots of unity, are in `_cyclic`.
"""

from __future__ import annotations

import numpy as np

from erasurehead.codes._assemble import equal_shares, workers_and_tasks
from erasurehead.codes._base import GradientCode
from erasurehead.codes._complex_rows import real_rows
from erasurehead.codes._exact_weights import shifted_weights
from erasurehead.codes._rounded_tolerance import certified
from erasurehead.codes._structure import Structure
from erasurehead.errors import check_count


def reed_solomon(n_workers: int, load: int, n_tasks: int | None = None) -> GradientCode:
    """Worker i stands for a point of the unit circle, each task for a polynomial that vanishes where nobody holds it.

    Worker i holds tasks i*load, i*load + 1, ... around the circle of tasks, so that each task is on
    d = n_workers * load / n_tasks workers. The coefficients are those polynomials at the workers' points; rows are
    divided by their first coefficient, and where this makes a row real it is one message instead of two.

    Arguments:
        n_workers: number of workers (n).
        load: tasks per worker (w).
        n_tasks: number of tasks (k), a divisor of n_workers * load; `n_workers` if not given.

    Structure:
        decoder: `"least_squares"`; complex_part, shift, largest_coefficient, amplification, amplification_bound,
            hardest.

    Guarantees: exact for any set of at most d - 1 stragglers, d = n_workers * load / n_tasks; the least possible load.
    Choose it: when every straggler set of that size must decode among many workers or with a large load, where cyclic
        codes amplify rounding: here a task's holders are spread around the circle, which avoids that. Also when there
        are not as many tasks as workers. It sends two real messages per worker, or one where all rows are real.
    Raises:
        InvalidArgument: if the load exceeds n_tasks, or n_tasks does not divide n_workers * load.

    >>> reed_solomon(8, load=2, n_tasks=4).tolerance
    3
    """
    n_workers, n_tasks = workers_and_tasks(n_workers, n_tasks)
    load = check_count("load", load, at_most=n_tasks)
    replication = equal_shares(n_workers, load, n_tasks, ", so that all have equal shares")
    columns = (np.arange(n_workers)[:, None] * load + np.arange(load)) % n_tasks
    # t_j(x) over n x^(n-1), at a holder's point, is one over the product of its distances to the other holders: the
    # product over all points is n x^(n-1), and dividing a row by a constant changes nothing. How far the other holders
    # of a task lie around the circle depends only on its place in the row, so that all rows are alike.
    apart = (columns[0][:, None] - columns.ravel()) % n_tasks == 0
    generator = np.ones(load, dtype=np.complex128)
    for place in range(load):
        others = np.flatnonzero(apart[place]) // load
        half_turns = np.pi * others[others > 0] / n_workers
        generator[place] = np.prod(-1 / (2j * np.sin(half_turns) * np.exp(1j * half_turns)))
    encoding, owner, part = real_rows(columns, np.tile(generator, (n_workers, 1)), n_tasks)
    code = GradientCode(
        name="reed_solomon",
        parameters={"n_workers": n_workers, "load": load, "n_tasks": n_tasks},
        encoding=encoding,
        owner=owner,
        n_workers=n_workers,
        n_tasks=n_tasks,
        tolerance=replication - 1,
        source="Halbawi, Azizan, Salehi, Hassibi (arXiv:1706.05436), section 3",
        structure=Structure(
            decoder="least_squares",
            complex_part=part,
            shift=load,
            largest_coefficient=float(np.abs(encoding.data).max()),
        ),
    )
    hint = f"use binary_repetition({n_workers}, stragglers={replication - 1}, n_tasks={n_tasks})"
    return certified(code, shifted_weights(code), hint)
