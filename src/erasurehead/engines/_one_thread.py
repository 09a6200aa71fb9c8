"""One thread per worker for linear algebra: more would oversubscribe the cores, and fake stragglers."""

from __future__ import annotations

import os

from threadpoolctl import threadpool_limits  # pyright: ignore[reportMissingTypeStubs]  # ships none

_READ_AS_THEY_LOAD = ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS", "OMP_NUM_THREADS")


def one_thread() -> None:
    """Limit this process's linear algebra to one thread: in libraries loaded now, and later."""
    os.environ.update(dict.fromkeys(_READ_AS_THEY_LOAD, "1"))
    threadpool_limits(limits=1)
