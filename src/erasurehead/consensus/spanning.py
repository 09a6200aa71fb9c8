"""The tree along which the dynamic policy establishes links: slow peers, and those of unknown speed, are its leaves."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import final

_SAME = 2.0
"""Speeds within this factor count as equal, so that noise does not rebuild the tree."""


@final
@dataclass(frozen=True)
class Tree:
    """A spanning tree of some peers.

    Arguments:
        root: the peer in its middle, which decides.
        parents: parent of each peer other than the root.
    """

    root: int
    parents: Mapping[int, int]

    @cached_property
    def links(self) -> frozenset[tuple[int, int]]:
        """Its links, the smaller number first."""
        return frozenset((min(pair), max(pair)) for pair in self.parents.items())

    @cached_property
    def children(self) -> Mapping[int, tuple[int, ...]]:
        """The children of each peer that has any, ascending."""
        found: dict[int, list[int]] = {}
        for child, parent in sorted(self.parents.items()):
            found.setdefault(parent, []).append(child)
        return {parent: tuple(peers) for parent, peers in found.items()}

    @property
    def leaves(self) -> frozenset[int]:
        """Peers with one link."""
        ends = [end for link in self.links for end in link]
        return frozenset(end for end in ends if ends.count(end) == 1)

    @property
    def depth(self) -> int:
        """Number of hops from the root to the farthest peer."""
        return max((self._hops(peer) for peer in self.parents), default=0)

    def _hops(self, peer: int) -> int:
        hops = 0
        while peer != self.root:
            peer, hops = self.parents[peer], hops + 1
        return hops


def spanning_tree(neighbours: Mapping[int, Iterable[int]], seconds: Mapping[int, float]) -> Tree:
    """Return a spanning tree that is as path-like as possible, with slow and unknown peers as its leaves.

    The tree grows from the fastest peer. The fastest peer at its border is added next, and attached to the one with the
    fewest
    children: so a slow peer is added last, and is a leaf unless it is a cut vertex. (Any vertex of a
    2-connected graph is a leaf of some spanning tree; a cut vertex of none.) A minimum spanning tree would do harm: on
    a complete graph it may be a star around the slow peer, for which every link then waits.

    Arguments:
        neighbours: neighbours of each peer of the tree; other peers among them are ignored.
        seconds: seconds per step of each peer; missing or NaN values count as the slowest.

    Returns:
        The tree; its root is its middle.
    """
    peers = sorted(neighbours)
    known = [value for peer in peers if (value := seconds.get(peer, math.nan)) > 0.0 and math.isfinite(value)]
    usual = median(known) if known else 1.0

    def pace(peer: int) -> tuple[float, int]:
        value = seconds.get(peer, math.nan) if known else usual
        if not math.isfinite(value):
            return math.inf, peer
        ratio = max(value, 1e-12) / usual
        return float(round(math.log(ratio) / math.log(_SAME))), peer

    paces = {peer: pace(peer) for peer in peers}
    start = min(peers, key=lambda peer: paces[peer])
    inside, border = {start: 0}, list[tuple[tuple[float, int], int]]()
    ways: dict[int, list[int]] = {peer: [] for peer in peers}

    def open_border(peer: int) -> None:
        for other in neighbours[peer]:
            if other in paces and other not in inside:
                heapq.heappush(border, (paces[other], other))

    open_border(start)
    while border:
        _, peer = heapq.heappop(border)
        if peer in inside:
            continue
        inside_neighbours = [other for other in neighbours[peer] if other in inside]
        # Slow ones last, as the children of a slow one wait for it.
        parent = min(
            inside_neighbours,
            key=lambda other: (paces[other][0] > 0.5, max(0, inside[other] - 1), paces[other], inside[other]),
        )
        inside[peer] = 1
        inside[parent] += 1
        ways[peer].append(parent)
        ways[parent].append(peer)
        open_border(peer)
    return _rooted(ways)


def _rooted(ways: Mapping[int, Sequence[int]]) -> Tree:
    """Return a tree with its root where the farthest peer is nearest."""
    first = min(ways)
    far = _walk(ways, first)[0][-1]
    order, parents = _walk(ways, far)
    line = [order[-1]]
    while line[-1] != far:
        line.append(parents[line[-1]])
    root = line[len(line) // 2]
    return Tree(root, _walk(ways, root)[1])


def _walk(ways: Mapping[int, Sequence[int]], start: int) -> tuple[list[int], dict[int, int]]:
    order, parents = [start], dict[int, int]()
    for peer in order:
        for other in sorted(ways[peer]):
            if other != parents.get(peer):
                parents[other] = peer
                order.append(other)
    return order, parents
