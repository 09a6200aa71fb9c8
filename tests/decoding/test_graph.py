"""Graph components: agrees with least squares on every graph, in linear time, with weights that stay small."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy import sparse

from erasurehead.codes import GradientCode
from erasurehead.decoding import make_decoder
from erasurehead.decoding._graph import GraphComponents, is_graph
from erasurehead.decoding._least_squares import LeastSquaresDecoder
from erasurehead.errors import InvalidArgument

from .helpers import check_consistent, check_every_arrival, code_of


def edges_code(n_tasks: int, edges: list[tuple[int, int]]) -> GradientCode:
    matrix = np.zeros((len(edges), n_tasks))
    for message, ends in enumerate(edges):
        matrix[message, list(ends)] = 1.0
    return code_of(matrix)


@st.composite
def signed_graphs(draw: st.DrawFn):
    """Graphs with multiple edges, minus signs, scaled rows, messages of a single task, and empty messages."""
    n_tasks, n_messages = draw(st.integers(1, 9)), draw(st.integers(1, 16))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    matrix = np.zeros((n_messages, n_tasks))
    for row in matrix:
        kind = rng.random()
        first, second = rng.integers(0, n_tasks, 2)
        if kind > 0.05:
            row[first] = rng.choice([1.0, 2.0])
        if kind > 0.25 and first != second:
            row[second] = row[first] * rng.choice([1.0, 1.0, -1.0])
    return code_of(matrix), rng.permutation(n_messages)


@given(signed_graphs())
def test_it_agrees_with_least_squares_at_every_arrival(graph):
    code, order = graph
    check_every_arrival(GraphComponents(code), order)


def test_a_bipartite_component_loses_its_imbalance():
    # A star of three leaves: parts of 1 and 3 tasks.
    code = edges_code(4, [(0, 1), (0, 2), (0, 3)])
    decoding = GraphComponents(code).decode([0, 1, 2])
    assert decoding.residual == pytest.approx((3 - 1) ** 2 / 4)
    np.testing.assert_allclose(decoding.alpha, [[1.5, 0.5, 0.5, 0.5]])


def test_an_odd_cycle_decodes_exactly():
    code = edges_code(4, [(0, 1), (1, 2), (2, 0), (2, 3)])
    assert GraphComponents(code).residual([0, 1, 2, 3]) == 0.0
    assert GraphComponents(code).decode([0, 1, 2, 3]).exact


def test_the_decoding_depends_on_the_set_of_arrivals_alone():
    code = edges_code(6, [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0), (0, 2), (1, 4)])
    decoder = GraphComponents(code)
    session = decoder.begin()
    for message in (6, 2, 2, 0, 7, 1):
        session.add(message)
        session.residual()
    assert session.decoding().weights.tobytes() == decoder.decode([0, 1, 2, 6, 7]).weights.tobytes()


def large_graph(n_tasks: int, degree: int, seed: int) -> GradientCode:
    rng = np.random.default_rng(seed)
    ends = rng.permutation(np.repeat(np.arange(n_tasks), degree)).reshape(-1, 2)
    ends = ends[ends[:, 0] != ends[:, 1]]
    rows = np.repeat(np.arange(len(ends)), 2)
    matrix = sparse.csr_array((np.ones(2 * len(ends)), (rows, ends.ravel())), shape=(len(ends), n_tasks))
    return GradientCode("random_graph", {}, matrix, np.arange(len(ends)), len(ends), n_tasks)


def test_large_graphs_keep_small_weights_and_the_same_residual_either_way():
    code = large_graph(3000, 6, seed=1)
    rng = np.random.default_rng(2)
    arrived = np.flatnonzero(rng.random(code.n_messages) < 0.8)
    decoder = make_decoder(code)
    assert isinstance(decoder, GraphComponents)
    decoding = decoder.decode(arrived)
    check_consistent(decoding, tolerance=1e-12)
    along = decoder.residuals(rng.permutation(arrived))
    assert along[-1] == pytest.approx(decoding.residual, abs=1e-9)
    assert (np.diff(along) <= 0).all()
    assert np.abs(decoding.weights).max() < 15  # a spanning tree's own weights reach 180 here


def test_a_middling_graph_against_the_dense_reference():
    code = large_graph(150, 3, seed=4)
    rng = np.random.default_rng(0)
    dense = LeastSquaresDecoder(code)
    for _ in range(5):
        arrived = np.flatnonzero(rng.random(code.n_messages) < rng.uniform(0.3, 1.0))
        decoding = GraphComponents(code).decode(arrived)
        np.testing.assert_allclose(decoding.alpha, dense.decode(arrived).alpha, atol=1e-9)


def test_what_is_a_graph():
    assert is_graph(code_of(np.array([[1.0, 1, 0], [0, -2, 2], [0, 0, 3], [0, 0, 0]])))
    assert not is_graph(code_of(np.array([[1.0, 2.0]])))
    assert not is_graph(code_of(np.ones((1, 3))))
    assert not is_graph(code_of(np.ones((2, 2)), n_pieces=2))
    with pytest.raises(InvalidArgument, match="equal magnitude"):
        GraphComponents(code_of(np.ones((2, 3))))
