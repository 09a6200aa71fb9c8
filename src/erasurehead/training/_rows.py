"""What is recorded of a run: one row per step, one row per arrival, and notices of what a person should know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self, TypeAlias, TypedDict

from erasurehead.schemes._recorded import RecordedArrival, RecordedStep

if TYPE_CHECKING:
    from erasurehead.engines import Arrived

NoticeKind: TypeAlias = Literal[
    "died",
    "ended",
    "joined",
    "suspected",
    "cleared",
    "lied",
    "failed",
    "refused",
    "held",
    "resized",
    "not_resized",
    "rebalanced",
    "idle",
    "offered",
    "rule_given_up",
    "tasks_lost",
    "tasks_neglected",
    "verification_cost",
    "measured_between",
    "not_connected",
    "older_checkpoint",
    "rewritten",
    "unrecorded",
    "model_moved",
    "model_lost",
    "untracked",
]
"""The kinds of notices, and the data of each.

About workers, with `reason` in words:

===================== ================================================================================================
`died`                the worker is gone, or did not start; `reason`, and `replaced`: whether another takes its place
`ended`               it seemed to hang and was ended; `reason`, `replaced`
`joined`              it, or a replacement with its number, has joined (again); `host`
`suspected`           it seems to hang: it has been silent for `seconds`; `reason`
`cleared`             it does not hang: it answered after `seconds`; `reason`
`lied`                it lied and is put aside; `reason`. If it was questioned: `against` which other, in how many
                      `rounds` of how many `numbers`, about which `task`, of which it `claimed` a number where another
                      is `right`, and how many tasks were `computed` here
`failed`              it said that it cannot answer; `reason`
`refused`             messages cannot be used: `messages`, of `workers`; `reason`
`held`                messages contradict others, and are kept until more have come: `messages`, of `workers`; `reason`
===================== ================================================================================================

About the pool of workers:

===================== ================================================================================================
`resized`             the code is for `n_workers` from `generation` on: `scheme`; `moved` get other data (`bytes`)
`not_resized`         it should have been resized, but cannot; `reason`
`rebalanced`          tasks are dealt out anew, by speed or around a circle: as `resized`
`idle`                `workers` were given no task, as they are so slow that the others are sooner through without them
`offered`             a `host` has room for `count` more workers; `taken`: whether they are started
===================== ================================================================================================

About the model:

===================== ================================================================================================
`rule_given_up`       the wait `rule` cannot be met without `workers`, and is not needed: the others' messages suffice
`tasks_lost`          no living worker holds `tasks`; training goes on without them
`tasks_neglected`     `tasks` are hardly ever counted
`not_connected`       over the last `steps` no path of links led from each peer to every other (without a coordinator)
`measured_between`    the target is measured between steps from now on, not in a separate process; `reason`
`verification_cost`   comparing messages took `seconds` per step, a `share` of it, for `comparisons` per step
===================== ================================================================================================

About the records:

===================== ================================================================================================
`older_checkpoint`    the run goes on from an older checkpoint than its newest; `reason`
`rewritten`           a damaged `file` of the run folder is written again; `reason`
`unrecorded`          records or checkpoints could not be written; `reason`
`model_moved`         the model could not be saved in the run folder; it is in `folder`
`model_lost`          it could not be saved anywhere
`untracked`           a `tracker` is put aside, or something was `left_out` of what it was to show; `reason`
===================== ================================================================================================
"""


class _Used(TypedDict, total=False):
    """The facts of notices that are used after they were read from a file."""

    workers: list[int]
    messages: list[int]


@dataclass(frozen=True)
class Notice:
    """An event of a run that a person should know of. Programs read `kind` and `data`; `text` may be reworded.

    Attributes:
        kind: one of `NoticeKind`.
        worker: the worker that it is about; None if it is about no worker, or about several.
        step: the step during which, or before which, it happened; None before and after training.
        data: further facts, as plain data; `NoticeKind` lists them by kind.
        text: the same for people: a sentence without a full stop.
        time: when it happened, in seconds since training began: negative while workers were started; None for
            callbacks that are called then, and for what is not part of training.
    """

    kind: NoticeKind
    worker: int | None = None
    step: int | None = None
    data: Annotated[Mapping[str, Any], _Used] = field(default_factory=dict[str, Any])
    text: str = ""
    time: float | None = None

    @property
    def workers(self) -> list[int]:
        """The workers that the notice is about."""
        return list(self.data.get("workers", ())) if self.worker is None else [self.worker]

    @property
    def reason(self) -> str:
        """Why, in words; empty if there is none."""
        return str(self.data.get("reason", ""))


WorkerEventKind: TypeAlias = Literal["died", "joined", "failed", "offered", "broken_off", "reported", "asked"]
"""The worker is gone, has joined (again), or reported that it cannot answer; there is room for more workers; the round
was broken off so that the code could be resized for the remaining workers; or it was one of reports, or of sums one of
which was lost, and was followed by one of sums; or one of questions to workers whose messages contradicted each other,
after the round of these."""


BEFORE = -1
"""The round number of events while the workers were started."""


@dataclass(frozen=True)
class WorkerEvent:
    """Something that happened to a worker, at its place among the messages of a round, as replays need it.

    Attributes:
        kind: what happened.
        round: the current round, or -1 while the workers were started: recorded only if not all of them simply came up.
        place: how many messages of any round had arrived in it before.
        time: when it happened, in seconds since training began; negative before.
        worker: number of the worker; None where the event concerns none.
        reason: reason of a death or a failure, in words.
        host: host of the worker, or with room for more; empty where unknown.
        count: how many more workers there is room for.
        broken: for a death: whether the worker itself reported that it cannot run its program.
        begin: for a round that was broken off, or was one of reports or questions: when it had begun, in seconds since
            training began.
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
class StepRow(RecordedStep):
    """One step of the optimizer.

    Attributes:
        step: number of the step, counted from 0.
        round: number of the order; where reports came before the sums, that of the sums.
        kind: kind of the order.
        begin: when the order was submitted, or that for the reports, in seconds since training began.
        waited: seconds from then until the wait rule said stop.
        end: when the model had moved, in seconds since training began.
        arrived: workers whose messages had all arrived when waiting stopped.
        used: messages with a weight, ascending.
        missing: workers that were still able to answer but had not, ascending.
        dead: workers that were dead by then, ascending.
        residual: residual of the decoding, in tasks; 0 is the full gradient.
        coverage: fraction of the full gradient that was counted, and so of the data that `loss` is estimated from.
        stepped: whether there was an estimate; False when nothing had arrived.
        loss: estimate of the training objective, penalty included, at the point that the step asked for, which for most
            optimizers is the model that it began with; None where nothing is known.
        gradient_norm: Euclidean norm of the estimated gradient with the penalty; None without an estimate.
        received: bytes of the messages received in this step, in time or late.
        workers: number of positions of the code, filled or not.
        lost: tasks that no living worker holds and that the estimate leaves out, ascending; it is scaled up for the
            missing ones, while residual and coverage are those of the full gradient.
        neglected: tasks that were found in this step to have been counted less than a fifth as often as the average
            task over the last 50 steps, or never; ascending. Each is reported once.
        notices: notices since the previous step, in order: deaths, exceptions, refused messages, suspicions; in
            the first step, also while the workers were started.
        late: number of messages of earlier rounds that arrived in this step.
        decision: what the optimizer decided at the end of the step, with the numbers that it went by; empty for
            optimizers that decide nothing.
        events: what happened to workers in this step, in order, including its rounds that were broken off.
        rejected: whether the point was only tried, and turned out no better: the model stays what it was, and `loss` is
            not its loss.
        old_work: what late workers do with old work: `"preempt"`, `"carry"` or `"drop(R)"`.
    """

    neglected: list[int] = field(default_factory=list[int])
    notices: list[Notice] = field(default_factory=list[Notice])
    late: int = 0
    decision: dict[str, Any] = field(default_factory=dict[str, Any])
    events: list[WorkerEvent] = field(default_factory=list[WorkerEvent])
    rejected: bool = False
    old_work: str = ""

    def noticed(self, *kinds: NoticeKind) -> list[Notice]:
        """Return the notices of the given kinds, in order."""
        return [notice for notice in self.notices if notice.kind in kinds]

    def workers_noticed(self, *kinds: NoticeKind) -> list[int]:
        """Return the workers that notices of the given kinds are about, in order and with repetitions."""
        return [worker for notice in self.noticed(*kinds) for worker in notice.workers]

    @property
    def failures(self) -> int:
        """Number of failures without a death: exceptions and refused messages; suspicions do not count."""
        return len(self.noticed("failed")) + sum(
            len(notice.data.get("messages", ())) for notice in self.noticed("refused")
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the row as plain data, ready for JSON."""
        return vars(self) | {
            "notices": [vars(notice) for notice in self.notices],
            "events": [vars(event) for event in self.events],
        }


@dataclass(frozen=True)
class ArrivalRow(RecordedArrival):
    """One message, or the fact that it had not arrived.

    Attributes:
        step: the step whose order it answers.
        round: the round that it answers.
        worker: the worker that sent it.
        message: row of the code.
        unit: 0 for the worker's first message of the round, 1 for its second, and so on.
        work: number of tasks that it combines.
        started: when the worker began on the order, in seconds since it was submitted.
        seconds: when the coordinator received the message, in seconds since the order was submitted; for a message that
            had not arrived when waiting stopped, that moment: all that is known is that it was slower.
        censored: whether the message had not arrived when waiting stopped.
        late: whether it arrived in a later round; it has then already been recorded as censored.
        used: whether it was given a weight.
        rank: how many messages of its round had arrived before it; None for a message that was not in time. It orders
            messages with the same `seconds`.
        taken: the round in which it arrived: its own, or a later one for a late message; None if it had not arrived.
        place: how many messages of any round had arrived in that round before it; None if it had not arrived.
        refused: whether it was late and could not be used, for example because its vector was not finite.
        worked: for how many seconds the worker computed, where the order asked for that; see `Arrived.worked`.
    """

    worked: float | None = None

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
        """Return the row of a message that has arrived.

        Arguments:
            event: the message.
            row: row of the code.
            unit: its number among its worker's messages.
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
            worked=event.worked,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the row as plain data, ready for JSON."""
        return dict(vars(self))  # all of them are numbers: `asdict` would copy each, at three times the cost
