"""Pieces: exact for every straggler set, at the trade-off's edge, for any linear code."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from erasurehead.codes import GradientCode
from erasurehead.codes._communication_efficient import communication_efficient_cyclic, communication_efficient_groups
from erasurehead.errors import InvalidArgument

from .oracles import residuals, worst_residual

HAMMING = [[1, 0, 0, 0, 0, 1, 1], [0, 1, 0, 0, 1, 0, 1], [0, 0, 1, 0, 1, 1, 0], [0, 0, 0, 1, 1, 1, 1]]


@pytest.mark.parametrize(("n", "load", "pieces"), [(10, 4, 2), (8, 5, 3), (6, 6, 3), (7, 3, 1), (5, 2, 2), (9, 6, 2)])
def test_cyclic_is_exact_for_every_straggler_set(n: int, load: int, pieces: int) -> None:  # SCHEMES 9a
    code = communication_efficient_cyclic(n, pieces, load=load)
    assert code.tolerance == load - pieces
    assert code.encoding.shape == (n, n * pieces)
    assert set(code.loads.tolist()) == {load}
    assert worst_residual(code, code.tolerance) < 1e-18
    if code.tolerance + 1 < n:
        assert worst_residual(code, code.tolerance + 1) > 1e-3


@pytest.mark.parametrize(("n", "load", "pieces"), [(20, 6, 3), (30, 8, 4)])
def test_larger_cyclic_codes_stay_within_the_stated_rounding(n: int, load: int, pieces: int) -> None:
    code = communication_efficient_cyclic(n, pieces, load=load)
    assert residuals(code, code.tolerance, at_most=100).max() < 1e-15


def test_a_vandermonde_generator_of_your_own() -> None:
    nodes = np.array([1, -1, 1.5, -1.5, 2, -2, 2.5, -2.5])
    powers = np.vander(nodes, 8 - 4 + 2).T  # highest degree first, as Ye and Abbe's
    code = communication_efficient_cyclic(8, 2, load=4, generator=powers)
    assert code.tolerance == 2
    assert worst_residual(code, 2) < 1e-15


def test_a_weak_generator_bears_less_and_says_so() -> None:
    weak = np.random.default_rng(0).standard_normal((6, 8))
    weak[:, 4] = weak[:, 0]  # without two of the others, both of these stay: distance 2 instead of 3
    code = communication_efficient_cyclic(8, 2, load=4, generator=weak)
    assert code.tolerance == 1
    assert worst_residual(code, 1) < 1e-15
    with pytest.raises(
        InvalidArgument, match="stragglers must be less than the generator's minimum distance, but it is 2"
    ):
        communication_efficient_cyclic(8, 2, stragglers=2, load=4, generator=weak)
    weak[:, 1] = weak[:, 0]
    with pytest.raises(InvalidArgument, match="generator must have independent columns below row 2"):
        communication_efficient_cyclic(8, 2, load=4, generator=weak)


@pytest.mark.parametrize(
    ("code", "tolerance"),
    [
        (communication_efficient_groups(12, 4, 2), 2),
        (communication_efficient_groups(12, 4, 4), 0),
        (communication_efficient_groups(11, 4, 2), 1),
        (communication_efficient_groups(13, 5, 2, n_tasks=20), 1),
        (communication_efficient_groups(12, 4, generator="parity"), 1),
        (communication_efficient_groups(12, 4, generator="repetition"), 3),
        (communication_efficient_groups(14, 7, generator=HAMMING), 2),
        (communication_efficient_groups(12, 4, generator=[[1, 0, 1, 1], [0, 1, 1, 0]]), 1),
    ],
    ids=repr,
)
def test_groups_are_exact_for_every_straggler_set(code: GradientCode, tolerance: int) -> None:  # SCHEMES 9b
    assert code.tolerance == tolerance
    assert worst_residual(code, tolerance) < 1e-15
    if tolerance + 1 < code.n_workers:
        assert worst_residual(code, tolerance + 1) > 1e-3


def test_each_message_is_the_generators_column_over_the_pieces_of_the_sum() -> None:
    code = communication_efficient_groups(12, 4, 2)
    for message in range(12):
        group, column = int(code.groups[message]), int(code.structure.position[message])
        assert code.tasks_of_message(message).tolist() == list(range(4 * group, 4 * group + 4))
        assert (code.coefficients(message) == code.structure.generators[group][:, column]).all()


def test_group_codes_stay_exact_in_single_precision() -> None:
    code = communication_efficient_groups(32, 8, 4)  # SCHEMES 9b: 1e-7 even at (32, 8, 4, 4)
    random = np.random.default_rng(0)
    gradients = random.standard_normal((32, 4, 50))
    messages = (code.encoding @ gradients.reshape(128, 50)).astype(np.float32)
    kept = code.messages_without(random.choice(32, 4, replace=False))
    weights = np.linalg.lstsq(code.encoding.toarray()[kept].T, code.target.T, rcond=None)[0]
    error = weights.T @ messages[kept] - gradients.sum(axis=0)
    assert np.abs(error).max() / np.abs(gradients.sum(axis=0)).max() < 3e-6


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: communication_efficient_cyclic(10, 2, stragglers=3, load=4),
            r"load must be at least stragglers \+ n_pieces = 5: no code does with less, but it is 4; use load=5",
        ),
        (lambda: communication_efficient_cyclic(10, 2), "Give stragglers or load"),
        (lambda: communication_efficient_cyclic(5, 3, stragglers=3), "load must be at most the number of tasks, 5"),
        (lambda: communication_efficient_cyclic(301, 2, 2), "use communication_efficient_groups"),
        (
            lambda: communication_efficient_cyclic(8, 2, load=4, generator=np.eye(3)),
            r"generator must have shape \(n - load \+ n_pieces, n\) = \(6, 8\), got \(3, 3\)",
        ),
        (lambda: communication_efficient_groups(12, 4), "n_pieces must be given with generator='mds'"),
        (lambda: communication_efficient_groups(12, 4, 5), "n_pieces must be at most the 4 workers of the smallest"),
        (lambda: communication_efficient_groups(4, 1, n_tasks=9), "load must leave no more groups than the 4 workers"),
        (lambda: communication_efficient_groups(12, 4, generator=[[1, 1, 1]]), "a column for each of the 4 workers"),
        (lambda: communication_efficient_groups(12, 4, 3, "parity"), None),
        (
            lambda: communication_efficient_groups(12, 4, 2, "parity"),
            "n_pieces must be the generator's number of rows, 3",
        ),
        (lambda: communication_efficient_groups(12, 4, generator="bch"), "generator must be 'mds', 'parity'"),
        (
            lambda: communication_efficient_groups(12, 4, generator=[[1, 1, 1, 1], [2, 2, 2, 2]]),
            "generator must have rank 2",
        ),
        (lambda: communication_efficient_groups(12, 4, generator=[[1, 0, 1, 1]]), "no empty column.*column 1"),
        (lambda: communication_efficient_groups(12, 4, generator=[[1, np.nan, 1, 1]]), "must be a finite matrix"),
    ],
)
def test_what_is_refused(build: Callable[[], GradientCode], message: str | None) -> None:
    if message is None:
        assert build().tolerance == 1
        return
    with pytest.raises(InvalidArgument, match=message):
        build()
