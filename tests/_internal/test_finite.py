"""Whether vectors are finite, whatever their length, and wherever they are not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from erasurehead._internal.arrays import finite

LENGTHS = (1, 100, 8192, 20_000, (1 << 18) + 8195)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_it_finds_what_is_not_finite_anywhere(length: int, dtype: str) -> None:
    vector = np.ones(length, dtype)
    assert finite(vector)
    for place in {0, length // 2, length - 1}:
        for value in (np.nan, np.inf, -np.inf):
            bad = vector.copy()
            bad[place] = value
            assert not finite(bad)
            assert not finite(bad.reshape(1, -1))


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_numbers_whose_squares_are_too_large_are_finite(length: int, dtype: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert finite(np.full(length, np.finfo(dtype).max / 2, dtype))
        assert finite(np.full(length, np.finfo(dtype).tiny, dtype))


def test_opposite_infinities_are_not_finite() -> None:
    assert not finite(np.array([np.inf, -np.inf] * 8192))
