"""Small linear codes: how many erasures they bear, against the definition."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead.codes._linear_codes import erasures_tolerated, gaussian_mds, parity_check, repetition
from erasurehead.errors import InvalidArgument

HAMMING = [[1, 0, 0, 0, 0, 1, 1], [0, 1, 0, 0, 1, 0, 1], [0, 0, 1, 0, 1, 1, 0], [0, 0, 0, 1, 1, 1, 1]]


def random() -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(0))


@given(st.integers(1, 7).flatmap(lambda length: st.tuples(st.integers(1, length), st.just(length))))
def test_gaussian_codes_are_mds_and_well_conditioned(size: tuple[int, int]) -> None:
    dimension, length = size
    generator = gaussian_mds(dimension, length, random())
    assert erasures_tolerated(generator) == length - dimension
    for kept in combinations(range(length), dimension):
        assert np.linalg.cond(generator[:, kept]) < 1e3


def test_known_distances() -> None:
    assert erasures_tolerated(repetition(5)) == 4
    assert erasures_tolerated(parity_check(5)) == 1
    assert erasures_tolerated(np.array(HAMMING, dtype=float)) == 2  # over the reals as over two elements: distance 3
    assert erasures_tolerated(np.eye(3)) == 0


@given(st.lists(st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=5, max_size=5), min_size=2, max_size=2))
def test_distance_by_the_lightest_word(rows: list[list[float]]) -> None:
    generator = np.array(rows)
    if np.linalg.matrix_rank(generator) < 2:
        with pytest.raises(InvalidArgument, match="generator must have rank 2, the number of its rows"):
            erasures_tolerated(generator)
        return
    # The lightest words of a plane vanish where one column does: x orthogonal to that column.
    words = [np.array([-column[1], column[0]]) @ generator for column in generator.T if column.any()]
    lightest = min(int((np.abs(word) > 1e-12).sum()) for word in words)
    assert erasures_tolerated(generator) == lightest - 1


def test_too_long_to_prove() -> None:
    with pytest.raises(InvalidArgument, match="generator must be short enough for its distance to be proved"):
        erasures_tolerated(random().standard_normal((2, 400)))
