"""Imported once in the server that workers are forked from: what all of them need, with one BLAS thread each.

More than one BLAS thread a worker oversubscribes the cores, and that fakes stragglers.
"""

from __future__ import annotations

from importlib import import_module

from threadpoolctl import threadpool_limits  # pyright: ignore[reportMissingTypeStubs]  # ships none

from erasurehead.engines.processes.safe_path import forget

forget()
for _module in ("scipy.linalg", "erasurehead.engines.processes.worker"):  # the first loads the BLAS limited below
    import_module(_module)

LIMIT = threadpool_limits(limits=1)
