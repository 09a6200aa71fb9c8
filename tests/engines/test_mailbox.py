"""The order order_buffer and the slots, which several engines share with the workers beside them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead.engines import MessageSpec, Order
from erasurehead.engines._buffers import MessageSlots, OrderBuffer, OrderReader
from erasurehead.engines._encoded_order import EncodedOrder, encode_order, read_order
from erasurehead.errors import EngineError
from erasurehead.testing._programs import Echo


class Announced(Echo):
    """Announces some messages."""

    def __init__(self, *specs: MessageSpec, n_parameters: int = 3) -> None:
        super().__init__(0, (), n_parameters=n_parameters)
        self.specs = specs

    @property
    def message_specs(self) -> Sequence[MessageSpec]:
        return self.specs


def encoded(number: int) -> EncodedOrder:
    return encode_order(Order(number, (np.full(3, float(number)),), round=number, note={"tolerance": number}))


def test_the_buffer_shows_the_two_newest_orders_and_no_torn_ones() -> None:
    order_buffer = OrderBuffer(8 * 4)
    for number in range(3):
        order_buffer.write(encoded(number))
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
    slots = MessageSlots(Announced(*parts))
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
    order_buffer = OrderBuffer(8 * 3)
    for number in (0, 2, 0):
        order_buffer.write(encoded(number))
    assert order_buffer.holds(2)
    assert order_buffer.read(0) is None
    order_buffer.close()


@pytest.mark.parametrize("spec", [MessageSpec(7, 1.0, 4), MessageSpec(7, 1.0, 3, dtype="complex128")])
def test_a_message_longer_than_announced_is_refused_and_not_written_over_the_next(spec: MessageSpec) -> None:
    slots = MessageSlots(Announced(MessageSpec(7, 1.0, 3)))
    for _ in range(3):  # nor does it keep the slot
        with pytest.raises(EngineError, match=r"message 7 has \d elements .* announced with at most 3 \(float64\)"):
            slots.room(spec)
    assert slots.claim(7) == 0
    slots.close()


def test_who_has_not_read_its_newest_order_is_kept_it_when_it_is_overwritten() -> None:
    buffer, slots = OrderBuffer(24), [MessageSlots(Announced(MessageSpec(7, 1.0, 3))) for _ in range(3)]
    readers = [OrderReader(buffer, one) for one in slots]
    buffer.write(encoded(0))
    for one in slots:
        one.newest = 1
    for reader in readers[:2]:
        assert reader.read(0) is not None
    assert readers[0].copied()  # the second is still copying, the third has not even looked
    slots[1].newest = slots[2].newest = 1
    for number in (1, 2):
        buffer.write(encoded(number), slots)
    assert not readers[1].copied()
    for reader in readers[1:]:
        found = reader.read(0)
        assert found is not None
        assert found.points[0].tolist() == [0.0] * 3
        assert reader.copied()
    assert readers[0].read(0) is None


@pytest.mark.slow
@given(
    st.lists(st.tuples(st.integers(0, 9), st.sampled_from(["float64", "float32", "uint16", "uint8", "int64"]))),
    st.lists(st.floats(allow_nan=False), max_size=3),
    st.integers(-(2**40), 2**40),
    st.text(max_size=20),
    st.dictionaries(st.text(max_size=3), st.integers() | st.text(max_size=9), max_size=3),
)
def test_an_order_is_the_same_after_it_was_bytes(
    points: list[tuple[int, str]], coefficients: list[float], number: int, kind: str, note: dict[str, object]
) -> None:
    vectors = tuple(np.arange(length).astype(dtype) for length, dtype in points)
    order = Order(number, vectors, abs(number), -number, kind, tuple(coefficients), note)
    sent = encode_order(order)
    memory = np.zeros(sent.nbytes, dtype=np.uint8)
    sent.write(memory)
    for found in (read_order(memory), sent.open()):
        assert [point.dtype for point in found.points] == [vector.dtype for vector in vectors]
        assert [point.tolist() for point in found.points] == [vector.tolist() for vector in vectors]
        plain = (found.step, found.round, found.generation, found.kind, found.coefficients, found.note)
        assert plain == (number, abs(number), -number, kind, tuple(coefficients), note)
