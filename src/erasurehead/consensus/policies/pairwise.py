"""AD-PSGD: no step waits; each averages with one neighbour, which continues computing meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from erasurehead._internal.arrays import Array
from erasurehead.consensus.contract import Message
from erasurehead.consensus.peers import LocalPeer, Setup
from erasurehead.consensus.policies.base import Policy


@final
@dataclass(frozen=True)
class Pairwise(Policy):
    """Asynchronous decentralised SGD (Lian et al., 2018): after each gradient a peer and one random neighbour average.

    The neighbour adopts the average at once, in the middle of its own gradient, which it will apply to a model that
    has moved. A neighbour that is averaging with another peer refuses, and the step continues without it.
    """

    def peer(self, setup: Setup) -> LocalPeer:
        return PairwisePeer(setup)

    def __str__(self) -> str:
        return "pairwise()"


@final
class PairwisePeer(LocalPeer):
    """A peer that averages with one neighbour at a time."""

    kept = ("partner",)

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.partner: int | None = None

    def offer(self) -> None:
        if self.neighbours:
            number = _drawn(self.setup.seed, self.peer, self.attempts)
            self.partner = self.neighbours[number % len(self.neighbours)]
            self.port.send(self.partner, Message("ask", self.steps, (), self.vector))

    def on_message(self, sender: int, message: Message) -> None:
        if self.joined(sender, message):
            return
        if message.tag == "ask":
            assert message.vector is not None
            if self.partner is not None or self.ready is not None or self.joining:
                self.port.send(sender, Message("busy", message.round))
                return
            own = self.algorithm.vector(self.memory)
            self.port.send(sender, Message("give", message.round, (), own))
            self._meet(own, sender, message.vector)
        elif sender == self.partner and message.round == self.steps:
            self.partner = None
            if message.vector is None:
                self.finish((), self.steps, 2)
            else:
                self.finish([(sender, 0.5, message.vector)], self.steps, 2)

    def _meet(self, own: Array, sender: int, vector: Array) -> None:
        low, high = (own, vector) if self.peer < sender else (vector, own)
        self.algorithm.adopt(self.memory, low * 0.5 + high * 0.5, self.setup.rate(self.steps))

    def settle(self) -> None:
        if self.ready is not None and self.partner is None and not self.joining:
            self.finish((), self.steps, 0)  # nobody is left to average with

    def forget(self, peer: int) -> None:
        if peer == self.partner:
            self.partner = None


def _drawn(seed: int, peer: int, attempt: int) -> int:
    """Return a pseudorandom number: splitmix64 of the arguments."""
    value = (seed * 0x9E3779B97F4A7C15 + peer * 0xBF58476D1CE4E5B9 + attempt * 0x94D049BB133111EB) & (2**64 - 1)
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
    return (value ^ (value >> 31)) >> 11
