"""The k-th smallest of each row is what sorting says, also where a guess from a sample goes wrong."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasurehead.arrays import Array
from erasurehead.waiting.selection import bracketed, kth_smallest, partitioned

Select = Callable[[Array, int], Array]
WAYS = pytest.mark.parametrize("select", [bracketed, partitioned, kth_smallest])


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
def test_equal_times_and_slow_workers_do_not_mislead_it(select: Select) -> None:
    times = np.ones((50, 400))
    assert (select(times, 200) == 1.0).all()
    times[:, ::2] = 1000.0
    assert (select(times, 200) == 1.0).all()
    assert (select(times, 201) == 1000.0).all()
