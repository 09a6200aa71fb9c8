"""The findings on each fault of a schedule: when and as what it was noticed, and what followed."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import final

from erasurehead._internal.documents import Entries, PlainData
from erasurehead.drills._journal import Entry, EventLog
from erasurehead.drills._schedule import Fault, FaultSchedule
from erasurehead.errors import RecordsError, counted

NAMED = "put aside"
"""What happens to a worker that is known to lie."""


@dataclass(frozen=True)
class FaultFinding:
    """The finding on one fault.

    Attributes:
        number: number of the fault in its schedule.
        fault: the fault.
        injected: seconds since the first order; None if it was not injected.
        after: seconds from then until it was noticed; None if it was not.
        noticed: as what it was noticed; if it was not injected, why.
        effect: what followed.
        excused: whether it did not have to be noticed, because it had no visible effect.
    """

    number: int
    fault: Fault
    injected: float | None = None
    after: float | None = None
    noticed: str = ""
    effect: str = ""
    excused: bool = False

    def as_dict(self) -> PlainData:
        """Return it as plain data."""
        rest = {name: value for name, value in vars(self).items() if name != "fault"}
        return {"fault": self.fault.as_dict(), **rest}


@final
class Finder:
    """Finds out what became of the faults of a fault schedule.

    Arguments:
        schedule: the faults.
        event_log: of the faulty run.
        outcome: its figures; empty if it did not come to its end.
    """

    def __init__(self, schedule: FaultSchedule, event_log: EventLog, outcome: Entries) -> None:
        self.schedule, self.event_log, self.outcome = schedule, event_log, outcome
        self._look = {
            "kill": self._kill,
            "stop": self._silence,
            "slow": self._silence,
            "disconnect": self._silence,
            "corrupt": self._lie,
            "disk_full": self._full_disk,
            "coordinator": self._coordinator,
        }

    def findings(self) -> list[FaultFinding]:
        """Return one for each fault, in the fault schedule's order."""
        return [self._finding(number, fault) for number, fault in enumerate(self.schedule.faults)]

    def _finding(self, number: int, fault: Fault) -> FaultFinding:
        begin = self.event_log.injected(number)
        if begin is None:
            return FaultFinding(number, fault, noticed=self.event_log.missed(number), excused=True)
        return self._look[fault.kind](FaultFinding(number, fault, begin.time), begin)

    def _kill(self, one: FaultFinding, begin: Entry) -> FaultFinding:
        worker = one.fault.worker
        died = self.event_log.first(begin, "died", worker=worker)
        if died is None:
            return replace(one, noticed="not noticed", excused=self._ends_soon(begin, 1.0))
        joined = self.event_log.first(died, "joined", worker=worker)
        if joined is not None:
            effect = f"a replacement had started {joined.time - begin.time:.3g} s later"
        else:
            ended = self.event_log.next_life(died) is not None
            effect = "the coordinator ended before a replacement had started" if ended else "it was not replaced"
        noticed = f"worker {worker} died: {died.text}"
        return replace(one, after=died.time - begin.time, noticed=noticed, effect=effect)

    def _silence(self, one: FaultFinding, begin: Entry) -> FaultFinding:
        over = self.event_log.first(begin, "over", fault=one.number)
        times = self.outcome.get("late", {}).get(str(one.fault.worker), [])
        until = one.fault.until if over is None else over.time
        late = sum(begin.time <= time < until for time in times)
        effect = f"late in {counted('step', late)}; the longest took {self._longest(begin.time, until):.3g} s"
        suspected = self.event_log.first(begin, "suspected", worker=one.fault.worker)
        if suspected is None or suspected.time > until:
            return replace(one, effect=effect)
        return replace(one, after=suspected.time - begin.time, noticed=suspected.text, effect=effect)

    def _longest(self, begin: float, end: float) -> float:
        """Return how long the longest of the steps took that overlap with a time."""
        ends = [0.0, *self.outcome.get("ends", [])]
        return max((b - a for a, b in itertools.pairwise(ends) if b >= begin and a <= end), default=0.0)

    def _lie(self, one: FaultFinding, begin: Entry) -> FaultFinding:
        worker = one.fault.worker
        for what, effect in (("named", NAMED), ("refused", "refused")):
            if (entry := self.event_log.first(begin, what, worker=worker)) is not None:
                put_aside = f"worker {worker} lies, and is put aside: " * (effect == NAMED)
                return replace(one, after=entry.time - begin.time, noticed=f"{put_aside}{entry.text}", effect=effect)
        if self.event_log.first(begin, "lied", fault=one.number) is None:
            return replace(one, noticed="none of its wrong messages came in time", excused=True)
        return replace(one, noticed="not noticed")

    def _full_disk(self, one: FaultFinding, begin: Entry) -> FaultFinding:
        for entry in self.event_log.all("unrecorded"):
            if entry.life == begin.life:
                after = max(0.0, entry.time - begin.time)
                return replace(one, after=after, noticed=entry.text, effect="continued without records")
        ended = self.event_log.first(begin, "ended", life=begin.life, kind=RecordsError.__name__)
        if ended is not None:
            return replace(one, after=ended.time - begin.time, noticed=ended.text, effect=self._resumed(begin))
        if any(begin.time <= time <= one.fault.until for time in self.outcome.get("ends", [])):
            return replace(one, noticed="not noticed")
        return replace(one, noticed="no step ended meanwhile", excused=True)

    def _coordinator(self, one: FaultFinding, begin: Entry) -> FaultFinding:
        resumed = self._resumed(begin)
        return replace(one, noticed="the process had ended" if resumed else "not noticed", effect=resumed)

    def _resumed(self, entry: Entry) -> str:
        life = self.event_log.next_life(entry)
        steps = {one.step for one in self.event_log.all("resumed")}
        if life is None or (life.resumed and life.step not in steps):  # its records say that it was one run
            return ""
        return f"went on from step {life.step}"

    def _ends_soon(self, entry: Entry, seconds: float) -> bool:
        """Whether the workers of its time were gone so soon after an entry that nothing more could be noticed."""
        last = [one.time for one in self.event_log.after(entry)] or [entry.time]
        end = max(last) if self.event_log.replaced(entry) else float(self.outcome.get("seconds", 0.0))
        return end - entry.time < seconds
