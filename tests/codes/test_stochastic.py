"""Stochastic gradient coding and batched coupons."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead.codes._random_assignments import batched_coupons, stochastic_gradient
from erasurehead.errors import InvalidArgument

from .oracles import worst_residual


@given(st.integers(1, 20), st.integers(1, 30), st.floats(0, 0.9), st.data())
def test_every_task_has_its_copies_and_loads_are_even(n: int, k: int, p: float, data: st.DataObject) -> None:
    least = -(-n // k)
    if least > n:
        return
    code = stochastic_gradient(n, data.draw(st.integers(least, n)), p, k)
    assert set(code.replication.tolist()) == {code.parameters["replication"]}
    assert code.loads.max() - code.loads.min() <= 1
    assert code.loads.min() >= 1
    in_the_mean = (1 - p) * code.structure.weights @ code.encoding.toarray()
    assert in_the_mean == pytest.approx(np.ones(k))


@pytest.mark.slow
def test_residual_of_the_fixed_weights() -> None:
    p, d, n = 0.2, 3, 30
    random = np.random.default_rng(0)
    found = []
    for seed in range(2_000):
        code = stochastic_gradient(n, d, p, seed=seed % 20)
        kept = random.random(n) >= p
        alpha = (code.structure.weights * kept) @ code.encoding.toarray()
        found.append(((alpha - 1) ** 2).sum())
    assert np.mean(found) == pytest.approx(n * p / (d * (1 - p)), rel=0.03)  # SCHEMES 11: 2.5


def test_any_two_workers_share_about_equally_many_tasks() -> None:
    overlaps = np.zeros((12, 12))
    for seed in range(400):
        held = stochastic_gradient(12, 4, 0.1, seed=seed).assignment.toarray()
        overlaps += held @ held.T / 400
    apart = overlaps[~np.eye(12, dtype=bool)]
    assert apart == pytest.approx(np.full(len(apart), 4 * 3 / 11), rel=0.2)


def test_coupons_are_unequal_groups_that_are_all_seen() -> None:
    code = batched_coupons(12, 4)
    workers = np.bincount(code.groups)
    assert len(workers) == 3
    assert code.tolerance == workers.min() - 1
    assert code.replicas
    assert worst_residual(code, code.tolerance) < 1e-15
    assert len({tuple(np.bincount(batched_coupons(12, 4, seed=seed).groups)) for seed in range(20)}) > 3


@pytest.mark.parametrize("n_batches", [5, 10, 20])
def test_arrivals_needed_are_those_of_the_coupon_collector(n_batches: int) -> None:
    expected = {5: 11.42, 10: 29.29, 20: 71.95}[n_batches]  # SCHEMES 11: N H_N
    random = np.random.default_rng(0)
    needed = []
    for seed in range(300):
        groups = batched_coupons(20 * n_batches, 3, 3 * n_batches, seed=seed).groups
        _, first = np.unique(groups[random.permutation(len(groups))], return_index=True)
        needed.append(first.max() + 1)
    assert np.mean(needed) == pytest.approx(expected, rel=0.08)


def test_messages_of_errors() -> None:
    with pytest.raises(InvalidArgument, match=r"enough to see all 10 batches \(about 30 random picks\), but it is 10"):
        batched_coupons(10, 1)
    with pytest.raises(InvalidArgument, match=r"straggling must be a probability in \[0, 1\], but it is 1.5"):
        stochastic_gradient(10, 3, 1.5)
    with pytest.raises(InvalidArgument, match="straggling must be less than 1: somebody has to answer"):
        stochastic_gradient(10, 3, 1)
    with pytest.raises(InvalidArgument, match="replication must be at most 10, but it is 11"):
        stochastic_gradient(10, 11, 0.1)
    with pytest.raises(
        InvalidArgument, match=r"replication times 3 tasks must be at least the 10 workers.*replication=4"
    ):
        stochastic_gradient(10, 2, 0.1, n_tasks=3)
