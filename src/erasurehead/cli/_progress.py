"""Progress of runs, with step, loss, late workers and time left: a bar on a terminal, regular lines in a log file."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Column

from erasurehead._internal.arrays import Array
from erasurehead.errors import counted
from erasurehead.reports._units import duration, seconds_text
from erasurehead.schemes import Scheme
from erasurehead.training import Callback, Notice, Run, StepRow

_PAUSE = 0.2  # least seconds between updates, as they take time on the coordinator
_PATIENCE = 0.5  # seconds of waiting from which on it is said who is waited for: less is jitter
_NAME, _WIDE = 28, 110  # columns of a scheme's name, and of a terminal on which there is room for a longer bar
_MOST_NAMED = 5
_MOST_NOTICES = 10


class ProgressBar(Callback):
    """Shows a progress bar for each run, one below the other; use it as a context manager around all runs.

    Arguments:
        console: console to draw on.
        transient: whether the bars go at the end.
    """

    def __init__(self, console: Console, transient: bool = False) -> None:
        self._columns = console.width
        self._progress = Progress(
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
            BarColumn(bar_width=24 if self._columns >= _WIDE else 10),
            MofNCompleteColumn(table_column=Column(no_wrap=True)),
            TimeElapsedColumn(table_column=Column(no_wrap=True)),
            # What is left of the line is cut here, as the table would rather cut step and time.
            TextColumn("{task.fields[loss]}{task.fields[state]}", markup=False, table_column=Column(no_wrap=True)),
            console=console,
            auto_refresh=False,
            transient=transient,
        )
        self._task = TaskID(0)
        self._room = 0
        self._loss = ""
        self._drawn = 0.0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def on_setup(self, scheme: Scheme, steps: int) -> None:
        self._task = self._progress.add_task(
            _cut(scheme.name, _NAME),
            start=False,
            total=steps,
            loss="",
            state="",
        )
        self._loss = ""
        used = min(len(scheme.name), _NAME) + (24 if self._columns >= _WIDE else 10) + 2 * len(str(steps)) + 1 + 7 + 4
        self._room = max(0, self._columns - used)
        self._progress.refresh()

    def on_starting(self, workers: int) -> None:
        self._show(state=f"starting {counted('worker', workers)}")
        self._progress.refresh()

    def on_start(self, seconds: float) -> None:
        self._progress.start_task(self._task)
        self._show(state="")
        self._draw()

    def on_wait(self, step: int, missing: Sequence[int], elapsed: float) -> None:
        if self._is_time():
            self._show(state=waited_for(missing, elapsed))
            self._draw()

    def on_step_end(self, row: StepRow, x: Array) -> None:
        self._progress.update(self._task, completed=row.step + 1)
        if not row.rejected:  # otherwise, the loss is not that of the model
            self._loss = "" if row.loss is None else f"loss {row.loss:.4g}{estimated(row.coverage)}"
        if self._is_time():
            self._show(state=f"{row.arrived} of {row.workers} answered in time")
            self._draw()

    def on_evaluated(self, done: int, of: int) -> None:
        if self._is_time():
            self._show(state=f"evaluating: {done} of {of} models")
            self._draw()

    def on_end(self, run: Run) -> None:
        self._show(state="ended early" if run.stopped else seconds_text(run.seconds))
        if run.stopped:
            self._progress.stop_task(self._task)
        self._progress.refresh()

    def _show(self, state: str) -> None:
        between = ", " if self._loss and state else ""
        rest = self._room - len(self._loss) - len(between)
        if len(state) > rest:  # the state changes with every step, the loss tells how far it is
            state, between = (_cut(state, rest), between) if rest > 8 else ("", "")
        self._progress.update(self._task, loss=_cut(self._loss, self._room), state=between + state)

    def _is_time(self) -> bool:
        return time.monotonic() - self._drawn >= _PAUSE

    def _draw(self) -> None:
        self._progress.refresh()
        self._drawn = time.monotonic()


class ProgressLines(Callback):
    """Prints a line at regular intervals, for log files such as those of batch jobs.

    Arguments:
        console: console to print on.
        every: least number of seconds between lines; a shorter run prints none.
        clock: returns the current time in seconds.
    """

    def __init__(self, console: Console, every: float = 30.0, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._every = every
        self._clock = clock
        self._steps = self._first = self._done = 0
        self._began = self._last = 0.0

    def on_setup(self, scheme: Scheme, steps: int) -> None:
        self._steps, self._done = steps, 0

    def on_starting(self, workers: int) -> None:
        self._say(f"starting {counted('worker', workers)} ...")

    def on_start(self, seconds: float) -> None:
        self._began = self._last = self._clock()

    def on_wait(self, step: int, missing: Sequence[int], elapsed: float) -> None:
        if self._is_time() and (waiting := waited_for(missing, elapsed)):
            self._say(f"step {step + 1} of at most {self._steps:,}: {waiting}")

    def on_step_end(self, row: StepRow, x: Array) -> None:
        if self._done == 0:
            self._first = row.step  # greater than 0 if the run was resumed
        self._done = row.step + 1
        if not self._is_time():
            return
        pace = (self._clock() - self._began) / (self._done - self._first)
        has_loss = row.loss is not None and not row.rejected
        loss = f"loss {row.loss:.4g}{estimated(row.coverage)}, " if has_loss else ""
        left = duration((self._steps - self._done) * pace)
        at_most = f"at most {left} left"  # who converges, or reaches a target, ends before
        self._say(f"step {self._done} of at most {self._steps:,}: {loss}{seconds_text(pace)} a step, {at_most}")

    def on_evaluated(self, done: int, of: int) -> None:
        if self._is_time():
            self._say(f"training is done; {done} of {of} models are evaluated")

    def _is_time(self) -> bool:
        return self._clock() - self._last >= self._every

    def _say(self, text: str) -> None:
        self._last = self._clock()
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


class Notices(Callback):
    """Prints notices about a run, such as deaths of workers; after the first ten, only the number of the others.

    Arguments:
        console: console to print on.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._count = 0

    def on_setup(self, scheme: Scheme, steps: int) -> None:
        self._count = 0

    def on_notice(self, notice: Notice) -> None:
        self._count += 1
        if self._count <= _MOST_NOTICES:
            self._say(notice.text)

    def on_end(self, run: Run) -> None:
        if self._count > _MOST_NOTICES:
            self._say(f"{self._count - _MOST_NOTICES} more such notices; the run's steps have them all")

    def _say(self, text: str) -> None:
        self._console.print(text, markup=False, style="yellow", highlight=False, soft_wrap=True)


def estimated(coverage: float) -> str:
    """Return the share of the data from which a loss is estimated, in brackets; empty if it is all.

    Arguments:
        coverage: share of the gradient that was counted.

    >>> estimated(0.64), estimated(1.0)
    (' (estimated from 64% of the data)', '')
    """
    share = min(max(coverage, 0.0), 1.0)
    return "" if share > 1.0 - 1e-9 else f" (estimated from {min(share, 0.99):.0%} of the data)"


def waited_for(missing: Sequence[int], elapsed: float) -> str:
    """Return a short text on who is waited for, and for how long; empty while it is not worth mentioning.

    Arguments:
        missing: numbers of the workers that have not answered.
        elapsed: seconds since they were asked.

    >>> waited_for([3, 7, 12], 2.5)
    'waiting for 3, 7, 12 (2.5 s)'
    >>> waited_for(range(9), 2.5)
    'waiting for 0, 1, 2, 3, 4 and 4 more (2.5 s)'
    >>> waited_for(range(9), 0.05)
    ''
    """
    if not missing or elapsed < _PATIENCE:
        return ""
    shown = ", ".join(map(str, missing[:_MOST_NAMED]))
    more = len(missing) - _MOST_NAMED
    return f"waiting for {shown}" + (f" and {more} more" if more > 0 else "") + f" ({elapsed:.1f} s)"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: max(0, most - 3)]}..."[: max(0, most)]
