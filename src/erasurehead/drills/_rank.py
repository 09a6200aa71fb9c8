"""One rank of an MPI job that a drill has started: only the coordinator imports what a run needs.

`python -m erasurehead.drills._rank ...` is `python -m erasurehead.drills._coordinator ...` on the first rank; the
others serve.
"""

from __future__ import annotations

from runpy import run_module

from erasurehead.engines._mpi.job import serve_unless_coordinator

if __name__ == "__main__":
    serve_unless_coordinator()
    run_module("erasurehead.drills._coordinator", run_name="__main__", alter_sys=True)
