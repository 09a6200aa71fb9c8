"""Imported once in the server that workers are forked from: what all of them need, with one BLAS thread each."""

from __future__ import annotations

from importlib import import_module

from erasurehead.engines._one_thread import one_thread
from erasurehead.engines._processes.forking import survive_failed_forks
from erasurehead.engines._processes.safe_path import forget

forget()
for _module in ("scipy.linalg", "erasurehead.engines._processes.worker"):
    import_module(_module)

one_thread()
survive_failed_forks()
