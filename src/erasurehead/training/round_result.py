"""The result of one round: the estimate, the arrivals, and the row of the step that it ends."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from erasurehead._internal.arrays import Array, squared_norm
from erasurehead.training.rows import ArrivalRow, StepRow, WorkerEvent

if TYPE_CHECKING:
    from erasurehead.decoding.base import Decoding
    from erasurehead.engines.base import Order
    from erasurehead.optimizers.base import PartialGradient
    from erasurehead.schemes.wait_rules.view import View
    from erasurehead.training.assignment import Assignment
    from erasurehead.training.notices import Notice


@dataclass(frozen=True, eq=False)
class RoundResult:
    """The result of one round.

    Attributes:
        estimate: gradient, then loss, shape (n_parameters + 1,); None if nothing is known.
        curvature: for orders of kind `"curvature"`: the bounds on the curvature along each parameter, then the mean
            number of a sample's entries that are not 0, shape (n_parameters + 1,); None for other orders, or without an
            estimate.
        decoding: the weights that were used.
        view: the arrivals.
        assignment: which worker had which position of the code.
        begin: when the order was submitted, in the engine's seconds.
        waited: seconds from then until the rule said stop.
        rows: one row for each message that arrived and was not refused, and a censored one for each that may still
            come.
        late_rows: one row for each message of an earlier round that arrived in this one.
        used_late: the code's rows of those late messages that the aggregation was given.
        share: the fraction of the optimizer's step size, in (0, 1], that the estimate is worth.
        received: bytes received, in time or late.
        lost: tasks that no living worker holds and that the estimate leaves out, ascending.
        overflowed: whether there is no estimate because vectors were not finite at a point that was only tried.
        parts: what each message says of its own tasks, for orders of kind `"early"`; empty where tasks are lost.
        counted: the tasks that the estimate counts, where the aggregation remembers some of which no message came; None
            if they are those of the messages that were used.
        late_parts: what each message says that answered an earlier order of kind `"early"` late, if its note asked for
            that; empty where tasks are lost.
    """

    estimate: Array | None
    decoding: Decoding
    view: View
    assignment: Assignment
    begin: float
    waited: float
    rows: tuple[ArrivalRow, ...]
    received: int
    lost: tuple[int, ...] = ()
    late_rows: tuple[ArrivalRow, ...] = ()
    used_late: tuple[int, ...] = ()
    share: float = 1.0
    overflowed: bool = False
    curvature: Array | None = None
    parts: tuple[PartialGradient, ...] = ()
    counted: Sequence[int] | None = None
    late_parts: tuple[PartialGradient, ...] = ()

    @property
    def exact(self) -> bool:
        """Whether the estimate is the full gradient at the order's point."""
        faithful = self.assignment.scheme.aggregation.faithful
        return faithful and self.estimate is not None and self.decoding.exact and not self.lost and not self.used_late

    @property
    def coverage(self) -> float:
        """Fraction of the full gradient that is counted; with late work, fraction of the tasks that are counted."""
        if self.counted is not None:
            return len(self.counted) / self.assignment.code.n_tasks
        kept = 1.0 - len(self.lost) / self.assignment.code.n_tasks
        if self.used_late:
            code = self.assignment.code
            tasks = [code.tasks_of_message(message) for message in {*self.used_late, *self.decoding.used.tolist()}]
            return len(np.unique(np.concatenate(tasks))) / code.n_tasks
        return kept * self.decoding.coverage if len(self.decoding.messages) else 0.0

    def step_row(
        self,
        order: Order,
        end: float,
        origin: float = 0.0,
        gradient: Array | None = None,
        loss: float | None = None,
        *,
        dead: Iterable[int] = (),
        neglected: Iterable[int] = (),
        notices: Iterable[Notice] = (),
        events: Iterable[WorkerEvent] = (),
        decision: Mapping[str, Any] = MappingProxyType({}),
        stepped: bool | None = None,
        rejected: bool = False,
        old_work: str = "",
    ) -> StepRow:
        """Return the row of the step of which this was the last round.

        Arguments:
            order: the order of the round.
            end: when the model had moved, in seconds since training began.
            origin: when training began, in the engine's seconds.
            gradient: the estimated gradient with the penalty; None if no step was taken.
            loss: the estimated loss with the penalty.
            dead, neglected, notices, events, decision, rejected, old_work: as the row's attributes.
            stepped: likewise; None to take whether there is a gradient.
        """
        decoding = self.decoding
        return StepRow(
            step=order.step,
            round=order.round,
            kind=order.kind,
            begin=self.begin - origin,
            waited=self.waited,
            end=end,
            arrived=self.view.finished,
            used=decoding.used.tolist(),
            missing=sorted({row.worker for row in self.rows if row.censored}),
            dead=sorted(dead),
            residual=decoding.residual + len(self.lost),
            coverage=self.coverage,
            stepped=gradient is not None if stepped is None else stepped,
            rejected=rejected,
            loss=loss,
            gradient_norm=None if gradient is None else math.sqrt(squared_norm(gradient)),
            received=self.received,
            workers=self.assignment.code.n_workers,
            lost=list(self.lost),
            late=len(self.late_rows),
            neglected=list(neglected),
            notices=list(notices),
            events=list(events),
            decision=dict(decision),
            old_work=old_work,
        )
