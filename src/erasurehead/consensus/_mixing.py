"""Mixing weights, with which neighbours average: symmetric and doubly stochastic for any set of links.

How fast averaging with them brings peers together is told by the spectral gap, `Graph.spectral_gap`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, final

from erasurehead._internal.arrays import Array
from erasurehead.consensus._graphs import Graph, Link
from erasurehead.errors import invalid


class Mixing(ABC):
    """The mixing weight of each link. A peer's own weight is one minus the sum of the weights of its links.

    Your own mixing must return the same weight, at least 0, for both ends of a link, such that the weights of a peer's
    links add up to at most one, for every subset of the links of the graph. Texts call it by its `name`.
    """

    name: ClassVar[str]
    needs_degrees: ClassVar[bool]
    """Whether the weight depends on the degrees in the step, which takes one more message per link and direction."""

    @abstractmethod
    def weight(self, here: int, there: int, own_degree: int, other_degree: int) -> float:
        """Return the weight of a link.

        Arguments:
            here, there: the ends of the link.
            own_degree: number of links of `here` in this step.
            other_degree: number of links of `there` in this step.
        """

    def on(self, graph: Graph, links: Iterable[Link]) -> Mixing:
        """Return the mixing for other links, for example after a peer has left.

        Arguments:
            graph: the graph of all peers.
            links: the present links, the smaller number first.
        """
        return self


@final
@dataclass(frozen=True)
class Metropolis(Mixing):
    """Metropolis-Hastings weights, `1 / (1 + max(degree, degree))` by the degrees in a step (Xiong et al., 2021)."""

    name = "metropolis"
    needs_degrees = True

    def weight(self, here: int, there: int, own_degree: int, other_degree: int) -> float:
        return 1.0 / (1.0 + (own_degree if own_degree > other_degree else other_degree))

    def __str__(self) -> str:
        return "metropolis()"


@final
@dataclass(frozen=True)
class MaxDegree(Mixing):
    """`1 / (1 + largest degree of the graph)` for every link, which is known without a message.

    Arguments:
        degree: the largest degree; 0 until `on` has set it.
    """

    degree: int = 0
    name = "max_degree"
    needs_degrees = False

    def weight(self, here: int, there: int, own_degree: int, other_degree: int) -> float:
        return 1.0 / (1.0 + self.degree)

    def on(self, graph: Graph, links: Iterable[Link]) -> Mixing:
        return MaxDegree(max(_degrees(graph.n_peers, links), default=0))

    def __str__(self) -> str:
        return "max_degree()"


@final
class FixedMixing(Mixing):
    """The Metropolis weight of a link of the whole graph in every step; those of missing links are the peer's own."""

    name = "fixed"
    needs_degrees = False

    def __init__(self) -> None:
        self._weights: Mapping[Link, float] = {}

    def weight(self, here: int, there: int, own_degree: int, other_degree: int) -> float:
        return self._weights[(here, there) if here < there else (there, here)]

    def on(self, graph: Graph, links: Iterable[Link]) -> Mixing:
        bound, pairs = FixedMixing(), list(links)
        degrees = _degrees(graph.n_peers, pairs)
        bound._weights = {(a, b): 1.0 / (1.0 + max(degrees[a], degrees[b])) for a, b in pairs}
        return bound

    def __str__(self) -> str:
        return "fixed()"


def _degrees(n_peers: int, links: Iterable[Link]) -> list[int]:
    degrees = [0] * n_peers
    for low, high in links:
        degrees[low] += 1
        degrees[high] += 1
    return degrees


MIXINGS = {"metropolis": Metropolis, "max_degree": MaxDegree, "fixed": FixedMixing}
"""The class for each name in the text of a mixing."""


def parse_mixing(text: str | Mixing) -> Mixing:
    """Return the mixing that a text stands for, such as `"metropolis()"` or its bare name, or a mixing as it is.

    Raises:
        InvalidArgument: if there is no such mixing.
    """
    if isinstance(text, Mixing):
        return text
    name = text.strip().removesuffix("()") if isinstance(text, str) else text  # pyright: ignore[reportUnnecessaryIsInstance]
    if name not in MIXINGS:
        raise invalid("mixing", f"must be one of {', '.join(MIXINGS)}", text)
    return MIXINGS[name]()


def mixed(own: Array, here: int, vectors: Sequence[tuple[int, float, Array]]) -> Array:
    """Return the weighted mean of a peer's vector and those of its neighbours.

    It is summed in the order of the peers' numbers, so that equal vectors give equal bits, whichever arrived first.

    Arguments:
        own: the peer's own vector, shape (n,).
        here: number of the peer.
        vectors: neighbour, weight and vector of each link, ascending by neighbour.

    Returns:
        The mean, a new array of shape (n,).

    >>> import numpy as np
    >>> mixed(np.array([4.0]), 1, [(0, 0.25, np.array([0.0])), (2, 0.25, np.array([8.0]))])
    array([4.])
    """
    rest = 1.0
    for _, weight, _ in vectors:
        rest -= weight
    if not vectors:
        return own.copy()
    terms = list(vectors)
    if rest >= 0.0:
        terms.insert(sum(number < here for number, _, _ in vectors), (here, rest, own))
    _, weight, vector = terms[0]
    total = vector * weight
    for _, weight, vector in terms[1:]:
        total += vector * weight
    return total
