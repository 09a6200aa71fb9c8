"""Rounds of a run that begins with few arrivals, one after the other: who had answered when each one stopped."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.decoding.base import Decoding
from erasurehead.delays.base import Delays
from erasurehead.engines.base import LateWork, Order
from erasurehead.planning.arrivals import Arrivals
from erasurehead.planning.simulation import stop_times
from erasurehead.problems.base import EARLY, WITH_CURVATURE
from erasurehead.schemes.named import Scheme
from erasurehead.schemes.wait_rules.alarm import Alarm
from erasurehead.schemes.wait_rules.base import Verdict, WaitRule
from erasurehead.schemes.wait_rules.view import View

_AHEAD = 32  # steps whose delays are drawn at once


@dataclass
class EarlyRounds:
    """Rounds that a run with an optimizer's early orders would see on the virtual clock, where late work is dropped.

    How many early steps there are is the optimizer's choice, so that each round is drawn when its order is out: for the
    step of the order, as delays are drawn by the step and early steps count, with twice the work where the order asks
    for curvatures, too. The scheme's own rules are shown who arrives, and are woken when they ask for it.

    Arguments:
        scheme: with a rule for orders of kind `"early"`, and rules of all other kinds that wait for the whole gradient.
        delays: how slow the workers are; they do not follow the clock.
        seconds_per_task: computing time of a task.
        first: the step, of the delays, that is the run's first.
        most: whole gradients that are given, at most.

    Attributes:
        seconds: of each round so far.
        whole: whether each round so far was one of a whole gradient, with no curvatures beside it.
    """

    scheme: Scheme
    delays: Delays
    seconds_per_task: float
    first: int
    most: int

    def __post_init__(self) -> None:
        self.scheme = self.scheme.begin()  # what its rules learn is this run's alone
        code = self.scheme.code
        self.seconds: list[float] = []
        self.whole: list[bool] = []
        self._early = 0
        self._arrivals = {
            vectors: Arrivals(code, self.delays, self.seconds_per_task, vectors=vectors) for vectors in (1, 2)
        }
        self._drawn: dict[int, tuple[int, Array, Array]] = {}

    def answer(self, order: Order) -> Decoding | None:
        """Return what is decoded of a round; None if it never ends, or there were as many as are given."""
        if len(self.seconds) - self._early >= self.most:
            return None
        times, places = self._times(order.step, 2 if order.kind in WITH_CURVATURE else 1)
        view = View(self.scheme.decoder, order.step, note=order.note)
        seconds = _wait(self.scheme.rules[order.kind], view, times, places)
        if math.isinf(seconds):
            return None
        self.seconds.append(seconds)
        self.whole.append(order.kind not in WITH_CURVATURE)
        self._early += order.kind == EARLY
        return view.session.decoding()

    def _times(self, step: int, vectors: int) -> tuple[Array, Array]:
        """Return when each message of a step arrives, and who goes first of those that arrive at the same moment."""
        begin, times, places = self._drawn.get(vectors, (0, np.empty((0, 0)), np.empty((0, 0))))
        if not begin <= step < begin + len(times):
            arrivals, begin = self._arrivals[vectors], step
            times = arrivals.block(self.first + step, _AHEAD)
            places = arrivals.precedence(self.first + step, 0, _AHEAD)
            self._drawn[vectors] = begin, times, places
        return times[step - begin], places[step - begin]

    def worth(self, steps: int, seconds_per_step: float) -> float:
        """Return how many whole steps the first rounds are worth: one each, but as much as they take if they ask for
        curvatures.

        Arguments:
            steps: how many rounds.
            seconds_per_step: of a whole gradient; if it is not known, or nothing takes any time, each counts as one.
        """
        if not (math.isfinite(seconds_per_step) and seconds_per_step > 0.0):
            return float(steps)
        pairs = zip(self.seconds[:steps], self.whole[:steps], strict=True)
        return float(sum(1.0 if whole else seconds / seconds_per_step for seconds, whole in pairs))


def begins_early(scheme: Scheme, delays: Delays, late: LateWork) -> bool:
    """Whether a run may begin with few arrivals, as the training loop has it: late work is dropped, by a rule."""
    return EARLY in scheme.rules and late == "preempt" and not delays.follows_clock


def seconds_of_a_step(scheme: Scheme, delays: Delays, seconds_per_task: float, first: int, steps: int) -> float:
    """Return the mean seconds of steps with whole gradients."""
    return float(stop_times(scheme.decoder, scheme.rule, delays, steps, seconds_per_task, first).mean())


def _wait(rule: WaitRule, view: View, times: Array, places: Array) -> float:
    """Show a rule who arrives, until it stops; return when that is, inf if it never does."""
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
