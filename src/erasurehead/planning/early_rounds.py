"""Simulated rounds of a run whose first steps stop after few arrivals: who had answered when each one stopped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from erasurehead.decoding.base import Decoding
from erasurehead.delays.base import Delays
from erasurehead.engines.base import LateWork, Order
from erasurehead.errors import EngineError, Unreachable
from erasurehead.optimizers.base import LATE_PARTS, asks_curvature
from erasurehead.planning.carry_over import simulate_with_memory
from erasurehead.planning.idle_workers import IdleWorkers
from erasurehead.planning.simulation import stop_times
from erasurehead.problems.base import EARLY, NEWTON
from erasurehead.schemes.named import Scheme
from erasurehead.training.round_state import RoundResult

_MOST_EARLY = 100  # times as many early rounds as whole gradients, after which a run is given up


@dataclass(frozen=True, eq=False)
class Answer:
    """Who answered an order.

    Attributes:
        decoding: the weights of the messages that came in time.
        waited: for how many seconds they were waited for.
        work_odds: as for `Optimizer`.
        late: messages that came meanwhile, and answer an earlier order whose note asks for late answers: the step of
            that order, and the message's row of the scheme's code.
    """

    decoding: Decoding
    waited: float
    work_odds: float
    late: Sequence[tuple[int, int]] = ()


class EarlyRounds:
    """The rounds of a run with early orders on the virtual engine.

    The optimizer decides how many early steps there are, so that each round is simulated when its order is given. Its
    delays are those of the order's step, where early steps count, too; the work is doubled if the order also asks for
    curvatures. Workers are asked for sums or for a message per task, as in the run.

    Arguments:
        scheme: a scheme with a rule for orders of kind `"early"`, whose other rules wait for the whole gradient.
        most: largest number of whole gradients.
        delays: how slow the workers are.
        seconds_per_task: computing time of a task.
        first: number of the run's first step in the delays.
        late: what late workers do with old work.

    Attributes:
        seconds: time of each round so far, in seconds.
        whole: for each round so far, whether it gave a whole gradient, by sums without curvatures.
    """

    def __init__(
        self, scheme: Scheme, most: int, delays: Delays, seconds_per_task: float, first: int, late: LateWork
    ) -> None:
        self.scheme, self.late = scheme.begin(), late  # rules learn separately in each run
        self.seconds: list[float] = []
        self.whole: list[bool] = []
        self._most, self._first = most, first
        self._workers = IdleWorkers(self.scheme, delays, late, seconds_per_task, chooses=True)
        self._early = 0
        self._wanted: set[int] = set()  # steps whose late answers are wanted
        self._newest: dict[int, int] = {}  # of each group, the newest step of which it has answered such an order

    def answer(self, order: Order) -> Answer | None:
        """Return who answers an order; None if the round never ends, or the number of gradients is used up.

        Arguments:
            order: the optimizer's order of this round.
        """
        if len(self.seconds) - self._early >= self._most or self._early >= _MOST_EARLY * self._most:
            return None
        if order.note.get(LATE_PARTS, False):
            self._wanted.add(self._first + order.step)
        by_task = self._workers.by_task
        try:
            found = self._workers.answer(replace(order, step=self._first + order.step, points=(np.zeros(1),)))
        except (Unreachable, EngineError):
            return None
        self.seconds.append(found.waited)
        few = order.kind in (EARLY, NEWTON)
        self.whole.append(not (few or asks_curvature(order) or by_task))
        self._early += few
        return Answer(found.decoding, found.waited, self._workers.work_odds, self._news(found))

    def _news(self, found: RoundResult) -> list[tuple[int, int]]:
        """Return the late answers that are wanted and newer than what is known of their tasks, as in a run."""
        groups = self.scheme.code.groups
        late: list[tuple[int, int]] = []
        for row in (*found.late_rows, *found.rows):
            if row.censored or row.step not in self._wanted:
                continue
            group = row.message if groups is None else int(groups[row.message])
            if row.late and row.step > self._newest.get(group, -1):
                late.append((row.step - self._first, row.message))
            self._newest[group] = max(row.step, self._newest.get(group, -1))
        return late

    def worth(self, steps: int, seconds_per_step: float) -> float:
        """Return the number of whole steps that the first rounds are equivalent to.

        A round with a whole gradient by sums counts as one step; an early one, one with curvatures, and one by task as
        the share or multiple of a step's time that it takes.

        Arguments:
            steps: number of rounds.
            seconds_per_step: time of a step with a whole gradient; if it is 0 or not finite, each round counts as one.
        """
        if not (math.isfinite(seconds_per_step) and seconds_per_step > 0.0):
            return float(steps)
        pairs = zip(self.seconds[:steps], self.whole[:steps], strict=True)
        return float(sum(1.0 if whole else seconds / seconds_per_step for seconds, whole in pairs))


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
    if late == "preempt" and not delays.follows_clock:
        return float(stop_times(scheme.decoder, scheme.rule, delays, steps, seconds_per_task, first).mean())
    found = simulate_with_memory(scheme.decoder, scheme.rule, delays, steps, seconds_per_task, first, late)
    return float(found.seconds.mean())
