"""Topologies: connected, of the right degrees, and refused in a sentence where they cannot be."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from erasurehead.consensus._graphs import Graph, components, edges, parse_graph
from erasurehead.consensus._spanning_tree import Tree, spanning_tree
from erasurehead.consensus._views import NetworkView
from erasurehead.errors import InvalidArgument

NAMED = [
    "ring()",
    "path()",
    "torus()",
    "star()",
    "complete()",
    "exponential()",
    "erdos_renyi(p=0.4, seed=3)",
    "random_regular(degree=4, seed=1)",
    "small_world(neighbours=4, rewired=0.2, seed=2)",
]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    n_peers = draw(st.integers(2, 12))
    p, seed = draw(st.floats(0.3, 1.0)), draw(st.integers(0, 99))
    return parse_graph(f"erdos_renyi(p={max(p, 4.0 / n_peers if n_peers > 4 else 0.9)}, seed={seed})", n_peers)


@pytest.mark.parametrize("text", NAMED)
def test_named_topologies_are_written_as_they_are_read(text: str) -> None:
    graph = parse_graph(text, 16)
    assert parse_graph(str(graph), 16) == graph
    assert 0.0 < graph.spectral_gap <= 1.0


def test_degrees_are_those_of_the_topology() -> None:
    assert set(parse_graph("torus()", 16).degrees) == {4}
    assert set(parse_graph("ring()", 6).degrees) == {2}
    assert set(parse_graph("random_regular(degree=4)", 10).degrees) == {4}
    assert sorted(parse_graph("star()", 5).degrees) == [1, 1, 1, 1, 4]
    assert parse_graph("ring()", 2).edges == ((0, 1),)


def test_the_gap_of_a_complete_graph_is_one() -> None:
    assert parse_graph("complete()", 7).spectral_gap == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: edges(["a-b", "c-d"]), "must be connected"),
        (lambda: edges(["a-b", "b-b"]), "two different peers"),
        (lambda: edges(["a-b", "b-a"]), "must be named once"),
        (lambda: edges(["a-b", "b-x"], peers=["a", "b"]), "must name two of the peers a, b"),
        (lambda: edges(["a"]), "must be a pair such as 'a-b'"),
        (lambda: parse_graph("ring()", 1), "must be at least 2"),
        (lambda: parse_graph("torus()", 7), "the product of at least 3 rows"),
        (lambda: parse_graph("circle()", 7), "must use known names"),
        (lambda: parse_graph("erdos_renyi(p=0.01)", 40), "must be connected"),
        (lambda: parse_graph("random_regular(degree=3)", 7), "must be even"),
        (lambda: parse_graph("edges(['a-b'])", 3), "must be 2, the number of peers in the edge list"),
        (lambda: Graph(3, ((0, 3), (1, 2))), "must be at most 2"),
        (lambda: parse_graph("ring()", 10**12), "n_peers must be at most 100000"),
        (lambda: parse_graph("complete()", 10**5), "n_peers must be at most 2000"),
        (lambda: parse_graph("erdos_renyi()", 10**5), "n_peers must be at most 2000"),
    ],
)
def test_graphs_that_cannot_be_are_refused(make: object, said: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        make()  # type: ignore[operator]
    assert said in str(caught.value)


def leaves(tree: Tree) -> set[int]:
    return {peer for peer, links in networkx.Graph(list(tree.links)).degree if links == 1}


@settings(max_examples=40, deadline=None)
@given(graphs(), st.data())
def test_a_slow_peer_is_a_leaf_unless_the_graph_falls_apart_without_it(graph: Graph, data: st.DataObject) -> None:
    slow = data.draw(st.integers(0, graph.n_peers - 1))
    seconds = {peer: 5.0 if peer == slow else 1.0 for peer in range(graph.n_peers)}
    tree = spanning_tree(dict(enumerate(graph.neighbours)), seconds)
    assert len(tree.links) == graph.n_peers - 1
    assert tree.links <= set(graph.edges)
    assert networkx.is_connected(networkx.Graph(list(tree.links)))
    assert (slow in leaves(tree)) == (slow not in graph.cut_vertices)
    assert networkx.eccentricity(networkx.Graph(list(tree.links)), tree.root) <= graph.n_peers - 1


def test_on_a_complete_graph_the_tree_is_a_path_with_the_slow_peer_at_its_end() -> None:
    graph = parse_graph("complete()", 10)
    for slow in range(10):
        tree = spanning_tree(dict(enumerate(graph.neighbours)), {p: 5.0 if p == slow else 1.0 for p in range(10)})
        assert slow in leaves(tree)
        assert len(leaves(tree)) == 2


def test_who_is_unknown_stands_at_the_end() -> None:
    tree = spanning_tree(dict(enumerate(parse_graph("complete()", 5).neighbours)), {0: 1.0, 1: 1.0, 2: 1.0, 4: 1.0})
    assert 3 in leaves(tree)


@settings(max_examples=40, deadline=None)
@given(graphs(), st.data())
def test_the_graph_of_those_who_are_left_is_connected(graph: Graph, data: st.DataObject) -> None:
    gone = data.draw(st.sets(st.integers(0, graph.n_peers - 1), max_size=graph.n_peers - 1))
    view = NetworkView(graph, frozenset(gone))
    assert len(view.components) == 1
    assert set(view.living) == view.components[0]
    assert len(view.added_links) == len(components(view.living, graph.neighbours)) - 1


@pytest.mark.slow
def test_spectral_gaps_agree_however_they_are_computed() -> None:
    graph = parse_graph("random_regular(degree=4)", 1600)
    assert np.isclose(graph.spectral_gap, 1.0 - 2.0 * 3**0.5 / 5.0 - 1 / 5.0, atol=0.05)  # Alon and Boppana
    ring = parse_graph("ring()", 6000)  # too narrow for an iteration
    assert ring.spectral_gap == pytest.approx((2 - 2 * np.cos(2 * np.pi / 6000)) / 3, rel=1e-6)
