"""One rank of an MPI job that lives a life: only the coordinator imports what a run needs.

`python -m erasurehead.drills.rank FOLDER NAME SEED LIFE`, as for `life`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from erasurehead.engines.mpi import serve_unless_coordinator

if __name__ == "__main__":
    serve_unless_coordinator()
    from erasurehead.drills.life import main

    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
