"""Workers that lie: a program around the real one, which spoils its messages when the order says so."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, final

import numpy as np

from erasurehead._internal.arrays import Array, Tree
from erasurehead.engines.base import Order, Part, Program

NOTE = "lies"
"""Key of an order's note: number of a worker, as a text -> the name of its lie."""


def _flip(vector: Array) -> None:
    vector *= -1.0


def _scale(vector: Array) -> None:
    vector *= 1000.0


def _shift(vector: Array) -> None:
    vector += 1e-3 * max(1e-3, float(np.abs(vector).max(initial=0.0)))


def _not_finite(vector: Array) -> None:
    vector[:1] = np.nan


_LIES: Mapping[str, Callable[[Array], None]] = {
    "flip": _flip,
    "scale": _scale,
    "shift": _shift,
    "nan": _not_finite,
}

LIES: tuple[str, ...] = tuple(_LIES)
"""What a lying worker makes of its vector: its opposite, a thousand times too much, a little more, or no number."""


@final
class Corrupted(Program):
    """A worker's program that lies while the order's note names its worker, and else is the program that it wraps.

    Arguments:
        program: the real one.
        worker: whose it is.
    """

    def __init__(self, program: Program, worker: int) -> None:
        self.program = program
        self.worker = worker
        self.preload = program.preload
        self.pure = program.pure

    @property
    def outbox(self) -> Sequence[Part]:
        return self.program.outbox

    @property
    def inbox(self) -> int:
        return self.program.inbox

    def parts(self, order: Order, done: Sequence[Part]) -> Sequence[Part]:
        parts = self.program.parts(order, done)
        # A lie is unlike what honest workers send, whatever it should have been.
        return parts if self._lie(order) is None else [replace(part, content=None) for part in parts]

    def take(self, order: Order) -> Any:
        return self._lie(order), self.program.take(order)

    def compute(self, part: Part, taken: Any, out: Array) -> None:
        lie, inner = taken
        self.program.compute(part, inner, out)
        if lie is not None:
            _LIES[lie](out)

    def state(self) -> Tree:
        return self.program.state()

    def restore(self, state: Tree) -> None:
        self.program.restore(state)

    def _lie(self, order: Order) -> str | None:
        return order.note.get(NOTE, {}).get(str(self.worker))
