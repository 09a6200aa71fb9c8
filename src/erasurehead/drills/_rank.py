"""One rank of an MPI job that a drill has started: only the coordinator imports what a run needs.

`python -m erasurehead.drills._rank MODULE ...` is `python -m erasurehead.drills._MODULE ...` on the first rank; the
others serve.
"""

from __future__ import annotations

import sys
from runpy import run_module

from erasurehead.engines import serve_unless_coordinator

if __name__ == "__main__":
    serve_unless_coordinator()
    run_module(f"erasurehead.drills._{sys.argv.pop(1)}", run_name="__main__", alter_sys=True)
