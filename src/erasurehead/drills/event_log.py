"""Reading a run's journal: what was injected when, and what was reported afterwards."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, final


@dataclass(frozen=True)
class Entry:
    """One line of a journal.

    Attributes:
        place: its number.
        life: which of the processes that coordinated the run wrote it, counted from 0.
        what: of what was done: life, restored (its engine, with the workers as they were), injected, silent, over,
            missed, lied, ended; of what the run's records tell: died, joined, suspected, named (as a liar), refused,
            resumed, unrecorded; and notice, for people.
        time: seconds since the first order of the run.
        fault: number of the fault schedule's fault, if it is about one; else -1.
        worker: number of the worker, if it is about one; else -1.
        text: what was said.
        step: where a life began, or the run was continued.
        resumed: whether a life went on from a checkpoint.
        kind: of a notice, or of the error that ended a life; else empty.
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

    def __init__(self, journal: Iterable[dict[str, Any]]) -> None:
        self.entries: list[Entry] = []
        life = -1
        for place, row in enumerate(journal):
            life += row["what"] == "life"
            known = {name: row[name] for name in ("fault", "worker", "text", "step", "kind", "resumed") if name in row}
            self.entries.append(Entry(place, life, str(row["what"]), float(row["time"]), **known))
        self._restored = {entry.life for entry in self.entries if entry.what == "restored"}

    def injected(self, fault: int) -> Entry | None:
        """Return the entry of a fault's injection; the last one, if it was injected again after a resumption."""
        found = [entry for entry in self.entries if entry.what == "injected" and entry.fault == fault]
        return found[-1] if found else None

    def missed(self, fault: int) -> str:
        """Return why a fault was not injected."""
        found = [entry.text for entry in self.entries if entry.what == "missed" and entry.fault == fault]
        return found[-1] if found else "the run was over before"

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

    def first(self, entry: Entry, what: str, fits: Callable[[Entry], bool]) -> Entry | None:
        """Return the first entry of a kind after another, while the same workers were there, that fits."""
        return next((later for later in self.after(entry) if later.what == what and fits(later)), None)

    def replaced(self, entry: Entry) -> bool:
        """Whether another process took up the run after an entry, and started workers of its own."""
        later = (one for one in self.entries[entry.place + 1 :] if one.what == "life")
        return any(one.life not in self._restored for one in later)

    def next_life(self, entry: Entry) -> Entry | None:
        """Return where the next process took up the run."""
        later = (one for one in self.entries[entry.place + 1 :] if one.what == "life")
        return next(later, None)

    def all(self, *what: str) -> Sequence[Entry]:
        """Return the entries of some kinds."""
        return [entry for entry in self.entries if entry.what in what]

    def kept(self, *what: str) -> Sequence[Entry]:
        """Return the entries of some kinds that belong to the run as it ended: what was done again counts once."""
        starts = [entry.time for entry in self.entries if entry.what == "life"]
        undone = {life: min(starts[life + 1 :], default=math.inf) for life in range(len(starts))}
        return [entry for entry in self.all(*what) if entry.time <= undone.get(entry.life, math.inf)]
