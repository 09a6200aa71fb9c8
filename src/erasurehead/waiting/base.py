"""What a wait rule is, and what it may see."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from erasurehead.arrays import Array, IntArray
from erasurehead.decoding.base import Decoder, Session

if TYPE_CHECKING:
    from erasurehead.waiting.combined import AllOf, AnyOf


class Verdict(Enum):
    """What a rule says of the arrivals so far."""

    WAIT = "wait"
    STOP = "stop"
    NEVER = "never"
    """It cannot be met any more, whoever still answers."""


class View:
    """The arrivals of one round, without their vectors: all that a wait rule may see.

    The training loop and the simulator feed it; rules only read it.

    Attributes:
        step: the optimizer's step.
        elapsed: seconds since the order was submitted.
        arrived: messages that are in, in the order of their arrival.
        able: workers that can still answer, those that are done included.
        session: the decoding so far.
    """

    def __init__(self, decoder: Decoder, step: int = 0, able: Iterable[int] | None = None) -> None:
        self.decoder = decoder
        self.code = decoder.code
        self.step = step
        self.elapsed = 0.0
        self.able: set[int] = set(range(self.code.n_workers) if able is None else able)
        self.arrived: list[int] = []
        self.refused: set[int] = set()
        self.session: Session = decoder.begin()
        self._waiting_for = self.code.messages_per_worker.copy()
        self._finished = int((self._waiting_for == 0).sum())
        self._reachable: float | None = None

    @property
    def finished(self) -> int:
        """Number of workers whose messages are all in."""
        return self._finished

    @property
    def pending(self) -> IntArray:
        """Messages that may still come, ascending."""
        hoped = np.zeros(self.code.n_messages, dtype=bool)
        hoped[self.code.messages_of_workers(np.fromiter(self.able, dtype=np.int64))] = True
        hoped[list(self.refused)] = False
        hoped[self.arrived] = False
        return np.flatnonzero(hoped)

    @property
    def whole(self) -> bool:
        """Whether every message of the code has come or may still come."""
        return len(self.able) == self.code.n_workers and not self.refused

    def can_finish(self) -> int:
        """Return how many workers will be finished if everybody who still can answers."""
        owners_refused = {int(self.code.owner[message]) for message in self.refused}
        done = set(np.flatnonzero(self._waiting_for == 0).tolist())
        return len(done | (self.able - owners_refused))

    def reachable_residual(self) -> float:
        """Return the residual if every message that may still come does come."""
        if self._reachable is None:
            self._reachable = self.decoder.residual([*self.arrived, *self.pending.tolist()])
        return self._reachable

    def add(self, message: int) -> None:
        """Take note of an arrival."""
        self.arrived.append(message)
        self.session.add(message)
        worker = self.code.owner[message]
        self._waiting_for[worker] -= 1
        self._finished += int(self._waiting_for[worker] == 0)

    def lose(self, worker: int) -> None:
        """Take note that a worker will not answer any more; what it sent stays."""
        self.able.discard(worker)
        self._reachable = None

    def regain(self, worker: int) -> None:
        """Take note that a worker will answer after all: it, or a replacement, has joined."""
        self.able.add(worker)
        self._reachable = None

    def refuse(self, messages: Iterable[int]) -> None:
        """Turn arrived messages into erasures: their vectors cannot be used."""
        self.refused.update(messages)
        kept = [message for message in self.arrived if message not in self.refused]
        again = View(self.decoder, self.step, self.able)
        for message in kept:
            again.add(message)
        self.arrived, self.session = again.arrived, again.session
        self._waiting_for, self._finished = again._waiting_for, again._finished
        self._reachable = None


class WaitRule(ABC):
    """When to stop waiting: arrivals so far -> stop or go on (the ErasureHead paper's delta). Combine with | and &."""

    @abstractmethod
    def verdict(self, view: View) -> Verdict:
        """Say whether to stop now."""

    def wake(self, view: View) -> float | None:
        """Return the elapsed seconds at which to ask again although nothing has arrived, or None."""
        return None

    @abstractmethod
    def stop_times(self, times: Array, decoder: Decoder) -> Array:
        """Apply the same rule to whole rounds at once, for the planner.

        Arguments:
            times: when each message arrives, in seconds since the order; inf if never. Shape (rounds, n_messages).
            decoder: of the code in question.

        Returns:
            When the rule stops, shape (rounds,); inf where it never does. Rounds are taken as independent.
        """

    def check(self, decoder: Decoder) -> None:
        """Raise `InvalidArgument` if this rule can never be met with this code, even when everybody answers."""
        return

    @abstractmethod
    def __str__(self) -> str:
        """Return the rule as it is written in a configuration: `"first(11) | decodable()"`."""

    def __or__(self, other: WaitRule) -> AnyOf:
        from erasurehead.waiting.combined import AnyOf

        return AnyOf((self, other))

    def __and__(self, other: WaitRule) -> AllOf:
        from erasurehead.waiting.combined import AllOf

        return AllOf((self, other))
