"""Progress of runs, with step, loss, pace and late workers: a bar on a terminal, a line in a notebook or for a log."""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from types import TracebackType
from typing import Any, Self

from rich import progress as bars
from rich.console import Console
from rich.table import Column

from erasurehead._internal.arrays import Array
from erasurehead._internal.plain_text import visible
from erasurehead.errors import counted, some
from erasurehead.reports._units import duration, seconds_text
from erasurehead.schemes import Scheme
from erasurehead.training import Callback, Notice, Run, StepRow

_PAUSE = 0.2  # least seconds between updates, as they take time on the coordinator
_LOGGED = 30.0  # and between the lines of a log
_PATIENCE = 0.5  # seconds of waiting from which on it is said who is waited for: less is jitter
_NAME, _WIDE = 28, 110  # columns of a scheme's name, and of a terminal on which there is room for a longer bar
_MOST_NAMED = 5
_MOST_NOTICES = 10


class Progress(Callback):
    """Shows how far training is: `train(..., callbacks=[Progress()])`.

    On a terminal it is a bar, and in a notebook a line that changes, at most five times a second; how the run ended
    stays. In a log, such as that of a batch job, there is a line every half minute, and a last one. `plan` shows how
    many settings are done: `plan(..., progress=Progress())`.

    As a context manager around a run, it also ends the bar where the run ends by an error.

    Arguments:
        console: console of rich to draw on, where the last line of a log is left out; by default a notebook, or stderr.
        transient: whether bars go at the end.
        every: least number of seconds between updates; by default as above.
        clock: returns the current time in seconds.
    """

    def __init__(
        self,
        console: Console | None = None,
        transient: bool = False,
        every: float | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._notebook = console is None and _in_notebook()
        self._closing = console is None
        self._console = console or Console(stderr=True)
        self._bar = bars.Progress(
            bars.TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
            bars.BarColumn(bar_width=24 if self._console.width >= _WIDE else 10),
            bars.MofNCompleteColumn(table_column=Column(no_wrap=True)),
            bars.TimeElapsedColumn(table_column=Column(no_wrap=True)),
            bars.TextColumn("{task.fields[text]}", markup=False, table_column=Column(no_wrap=True, ratio=1)),
            expand=True,
            console=self._console,
            auto_refresh=False,
            transient=transient,
            redirect_stdout=False,  # what a script prints there is data
        )
        self._draws = not self._notebook and self._console.is_terminal
        self._task: bars.TaskID | None = None
        self._every = every if every is not None else _PAUSE if self._draws or self._notebook else _LOGGED
        self.wait_every = _PAUSE
        self._clock = clock
        self._name = self._loss = ""
        self._line: Any = None  # of a notebook, while it changes
        self._steps = self._first = self._done = 0
        self._began = self._last = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._task is not None:
            self._bar.stop()

    def __call__(self, done: int, of: int) -> None:
        """Show that so many of all things are done."""
        if done <= 1:
            self._begin("", of)
        self._done = done
        if done == of or self._is_time():
            self._say("" if self._draws else f"{done:,} of {of:,} done", last=done == of)

    def on_setup(self, scheme: Scheme, steps: int) -> None:
        self._begin(_cut(visible(scheme.name), _NAME), steps)

    def on_starting(self, workers: int) -> None:
        self._say(f"starting {counted('worker', workers)} ...")

    def on_start(self, seconds: float) -> None:
        self._began = self._last = self._clock()
        if self._task is not None:
            self._bar.start_task(self._task)
            self._say("")

    def on_wait(self, step: int, missing: Sequence[int], elapsed: float) -> None:
        if self._is_time() and (waiting := waited_for(missing, elapsed)):
            self._say(self._loss + waiting, step + 1)

    def on_step_end(self, row: StepRow, x: Array) -> None:
        if self._done == 0:
            self._first = row.step  # greater than 0 if the run was resumed
        self._done, self._loss = row.step + 1, _loss(row)
        if self._is_time():
            pace = (self._clock() - self._began) / (self._done - self._first)
            left = duration((self._steps - self._done) * pace)  # who converges, or reaches a target, ends before
            self._say(f"{self._loss}{seconds_text(pace)} a step, at most {left} left", self._done)

    def on_evaluated(self, done: int, of: int) -> None:
        if self._is_time():
            self._say(f"training is done; {done} of {of} models are evaluated")

    def on_end(self, run: Run) -> None:
        steps = "" if self._draws else f"{counted('step', run.steps_taken)}: "
        early = "" if not run.stopped else ", ended early" if self._draws else f", ended early: {visible(run.stopped)}"
        self._say(f"{steps}{self._loss}{seconds_text(run.seconds)}{early}", last=True)

    def _begin(self, name: str, steps: int) -> None:
        self._name, self._steps, self._done, self._loss, self._line = name, steps, 0, "", None
        if not self._draws:
            return
        for task in self._bar.task_ids:  # of earlier runs, which stay where they are
            self._bar.remove_task(task)
        self._bar.start()
        self._console.show_cursor()  # as nobody may stop the bar of a run that ends by an error
        self._task = self._bar.add_task(name, start=not name, total=steps, text="")
        self._bar.refresh()

    def _is_time(self) -> bool:
        return self._clock() - self._last >= self._every

    def _say(self, text: str, step: int = 0, last: bool = False) -> None:
        """Show a text, behind the step that it is about; `last` if nothing follows."""
        self._last = self._clock()
        if self._task is not None:
            self._bar.update(self._task, completed=self._done, text=text)
            self._bar.refresh()
            if last:
                self._bar.stop()
            return
        text = f"step {step:,} of at most {self._steps:,}: {text}" if step else text
        text = f"{self._name}: {text}" if self._name and self._closing else text
        if self._notebook:
            bar = "" if last else f'<progress value="{self._done}" max="{self._steps}"></progress> '
            line = {"text/plain": text, "text/html": f"<div>{bar}{html.escape(text)}</div>"}
            if self._line is None:
                self._line = import_module("IPython.display").display(line, raw=True, display_id=True)
            else:
                self._line.update(line, raw=True)
        elif self._closing or not last:
            self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def _in_notebook() -> bool:
    """Return whether this runs in a kernel of Jupyter, which shows objects, rather than on a terminal."""
    find: Callable[[], object] = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)
    return hasattr(find(), "kernel")


def _loss(row: StepRow) -> str:
    """Return the loss of the model, with a comma; empty where it is unknown, or that of a point that was rejected."""
    return "" if row.loss is None or row.rejected else f"loss {row.loss:.4g}{estimated(row.coverage)}, "


class Notices(Callback):
    """Prints notices about a run, such as deaths of workers; after the first ten, only the number of the others.

    Arguments:
        console: console to print on.
        put_aside: to this list, texts of notices on trackers are added, however many there were before.
    """

    def __init__(self, console: Console, put_aside: list[str] | None = None) -> None:
        self._console = console
        self._put_aside = put_aside
        self._count = 0

    def on_setup(self, scheme: Scheme, steps: int) -> None:
        self._count = 0

    def on_notice(self, notice: Notice) -> None:
        self._count += 1
        if self._put_aside is not None and notice.kind == "untracked":
            self._put_aside.append(notice.text)
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
    return f"waiting for {some(missing, _MOST_NAMED)} ({elapsed:.1f} s)"


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: max(0, most - 3)]}..."[: max(0, most)]
