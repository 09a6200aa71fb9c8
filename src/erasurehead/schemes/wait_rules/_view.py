"""What a wait rule sees of a round: which messages have arrived, which may still come, and what they are worth."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from erasurehead._internal.arrays import IntArray
from erasurehead.decoding import Decoder
from erasurehead.decoding._base import Session
from erasurehead.errors import invalid


@dataclass(frozen=True)
class LateArrival:
    """A message of an earlier round that arrived in this one.

    Attributes:
        message: row of the code.
        step: the step of the order that it answers.
        order_round: the round of the order that it answers.
        age: how many steps ago that was, at least 0.
    """

    message: int
    step: int
    order_round: int
    age: int


class View:
    """The arrivals of one round, without their vectors: all that a wait rule may see.

    The training loop and the simulator feed it; rules only read it.

    Attributes:
        step: number of the optimizer's step.
        elapsed: seconds since the order was submitted.
        arrived: messages that have arrived, in the order of their arrival.
        able: workers that can still answer, including those that already have.
        refused: messages that count as erasures in this round although their worker is alive.
        late: messages of earlier rounds that arrived in this one, in the order of their arrival. If the aggregation
            uses late messages, only those that it uses, and that are usable.
        session: the decoding so far.
        came: when each of the arrived messages came, in seconds since the order was submitted.
        note: what the order says beside its points.

    Arguments:
        decoder: what the arrivals are decoded with.
        ages: how many steps ago the newest gradient of each task was computed, before the round; None if no rule asks.
    """

    def __init__(
        self,
        decoder: Decoder,
        step: int = 0,
        able: Iterable[int] | None = None,
        ages: IntArray | None = None,
        note: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self.decoder = decoder
        self.code = decoder.code
        self.step = step
        self.elapsed = 0.0
        self.able: set[int] = set(range(self.code.n_workers) if able is None else able)
        self.arrived: list[int] = []
        self.refused: set[int] = set()
        self.late: list[LateArrival] = []
        self.came: dict[int, float] = {}
        self.note = note
        self.session: Session = decoder.begin()
        self._ages_before = ages
        self._is_in = np.zeros(self.code.n_messages, dtype=bool)
        self._waiting_for = self.code.messages_per_worker.copy()
        # Views that hand out Python numbers: several times as fast as indexing the arrays one by one.
        self._owner_view = self.code.owner.data
        self._is_in_view, self._waiting_for_view = self._is_in.data, self._waiting_for.data
        self._finished = 0
        self._reachable: float | None = None

    @property
    def finished(self) -> int:
        """Number of workers whose messages have all arrived. A worker with nothing to send does not count."""
        return self._finished

    @property
    def ages(self) -> IntArray:
        """How many steps ago the newest arrived gradient of each task was computed, shape (n_tasks,); 0 for this step.

        A task of which nothing has come yet counts as computed one step before the first.

        Raises:
            InvalidArgument: if the rule that asks does not declare that it `remembers`: ages are kept only if it does.
        """
        if self._ages_before is None:
            raise invalid(
                "remembers",
                "must be True for a wait rule that reads the ages of tasks",
                False,
                "they are kept for such rules only",
            )
        ages = self._ages_before.copy()
        for late in self.late:
            tasks = self.code.tasks_of_message(late.message)
            ages[tasks] = np.minimum(ages[tasks], late.age)
        for message in self.arrived:
            ages[self.code.tasks_of_message(message)] = 0
        return ages

    @property
    def pending(self) -> IntArray:
        """Messages that may still come, ascending."""
        if self.whole:
            return np.flatnonzero(~self._is_in)
        hoped = np.zeros(self.code.n_messages, dtype=bool)
        hoped[self.code.messages_of_workers(np.fromiter(self.able, dtype=np.int64))] = True
        hoped[list(self.refused)] = False
        return np.flatnonzero(hoped & ~self._is_in)

    @property
    def hopeful(self) -> bool:
        """Whether any message may still come: cheaper than counting those that are pending."""
        if len(self.arrived) < self.code.n_messages and self.whole:
            return True
        return bool(len(self.pending))

    @property
    def whole(self) -> bool:
        """Whether every message of the code has come or may still come."""
        return len(self.able) == self.code.n_workers and not self.refused

    def can_finish(self) -> int:
        """Return how many workers will be finished if everybody who still can answers."""
        able = np.zeros(self.code.n_workers, dtype=bool)
        able[np.fromiter(self.able, dtype=np.int64)] = True
        able[self.code.owner[list(self.refused)]] = False
        return int(((able | (self._waiting_for == 0)) & (self.code.messages_per_worker > 0)).sum())

    def reachable_residual(self) -> float:
        """Return the residual if every message that may still come does come."""
        if self._reachable is None:
            self._reachable = self.decoder.residual([*self.arrived, *self.pending.tolist()])
        return self._reachable

    def pass_time(self, elapsed: float) -> None:
        """Record how many seconds have passed since the order was submitted."""
        self.elapsed = elapsed

    def without(self, decoder: Decoder, ages: IntArray | None) -> View:
        """Return the same round as a decoder sees it that leaves tasks out, with the ages of those that remain."""
        view = View(decoder, self.step, self.able, ages, self.note)
        view.elapsed, view.refused, view.late, view.came = self.elapsed, self.refused, self.late, self.came
        for message in self.arrived:
            view.add(message)
        return view

    def add_late(self, arrival: LateArrival) -> None:
        """Record the arrival of a message of an earlier round, one that can be used."""
        self.late.append(arrival)

    def add(self, message: int) -> None:
        """Record an arrival. A message that has arrived already (a replaced worker sends again) changes nothing."""
        if self._is_in_view[message]:
            return
        self._is_in_view[message] = True
        self.arrived.append(message)
        self.came.setdefault(message, self.elapsed)
        self.session.add(message)
        worker = self._owner_view[message]
        if worker not in self.able:
            self._reachable = None
        left = self._waiting_for_view[worker] - 1
        self._waiting_for_view[worker] = left
        self._finished += left == 0

    def lose(self, worker: int) -> None:
        """Record that a worker will not answer any more; what it sent is kept."""
        self.able.discard(worker)
        self._reachable = None

    def regain(self, worker: int) -> None:
        """Record that a worker will answer after all: it, or a replacement, has joined. What it sends is new."""
        self.able.add(worker)
        self.refused.difference_update(self.code.messages_of(worker).tolist())
        self._reachable = None

    def refuse(self, messages: Iterable[int]) -> None:
        """Turn messages into erasures: their vectors cannot be used, or (a worker failed) will not come this round."""
        self.refused.update(messages)
        self._reachable = None
        if self._is_in[list(self.refused)].any():
            self._take_back(self.refused)

    def hold(self, messages: Iterable[int]) -> None:
        """Take back messages that cannot be trusted yet: they count again when they are added again."""
        self._reachable = None
        self._take_back(set(messages))

    def _take_back(self, messages: set[int]) -> None:
        kept = [message for message in self.arrived if message not in messages]
        self.arrived, self.session = [], self.decoder.begin()
        self._is_in[:] = False
        self._waiting_for[:] = self.code.messages_per_worker
        self._finished = 0
        for message in kept:
            self.add(message)
