"""One step: ask the optimizer, run rounds until one comes to an end, add the penalty, tell the optimizer, record."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from erasurehead._internal.arrays import Array, Tree, finite, squared_norm
from erasurehead.engines.base import BY_TASK, PRECISE, Order
from erasurehead.errors import Diverged
from erasurehead.optimizers.base import Optimizer
from erasurehead.problems.base import EARLY, NEWTON, Problem, split_samples
from erasurehead.training.callbacks import Callback
from erasurehead.training.notices import Notice
from erasurehead.training.orders import OrderBook
from erasurehead.training.round import RoundRunner
from erasurehead.training.round_state import RoundResult
from erasurehead.training.rows import StepRow
from erasurehead.training.signals import uninterrupted
from erasurehead.training.stopping import Stopping
from erasurehead.training.task_counts import Counting, Neglected, sentence
from erasurehead.training.waiting import DIVERGED, PoolShrunk
from erasurehead.training.workers import WorkerPool


class StepRunner:
    """Takes steps, one after the other, each with one or more rounds.

    Arguments:
        problem: what is minimised.
        optimizer: asked for orders, and told the estimates.
        pool: the workers.
        rounds: runs rounds with them.
        stopping: told the norm of each gradient that is exact.
        callbacks: hooks that watch.

    Attributes:
        samples: the range of samples of each task.
        orders: completes the optimizer's orders.
    """

    def __init__(
        self,
        problem: Problem,
        optimizer: Optimizer,
        pool: WorkerPool,
        rounds: RoundRunner,
        stopping: Stopping,
        callbacks: Sequence[Callback] = (),
    ) -> None:
        self.orders = OrderBook(pool, rounds.log, chooses=bool(optimizer.early))
        n_tasks = pool.assignment.code.n_tasks
        self.samples = split_samples(problem.n_samples, n_tasks)
        self._problem = problem
        self._optimizer = optimizer
        self._pool = pool
        self._rounds = rounds
        self._log = rounds.log
        self._stopping = stopping
        self._callbacks = callbacks
        self._counting = Counting(n_tasks)
        self._sizes = [part.stop - part.start for part in self.samples]

    def take(self) -> StepRow:
        """Take one step.

        Returns:
            The step's row, as the callbacks were given it.

        Raises:
            TimeIsUp: if the run's time is over first.
            Unreachable: if the wait rule can no longer be met.
            Diverged: if the estimate, the objective that comes with it, or the model that it leads to is not finite.
        """
        optimizer = self._optimizer
        order, result = self._gather()
        gradient, loss = self._penalised(result, order)
        plain = not (self._problem.stochastic or order.coefficients)
        exact = gradient if plain and result.exact else None
        if loss is not None and not math.isfinite(loss) and not optimizer.trying:  # gradients may be finite there
            raise Diverged(DIVERGED.format(step=order.step, what="objective is"))
        neglected = self._count(order, result)
        with uninterrupted():  # once the model has moved, the step must be recorded
            optimizer.share, optimizer.exact = result.share, result.exact
            optimizer.value = math.inf if result.overflowed else loss
            optimizer.curvature = self._curvature(result)
            optimizer.parts, optimizer.late_parts = result.parts, result.late_parts
            optimizer.waited = result.waited
            optimizer.work_odds = self.orders.work_odds
            optimizer.tell(gradient)
            if not finite(optimizer.x):
                raise Diverged(DIVERGED.format(step=order.step, what="model that it ends with is"))
            origin = self._log.origin or 0.0
            row = result.step_row(
                order,
                self._pool.engine.stamp("end", order.round) - origin,
                origin,
                gradient,
                loss,
                stepped=result.estimate is not None or bool(result.parts or result.late_parts),
                rejected=optimizer.rejected,
                decision={**optimizer.decision, **({BY_TASK: True} if order.note.get(BY_TASK, False) else {})},
                dead=self._pool.dead,
                neglected=neglected,
                notices=self._log.take_notices(),
                events=self._log.take_events(),
                old_work=self._pool.engine.late,
            )
            self._record(order, row, result, exact)
        return row

    def _gather(self) -> tuple[Order, RoundResult]:
        """Ask for an order, and run rounds until one is completed with the workers that are left."""
        asked = self._optimizer.ask()
        while True:
            order = self.orders.next(asked)
            try:
                return order, self._rounds.gather(order, self._optimizer.trying)
            except PoolShrunk:
                self._pool.settle()  # if that changes nothing, the next round raises, or continues without the rule

    def _record(self, order: Order, row: StepRow, result: RoundResult, exact: Array | None) -> None:
        model = self._optimizer.best
        for callback in self._callbacks:
            for arrival in result.rows:
                callback.on_arrival(arrival)
            callback.on_step_end(row, model)
        whole = order.note.get(PRECISE, not self._optimizer.lossy)
        if exact is not None and whole:  # else it may be rounded to 0
            steepest = self._problem.regularizer.steepest(order.points[0], exact)
            if steepest is not None:
                norm = math.sqrt(squared_norm(steepest))
                self._stopping.converged(norm, order.points[0], self._optimizer.confirm)
        arrivals = [*result.late_rows, *result.rows]
        self._rounds.learn(row, arrivals)
        self.orders.learn(order, arrivals)
        self._log.step = self._optimizer.step

    def _penalised(self, result: RoundResult, order: Order) -> tuple[Array | None, float | None]:
        """Split an estimate into gradient and loss, and add the penalty's; with several points there is no loss."""
        estimate = result.estimate
        if estimate is None:
            return None, None
        estimate = self._of_all(estimate, result)
        gradient = estimate[:-1]
        if self._problem.regularizer.smooth:
            for point, factor in zip(order.points, order.coefficients or (1.0,), strict=True):
                penalty = self._problem.penalty_gradient(point)
                if factor != 1.0:
                    penalty *= factor
                penalty += gradient  # in place: another array of a large model would not stay in cache
                gradient = penalty
        if order.coefficients:
            return gradient, None
        return gradient, float(estimate[-1]) + self._problem.penalty(order.points[0])

    def _curvature(self, result: RoundResult) -> tuple[Array, float] | None:
        if result.curvature is None:
            return None
        sums = self._of_all(result.curvature, result)
        return sums[:-1], float(sums[-1])

    def _of_all(self, sums: Array, result: RoundResult) -> Array:
        """Scale sums over the remaining samples up to all samples."""
        if not result.lost:
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
        if order.kind in (EARLY, NEWTON):
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
