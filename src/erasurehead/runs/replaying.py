"""A recorded run as what the virtual engine plays."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from erasurehead.runs.folder import RunFolder
from erasurehead.runs.names import ARRIVALS, STEPS

if TYPE_CHECKING:
    from erasurehead.delays.fixed import Recorded


def replay(folder: RunFolder | str | os.PathLike[str]) -> Recorded:
    """Return a recorded run for the virtual engine to play: `VirtualEngine(replay(folder))`.

    What came then comes again, in its order, each message in the round in which it came, late or not, and at the same
    times; so the same scheme and optimizer take the same steps, learn the same, and end with the same model to the bit,
    whatever the run's engine was and whatever late workers did. It is a model of the run's delays as well, for other
    schemes: `erasurehead.delays.Recorded.from_file`.

    Workers die, fail and join as they did, in the same place among the messages, so that the code is re-formed as it
    was. A worker whose message could not be used fails, once all others of the round have come. What the coordinator
    found by itself, as that a worker seems to hang or lies, it has to find again.
    On the command line: `--delays "recorded('runs/x/arrivals.jsonl', rounds=True)"`.

    Arguments:
        folder: of the run.

    Raises:
        DataError: if there is no run, or it has no arrivals.
    """
    from erasurehead.delays.fixed import Recorded

    opened = folder if isinstance(folder, RunFolder) else RunFolder.open(folder)
    steps = [row.as_dict() for row in opened.step_rows()] if opened.has(STEPS) else None  # without: a table of delays
    return Recorded.from_rows(opened.arrivals(), str(opened.path / ARRIVALS), steps)
