"""Orders answered by the workers of an engine, in rounds, and the steps recorded that are made of them.

`SteppedRun` is a run that is driven from outside, a step at a time; `train` is one who drives it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeAlias

from erasurehead._internal.arrays import Array, Tree, squared_norm
from erasurehead._internal.partition import split_samples
from erasurehead._internal.resumable import check_declared, from_plain, undeclared
from erasurehead.decoding._layout import Layout
from erasurehead.engines import Engine, Order
from erasurehead.engines._base import PRECISE
from erasurehead.errors import invalid
from erasurehead.faults import FaultPolicy
from erasurehead.optimizers import Optimizer
from erasurehead.optimizers._base import Early
from erasurehead.optimizers._curvature_block import most_numbers
from erasurehead.optimizers._order_kinds import kind_of, work_of
from erasurehead.problems import Problem, ShardedProblem
from erasurehead.problems._linear import LinearProblem
from erasurehead.schemes import Scheme
from erasurehead.training._assignment import Assignment
from erasurehead.training._callbacks import Callback
from erasurehead.training._dialogue import gathered
from erasurehead.training._orders import OrderBook, decided
from erasurehead.training._programs import CodedProgram, Shards, build_programs, with_tasks
from erasurehead.training._round import RoundRunner
from erasurehead.training._round_state import RoundResult
from erasurehead.training._rows import Notice, StepRow
from erasurehead.training._stepper import Answered, Oracle, Stepper, answer_of
from erasurehead.training._stopping import Stopping
from erasurehead.training._sums import reporting
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
        self.orders = OrderBook(pool, self.rounds.log, chooses=bool(early), turns=pool.assignment.scheme.turns)
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
            try:
                order, result = gathered(self.rounds, self._pool, partial(self.orders.next, asked), tried)
                break
            except PoolShrunk:
                self._pool.settle()  # if that changes nothing, the next round raises, or continues without the rule
        answer = answer_of(
            self._problem,
            order,
            self._of_all(result.estimate, result),
            self._of_all(result.curvature, result),
            self._of_all(result.block, result),
            exact=result.exact,
            overflowed=result.overflowed,
        )
        answer = replace(
            answer,
            share=result.share,
            parts=result.parts,
            late_parts=result.late_parts,
            waited=result.waited,
            work_odds=self.orders.work_odds,
            pace=result.worked / work_of(order),
            took=result.took,
        )
        return WorkersAnswered(order, answer, result)

    def record(self, answered: WorkersAnswered, optimizer: Optimizer) -> StepRow:
        """Return the row of a step, after the callbacks were given it, and all who learn from it have learnt."""
        order, answer, result = answered.order, answered.answer, answered.result
        neglected = self._count(order, result)
        origin, slope = self._log.origin or 0.0, answer.estimate
        row = replace(
            result.step_row(order, self._pool.engine.stamp("end", order.round) - origin, origin),
            loss=None if result.overflowed else answer.value,
            gradient_norm=None if slope is None else math.sqrt(squared_norm(slope)),
            rejected=optimizer.rejected,
            decision={**optimizer.decision, **decided(order)},
            dead=sorted(self._pool.dead),
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
        reports = result.reports or result
        self.orders.learn(order, [*reports.late_rows, *reports.rows])
        self._pool.learn(arrivals)
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
        if neglected := self.neglected:
            self._notice_neglected("at the end of training ", neglected)

    def _count(self, order: Order, result: RoundResult) -> list[int]:
        """Count a step's tasks; return those that are newly found to be neglected."""
        if kind_of(order.kind).few:
            return []  # few are meant to be counted
        self._counting.add(result.decoding, result.lost, result.used_late, result.counted)
        if neglected := self._counting.found():
            self._notice_neglected("", self._counting.neglected(neglected))
        return neglected

    def _notice_neglected(self, when: str, neglected: Sequence[Neglected]) -> None:
        tasks = [one.task for one in neglected]
        self._log.notice(Notice("tasks_neglected", data={"tasks": tasks}, text=when + sentence(neglected, self._sizes)))

    # --- state ----------------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Tree]:
        """Return everything that `restore` needs."""
        return {**self.orders.state(), "counting": self._counting.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state` returned."""
        self.orders.restore(state)
        self._counting.restore(state["counting"])


_PIECES = 6  # of a task, each of which is sent by itself where that pays, and can be computed by another worker
_MOST_MESSAGES = 18  # of a worker then
_MOST_NUMBERS = 2**25  # of all these: 256 MiB


Programs: TypeAlias = tuple[list[CodedProgram], Layout, Layout | None]
"""The programs of a scheme's workers, the layout of their messages, and that of messages per task, if there are any."""


def in_pieces(scheme: Scheme, problem: Problem, form: Callable[[Scheme], Programs]) -> tuple[Scheme, Programs]:
    """Return a scheme whose steps may stop early, with its tasks cut into as many pieces as the data allow.

    Arguments:
        scheme: the scheme; it is returned as it is if it is as well without pieces, or their messages are too many.
        problem: what is minimised.
        form: returns the programs of a scheme.

    Returns:
        The scheme, and its programs.
    """
    if scheme.finer is not None and scheme.by_task is not None and isinstance(problem, LinearProblem | ShardedProblem):
        pieces = min(_PIECES, _MOST_MESSAGES // scheme.code.load, problem.n_samples // scheme.code.n_tasks)
        if pieces > 1:
            formed = form(finer := scheme.finer(pieces))
            messages = [spec.length for program in formed[0] for spec in program.sent(by_task=True)]
            if sum(messages) <= _MOST_NUMBERS:
                return finer, formed
    return scheme, form(scheme)


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
    numbers = most_numbers(problem) if curvature else 0
    if curvature and problem.newton and by_task:
        numbers += 2 * (problem.n_parameters + 1)  # for a model and the gradient there
    programs, layout = build_programs(scheme.code, problem, optimizer.max_points, shards, curvature, numbers)
    if scheme.sums:
        return [*reporting(programs, layout)], layout, None
    if scheme.by_task is None or not (by_task and curvature):
        return programs, layout, None
    programs, other = with_tasks(programs, layout, scheme.code, scheme.by_task.code)
    return programs, layout, other


class SteppedRun:
    """A run that whoever holds it takes a step at a time: workers, optimizer, rounds and callbacks, but no end.

    While the engine is open: `start`, then `step` as often as wanted, then `end`. `train` does so until something tells
    it to stop; `state` and `restore` go on bit for bit between any two steps.

    Arguments:
        problem, scheme, optimizer, engine, fault_policy, callbacks: as for `train`, as objects. The caller closes the
            engine.
        stopping: looks whether the run has reached what it is for; None if nobody asks.

    Attributes:
        pool: the workers.
        oracle: answers the optimizer's orders.
        start_seconds: what it took to start workers, in all parts of the run.
        elapsed: seconds of training in earlier parts of the run.
    """

    def __init__(
        self,
        problem: Problem,
        scheme: Scheme,
        optimizer: Optimizer,
        engine: Engine,
        fault_policy: FaultPolicy | None = None,
        callbacks: Sequence[Callback] = (),
        stopping: Stopping | None = None,
    ) -> None:
        policy = fault_policy or FaultPolicy()
        if scheme.sums and policy.verify:
            hint = "leave out sums=True"
            raise invalid("verify", "must be off where each sum comes from one worker alone", True, hint)
        early, lossy = scheme.early(engine.late, policy.verify), engine.message_rounding > 0.0
        optimizer.begin(problem, early=early, lossy=lossy)
        self._problem, self._optimizer, self._engine = problem, optimizer, engine
        self._callbacks, self._stopping = callbacks, stopping
        self._shards: Shards = {}
        self._by_task = bool(early) and not policy.verify
        scheme, formed = in_pieces(scheme, problem, self._form) if self._by_task else (scheme, self._form(scheme))
        self.pool = WorkerPool(engine, Assignment.first(scheme, *formed), self._form, policy)
        self.oracle = WorkerOracle(problem, self.pool, stopping, callbacks, early=early, lossy=lossy)
        self._rounds, self._log = self.oracle.rounds, self.oracle.rounds.log
        self._stepper = Stepper(optimizer, self.oracle)
        self.start_seconds, self.elapsed, self._origin = 0.0, 0.0, 0.0
        self._dead: Sequence[int] | None = None  # workers that were dead when an earlier part ended, if there is one
        self._running = False  # the workers are those of the earlier part, and the clock continues
        self._between = True  # steps, when the engine's state can be taken
        scheme = self.pool.assignment.scheme
        learning = [optimizer, scheme.aggregation, *scheme.rules.values()]
        self._undeclared = [(part, undeclared(part)) for part in learning]

    def _form(self, scheme: Scheme) -> Programs:
        programs = laid_out(scheme, self._problem, self._optimizer, self._shards, self._by_task)
        used = {id(shard) for program in programs[0] for shard in program.shards}
        for tasks in [tasks for tasks, shard in self._shards.items() if id(shard) not in used]:
            del self._shards[tasks]  # shards of earlier codes are held by workers that keep them, and by nobody else
        return programs

    def start(self, over: bool = False) -> None:
        """Start the workers, and set the clock to zero, or to where an earlier part of the run ended.

        Arguments:
            over: whether no step will follow: a run that has ended needs no workers.
        """
        engine, log = self._engine, self._log
        apart = not (engine.virtual or engine.inside)  # there it takes no time, or ours
        if not (self._running or over):
            for callback in self._callbacks if apart else ():
                callback.on_starting(len(self.pool.assignment.worker_ids))
            self.start_seconds += self.pool.start()
        for callback in self._callbacks:
            callback.on_start(self.start_seconds)
        if self._stopping is not None and apart and not over:
            self._stopping.open(self.pool.living.values(), self._not_beside)
        if not self._running:
            self._origin = engine.now() - self.elapsed
        if self._stopping is not None:
            self._rounds.break_off_at(self._origin + self._stopping.max_seconds)
        log.begin(self._origin, self._optimizer.step)
        if self._dead is None:
            log.start(self.pool)
        elif not self._running:
            log.come_back(self._dead, self.pool, self.oracle.orders.round)

    def _not_beside(self, why: str) -> None:
        text = f"the target is measured between steps from now on, as there is no process beside training for it: {why}"
        self._log.notice(Notice("measured_between", data={"reason": why}, text=text))

    def step(self, workers: int | None = None) -> StepRow:
        """Take one step, and return its row.

        Arguments:
            workers: how many there are to be from now on; None to leave it as it is.

        Raises:
            TimeIsUp: if the run's time is over first.
            Unreachable: if the wait rule can no longer be met.
            Diverged: if the estimate, the objective or the model is not finite.
        """
        self.pool.settle(workers)
        self._between = False
        row = self._stepper.step()
        self._between = True
        return row

    def end(self) -> None:
        """Report what is known only after the last step."""
        self._rounds.end()
        self.oracle.notice_neglected()

    def state(self) -> dict[str, Tree]:
        """Return everything that `restore` needs; that of the engine only between two steps."""
        for part, before in self._undeclared:
            check_declared(part, before)
        scheme = self.pool.assignment.scheme
        return {
            "step": self._optimizer.step,
            **self.oracle.state(),
            "elapsed": self._engine.now() - self._origin,
            "origin": self._origin,
            "start_seconds": self.start_seconds,
            "optimizer": self._optimizer.state(),
            "aggregation": scheme.aggregation.state(),
            "rules": {kind: rule.state() for kind, rule in scheme.rules.items()},
            "pool": self.pool.state(),
            "rounds": self._rounds.state(),
            "engine": self._engine.state() if self._between else None,
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue, from the next `start` on, from what `state` returned."""
        self.elapsed = float(state["elapsed"])
        self._running = state["engine"] is not None and self._engine.state() is not None
        self._dead = from_plain(state["pool"]["dead"])
        self._optimizer.restore(state["optimizer"])
        self.pool.restore(state["pool"], self._running)
        assignment = self.pool.assignment
        assignment.scheme.aggregation.restore(state["aggregation"])
        for kind, rule in assignment.scheme.rules.items():
            rule.restore(state["rules"][kind])
        if self._running:
            self._rounds.restore(state["rounds"])
            self._engine.restore(state["engine"], dict(zip(assignment.worker_ids, assignment.programs, strict=True)))
        self.start_seconds, self._origin = float(state["start_seconds"]), float(state["origin"])
        self.oracle.restore(state)
