"""Simulated rounds for a failure detector: how often it is wrong, and when it finds workers that hang."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.errors import check_count, invalid
from erasurehead.faults.failure_detector.detector import FailureDetector


@dataclass
class Played:
    """The result of simulated rounds.

    Attributes:
        detector: the detector, as it is afterwards.
        rounds, workers: their numbers.
        alarms: for each false suspicion, the round of the order that the worker works on, and the worker.
        found: for each worker that hangs and was suspected, the seconds between its last sign of life and suspicion.
    """

    detector: FailureDetector
    rounds: int
    workers: int
    alarms: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    found: dict[int, float] = field(default_factory=dict[int, float])

    @property
    def rate(self) -> float:
        """False alarms per worker and round."""
        return len(self.alarms) / (self.rounds * self.workers)


def play(
    seconds: Array, detector: FailureDetector, first: int | None = None, hung: Mapping[int, int] | None = None
) -> Played:
    """Simulate rounds on a virtual clock, without an engine and gradients.

    Arguments:
        seconds: seconds that each worker takes for each order, at least 0, shape (rounds, workers).
        detector: is told what happens; its `late` says what workers do with old orders.
        first: number of answers that a round waits for, at most as many as there are workers that answer; None for all.
        hung: workers that hang, each with the round of the order from which it does.

    Raises:
        InvalidArgument: if the seconds are not such a table, or a round could not end.
    """
    hung = hung or {}
    if seconds.ndim != 2 or not (np.isfinite(seconds) & (seconds >= 0.0)).all():
        raise invalid("seconds", "must be finite, at least 0, of shape (rounds, workers)", seconds.shape)
    rounds, workers = seconds.shape
    if first is not None:
        check_count("first", first, at_most=workers - len(hung))
    played = Played(detector, rounds, workers)
    preempt, now = detector.late == "preempt", 0.0
    ends: dict[int, tuple[float, int]] = {}
    heard = dict.fromkeys(range(workers), 0.0)

    def begin(worker: int, number: int) -> None:
        stuck = worker in hung and number >= hung[worker]
        ends[worker] = (math.inf if stuck else now + float(seconds[number, worker])), number

    def look(until: float) -> None:
        while (at := detector.next_check()) <= until:
            for suspect in detector.check(at):
                if ends[suspect][0] < math.inf:
                    played.alarms.append((ends[suspect][1], suspect))
                else:
                    played.found.setdefault(suspect, at - heard[suspect])

    for number in range(rounds):
        for worker in range(workers):
            detector.ordered(worker, now)
            if preempt or worker not in ends:
                begin(worker, number)
        answers = 0
        while answers < (first or workers - sum(number >= start for start in hung.values())):
            worker = min(ends, key=lambda one: (ends[one][0], one))
            until, answered = ends[worker]
            look(until)
            now = heard[worker] = until
            detector.heard(worker, now, done=answered == number)
            del ends[worker]
            if answered == number:
                answers += 1
            else:
                begin(worker, number)
    return played
