"""Orders on their way to the workers: numbered, dated, and for sums or for a message per task."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, final

from erasurehead._internal.arrays import Tree
from erasurehead.engines.base import BY_TASK, Order
from erasurehead.training.message_choice import MessageChoice
from erasurehead.training.rows import ArrivalRow
from erasurehead.training.step_log import StepLog
from erasurehead.training.workers import WorkerPool


@final
class Orders:
    """Completes what an optimizer asks for, round by round, and learns from the answers which messages to ask for.

    Arguments:
        pool: the workers.
        log: it knows when training began, from when orders are dated.
        chooses: whether workers are asked for a message per task where that pays, if they can send one.

    Attributes:
        round: the number of the next round.
    """

    def __init__(self, pool: WorkerPool, log: StepLog, chooses: bool) -> None:
        self.round = 0
        self._pool, self._log = pool, log
        scheme, splits = pool.assignment.scheme, pool.assignment.other is not None
        self._choice = MessageChoice(scheme.code.load, pool.engine.late, splits) if chooses else None

    def next(self, asked: Order) -> Order:
        """Return an order as it is submitted in the next round.

        Arguments:
            asked: what the optimizer asks for.
        """
        assignment, number = self._pool.assignment, self.round
        self.round += 1
        return replace(
            asked,
            note={**asked.note, BY_TASK: True} if assignment.by_task else asked.note,
            round=number,
            generation=assignment.generation,
            posted=self._pool.engine.now() - (self._log.origin or 0.0),
        )

    @property
    def work_odds(self) -> float:
        """How much likelier it is that times grow with the work than that they do not: see `MessageChoice`."""
        return math.inf if self._choice is None else self._choice.work_odds

    def learn(self, order: Order, arrivals: Sequence[ArrivalRow]) -> None:
        """Learn from a finished round how long messages take, and choose those of the next one.

        Arguments:
            order: the order of that round.
            arrivals: its rows, and before them those that came late in it.
        """
        if self._choice is not None:
            self._choice.learn(order, arrivals)
            self._pool.ask_by_task(self._choice.by_task)

    def state(self) -> dict[str, Tree]:
        """Return everything that `restore` needs."""
        return {"round": self.round, "choice": None if self._choice is None else self._choice.state()}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from what `state` returned; other entries are ignored."""
        self.round = int(state["round"])
        if self._choice is not None:
            self._choice.restore(state["choice"])
