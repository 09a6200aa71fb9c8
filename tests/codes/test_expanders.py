"""Codes from regular graphs: shares, connection, the checked spectral gap, and the bound that it gives."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead.codes._expanders import expander, margulis, regular
from erasurehead.codes._random_graphs import is_connected
from erasurehead.errors import InvalidArgument

from .oracles import one_step_residual, optimal_residual, residuals


@given(st.integers(2, 30), st.integers(2, 30), st.integers(0, 3), st.data())
def test_regular_shares_evenly_and_hangs_together(n: int, k: int, seed: int, data: st.DataObject) -> None:
    fitting = [load for load in range(2, k + 1) if n * load % k == 0 and 2 <= n * load // k <= n]
    if not fitting:
        return
    load = data.draw(st.sampled_from(fitting))
    code = regular(n, load, k, seed=seed)
    assert set(code.loads.tolist()) == {load}
    assert set(code.replication.tolist()) == {n * load // k}
    coordinates = code.encoding.tocoo()
    assert is_connected(n + k, np.stack([coordinates.row, coordinates.col + n], axis=1).astype(np.int64))
    assert optimal_residual(code, np.arange(n)) < 1e-20


def test_a_seed_is_a_code() -> None:
    assert (regular(30, 3, seed=5).encoding != regular(30, 3, seed=5).encoding).nnz == 0
    assert (regular(30, 3, seed=5).encoding != regular(30, 3, seed=6).encoding).nnz > 0


@pytest.mark.parametrize(("n", "load"), [(50, 3), (30, 4), (24, 7), (11, 4)])
def test_expander_has_the_gap_that_it_reports(n: int, load: int) -> None:
    code = expander(n, load)
    adjacency = code.encoding.toarray()
    assert (adjacency == adjacency.T).all()
    assert not adjacency.diagonal().any()
    eigenvalues = np.sort(np.abs(np.linalg.eigvalsh(adjacency)))
    assert code.structure.second_eigenvalue == pytest.approx(eigenvalues[-2])
    assert eigenvalues[-2] <= 1.1 * 2 * (load - 1) ** 0.5
    assert code.spectrum.gap == pytest.approx(load - eigenvalues[-2])


def test_expander_bound_on_one_step_decoding() -> None:
    code = expander(24, 3)
    ratio = (code.structure.second_eigenvalue / 3) ** 2
    random = np.random.default_rng(0)
    for s in (1, 4, 12):
        for _ in range(50):
            kept = code.messages_without(random.choice(24, s, replace=False))
            assert one_step_residual(code, kept) <= ratio * 24 * s / (24 - s) + 1e-9


def test_mean_one_step_error_of_a_regular_graph() -> None:
    code, n, d, s = expander(50, 3), 50, 3, 7
    random = np.random.default_rng(1)
    sets = [code.messages_without(random.choice(n, s, replace=False)) for _ in range(4_000)]
    mean = np.mean([one_step_residual(code, kept) for kept in sets])
    assert mean == pytest.approx(n * s * (n - d) / (d * (n - s) * (n - 1)), rel=0.02)  # Lemma A; SCHEMES 2b: 2.602
    draws = [residuals(expander(n, d, seed=seed), s, at_most=60) for seed in range(8)]
    assert np.mean(draws) == pytest.approx(0.565, rel=0.2)  # SCHEMES 2b, of one draw


@pytest.mark.parametrize("side", [1, 1_001, 10**6, 10**30])
def test_a_grid_of_more_than_a_million_workers_is_refused(side: int) -> None:
    with pytest.raises(InvalidArgument, match=r"side must be at (least 2|most 1000)"):
        margulis(side)


def test_margulis_agrees_with_networkx() -> None:
    graph = networkx.margulis_gabber_galil_graph(5)
    index = {node: node[0] * 5 + node[1] for node in graph}
    adjacency = networkx.to_numpy_array(graph, sorted(graph, key=index.__getitem__))
    ours = margulis(5).encoding.toarray()
    assert (ours.sum(axis=1) == 8).all()
    assert (ours == ours.T).all()
    loops = np.eye(25, dtype=bool)  # networkx counts a loop once, a row sum of eight twice
    assert (ours[~loops] == adjacency[~loops]).all()
    assert margulis(12).structure.second_eigenvalue < 5 * 2**0.5


def test_messages_of_errors() -> None:
    with pytest.raises(InvalidArgument, match=r"load times 9 workers must be even.*use load=4 or n_workers=10"):
        expander(9, 3)
    with pytest.raises(
        InvalidArgument, match=r"slack must be reached by one of 20 .* use slack=\d\.\d+ or another seed"
    ):
        expander(30, 3, slack=0.5)
    with pytest.raises(InvalidArgument, match=r"load times 10 workers must be a multiple of the 4 tasks.*use load=4"):
        regular(10, 3, 4)
    with pytest.raises(InvalidArgument, match="load must be at least 2, but it is 1"):
        regular(10, 1)
    with pytest.raises(InvalidArgument, match="load must put every task on at least 2 workers, got 2"):
        regular(4, 2, 8)


def test_a_suggested_slack_works() -> None:
    with pytest.raises(InvalidArgument) as caught:
        expander(30, 3, slack=0.5)
    slack = float(str(caught.value).split("use slack=")[1].split(" ")[0])
    assert expander(30, 3, slack=slack).structure.second_eigenvalue <= slack * 2 * 2**0.5
