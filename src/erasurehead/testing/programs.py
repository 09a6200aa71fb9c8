"""Small programs and delays with which engines are tested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.delays.base import Delays, room
from erasurehead.engines.base import MessageSpec, Order, Program


@dataclass(eq=False)
class Echo(Program):
    """Answers `(step, worker, message, first element of the point)`, repeated to the wanted length.

    Arguments:
        worker: what it says of itself.
        messages: the messages that it sends, in order.
        length: elements of each message, at least 4.
        n_parameters: elements of a point.
    """

    worker: int
    messages: tuple[int, ...]
    length: int = 4
    n_parameters: int = 3

    @property
    def message_specs(self) -> Sequence[MessageSpec]:
        return [MessageSpec(message, 1.0, self.length, content=message) for message in self.messages]

    @property
    def input_size(self) -> int:
        return self.n_parameters

    def remaining(self, order: Order, done: Sequence[MessageSpec]) -> Sequence[MessageSpec]:
        return self.message_specs[len(done) :]

    def take(self, order: Order) -> Any:
        return order.step, order.points[0].copy()

    def compute(self, spec: MessageSpec, taken: Any, out: Array) -> None:
        step, point = taken
        if not (point == point[0]).all():
            raise AssertionError("the point was overwritten while it was copied")
        out[:] = np.resize([step, self.worker, spec.message, point[0]], self.length)


class Constant(Echo):
    """Answers a number that it holds in a large array of its own, made only for it."""

    def __init__(self, number: int) -> None:
        super().__init__(number, (number,))
        self.data = np.full(100_000, float(number))

    def compute(self, spec: MessageSpec, taken: Any, out: Array) -> None:
        out[:] = self.data.mean()


@dataclass(eq=False)
class Faulty(Echo):
    """An `Echo` that raises, or answers NaN, at some steps.

    Arguments:
        raises_at: steps at which it raises.
        nan_at: steps at which it answers NaN.
        raises: what it raises.
        where: in which method: `"compute"` or `"remaining"`.
    """

    raises_at: frozenset[int] = frozenset()
    nan_at: frozenset[int] = frozenset()
    raises: Exception = field(default_factory=lambda: ValueError("told to fail"))
    where: str = "compute"

    def remaining(self, order: Order, done: Sequence[MessageSpec]) -> Sequence[MessageSpec]:
        if self.where == "remaining" and order.step in self.raises_at:
            raise self.raises
        return super().remaining(order, done)

    def compute(self, spec: MessageSpec, taken: Any, out: Array) -> None:
        if taken[0] in self.raises_at:
            raise self.raises
        super().compute(spec, taken, out)
        if taken[0] in self.nan_at:
            out[-1] = np.nan


@dataclass(frozen=True)
class Timetable(Delays):
    """Delays told message by message, where `delays.Fixed` has one a step; whatever is not told takes no time.

    Arguments:
        seconds_of: by (worker, step, unit).
    """

    seconds_of: Mapping[tuple[int, int, int], float] = field(default_factory=dict[tuple[int, int, int], float])

    def rows(
        self, first: int, count: int, n_workers: int, unit: int = 0, work: float | Array = 1.0, out: Array | None = None
    ) -> Array:
        table = room(out, count, n_workers)
        for row, worker in np.ndindex(count, n_workers):
            table[row, worker] = self.seconds_of.get((worker, first + row, unit), 0.0)
        return table

    def __str__(self) -> str:
        return f"timetable of {len(self.seconds_of)} delays"
