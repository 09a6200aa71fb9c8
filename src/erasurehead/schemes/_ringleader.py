"""Ringleader: asynchronous training on unequal data, with a table of gradients from every worker at each step."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.resumable import Resumable
from erasurehead.decoding import Decoder
from erasurehead.decoding._base import Decoding
from erasurehead.decoding._layout import Layout
from erasurehead.engines import Order
from erasurehead.schemes._aggregation import Aggregation, LateMessage, arrived_vectors
from erasurehead.schemes._asynchronous import GREATEST_AGE
from erasurehead.schemes._recorded import RecordedArrival, RecordedStep
from erasurehead.schemes.wait_rules._base import Verdict, WrittenRule
from erasurehead.schemes.wait_rules._view import View


@final
class Phases(Resumable):
    """Who is in the table of gradients, and who has not been served yet; the same for whoever reads the same records.

    First, gradients are collected until there is one of every worker. Then a step is taken, and one for each worker
    that answers for the first time since; what others send is for the next table.

    Attributes:
        heard, following: messages that the table holds, and the next one.
        unserved: those for whose next arrival a step is taken; empty while the table is filled.
    """

    checkpointed = ("heard", "following", "unserved")

    def __init__(self) -> None:
        self.heard: set[int] = set()
        self.following: set[int] = set()
        self.unserved: set[int] = set()

    def enters(self, message: int) -> bool:
        """Return whether a message goes into the table, and not into the next one."""
        return not self.unserved or message in self.unserved

    def suffice(self, came: Collection[int], everybody: Collection[int]) -> bool:
        """Return whether a step can be taken when some messages have come in its round."""
        return not self.unserved.isdisjoint(came) if self.unserved else self.heard.union(came).issuperset(everybody)

    def learn(self, arrivals: Iterable[RecordedArrival]) -> bool:
        """Go on to the next step; return whether the next table has become the table.

        Arguments:
            arrivals: all messages of the step.
        """
        came = sorted((row.place, row.message) for row in arrivals if row.place is not None and not row.refused)
        order = [message for _, message in came]
        if self.unserved:
            for message in order:
                (self.heard if self.enters(message) else self.following).add(message)
            self.unserved.difference_update(order)
        else:
            self.heard.update(order)
            self.unserved = self.heard.difference(order[-1:])  # whoever came last has completed the table
        if self.unserved:
            return False
        self.heard, self.following = self.following, set()
        return True


@final
class GradientTable(WrittenRule):
    """Wait until every worker has sent a gradient, and then, once for each, until it has sent another: Ringleader's."""

    name = "table"
    remembers = True
    checkpointed = ("_phases",)

    def __init__(self) -> None:
        self._phases = Phases()

    def begin(self) -> GradientTable:
        return GradientTable()

    def learn(self, step: RecordedStep, arrivals: Sequence[RecordedArrival]) -> None:
        self._phases.learn(arrivals)

    def verdict(self, view: View) -> Verdict:
        everybody: list[int] = np.flatnonzero(np.diff(view.code.encoding.indptr)).tolist()
        came = {*view.arrived, *(late.message for late in view.late)}
        if self._phases.suffice(came, everybody):
            return Verdict.STOP
        hoped = self._phases.suffice(came.union(view.pending.tolist()), everybody)
        return Verdict.WAIT if hoped else Verdict.UNREACHABLE

    def stop_times(self, times: Array, decoder: Decoder) -> Array:
        """Return when all have arrived, shape (rounds,): as in the first round."""
        return times.max(axis=1)


@final
class Ringleader(Aggregation):
    """The sum, over all workers, of the mean of what the table has of each.

    With n workers, no gradient in it is more than 2n - 2 steps old (Maranjyan and Richtarik, "Ringleader ASGD",
    arXiv:2509.22860). A worker that has answered is handed the model of the next step: at the one that it has answered
    for, it would only say the same again.
    """

    wants_late = True
    after_own_step = True
    greatest_age = GREATEST_AGE
    checkpointed = ("_phases", "_table", "_next")

    def __init__(self) -> None:
        self._phases = Phases()
        self._table: dict[int, tuple[int, Array]] = {}  # by message: how many there are of it, and their sum
        self._next: dict[int, tuple[int, Array]] = {}
        self._late: list[LateMessage] = []

    def lag(self, n_workers: int) -> float:
        return 2.0 * n_workers - 2.0

    def begin(self) -> Ringleader:
        return Ringleader()

    def late(self, message: LateMessage) -> None:
        self._late.append(message)

    def estimate(self, decoding: Decoding, vectors: Sequence[Array], layout: Layout, order: Order) -> Array | None:
        late, self._late = [(one.message, one.vector) for one in self._late], []
        for message, vector in [*late, *sorted(arrived_vectors(decoding, vectors).items())]:
            table = self._table if self._phases.enters(message) else self._next
            count, total = table.get(message, (0, np.zeros_like(vector)))
            table[message] = count + 1, total + vector
        if not self._table:
            return None
        held = sorted(self._table)
        weights = np.array([[1.0 / self._table[message][0] for message in held]])
        decoded = Decoding(decoding.code, np.array(held), weights, residual=0.0)
        return layout.decode(decoded, [self._table[message][1] for message in held])

    def learn(self, step: RecordedStep, arrivals: Sequence[RecordedArrival]) -> None:
        if self._phases.learn(arrivals):
            self._table, self._next = self._next, {}
