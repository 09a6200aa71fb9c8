"""Progress on a terminal: step, loss, who is late, time left."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from rich.table import Column

from erasurehead.arrays import Array
from erasurehead.instruments import Instrument
from erasurehead.records.rows import StepRow
from erasurehead.run import Run
from erasurehead.schemes import Scheme

_PAUSE = 0.2  # seconds between two drawings: they run on the coordinator, and their time counts
_MOST_LATE = 5
_MOST_NOTICES = 10


class ProgressBar(Instrument):
    """Draws one bar a run, below those before it; use it as a context manager around all of them.

    Arguments:
        console: where to draw.
    """

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[loss]}"),
            TimeRemainingColumn(compact=True),
            TextColumn("{task.fields[late]}", style="dim", table_column=Column(min_width=32, no_wrap=True)),
            console=console,
            auto_refresh=False,
            speed_estimate_period=600.0,
        )
        self._task = TaskID(0)
        self._workers = 0
        self._drawn = 0.0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def preparing(self, scheme: Scheme, steps: int) -> None:
        self._workers = scheme.code.n_workers
        self._task = self._progress.add_task(
            escape(scheme.name), start=False, total=steps, loss="", late=f"starting {self._workers} workers"
        )
        self._progress.refresh()

    def ready(self, seconds: float) -> None:
        self._progress.start_task(self._task)
        self._progress.update(self._task, late="")
        self._draw()

    def waiting(self, step: int, missing: Sequence[int], elapsed: float) -> None:
        if self._is_time():
            self._progress.update(self._task, late=late_workers(missing))
            self._draw()

    def step(self, row: StepRow, x: Array) -> None:
        loss = "" if row.loss is None else f"loss {row.loss:.4g}"
        self._progress.update(self._task, completed=row.step + 1, loss=loss)
        if self._is_time():
            self._progress.update(self._task, late=late_workers(row.missing))
            self._draw()

    def finished(self, run: Run) -> None:
        self._progress.update(self._task, late="ended early" if run.stopped else seconds_text(run.seconds))
        if run.stopped:
            self._progress.stop_task(self._task)
        self._progress.refresh()

    def _is_time(self) -> bool:
        return time.monotonic() - self._drawn >= _PAUSE

    def _draw(self) -> None:
        self._progress.refresh()
        self._drawn = time.monotonic()


class Notices(Instrument):
    """Prints what a person should know, such as deaths; after the first few of a run only their number.

    Arguments:
        console: where to print.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._count = 0

    def preparing(self, scheme: Scheme, steps: int) -> None:
        self._count = 0

    def notice(self, text: str) -> None:
        self._count += 1
        if self._count <= _MOST_NOTICES:
            self._say(text)

    def finished(self, run: Run) -> None:
        if self._count > _MOST_NOTICES:
            self._say(f"{self._count - _MOST_NOTICES} more such notices; the run's steps have them all")

    def _say(self, text: str) -> None:
        self._console.print(escape(text), style="yellow", highlight=False, soft_wrap=True)


def late_workers(missing: Sequence[int]) -> str:
    """Return who is late in a few words.

    >>> late_workers([3, 7, 12])
    'late: 3, 7, 12'
    >>> late_workers(range(9))
    'late: 0, 1, 2, 3, 4 and 4 more'
    """
    if not missing:
        return ""
    shown = ", ".join(map(str, missing[:_MOST_LATE]))
    more = len(missing) - _MOST_LATE
    return f"late: {shown}" + (f" and {more} more" if more > 0 else "")


def seconds_text(seconds: float) -> str:
    """Return a time in a unit that suits it.

    >>> seconds_text(0.0123), seconds_text(75.31)
    ('12.3 ms', '75.3 s')
    """
    if not math.isfinite(seconds):
        return "–"
    return f"{seconds:.1f} s" if seconds >= 10 else f"{seconds:.3g} s" if seconds >= 1 else f"{seconds * 1e3:.3g} ms"
