"""The findings on each fault of a schedule: when and as what it was noticed, and what followed."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

from erasurehead.drills.journal import Entry, EventLog
from erasurehead.drills.schedule import Fault, FaultSchedule
from erasurehead.errors import RecordsError

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

    def as_dict(self) -> dict[str, Any]:
        """Return it as plain data."""
        told = {name: value for name, value in vars(self).items() if name != "fault"}
        return {"fault": self.fault.as_dict(), **told}


@final
class Finder:
    """Finds out what became of the faults of a fault schedule.

    Arguments:
        schedule: the faults.
        event_log: of the faulty run.
        outcome: its figures; empty if it did not come to its end.
    """

    def __init__(self, schedule: FaultSchedule, event_log: EventLog, outcome: Mapping[str, Any]) -> None:
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
        found: list[FaultFinding] = []
        for number, fault in enumerate(self.schedule.faults):
            begin = self.event_log.injected(number)
            if begin is None:
                found.append(FaultFinding(number, fault, noticed=self.event_log.missed(number), excused=True))
            else:
                found.append(self._look[fault.kind](number, fault, begin))
        return found

    def _kill(self, number: int, fault: Fault, begin: Entry) -> FaultFinding:
        died = self.event_log.first(begin, "died", lambda entry: entry.worker == fault.worker)
        if died is None:
            return FaultFinding(number, fault, begin.time, noticed="not noticed", excused=self._ends_soon(begin, 1.0))
        joined = self.event_log.first(died, "joined", lambda entry: entry.worker == fault.worker)
        if joined is not None:
            effect = f"a replacement had started {joined.time - begin.time:.3g} s later"
        else:
            ended = self.event_log.next_life(died) is not None
            effect = "the coordinator ended before a replacement had started" if ended else "it was not replaced"
        told = f"worker {fault.worker} died: {died.text}"
        return FaultFinding(number, fault, begin.time, died.time - begin.time, told, effect)

    def _silence(self, number: int, fault: Fault, begin: Entry) -> FaultFinding:
        over = self.event_log.first(begin, "over", lambda entry: entry.fault == number)
        times = self.outcome.get("late", {}).get(str(fault.worker), [])
        until = fault.until if over is None else over.time
        late = sum(begin.time <= time < until for time in times)
        effect = f"late in {late} step{'s' * (late != 1)}; the longest took {self._longest(begin.time, until):.3g} s"
        said = self._of_worker(begin, "suspected", fault)
        if said is None or said.time > until:
            return FaultFinding(number, fault, begin.time, noticed="", effect=effect)
        return FaultFinding(number, fault, begin.time, said.time - begin.time, said.text, effect)

    def _longest(self, begin: float, end: float) -> float:
        """Return how long the longest of the steps took that overlap with a time."""
        ends = [0.0, *self.outcome.get("ends", [])]
        return max((b - a for a, b in itertools.pairwise(ends) if b >= begin and a <= end), default=0.0)

    def _lie(self, number: int, fault: Fault, begin: Entry) -> FaultFinding:
        lied = self.event_log.first(begin, "lied", lambda entry: entry.fault == number)
        said, effect = self._of_worker(begin, "named", fault), NAMED
        if said is None:
            said, effect = self._of_worker(begin, "refused", fault), "refused"
        if said is None:
            why = "none of its wrong messages came in time" if lied is None else "not noticed"
            return FaultFinding(number, fault, begin.time, noticed=why, excused=lied is None)
        told = f"worker {fault.worker} lies, and is put aside: {said.text}" if effect == NAMED else said.text
        return FaultFinding(number, fault, begin.time, said.time - begin.time, told, effect)

    def _full_disk(self, number: int, fault: Fault, begin: Entry) -> FaultFinding:
        ended = self.event_log.first(
            begin, "ended", lambda entry: entry.life == begin.life and entry.kind == RecordsError.__name__
        )
        goes_on = [entry for entry in self.event_log.all("unrecorded") if entry.life == begin.life]
        if goes_on:
            after = max(0.0, goes_on[0].time - begin.time)
            return FaultFinding(number, fault, begin.time, after, goes_on[0].text, "continued without records")
        if ended is None:
            steps = self.outcome.get("ends", [])
            written = any(begin.time <= time <= fault.until for time in steps)
            said = "not noticed" if written else "no step ended meanwhile"
            return FaultFinding(number, fault, begin.time, noticed=said, excused=not written)
        return FaultFinding(number, fault, begin.time, ended.time - begin.time, ended.text, self._resumed(begin))

    def _coordinator(self, number: int, fault: Fault, begin: Entry) -> FaultFinding:
        resumed = self._resumed(begin)
        said = "the process had ended" if resumed else "not noticed"
        return FaultFinding(number, fault, begin.time, None, said, resumed)

    def _resumed(self, entry: Entry) -> str:
        life = self.event_log.next_life(entry)
        told = {one.step for one in self.event_log.all("resumed")}
        if life is None or (life.resumed and life.step not in told):  # its records say that it was one run
            return ""
        return f"went on from step {life.step}"

    def _of_worker(self, entry: Entry, what: str, fault: Fault) -> Entry | None:
        return self.event_log.first(entry, what, lambda one: one.worker == fault.worker)

    def _ends_soon(self, entry: Entry, seconds: float) -> bool:
        """Whether the workers of its time were gone so soon after an entry that nothing more could be noticed."""
        last = [one.time for one in self.event_log.after(entry)] or [entry.time]
        end = max(last) if self.event_log.replaced(entry) else float(self.outcome.get("seconds", 0.0))
        return end - entry.time < seconds
