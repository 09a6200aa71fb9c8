"""Links that both ends choose: neighbours that are ready meet; those that are not continue computing, and meet later.

How two of them agree
---------------------

A link is between a step of one peer and a step of the other; each message names both. A peer is *computing*; *open*,
with its vector there and links to be made; or *closed*, when its policy says that these are enough: it waits for what
it has promised, mixes, and computes again. In an open step it stands to each neighbour in one of these ways:

=========  =====================================  ==============================================================
stands as  meaning                                goes on to
=========  =====================================  ==============================================================
free       nothing is promised                    promised, when an offer of the neighbour is there
promised   the link is real if the neighbour      real, by the neighbour's promise; passed, if it says that its step
           promises the same two steps            is closed; free, if that step is over; promised to a newer step,
                                                  if that is offered while this one is open
real       both ends have promised                never back, but by a change of the network
passed     the neighbour had closed its step      promised to a newer step, if that is offered while this one is open
=========  =====================================  ==============================================================

Messages: an *offer* has the vector, and is a promise where it names a step of the receiver. A ready peer *answers* each
offer at once: with a promise if it is open and not linked yet, else by saying that it has closed its step. A promise
for a step that the receiver has not promised is always answered: by a promise, or by a refusal. A computing peer says
nothing to an offer that promises nothing: it will offer, and promise, when it is ready. When a closed peer knows what
has become of all its promises it tells its links how many they are, and mixes when it knows as much of them.

Why nobody waits for ever: a promise is answered without waiting for anything; a closed peer waits for the numbers of
peers that are closed, or will be; an open peer waits for peers that compute. No promise is taken back, so both ends
agree. Messages of one sender come in their order, and a vector is only left out when its sender's newer ones are there:
whoever has promised sends none before it is answered.

A refusal is for good: the step that it is for is closed, or over, and stays so.

Messages get lost where the network changes: those across a cut, to or from who is gone. So after each change a ready
peer repeats its offer, with what it has promised, to all of its neighbours; they answer again, also for the step that
they have mixed last. Whatever comes twice changes nothing. Two ends that a cut parts while they agree may see it
differently: one may have mixed, and the other not.

`tests/consensus/test_interleavings.py` goes through all that can happen among a few peers.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import final

from erasurehead._internal.arrays import Array
from erasurehead.consensus._contract import Message
from erasurehead.consensus._graphs import Graph
from erasurehead.consensus._peers import LocalPeer, Setup
from erasurehead.consensus._policies.base import Policy
from erasurehead.errors import InvalidArgument, check_count, invalid

_NO, _YES, _NOT_NOW = 0, 1, 2
"""Answers: the step that was promised to is closed; a promise in return; that step is over."""

_WINDOW = 8
"""Steps for each neighbour within which `Local` meets all of them, unless its window is stated."""


class RendezvousPeer(LocalPeer):
    """A peer that offers its vector, and closes its step when enough neighbours have met it.

    A link is realised if each end was still open when the other's offer arrived, which the end that offered first
    reports in an answer (both do, if their offers cross). So both ends agree, however long a message takes. A peer that
    is late meets whichever peers are open then. The head of this file has the rules, and why nobody waits for ever.
    Its `setup` is made by the run.
    """

    checkpointed = ("offers", "partners", "open", "links", "degrees", "told", "met", "overtaken")

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.offers: dict[int, tuple[int, Array]] = {}  # the newest of each neighbour: its step, its vector
        self.open = False
        self.links: dict[int, bool | None] = {}  # of this step: real, passed, or None for promised; not there: free
        self.partners: dict[int, tuple[int, Array]] = {}  # the offers that these are with
        self.degrees: dict[int, int] = {}  # how many links they have at their other ends
        self.told: int | None = None  # how many this end has said that it has; that stands, whoever leaves then
        self.met: dict[int, tuple[int, int, int]] = {}  # by neighbour the last link: own step, its step, own degree
        self.overtaken: dict[int, int] = {}  # offers of each neighbour since this peer began to compute

    @abstractmethod
    def enough(self) -> bool:
        """Return whether to close the step, depending on `linked` and `passed`."""

    def linked(self) -> list[int]:
        """Return the neighbours with a realised link in this step."""
        return [peer for peer, real in self.links.items() if real]

    def passed(self) -> list[int]:
        """Return the neighbours that had closed their step when this peer's offer came."""
        return [peer for peer, real in self.links.items() if real is False]

    def start(self) -> None:
        self.open, self.told = False, None
        self.links, self.partners, self.degrees, self.overtaken = {}, {}, {}, {}
        super().start()

    def offer(self) -> None:
        self.open = True
        for peer in self.neighbours:
            self.resend(peer)

    def resend(self, peer: int) -> None:
        if self.ready is None:
            return
        if self.open and peer not in self.links:
            offer = self.offers.get(peer)
            if offer is not None and (peer not in self.met or offer[0] != self.met[peer][1]):
                self.links[peer], self.partners[peer] = None, offer
        promised = self.partners[peer][0] if peer in self.links and self.links[peer] is not False else -1
        self.port.send(peer, Message("offer", self.steps, (promised,), self.vector))

    def on_message(self, sender: int, message: Message) -> None:
        if self.handle_rejoin(sender, message) or sender not in self.neighbours:
            return
        if message.tag == "offer":
            self._on_offer(sender, message)
        elif message.tag == "answer":
            code, mine = message.data
            self._on_answer(sender, message.round, mine, code)
        elif self.links.get(sender) and self.partners[sender][0] == message.round:
            self.degrees[sender] = message.data[0]

    def _on_offer(self, sender: int, message: Message) -> None:
        """A neighbour is ready, and promises a link if it names a step of this peer."""
        assert message.vector is not None
        theirs, mine = message.round, message.data[0]
        before = self.offers.get(sender)
        self.offers[sender] = theirs, message.vector
        if mine >= 0 and self._have_met(sender, mine, theirs):  # it does not know that, as an answer was lost
            self._answer(sender, _YES, mine, theirs)
            self.port.send(sender, Message("degree", mine, self.met[sender][2:]))
        elif self.ready is None:
            if mine >= 0:
                self._answer(sender, _NOT_NOW, mine, theirs)
            if self.setup.preempt and not self.rejoining and (before is None or before[0] < theirs):
                self._be_overtaken(sender)
        elif sender in self.links and self.partners[sender][0] == theirs:
            if mine == self.steps and self.links[sender] is None:
                self.links[sender] = True
            self._answer(sender, _NO if self.links[sender] is False else _YES, self.steps, theirs)
            if self.told is not None and self.links[sender]:
                self.port.send(sender, Message("degree", self.steps, (self.told,)))
        elif self.open and not self.links.get(sender):
            self.partners[sender] = theirs, message.vector
            self.links[sender] = True if mine == self.steps else None
            self._answer(sender, _YES, self.steps, theirs)
        else:  # whoever is linked already has mixed, and is a step ahead: it is met again in the next step
            if self.links.get(sender, True) is None:  # the step that was promised to is over
                del self.links[sender]
            self._answer(sender, _NO, self.steps, theirs)

    def _on_answer(self, sender: int, theirs: int, mine: int, code: int) -> None:
        """A neighbour says what becomes of a link between two steps, of which it knows this peer's by an offer."""
        now = self.ready is not None and mine == self.steps
        if now and sender in self.links and self.partners[sender][0] == theirs:
            if self.links[sender] is None:
                if code == _NOT_NOW:
                    del self.links[sender]
                else:
                    self.links[sender] = code == _YES
        elif code == _YES and not self._have_met(sender, mine, theirs):
            offer = self.offers.get(sender)
            if not now or not self.open or self.links.get(sender):
                self._answer(sender, _NO if now else _NOT_NOW, mine, theirs)
            elif offer is not None and offer[0] == theirs:
                self.links[sender], self.partners[sender] = True, offer
                self._answer(sender, _YES, mine, theirs)
            # else its offer is still to come, repeated; a refusal must be for good

    def _answer(self, peer: int, code: int, mine: int, theirs: int) -> None:
        self.port.send(peer, Message("answer", mine, (code, theirs)))

    def _have_met(self, peer: int, mine: int, theirs: int) -> bool:
        return peer in self.met and self.met[peer][:2] == (mine, theirs)

    def _be_overtaken(self, sender: int) -> None:
        """Drop late work when all neighbours have done a step without it."""
        self.overtaken[sender] = self.overtaken.get(sender, 0) + 1
        if all(self.overtaken.get(peer, 0) > 1 for peer in self.neighbours):
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
        for peer, answer in self.links.items():
            if answer is None:
                return
            if answer:
                real.append(peer)
        real.sort()
        own = len(real)
        if self.mixing.needs_degrees:
            if self.told is None:
                self.told = own
                degree = Message("degree", self.steps, (own,))
                for peer in real:
                    self.port.send(peer, degree)
            if len(self.degrees) < own:
                return
            own = self.told
        terms = list[tuple[int, float, Array]]()
        for peer in real:
            theirs, vector = self.partners[peer]
            terms.append((peer, self.mixing.weight(self.peer, peer, own, self.degrees.get(peer, 0)), vector))
            self.met[peer] = self.steps, theirs, own
        self.take_note(real)
        self.finish(terms, self.steps, 2 if self.mixing.needs_degrees and real else 1)

    def take_note(self, peers: list[int]) -> None:
        """Record the peers that this one mixes with."""
        return

    def on_neighbour_gone(self, peer: int) -> None:
        for kept in (self.offers, self.partners, self.links, self.degrees, self.met, self.overtaken):
            kept.pop(peer, None)


@final
@dataclass(frozen=True)
class Static(Policy):
    """Waiting for the k fastest neighbours, always the same number: the others are backup workers.

    Arguments:
        wait_for: k; a peer that has fewer neighbours waits for all of them.
        backup: number of neighbours that are not waited for, instead of k; fewer than any peer has.
    """

    wait_for: int | None = None
    backup: int | None = None

    def __post_init__(self) -> None:
        if (self.wait_for is None) == (self.backup is None):
            sentence = "static needs exactly one of wait_for and backup."
            raise InvalidArgument(
                "wait_for", "must be given if backup is not, and left out if it is", sentence=sentence
            )
        if self.wait_for is not None:
            check_count("wait_for", self.wait_for)
        if self.backup is not None:
            check_count("backup", self.backup, at_least=0)

    def check(self, graph: Graph) -> None:
        if self.backup is not None and self.backup >= min(graph.degrees):
            peer = graph.degrees.index(min(graph.degrees))
            raise invalid(
                "backup",
                f"must leave every peer a neighbour to wait for, and peer {peer} has {graph.degrees[peer]}",
                self.backup,
                f"at most {min(graph.degrees) - 1} backup workers, or static(wait_for=1)",
            )
        if self.wait_for is not None and self.wait_for > max(graph.degrees):
            raise invalid(
                "wait_for",
                f"must be at most the largest number of neighbours of a peer ({max(graph.degrees)})",
                self.wait_for,
            )

    def peer(self, setup: Setup) -> LocalPeer:
        return StaticPeer(setup)

    def __str__(self) -> str:
        return f"static(wait_for={self.wait_for})" if self.backup is None else f"static(backup={self.backup})"


@final
class StaticPeer(RendezvousPeer):
    """A peer that waits for the k fastest neighbours."""

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.policy: Static = setup.policy

    def enough(self) -> bool:
        many = len(self.neighbours)
        wanted = self.policy.wait_for if self.policy.backup is None else many - self.policy.backup
        assert wanted is not None
        needed = wanted if many > wanted > 0 else many  # with too few neighbours for the rule, all of them
        met = 0
        for real in self.links.values():
            if real is not None:
                met += 1
        if met >= needed:
            return True
        return len(self.linked()) + len(self.passed()) >= needed


@final
@dataclass(frozen=True)
class Local(Policy):
    """Waiting for any neighbour, and for those not met for long: dynamic backup workers by local means.

    An approximation of DTUR without its minimum over the network: no tree, no epochs, and no message but those of
    the links. Every link is realised at least once within a window of steps of its ends, so that the
    union of the graphs over a window is the whole graph, as long as all peers answer at all.

    A window should leave time for all neighbours: a step meets one or two of them, and if the window is as short as
    their number, every step waits for some neighbour, even if it is the slowest.

    Arguments:
        window: steps after which a neighbour that was not met is waited for; None for eight steps for each neighbour
            that a peer has.
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
    """A peer that waits for any neighbour, and for those that it has not met for long."""

    checkpointed = (*RendezvousPeer.checkpointed, "last_met")

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

    def take_note(self, peers: list[int]) -> None:
        for peer in peers:
            self.last_met[peer] = self.steps

    def on_neighbour_gone(self, peer: int) -> None:
        super().on_neighbour_gone(peer)
        self.last_met.pop(peer, None)
