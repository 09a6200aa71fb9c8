"""Simulated rounds of a run whose first steps stop after few arrivals: who had answered when each one stopped."""

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
    """The rounds of a run with early orders on the virtual clock, where late work is dropped.

    The optimizer decides how many early steps there are, so that each round is simulated when its order is given. Its
    delays are those of the order's step, where early steps count, too; the work is doubled if the order also asks for
    curvatures. The scheme's own wait rules see the arrivals one by one, and are called at the times they ask for.

    Arguments:
        scheme: a scheme with a rule for orders of kind `"early"`, whose other rules wait for the whole gradient.
        delays: how slow the workers are; they must not follow the clock.
        seconds_per_task: computing time of a task.
        first: number of the run's first step in the delays.
        most: largest number of whole gradients.

    Attributes:
        seconds: time of each round so far, in seconds.
        whole: for each round so far, whether it gave a whole gradient without curvatures.
    """

    scheme: Scheme
    delays: Delays
    seconds_per_task: float
    first: int
    most: int

    def __post_init__(self) -> None:
        self.scheme = self.scheme.begin()  # rules learn separately in each run
        code = self.scheme.code
        self.seconds: list[float] = []
        self.whole: list[bool] = []
        self._early = 0
        self._arrivals = {
            vectors: Arrivals(code, self.delays, self.seconds_per_task, vectors=vectors) for vectors in (1, 2)
        }
        self._drawn: dict[int, tuple[int, Array, Array]] = {}

    def answer(self, order: Order) -> Decoding | None:
        """Return the decoding of a round; None if the round never ends, or the number of gradients is used up.

        Arguments:
            order: the optimizer's order of this round.
        """
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
        """Return when each message of a step arrives, and keys that break ties between simultaneous arrivals."""
        begin, times, places = self._drawn.get(vectors, (0, np.empty((0, 0)), np.empty((0, 0))))
        if not begin <= step < begin + len(times):
            arrivals, begin = self._arrivals[vectors], step
            times = arrivals.block(self.first + step, _AHEAD)
            places = arrivals.precedence(self.first + step, 0, _AHEAD)
            self._drawn[vectors] = begin, times, places
        return times[step - begin], places[step - begin]

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


def begins_early(scheme: Scheme, delays: Delays, late: LateWork) -> bool:
    """Whether a run may begin with early orders, by the same conditions as in the training loop.

    Arguments:
        scheme: the scheme, which must have a rule for early orders.
        delays: how slow the workers are; they must not follow the clock.
        late: what busy workers do with old work; it must be dropped (`"preempt"`).
    """
    return EARLY in scheme.rules and late == "preempt" and not delays.follows_clock


def seconds_of_a_step(scheme: Scheme, delays: Delays, seconds_per_task: float, first: int, steps: int) -> float:
    """Return the mean seconds of steps with whole gradients.

    Arguments:
        scheme: the scheme.
        delays: how slow the workers are.
        seconds_per_task: computing time of a task.
        first: the first step.
        steps: number of steps, at least 1.
    """
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
