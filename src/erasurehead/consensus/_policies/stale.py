"""Bounded staleness: mixing with the newest vectors of the neighbours, if none of them is too many steps behind."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from erasurehead._internal.arrays import Array
from erasurehead.consensus._contract import Message, Port
from erasurehead.consensus._graphs import Sides
from erasurehead.consensus._peers import LocalPeer, Setup
from erasurehead.consensus._policies.base import Policy
from erasurehead.errors import check_count


@final
@dataclass(frozen=True)
class BoundedStaleness(Policy):
    """A step mixes with the newest vector of each neighbour, and waits for neighbours that are too many steps behind.

    The mixing weights are those of the whole graph, symmetric and doubly stochastic, but the two ends of a link apply
    them to vectors of different steps: the mean of the models is preserved only in the long run, not by each step.
    Gradient tracking, which relies on the mean, is biased.

    Arguments:
        steps: number of steps that a neighbour may be behind; with 0, a peer waits for as long as with `full()`.
    """

    steps: int = 4

    def __post_init__(self) -> None:
        check_count("steps", self.steps, at_least=0)

    def peer(self, setup: Setup) -> LocalPeer:
        return StalePeer(setup)

    def __str__(self) -> str:
        return f"bounded_staleness(steps={self.steps})"


@final
class StalePeer(LocalPeer):
    """A peer that mixes with the newest vectors that have arrived."""

    checkpointed = ("offers", "bases")

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.policy: BoundedStaleness = setup.policy
        first = self.algorithm.vector(self.memory)
        self.offers: dict[int, tuple[int, int, Array]] = {  # neighbour -> step, degree, vector
            peer: (-1, len(setup.view.neighbours[peer]), first) for peer in self.neighbours
        }
        # By neighbour: own step and its step from which staleness is counted.
        self.bases: dict[int, tuple[int, int]] = dict.fromkeys(self.neighbours, (0, 0))

    def offer(self) -> None:
        message = Message("offer", self.steps, (self.steps, len(self.neighbours)), self.vector)
        for peer in self.neighbours:
            self.port.send(peer, message)

    def on_message(self, sender: int, message: Message) -> None:
        if self.handle_rejoin(sender, message):
            return
        assert message.vector is not None
        self.offers[sender] = message.data[0], message.data[1], message.vector
        if sender not in self.bases:  # new neighbour: staleness counts from now on
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

    def on_rejoin(self, gone: frozenset[int], sides: Sides, number: int, port: Port) -> None:
        super().on_rejoin(gone, sides, number, port)
        self.offers, self.bases = {}, {}

    def resend(self, peer: int) -> None:
        if self.ready is not None:
            self.port.send(peer, Message("offer", self.steps, (self.steps, len(self.neighbours)), self.vector))

    def on_neighbour_gone(self, peer: int) -> None:
        self.offers.pop(peer, None)
        self.bases.pop(peer, None)
