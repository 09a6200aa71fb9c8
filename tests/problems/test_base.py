"""Samples are cut into tasks evenly; the penalty is what the original code has."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead._internal.partition import split_samples
from erasurehead.errors import InvalidArgument
from erasurehead.problems import LeastSquares


@given(st.integers(1, 200), st.data())
def test_tasks_cover_all_samples_once_in_order_and_evenly(n_samples: int, data: st.DataObject) -> None:
    n_tasks = data.draw(st.integers(1, n_samples))
    tasks = split_samples(n_samples, n_tasks)
    assert [sample for rows in tasks for sample in range(rows.start, rows.stop)] == list(range(n_samples))
    sizes = [rows.stop - rows.start for rows in tasks]
    assert len(sizes) == n_tasks
    assert max(sizes) - min(sizes) <= 1
    assert min(sizes) >= 1


def test_more_tasks_than_samples_is_refused_in_a_sentence() -> None:
    with pytest.raises(
        InvalidArgument, match=r"n_tasks must be at most the number of training samples \(3\), but it is"
    ):
        split_samples(3, 4)


def test_penalty_is_l2_times_the_squared_norm_and_its_gradient_twice_l2_times_x() -> None:
    problem = LeastSquares(np.eye(3), np.zeros(3), l2=0.25)
    x = np.array([1.0, -2.0, 4.0])
    assert problem.penalty(x) == 0.25 * 21
    np.testing.assert_array_equal(problem.penalty_gradient(x), [0.5, -1.0, 2.0])
    assert problem.objective(x) == problem.loss(x) + problem.penalty(x)
    np.testing.assert_array_equal(problem.initial(), np.zeros(3))
