"""Simulated rounds, which show how often a failure detector is wrong, and how soon it detects workers that hang."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.errors import check_count, invalid
from erasurehead.faults import FailureDetector


@dataclass
class SimulatedRounds:
    """The result of simulated rounds.

    Attributes:
        detector: the failure detector, after the rounds.
        rounds, workers: number of rounds and of workers.
        alarms: the false suspicions, each as the round of the order that the worker works on, and the worker.
        detected: for each hung worker that was suspected, the seconds from its last answer to the suspicion.
    """

    detector: FailureDetector
    rounds: int
    workers: int
    alarms: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    detected: dict[int, float] = field(default_factory=dict[int, float])

    @property
    def rate(self) -> float:
        """False alarms per worker and round."""
        return len(self.alarms) / (self.rounds * self.workers)


def simulate_rounds(
    seconds: Array, detector: FailureDetector, first: int | None = None, hung: Mapping[int, int] | None = None
) -> SimulatedRounds:
    """Simulate rounds on a virtual clock, without an engine or gradients.

    Arguments:
        seconds: seconds that each worker takes for each order, at least 0, shape (rounds, workers).
        detector: the failure detector, which is told what happens; its `late` is what workers do with old orders.
        first: number of answers that a round waits for, at most the number of workers that answer; None for all.
        hung: for workers that hang, the round from which they do.

    Raises:
        InvalidArgument: if the seconds are not such a table, or a round could not end.
    """
    hung = hung or {}
    if seconds.ndim != 2 or not (np.isfinite(seconds) & (seconds >= 0.0)).all():
        raise invalid("seconds", "must be finite, at least 0, of shape (rounds, workers)", seconds.shape)
    rounds, workers = seconds.shape
    if first is not None:
        check_count("first", first, at_most=workers - len(hung))
    result = SimulatedRounds(detector, rounds, workers)
    preempt, now = detector.late == "preempt", 0.0
    ends: dict[int, tuple[float, int]] = {}
    last_heard = dict.fromkeys(range(workers), 0.0)

    def begin(worker: int, number: int) -> None:
        hangs = worker in hung and number >= hung[worker]
        ends[worker] = (math.inf if hangs else now + float(seconds[number, worker])), number

    def check_until(until: float) -> None:
        while (at := detector.next_check()) <= until:
            for suspect in detector.check(at):
                if ends[suspect][0] < math.inf:
                    result.alarms.append((ends[suspect][1], suspect))
                else:
                    result.detected.setdefault(suspect, at - last_heard[suspect])

    for number in range(rounds):
        for worker in range(workers):
            detector.ordered(worker, now)
            if preempt or worker not in ends:
                begin(worker, number)
        answers = 0
        while answers < (first or workers - sum(number >= start for start in hung.values())):
            worker = min(ends, key=lambda one: (ends[one][0], one))
            until, answered = ends[worker]
            check_until(until)
            now = last_heard[worker] = until
            detector.heard(worker, now, done=answered == number)
            del ends[worker]
            if answered == number:
                answers += 1
            else:
                begin(worker, number)
    return result
