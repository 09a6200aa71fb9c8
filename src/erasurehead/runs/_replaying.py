"""Replays of recorded runs on the virtual engine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from erasurehead._internal.user_files import StrPath
from erasurehead.runs._folder import RunFolder
from erasurehead.runs._names import ARRIVALS, STEPS

if TYPE_CHECKING:
    from erasurehead.delays._fixed import Recorded


def replay(folder: RunFolder | StrPath) -> Recorded:
    """Return a recorded run as delays for a replay on the virtual engine: `VirtualEngine(replay(folder))`.

    Messages arrive again in the same order, each in the round in which it arrived, late or not, and at the same times;
    so the same scheme and optimizer take the same steps, learn the same, and end with the same model bit for bit,
    whatever the run's engine and its late workers did. For a model of the run's delays for other schemes, see
    `erasurehead.delays._fixed.Recorded.from_file`.

    Workers die, fail and join as they did, at the same place among the messages, so that the code is resized as it was.
    A worker whose message could not be used fails once all others of the round have arrived. What the coordinator found
    by itself, such as that a worker seems to hang or lies, it has to find again.
    On the command line: `--delays "recorded('runs/x/arrivals.jsonl', rounds=True)"`.

    Arguments:
        folder: folder of the run.

    Raises:
        DataError: if there is no run, or it has no arrivals.
    """
    from erasurehead.delays._fixed import Recorded

    opened = folder if isinstance(folder, RunFolder) else RunFolder.open(folder)
    steps = [row.as_dict() for row in opened.step_rows()] if opened.has(STEPS) else None  # None: a table of delays
    return Recorded.from_rows(opened.arrivals(), str(opened.path / ARRIVALS), steps)
