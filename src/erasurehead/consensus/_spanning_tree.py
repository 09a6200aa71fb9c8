"""The spanning tree of the dynamic policy: slow peers, and those of unknown speed, are its leaves."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median
from typing import final

from erasurehead.consensus._graphs import Link

_EQUAL_WITHIN = 2.0
"""Speeds within this factor count as equal, so that noise does not change the tree."""


@final
@dataclass(frozen=True)
class Tree:
    """A spanning tree of some peers.

    Arguments:
        root: the peer in the middle of the longest path, which decides.
        parents: the parent of each peer other than the root.
    """

    root: int
    parents: Mapping[int, int]

    @cached_property
    def links(self) -> frozenset[Link]:
        """The links of the tree, the smaller number first."""
        return frozenset((min(pair), max(pair)) for pair in self.parents.items())

    @cached_property
    def children(self) -> Mapping[int, tuple[int, ...]]:
        """The children of each peer that has any, ascending."""
        children: dict[int, list[int]] = {}
        for child, parent in sorted(self.parents.items()):
            children.setdefault(parent, []).append(child)
        return {parent: tuple(peers) for parent, peers in children.items()}


def spanning_tree(neighbours: Mapping[int, Iterable[int]], seconds: Mapping[int, float]) -> Tree:
    """Return a spanning tree that is as path-like as possible, with slow and unknown peers as its leaves.

    The tree grows from the fastest peer. The fastest peer that is adjacent to the tree is added next, below the
    neighbour with the fewest children: so a slow peer is added last, and is a leaf unless it is a cut vertex. (Any
    vertex of a 2-connected graph is a leaf of some spanning tree; a cut vertex of none.) A minimum spanning tree does
    not do: on a complete graph it may be a star around the slow peer, so that every link waits for it.

    Arguments:
        neighbours: the neighbours of each peer of the tree; other peers among them are ignored.
        seconds: seconds per step of each peer; missing and NaN values count as the slowest.

    Returns:
        The tree, with its root in the middle of its longest path.
    """
    peers = sorted(neighbours)
    paces = [value for peer in peers if (value := seconds.get(peer, math.nan)) > 0.0 and math.isfinite(value)]
    median_seconds = median(paces) if paces else 1.0

    def speed_class(peer: int) -> tuple[float, int]:
        value = seconds.get(peer, math.nan) if paces else median_seconds
        if not math.isfinite(value):
            return math.inf, peer
        ratio = max(value, 1e-12) / median_seconds
        return float(round(math.log(ratio) / math.log(_EQUAL_WITHIN))), peer

    speed_classes = {peer: speed_class(peer) for peer in peers}
    start = min(peers, key=lambda peer: speed_classes[peer])
    degrees, border = {start: 0}, list[tuple[tuple[float, int], int]]()
    adjacent: dict[int, list[int]] = {peer: [] for peer in peers}

    def extend_border(peer: int) -> None:
        for other in neighbours[peer]:
            if other in speed_classes and other not in degrees:
                heapq.heappush(border, (speed_classes[other], other))

    extend_border(start)
    while border:
        _, peer = heapq.heappop(border)
        if peer in degrees:
            continue
        candidates = [other for other in neighbours[peer] if other in degrees]
        # A slow parent is the last resort, as its children wait for it.
        parent = min(
            candidates,
            key=lambda other: (
                speed_classes[other][0] > 0.5,
                max(0, degrees[other] - 1),
                speed_classes[other],
                degrees[other],
            ),
        )
        degrees[peer] = 1
        degrees[parent] += 1
        adjacent[peer].append(parent)
        adjacent[parent].append(peer)
        extend_border(peer)
    return _rooted(adjacent)


def _rooted(adjacent: Mapping[int, Sequence[int]]) -> Tree:
    """Return a tree with its root in the middle of the longest path, which minimises its depth."""
    first = min(adjacent)
    far = _breadth_first(adjacent, first)[0][-1]
    order, parents = _breadth_first(adjacent, far)
    path = [order[-1]]
    while path[-1] != far:
        path.append(parents[path[-1]])
    root = path[len(path) // 2]
    return Tree(root, _breadth_first(adjacent, root)[1])


def _breadth_first(adjacent: Mapping[int, Sequence[int]], start: int) -> tuple[list[int], dict[int, int]]:
    """Return the peers in breadth-first order from a start, and the parent of each other peer."""
    order, parents = [start], dict[int, int]()
    for peer in order:
        for other in sorted(adjacent[peer]):
            if other != parents.get(peer):
                parents[other] = peer
                order.append(other)
    return order, parents
