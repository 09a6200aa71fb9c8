"""Small programs and delay models for tests of engines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array, dtype_of
from erasurehead.delays import Delays
from erasurehead.delays._base import room
from erasurehead.engines import MessageSpec, Order, Program
from erasurehead.engines._base import TURNS


@dataclass(eq=False)
class Echo(Program):
    """Answers `(step, worker, message, first element of the point)`, repeated to the length of the message.

    Arguments:
        worker: number of the worker in its answers.
        messages: numbers of the messages that it sends, in order.
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
        turns = order.note.get(TURNS)
        specs = sorted(self.message_specs, key=lambda one: turns[one.message]) if turns else self.message_specs
        sent, left = Counter(one.message for one in done), list[MessageSpec]()
        for one in specs:  # of messages with the same number, as many as were sent are not left
            if sent[one.message]:
                sent[one.message] -= 1
            else:
                left.append(one)
        return left

    def take(self, order: Order) -> Any:
        return order.step, order.points[0].copy()

    def compute(self, spec: MessageSpec, taken: Any, out: Array) -> None:
        step, point = taken
        if not (point == point[0]).all():
            raise AssertionError("the point was overwritten while it was copied")
        out[:] = np.resize([step, self.worker, spec.message, point[0]], len(out))


class Growing(Echo):
    """An `Echo` each of whose messages is of the work of the one before, and one unit more."""

    @property
    def message_specs(self) -> Sequence[MessageSpec]:
        return [replace(spec, work=place + 1.0, prior=float(place)) for place, spec in enumerate(super().message_specs)]


class ConstantAnswer(Echo):
    """Answers a number, which is the mean of a large array of data of its own."""

    def __init__(self, number: int) -> None:
        super().__init__(number, (number,))
        self.data = np.full(100_000, float(number))

    def compute(self, spec: MessageSpec, taken: Any, out: Array) -> None:
        out[:] = self.data.mean()


@dataclass(eq=False)
class Typed(Echo):
    """An `Echo` whose points and messages have given dtypes, and that also answers the sum of its point.

    Arguments:
        dtype: dtype of messages.
        input_dtype: dtype of points.
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
        dtypes = [point.dtype for point in order.points]
        if dtypes != [dtype_of(self.input_dtype)] * len(dtypes):
            raise AssertionError(f"the points have dtypes {dtypes}, and not {self.input_dtype}")
        return order.step, np.array([sum(float(point.astype(np.float64).sum()) for point in order.points)])


@dataclass(eq=False)
class Sized(Echo):
    """Sends messages of `length` elements for orders of kind `"long"`, and of 4 elements for others."""

    length: int = 12

    def remaining(self, order: Order, done: Sequence[MessageSpec]) -> Sequence[MessageSpec]:
        specs = super().remaining(order, done)
        return specs if order.kind == "long" else [replace(spec, length=4) for spec in specs]


@dataclass(eq=False)
class Reader(Echo):
    """Answers with all fields of an order but its points."""

    length: int = 8

    def take(self, order: Order) -> Any:
        return order

    def compute(self, spec: MessageSpec, taken: Any, out: Array) -> None:
        order: Order = taken
        note_arrived = order.note == {"tolerance": 3, "text": "ü"}
        out[:] = [order.step, order.round, order.generation, len(order.kind), *order.coefficients, 3.0, note_arrived]


@dataclass(eq=False)
class Stateful(Echo):
    """A stateful program, which requires that each message is computed before `remaining` is asked for the next one.

    It answers the number of messages that it has computed before, and fails if `done` has one that it has not computed.
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
        raises: the exception.
        where: the method that raises: `"compute"` or `"remaining"`.
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
    """Delays of single messages, where `delays.Fixed` has one per step; all others are 0.

    Arguments:
        seconds_of: seconds by (worker, step, number of the message within the step).
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
    """Delays that cannot be drawn for one worker in some steps, as those of a trace that is too short.

    Arguments:
        worker: the worker whose delays cannot be drawn, alone or together with those of others.
        steps: the steps in which drawing raises.
        unit: the first message of a step for which drawing raises.
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
