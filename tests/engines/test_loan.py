"""Vectors in the coordinator's hands: how long, and who gets the memory back when."""

from __future__ import annotations

import numpy as np
import pytest

from erasurehead.engines import Arrived, MessageSpec
from erasurehead.engines._leases import BufferLease, OpenLeases
from erasurehead.errors import EngineError


class Slot:
    """A place for a message, which counts how often it was given back."""

    def __init__(self) -> None:
        self.vector = np.ones(3)
        self.returns = 0

    def arrived(self, order_round: int) -> Arrived:
        lease = BufferLease(self.vector, self.free)
        return Arrived(0, MessageSpec(0, 1.0, 3), order_round, order_round, 0.0, 0.0, lease.read, lease)

    def free(self) -> None:
        self.returns += 1
        self.vector[:] = -1.0  # the worker's next message


def test_a_loan_ends_with_its_release_or_with_all_others_and_gives_back_once() -> None:
    lent, slots = OpenLeases(), [Slot(), Slot()]
    events = [slot.arrived(4) for slot in slots]
    for event in events:
        lent.hand_out(event)
    lent.before_waiting()
    assert [slot.returns for slot in slots] == [0, 0]
    assert events[1].read() is slots[1].vector
    for _ in range(2):
        lent.end(events[0])
    assert [slot.returns for slot in slots] == [1, 0]
    lent.end_all()
    assert [slot.returns for slot in slots] == [1, 1]
    for event in events:
        with pytest.raises(EngineError, match="released"):
            event.read()


def test_a_message_that_was_not_handed_out_yet_outlives_the_next_order() -> None:
    lent, slot = OpenLeases(), Slot()
    waiting = slot.arrived(4)
    lent.end_all()
    lent.hand_out(waiting)
    assert waiting.read().tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("read_first", [True, False])
def test_a_late_message_gives_its_memory_back_before_the_coordinator_waits_and_can_still_be_read(
    read_first: bool,
) -> None:
    lent, slot = OpenLeases(), Slot()
    late = slot.arrived(3)
    lent.hand_out(late, brief=True)
    vector = late.read() if read_first else None
    lent.before_waiting()
    assert slot.returns == 1
    assert late.read().tolist() == [1.0, 1.0, 1.0]
    assert vector is None or vector is late.read()
    lent.end(late)
    assert slot.returns == 1
    with pytest.raises(EngineError, match="released"):
        late.read()
