"""The order order_buffer and the slots, which several engines share with the workers beside them."""

from __future__ import annotations

import numpy as np
import pytest

from erasurehead.engines.base import MessageSpec, Order
from erasurehead.engines.buffers import MessageSlots, OrderBuffer
from erasurehead.errors import EngineError


def test_the_board_shows_the_two_newest_orders_and_no_torn_ones() -> None:
    order_buffer = OrderBuffer(4)
    for number in range(3):
        order_buffer.write(Order(number, (np.full(3, float(number)),), round=number, note={"tolerance": number}))
    assert order_buffer.read(0) is None
    for number in (1, 2):
        found = order_buffer.read(number)
        assert found is not None
        assert found.points[0].tolist() == [number] * 3
        assert found.note == {"tolerance": number}
        with pytest.raises(ValueError, match="read-only"):
            found.points[0][0] = 1.0
    order_buffer.close()


def test_a_message_has_two_slots_and_no_third() -> None:
    parts = [MessageSpec(7, 1.0, 3), MessageSpec(8, 1.0, 5, dtype="float32")]
    slots = MessageSlots(parts)
    assert [slots.claim(7), slots.claim(7), slots.claim(7)] == [0, 1, None]
    slots.vector(parts[0], 0)[:] = 1.0
    slots.vector(parts[0], 1)[:] = 2.0
    slots.vector(parts[1], 0)[:] = 3.0
    assert slots.vector(parts[0], 0).tolist() == [1.0] * 3
    assert slots.vector(parts[1], 0).dtype == np.float32
    slots.free(7, 0)
    assert slots.claim(7) == 0
    assert slots.newest == 0
    slots.close()


def test_an_older_order_does_not_take_the_place_of_a_newer_one() -> None:
    order_buffer = OrderBuffer(3)
    for number in (0, 2, 0):
        order_buffer.write(Order(number, (np.full(3, float(number)),), round=number))
    assert order_buffer.holds(2)
    assert order_buffer.read(0) is None
    order_buffer.close()


@pytest.mark.parametrize("spec", [MessageSpec(7, 1.0, 4), MessageSpec(7, 1.0, 3, dtype="complex128")])
def test_a_message_longer_than_announced_is_refused_and_not_written_over_the_next(spec: MessageSpec) -> None:
    slots = MessageSlots([MessageSpec(7, 1.0, 3)])
    with pytest.raises(EngineError, match=r"message 7 has \d elements .* announced with at most 3 \(float64\)"):
        slots.vector(spec, 0)
    slots.close()
