"""The k-th smallest of each row is what sorting says."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead.schemes.wait_rules._kth_smallest import kth_smallest, networked, partitioned
from erasurehead.schemes.wait_rules._sorting_networks import LANES, network

from ...arrays import Array

Select = Callable[[Array, int], Array]
WAYS = pytest.mark.parametrize("select", [partitioned, kth_smallest])


@WAYS
@given(seed=st.integers(0, 1000), rounds=st.integers(1, 12), n=st.integers(1, 700), share=st.floats(0.0, 1.0))
def test_it_is_what_sorting_says(select: Select, seed: int, rounds: int, n: int, share: float) -> None:
    rng = np.random.default_rng(seed)
    times = rng.exponential(size=(rounds, n)) * rng.choice([1.0, 1.0, 50.0], size=(rounds, 1))  # unequal rounds
    times[rng.random(times.shape) < 0.1] = np.inf
    times = np.round(times, 2)  # ties
    k = max(1, round(share * n))
    assert (select(times, k) == np.sort(times, axis=1)[:, k - 1]).all()


@WAYS
@pytest.mark.parametrize("k", [1, 2, 4_000, 9_999, 10_000])
def test_one_long_row_and_many(select: Select, k: int) -> None:
    times = np.random.default_rng(0).exponential(size=(3, 10_000))
    assert (select(times, k) == np.sort(times, axis=1)[:, k - 1]).all()
    assert (select(times[:1], k) == np.sort(times[:1], axis=1)[:, k - 1]).all()


@WAYS
def test_equal_times_and_slow_workers_are_told_apart(select: Select) -> None:
    times = np.ones((50, 400))
    assert (select(times, 200) == 1.0).all()
    times[:, ::2] = 1000.0
    assert (select(times, 200) == 1.0).all()
    assert (select(times, 201) == 1000.0).all()


@pytest.mark.parametrize("n", [1, 2, 3, 10, 17, 30, 32, 48, 64])
def test_a_network_selects_what_sorting_does_from_any_number_of_rows(n: int) -> None:
    rng = np.random.default_rng(n)
    times = np.round(rng.exponential(size=(3 * LANES + 5, n)), 1)  # ties
    times[rng.random(times.shape) < 0.1] = np.inf
    for k in {1, (n + 2) // 3, (n + 1) // 2, n}:
        assert (networked(times, k) == np.sort(times, axis=1)[:, k - 1]).all()
        assert (networked(np.asfortranarray(times[:LANES]), k) == np.sort(times[:LANES], axis=1)[:, k - 1]).all()


def test_a_network_is_right_for_all_rows_of_zeros_and_ones_and_so_for_all_rows() -> None:
    n = 8
    rows = np.unpackbits(np.arange(1 << n, dtype=np.uint8)[:, None], axis=1).astype(float)
    for k in range(1, n + 1):
        assert (networked(rows, k) == np.sort(rows, axis=1)[:, k - 1]).all()


def test_a_network_for_one_place_is_shorter_than_one_that_sorts() -> None:
    assert len(network(32, 1)) == 31  # Batcher's network sorts 32 with 191 comparisons
    assert 31 < len(network(32, 16)) < 191


@pytest.mark.parametrize("n", [30, 64, 65])
def test_large_tables_of_short_rows_have_the_same_bits_whatever_selects(n: int) -> None:
    times = np.random.default_rng(0).exponential(size=(1024, n))
    for k in (1, n // 3, n):
        assert kth_smallest(times, k).tobytes() == partitioned(times, k).tobytes()
