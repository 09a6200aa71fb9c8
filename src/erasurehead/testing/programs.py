"""Small programs and delays with which engines are tested."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array, dtype_of
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
        out[:] = np.resize([step, self.worker, spec.message, point[0]], len(out))


class Constant(Echo):
    """Answers a number that it holds in a large array of its own, made only for it."""

    def __init__(self, number: int) -> None:
        super().__init__(number, (number,))
        self.data = np.full(100_000, float(number))

    def compute(self, spec: MessageSpec, taken: Any, out: Array) -> None:
        out[:] = self.data.mean()


@dataclass(eq=False)
class Typed(Echo):
    """An `Echo` whose points and messages are of given types, and that answers the sum of its point, too.

    Arguments:
        dtype: of messages.
        input_dtype: of points.
    """

    dtype: str = "float64"
    input_dtype: str = "float64"

    @property
    def message_specs(self) -> Sequence[MessageSpec]:
        return [
            MessageSpec(message, 1.0, self.length, self.dtype, content=1000 * self.worker + message)
            for message in self.messages
        ]

    def take(self, order: Order) -> Any:
        kinds = [point.dtype for point in order.points]
        if kinds != [dtype_of(self.input_dtype)] * len(kinds):
            raise AssertionError(f"points of {kinds} came, not of {self.input_dtype}")
        return order.step, np.array([sum(float(point.astype(np.float64).sum()) for point in order.points)])


@dataclass(eq=False)
class Sized(Echo):
    """Announces the length that its messages have for orders of kind `"long"`; those for others have 4 elements."""

    length: int = 12

    def remaining(self, order: Order, done: Sequence[MessageSpec]) -> Sequence[MessageSpec]:
        specs = super().remaining(order, done)
        return specs if order.kind == "long" else [replace(spec, length=4) for spec in specs]


@dataclass(eq=False)
class Reader(Echo):
    """Answers all that an order says beside its points."""

    length: int = 8

    def take(self, order: Order) -> Any:
        return order

    def compute(self, spec: MessageSpec, taken: Any, out: Array) -> None:
        order: Order = taken
        known = order.note == {"tolerance": 3, "text": "ü"}
        out[:] = [order.step, order.round, order.generation, len(order.kind), *order.coefficients, 3.0, known]


@dataclass(eq=False)
class Sequel(Echo):
    """Sends its messages one after the other, and is asked what is left only after what it has computed.

    It answers how many it had computed before, and fails where it is told of a message that it has not computed.
    """

    pure = False
    computed: list[int] = field(default_factory=list[int])

    def remaining(self, order: Order, done: Sequence[MessageSpec]) -> Sequence[MessageSpec]:
        unknown = [spec.message for spec in done if spec.message not in self.computed]
        if unknown:
            raise AssertionError(f"messages {unknown} are not computed yet")
        return super().remaining(order, done)

    def compute(self, spec: MessageSpec, taken: Any, out: Array) -> None:
        out[:] = len(self.computed)
        self.computed.append(spec.message)


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


@dataclass(frozen=True)
class Raising(Timetable):
    """Delays that cannot be drawn for one worker in some steps, as those of a trace that ends.

    Arguments:
        worker: of whom; all models that are asked for it, and for others with it, raise.
        steps: in which steps.
        unit: from which message of a step on.
    """

    worker: int = 0
    steps: frozenset[int] = frozenset()
    unit: int = 0

    def rows(
        self, first: int, count: int, n_workers: int, unit: int = 0, work: float | Array = 1.0, out: Array | None = None
    ) -> Array:
        if n_workers > self.worker and unit >= self.unit and self.steps.intersection(range(first, first + count)):
            raise ValueError("told to have no delay")
        return super().rows(first, count, n_workers, unit, work, out)
