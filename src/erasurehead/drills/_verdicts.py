"""Verdicts of a drill: what the guarantees promise, and whether it was kept, one sentence each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from erasurehead._internal.atomic_files import write_whole
from erasurehead._internal.documents import PlainData
from erasurehead.drills._findings import NAMED, FaultFinding
from erasurehead.drills._schedule import SILENCING
from erasurehead.drills._supervisor import DrillRun
from erasurehead.errors import numbered
from erasurehead.runs._jsonl import to_text

REPORT_FILE = "drill.json"

SOON = 1.0
"""Seconds within which a death must be noticed, on one machine."""

CLOSE = 1e-6
"""Relative difference up to which two losses count as equal."""

_EXACT = 1e-9  # residual of a gradient that is complete


@dataclass(frozen=True)
class DrillVerdict:
    """A promise, with a sentence that says what was found.

    Attributes:
        text: the sentence.
        kept: whether it was kept; None if nothing was promised.
    """

    text: str
    kept: bool | None


@dataclass(frozen=True, eq=False)
class Judged(ABC):
    """What a drill of any kind has come to.

    Attributes:
        folder: the folder of its files.
        verdicts: the guarantees, and whether each was kept.
    """

    folder: str
    verdicts: Sequence[DrillVerdict] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "verdicts", tuple(self.judge()))

    @abstractmethod
    def judge(self) -> Iterable[DrillVerdict]:
        """Return what was promised, and whether it was kept."""

    @property
    def passed(self) -> bool:
        """Whether every guarantee was kept."""
        return all(verdict.kept is not False for verdict in self.verdicts)

    def as_dict(self) -> PlainData:
        """Return it as plain data, ready for JSON."""
        verdicts = [vars(verdict) for verdict in self.verdicts]
        return {"passed": self.passed, "verdicts": verdicts, "folder": self.folder}

    def write(self) -> Self:
        """Write the report into the folder, and return this."""
        write_whole(Path(self.folder) / REPORT_FILE, [to_text(self.as_dict()).encode()])
        return self


@dataclass(frozen=True, eq=False)
class Findings(Judged):
    """The findings of a drill under a fault schedule.

    Attributes:
        engine: name of the engine.
        scheme: name and wait rule of the scheme.
        steps: number of steps that each run had to take.
        baseline, faulty: how the runs went.
        faults: the finding on each fault.
        same_bits: whether the faulty run ended as the same schedule without the faults of the coordinator; None if
            that was not tested.
        patience: seconds of silence that must raise suspicion, unless answers have come after about as long before.
        telling: whether lies can be detected: at least three workers send equal messages, and messages are compared.
    """

    engine: str
    scheme: str
    steps: int
    baseline: DrillRun
    faulty: DrillRun
    faults: Sequence[FaultFinding]
    same_bits: bool | None
    patience: float
    telling: bool

    def judge(self) -> Iterator[DrillVerdict]:
        return _verdicts(self)

    def as_dict(self) -> PlainData:
        return {
            "engine": self.engine,
            "scheme": self.scheme,
            "steps": self.steps,
            **super().as_dict(),
            "faults": [finding.as_dict() for finding in self.faults],
            "runs": {name: _run(run) for name, run in (("baseline", self.baseline), ("faulty", self.faulty))},
            "same_bits": self.same_bits,
        }


def _run(run: DrillRun) -> PlainData:
    outcome = {key: value for key, value in (run.outcome or {}).items() if key not in ("ends", "late")}
    return {
        **outcome,
        "coordinators": run.lives,
        "steps_taken_again": run.redone,
        "real_seconds": run.seconds,
        "deaths": len(run.event_log.kept("died")),
        "joined": len(run.event_log.kept("joined")),
        "failure": run.failure,
        "left_running": run.leftovers,
    }


def _verdicts(findings: Findings) -> Iterator[DrillVerdict]:
    baseline, faulty = findings.baseline.outcome, findings.faulty.outcome
    if baseline is None:
        yield DrillVerdict(f"the baseline run did not finish: {findings.baseline.failure}", False)
        return
    if faulty is None:
        yield DrillVerdict(f"the faulty run did not finish: {findings.faulty.failure}", False)
    else:
        whole = faulty["steps"] == findings.steps and faulty["in_order"] and faulty["all_stepped"]
        yield DrillVerdict(f"{faulty['steps']} of {findings.steps} steps were taken, each once and in order", whole)
        yield _accuracy(baseline, faulty)
    yield from _deaths(findings)
    yield from _lies(findings)
    yield from _silence(findings)
    yield from _coordinators(findings)
    yield from _untested(findings)
    left = [*findings.baseline.leftovers, *findings.faulty.leftovers]
    yield DrillVerdict(f"left running: {', '.join(left)}" if left else "nothing was left running", not left)


def _accuracy(baseline: PlainData, faulty: PlainData) -> DrillVerdict:
    apart = abs(faulty["loss"] - baseline["loss"]) / max(abs(baseline["loss"]), 1e-300)
    text = f"the last model's loss is {faulty['loss']:.9g}, and {baseline['loss']:.9g} in the baseline run"
    if baseline["residual"] > _EXACT:
        return DrillVerdict(f"{text}; the scheme is not exact, and guarantees nothing", None)
    exact = faulty["residual"] <= _EXACT and apart <= CLOSE
    return DrillVerdict(f"{text}: a relative difference of {apart:.2g} (at most {CLOSE:g} is allowed)", exact)


def _deaths(findings: Findings) -> Iterator[DrillVerdict]:
    kills = [one for one in findings.faults if one.fault.kind == "kill" and not one.excused]
    if kills:
        worst = max((one.after for one in kills if one.after is not None), default=0.0)
        unseen = [one for one in kills if one.after is None]
        text = f"{len(kills) - len(unseen)} of {len(kills)} kills were noticed, at most {worst:.3g} s after"
        yield DrillVerdict(text, not unseen and worst <= SOON)
    killed = {one.fault.worker for one in findings.faults if one.fault.kind == "kill"}
    deaths = findings.faulty.event_log.all("died")
    others = sorted({entry.worker for entry in deaths} - killed)
    if others:
        yield DrillVerdict(f"workers {', '.join(map(str, others))} died without having been killed", False)


def _lies(findings: Findings) -> Iterator[DrillVerdict]:
    corrupt = [one for one in findings.faults if one.fault.kind == "corrupt"]
    seen = [one for one in corrupt if not one.excused]
    if seen:
        caught = [one for one in seen if one.effect == NAMED]
        text = f"{len(caught)} of {len(seen)} workers whose lies arrived were named and put aside"
        yield DrillVerdict(text, len(caught) == len(seen) if findings.telling else None)
    named = {entry.worker for entry in findings.faulty.event_log.all("named")}
    innocent = sorted(named - {one.fault.worker for one in corrupt})
    if innocent:
        one = len(innocent) == 1
        ending = "was put aside as a liar, and is honest" if one else "were put aside as liars, and are honest"
        yield DrillVerdict(f"{numbered('worker', innocent)} {ending}", False)


def _silence(findings: Findings) -> Iterator[DrillVerdict]:
    silent = [one for one in findings.faults if one.fault.kind in SILENCING and _silent_for_long(one, findings)]
    if silent:
        named = [one for one in silent if one.after is not None]
        text = f"{len(named)} of {len(silent)} workers that were silent for long were suspected"
        yield DrillVerdict(text, len(named) == len(silent))


def _silent_for_long(one: FaultFinding, findings: Findings) -> bool:
    """Whether suspicion of a worker is promised: workers that are often late are given more time."""
    slowed = {other.fault.worker for other in findings.faults if other.fault.kind == "slow"}
    return one.injected is not None and one.fault.worker not in slowed and _length(one, findings) > findings.patience


def _untested(findings: Findings) -> Iterator[DrillVerdict]:
    """Say which faults tested only the run as a whole."""
    why: list[str] = []
    for one in findings.faults:
        if one.excused or one.injected is None:
            why.append(f"{one.fault} ({one.noticed})")
        elif one.fault.kind in SILENCING and one.after is None and not _silent_for_long(one, findings):
            why.append(f"{one.fault} (silence that may be slowness)")
    if why:
        of = f"{len(why)} of {len(findings.faults)} faults"
        yield DrillVerdict(f"{of} tested only that training went on: {'; '.join(why)}", None)


def _length(one: FaultFinding, findings: Findings) -> float:
    """Return for how long a fault kept its worker from answering an order that it had."""
    event_log = findings.faulty.event_log
    begin = event_log.injected(one.number)
    silent = None if begin is None else event_log.first(begin, "silent", fault=one.number)
    if silent is None:
        return 0.0
    over = event_log.first(silent, "over", fault=one.number)
    ends = [entry.time for entry in event_log.after(silent)]
    return (over.time if over is not None else max(ends, default=silent.time)) - silent.time


def _coordinators(findings: Findings) -> Iterator[DrillVerdict]:
    for one in findings.faults:
        if one.injected is None or one.excused:
            continue
        if one.fault.kind == "disk_full":
            yield DrillVerdict(
                f"the full disk was reported in a sentence, and training {one.effect or 'ended'}", bool(one.effect)
            )
        elif one.fault.kind == "coordinator":
            yield DrillVerdict(f"the coordinator was killed, and training {one.effect or 'ended'}", bool(one.effect))
    if findings.same_bits is not None:
        text = "the same bits" if findings.same_bits else "other bits"
        yield DrillVerdict(
            f"with and without the faults of the coordinator, the run ended with {text}", findings.same_bits
        )
