"""A folder that is watched: of one run, or of several beside each other, as comparisons and drills leave them."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from erasurehead._internal.documents import PlainData
from erasurehead._internal.storage.folders import Folder
from erasurehead._internal.user_files import printable
from erasurehead.drills._coordinator import SCHEDULE_FILE
from erasurehead.drills._schedule import read_schedule
from erasurehead.errors import DataError, ErasureHeadError, unreadable
from erasurehead.runs._names import STEPS, no_run_folder
from erasurehead.watch._metrics import exposition
from erasurehead.watch._runs import Excerpt, WatchedRun, of_place
from erasurehead.watch._tail import Tail

_LOOK_EVERY = 2.0  # seconds between two looks at settings and summaries, and for runs that have begun
_BREATH = 0.002  # seconds between two pieces of a file, in which those who wait are told what is known
_MOST_RUNS = 100
_BASELINE = "baseline"  # the run of a drill that no fault strikes


class Watch:
    """What is known of a folder that is watched; several threads may ask at a time.

    Arguments:
        path: of a run's folder, of a comparison's or a drill's, or of the record of a team of networks.

    Attributes:
        gone: why the folder cannot be read any more, as a sentence; empty if it can.
        closing: whether the watch is about to end.

    Raises:
        DataError: if no run has recorded anything there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser()
        self.gone, self.closing = "", False
        self._changed, self._version = threading.Condition(), 0
        self._looked = -_LOOK_EVERY
        self._runs: dict[Path, WatchedRun] = {}
        try:
            self._find()
        except (FileNotFoundError, NotADirectoryError) as error:
            raise no_run_folder(self.path, error) from None
        except OSError as error:
            raise unreadable(error.filename, error) from None
        if not self._runs:
            what = (
                f"the folder of a run, a comparison or a drill: neither it nor a folder in it has {STEPS}. Drills of "
                "peers keep none; teams of networks write a file of their own where record= of team.optimizer names "
                "one: name that file"
                if self.path.is_dir()
                else "the record of a team of networks, as record= of team.optimizer names one; name such a file, or "
                "the folder of a run"
            )
            raise DataError(f"{str(self.path)!r} is not {what}.")

    @property
    def runs(self) -> list[WatchedRun]:
        """The runs."""
        return list(self._runs.values())

    def _find(self) -> None:
        """Find the runs; those of a comparison begin one after the other."""
        for place in _places(self.path):
            if place not in self._runs and len(self._runs) < _MOST_RUNS:
                run = self._runs[place] = of_place(place)
                schedule = place.parent / SCHEDULE_FILE
                if place != self.path and place.name != _BASELINE and schedule.is_file():
                    with contextlib.suppress(ErasureHeadError):
                        run.faults = [
                            {"kind": "fault", "time": fault.at, "worker": fault.worker, "text": f"injected: {fault}"}
                            for fault in read_schedule(schedule).faults
                        ]

    def read(self, seconds: float = 0.5) -> bool:
        """Take in what has been recorded since, for some time at most; return whether there is more to read at once.

        Arguments:
            seconds: after which to return.
        """
        until, more = time.monotonic() + seconds, False
        looks = time.monotonic() - self._looked > _LOOK_EVERY
        try:
            if looks:
                self._looked = time.monotonic()
                self._find()
            for run in self.runs:
                again = self._read(run, looks)
                while again and time.monotonic() < until:
                    time.sleep(_BREATH)
                    again = self._read(run, False)
                more |= again
            self.gone = ""
        except OSError as error:
            why = error.strerror or error
            self.gone = f"{printable(str(self.path))} cannot be read any more ({why}): this is the last of it."
            self._tell()
        return more

    def _read(self, run: WatchedRun, looks: bool) -> bool:
        more = False
        with self._changed:
            for act in (run.look, run.read) if looks else (run.read,):
                try:
                    more = act()
                except DataError as error:
                    run.problem, more = str(error), False
            if more or looks or run.live:
                self._tell()
        return more

    def _tell(self) -> None:
        with self._changed:
            self._version += 1
            self._changed.notify_all()

    def about(self) -> PlainData:
        """Return how all runs stand, and which of them is shown first, as plain data: in a drill the rehearsal."""
        with self._changed:
            return {
                "name": self.path.absolute().name,
                "first": next((number for number, run in enumerate(self.runs) if run.faults), 0),
                "gone": self.gone,
                "runs": [run.about() for run in self.runs],
            }

    def metrics(self) -> str:
        """Return how all runs stand, as Prometheus reads it."""
        with self._changed:
            return exposition(sample for run in self.runs for sample in run.samples())

    def view(self, number: int, excerpt: Excerpt) -> PlainData:
        """Return what to draw of a part of a run, as plain data, with the losses of all beside each other.

        Arguments:
            number: of the run.
            excerpt: what part.
        """
        with self._changed:
            runs = self.runs
            if excerpt.begin is None:  # one axis for all, so that losses can be compared
                excerpt = replace(excerpt, begin=0.0, end=max(run.seconds for run in runs))
            found = runs[number].view(excerpt)
            seconds = found["from"], found["to"]
            losses = [run.curves(seconds, excerpt.points)["loss"] for run in runs if len(runs) > 1]
            return {**found, "losses": losses}

    def wait(self, seen: int, seconds: float) -> int:
        """Return the version, as soon as it is not the one that was seen, after some seconds, or at the end."""
        with self._changed:
            self._changed.wait_for(lambda: self.closing or self._version != seen, seconds)
            return self._version

    def close(self) -> None:
        """Let those that wait for changes go."""
        with self._changed:
            self.closing = True
            self._changed.notify_all()


def _places(path: Path) -> Iterator[Path]:
    """Yield the folders of runs: the folder itself, or else those in it; or the record of a team, if it is one."""
    if path.is_file():
        with contextlib.suppress(ErasureHeadError):
            if {"version", "term", "gathered_by", "members"} <= (Tail(path).read() or [{}])[0].keys():
                yield path
        return
    with Folder.open(path) as folder:
        if folder.kind(STEPS):
            yield path
            return
        for name in folder.names():
            with contextlib.suppress(OSError, ErasureHeadError):
                if folder.kind(name) == "folder":
                    with folder.inside(name) as inner:
                        if inner.kind(STEPS) == "file":
                            yield path / name
