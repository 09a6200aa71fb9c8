"""The policy that waits for all neighbours, as published decentralised SGD does: the baseline of the others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from erasurehead._internal.arrays import Array
from erasurehead.consensus._contract import Message
from erasurehead.consensus._peers import LocalPeer, Setup
from erasurehead.consensus._policies.base import Policy


@final
@dataclass(frozen=True)
class Full(Policy):
    """D-PSGD (Lian et al., 2017): a step mixes when the vectors of all neighbours have arrived. No global barrier."""

    def peer(self, setup: Setup) -> LocalPeer:
        return FullPeer(setup)

    def __str__(self) -> str:
        return "full()"


@final
class FullPeer(LocalPeer):
    """A peer that waits for all of its neighbours, each of which may be up to one round ahead."""

    checkpointed = ("offers", "newest")

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.offers: dict[tuple[int, int], tuple[int, Array]] = {}  # neighbour, round -> its degree, its vector
        self.newest: dict[int, int] = {}  # neighbour -> its newest round

    def offer(self) -> None:
        ahead = [round for peer in self.neighbours if (round := self.newest.get(peer, -1)) > self.round + 1]
        if ahead:  # neighbours have continued without this peer: catch up
            self.round = max(ahead)
        message = Message("offer", self.round, (len(self.neighbours),), self.vector)
        for peer in self.neighbours:
            self.port.send(peer, message)

    def on_message(self, sender: int, message: Message) -> None:
        if self.handle_rejoin(sender, message):
            return
        assert message.vector is not None
        self.offers[sender, message.round] = message.data[0], message.vector
        self.newest[sender] = max(message.round, self.newest.get(sender, -1))

    def settle(self) -> None:
        round = self.round
        if self.ready is None:
            return
        for peer in self.neighbours:
            if self.newest.get(peer, -1) < round:
                return
        links: list[tuple[int, float, Array]] = []
        own = len(self.neighbours)
        for peer in self.neighbours:
            offer = self.offers.pop((peer, round), None)
            if offer is not None:
                links.append((peer, self.mixing.weight(self.peer, peer, own, offer[0]), offer[1]))
        if len(self.offers) > len(self.neighbours):
            self.offers = {key: offer for key, offer in self.offers.items() if key[1] > round}
        self.round = round + 1
        self.finish(links, round)

    def resend(self, peer: int) -> None:
        if self.ready is not None:
            self.port.send(peer, Message("offer", self.round, (len(self.neighbours),), self.vector))

    def on_neighbour_gone(self, peer: int) -> None:
        self.newest.pop(peer, None)
        self.offers = {key: offer for key, offer in self.offers.items() if key[0] != peer}
