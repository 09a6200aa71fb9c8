"""Graph codes: workers are edges."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead.codes._graph_codes import edge_code, graph_code
from erasurehead.codes._random_graphs import sides
from erasurehead.errors import InvalidArgument

from .oracles import optimal_residual


@pytest.mark.slow
@given(st.integers(3, 8), st.integers(0, 20), st.integers(0, 3))
def test_two_tasks_a_worker_on_a_regular_graph(replication: int, more: int, seed: int) -> None:
    n_tasks = replication + 1 + more
    if n_tasks * replication % 2:
        n_tasks += 1
    if n_tasks == replication:
        return
    code = graph_code(n_tasks * replication // 2, replication, seed=seed)
    assert code.n_tasks == n_tasks
    assert set(code.loads.tolist()) == {2}
    assert set(code.replication.tolist()) == {replication}
    rows = code.encoding.toarray()
    assert (rows[np.arange(code.n_workers)[:, None], code.structure.edges] == 1).all()
    assert optimal_residual(code, np.arange(code.n_workers)) < 1e-20


def test_random_stragglers_leave_about_p_to_the_replication() -> None:
    code, p = graph_code(90, 3), 0.2  # SCHEMES 11: residual per task .00828 at d = 3, p = .2
    random = np.random.default_rng(0)
    sets = [np.flatnonzero(random.random(90) >= p) for _ in range(400)]
    assert np.mean([optimal_residual(code, kept) for kept in sets]) / 60 == pytest.approx(0.00828, rel=0.35)


def test_a_graph_of_your_own() -> None:
    code = edge_code([[0, 1], [1, 2], [2, 0]])
    assert code.encoding.toarray().tolist() == [[1, 1, 0], [0, 1, 1], [1, 0, 1]]
    assert edge_code([[0, 1], [2, 3], [1, 2]]).n_tasks == 4  # a balanced tree: exact with all workers
    assert optimal_residual(edge_code([[0, 1], [2, 3], [1, 2]]), np.arange(3)) < 1e-20


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([[0, 1], [1, 2]], "edges must bring the sum of all tasks within reach.*add an edge within one side"),
        ([[0, 1], [2, 3]], "edges must connect all tasks"),
        ([[0, 1], [1, 1]], r"edges must join two different tasks, got \[1, 1\]; look at edge 1"),
        ([[0, 1], [1, 3]], "edges must name the tasks 0, 1, 2, ... without gaps"),
        ([[0, -1]], "edges must name the tasks 0, 1, 2, ... without gaps"),
        ([[0, 1, 2]], "edges must be pairs of whole numbers"),
        ([[0.0, 1.0]], "edges must be pairs of whole numbers"),
        ([], "edges must be pairs of whole numbers"),
    ],
)
def test_what_is_no_graph(edges: list[list[int]], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        edge_code(edges)


def test_the_nearest_sizes_are_named_and_exist() -> None:
    with pytest.raises(InvalidArgument, match="use n_workers=9"):
        graph_code(8, 3)
    with pytest.raises(InvalidArgument, match="use replication=4 or n_workers=15"):
        graph_code(14, 5)
    assert graph_code(9, 3).n_tasks == 6
    assert graph_code(15, 5).n_tasks == 6
    assert graph_code(14, 4).n_tasks == 7


def test_bipartite_draws_are_drawn_again() -> None:
    # One in seven cubic graphs on six vertices is bipartite; its spectrum would have no gap.
    for seed in range(40):
        assert graph_code(9, 3, seed=seed).structure.edges.shape == (9, 2)
        assert sides(6, graph_code(9, 3, seed=seed).structure.edges) is None
