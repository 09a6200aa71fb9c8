"""The thread in which a tracker shows a run, so that training never waits for it: bounded in memory and in time."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import ClassVar, final

from erasurehead.errors import ErasureHeadError
from erasurehead.trackers._tracked_run import Point, TrackedRun
from erasurehead.training import Notice

MOST = 10_000
"""Points that wait to be written; further ones are left out, and counted."""

_AT_ONCE = 1000
_PAUSE = 1.0  # seconds in which points are collected, to be written at once
_FILES = ("config.toml", "summary.json", "evaluations.jsonl")


class Shows(ABC):
    """What shows runs in some other program: one call after the other, in a thread of its own.

    Attributes:
        package: what pip installs if something is missing.
        patience: seconds that a call may take, and all that is left to do when a run is over.
        files: whether `close` is given the files of the run's folder that are small.
    """

    package: ClassVar[str] = ""
    patience: float
    files: bool

    @abstractmethod
    def open(self, run: TrackedRun, known: str) -> str | None:
        """Begin to show a run, and return what finds it again when it is resumed, if anything does.

        Arguments:
            run: the run.
            known: what was returned when an earlier part of it began; empty for a new one.
        """

    @abstractmethod
    def write(self, points: Sequence[Point]) -> None:
        """Show what has come since the last call."""

    @abstractmethod
    def close(self, status: str, files: Sequence[Path]) -> None:
        """Come to an end.

        Arguments:
            status: how the run ended, as `Run.status` says it.
            files: settings, summary and evaluations in its folder, where they are wanted.
        """


@final
class Showing:
    """Shows a run in a thread until there is nothing more to show, or something goes wrong.

    Arguments:
        shows: what is called.
        run: the run.
    """

    def __init__(self, shows: Shows, run: TrackedRun) -> None:
        self.run = run
        self._shows, self._status = shows, ""
        self._trouble, self._left_out = "", 0
        self._own, self._told = list[Notice](), 0
        self._waiting, self._ready, self._closing = SimpleQueue[Point | None](), threading.Event(), threading.Event()
        self._since: float | None = time.monotonic()  # when the call that is under way began
        self._thread = threading.Thread(target=self._show, name=f"tracker {shows}", daemon=True)
        self._thread.start()
        self._ready.wait(shows.patience)

    def put(self, point: Point) -> None:
        """Have a point shown, some time later."""
        if self._waiting.qsize() < MOST:
            self._waiting.put(point)
        else:
            self._left_out += not self._trouble

    def end(self, status: str) -> None:
        """Have the rest shown, and wait for that within the time there is."""
        self._status = status
        self._closing.set()
        self._waiting.put(None)
        self._thread.join(0.0 if self._trouble else self._shows.patience)
        if self._thread.is_alive():
            self._put_aside(f"it had not written everything {self._shows.patience:g} s after the end")
        if self._left_out:
            self._tell(f"{self._shows} could not keep up: it was to show {self._left_out:,} more", self._left_out)

    def notices(self) -> list[Notice]:
        """Return what went wrong, once; what hangs is put aside here."""
        since, patience = self._since, self._shows.patience
        if since is not None and time.monotonic() - since >= patience:
            self._put_aside(f"it has not answered for {patience:g} s")
        new = self._own[self._told :]
        self._told += len(new)
        return new

    def _put_aside(self, why: str) -> None:
        if not self._trouble:
            self._trouble = why
            self._tell(f"{self._shows} is put aside, and the run goes on without it: {why}", reason=why)

    def _tell(self, text: str, left_out: int = 0, reason: str = "") -> None:
        data = {"tracker": str(self._shows), "left_out": left_out, "reason": reason}
        self._own.append(Notice("untracked", data=data, text=text))

    def _show(self) -> None:
        shows, run, points = self._shows, self.run, list[Point | None]()
        try:
            shown = run.shown(str(shows))
            shown.id = shows.open(run, shown.id) or ""
            while None not in points:
                self._since = None
                self._ready.set()
                points = [self._waiting.get()]
                self._closing.wait(_PAUSE)
                points += [self._waiting.get() for _ in range(min(self._waiting.qsize(), _AT_ONCE))]
                self._since = time.monotonic()
                if self._trouble:
                    return
                known = [point for point in points if point is not None]
                vars(shown).update({point.kind: point.step for point in known if point.values})
                run.keep()  # before, so that no step is ever shown twice
                shows.write([_dated(point, shown.began) for point in known])
            if not self._trouble:
                shows.close(
                    self._status, [place / name for name in _FILES] if (place := run.folder) and shows.files else []
                )
        except BaseException as error:  # whatever a package does, training goes on
            why = f"{type(error).__name__}: {error}".removesuffix(": ")
            if isinstance(error, ModuleNotFoundError):
                why = f"{error.name} is not installed (pip install {shows.package})"
            own = isinstance(error, ErasureHeadError)
            self._put_aside(str(error) if own else " ".join(why.split())[:300])
        finally:
            self._since = None
            self._ready.set()


def _dated(point: Point, began: float) -> Point:
    values = {name: float(value) for name, value in point.values.items()}
    return replace(point, values=values, time=began + point.seconds)
