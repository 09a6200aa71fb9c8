"""Workers that lie: a program around the real one, which spoils its messages when the order says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.engines import MessageSpec, Order, Program
from erasurehead.engines._engine_around import ProgramAround

NOTE = "lies"
"""Key of an order's note: number of a worker, as a text -> the name of its lie."""


_LIES: Mapping[str, Callable[[Array], object]] = {
    "flip": lambda vector: np.multiply(vector, -1.0, out=vector),
    "scale": lambda vector: np.multiply(vector, 1000.0, out=vector),
    "shift": lambda vector: np.add(vector, 1e-3 * max(1e-3, float(np.abs(vector).max(initial=0.0))), out=vector),
    "nan": lambda vector: vector[:1].fill(np.nan),
}

LIES: tuple[str, ...] = tuple(_LIES)
"""What a lying worker makes of its vector: its opposite, a thousand times too much, a little more, or no number."""


@final
class Corrupted(ProgramAround):
    """A worker's program that lies while the order's note names its worker, and else is the program that it wraps.

    Arguments:
        program: the real one.
        worker: whose it is.
    """

    def __init__(self, program: Program, worker: int) -> None:
        super().__init__(program)
        self.worker = worker

    def remaining(self, order: Order, done: Sequence[MessageSpec]) -> Sequence[MessageSpec]:
        remaining = self.program.remaining(order, done)
        # A lie is unlike what honest workers send, whatever it should have been.
        return remaining if self._lie(order) is None else [replace(spec, content=None) for spec in remaining]

    def take(self, order: Order) -> Any:
        return self._lie(order), self.program.take(order)

    def compute(self, spec: MessageSpec, taken: Any, out: Array) -> None:
        lie, inner = taken
        self.program.compute(spec, inner, out)
        if lie is not None:
            _LIES[lie](out)

    def _lie(self, order: Order) -> str | None:
        return order.note.get(NOTE, {}).get(str(self.worker))
