"""Weights of mixing: symmetric and doubly stochastic to rounding on every subgraph, and users' matrices checked."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from erasurehead.consensus import Mixing
from erasurehead.consensus._graphs import Graph, neighbours_by, parse_graph
from erasurehead.consensus._mixing import FixedMixing, MaxDegree, Metropolis, mixed, parse_mixing
from erasurehead.errors import InvalidArgument

from ..arrays import Array


def step_matrix(mixing: Mixing, graph: Graph, links: set[tuple[int, int]]) -> Array:
    """Return what averaging over these links multiplies the models with: the means of unit vectors."""
    bound, units = mixing.on(graph, graph.edges), np.eye(graph.n_peers)
    there = neighbours_by(links, range(graph.n_peers))
    return np.array(
        [
            mixed(
                units[peer],
                peer,
                [
                    (other, bound.weight(peer, other, len(there[peer]), len(there[other])), units[other])
                    for other in own
                ],
            )
            for peer, own in there.items()
        ]
    )


@settings(max_examples=60, deadline=None)
@given(st.data(), st.sampled_from([Metropolis(), MaxDegree(), FixedMixing()]), st.integers(4, 12))
def test_every_realised_step_is_doubly_stochastic(data: st.DataObject, mixing: Mixing, n_peers: int) -> None:
    graph = parse_graph("erdos_renyi(p=0.7)", n_peers)
    links = data.draw(st.sets(st.sampled_from(graph.edges)))
    matrix = step_matrix(mixing, graph, links)
    assert (matrix == matrix.T).all()
    assert (matrix >= 0.0).all()
    np.testing.assert_allclose(matrix.sum(axis=0), 1.0, atol=1e-15 * n_peers)
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0, atol=1e-15 * n_peers)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 9), st.integers(0, 1000))
def test_mixing_is_the_row_of_the_matrix_and_keeps_the_order(here: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    others = [peer for peer in range(10) if peer != here and rng.random() < 0.5]
    models = rng.standard_normal((10, 4))
    vectors = [(peer, 1.0 / (1 + len(others)), models[peer]) for peer in others]
    row = np.zeros(10)
    row[others] = 1.0 / (1 + len(others))
    row[here] = 1.0 - row.sum()
    np.testing.assert_allclose(mixed(models[here], here, vectors), row @ models, atol=1e-14)


def test_texts() -> None:
    assert str(parse_mixing("metropolis")) == "metropolis()"
    with pytest.raises(InvalidArgument, match="must be one of metropolis, max_degree, fixed"):
        parse_mixing("uniform()")
