"""Equal units of work, divided among workers of given speeds: the tasks of a code, or the samples of a batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.errors import check_positive, invalid, real


def check_speeds(speeds: Sequence[float] | Array, n_workers: int) -> Array:
    """Return speeds, one a worker, in any unit, shape (n_workers,).

    Raises:
        InvalidArgument: if there are not as many as workers, or one is not a positive, finite number.
    """
    several = isinstance(speeds, Iterable) and not isinstance(speeds, str)  # pyright: ignore[reportUnnecessaryIsInstance]
    values = [real(value) for value in speeds] if several and getattr(speeds, "ndim", 1) else []
    if len(values) != n_workers:
        raise invalid("speeds", f"must be one number for each of {n_workers}", speeds, "such as [1, 2, 4, 4] for four")
    for number, value in enumerate(values):
        check_positive(f"speeds[{number}]", value, "must be a positive, finite number", "leave out who does nothing")
    return np.array(values)


def parts(total: int, speeds: Sequence[float] | Array, least: int = 0) -> IntArray:
    """Divide a number of equal units so that the last worker is through as early as can be, shape (n_workers,).

    >>> parts(7 * 2, [1.0, 2.0, 3.0, 4.0, 4.0])
    array([1, 2, 3, 4, 4])

    Arguments:
        total: number of units.
        speeds: of the workers, or their shares, in any unit.
        least: of units of each worker.

    Raises:
        InvalidArgument: if there are too few units for that.
    """
    n_workers = len(speeds)
    checked = check_speeds(speeds, n_workers)
    checked = checked / checked.max()  # whose sum is finite
    if total < least * n_workers:
        raise invalid("total", f"must be at least {least * n_workers}, {least} for each of {n_workers}", total)
    counts = np.maximum(np.floor(total * checked / checked.sum()), least).astype(np.int64)
    while (missing := total - int(counts.sum())) != 0:
        if missing > 0:  # to who would be through first with one more
            counts[int(np.argmin((counts + 1) / checked))] += 1
        else:  # from who is through last
            counts[int(np.argmax(np.where(counts > least, counts / checked, -1.0)))] -= 1
    return counts
