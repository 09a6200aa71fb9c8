"""Random graphs: simple, regular, connected, of any density; and large ones in a moment."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead.codes._assemble import even_sizes
from erasurehead.codes._random_graphs import biregular_columns, is_connected, neighbours, random_regular_edges, sides


def random(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


@given(st.integers(4, 40), st.data())
def test_regular_graphs_are_simple_regular_and_connected(n: int, data: st.DataObject) -> None:
    degree = data.draw(st.integers(2, n - 1).filter(lambda degree: n * degree % 2 == 0))
    edges = random_regular_edges(n, degree, random(data.draw(st.integers(0, 9))))
    assert edges.shape == (n * degree // 2, 2)
    assert (edges[:, 0] != edges[:, 1]).all()
    assert len({frozenset(edge) for edge in edges.tolist()}) == len(edges)
    assert (np.bincount(edges.ravel()) == degree).all()
    graph = networkx.Graph(edges.tolist())
    assert networkx.is_connected(graph)
    assert [sorted(graph.neighbors(v)) for v in range(n)] == neighbours(n, edges).tolist()
    assert (sides(n, edges) is not None) == networkx.is_bipartite(graph)


@given(st.integers(2, 12), st.lists(st.tuples(st.integers(0, 11), st.integers(0, 11)), min_size=1, max_size=25))
def test_connection_agrees_with_networkx(n: int, pairs: list[tuple[int, int]]) -> None:
    edges = np.array(pairs) % n
    graph = networkx.Graph()
    graph.add_nodes_from(range(n))
    graph.add_edges_from(edges.tolist())
    assert is_connected(n, edges) == networkx.is_connected(graph)


def test_sides_separate_the_ends_of_every_edge() -> None:
    edges = np.array([[0, 3], [3, 1], [1, 4], [4, 2]])
    side = sides(5, edges)
    assert side is not None
    assert (side[edges[:, 0]] != side[edges[:, 1]]).all()


@given(st.integers(1, 25), st.integers(1, 25), st.floats(0, 1))
def test_biregular_columns_have_the_sums_asked_for(n_rows: int, n_columns: int, fill: float) -> None:
    total = round(fill * n_rows * n_columns)
    row_sizes, column_sizes = even_sizes(total, n_rows), even_sizes(total, n_columns)
    columns = biregular_columns(row_sizes, column_sizes, random())
    assert np.bincount(columns, minlength=n_columns).tolist() == column_sizes.tolist()
    for row in np.split(columns, np.cumsum(row_sizes)[:-1]):
        assert (np.diff(row) > 0).all()


@pytest.mark.slow
@pytest.mark.parametrize(("n", "degree"), [(100_000, 3), (1_000, 400), (1_000, 900)])
def test_large_or_dense(n: int, degree: int) -> None:
    edges = random_regular_edges(n, degree, random())
    keys = edges.min(axis=1) * n + edges.max(axis=1)
    assert len(np.unique(keys)) == n * degree // 2
    assert (np.bincount(edges.ravel()) == degree).all()


def test_all_pairings_of_a_small_graph_come_up() -> None:
    seen = {
        tuple(sorted(map(tuple, np.sort(random_regular_edges(6, 3, random(seed)), axis=1).tolist())))
        for seed in range(600)
    }
    assert len(seen) == 70  # labelled connected cubic graphs on six vertices: 60 prisms and 10 complete bipartite
