"""The journal of a run of a drill: what was done to it, and what its records tell. The report is made from it.

What counts is what a user could read: that a fault was noticed is taken from the records of the run.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import final

from erasurehead._internal.documents import PlainData
from erasurehead.errors import ErasureHeadError
from erasurehead.runs import RunFolder
from erasurehead.runs._jsonl import read_lines, to_line
from erasurehead.training._rows import NoticeKind


@final
class Journal:
    """A file of JSON lines to which several processes append, one after the other.

    Each line is in the file when `add` returns, so that nothing is lost if the process is killed; but while the disk is
    full, lines are kept in memory.

    Arguments:
        path: path of the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._unwritten = b""

    def add(self, entry: PlainData) -> None:
        """Append an entry."""
        self._unwritten += to_line(entry).encode()
        self.flush()

    def flush(self) -> None:
        """Append the lines that could not be written before."""
        append = partial(os.open, mode=0o600)
        with contextlib.suppress(OSError), open(self.path, "ab", 0, opener=append) as file:  # else at the next flush
            self._unwritten = self._unwritten[file.write(self._unwritten) :]

    def read(self) -> list[PlainData]:
        """Return all entries."""
        return read_lines(self.path)


_ENTRIES: Mapping[NoticeKind, str] = {
    "died": "died",
    "joined": "joined",
    "suspected": "suspected",
    "lied": "named",
    "refused": "refused",
}
"""The name of the journal entry for each kind of notice. In journals, `lied` means that a lie was delivered."""


def recorded(folder: Path) -> list[PlainData]:
    """Return the notices about workers in the records of a run, and whether it went on without records, as entries."""
    try:
        run = RunFolder.open(folder)
        rows, summary = run.step_rows(), run.summary
    except ErasureHeadError:
        return []
    entries: list[PlainData] = [
        {"what": _ENTRIES[notice.kind], "time": notice.time, "worker": worker, "text": notice.reason}
        for row in rows
        for notice in row.notices
        if notice.kind in _ENTRIES
        for worker in notice.workers
    ]
    entries += [{"what": "resized", "time": one.time} for row in rows for one in row.noticed("resized")]
    entries += [{"what": "resumed", "time": 0.0, "step": int(step)} for step in summary.get("resumed", ())]
    if summary.get("unrecorded"):
        last = rows[-1].end if rows else 0.0
        entries.append({"what": "unrecorded", "time": last, "text": str(summary["unrecorded"])})
    return entries


def in_order(journal: Iterable[PlainData], records: Iterable[PlainData]) -> list[PlainData]:
    """Return a journal with what the records tell in its place: in the last life that was there at its time.

    Arguments:
        journal: of what was done to the run, by its lives, one after the other.
        records: as `recorded` returns them; they are those of the run as it ended.
    """
    lives: list[list[PlainData]] = []
    for entry in journal:
        if entry["what"] == "life" or not lives:
            lives.append([])
        lives[-1].append(entry)
    begins = [float(life[0]["time"]) for life in lives]
    for entry in records:
        index = max((number for number, begin in enumerate(begins) if begin <= entry["time"]), default=0)
        if lives:
            lives[index].append(entry)
    return [entry for life in lives for entry in (life[0], *sorted(life[1:], key=lambda one: float(one["time"])))]


@dataclass(frozen=True)
class Entry:
    """One line of a journal.

    Attributes:
        place: its number.
        life: which of the processes that coordinated the run wrote it, counted from 0.
        what: of what was done: life, restored (its engine, with the workers as they were), injected, silent, over,
            missed, lied, ended; of what the run's records tell: died, joined, suspected, named (as a liar), refused,
            resized (the code), resumed, unrecorded.
        time: seconds since the first order of the run.
        fault: number of the fault schedule's fault, if it is about one; else -1.
        worker: number of the worker, if it is about one; else -1.
        text: what was said.
        step: where a life began, or the run was continued.
        resumed: whether a life went on from a checkpoint.
        kind: of the error that ended a life; else empty.
    """

    place: int
    life: int
    what: str
    time: float
    fault: int = -1
    worker: int = -1
    text: str = ""
    step: int = 0
    kind: str = ""
    resumed: bool = False


@final
class EventLog:
    """A journal with queries.

    Arguments:
        journal: as `Journal.read` returns it.
    """

    def __init__(self, journal: Iterable[PlainData]) -> None:
        self.entries: list[Entry] = []
        life = -1
        for place, row in enumerate(journal):
            life += row["what"] == "life"
            self.entries.append(Entry(place, life, **row))
        self._restored = {entry.life for entry in self.entries if entry.what == "restored"}

    def injected(self, fault: int) -> Entry | None:
        """Return the entry of a fault's injection; the last one, if it was injected again after a resumption."""
        entries = [entry for entry in self.entries if entry.what == "injected" and entry.fault == fault]
        return entries[-1] if entries else None

    def missed(self, fault: int) -> str:
        """Return why a fault was not injected."""
        texts = [entry.text for entry in self.entries if entry.what == "missed" and entry.fault == fault]
        return texts[-1] if texts else "the run was over before"

    def after(self, entry: Entry) -> Iterator[Entry]:
        """Yield what was written after an entry while the same workers were there.

        A killed coordinator takes its workers along, and the next one starts others; but where an engine can be
        restored (the virtual clock), its workers go on as they were, with whatever they suffer from: then what the next
        process wrote follows, too.
        """
        for later in self.entries[entry.place + 1 :]:
            if later.what == "life" and later.life not in self._restored:
                return
            yield later

    def first(self, entry: Entry, what: str, **fields: object) -> Entry | None:
        """Return the first entry of a kind after another, while the same workers were there, with these fields."""
        for later in self.after(entry):
            if later.what == what and fields.items() <= vars(later).items():
                return later
        return None

    def replaced(self, entry: Entry) -> bool:
        """Whether another process took up the run after an entry, and started workers of its own."""
        return any(one.life not in self._restored for one in self._lives_after(entry))

    def next_life(self, entry: Entry) -> Entry | None:
        """Return where the next process took up the run."""
        return next(self._lives_after(entry), None)

    def _lives_after(self, entry: Entry) -> Iterator[Entry]:
        return (one for one in self.entries[entry.place + 1 :] if one.what == "life")

    def all(self, *what: str) -> Sequence[Entry]:
        """Return the entries of some kinds."""
        return [entry for entry in self.entries if entry.what in what]

    def kept(self, *what: str) -> Sequence[Entry]:
        """Return the entries of some kinds that belong to the run as it ended: what was done again counts once."""
        starts = [entry.time for entry in self.entries if entry.what == "life"]
        undone = {life: min(starts[life + 1 :], default=math.inf) for life in range(len(starts))}
        return [entry for entry in self.all(*what) if entry.time <= undone.get(entry.life, math.inf)]
