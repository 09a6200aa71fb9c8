"""Where the time of a command goes that trains: reading, tuning, starting workers, training, evaluating."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import pairwise

from erasurehead._internal.arrays import Array, Tree
from erasurehead.reports._units import seconds_text
from erasurehead.training import Callback, Run, StepRow


class Stopwatch(Callback):
    """Measures the seconds on the wall of the parts of a command, whatever clock the engine has.

    Make it when everything has been read.

    Arguments:
        began: when the command began, by `time.perf_counter`.
        tuning: how many of the seconds since then the search for a penalty took.
    """

    def __init__(self, began: float, tuning: float = 0.0) -> None:
        self._began, now = began, time.perf_counter()
        self._marks = {"reading": now - tuning} | ({"tuning": now} if tuning else {})

    def on_start(self, seconds: float) -> None:
        self._mark("starting")

    def on_step_end(self, row: StepRow, x: Array) -> None:
        self._mark("training")

    def on_state(self, step: int, state: Callable[[], Mapping[str, Tree]]) -> None:
        self._mark("training")

    def on_end(self, run: Run) -> None:
        self._mark("evaluating")

    def _mark(self, part: str) -> None:
        self._marks[part] = time.perf_counter()

    def seconds(self) -> dict[str, float]:
        """Return the seconds of each part so far, in the order of time."""
        ends = [self._began, *self._marks.values()]
        return {part: end - begin for part, (begin, end) in zip(self._marks, pairwise(ends), strict=True)}

    def as_dict(self) -> dict[str, float]:
        """Return the seconds of each part, and of all of them, as plain data."""
        spent = self.seconds()
        return {f"{part}_seconds": seconds for part, seconds in (spent | {"total": sum(spent.values())}).items()}

    def __str__(self) -> str:
        spent = self.seconds()
        parts = ", ".join(f"{part} {about(seconds)}" for part, seconds in spent.items())
        return f"took {about(sum(spent.values()))}: {parts}"


def about(seconds: float) -> str:
    """Return seconds as a short text, to two digits.

    >>> about(0.1234), about(1.26)
    ('120 ms', '1.3 s')
    """
    return seconds_text(float(f"{seconds:.2g}"))
