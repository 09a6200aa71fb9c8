"""Which workers have orders to answer, and which faults keep them from it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from erasurehead._internal.resumable import Resumable
from erasurehead.engines import Arrived, Failed, Order
from erasurehead.engines._base import BY_TASK


@final
class PendingOrders(Resumable):
    """The messages that workers still have to send, and the faults that had an effect.

    Attributes:
        messages: number of messages per round of each worker with a program, and of rounds by task.
        lying: the fault by which each worker lies in the current round.
    """

    checkpointed = ("messages", "_owed", "_silent", "_lied")

    def __init__(self) -> None:
        self.messages: dict[int, tuple[int, int]] = {}
        self.lying: dict[int, int] = {}
        self._round = -1
        self._owed: dict[int, int] = {}  # messages of the current round that have not come, by worker
        self._silent: set[int] = set()  # numbers of the faults whose worker has something to answer, and cannot
        self._lied: set[int] = set()  # numbers of the faults of which a lie got through

    def ordered(self, worker: int, order: Order) -> None:
        """Record that a worker was sent an order."""
        self._round = order.round
        if worker in self.messages:
            self._owed[worker] = self.messages[worker][bool(order.note.get(BY_TASK, False))]

    def remove(self, worker: int) -> None:
        """Record that a worker's process is gone, or about to be."""
        self._owed.pop(worker, None)

    def silenced(self, worker: int, faults: Iterable[int]) -> list[int]:
        """Return those of the faults that keep the worker from answering what it owes, each only once."""
        if not self._owed.get(worker):
            return []
        new = sorted(set(faults) - self._silent)
        self._silent.update(new)
        return new

    def answered(self, event: Arrived | Failed) -> int | None:
        """Record an answer; return the fault whose first lie it is, if it is one."""
        if event.order_round != self._round:
            return None
        if self._owed.get(event.worker):
            self._owed[event.worker] = self._owed[event.worker] - 1 if isinstance(event, Arrived) else 0
        number = self.lying.get(event.worker)
        if number is None or number in self._lied or isinstance(event, Failed):
            return None
        self._lied.add(number)
        return number
