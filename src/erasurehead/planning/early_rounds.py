"""Simulated rounds of a run whose first steps stop after few arrivals: who had answered when each one stopped."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.decoding.base import Decoding
from erasurehead.delays.base import Delays
from erasurehead.engines.base import LateWork, Order
from erasurehead.errors import EngineError, Unreachable
from erasurehead.optimizers.base import LATE_PARTS, asks_curvature
from erasurehead.planning.arrivals import Arrivals
from erasurehead.planning.carry_over import simulate_with_memory
from erasurehead.planning.idle_workers import IdleWorkers
from erasurehead.planning.simulation import stop_times
from erasurehead.problems.base import EARLY
from erasurehead.schemes.named import Scheme
from erasurehead.schemes.wait_rules.alarm import Alarm
from erasurehead.schemes.wait_rules.base import Verdict, WaitRule
from erasurehead.schemes.wait_rules.view import View

_AHEAD = 32  # steps whose delays are drawn at once


@dataclass(frozen=True, eq=False)
class Answer:
    """Who answered an order.

    Attributes:
        decoding: the weights of the messages that came in time.
        late: messages that came meanwhile, and answer an earlier order whose note asks for late answers: the step of
            that order, and the message's row.
    """

    decoding: Decoding
    late: Sequence[tuple[int, int]] = ()


class EarlyRounds(ABC):
    """The rounds of a run with early orders on the virtual clock.

    The optimizer decides how many early steps there are, so that each round is simulated when its order is given. Its
    delays are those of the order's step, where early steps count, too; the work is doubled if the order also asks for
    curvatures. The scheme's own wait rules see the arrivals one by one, and are called at the times they ask for.

    Arguments:
        scheme: a scheme with a rule for orders of kind `"early"`, whose other rules wait for the whole gradient.
        most: largest number of whole gradients.

    Attributes:
        late: what late workers do with old work.
        seconds: time of each round so far, in seconds.
        whole: for each round so far, whether it gave a whole gradient without curvatures.
    """

    late: LateWork

    def __init__(self, scheme: Scheme, most: int) -> None:
        self.scheme = scheme.begin()  # rules learn separately in each run
        self.most = most
        self.seconds: list[float] = []
        self.whole: list[bool] = []
        self._early = 0

    def answer(self, order: Order) -> Answer | None:
        """Return who answers an order; None if the round never ends, or the number of gradients is used up.

        Arguments:
            order: the optimizer's order of this round.
        """
        if len(self.seconds) - self._early >= self.most:
            return None
        found = self._answer(order)
        if found is None:
            return None
        seconds, answer = found
        self.seconds.append(seconds)
        self.whole.append(order.kind != EARLY and not asks_curvature(order))
        self._early += order.kind == EARLY
        return answer

    @abstractmethod
    def _answer(self, order: Order) -> tuple[float, Answer] | None:
        """Return the seconds of a round, and who answered; None if it never ends."""

    def worth(self, steps: int, seconds_per_step: float) -> float:
        """Return the number of whole steps that the first rounds are equivalent to.

        A round with a whole gradient counts as one step; an early one, or one with curvatures, as the share or multiple
        of a step's time that it takes.

        Arguments:
            steps: number of rounds.
            seconds_per_step: time of a step with a whole gradient; if it is 0 or not finite, each round counts as one.
        """
        if not (math.isfinite(seconds_per_step) and seconds_per_step > 0.0):
            return float(steps)
        pairs = zip(self.seconds[:steps], self.whole[:steps], strict=True)
        return float(sum(1.0 if whole else seconds / seconds_per_step for seconds, whole in pairs))


@final
class DroppedWork(EarlyRounds):
    """Rounds where late workers drop their old work, so that each begins with idle workers.

    Arguments:
        scheme, most: as in `EarlyRounds`.
        delays: how slow the workers are; they must not follow the clock.
        seconds_per_task: computing time of a task.
        first: number of the run's first step in the delays.
    """

    late = "preempt"

    def __init__(self, scheme: Scheme, most: int, delays: Delays, seconds_per_task: float, first: int) -> None:
        super().__init__(scheme, most)
        self._first = first
        code = self.scheme.code
        self._arrivals = {vectors: Arrivals(code, delays, seconds_per_task, vectors=vectors) for vectors in (1, 2)}
        self._drawn: dict[int, tuple[int, Array, Array]] = {}

    def _answer(self, order: Order) -> tuple[float, Answer] | None:
        times, places = self._times(order.step, 2 if asks_curvature(order) else 1)
        view = View(self.scheme.decoder, order.step, note=order.note)
        seconds = _wait(self.scheme.rules[order.kind], view, times, places)
        return (seconds, Answer(view.session.decoding())) if math.isfinite(seconds) else None

    def _times(self, step: int, vectors: int) -> tuple[Array, Array]:
        """Return when each message of a step arrives, and keys that break ties between simultaneous arrivals."""
        begin, times, places = self._drawn.get(vectors, (0, np.empty((0, 0)), np.empty((0, 0))))
        if not begin <= step < begin + len(times):
            arrivals, begin = self._arrivals[vectors], step
            times = arrivals.block(self._first + step, _AHEAD)
            places = arrivals.precedence(self._first + step, 0, _AHEAD)
            self._drawn[vectors] = begin, times, places
        return times[step - begin], places[step - begin]


@final
class CarriedWork(EarlyRounds):
    """Rounds where late workers finish their old work, on the virtual engine.

    Arguments:
        scheme, most: as in `EarlyRounds`.
        delays: how slow the workers are.
        seconds_per_task: computing time of a task.
        first: number of the run's first step in the delays.
    """

    late = "carry"

    def __init__(self, scheme: Scheme, most: int, delays: Delays, seconds_per_task: float, first: int) -> None:
        super().__init__(scheme, most)
        self._first = first
        self._workers = IdleWorkers(self.scheme, delays, "carry", seconds_per_task)
        self._wanted: set[int] = set()  # steps whose late answers are wanted

    def _answer(self, order: Order) -> tuple[float, Answer] | None:
        if order.note.get(LATE_PARTS, False):
            self._wanted.add(self._first + order.step)
        try:
            found = self._workers.answer(replace(order, step=self._first + order.step, points=(np.zeros(1),)))
        except (Unreachable, EngineError):
            return None
        wanted = [row for row in found.late_rows if row.step in self._wanted]
        late = [(row.step - self._first, row.message) for row in wanted]
        return found.waited, Answer(found.decoding, late)


def begins_early(scheme: Scheme, delays: Delays, late: LateWork) -> bool:
    """Whether a run may begin with early orders, as in the training loop, and its rounds can be simulated.

    Arguments:
        scheme: the scheme.
        delays: how slow the workers are; where late work is dropped, they must not follow the clock.
        late: what busy workers do with old work.
    """
    allowed = scheme.early(late)
    return allowed == "carry" or (allowed == "preempt" and not delays.follows_clock)


def early_rounds(
    scheme: Scheme, most: int, delays: Delays, seconds_per_task: float, first: int, late: LateWork
) -> EarlyRounds:
    """Return the rounds of a run that begins with early orders.

    Arguments:
        scheme: the scheme.
        most: largest number of whole gradients.
        delays: how slow the workers are.
        seconds_per_task: computing time of a task.
        first: number of the run's first step in the delays.
        late: what busy workers do with old work.
    """
    rounds = CarriedWork if scheme.early(late) == "carry" else DroppedWork
    return rounds(scheme, most, delays, seconds_per_task, first)


def seconds_of_a_step(
    scheme: Scheme, delays: Delays, seconds_per_task: float, first: int, steps: int, late: LateWork
) -> float:
    """Return the mean seconds of steps with whole gradients.

    Arguments:
        scheme: the scheme.
        delays: how slow the workers are.
        seconds_per_task: computing time of a task.
        first: the first step.
        steps: number of steps, at least 1.
        late: what busy workers do with old work.
    """
    if late == "carry":
        decoder, rule = scheme.decoder, scheme.rule
        found = simulate_with_memory(decoder, rule, delays, steps, seconds_per_task, first, late)
        return float(found.seconds.mean())
    return float(stop_times(scheme.decoder, scheme.rule, delays, steps, seconds_per_task, first).mean())


def _wait(rule: WaitRule, view: View, times: Array, places: Array) -> float:
    """Show arrivals to a rule until it stops; return the time when it does, inf if it never does."""
    alarm = Alarm(rule)
    coming = [message for message in np.lexsort((places, times)).tolist() if math.isfinite(times[message])]
    clock, came = 0.0, 0
    while True:
        view.elapsed = alarm.elapsed(clock)
        verdict = rule.verdict(view)
        if verdict is not Verdict.WAIT:
            return view.elapsed if verdict is Verdict.STOP else math.inf
        wake = alarm.next(view)
        if came < len(coming) and (wake is None or times[coming[came]] <= wake):
            clock = float(times[coming[came]])
            alarm.stop()
            view.elapsed = alarm.elapsed(clock)
            view.add(coming[came])
            came += 1
        elif wake is not None:
            clock = wake
            alarm.ring(wake)
        else:
            return math.inf
