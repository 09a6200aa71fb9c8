"""Links that both ends choose: neighbours that are ready meet, those who are not go on computing and meet later."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import final

from erasurehead._internal.arrays import Array
from erasurehead.consensus.contract import Message
from erasurehead.consensus.graphs import Graph
from erasurehead.consensus.peers import LocalPeer, Setup
from erasurehead.consensus.policies.base import Policy
from erasurehead.errors import InvalidArgument, check_count, invalid

_NO, _YES, _NOT_NOW = 0, 1, 2
"""Answers to an offer: the peer has closed its step, is open, or is computing and will offer later."""

_WINDOW = 8
"""Steps for each neighbour within which `Local` meets all of them, unless its window is stated."""


class RendezvousPeer(LocalPeer):
    """One who offers its vector, and closes its step when enough neighbours have met it.

    A link is realised if each end was still open when the other's offer came, which the one who offered first says in
    an answer (both do, where their offers cross). So both ends agree, whatever time a message takes. Who comes late
    meets whoever is open then. Each neighbour is open, has closed its step, which it says, or is computing and will
    offer: so nobody waits for ever.
    """

    kept = ("offers", "partners", "open", "links", "degrees", "told", "taken", "overtaken")

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.offers: dict[int, tuple[int, Array]] = {}  # the newest of each neighbour: its step, its vector
        self.partners: dict[int, tuple[int, Array]] = {}  # the offers that the links of this step are with
        self.taken: dict[int, int] = {}  # the step of each neighbour's offer that was mixed with last
        self.open = False
        self.links: dict[int, bool | None] = {}  # of this step; None where an answer is outstanding
        self.degrees: dict[tuple[int, int], int] = {}  # neighbour, its step -> its links
        self.told = False
        self.overtaken: dict[int, int] = {}  # offers of each neighbour since this peer began to compute

    @abstractmethod
    def enough(self) -> bool:
        """Return whether the step is to be closed, going by `linked` and `passed`."""

    def linked(self) -> list[int]:
        """Return the neighbours that a link of this step is realised with."""
        return [peer for peer, real in self.links.items() if real]

    def passed(self) -> list[int]:
        """Return the neighbours that had closed their step when this peer's offer came."""
        return [peer for peer, real in self.links.items() if real is False]

    def start(self) -> None:
        self.open, self.told = False, False
        self.links, self.partners, self.overtaken = {}, {}, {}
        super().start()

    def offer(self) -> None:
        self.open, step, vector = True, self.steps, self.vector
        bare = Message("offer", step, (-1,), vector)
        for peer in self.neighbours:
            there = self.offers.get(peer)
            if there is None or there[0] == self.taken.get(peer, -1):
                self.port.send(peer, bare)
            else:
                self.links[peer], self.partners[peer] = None, there
                self.port.send(peer, Message("offer", step, (there[0],), vector))

    def on_message(self, sender: int, message: Message) -> None:
        if self.joined(sender, message) or sender not in self.neighbours:
            return
        if message.tag == "offer":
            self._on_offer(sender, message)
        elif message.tag == "answer":
            code, mine = message.data
            if self.ready is not None and mine == self.steps and self.links.get(sender, True) is None:
                if code == _NOT_NOW:
                    del self.links[sender]
                else:
                    self.links[sender] = code == _YES
        else:
            self.degrees[sender, message.round] = message.data[0]

    def _on_offer(self, sender: int, message: Message) -> None:
        assert message.vector is not None
        theirs, seen = message.round, message.data[0]
        self.offers[sender] = theirs, message.vector
        if self.ready is not None:
            # Whoever is linked already has mixed, and is a step ahead: it is met again in the next step.
            opens = self.open and not self.links.get(sender)
            self.port.send(sender, Message("answer", self.steps, (_YES if opens else _NO, theirs)))
            if opens:
                self.partners[sender] = theirs, message.vector
                if seen == self.steps:
                    self.links[sender] = True
                else:
                    self.links[sender] = None
            return
        if seen >= 0:
            self.port.send(sender, Message("answer", self.steps, (_NOT_NOW, theirs)))
        if self.setup.preempt and not self.joining:
            self.overtaken[sender] = self.overtaken.get(sender, 0) + 1
            if all(self.overtaken.get(peer, 0) > 1 for peer in self.neighbours):  # all have done a step without it
                self.port.drop_work()
                self.start()

    def settle(self) -> None:
        if self.ready is None:
            return
        if self.open:
            if not self.enough():
                return
            self.open = False
        real: list[int] = []
        for peer, there in self.links.items():
            if there is None:
                return
            if there:
                real.append(peer)
        real.sort()
        if self.mixing.needs_degrees:
            if not self.told:
                self.told = True
                degree = Message("degree", self.steps, (len(real),))
                for peer in real:
                    self.port.send(peer, degree)
            for peer in real:
                if (peer, self.partners[peer][0]) not in self.degrees:
                    return
        own, found = len(real), list[tuple[int, float, Array]]()
        for peer in real:
            theirs, vector = self.partners[peer]
            degree = self.degrees.pop((peer, theirs), 0)
            found.append((peer, self.mixing.weight(self.peer, peer, own, degree), vector))
            self.taken[peer] = theirs
        self.met(real)
        self.finish(found, self.steps, 2 if self.mixing.needs_degrees and real else 1)

    def met(self, peers: list[int]) -> None:
        """Take note of whom the peer mixes with."""
        return

    def gain(self, peer: int) -> None:
        if self.ready is not None and self.open:
            self.port.send(peer, Message("offer", self.steps, (-1,), self.vector))

    def forget(self, peer: int) -> None:
        for kept in (self.offers, self.partners, self.taken, self.links, self.overtaken):
            kept.pop(peer, None)
        self.degrees = {key: degree for key, degree in self.degrees.items() if key[0] != peer}


@final
@dataclass(frozen=True)
class Static(Policy):
    """Waiting for the k fastest neighbours, always as many: the others are backup workers.

    Arguments:
        wait_for: k; a peer that has fewer neighbours waits for all of them.
        backup: the neighbours that are not waited for, instead of k; fewer than any peer has.
    """

    wait_for: int | None = None
    backup: int | None = None

    def __post_init__(self) -> None:
        if (self.wait_for is None) == (self.backup is None):
            raise InvalidArgument("static needs either wait_for or backup, and not both.")
        if self.wait_for is not None:
            check_count("wait_for", self.wait_for)
        if self.backup is not None:
            check_count("backup", self.backup, at_least=0)

    def check(self, graph: Graph) -> None:
        if self.backup is not None and self.backup >= min(graph.degrees):
            peer = graph.degrees.index(min(graph.degrees))
            raise invalid(
                "backup", f"must leave every peer a neighbour to wait for, and peer {peer} has {graph.degrees[peer]}",
                self.backup, f"at most {min(graph.degrees) - 1} backup workers, or static(wait_for=1)",
            )  # fmt: skip
        if self.wait_for is not None and self.wait_for > max(graph.degrees):
            raise invalid(
                "wait_for", f"must be at most the most neighbours that a peer has ({max(graph.degrees)})", self.wait_for
            )

    def peer(self, setup: Setup) -> LocalPeer:
        return StaticPeer(setup)

    def __str__(self) -> str:
        return f"static(wait_for={self.wait_for})" if self.backup is None else f"static(backup={self.backup})"


@final
class StaticPeer(RendezvousPeer):
    """One who waits for the k fastest."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.policy: Static = setup.policy

    def enough(self) -> bool:
        there = len(self.neighbours)
        wanted = self.policy.wait_for if self.policy.backup is None else there - self.policy.backup
        assert wanted is not None
        if there > wanted > 0:
            there = wanted
        met = 0
        for real in self.links.values():
            if real is not None:
                met += 1
        if met >= there:
            return True
        return len(self.linked()) + len(self.passed()) >= there


@final
@dataclass(frozen=True)
class Local(Policy):
    """Waiting for some neighbour, and for those that one has not met for long: dynamic backup by local means alone.

    An approximation of DTUR without its minimum over the network: no tree, no epochs, and no message but those of
    the links. Every link is realised at least once in so many steps of its ends as the window says, so that the
    union of the graphs over a window is the whole graph, as long as everybody answers at all.

    A window is to leave time for all neighbours: a step meets one or two of them, and where it is as short as their
    number every step waits for somebody, be it the slowest.

    Arguments:
        window: steps after which a neighbour that was not met is waited for; None for eight for each neighbour that a
            peer has.
        wait_for: the fewest neighbours that a step waits for.
    """

    window: int | None = None
    wait_for: int = 1

    def __post_init__(self) -> None:
        if self.window is not None:
            check_count("window", self.window)
        check_count("wait_for", self.wait_for)

    def peer(self, setup: Setup) -> LocalPeer:
        return LocallyDynamicPeer(setup)

    def __str__(self) -> str:
        window = "" if self.window is None else f"window={self.window}, "
        return f"local({window}wait_for={self.wait_for})"


@final
class LocallyDynamicPeer(RendezvousPeer):
    """One who waits for anybody, and for those that it has not met for long."""

    kept = (*RendezvousPeer.kept, "last_met")

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.policy: Local = setup.policy
        self.last_met: dict[int, int] = {}

    def enough(self) -> bool:
        linked, passed = self.linked(), self.passed()
        settled = {*linked, *passed}
        overdue = self.steps - (self.policy.window or _WINDOW * len(self.neighbours))
        for peer in self.neighbours:
            if self.last_met.get(peer, -1) < overdue and peer not in settled:
                return False
        return len(settled) >= min(self.policy.wait_for, len(self.neighbours))

    def met(self, peers: list[int]) -> None:
        for peer in peers:
            self.last_met[peer] = self.steps

    def forget(self, peer: int) -> None:
        super().forget(peer)
        self.last_met.pop(peer, None)
