"""Orders as they travel: one frame, which all ranks are sent."""

from __future__ import annotations

from typing import Any

import numpy as np

from erasurehead.engines.base import Order
from erasurehead.engines.mpi.wire import Frame, frame_of, read_head, vector_in, whole


def order_frame(order: Order) -> Frame:
    """Return an order as it travels: its points, which the caller may change afterwards, are copied."""
    points = [np.ascontiguousarray(point) for point in order.points]
    shapes = [(len(point), point.dtype.str) for point in points]
    head = (order.step, order.round, order.epoch, order.kind, order.coefficients, dict(order.note), shapes)
    frame = frame_of(head, sum(whole(point.nbytes) for point in points))
    offset = read_head(frame)[1]
    for point in points:
        frame[offset : offset + point.nbytes] = point.view(np.uint8)
        offset += whole(point.nbytes)
    return frame


def read_order(frame: Frame) -> Order:
    """Return the order in a frame; its points are read-only views."""
    (step, number, epoch, kind, coefficients, note, shapes), offset = read_head(frame)
    points: list[Any] = []
    for length, dtype in shapes:
        point = vector_in(frame, length, dtype, offset)
        point.flags.writeable = False
        points.append(point)
        offset += whole(point.nbytes)
    return Order(step, tuple(points), number, epoch, kind, coefficients, note)
