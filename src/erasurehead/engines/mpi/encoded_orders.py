"""Orders as they travel: a frame with the whole order, or, to ranks beside the coordinator, where it is put up."""

from __future__ import annotations

import pickle
from functools import cached_property
from typing import Any

import numpy as np

from erasurehead.engines.base import Order
from erasurehead.engines.buffers import OrderBuffer
from erasurehead.engines.mpi.transport import Frame, frame_of, read_head, vector_in, whole


class EncodedOrder:
    """An order on its way to several ranks; the frames that they are sent are made once, and only if needed.

    Arguments:
        order: its points must not be changed any more.
    """

    def __init__(self, order: Order) -> None:
        self.order = order

    @cached_property
    def pointer(self) -> Frame:
        """For ranks that see the order_buffer, while the order is up there: its round."""
        return frame_of((self.order.round,))

    @cached_property
    def copy(self) -> Frame:
        """For all others, and afterwards: the order itself."""
        points = [np.ascontiguousarray(point) for point in self.order.points]
        shapes = [(len(point), point.dtype.str) for point in points]
        order = self.order
        note = pickle.dumps(dict(order.note)) if order.note else b""  # which may hold anything
        head = (order.step, order.round, order.generation, order.kind, order.coefficients, note, shapes, order.posted)
        frame = frame_of(head, sum(whole(point.nbytes) for point in points))
        offset = read_head(frame)[1]
        for point in points:
            frame[offset : offset + point.nbytes] = point.view(np.uint8)
            offset += whole(point.nbytes)
        return frame


def is_pointer(frame: Frame) -> bool:
    """Return whether a frame says no more than which order on the order_buffer is meant."""
    return len(read_head(frame)[0]) == 1


def read_order(frame: Frame, order_buffer: OrderBuffer | None) -> Order | None:
    """Return the order of a frame, its points as read-only views; None if it is not on the order_buffer any more.

    Arguments:
        frame: as it came.
        order_buffer: that this rank sees; None if it sees none, and is sent whole orders only.
    """
    head, offset = read_head(frame)
    if len(head) == 1:
        assert order_buffer is not None
        return order_buffer.read(*head)
    step, number, generation, kind, coefficients, note, shapes, posted = head
    points: list[Any] = []
    for length, dtype in shapes:
        point = vector_in(frame, length, dtype, offset)
        point.flags.writeable = False
        points.append(point)
        offset += whole(point.nbytes)
    told = pickle.loads(note) if note else {}
    return Order(step, tuple(points), number, generation, kind, tuple(coefficients), told, posted)
