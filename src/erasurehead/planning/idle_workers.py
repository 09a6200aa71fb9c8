"""Workers on the virtual clock that take their time, but compute nothing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.codes.base import GradientCode
from erasurehead.decoding.base import Decoding
from erasurehead.decoding.layout import Layout
from erasurehead.delays.base import Delays
from erasurehead.engines.base import BY_TASK, LateWork, MessageSpec, Order, Program
from erasurehead.engines.virtual import VirtualEngine
from erasurehead.faults.policy import FaultPolicy
from erasurehead.schemes.aggregation import Aggregation
from erasurehead.schemes.named import Scheme
from erasurehead.training.orders import OrderBook
from erasurehead.training.programs import as_asked, with_curvature
from erasurehead.training.round import RoundRunner
from erasurehead.training.round_state import RoundResult
from erasurehead.training.workers import Assignment, WorkerPool


@dataclass(frozen=True, eq=False)
class _Idle(Program):
    """A worker's program that takes time, but computes nothing.

    Arguments:
        sums: its messages.
        tasks: those that answer orders by task; none if these are answered like others.
    """

    sums: tuple[MessageSpec, ...]
    tasks: tuple[MessageSpec, ...] = ()

    @property
    def message_specs(self) -> Sequence[MessageSpec]:
        return [with_curvature(one) for one in (*self.sums, *self.tasks)]  # the longest ones

    def sent(self, by_task: bool) -> Sequence[MessageSpec]:
        return self.tasks if by_task and self.tasks else self.sums

    @property
    def input_size(self) -> int:
        return 1

    def remaining(self, order: Order, done: Sequence[MessageSpec]) -> Sequence[MessageSpec]:
        return [as_asked(one, order) for one in self.sent(bool(order.note.get(BY_TASK, False)))[len(done) :]]

    def take(self, order: Order) -> Any:
        return None

    def compute(self, spec: MessageSpec, taken: Any, out: Array) -> None:
        out[:] = 0.0


class Nothing(Aggregation):
    """An aggregation that makes nothing of what arrives."""

    def estimate(self, decoding: Decoding, vectors: Sequence[Array], layout: Layout, order: Order) -> Array | None:
        return None


class IdleWorkers:
    """Answers orders on the virtual clock as the training loop has them answered, without any gradient.

    Arguments:
        scheme: the code, and the wait rules.
        delays: how slow the workers are.
        late: what a worker does with old work when the next order is given.
        seconds_per_task: computing time of a task.
        seed: seed that breaks ties between messages that arrive at the same moment.
        chooses: whether workers are asked for a message per task where that pays, as in training.

    Attributes:
        work_odds: as for `Optimizer`, before the last order.
    """

    def __init__(
        self,
        scheme: Scheme,
        delays: Delays,
        late: LateWork,
        seconds_per_task: float = 0.0,
        seed: int = 0,
        chooses: bool = False,
    ) -> None:
        code, by_task = scheme.code, scheme.by_task.code if chooses and scheme.by_task is not None else None
        self._engine = VirtualEngine(delays, late, seconds_per_task, seed=seed)
        programs = [
            _Idle(_parts(code, worker), () if by_task is None else _parts(by_task, worker, code.n_messages))
            for worker in range(code.n_workers)
        ]
        other = None if by_task is None else Layout(1, [None] * by_task.n_messages)
        assignment = Assignment.first(scheme, programs, Layout(1, [None] * code.n_messages), other)
        self._learns = any(rule.remembers for rule in scheme.rules.values())
        self._pool = WorkerPool(self._engine, assignment, fault_policy=FaultPolicy(death="leave", suspected="ignore"))
        self._rounds = RoundRunner(self._pool, samples=[1.0] * code.n_tasks)
        self._orders = OrderBook(self._pool, self._rounds.log, chooses)
        self.work_odds = math.inf
        self._pool.start()

    @property
    def by_task(self) -> bool:
        """Whether workers are asked for a message per task."""
        return self._pool.assignment.by_task

    def answer(self, order: Order) -> RoundResult:
        """Return the result of an order.

        Raises:
            Unreachable, EngineError: if the wait rule cannot be met, or no worker is left to answer.
        """
        order = self._orders.next(order)
        result = self._rounds.gather(order)
        arrivals = [*result.late_rows, *result.rows]
        if self._learns:
            self._rounds.learn(result.step_row(order, end=self._engine.now()), arrivals)
        self.work_odds = self._orders.work_odds
        self._orders.learn(order, arrivals)
        return result


def _parts(code: GradientCode, worker: int, before: int = 0) -> tuple[MessageSpec, ...]:
    groups = np.arange(code.n_messages) if code.groups is None else code.groups
    return tuple(
        MessageSpec(
            before + message, float(len(code.tasks_of_message(message))), 1, content=before + int(groups[message])
        )
        for message in code.messages_of(worker).tolist()
    )
