"""One row a step, one row an arrival: what happened, and all that reports, planners and replays read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

if TYPE_CHECKING:
    from erasurehead.engines.base import Arrived

from erasurehead.problems.base import EARLY
from erasurehead.training.notices import Notice, NoticeKind

WorkerEventKind: TypeAlias = Literal["died", "joined", "failed", "offered", "broken_off"]
"""A worker is gone, is there (again), said that it cannot answer; there is room for more of them; or none of these: the
round was broken off, so that the code could be re-formed over the workers that are left."""


BEFORE = -1
"""Stands for the round of what happened while the workers were started."""


@dataclass(frozen=True)
class WorkerEvent:
    """What happened to a worker in a round, in its place among the messages of that round, as replays need it.

    Attributes:
        kind: what it was.
        round: that was under way, or -1 while the workers were started: told of only if not all of them just came up.
        place: how many messages, of whatever round, had come in it before.
        time: when it was, in seconds since training began; negative before.
        worker: its number; None where it is about none.
        reason: of a death or a failure, in words.
        host: where the worker, or the room, is; empty where that is not told.
        count: how many workers more there is room for.
        broken: of a death: whether the worker said itself that it cannot run its program.
        begin: of a round that was broken off: when it had begun, in seconds since training began.
    """

    kind: WorkerEventKind
    round: int
    place: int
    time: float
    worker: int | None = None
    reason: str = ""
    host: str = ""
    count: int = 0
    broken: bool = False
    begin: float | None = None


@dataclass(frozen=True)
class StepRow:
    """One step of the optimizer.

    Attributes:
        step: counted from 0.
        round: number of the order.
        kind: of the order.
        begin: when the order was submitted, in seconds since training began.
        waited: seconds from there until the wait rule said stop.
        end: when the model had moved, in seconds since training began.
        arrived: workers whose messages were all in when the waiting stopped.
        used: messages with a weight, ascending.
        missing: workers that were still able to answer but had not, ascending.
        dead: workers that were dead by then, ascending.
        residual: of the decoding, in tasks; 0 is the full gradient.
        coverage: fraction of the full gradient that was counted, and so of the data that `loss` is estimated from.
        stepped: whether there was an estimate; False when nothing had arrived.
        loss: estimate of the training objective at the point that the step asked for, which of most optimizers is the
            model that it began with (penalty included); None where nothing is known of it.
        gradient_norm: Euclidean norm of the estimate with the penalty.
        received: bytes of the messages that came in this step, in time or late.
        workers: positions of the code, whether a worker has them or not.
        lost: tasks that nobody can bring any more and that the estimate leaves out, ascending; it is scaled to the
            others, while residual and coverage are those of the full gradient.
        neglected: tasks of which it was noticed in this step that over the last 50 steps they were counted less than
            a fifth as often as the mean task, or never; ascending. Each is noticed once.
        notices: what was noticed since the step before, in order: deaths, exceptions, refused messages, suspicions; in
            the first step, also while the workers were started.
        late: messages of earlier rounds that came in this step.
        decision: what the optimizer decided at its end, by name, and by which numbers; empty for those that decide
            nothing.
        events: what happened to workers in this step, in order; in rounds of it that were broken off, too.
        rejected: whether the point that it asked for was only tried, and turned out no better: the model stays what it
            was, and `loss` is not its loss.
    """

    step: int
    round: int
    kind: str
    begin: float
    waited: float
    end: float
    arrived: int
    used: list[int]
    missing: list[int]
    dead: list[int]
    residual: float
    coverage: float
    stepped: bool
    loss: float | None
    gradient_norm: float | None
    received: int
    workers: int = 0
    lost: list[int] = field(default_factory=list[int])
    neglected: list[int] = field(default_factory=list[int])
    notices: list[Notice] = field(default_factory=list[Notice])
    late: int = 0
    decision: dict[str, Any] = field(default_factory=dict[str, Any])
    events: list[WorkerEvent] = field(default_factory=list[WorkerEvent])
    rejected: bool = False

    def noticed(self, *kinds: NoticeKind) -> list[Notice]:
        """Return the notices of some kinds, in order."""
        return [notice for notice in self.notices if notice.kind in kinds]

    def workers_noticed(self, *kinds: NoticeKind) -> list[int]:
        """Return the workers that the notices of some kinds are about, in order, each as often as it was noticed."""
        return [worker for notice in self.noticed(*kinds) for worker in notice.workers]

    @property
    def rough(self) -> bool:
        """Whether few arrivals were asked for, so that loss and gradient are estimates from few."""
        return self.kind == EARLY

    @property
    def failures(self) -> int:
        """How many failures that nobody died of: exceptions and refused messages; suspicions do not count."""
        return len(self.noticed("failed")) + sum(len(notice.data["messages"]) for notice in self.noticed("refused"))

    def as_dict(self) -> dict[str, Any]:
        """Return the row as plain data, ready for JSON."""
        return vars(self) | {
            "notices": [vars(notice) for notice in self.notices],
            "events": [vars(event) for event in self.events],
        }

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Self:
        """Return the row that `as_dict` gave."""
        fields: dict[str, Any] = {
            **row,
            "notices": [Notice(**notice) for notice in row.get("notices", ())],
            "events": [WorkerEvent(**event) for event in row.get("events", ())],
        }
        return cls(**fields)


@dataclass(frozen=True)
class ArrivalRow:
    """One message, or the knowledge that it had not come.

    Attributes:
        step: the step whose order it answers.
        round: the round that it answers.
        worker: who sent it.
        message: row of the code.
        unit: 0 for the worker's first message of the round, 1 for its second, and so on.
        work: tasks that it combines.
        started: when the worker began on the order, in seconds since it was submitted.
        seconds: when the coordinator had the message, in seconds since the order was submitted; for a message that
            had not come when the waiting stopped, that moment: it is known only to be slower.
        censored: whether the message had not come.
        late: whether it came in a later round; it was then already recorded as censored.
        used: whether it was given a weight.
        rank: how many messages of its round had come before it; None for a message that was not in time. Of messages
            with the same `seconds` it tells who was first.
        taken: the round in which it came: its own, or for a late message a later one; None if it had not come.
        place: how many messages, of whatever round, had come in that one before it; None if it had not come.
        refused: whether it was late, and could not be used: its vector was no number, say.
    """

    step: int
    round: int
    worker: int
    message: int
    unit: int
    work: float
    started: float | None
    seconds: float
    censored: bool = False
    late: bool = False
    used: bool = False
    rank: int | None = None
    taken: int | None = None
    place: int | None = None
    refused: bool = False

    @classmethod
    def of(
        cls,
        event: Arrived,
        row: int,
        unit: int,
        begin: float,
        *,
        taken: int,
        place: int,
        late: bool = False,
        used: bool = False,
        rank: int | None = None,
    ) -> Self:
        """Return the row of a message that has come.

        Arguments:
            event: the message.
            row: of the code.
            unit: of its worker's messages.
            begin: when the order that it answers was submitted, in the engine's seconds.
            taken, place, late, used, rank: as the attributes.
        """
        return cls(
            step=event.step,
            round=event.order_round,
            worker=event.worker,
            message=row,
            unit=unit,
            work=event.spec.work,
            started=event.started - begin,
            seconds=event.time - begin,
            late=late,
            used=used,
            rank=rank,
            taken=taken,
            place=place,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the row as plain data, ready for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Self:
        """Return the row that `as_dict` gave."""
        return cls(**row)
