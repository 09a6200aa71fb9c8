"""One row a step, one row an arrival: what happened, and all that reports, planners and replays read."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias, TypedDict

if TYPE_CHECKING:
    from erasurehead.engines.base import Arrived

What: TypeAlias = Literal["died", "joined", "suspected", "lied", "failed", "refused"]
"""What befalls a worker: it is gone; it, or another of its number, is there again; it seems to hang; it lied and is put
aside; it said that it cannot answer; a message of it cannot be used."""


class Happening(TypedDict):
    """What befell a worker.

    Attributes:
        what: one of `What`.
        worker: its number.
        time: when it was known, in seconds since training began; negative while the workers were started.
        why: in words; empty if there is nothing to say.
    """

    what: What
    worker: int
    time: float
    why: str


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
        failed: what was noticed in this step, in words: exceptions, deaths, refused messages, suspicions.
        residual: of the decoding, in tasks; 0 is the full gradient.
        coverage: fraction of the full gradient that was counted, and so of the data that `loss` is estimated from.
        stepped: whether the model moved; False when nothing had arrived.
        loss: estimate of the training objective at the model that the step began with (penalty included).
        gradient_norm: Euclidean norm of the estimate with the penalty.
        received: bytes of the messages that came in this step, in time or late.
        workers: positions of the code, whether a worker has them or not.
        lost: tasks that nobody can bring any more and that the estimate leaves out, ascending; it is scaled to the
            others, while residual and coverage are those of the full gradient.
        happened: what befell workers since the step before, in order; in the first step, also while they were started.
        neglected: tasks of which it was noticed in this step that over the last 50 steps they were counted less than
            a fifth as often as the mean task, or never; ascending. Each is noticed once.
        late: messages of earlier rounds that came in this step.
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
    failed: list[str]
    residual: float
    coverage: float
    stepped: bool
    loss: float | None
    gradient_norm: float | None
    received: int
    workers: int = 0
    lost: list[int] = field(default_factory=list[int])
    neglected: list[int] = field(default_factory=list[int])
    happened: list[Happening] = field(default_factory=list[Happening])
    late: int = 0

    def befallen(self, *what: What) -> list[int]:
        """Return the workers that something befell in this step, in order, each as often as it did."""
        return [one["worker"] for one in self.happened if one["what"] in what]

    @property
    def failures(self) -> int:
        """How many failures that nobody died of: exceptions and refused messages; suspicions are none."""
        return len(self.befallen("failed", "refused"))

    def as_dict(self) -> dict[str, Any]:
        """Return the row as plain data, ready for JSON."""
        return asdict(self)


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
