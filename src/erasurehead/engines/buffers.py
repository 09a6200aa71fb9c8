"""What coordinator and workers share: the order order_buffer, and each worker's slots for its messages.

The order buffer holds the two newest orders. A worker that is two rounds behind finds its order overwritten, sees that
by the round number, and takes the newest one. Slots are double: while the coordinator still reads a message, the worker
writes the next one beside it.
"""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.engines.base import MessageSpec, Order
from erasurehead.engines.shared_memory import Block, align
from erasurehead.errors import EngineError

_HEADER = 64  # bytes before a order_buffer's meta data: round, length of the meta data
_META = 65_536  # bytes for all of an order but its points
_SIDES = 2
_FREE, _TAKEN = 0, 1


class OrderBuffer:
    """The two newest orders, written by the coordinator and read by every worker.

    Arguments:
        n_elements: greatest number of elements of all points of an order together.
    """

    def __init__(self, n_elements: int) -> None:
        self.n_elements = n_elements
        self._stride = align(_HEADER + _META + 8 * n_elements)
        self._block = Block(_SIDES * self._stride)
        self._map()
        for header in self._headers:
            header[0] = -1

    def _map(self) -> None:
        """Make the views that every order needs; a process makes its own."""
        self._headers = [self._block.integers(side * self._stride, 2) for side in range(_SIDES)]

    def __getstate__(self) -> tuple[int, Block]:
        return self.n_elements, self._block

    def __setstate__(self, state: tuple[int, Block]) -> None:
        self.n_elements, self._block = state
        self._stride = self._block.size // _SIDES
        self._map()

    def write(self, order: Order) -> None:
        """Put up an order in place of the one before the last."""
        meta = pickle.dumps(
            (order.step, order.round, order.generation, order.kind, order.coefficients, dict(order.note),
             [len(point) for point in order.points], order.posted)
        )  # fmt: skip
        if len(meta) > _META:
            raise EngineError(f"an order's note takes {len(meta)} bytes; at most {_META} fit.")
        if sum(map(len, order.points)) > self.n_elements:
            raise EngineError(
                f"an order's points have more than the {self.n_elements} elements that programs asked for."
            )
        side = order.round % _SIDES
        header = self._headers[side]
        if header[0] >= order.round:  # it is up, or a newer one is
            return
        header[0] = -1  # whoever reads the old order now will see that it was overwritten
        offset = side * self._stride + _HEADER
        self._block.buffer[offset : offset + len(meta)] = meta
        header[1] = len(meta)
        offset += _META
        for point in order.points:
            self._block.array(offset, len(point))[:] = point
            offset += 8 * len(point)
        header[0] = order.round

    def read(self, order_round: int) -> Order | None:
        """Return an order whose points are views of the order_buffer, or None if it was overwritten."""
        side = order_round % _SIDES
        header = self._headers[side]
        if not self.holds(order_round):
            return None
        offset = side * self._stride + _HEADER
        meta = bytes(self._block.buffer[offset : offset + int(header[1])])
        if not self.holds(order_round):
            return None
        step, number, generation, kind, coefficients, note, lengths, posted = pickle.loads(meta)
        offset += _META
        points: list[Array] = []
        for length in lengths:
            point = self._block.array(offset, length)
            point.flags.writeable = False
            points.append(point)
            offset += 8 * length
        return Order(step, tuple(points), number, generation, kind, coefficients, note, posted)

    def holds(self, order_round: int) -> bool:
        """Whether an order is still there; what was read of it before a True is sound."""
        return bool(self._headers[order_round % _SIDES][0] == order_round)

    def close(self) -> None:
        """Give back the file descriptor."""
        self._block.close()


class MessageSlots:
    """One worker's outgoing messages: two slots each, and which round its newest order has.

    Arguments:
        message_specs: every message that it may send.
    """

    def __init__(self, message_specs: Sequence[MessageSpec]) -> None:
        self._parts = tuple(message_specs)
        self._block = Block(self._lay_out())
        self._map()

    def _lay_out(self) -> int:
        """Find a place for every message, and return the bytes that all of them take."""
        self._index = {spec.message: index for index, spec in enumerate(self._parts)}
        self._offsets: list[tuple[int, int]] = []
        offset = align(8 + 8 * _SIDES * len(self._parts))
        for spec in self._parts:
            size = align(_size(spec))
            self._offsets.append((offset, offset + size))
            offset += _SIDES * size
        return offset

    def _map(self) -> None:
        """Make the views that every order needs; a process makes its own."""
        self._newest = self._block.integers(0, 1)
        self._states = self._block.integers(8, _SIDES * len(self._parts)).reshape(-1, _SIDES)

    def __getstate__(self) -> tuple[tuple[MessageSpec, ...], Block]:
        return self._parts, self._block

    def __setstate__(self, state: tuple[tuple[MessageSpec, ...], Block]) -> None:
        self._parts, self._block = state
        self._lay_out()
        self._map()

    @property
    def newest(self) -> int:
        """Round of the newest order that is meant for this worker; 0 before the first, counted from 1."""
        return int(self._newest[0])

    @newest.setter
    def newest(self, value: int) -> None:
        self._newest[0] = value

    def spec(self, message: int) -> MessageSpec:
        """Return a message as the message_specs announced it."""
        return self._parts[self._index[message]]

    def claim(self, message: int) -> int | None:
        """Return a free slot of a message, now taken, or None if the coordinator still reads both."""
        state = self._states[self._index[message]]
        for side in range(_SIDES):
            if state[side] == _FREE:
                state[side] = _TAKEN
                return side
        return None

    def free(self, message: int, side: int) -> None:
        """Give back a slot."""
        self._states[self._index[message], side] = _FREE

    def vector(self, spec: MessageSpec, side: int) -> Array:
        """Return the room of a message in a slot, shape (part.length,)."""
        index = self._index[spec.message]
        announced = self._parts[index]
        if _size(spec) > _size(announced):
            raise EngineError(
                f"message {spec.message} has {spec.length} elements ({spec.dtype}), and was announced with at most "
                f"{announced.length} ({announced.dtype}); announce its greatest length in the program's message_specs."
            )
        return self._block.view(self._offsets[index][side], spec.length, spec.dtype)

    def close(self) -> None:
        """Give back the file descriptor."""
        self._block.close()


def _size(spec: MessageSpec) -> int:
    return spec.length * np.dtype(spec.dtype).itemsize
