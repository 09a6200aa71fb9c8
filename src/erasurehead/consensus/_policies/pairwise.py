"""AD-PSGD: each step averages with one neighbour, which continues computing meanwhile; no step waits."""

from __future__ import annotations

from bisect import bisect
from dataclasses import dataclass
from typing import Literal, final

from erasurehead._internal.arrays import Array
from erasurehead.consensus._contract import Message
from erasurehead.consensus._peers import LocalPeer, Setup
from erasurehead.consensus._policies.base import Policy
from erasurehead.errors import invalid


@final
@dataclass(frozen=True)
class Pairwise(Policy):
    """Asynchronous decentralised SGD (Lian et al., 2018): after each gradient a peer and one neighbour average.

    The neighbour adopts the average at once, while it computes a gradient, which it will apply to the changed model. A
    neighbour that is averaging with another peer refuses, and the step ends without averaging.

    Arguments:
        partners: which neighbour is asked: a `"random"` one, as published; or all of them `"in turn"`, where each peer
            begins at its own place among its neighbours, so that not all ask the same ones.
    """

    partners: Literal["random", "in turn"] = "random"

    def __post_init__(self) -> None:
        if self.partners not in ("random", "in turn"):
            raise invalid("partners", "must be 'random' or 'in turn'", self.partners)

    def peer(self, setup: Setup) -> LocalPeer:
        return PairwisePeer(setup)

    def __str__(self) -> str:
        return "pairwise()" if self.partners == "random" else f"pairwise(partners={self.partners!r})"


@final
class PairwisePeer(LocalPeer):
    """A peer that averages with one neighbour at a time."""

    checkpointed = ("partner",)

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.policy: Pairwise = setup.policy
        self.partner: int | None = None

    def offer(self) -> None:
        if self.neighbours:
            if self.policy.partners == "random":
                number = _random_bits(self.setup.seed, self.peer, self.attempts)
            else:
                number = bisect(self.neighbours, self.peer) + self.attempts
            self.partner = self.neighbours[number % len(self.neighbours)]
            self.port.send(self.partner, Message("ask", self.steps, (), self.vector))

    def on_message(self, sender: int, message: Message) -> None:
        if self.handle_rejoin(sender, message):
            return
        if message.tag == "ask":
            assert message.vector is not None
            if self.partner is not None or self.ready is not None or self.rejoining:
                self.port.send(sender, Message("busy", message.round))
                return
            own = self.algorithm.vector(self.memory)
            self.port.send(sender, Message("give", message.round, (), own))
            self._average_with(own, sender, message.vector)
        elif sender == self.partner and message.round == self.steps:
            self.partner = None
            if message.vector is None:
                self.finish((), self.steps, 2)
            else:
                self.finish([(sender, 0.5, message.vector)], self.steps, 2)

    def _average_with(self, own: Array, sender: int, vector: Array) -> None:
        low, high = (own, vector) if self.peer < sender else (vector, own)
        self.algorithm.adopt(self.memory, low * 0.5 + high * 0.5, self.setup.rate(self.steps))

    def settle(self) -> None:
        if self.ready is not None and self.partner is None and not self.rejoining:
            self.finish((), self.steps, 0)  # the partner is gone, or there are no neighbours

    def on_neighbour_gone(self, peer: int) -> None:
        if peer == self.partner:
            self.partner = None


def _random_bits(seed: int, peer: int, attempt: int) -> int:
    """Return 53 pseudorandom bits: splitmix64 of the arguments."""
    value = (seed * 0x9E3779B97F4A7C15 + peer * 0xBF58476D1CE4E5B9 + attempt * 0x94D049BB133111EB) & (2**64 - 1)
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
    return (value ^ (value >> 31)) >> 11
