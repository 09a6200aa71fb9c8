"""What a wait rule is, and what it may see."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from enum import Enum
from typing import ClassVar

import numpy as np

from erasurehead.arrays import Array, IntArray, Tree
from erasurehead.decoding.base import Decoder, Session
from erasurehead.errors import InvalidArgument


class Verdict(Enum):
    """What a rule says of the arrivals so far."""

    WAIT = "wait"
    STOP = "stop"
    NEVER = "never"
    """It cannot be met any more, whoever still answers."""


class NeverMet(InvalidArgument):
    """A rule that a code does not meet even when every message is in. Beside another rule, joined by |, it may stay."""


class View:
    """The arrivals of one round, without their vectors: all that a wait rule may see.

    The training loop and the simulator feed it; rules only read it.

    Attributes:
        step: the optimizer's step.
        elapsed: seconds since the order was submitted.
        arrived: messages that are in, in the order of their arrival.
        able: workers that can still answer, those that are done included.
        refused: messages that are erasures in this round although their worker lives.
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
        self._is_in = np.zeros(self.code.n_messages, dtype=bool)
        self._waiting_for = self.code.messages_per_worker.copy()
        self._finished = 0
        self._reachable: float | None = None

    @property
    def finished(self) -> int:
        """Number of workers whose messages are all in. A worker with nothing to send is never among them."""
        return self._finished

    @property
    def pending(self) -> IntArray:
        """Messages that may still come, ascending."""
        hoped = np.zeros(self.code.n_messages, dtype=bool)
        hoped[self.code.messages_of_workers(np.fromiter(self.able, dtype=np.int64))] = True
        hoped[list(self.refused)] = False
        return np.flatnonzero(hoped & ~self._is_in)

    @property
    def hopeful(self) -> bool:
        """Whether any message may still come: cheaper than to count those that are pending."""
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

    def add(self, message: int) -> None:
        """Take note of an arrival. One that is in already (a replaced worker sends again) changes nothing."""
        if self._is_in[message]:
            return
        self._is_in[message] = True
        self.arrived.append(message)
        self.session.add(message)
        worker = int(self.code.owner[message])
        if worker not in self.able:
            self._reachable = None
        self._waiting_for[worker] -= 1
        self._finished += int(self._waiting_for[worker] == 0)

    def lose(self, worker: int) -> None:
        """Take note that a worker will not answer any more; what it sent stays."""
        self.able.discard(worker)
        self._reachable = None

    def regain(self, worker: int) -> None:
        """Take note that a worker will answer after all: it, or a replacement, has joined. What it sends is new."""
        self.able.add(worker)
        self.refused.difference_update(self.code.messages_of(worker).tolist())
        self._reachable = None

    def refuse(self, messages: Iterable[int]) -> None:
        """Turn messages into erasures: their vectors cannot be used, or (a worker failed) will not come this round."""
        self.refused.update(messages)
        self._reachable = None
        if self._is_in[list(self.refused)].any():
            self._take_back(self.refused)

    def doubt(self, messages: Iterable[int]) -> None:
        """Take messages back out that cannot be trusted yet: they count again when they are added once more."""
        self._reachable = None
        self._take_back(set(messages))

    def _take_back(self, messages: set[int]) -> None:
        kept = [message for message in self.arrived if message not in messages]
        self.arrived, self.session = [], self.decoder.begin()
        self._is_in[:] = False
        self._waiting_for, self._finished = self.code.messages_per_worker.copy(), 0
        for message in kept:
            self.add(message)


def scaled_count(count: int, before: int, after: int) -> int:
    """Return the part of `after` workers that `count` is of `before`, rounded up.

    >>> scaled_count(11, 30, 20)
    8
    """
    return -(-count * after // before)


class WaitRule(ABC):
    """When to stop waiting: arrivals so far -> stop or go on (the ErasureHead paper's delta). Combine with | and &.

    Attributes:
        lasting: whether a rule that is met stays so when more arrives.
    """

    lasting: ClassVar[bool] = True

    @abstractmethod
    def verdict(self, view: View) -> Verdict:
        """Say whether to stop now."""

    def wake(self, view: View) -> float | None:
        """Return the elapsed seconds at which to ask again although nothing has arrived, or None.

        When that time has come, `view.elapsed` is at least what was returned here, so that a rule may compare the two.
        A time that is past, at which the rule has been asked already, is as good as None.
        """
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

    def stop_times_since(self, times: Array, decoder: Decoder, since: Array) -> Array:
        """Return the first time, not before `since`, at which the rule is met, shape (rounds,).

        Arguments:
            times, decoder: as for `stop_times`.
            since: in seconds since the order, shape (rounds,).
        """
        return np.maximum(self.stop_times(times, decoder), since)

    def check(self, decoder: Decoder) -> None:
        """Raise `InvalidArgument` if this rule asks for what the code does not have.

        Raises:
            InvalidArgument: it can never be met, even when everybody answers; `NeverMet` where that is a matter of
                the code's residual.
        """
        return

    def for_workers(self, before: int, after: int) -> WaitRule:
        """Return the rule for another number of workers: it waits for as large a share of them."""
        return self

    def state(self) -> Tree:
        """Return all that `restore` needs to continue to the bit: nothing, for a rule that learns nothing."""
        return {}

    def restore(self, state: Tree) -> None:
        """Continue from a state."""
        return

    @abstractmethod
    def __str__(self) -> str:
        """Return the rule as it is written in a configuration: `"first(11) | decodable()"`."""

    def __or__(self, other: WaitRule) -> WaitRule:
        from erasurehead.waiting.combined import AnyOf

        return self if self == other else AnyOf((self, other))

    def __and__(self, other: WaitRule) -> WaitRule:
        from erasurehead.waiting.combined import AllOf

        return self if self == other else AllOf((self, other))
