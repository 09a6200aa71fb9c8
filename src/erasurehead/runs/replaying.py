"""A recorded run as a delay model."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from erasurehead.runs.folder import RunFolder
from erasurehead.runs.names import ARRIVALS

if TYPE_CHECKING:
    from erasurehead.delays.fixed import Recorded


def replay(folder: RunFolder | str | os.PathLike[str]) -> Recorded:
    """Return the arrivals of a run as a delay model.

    On the virtual engine, with late work dropped (`late="preempt"`, whatever the run itself had) and no computing
    time of its own, the same scheme then stops on the same arrivals in every step, and ends with the same model.
    Nobody dies in a replay: who did, never answers from then on.

    Arguments:
        folder: of the run.

    Raises:
        DataError: if there is no run, or it has no arrivals.
    """
    from erasurehead.delays.fixed import Recorded

    opened = folder if isinstance(folder, RunFolder) else RunFolder.open(folder)
    return Recorded.from_rows(opened.arrivals(), str(opened.path / ARRIVALS))
