"""The state of the current round: what has arrived, what may still come, and the rows that record it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.errors import numbered
from erasurehead.training.rows import ArrivalRow

if TYPE_CHECKING:
    from erasurehead.engines.base import Arrived, Order
    from erasurehead.schemes.wait_rules.base import WaitRule
    from erasurehead.schemes.wait_rules.view import View
    from erasurehead.training.assignment import Assignment


@dataclass(eq=False)
class Round:
    """The current round. Messages are numbered by the rows of its assignment's code.

    Attributes:
        order: the order that was submitted.
        assignment: the workers that it was submitted to.
        view: what the wait rule sees of it.
        rule: the wait rule.
        begin: when the order was submitted, in the engine's seconds.
        arrivals: messages that have arrived, in the order of their arrival, including those in doubt.
        places: for each arrived message, how many messages of any round had arrived before it.
        late_rows: the rows of messages of earlier rounds that have arrived.
        late_bytes: bytes of those messages.
        came: how many messages of any round have arrived.
        refused: messages that count as erasures in this round, each with the reason.
        failed: workers that reported that they cannot answer this round, each with the reason.
        lost: tasks that no living worker holds and that are left out, ascending.
        held: whether messages contradict each other, and one that may still come can decide which is right.
        unruled: whether the rule cannot be met, and the round waits for all that can still come instead.
        erased: whether the rule cannot be met because of erasures, and the round waits instead for all that can still
            come, which decodes exactly without them.
    """

    order: Order
    assignment: Assignment
    view: View
    rule: WaitRule
    begin: float
    arrivals: dict[int, Arrived] = field(default_factory=dict[int, "Arrived"])
    places: dict[int, int] = field(default_factory=dict[int, int])
    late_rows: list[ArrivalRow] = field(default_factory=list[ArrivalRow])
    late_bytes: int = 0
    came: int = 0
    refused: dict[int, str] = field(default_factory=dict[int, str])
    failed: dict[int, str] = field(default_factory=dict[int, str])
    lost: tuple[int, ...] = ()
    held: bool = False
    unruled: bool = False
    erased: bool = False

    def read(self, message: int) -> Array:
        """Return the vector of a message that has arrived."""
        return self.arrivals[message].read()

    @property
    def outstanding(self) -> list[int]:
        """Messages that may still come, ascending. Those in doubt have arrived already."""
        pending: list[int] = self.view.pending.tolist()
        return [message for message in pending if message not in self.arrivals]

    @property
    def missing(self) -> list[int]:
        """Workers from which a message may still come, ascending."""
        return sorted({self.assignment.workers_of_rows[message] for message in self.outstanding})

    def regain(self, worker: int) -> None:
        """Record that a worker, or its replacement, has joined: it answers again."""
        self.view.regain(self.assignment.positions[worker])
        self.failed.pop(worker, None)
        self.refused = {message: why for message, why in self.refused.items() if message in self.view.refused}

    def out_of_reach(self) -> list[int]:
        """Return the tasks that no message contains, be it one that arrived or one that may still, ascending."""
        code = self.assignment.code
        present = np.zeros(code.n_tasks, dtype=bool)
        for message in [*self.view.arrived, *self.view.pending.tolist()]:
            present[code.tasks_of_message(message)] = True
        found: list[int] = np.flatnonzero(~present).tolist()
        return found

    def why_never(self, dead: Mapping[int, str]) -> str:
        """Return why the rule can no longer be met, as sentences.

        Arguments:
            dead: workers that have died and are not replaced, each with the reason.
        """
        view, assignment = self.view, self.assignment
        code, worker_ids = assignment.code, assignment.worker_ids
        silent = {position for position in range(code.n_workers) if position not in view.able}
        gone = sorted(
            worker_ids[position] for position in silent | {int(code.owner[message]) for message in self.refused}
        )
        lost = self.out_of_reach()
        left, refused = len(view.able), len(self.refused)
        if not gone:
            return (
                f"step {view.step}: the wait rule {self.rule} cannot be met any more: all messages of {code!r} are in, "
                f"and leave a residual of {view.session.residual():.3g} tasks. A code that float64 decodes, such as "
                "reed_solomon or fractional_repetition, or a rule that asks for less, such as first(r), would do."
            )
        what = "too few workers are left"
        if lost:
            what = f"{numbered('task', lost)} {_be(len(lost))} lost with {'it' if len(gone) == 1 else 'them'}"
        reasons = [f"worker {worker} {reason}" for worker, reason in dead.items()]
        reasons += [f"worker {worker} failed: {reason}" for worker, reason in self.failed.items()]
        reasons += [f"message {message} is refused: {reason}" for message, reason in self.refused.items()]
        return (
            f"step {view.step}: the wait rule {self.rule} cannot be met any more: {numbered('worker', gone)} will "
            f"not answer, and {what}; {left} of {code.n_workers} workers {_be(left)} left"
            + (f" ({'; '.join(reasons[:3])})" if reasons else "")
            + ". A larger load, or a rule that waits for fewer workers, tolerates more deaths."
            + (
                f" {refused} message{'s were' if refused > 1 else ' was'} refused: see the notices; if not finite, "
                "the step size may be too large."
                if refused
                else ""
            )
        )

    def rows(self, used: set[int]) -> tuple[ArrivalRow, ...]:
        """Return a row for each message that has arrived, and a censored one for each that may still come.

        Arguments:
            used: messages that were given a weight.
        """
        units = self.assignment.units
        rows = [
            ArrivalRow.of(
                arrived,
                message,
                units[message],
                self.begin,
                taken=self.order.round,
                place=self.places[message],
                used=message in used,
                rank=rank,
            )
            for rank, (message, arrived) in enumerate(self.arrivals.items())
        ]
        rows += [
            ArrivalRow(
                step=self.order.step,
                round=self.order.round,
                worker=self.assignment.workers_of_rows[message],
                message=message,
                unit=units[message],
                work=self.assignment.works[message],
                started=None,
                seconds=self.view.elapsed,
                censored=True,
            )
            for message in self.outstanding
        ]
        return tuple(rows)


def _be(count: int) -> str:
    return "is" if count == 1 else "are"
