"""Orders as bytes: one form for shared memory, MPI's frames and Ray's store."""

from __future__ import annotations

import pickle
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from erasurehead._internal.arrays import dtype_name, dtype_of
from erasurehead.engines._base import Order
from erasurehead.engines._shared_memory import align

Bytes = NDArray[np.uint8]

_HEAD = struct.Struct("=7qd")
"""How many points and coefficients, bytes of kind and note; step, round, generation; when it was posted."""

_POINT = struct.Struct("=q16s")
"""Length of a point, and the name of its type."""


@dataclass(frozen=True, eq=False)
class EncodedOrder:
    """An order as bytes: what is small first, then, from a whole cache line on, its points, one after the other.

    Attributes:
        round: of the order.
        head: all but the points.
        points: each as bytes: views, the arrays must not be changed any more.
    """

    round: int
    head: bytes
    points: tuple[Bytes, ...]

    @property
    def nbytes(self) -> int:
        """Bytes that `write` needs."""
        return align(len(self.head)) + self.points_nbytes

    @property
    def points_nbytes(self) -> int:
        """Bytes of these for the points."""
        return sum(map(len, self.points))

    def write(self, out: Bytes) -> None:
        """Write the order into memory of at least `nbytes` bytes."""
        out[: len(self.head)] = np.frombuffer(self.head, dtype=np.uint8)
        offset = align(len(self.head))
        for point in self.points:
            out[offset : offset + len(point)] = point
            offset += len(point)

    def open(self) -> Order:
        """Return the order, its points as read-only views."""
        return _order(self.head, None, self.points)


def encode_order(order: Order) -> EncodedOrder:
    """Return an order as bytes. Its points must be vectors; they are not copied if they are contiguous."""
    points = [np.ascontiguousarray(point) for point in order.points]
    note = pickle.dumps(dict(order.note)) if order.note else b""  # which may hold anything
    kind = order.kind.encode()
    head = _HEAD.pack(
        len(points),
        len(order.coefficients),
        len(kind),
        len(note),
        order.step,
        order.round,
        order.generation,
        order.posted,
    )
    for point in points:
        head += _POINT.pack(len(point), dtype_name(point.dtype).encode())
    if order.coefficients:
        head += np.array(order.coefficients, dtype=np.float64).tobytes()
    return EncodedOrder(order.round, head + kind + note, tuple(point.view(np.uint8) for point in points))


def head_in(memory: Bytes) -> bytes:
    """Return the head of an order from memory that it was written into; its points lie after it."""
    n_points, n_coefficients, n_kind, n_note, *_ = _HEAD.unpack_from(memory.data)
    return memory[: _HEAD.size + n_points * _POINT.size + 8 * n_coefficients + n_kind + n_note].tobytes()


def read_order(memory: Bytes, head: bytes | None = None) -> Order:
    """Return an order from memory that it was written into, its points as read-only views of it.

    Arguments:
        memory: as `EncodedOrder.write` left it.
        head: as `head_in` returned it before; read now if None.
    """
    return _order(head_in(memory) if head is None else head, memory)


def _order(head: bytes, memory: Bytes | None, points: Sequence[Bytes] = ()) -> Order:
    """Return an order, its points taken out of memory, or as they are given."""
    n_points, n_coefficients, n_kind, n_note, step, number, generation, posted = _HEAD.unpack_from(head)
    offset, views = align(len(head)), list[Any]()
    for index in range(n_points):
        length, name = _POINT.unpack_from(head, _HEAD.size + index * _POINT.size)
        dtype = dtype_of(name.rstrip(b"\0").decode())
        n_bytes = length * dtype.itemsize
        point = points[index] if memory is None else memory[offset : offset + n_bytes]
        if offset % dtype.alignment:  # after a point of another type
            point = point.copy()
        view = point.view(dtype)
        view.flags.writeable = False
        views.append(view)
        offset += n_bytes
    begin = _HEAD.size + n_points * _POINT.size
    end = begin + 8 * n_coefficients
    coefficients: list[float] = np.frombuffer(head[begin:end]).tolist() if n_coefficients else []
    note: dict[str, Any] = pickle.loads(head[end + n_kind :]) if n_note else {}
    kind = head[end : end + n_kind].decode()
    return Order(step, tuple(views), number, generation, kind, tuple(coefficients), note, posted)
