"""Orders answered by the workers of an engine, in rounds, and the steps recorded that are made of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from erasurehead._internal.arrays import Array, Tree, squared_norm
from erasurehead._internal.partition import split_samples
from erasurehead.decoding._layout import Layout
from erasurehead.engines import Order
from erasurehead.engines._base import BY_TASK, PRECISE
from erasurehead.optimizers import Optimizer
from erasurehead.optimizers._base import Early
from erasurehead.optimizers._order_kinds import kind_of
from erasurehead.problems import Problem
from erasurehead.schemes import Scheme
from erasurehead.training._callbacks import Callback
from erasurehead.training._notices import Notice
from erasurehead.training._orders import OrderBook
from erasurehead.training._programs import CodedProgram, Shards, build_programs, with_tasks
from erasurehead.training._round import RoundRunner
from erasurehead.training._round_state import RoundResult
from erasurehead.training._rows import StepRow
from erasurehead.training._stepper import Answered, Oracle, answer_of
from erasurehead.training._stopping import Stopping
from erasurehead.training._task_counts import Counting, Neglected, sentence
from erasurehead.training._waiting import PoolShrunk
from erasurehead.training._workers import WorkerPool


@dataclass(frozen=True, eq=False)
class WorkersAnswered(Answered):
    """An order with its answer, and the round that it came of."""

    result: RoundResult


class WorkerOracle(Oracle[WorkersAnswered, StepRow]):
    """Answers each order by one or more rounds with the workers of a pool, and makes the row of each step.

    Arguments:
        problem: what is minimised.
        pool: the workers.
        stopping: told the norm of each gradient that is exact; None if nobody asks for it.
        callbacks: hooks that watch.
        early: as the optimizer was told; where it may ask for few arrivals, messages per task may be chosen.
        lossy: likewise: gradients that lost digits on their way do not tell that a run has converged.

    Attributes:
        samples: the range of samples of each task.
        rounds: runs rounds with the workers.
        orders: completes the optimizer's orders.
    """

    def __init__(
        self,
        problem: Problem,
        pool: WorkerPool,
        stopping: Stopping | None = None,
        callbacks: Sequence[Callback] = (),
        early: Early = "",
        lossy: bool = False,
    ) -> None:
        n_tasks = pool.assignment.code.n_tasks
        self.samples = split_samples(problem.n_samples, n_tasks)
        self.rounds = RoundRunner(pool, callbacks, [problem.weight(samples) for samples in self.samples])
        self.orders = OrderBook(pool, self.rounds.log, chooses=bool(early))
        self._problem = problem
        self._pool = pool
        self._log = self.rounds.log
        self._stopping = stopping
        self._callbacks = callbacks
        self._lossy = lossy
        self._counting = Counting(n_tasks)
        self._sizes = [part.stop - part.start for part in self.samples]

    def answer(self, asked: Order, tried: bool) -> WorkersAnswered:
        """Run rounds until one is completed with the workers that are left, and return its answer.

        Raises:
            TimeIsUp: if the run's time is over first.
            Unreachable: if the wait rule can no longer be met.
            Diverged: if the estimate is not finite, and the point is not only tried.
        """
        while True:
            order = self.orders.next(asked)
            try:
                result = self.rounds.gather(order, tried)
                break
            except PoolShrunk:
                self._pool.settle()  # if that changes nothing, the next round raises, or continues without the rule
        answer = answer_of(
            self._problem,
            order,
            self._of_all(result.estimate, result),
            self._of_all(result.curvature, result),
            exact=result.exact,
            overflowed=result.overflowed,
            share=result.share,
            parts=result.parts,
            late_parts=result.late_parts,
            waited=result.waited,
            work_odds=self.orders.work_odds,
        )
        return WorkersAnswered(order, answer, result)

    def record(self, answered: WorkersAnswered, optimizer: Optimizer) -> StepRow:
        """Return the row of a step, after the callbacks were given it, and all who learn from it have learnt."""
        order, answer, result = answered.order, answered.answer, answered.result
        neglected = self._count(order, result)
        origin = self._log.origin or 0.0
        row = result.step_row(
            order,
            self._pool.engine.stamp("end", order.round) - origin,
            origin,
            answer.estimate,
            None if result.overflowed else answer.value,
            stepped=result.estimate is not None or bool(result.parts or result.late_parts),
            rejected=optimizer.rejected,
            decision={**optimizer.decision, **({BY_TASK: True} if order.note.get(BY_TASK, False) else {})},
            dead=self._pool.dead,
            neglected=neglected,
            notices=self._log.take_notices(),
            events=self._log.take_events(),
            old_work=self._pool.engine.late,
        )
        model = optimizer.best
        for callback in self._callbacks:
            for arrival in result.rows:
                callback.on_arrival(arrival)
            callback.on_step_end(row, model)
        if self._stopping is not None:
            self._look_whether_converged(self._stopping, answered, optimizer)
        arrivals = [*result.late_rows, *result.rows]
        self.rounds.learn(row, arrivals)
        self.orders.learn(order, arrivals)
        self._log.go_on(optimizer.step)
        return row

    def _look_whether_converged(self, stopping: Stopping, answered: WorkersAnswered, optimizer: Optimizer) -> None:
        order, answer = answered.order, answered.answer
        rounded = self._lossy and not order.note.get(PRECISE, False)  # perhaps to 0
        if answer.estimate is None or not answer.exact or self._problem.stochastic or order.coefficients or rounded:
            return
        steepest = self._problem.regularizer.steepest(order.points[0], answer.estimate)
        if steepest is not None:
            stopping.converged(math.sqrt(squared_norm(steepest)), order.points[0], optimizer.confirm)

    def _of_all(self, sums: Array | None, result: RoundResult) -> Array | None:
        """Scale sums over the remaining samples up to all samples."""
        if sums is None or not result.lost:
            return sums
        lost = sum(self._problem.weight(self.samples[task]) for task in result.lost)
        return sums * (self._problem.n_samples / (self._problem.n_samples - lost))

    # --- tasks that are hardly ever counted -----------------------------------------------------------------------

    @property
    def neglected(self) -> tuple[Neglected, ...]:
        """The tasks that are hardly ever counted, so far."""
        return self._counting.neglected()

    def notice_neglected(self) -> None:
        """Record which tasks were hardly ever counted, now that training is over."""
        if found := self.neglected:
            self._notice_neglected("at the end of training ", found)

    def _count(self, order: Order, result: RoundResult) -> list[int]:
        """Count a step's tasks; return those that are newly found to be neglected."""
        if kind_of(order.kind).few:
            return []  # few are meant to be counted
        self._counting.add(result.decoding, result.lost, result.used_late, result.counted)
        if neglected := self._counting.found():
            self._notice_neglected("", self._counting.neglected(neglected))
        return neglected

    def _notice_neglected(self, when: str, found: Sequence[Neglected]) -> None:
        tasks = [one.task for one in found]
        self._log.notice(Notice("tasks_neglected", data={"tasks": tasks}, text=when + sentence(found, self._sizes)))

    # --- state ----------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Tree]:
        """Return everything that `restore` needs."""
        return {**self.orders.state(), "counting": self._counting.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        self.orders.restore(state)
        self._counting.restore(state["counting"])


Programs: TypeAlias = tuple[list[CodedProgram], Layout, Layout | None]
"""The programs of a scheme's workers, the layout of their messages, and that of messages per task, if there are any."""


def laid_out(scheme: Scheme, problem: Problem, optimizer: Optimizer, shards: Shards, by_task: bool) -> Programs:
    """Return the programs of a scheme's workers, as they can answer an optimizer's orders, and where elements belong.

    Arguments:
        scheme: the scheme.
        problem: what is minimised.
        optimizer: it says how many points its orders have, and of which kinds they are.
        shards: shards that exist already; new ones are added.
        by_task: whether workers may be asked for a message per task, where the scheme and the orders allow it.
    """
    curvature = problem.curved and any(kind_of(kind).curvatures for kind in optimizer.kinds)
    programs, layout = build_programs(scheme.code, problem, optimizer.max_points, shards, curvature)
    if scheme.by_task is None or not (by_task and curvature):
        return programs, layout, None
    programs, other = with_tasks(programs, layout, scheme.code, scheme.by_task.code)
    return programs, layout, other
