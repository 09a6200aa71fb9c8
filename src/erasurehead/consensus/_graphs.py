"""Graphs of peers: named topologies, edge lists of your own, and properties such as the spectral gap."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import combinations
from random import Random
from typing import Any, TypeAlias, final

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead._internal.factors import singular_values
from erasurehead._internal.text_parser import read
from erasurehead.codes._random_graphs import random_regular_edges
from erasurehead.errors import UNSAID, InvalidArgument, check_count, invalid, listed, real

_MAX_DRAWS = 200
"""Number of draws of a random graph, none of which is connected, before an error is raised."""

_MAX_DENSE = 1_500
"""Largest number of peers whose eigenvalues are computed from a dense matrix."""

_MOST_PEERS = 100_000
_MOST_JOINED = 2_000  # each with each other: millions of edges

_RESTARTS = 100  # of the iteration for eigenvalues
_BEYOND = 1e-9  # outside the spectrum


Link: TypeAlias = tuple[int, int]
"""Two peers that are neighbours."""

Sides: TypeAlias = tuple[frozenset[int], ...]
"""The sides of a network partition, between which no message gets through; empty for none."""


@final
@dataclass(frozen=True)
class Graph:
    """A connected graph of peers.

    Arguments:
        n_peers: number of peers, at least 2; they are numbered from 0.
        edges: pairs of neighbours, in any order and direction; stored ascending, the smaller number first.
        name: the text of the graph, such as `"ring()"`.
        labels: the user's names of the peers; empty if they have none but their numbers.

    Raises:
        InvalidArgument: if there is only one peer, an edge is a loop, is duplicate or names an unknown peer, or the
            graph is not connected.
    """

    n_peers: int
    edges: tuple[Link, ...]
    name: str = "edges"
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if check_count("n_peers", self.n_peers) < 2:
            raise invalid(
                "n_peers",
                "must be at least 2, as a single peer has nobody to average with",
                self.n_peers,
                "train alone with `train` on an uncoded scheme",
            )
        pairs: set[Link] = set()
        for edge in self.edges:
            if len(edge) != 2:
                raise invalid("every edge", "must be a pair of peers", edge)
            low, high = sorted(check_count("every end of an edge", end, 0, self.n_peers - 1) for end in edge)
            text = "-".join(map(self.label, edge))
            if low == high:
                raise invalid("every edge", "must join two different peers", text, "leave self-loops out")
            if (low, high) in pairs:
                raise invalid("every edge", "must be named once", text, "leave duplicates out")
            pairs.add((low, high))
        object.__setattr__(self, "edges", tuple(sorted(pairs)))
        if len(parts := components(range(self.n_peers), self.neighbours)) > 1:
            alone = min(parts, key=len)
            raise invalid(
                f"the graph {self.name}",
                f"must be connected, but is in {len(parts)} parts: no way leads from peers {listed(alone)} to others",
                UNSAID,
                "add an edge between the parts",
            )

    def label(self, peer: int) -> str:
        """Return the user's name of a peer, or its number."""
        return self.labels[peer] if self.labels else str(peer)

    @cached_property
    def neighbours(self) -> tuple[tuple[int, ...], ...]:
        """The neighbours of each peer, ascending."""
        return tuple(neighbours_by(self.edges, range(self.n_peers)).values())

    @property
    def degrees(self) -> tuple[int, ...]:
        """Number of neighbours of each peer."""
        return tuple(len(peers) for peers in self.neighbours)

    @cached_property
    def cut_vertices(self) -> frozenset[int]:
        """Peers whose removal would disconnect the graph. They are not a leaf of any spanning tree."""
        number, low = {0: 0}, {0: 0}  # in the order in which they are met; the least one reached from below
        vertices, branches = set[int](), 0
        path = [(0, -1, iter(self.neighbours[0]))]
        while path:
            peer, parent, others = path[-1]
            for other in others:
                if other not in number:
                    number[other] = low[other] = len(number)
                    path.append((other, peer, iter(self.neighbours[other])))
                    break
                if other != parent:
                    low[peer] = min(low[peer], number[other])
            else:
                path.pop()
                branches += parent == 0
                if parent > 0 and low[peer] >= number[parent]:
                    vertices.add(parent)
                if parent >= 0:
                    low[parent] = min(low[parent], low[peer])
        return frozenset(vertices | ({0} if branches > 1 else set()))

    @cached_property
    def spectral_gap(self) -> float:
        """One minus the second largest modulus of an eigenvalue of the Metropolis matrix of the graph.

        With averaging alone, the distance from consensus shrinks at least by the factor `1 - gap` per step.
        """
        weights = _metropolis(self)
        if self.n_peers <= _MAX_DENSE:
            values = singular_values(weights.toarray())  # of a symmetric matrix: the moduli of its eigenvalues
            return float(1.0 - values[1])
        linalg: Any = importlib.import_module("scipy.sparse.linalg")
        start = np.linspace(1, 2, self.n_peers)
        try:
            values = linalg.eigsh(weights, k=2, v0=start, maxiter=_RESTARTS, return_eigenvectors=False)
        except linalg.ArpackNoConvergence:
            # Of long rings and paths the largest values are too close to each other for the iteration; solving with a
            # matrix that is nearly singular there separates them. All values are at least 2 * least weight - 1.
            values = linalg.eigsh(weights, k=2, sigma=1.0 + _BEYOND, v0=start, return_eigenvectors=False)
            lowest = 2.0 * float(weights.diagonal().min()) - 1.0
            if -lowest > values.min():
                low = linalg.eigsh(weights, k=1, sigma=lowest - _BEYOND, v0=start, return_eigenvectors=False)
                values = np.sort(np.abs(np.concatenate([values, low])))[1:]
        return float(1.0 - np.sort(np.abs(values))[0])

    def __str__(self) -> str:
        return self.name


def neighbours_by(links: Iterable[Link], peers: Iterable[int]) -> dict[int, tuple[int, ...]]:
    """Return the neighbours of each of the peers by links among them, ascending."""
    ends: dict[int, list[int]] = {peer: [] for peer in peers}
    for low, high in links:
        ends[low].append(high)
        ends[high].append(low)
    return {peer: tuple(sorted(others)) for peer, others in ends.items()}


def components(
    peers: Iterable[int], neighbours: Mapping[int, Sequence[int]] | Sequence[Sequence[int]]
) -> list[list[int]]:
    """Return the connected components of some peers, each ascending.

    Arguments:
        peers: the peers to consider.
        neighbours: the neighbours of each of them; others among these are ignored.
    """
    remaining, parts = set(peers), list[list[int]]()
    while remaining:
        reached = [min(remaining)]
        remaining.remove(reached[0])
        for peer in reached:
            new = remaining.intersection(neighbours[peer])
            remaining -= new
            reached += new
        parts.append(sorted(reached))
    return parts


def _metropolis(graph: Graph) -> Any:
    sparse: Any = importlib.import_module("scipy.sparse")
    ends = np.array(graph.edges)
    degrees = np.array(graph.degrees)
    weights = 1.0 / (1.0 + np.maximum(degrees[ends[:, 0]], degrees[ends[:, 1]]))
    own: Array = np.ones(graph.n_peers)
    np.subtract.at(own, ends.ravel(), np.repeat(weights, 2))
    rows = np.concatenate([ends[:, 0], ends[:, 1], np.arange(graph.n_peers)])
    columns = np.concatenate([ends[:, 1], ends[:, 0], np.arange(graph.n_peers)])
    return sparse.csr_array((np.concatenate([weights, weights, own]), (rows, columns)), shape=(graph.n_peers,) * 2)


def path(n_peers: int) -> Graph:
    """Return a path, on which peers with consecutive numbers are neighbours."""
    return Graph(n_peers, tuple((peer, peer + 1) for peer in range(n_peers - 1)), "path()")


def ring(n_peers: int) -> Graph:
    """Return a ring; with two peers, it is the single edge between them."""
    if n_peers < 3:
        return Graph(n_peers, path(n_peers).edges, "ring()")
    return Graph(n_peers, tuple((peer, (peer + 1) % n_peers) for peer in range(n_peers)), "ring()")


def torus(n_peers: int, rows: int | None = None) -> Graph:
    """Return a grid with periodic boundaries, on which every peer has four neighbours.

    Arguments:
        n_peers: number of peers, a product of rows and columns, each at least 3.
        rows: number of rows; by default the one that makes the grid as square as possible.
    """
    fitting = [count for count in range(3, n_peers // 3 + 1) if n_peers % count == 0]
    if rows is None:
        if not fitting:
            raise invalid(
                "n_peers",
                "must be the product of at least 3 rows and 3 columns for a torus",
                n_peers,
                "9, 12, 15 and 16 are",
            )
        rows = min(fitting, key=lambda count: (abs(count - n_peers / count), count))
        name = "torus()"
    else:
        if rows not in fitting:
            raise invalid("rows", f"must divide {n_peers} peers into at least 3 rows and 3 columns", rows)
        name = f"torus(rows={rows})"
    columns = n_peers // rows
    places = [(peer, *divmod(peer, columns)) for peer in range(n_peers)]
    right = [(peer, row * columns + (column + 1) % columns) for peer, row, column in places]
    below = [(peer, (row + 1) % rows * columns + column) for peer, row, column in places]
    return Graph(n_peers, tuple(right + below), name)


def star(n_peers: int) -> Graph:
    """Return a star around peer 0."""
    return Graph(n_peers, tuple((0, peer) for peer in range(1, n_peers)), "star()")


def _check_joined(n_peers: int) -> None:
    """Raise if the links of each peer with each other would fill the memory."""
    check_count("n_peers", n_peers, at_most=_MOST_JOINED)


def complete(n_peers: int) -> Graph:
    """Return the complete graph, in which all peers are neighbours."""
    _check_joined(n_peers)
    return Graph(n_peers, tuple((a, b) for a in range(n_peers) for b in range(a + 1, n_peers)), "complete()")


def exponential(n_peers: int) -> Graph:
    """Return the graph in which peers at distances 1, 2, 4, ... around a ring are neighbours."""
    jumps = [2**power for power in range(max(1, (n_peers - 1).bit_length()))]
    pairs = {tuple(sorted((peer, (peer + jump) % n_peers))) for peer in range(n_peers) for jump in jumps}
    return Graph(n_peers, tuple((low, high) for low, high in pairs if low != high), "exponential()")


def erdos_renyi(n_peers: int, p: float = 0.4, seed: int = 0) -> Graph:
    """Return a random graph in which each two peers are neighbours with equal probability, drawn until it is connected.

    Arguments:
        n_peers: number of peers, at least 2.
        p: probability of each edge, in (0, 1].
        seed: seed of the draws.
    """
    if not 0.0 < real(p) <= 1.0:
        raise invalid("p", "must lie in (0, 1]", p)
    _check_joined(n_peers)
    pairs = [*combinations(range(n_peers), 2)]

    def draw(random: Random) -> Sequence[Link]:
        return [pair for pair in pairs if random.random() < p]

    return _connected(f"erdos_renyi(p={p}, seed={seed})", n_peers, seed, draw)


def random_regular(n_peers: int, degree: int = 4, seed: int = 0) -> Graph:
    """Return a random graph in which every peer has the same number of neighbours, drawn until it is connected.

    Arguments:
        n_peers: number of peers, at least 2.
        degree: number of neighbours of each peer, 1 to n_peers - 1; even if n_peers is odd.
        seed: seed of the draws.
    """
    check_count("degree", degree, 1, max(1, n_peers - 1))
    if n_peers * degree % 2:
        raise invalid("degree", f"must be even with an odd number of peers ({n_peers})", degree)
    name = f"random_regular(degree={degree}, seed={seed})"
    if degree == 1:  # of these, none but that of two peers is connected
        return _connected(name, n_peers, seed, lambda random: [(peer, peer + 1) for peer in range(0, n_peers - 1, 2)])
    drawn = random_regular_edges(n_peers, degree, np.random.default_rng(check_count("seed", seed, at_least=0)))
    return Graph(n_peers, tuple((one, other) for one, other in drawn.tolist()), name)


def small_world(n_peers: int, neighbours: int = 4, rewired: float = 0.1, seed: int = 0) -> Graph:
    """Return a ring of near neighbours with some edges rewired at random (Watts and Strogatz, 1998).

    Arguments:
        n_peers: number of peers, at least 2.
        neighbours: number of neighbours of each peer before rewiring, even and less than n_peers.
        rewired: fraction of edges that are rewired, in [0, 1].
        seed: seed of the draws.
    """
    if check_count("neighbours", neighbours, 2, max(2, n_peers - 1)) % 2:
        raise invalid("neighbours", "must be even, half of them on either side", neighbours)
    if not 0.0 <= real(rewired) <= 1.0:
        raise invalid("rewired", "must lie in [0, 1]", rewired)
    name, near = f"small_world(neighbours={neighbours}, rewired={rewired}, seed={seed})", range(1, neighbours // 2 + 1)

    def draw(random: Random) -> Sequence[Link]:
        links = {frozenset((peer, (peer + step) % n_peers)) for step in near for peer in range(n_peers)}
        for step in near:
            for peer in range(n_peers):
                if random.random() >= rewired:
                    continue
                other = random.choice(range(n_peers))
                while other == peer or frozenset((peer, other)) in links:
                    other = random.choice(range(n_peers))
                    if all(frozenset((peer, one)) in links for one in range(n_peers) if one != peer):
                        break  # there is no other
                else:
                    links ^= {frozenset((peer, (peer + step) % n_peers)), frozenset((peer, other))}
        return [(min(link), max(link)) for link in links]

    return _connected(name, n_peers, seed, draw)


def _connected(name: str, n_peers: int, seed: int, draw: Callable[[Random], Sequence[Link]]) -> Graph:
    if n_peers < 2:
        return Graph(n_peers, ())
    check_count("seed", seed, at_least=0)
    for attempt in range(_MAX_DRAWS):
        links = tuple(draw(Random(seed + 1_000_003 * attempt)))
        if len(components(range(n_peers), neighbours_by(links, range(n_peers)))) == 1:
            return Graph(n_peers, links, name)
    raise invalid(
        "the graph",
        f"must be connected, but {name} of {n_peers} peers was not in any of {_MAX_DRAWS} draws",
        UNSAID,
        "take more edges",
    )


def edges(pairs: Sequence[str | Sequence[Any]], peers: Sequence[Any] | None = None) -> Graph:
    """Return the graph with the given edges.

    Arguments:
        pairs: texts such as `["a-b", "b-c"]`, or pairs of names or numbers.
        peers: the names of all peers, in the order in which they are numbered; by default those in the pairs: numbers
            in ascending order, names in the order of their first occurrence.

    Raises:
        InvalidArgument: as for `Graph`, or if a pair names a peer that is not among `peers`.

    >>> edges(["ann-bob", "bob-cy"]).neighbours
    ((1,), (0, 2), (1,))
    """
    ends: list[tuple[str, ...]] = []
    for pair in pairs:
        parts = pair.split("-") if isinstance(pair, str) else pair if isinstance(pair, Sequence) else ()  # pyright: ignore[reportUnnecessaryIsInstance]
        ends.append(tuple(str(end).strip() for end in parts))
        if len(ends[-1]) != 2 or not all(ends[-1]):
            raise invalid("every edge", "must be a pair such as 'a-b'", pair)
    if not ends:
        raise invalid("edges", "must name at least one edge, such as 'a-b'", list(pairs))
    names = seen = list(dict.fromkeys(name for pair in ends for name in pair))
    if peers is not None:
        names = [str(name) for name in peers]
        if len(set(names)) < len(names):
            raise invalid("peers", "must be named once each", names)
    elif all(name.isdecimal() for name in seen):
        names = [str(number) for number in range(max(map(int, seen)) + 1)]
    numbers = {name: number for number, name in enumerate(names)}
    for name in seen:
        if name not in numbers:
            raise invalid(
                "every edge",
                f"must name two of the peers {', '.join(names)}",
                name,
                "add it to the peers, or correct the edge",
            )
    text = "edges([" + ", ".join(repr(f"{a}-{b}") for a, b in ends) + "])"
    return Graph(len(names), tuple((numbers[a], numbers[b]) for a, b in ends), text, tuple(names))


_TOPOLOGIES: Mapping[str, Callable[..., Graph]] = {
    "ring": ring,
    "path": path,
    "torus": torus,
    "star": star,
    "complete": complete,
    "exponential": exponential,
    "erdos_renyi": erdos_renyi,
    "random_regular": random_regular,
    "small_world": small_world,
}
"""For each name in the text of a topology: the function that constructs it for a number of peers."""


def parse_graph(text: str, n_peers: int) -> Graph:
    """Return the graph that a text stands for.

    Arguments:
        text: such as `"ring()"`, `"erdos_renyi(p=0.4, seed=0)"`, or `"edges(['a-b', 'b-c'])"`.
        n_peers: number of peers.

    Raises:
        InvalidArgument: if the text is not valid, no such graph exists, or an edge list has another number of peers.

    >>> parse_graph("ring()", 4).edges
    ((0, 1), (0, 3), (1, 2), (2, 3))
    """
    n_peers = check_count("n_peers", n_peers, at_most=_MOST_PEERS)
    makers: dict[str, Callable[..., Graph]] = {name: partial(maker, n_peers) for name, maker in _TOPOLOGIES.items()}
    try:
        graph = read(text, "graph", Graph, {**makers, "edges": edges}, {})
    except InvalidArgument as error:
        raise error.inside("graph", text) from None
    if graph.n_peers != n_peers:
        raise invalid("peers", f"must be {graph.n_peers}, the number of peers in the edge list", n_peers)
    return graph
