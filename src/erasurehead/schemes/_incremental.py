"""Memory of late results: each step's gradient is put together from the newest partial gradient of every task."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.codes import GradientCode
from erasurehead.decoding._base import Decoding
from erasurehead.decoding._layout import Layout
from erasurehead.engines import Order
from erasurehead.errors import invalid
from erasurehead.schemes._aggregation import Aggregation, LateMessage, arrived_vectors
from erasurehead.schemes._asynchronous import GREATEST_AGE
from erasurehead.schemes._shortened_steps import ShortenedSteps

_Tasks = tuple[int, ...]


@final
class IncrementalAggregated(Aggregation):
    """The sum of the newest partial gradient of every group of tasks, at whichever model it was computed (IAG).

    A table holds, for each group, its newest message: those that came in time, and late ones. As long as nothing is
    known of some group, which `wait_rules.heard` prevents, the sum is scaled up by the share of the tasks that are
    known. The incremental aggregated gradient method (Blatt, Hero and Gauchman, SIAM J. Optim. 2007) with a coordinator
    that goes on after a few messages is PIAG (Aytekin, Feyzmahdavian and Johansson, arXiv:1610.05507): as no task is
    ever left out, it converges to the optimum where tasks differ and workers are slow for good, with bounded delays and
    a step size that suits the oldest entry.

    The price is inherent: steps are shortened by the age of the *oldest* entry (`ShortenedSteps`, as Wu et al., ICML
    2022, do for PIAG); see docs/schemes.md.

    Arguments:
        code: a code whose groups are replicas, and whose messages are plain sums of the partial gradients of their
            tasks: `codes.uncoded`, `fractional_repetition`, `multi_message`.
        adapt: whether steps are shortened by the age of the oldest entry; if not, the step size has to be small enough
            for the delays.
        greatest_age: the greatest age of an entry, in steps, for which steps are shortened as they should be.

    Raises:
        InvalidArgument: if the code is of another kind.
    """

    wants_late = True
    faithful = True

    checkpointed = ("_steps", "_table")

    def __init__(self, code: GradientCode, adapt: bool = True, greatest_age: int = GREATEST_AGE) -> None:
        if not code.replicas or (code.encoding.data != 1.0).any():
            raise invalid(
                "code",
                "must have groups of workers that send equal sums of their tasks",
                code.name,
                "such as uncoded, fractional_repetition or multi_message",
            )
        self.code, self.adapt, self._oldest = code, adapt, greatest_age
        self._table: dict[_Tasks, tuple[int, Array]] = {}  # by tasks: the step of the model, and the message
        self._late: list[LateMessage] = []
        self._steps = ShortenedSteps(greatest_age)
        self._share = 1.0

    def begin(self) -> IncrementalAggregated:
        return IncrementalAggregated(self.code, self.adapt, self._oldest)

    @property
    def share(self) -> float:
        return self._share

    @property
    def tasks_counted(self) -> Sequence[int]:
        return sorted(task for tasks in self._table for task in tasks)

    @cached_property
    def _rows(self) -> dict[_Tasks, int]:
        """The first row of each group, by its tasks, in the order of the rows."""
        assert self.code.groups is not None
        _, first = np.unique(self.code.groups, return_index=True)
        return {self._tasks(row): row for row in sorted(first.tolist())}

    def _tasks(self, row: int) -> _Tasks:
        return tuple(self.code.tasks_of_message(row).tolist())

    def lag(self, n_workers: int) -> float:
        return 0.0 if self.adapt else float(self._oldest)

    def late(self, message: LateMessage) -> None:
        self._late.append(message)

    def estimate(self, decoding: Decoding, vectors: Sequence[Array], layout: Layout, order: Order) -> Array | None:
        late, self._late = self._late, []
        for one in late:
            self._enter(one.message, one.step, one.vector)
        for row, vector in sorted(arrived_vectors(decoding, vectors).items()):
            self._enter(row, order.step, vector)
        # Tasks that no living worker holds are not in the code of the decoding any more; their groups are forgotten.
        here = decoding.code
        kept = {tasks: row for tasks, row in self._rows.items() if len(here.tasks_of_message(row))}
        self._table = {tasks: entry for tasks, entry in self._table.items() if tasks in kept}
        if not self._table:
            self._steps.take(order.step, 0.0)
            return None
        oldest = order.step - min(step for step, _ in self._table.values())
        self._share = self._steps.fraction(oldest, order.step) if self.adapt else 1.0
        self._steps.take(order.step, self._share)
        rows = np.array([row for tasks, row in kept.items() if tasks in self._table], dtype=np.int64)
        covered = sum(len(here.tasks_of_message(row)) for row in rows.tolist())
        weights = np.full((1, len(rows)), here.n_tasks / covered)
        entries = [self._table[tasks][1] for tasks in kept if tasks in self._table]
        return layout.decode(Decoding(here, rows, weights, residual=0.0), entries)

    def _enter(self, row: int, step: int, vector: Array) -> None:
        """Keep a message, unless a newer one of its group, or one as new, is known."""
        tasks = self._tasks(row)
        if tasks not in self._table or self._table[tasks][0] < step:
            self._table[tasks] = step, np.array(vector)
