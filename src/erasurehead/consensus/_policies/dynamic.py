"""cb-DyBW: backup workers chosen again at each step, by the threshold rule DTUR (Xiong, Yan, Singh and Li, 2021)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, final

from erasurehead._internal.arrays import Array
from erasurehead._internal.documents import Entries
from erasurehead.consensus._contract import Message, Port
from erasurehead.consensus._graphs import Link, Sides
from erasurehead.consensus._peers import LocalPeer, Setup
from erasurehead.consensus._policies.base import Policy
from erasurehead.consensus._spanning_tree import Tree, spanning_tree
from erasurehead.consensus._views import NetworkView
from erasurehead.errors import invalid


@final
@dataclass(frozen=True)
class Dynamic(Policy):
    """The threshold of a step is the moment at which the first link of a tree is completed that was not yet complete in
    this epoch: `min over these links (i, j) of max(t_i, t_j)`. Peers whose gradients are ready by then
    (`t <= threshold`) take part, and mix with those of their neighbours that take part.

    An epoch ends when every link of the tree has been complete once: after at most as many steps as the tree has links,
    the union of the graphs is connected. A slow peer that is a leaf of the tree is waited for once per epoch; a cut
    vertex of the graph is never a leaf, and is waited for once for each of its links.

    A peer that completes a link reports it to the root of the tree, hop by hop; the first report to reach the root
    decides, and the root tells all peers, hop by hop. A round may have other links of the tree both of whose ends take
    part: those that were completed at the same moment, or whose reports take longer. They are complete, too, and the
    root is told of them afterwards. Times are of one clock: on several machines, of synchronised clocks. An offset
    changes the threshold, but both ends of a link compare the same two numbers, and agree.

    Arguments:
        tree: `"measured"` has slow peers as leaves, as measured by their steps, and is rebuilt after each epoch in
            which that has changed; `"fixed"` is built once, without knowing which peers are slow.
    """

    tree: Literal["measured", "fixed"] = "measured"

    def __post_init__(self) -> None:
        if self.tree not in ("measured", "fixed"):
            raise invalid("tree", "must be 'measured' or 'fixed'", self.tree)

    def peer(self, setup: Setup) -> LocalPeer:
        return DynamicPeer(setup)

    def __str__(self) -> str:
        return f"dynamic(tree={self.tree!r})"


@final
class DynamicPeer(LocalPeer):
    """A peer that takes part in a step of the whole network if it is ready by the threshold.

    Thresholds ascend, and an offer holds until the first one that is not before it, so that offers need no round
    number.

    The thresholds of a view are numbered, and every peer takes them in order: so all have the same open links and the
    same tree at the same number, whichever way a threshold has come to them, and it goes down the same tree to all.
    What belongs to a later number is held until then. What was said in an earlier view is void, but that a round was
    decided there. Links that are complete without having set a threshold are named with the next one; if they are the
    last ones of the epoch, the root ends it by repeating the threshold, under a number of its own.
    """

    checkpointed = (
        "offers",
        "open_links",
        "threshold",
        "before",
        "declared",
        "taking_part",
        "took",
        "links",
        "degrees",
        "early",
        "told",
        "hops",
        "best",
        "paces",
        "reports",
        "reported",
        "asked",
        "epochs",
        "newest",
        "at",
        "decided",
        "epoch_start",
        "held",
        "number",
        "also",
    )

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.policy: Dynamic = setup.policy
        self.offers: dict[int, tuple[float, Array]] = {}  # the newest of each neighbour: when it was ready, its vector
        self.threshold = self.before = -1.0  # of the last round that was decided, and of the one before it
        self.declared: frozenset[Link] = frozenset()  # links that it has reported since the last threshold
        self.best: tuple[float, frozenset[Link], int] | None = None  # what the root has heard: threshold, links, hops
        self.also: frozenset[Link] = frozenset()  # links that the root knows to be complete, and has not named yet
        self.taking_part: int | None = None  # the round that this peer is about to mix in
        self.took: dict[int, Array] = {}  # the vectors that it took in that round
        self.links: dict[int, bool] = {}  # what came of these
        self.degrees: dict[tuple[int, int], int] = {}  # neighbour, round -> its links
        self.at = -1.0  # the threshold of that round
        self.early: dict[tuple[int, float], int] = {}  # commitments to thresholds that were not heard of yet: rounds
        self.newest: tuple[Any, ...] = ()  # round and data of the last one
        self.decided = 0  # how many thresholds of this view it has taken
        self.epoch_start = 0  # how many it had taken when the epoch began
        self.number = -1  # how many it had taken when it took part; -1 for a round of another view
        self.held: tuple[tuple[int, str, int, tuple[Any, ...]], ...] = ()  # messages of numbers that are still to come
        self.told = False
        self.hops = 0
        self.paces: dict[int, float] = {}  # seconds of a step of all peers, as all know them alike
        self.reports: dict[int, float] = {}  # those of the peers below this one in the tree
        self.reported: frozenset[int] = frozenset()
        self.asked = False
        self.epochs = 0
        self._grow()
        self.open_links = self.tree_links

    def _grow(self) -> None:
        """Make the tree from what all peers know alike."""
        part = self.view.component_of(self.peer)
        paces = self.paces if self.policy.tree == "measured" else {}
        tree = _tree(self.view, part, tuple(sorted(paces.items())))
        self.tree_links = tree.links
        self.parent = tree.parents.get(self.peer)
        self.children = tree.children.get(self.peer, ())

    def _begin_epoch(self) -> None:
        self._grow()
        self.open_links, self.epoch_start = self.tree_links, self.decided
        self.reports, self.reported, self.asked = {}, frozenset(), False

    def restore(self, state: Entries, port: Port) -> None:
        super().restore(state, port)
        self._grow()

    def offer(self) -> None:
        assert self.ready is not None
        self.ready = max(self.ready, math.nextafter(self.threshold, math.inf))  # where clocks differ
        self.declared = frozenset()
        message = Message("offer", self.round, (self.ready,), self.vector)
        for peer in self.neighbours:
            self.port.send(peer, message)

    def on_message(self, sender: int, message: Message) -> None:
        if self.handle_rejoin(sender, message):
            return
        match message.tag:
            case "offer":
                assert message.vector is not None
                self.offers[sender] = message.data[0], message.vector
            case "complete":
                self._on_complete(sender, message)
            case "also":
                self._on_also(sender, message)
            case "threshold":
                self._on_threshold(sender, message)
            case "commit":
                self._on_commit(sender, message)
            case "degree":
                self.degrees[sender, message.round] = message.data[0]
            case _:
                self._on_report(sender, message)

    def settle(self) -> None:
        if self.rejoining:
            return
        if self.ready is not None and self.taking_part is None and not self.tree_links:
            self.round += 1
            self.finish((), self.round - 1)  # it is alone: nobody is left, or can be reached
            return
        if self.ready is not None and self.taking_part is None:
            self._declare()
        if self.best is not None:
            self._decide()
        if self.taking_part is not None:
            self._mix()

    def _declare(self) -> None:
        """Report which links of the tree are complete: the later end does so, when it is ready."""
        assert self.ready is not None
        done: list[tuple[Link, float]] = []
        for link in self.open_links - self.declared:
            if self.peer in link:
                offer = self.offers.get(link[0] if link[1] == self.peer else link[1])
                if offer is not None and self.threshold < offer[0] <= self.ready:
                    done.append((link, offer[0]))
        if done:
            self.declared |= {link for link, _ in done}
            data = self.ready, tuple(sorted(done)), 0, self.decided, _tag(self)
            self._on_complete(self.peer, Message("complete", self.round, data))

    def _on_complete(self, sender: int, message: Message) -> None:
        """A peer reports the moment at which it completes links, and since when their other ends are ready."""
        first, links, hops, number, tag = message.data
        if tag != _tag(self):
            return  # who says so has heard of the change by now, or will, and then says what holds
        if number > self.decided:
            self._hold(sender, message)
            return
        if first <= self.threshold:  # the round is decided
            if self.newest and self.newest[1][-1] != tag and sender in self.neighbours:
                # It was before the network changed, and the word of it may have been lost on its way.
                self.port.send(sender, Message("threshold", *self.newest))
            return
        if number < self.decided:  # the other ends may have taken part in a round of which the reporting one will hear
            links = tuple((link, since) for link, since in links if since > self.threshold)
        if not links:
            return
        self.round = max(self.round, message.round)
        if self.parent is not None:
            data = first, links, hops + 1, self.decided, tag
            self.port.send(self.parent, Message("complete", self.round, data))
        elif completed := (self.open_links - self.also).intersection(link for link, _ in links):
            if self.best is None or first < self.best[0]:
                self.best = first, completed, hops
            elif first == self.best[0]:
                self.best = first, self.best[1] | completed, max(hops, self.best[2])

    def _on_also(self, sender: int, message: Message) -> None:
        """A peer reports links both of whose ends have taken part in a round, and which may still be open."""
        links, number, tag = message.data
        if tag != _tag(self):
            return
        if number > self.decided:
            self._hold(sender, message)
        elif number >= self.epoch_start:
            if self.parent is not None:
                self.port.send(self.parent, Message("also", self.round, (links, self.decided, tag)))
                return
            self.also |= self.open_links.intersection(links)
            if self.open_links <= self.also:
                self._decide()

    def _decide(self) -> None:
        """Decide the round, as the root, or end the epoch, if all of its links are complete."""
        first, links, hops = self.threshold, self.also, 0
        if self.best is not None and self.best[0] > first and self.best[1] - links:
            first, links, hops = self.best[0], links | self.best[1], self.best[2]
        self.best = None
        ends = self.open_links <= links
        if first == self.threshold and not ends:
            return
        self.also = frozenset()
        paces: tuple[tuple[int, float], ...] = ()
        if ends and self.policy.tree == "measured" and self.reported >= set(self.children):
            paces = tuple(sorted({**self.reports, self.peer: self.pace()}.items()))
        data = first, tuple(sorted(links)), hops, ends, paces, self.decided, _tag(self)
        self._on_threshold(self.peer, Message("threshold", self.round, data))

    def _on_threshold(self, sender: int, message: Message) -> None:
        first, links, hops, ends, paces, number, tag = message.data
        now = tag == _tag(self)
        if now and number > self.decided:
            self._hold(sender, message)
            return
        if number < self.decided if now else first <= self.threshold:
            return
        data = first, links, hops + 1, ends, paces, number, tag
        for peer in self.children if now else self.neighbours:  # of another view, the tree may not be known
            if peer != sender:
                self.port.send(peer, Message("threshold", message.round, data))
        self.declared = frozenset()
        if first > self.threshold:
            self.newest, self.hops = (message.round, data), hops
            self._pass(first, message.round, tag)
        if now:
            self.decided += 1
            self._complete(links, ends, paces)
            self._take_held()

    def _hold(self, sender: int, message: Message) -> None:
        self.held = (*self.held, (sender, message.tag, message.round, message.data))

    def _take_held(self) -> None:
        messages, self.held = self.held, ()
        for sender, kind, round, data in messages:
            self.on_message(sender, Message(kind, round, data))

    def _pass(self, first: float, round: int, tag: _Tag) -> None:
        """A round is decided: take part if the gradient is ready, and answer those that heard of it sooner."""
        self.before, self.threshold = self.threshold, first
        self.round = max(round, self.round) + 1
        if self.ready is not None and self.taking_part is None and self.ready <= first:
            self._take_part(round, tag)
        elif self.ready is None and self.setup.preempt and not self.rejoining:
            self.port.drop_work()
            self.start()
        for peer, theirs in [key for key in self.early if key[1] <= first]:
            self.port.send(peer, Message("commit", self.early.pop((peer, theirs)), (False, theirs, _tag(self))))

    def _complete(self, links: tuple[Link, ...], ends: bool, paces: tuple[Any, ...]) -> None:
        """Remove links from those that the epoch still waits for."""
        begins = self.open_links == self.tree_links
        self.open_links -= set(links)
        if ends:
            self.epochs += 1
            if paces:
                self.paces = dict(paces)
            self._begin_epoch()
        elif begins and self.policy.tree == "measured":
            self.asked = True
            self._report()

    def _take_part(self, round: int, tag: _Tag) -> None:
        self.taking_part, self.at, self.links, self.told = round, self.threshold, {}, False
        self.number = self.decided if tag == _tag(self) else -1
        self.took = {
            peer: self.offers[peer][1]
            for peer in self.neighbours
            if peer in self.offers and self.before < self.offers[peer][0] <= self.threshold
        }
        for peer in self.took:
            self.port.send(peer, Message("commit", round, (True, self.at, tag)))
            if self.early.pop((peer, self.at), None) is not None:
                self.links[peer] = True

    def _on_commit(self, sender: int, message: Message) -> None:
        """A neighbour reports whether it took this peer's offer: a link is realised if both took the other's."""
        takes, at, tag = message.data
        if takes and at > self.threshold and tag != _tag(self):  # no word of it will come from another view
            self._pass(at, message.round, tag)
        if self.taking_part is not None and self.at == at and sender in self.took:
            self.links[sender] = bool(takes)
        elif takes and at > self.threshold:
            self.early[sender, at] = message.round
        elif takes:
            self.port.send(sender, Message("commit", message.round, (False, at, _tag(self))))

    def _mix(self) -> None:
        assert self.taking_part is not None
        if len(self.links) < len(self.took):
            return
        round, real = self.taking_part, [peer for peer in self.took if self.links[peer]]
        if not self.told:
            self.told = True
            self._report_also(real)
            for peer in real if self.mixing.needs_degrees else ():
                self.port.send(peer, Message("degree", round, (len(real),)))
        if self.mixing.needs_degrees and any((peer, round) not in self.degrees for peer in real):
            return
        own = len(real)
        terms = [
            (peer, self.mixing.weight(self.peer, peer, own, self.degrees.pop((peer, round), 0)), self.took[peer])
            for peer in real
        ]
        self.taking_part, self.took = None, {}
        self.finish(terms, round, self.hops + 1 + self.mixing.needs_degrees)

    def _report_also(self, peers: list[int]) -> None:
        """Report links to children in the tree that are still open after a round in which both ends took part."""
        below = {(min(pair), max(pair)) for pair in ((self.peer, peer) for peer in peers if peer in self.children)}
        links = tuple(sorted(below & self.open_links))
        if links and self.number >= self.epoch_start:
            self._on_also(self.peer, Message("also", self.round, (links, self.decided, _tag(self))))

    def _report(self) -> None:
        """Send the speeds of this peer and of those below it up the tree, when all of these are known."""
        if self.asked and self.parent is not None and self.reported >= set(self.children):
            self.asked = False
            paces = tuple(sorted({**self.reports, self.peer: self.pace()}.items()))
            self.port.send(self.parent, Message("report", self.round, (paces, self.epoch_start, _tag(self))))

    def _on_report(self, sender: int, message: Message) -> None:
        paces, epoch, tag = message.data
        if tag != _tag(self):
            return
        if epoch > self.decided:
            self._hold(sender, message)
        elif epoch == self.epoch_start:
            self.reports |= dict(paces)
            self.reported |= {sender}
            self._report()

    def on_view_change(self, gone: frozenset[int], sides: Sides, number: int) -> None:
        before = _tag(self)
        super().on_view_change(gone, sides, number)
        self.best, self.declared, self.also, self.decided, self.number = None, frozenset(), frozenset(), 0, -1
        self.paces = {}  # who was away, or in another part, does not know them: all must make the same tree
        self._begin_epoch()
        self._take_held()
        # A neighbour has taken part in rounds of which no word may come any more, and waits for an answer.
        for at, round in sorted((at, round) for (_, at), round in self.early.items()):
            if at > self.threshold:
                self._pass(at, round, before)

    def on_rejoin(self, gone: frozenset[int], sides: Sides, number: int, port: Port) -> None:
        super().on_rejoin(gone, sides, number, port)
        # Offers that stand may be older than this moment, and so may be the threshold of the round that is under way.
        self.threshold = self.before = -1.0
        self._begin_epoch()

    def resend(self, peer: int) -> None:
        if self.ready is not None and self.taking_part is None:
            self.port.send(peer, Message("offer", self.round, (self.ready,), self.vector))

    def on_neighbour_gone(self, peer: int) -> None:
        self.offers.pop(peer, None)
        self.took.pop(peer, None)
        self.links.pop(peer, None)
        self.degrees = {key: degree for key, degree in self.degrees.items() if key[0] != peer}
        self.early = {key: round for key, round in self.early.items() if key[0] != peer}


_Tag: TypeAlias = tuple[int, tuple[int, ...]]
"""The view that a message belongs to: the number of the newest change, and who is gone. Sides of a cut go with it."""


def _tag(peer: LocalPeer) -> _Tag:
    return peer.view.number, tuple(sorted(peer.view.gone))


def _tree(view: NetworkView, part: frozenset[int], paces: tuple[tuple[int, float], ...]) -> Tree:
    """Return the tree of a part; all peers of a run share it, as it is costly for many."""
    trees = view.__dict__.setdefault("_trees", {})
    if (part, paces) not in trees:
        if len(trees) > 8:
            trees.clear()
        trees[part, paces] = spanning_tree({one: view.neighbours[one] for one in part}, dict(paces))
    return trees[part, paces]
