"""Differences of vectors past the caches: equal to NumPy's to the bit, wherever they begin and end."""

from __future__ import annotations

import warnings
from itertools import pairwise

import numpy as np
import pytest

from erasurehead._internal.arrays import Array
from erasurehead.torch import _streams
from erasurehead.torch._streams import subtract

LARGE = 1 << 13
LENGTHS = (LARGE - 1, LARGE, LARGE + 5)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let small vectors be large ones."""
    monkeypatch.setattr(_streams, "LARGE", LARGE)


def vectors(length: int, dtype: str = "float32", begin: int = 0) -> tuple[Array, Array, Array]:
    """Return two vectors, and room for a third that begins so many elements behind a line of the cache."""
    one, other = np.random.default_rng(0).normal(size=(2, length)).astype(dtype)
    room = np.full(length + 64, 7.0, dtype)
    begin += -room.ctypes.data % 64 // room.itemsize
    return one, other, room[begin : begin + length]


@pytest.mark.parametrize("begin", [0, 1, 15])
@pytest.mark.parametrize("length", LENGTHS)
def test_differences_are_those_of_numpy(length: int, begin: int) -> None:
    one, other, out = vectors(length, begin=begin)
    assert subtract([(one, other, out)], out)
    np.testing.assert_array_equal(out, one - other)
    assert out.base is not None
    assert np.count_nonzero(np.asarray(out.base) == 7.0) == 64  # nothing beside it is written to


def test_parts_of_large_vectors_may_be_of_any_length_and_of_narrower_numbers() -> None:
    one, other, out = vectors(LARGE)
    ends = [0, 1, 17, 5_000, LARGE - 3, LARGE]
    parts = [slice(*pair) for pair in pairwise(ends)]
    narrow = one.astype(np.float16)
    for source in (one, narrow):
        out[:] = 7.0
        assert subtract(((source[part], other[part], out[part]) for part in parts), out)
        np.testing.assert_array_equal(out, source - other)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("place", [0, 1, 4_000, -1])
def test_one_number_that_is_not_finite_is_seen_wherever_it_is(place: int, length: int) -> None:
    one, other, out = vectors(length)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for pair in ((np.nan, 0.0), (np.inf, np.inf), (-np.inf, 0.0), (3e38, -3e38)):
            one[place], other[place] = pair
            assert not subtract([(one, other, out)], out)
        one[place], other[place] = 3e38, 3e38
        assert subtract([(one, other, out)], out)


def test_vectors_that_caches_hold_need_no_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_streams, "_kernels", None)
    _streams.prepare(LARGE - 1, np.dtype(np.float32))
    one, other, out = vectors(1000)
    assert subtract([(one, other, out)], out)
