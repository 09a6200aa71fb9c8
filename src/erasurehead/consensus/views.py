"""What peers know about the network after some have left: the current links and their tree."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import final

from erasurehead.consensus.graphs import Graph


@final
@dataclass(frozen=True, eq=False)
class View:
    """The links among the present peers.

    All peers that know of the same changes have the same view, without having to ask for it.

    Arguments:
        graph: all links at the beginning.
        gone: the peers that are gone.
        sides: parts between which no message gets through; empty for none.
        number: of the newest change that peers were told of. A network may be again what it was before: this tells
            such views apart, and what was said under the one does not count under the other.
    """

    graph: Graph
    gone: frozenset[int] = frozenset()
    sides: tuple[frozenset[int], ...] = ()
    number: int = 0

    @cached_property
    def living(self) -> tuple[int, ...]:
        """The present peers, ascending."""
        return tuple(peer for peer in range(self.graph.n_peers) if peer not in self.gone)

    @cached_property
    def knitted(self) -> tuple[tuple[int, int], ...]:
        """Links that were added because the graph was disconnected: between the smallest neighbours of the leavers in
        each part, one link fewer than there are parts."""
        parts = self.graph.components(self.living)
        if len(parts) < 2:
            return ()
        ends = [
            min((peer for peer in part if self.gone & set(self.graph.neighbours[peer])), default=part[0])
            for part in parts
        ]
        return tuple((min(pair), max(pair)) for pair in pairwise(ends))

    @cached_property
    def links(self) -> tuple[tuple[int, int], ...]:
        """All working links, the smaller number first."""
        if not self.gone and not self.sides:
            return self.graph.edges
        kept = [pair for pair in self.graph.edges if not self.gone & set(pair)]
        return tuple(sorted(pair for pair in {*kept, *self.knitted} if self._joined(pair)))

    def _joined(self, pair: tuple[int, int]) -> bool:
        return not any((pair[0] in side) != (pair[1] in side) for side in self.sides)

    @cached_property
    def neighbours(self) -> Mapping[int, tuple[int, ...]]:
        """The neighbours of all present peers, ascending."""
        found: dict[int, list[int]] = {peer: [] for peer in self.living}
        for low, high in self.links:
            found[low].append(high)
            found[high].append(low)
        return {peer: tuple(sorted(others)) for peer, others in found.items()}

    @cached_property
    def parts(self) -> tuple[frozenset[int], ...]:
        """Parts of peers that can reach each other."""
        left, found = set(self.living), list[frozenset[int]]()
        while left:
            reached = [min(left)]
            left.discard(reached[0])
            for peer in reached:
                for other in self.neighbours[peer]:
                    if other in left:
                        left.discard(other)
                        reached.append(other)
            found.append(frozenset(reached))
        return tuple(found)

    def part_of(self, peer: int) -> frozenset[int]:
        """Return the peers that a peer can reach, including itself."""
        return next(part for part in self.parts if peer in part)

    def changed(self, gone: frozenset[int], sides: tuple[frozenset[int], ...], number: int) -> View:
        """Return the view after changes; peers of one run share it."""
        key = (gone, sides, number)
        known = self._known
        if key not in known:
            known[key] = View(self.graph, gone, sides, number)
            known[key].__dict__["_known"] = known
        return known[key]

    @cached_property
    def _known(self) -> dict[tuple[frozenset[int], tuple[frozenset[int], ...], int], View]:
        return {(self.gone, self.sides, self.number): self}
