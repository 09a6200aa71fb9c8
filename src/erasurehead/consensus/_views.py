"""Views: which peers a peer believes to be present, and the links among them; it mixes with no others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import final

from erasurehead.consensus._graphs import Graph, Link, Sides, components, neighbours_by
from erasurehead.consensus._injected_faults import partitioned


@final
@dataclass(frozen=True, eq=False)
class NetworkView:
    """A view of the network: the present peers and the links among them.

    The links follow from the arguments alone, so that peers with the same information have the same view, without
    agreeing on it by messages.

    Arguments:
        graph: the graph at the beginning, with all peers.
        gone: the peers that are gone.
        sides: the sides of a network partition, between which no message gets through; empty for none.
        number: the view number. It distinguishes two views of the same network before and after a change, so that
            messages of the earlier view do not count in the later one.
    """

    graph: Graph
    gone: frozenset[int] = frozenset()
    sides: Sides = ()
    number: int = 0

    @cached_property
    def living(self) -> tuple[int, ...]:
        """The present peers, ascending."""
        return tuple(peer for peer in range(self.graph.n_peers) if peer not in self.gone)

    @cached_property
    def added_links(self) -> tuple[Link, ...]:
        """Links that were added to reconnect the graph after peers have left, one fewer than there are components.

        They join successive components, each by its smallest peer that is a neighbour of one that is gone.
        """
        parts = components(self.living, self.graph.neighbours)
        if len(parts) < 2:
            return ()
        ends = [
            min((peer for peer in peers if self.gone & set(self.graph.neighbours[peer])), default=peers[0])
            for peers in parts
        ]
        return tuple((min(pair), max(pair)) for pair in pairwise(ends))

    @cached_property
    def links(self) -> tuple[Link, ...]:
        """All links over which messages get through, the smaller number first."""
        if not self.gone and not self.sides:
            return self.graph.edges
        kept = [pair for pair in self.graph.edges if not self.gone & set(pair)]
        links = {*kept, *self.added_links}
        return tuple(sorted(pair for pair in links if not partitioned(*pair, self.sides)))

    @cached_property
    def neighbours(self) -> Mapping[int, tuple[int, ...]]:
        """The neighbours of each present peer, ascending."""
        return neighbours_by(self.links, self.living)

    @cached_property
    def components(self) -> tuple[frozenset[int], ...]:
        """The connected components of the present peers."""
        return tuple(map(frozenset, components(self.living, self.neighbours)))

    def component_of(self, peer: int) -> frozenset[int]:
        """Return the component of a peer: all peers that it can reach, including itself."""
        return next(peers for peers in self.components if peer in peers)

    def changed(self, gone: frozenset[int], sides: Sides, number: int) -> NetworkView:
        """Return another view of the same graph; equal views of a run are one object.

        Arguments:
            gone, sides, number: as for the class.
        """
        key = (gone, sides, number)
        cache = self._cache
        if key not in cache:
            cache[key] = NetworkView(self.graph, gone, sides, number)
            cache[key].__dict__["_cache"] = cache
        return cache[key]

    @cached_property
    def _cache(self) -> dict[tuple[frozenset[int], Sides, int], NetworkView]:
        return {(self.gone, self.sides, self.number): self}
