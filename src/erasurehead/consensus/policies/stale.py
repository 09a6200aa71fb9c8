"""Bounded staleness: mixing with the neighbours' latest vectors, as long as none is too far behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from erasurehead._internal.arrays import Array
from erasurehead.consensus.contract import Message, Port
from erasurehead.consensus.peers import LocalPeer, Setup
from erasurehead.consensus.policies.base import Policy
from erasurehead.errors import check_count


@final
@dataclass(frozen=True)
class BoundedStaleness(Policy):
    """A step mixes with the newest vector of each neighbour, and waits for those that are too many steps behind.

    The weights are those of the whole graph, symmetric and doubly stochastic, but the two ends of a link use them on
    vectors of different steps: the mean of the models is preserved only in the long run, not by each step. Gradient
    tracking, which relies on that sum, is biased here.

    Arguments:
        steps: how many steps a neighbour may be behind; 0 waits as long as full waiting does.
    """

    steps: int = 4
    keeps_mean = False

    def __post_init__(self) -> None:
        check_count("steps", self.steps, at_least=0)

    def peer(self, setup: Setup) -> LocalPeer:
        return StalePeer(setup)

    def __str__(self) -> str:
        return f"bounded_staleness(steps={self.steps})"


@final
class StalePeer(LocalPeer):
    """A peer that mixes with the vectors that have arrived."""

    kept = ("offers", "bases")

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.policy: BoundedStaleness = setup.policy
        first = self.algorithm.vector(self.memory)
        self.offers: dict[int, tuple[int, int, Array]] = {
            peer: (-1, len(setup.view.neighbours[peer]), first) for peer in self.neighbours
        }
        self.bases: dict[int, tuple[int, int]] = dict.fromkeys(self.neighbours, (0, 0))

    def offer(self) -> None:
        message = Message("offer", self.steps, (self.steps, len(self.neighbours)), self.vector)
        for peer in self.neighbours:
            self.port.send(peer, message)

    def on_message(self, sender: int, message: Message) -> None:
        if self.joined(sender, message):
            return
        assert message.vector is not None
        self.offers[sender] = message.data[0], message.data[1], message.vector
        if sender not in self.bases:  # steps are counted from when they met
            self.bases[sender] = self.steps, message.data[0]

    def settle(self) -> None:
        if self.ready is None:
            return
        least = self.steps - self.policy.steps
        offers = self.offers
        for peer in self.neighbours:
            if peer in offers:
                own, theirs = self.bases[peer]
                if offers[peer][0] - theirs < least - own:
                    return
        own = len(self.neighbours)
        links = [
            (peer, self.mixing.weight(self.peer, peer, own, offers[peer][1]), offers[peer][2])
            for peer in self.neighbours
            if peer in offers
        ]
        self.finish(links, self.steps)

    def on_return(self, gone: frozenset[int], sides: tuple[frozenset[int], ...], number: int, port: Port) -> None:
        super().on_return(gone, sides, number, port)
        self.offers, self.bases = {}, {}

    def repeat(self, peer: int) -> None:
        if self.ready is not None:
            self.port.send(peer, Message("offer", self.steps, (self.steps, len(self.neighbours)), self.vector))

    def forget(self, peer: int) -> None:
        self.offers.pop(peer, None)
        self.bases.pop(peer, None)
