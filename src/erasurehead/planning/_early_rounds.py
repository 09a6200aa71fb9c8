"""Trials of runs whose first steps stop after few arrivals: the workers of a run, on the virtual clock."""

from __future__ import annotations

import math
from dataclasses import replace

from erasurehead._internal.late_work import LateWork
from erasurehead.delays import Delays
from erasurehead.engines import Order, VirtualEngine
from erasurehead.engines._base import BY_TASK
from erasurehead.errors import Unreachable
from erasurehead.faults import FaultPolicy
from erasurehead.optimizers._base import Early, PartialGradient
from erasurehead.optimizers._order_kinds import asks_curvature, kind_of
from erasurehead.problems import Problem
from erasurehead.schemes import Scheme
from erasurehead.training._assignment import Assignment
from erasurehead.training._stepped_run import Programs, WorkerOracle, WorkersAnswered
from erasurehead.training._workers import WorkerPool

_MOST_EARLY = 100  # times as many early rounds as whole gradients, after which a run is given up


class EarlyRounds(WorkerOracle):
    """The rounds of a run with early orders, by the workers of a run on the virtual engine.

    The optimizer decides how many early steps there are. Delays are those of the order's step, where early steps count,
    too.

    Arguments:
        problem: what is minimised.
        scheme: a scheme with a rule for orders of kind `"early"`, whose other rules wait for the whole gradient.
        programs: those of its workers, laid out.
        most: largest number of whole gradients.
        delays: how slow the workers are.
        seconds_per_task: computing time of a task.
        first: number of the run's first step in the delays.
        late: what late workers do with old work.

    Attributes:
        early: what the optimizer is to be told of early orders.
        seconds: time of each round so far, in seconds.
    """

    def __init__(
        self,
        problem: Problem,
        scheme: Scheme,
        programs: Programs,
        most: int,
        delays: Delays,
        seconds_per_task: float,
        first: int,
        late: LateWork,
    ) -> None:
        self.early: Early = scheme.early(late)
        self.seconds: list[float] = []
        self._whole: list[bool] = []  # for each round so far, whether it gave a whole gradient, by sums alone
        self._most, self._first, self._n_early = most, first, 0
        pool = WorkerPool(
            VirtualEngine(delays, late, seconds_per_task),
            Assignment.first(scheme, *programs),
            fault_policy=FaultPolicy(on_death="leave", on_suspicion="ignore"),
        )
        super().__init__(problem, pool, early=self.early)
        pool.start()

    def answer(self, asked: Order, tried: bool) -> WorkersAnswered:
        """Return what answers an order.

        Raises:
            Unreachable: if the wait rule cannot be met, or the number of gradients is used up.
            EngineError: if no worker is left to answer.
        """
        if len(self.seconds) - self._n_early >= self._most or self._n_early >= _MOST_EARLY * self._most:
            raise Unreachable("The number of gradients of a trial is used up.")
        answered = super().answer(replace(asked, step=self._first + asked.step), tried)
        order, answer, few = answered.order, answered.answer, kind_of(asked.kind).few
        self.seconds.append(answer.waited)
        self._whole.append(not (few or asks_curvature(order) or order.note.get(BY_TASK, False)))
        self._n_early += few
        parts, late_parts = map(self._of_run, answer.parts), map(self._of_run, answer.late_parts)
        return replace(answered, answer=replace(answer, parts=tuple(parts), late_parts=tuple(late_parts)))

    def _of_run(self, part: PartialGradient) -> PartialGradient:
        """Return what a message says, by the step in which the optimizer asked for it."""
        return replace(part, step=part.step - self._first)

    def worth(self, steps: int, seconds_per_step: float) -> float:
        """Return the number of whole steps that the first rounds are equivalent to.

        A round with a whole gradient by sums counts as one step; an early one, one with curvatures, and one by task as
        the share or multiple of a step's time that it takes. So does the first whole one after one of these, where late
        work is carried on: workers are still busy with what the others asked for.

        Arguments:
            steps: number of rounds.
            seconds_per_step: time of a step with a whole gradient; if it is 0 or not finite, each round counts as one.
        """
        if not (math.isfinite(seconds_per_step) and seconds_per_step > 0.0):
            return float(steps)
        usual = self._whole[:steps]
        if self.early == "carry":
            usual = [whole and before for whole, before in zip(usual, [True, *usual], strict=False)]
        pairs = zip(self.seconds[:steps], usual, strict=True)
        return float(sum(1.0 if whole else seconds / seconds_per_step for seconds, whole in pairs))
