"""What arrived in each round of a recorded run, and when, for replays."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field

from erasurehead._internal.documents import Entries

_ROUNDS = ("broken_off", "reported", "asked")
"""Kinds of events of a step that are rounds before its last one."""


@dataclass(frozen=True)
class ScriptedMessage:
    """A message of a recorded run.

    Attributes:
        worker: the worker that sent it.
        unit: its number among the worker's messages of a round.
        order_round: the round that it answers.
        started: when the worker began, in seconds since that round began.
        seconds: when it arrived, likewise.
        usable: whether it could be used; if not, its vector was lost, or not finite.
        worked: for how many seconds the worker worked on it, if that was asked.
    """

    worker: int
    unit: int
    order_round: int
    started: float
    seconds: float
    usable: bool = True
    worked: float | None = None


@dataclass(frozen=True)
class ScriptedEvent:
    """Something that happened to a worker in a recorded run.

    Attributes:
        kind: `"died"`, `"joined"`, `"failed"` or `"offered"`.
        place: how many messages had arrived in the round before it.
        time: when it happened, in seconds since training began.
        worker: number of the worker; -1 if it concerns none.
        reason, host, count, broken: as in the engines' events.
    """

    kind: str
    place: int
    time: float
    worker: int = -1
    reason: str = ""
    host: str = ""
    count: int = 0
    broken: bool = False


@dataclass(frozen=True)
class ScriptedRound:
    """A round of a recorded run.

    Attributes:
        begin: when its order was submitted, in seconds since training began.
        waited: seconds from then until waiting stopped.
        end: when the model had moved, in seconds since training began; for a round that was broken off, when that
            happened.
        messages: the messages that arrived in it, in the order of arrival.
        failed: workers whose messages could not be used.
        events: what happened to workers in it, in order.
    """

    begin: float
    waited: float
    end: float
    messages: Sequence[ScriptedMessage] = ()
    failed: Sequence[int] = ()
    events: Sequence[ScriptedEvent] = ()


@dataclass(frozen=True, eq=False)
class Script:
    """A recorded run, round by round.

    Attributes:
        rounds: the rounds by number.
        last_use: for each round, the last round in which a message of it arrived.
        start: what happened to workers while they were started; empty if all of them simply came up.
        old_work: what late workers did with old work, which what a run learns can depend on.
    """

    rounds: Mapping[int, ScriptedRound]
    last_use: Mapping[int, int] = field(default_factory=dict[int, int])
    start: Sequence[ScriptedEvent] = ()
    old_work: str = "carry"

    @classmethod
    def of(cls, steps: Iterable[Entries], arrivals: Iterable[Entries]) -> Script | None:
        """Return the script of a run's records; None if they do not say in which round each message came.

        Arguments:
            steps: the rows of the run's steps.
            arrivals: the rows of the run's messages.
        """
        came: dict[int, list[tuple[int, ScriptedMessage]]] = {}
        recorded = set[tuple[int, int]]()  # messages by round and row
        last_use: dict[int, int] = {}
        for row in arrivals:
            if row.get("censored") and not row.get("late"):
                continue
            taken, place = row.get("taken"), row.get("place")
            if taken is None or place is None or row.get("started") is None:
                return None
            message = ScriptedMessage(
                int(row["worker"]),
                int(row["unit"]),
                int(row["round"]),
                float(row["started"]),
                float(row["seconds"]),
                not row.get("refused", False),
                row.get("worked"),
            )
            came.setdefault(int(taken), []).append((int(place), message))
            recorded.add((int(row["round"]), int(row["message"])))
            last_use[message.order_round] = max(int(taken), last_use.get(message.order_round, 0))
        rounds: dict[int, ScriptedRound] = {}
        start: list[ScriptedEvent] = []
        old_work = ""
        for row in steps:
            old_work = old_work or str(row.get("old_work", ""))
            events, failed = _events(row), _failed(row, recorded)
            start += events.pop(-1, ())
            for number, times in _times(row).items():
                messages = [message for _, message in sorted(came.get(number, ()), key=lambda placed: placed[0])]
                own = failed if number == int(row["round"]) else ()
                rounds[number] = ScriptedRound(*times, messages, own, events.get(number, ()))
        return cls(rounds, last_use, start, old_work or "carry") if rounds else None


def _failed(row: Entries, recorded: Set[tuple[int, int]]) -> list[int]:
    """Return the workers whose messages could not be used in a step.

    Arguments:
        row: the row of the step.
        recorded: messages that have rows of their own, by round and row.
    """
    return [
        int(one["worker"])
        for one in row.get("notices", ())
        if one["kind"] == "refused"
        and one.get("worker") is not None
        and any((int(row["round"]), message) not in recorded for message in one["data"]["messages"])
    ]


def _times(row: Entries) -> dict[int, tuple[float, float, float]]:
    """Return when each round of a step began, for how long it waited, and when it ended."""
    number = int(row["round"])
    times = {number: (float(row["begin"]), float(row["waited"]), float(row["end"]))}
    for event in row.get("events", ()):
        if event["kind"] in _ROUNDS:
            begin, end = float(event["begin"]), float(event["time"])
            after = float(row["end"]) if event["kind"] == "asked" else end  # the step's own round was before it
            times[int(event["round"])] = begin, end - begin, after
            if event["kind"] == "reported":  # the step began with the reports, and its round when they were in
                stop = moment(float(row["begin"]), float(row["waited"]))
                times[number] = end, stop - end, float(row["end"])
    return times


def _events(row: Entries) -> dict[int, list[ScriptedEvent]]:
    """Return what happened to workers in the rounds of a step; in round -1, while they were started."""
    events: dict[int, list[ScriptedEvent]] = {}
    for event in row.get("events", ()):
        if event["kind"] not in _ROUNDS:
            events.setdefault(int(event["round"]), []).append(
                ScriptedEvent(
                    str(event["kind"]),
                    int(event["place"]),
                    float(event["time"]),
                    -1 if event["worker"] is None else int(event["worker"]),
                    str(event["reason"]),
                    str(event["host"]),
                    int(event["count"]),
                    bool(event["broken"]),
                )
            )
    return events


def moment(begin: float, seconds: float) -> float:
    """Return the time `begin + seconds`, such that subtracting `begin` gives exactly `seconds` again."""
    time = begin + seconds
    low = high = time
    for _ in range(4):
        for near in (low, high):
            if near - begin == seconds:
                return near
        low, high = math.nextafter(low, -math.inf), math.nextafter(high, math.inf)
    return time
