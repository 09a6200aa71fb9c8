"""A tracker as a callback: what it is told of a run."""

from __future__ import annotations

import atexit
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

from erasurehead._internal.arrays import Array
from erasurehead._internal.user_files import StrPath
from erasurehead.errors import check_positive, invalid
from erasurehead.schemes import Scheme
from erasurehead.trackers._background import Showing, Shows
from erasurehead.trackers._tracked_run import Point, TrackedRun
from erasurehead.training import Callback, Notice, Run, StepRow

_NUMBERS = ("loss", "gradient_norm", "residual", "coverage", "waited", "arrived", "late", "received")
_COUNTED = ("used", "missing", "dead")
"""Columns of steps that are shown, and those of which their lengths are."""


class Tracker(Callback, Shows):
    """A callback that shows runs in some other program: `open`, `write` and `close` are called in a thread of its own.

    If one of them raises or hangs, the tracker is put aside, which a notice says, and the run goes on. A tracker may be
    used for several runs, one after the other.

    Arguments:
        patience: seconds that a call may take, and all that is left to do when a run is over.
        files: whether `close` is given the small files of the run's folder: settings, summary, evaluations.
    """

    patience: float = 30.0  # these are of the class for trackers whose own __init__ does not call this one
    files: bool = False
    _next: TrackedRun | None = None
    _showing: Showing | None = None
    _own: Sequence[Notice] = ()

    def __init__(self, patience: float = 30.0, files: bool = False) -> None:
        check_positive("patience", patience, "must be a positive number of seconds")
        self.patience, self.files = patience, files

    def __str__(self) -> str:
        """Return its name, and where it writes, as in a run file."""
        return type(self).__name__

    @property
    def has_folder(self) -> bool:
        """Whether the run that it shows is recorded in a folder."""
        return self._showing is not None and self._showing.run.folder is not None

    def announce(self, run: TrackedRun) -> None:
        """Take note of the run that begins next, where more is known of it than hooks are told."""
        self._next = run

    def begin(self, name: str, settings: Mapping[str, str]) -> None:
        """Begin with the run that was announced, or one of this name and these settings."""
        self.end("failed")
        run, self._next = self._next or TrackedRun(name, settings), None
        self._done = replace(run.shown(str(self)))
        self._last = Point(self._done.step + 1.0, 0.0, {})
        atexit.register(self.end, "failed")
        self._showing = Showing(self, run)

    def show(self, point: Point) -> None:
        """Have a point shown, unless it was before the run was resumed."""
        if self._showing is not None and point.step > getattr(self._done, point.kind, self._done.step):
            self._showing.put(point)

    def end(self, status: str) -> None:
        """End what has begun, within the time there is. Later calls do nothing."""
        showing, self._showing = self._showing, None
        if showing is not None:
            atexit.unregister(self.end)
            showing.end(status)
            self._own = [*self._own, *showing.notices()]

    def own_notices(self) -> Sequence[Notice]:
        own, self._own = self._own, ()
        return own if self._showing is None else [*own, *self._showing.notices()]

    def on_setup(self, scheme: Scheme, steps: int) -> None:
        self.begin(scheme.name, {"scheme": str(scheme), "steps": str(steps)})

    def on_notice(self, notice: Notice) -> None:
        step, seconds = self._last.step, self._last.seconds
        if notice.step is not None and notice.time is not None:
            step, seconds = notice.step + 1.0, notice.time
        self.show(Point(step, seconds, {}, notice.kind, notice.text))

    def on_step_end(self, row: StepRow, x: Array) -> None:
        values = {name: getattr(row, name) for name in _NUMBERS if getattr(row, name) is not None}
        values |= {name: len(getattr(row, name)) for name in _COUNTED} | {"seconds": row.end}
        if row.rejected:
            values.pop("loss", None)
        self._last = Point(row.step + 1.0, row.end, values)
        self.show(self._last)

    def on_end(self, run: Run) -> None:
        for one in run.evaluations:
            self.show(Point(one.step, one.time, measured(one.metrics), "evaluation"))
        if run.objective is not None:
            self.show(Point(run.steps_taken, run.seconds, {"objective": run.objective}, "evaluation"))
        self.end(run.status)


def place(argument: str, where: object, rule: str = "must be the path of a folder") -> str:
    """Return a path, an address or a name as text, which is not empty.

    >>> place("folder", "")
    Traceback (most recent call last):
    erasurehead.errors.InvalidArgument: folder must be the path of a folder, but it is ''.
    """
    is_path = isinstance(where, str | os.PathLike)
    text: object = os.fspath(cast("StrPath", where)) if is_path else None
    if not isinstance(text, str) or not text.strip():
        raise invalid(argument, rule, where, "" if where is not None else "None is not one")
    return text


def measured(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return metrics under names that every tracker takes: letters, digits and a few signs; others by their numbers.

    >>> measured({"auc": 0.9, "../😀": 0.1})
    {'test/auc': 0.9, 'test/_2e_2e_2f_1f600': 0.1}
    """
    tame = {name: re.sub(r"[^\w -]", lambda odd: f"_{ord(odd[0]):x}", name)[:100] or "_" for name in metrics}
    return {f"test/{tame[name]}": value for name, value in metrics.items()}
