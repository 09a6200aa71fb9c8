"""The search for the task about which two workers contradict each other: whoever lies is found, and nobody else."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given, strategies as st

from erasurehead.faults._byzantine.bisection import Bisection
from erasurehead.faults._byzantine.verifier import SLACK

Answers = st.sampled_from(["truth", "task", "noise", "nan", "inf", "huge", "split"])


def searched(honest: np.ndarray, lie: float, where: int, answers: str, seed: int, liar: int, dtype: str) -> list[int]:
    """Return the places of those who are found to lie; the honest one rounds each of its sums otherwise."""
    rng, n = np.random.default_rng(seed), len(honest)
    told = honest.sum(axis=0).astype(dtype)
    wrong = told.astype(float)
    wrong[1] += lie
    vectors = (told, wrong.astype(dtype)) if liar == 1 else (wrong.astype(dtype), told)
    search = Bisection((0, 1), vectors, n, SLACK[np.dtype(dtype).itemsize])
    assert search.element == 1
    error = float(np.finfo(dtype).eps)
    while not search.found:
        right = float(honest[search.first : search.middle, 1].sum().astype(dtype))
        right *= 1.0 + error * rng.uniform(-1.0, 1.0)
        inside = search.first <= where < search.middle
        said = {
            "truth": right,
            "task": right + lie * inside,
            "noise": float(rng.standard_normal()) * 10.0 ** rng.integers(-5, 5),
            "nan": math.nan,
            "inf": -math.inf,
            "huge": 1e300,
            "split": right + 0.5 * lie,
        }[answers]
        search.hear([right, said] if liar == 1 else [said, right])
    assert search.rounds == math.ceil(math.log2(n)) or n & (n - 1)
    return search.contradicted(float(honest[search.first, 1].astype(dtype)))


@given(
    n=st.integers(1, 40),
    lie=st.floats(1e-6, 1e12) | st.floats(-1e12, -1e-6),
    where=st.integers(0, 39),
    answers=Answers,
    liar=st.integers(0, 1),
    seed=st.integers(0, 10_000),
    dtype=st.sampled_from(["float64", "float32"]),
)
def test_who_lies_is_found_however_it_answers_and_an_honest_worker_never_is(
    n: int, lie: float, where: int, answers: str, liar: int, seed: int, dtype: str
) -> None:
    honest = np.random.default_rng(seed).standard_normal((n, 3))
    largest = np.abs(np.cumsum(honest[:, 1])).max() + np.abs(honest[:, 1]).max() + np.abs(honest.sum(axis=0)).max()
    stated = 4 * n * SLACK[np.dtype(dtype).itemsize] * largest
    if abs(lie) < stated:
        lie = math.copysign(stated, lie)
    assert searched(honest, lie, where % n, answers, seed, liar, dtype) == [liar]


def test_a_lie_where_the_right_number_is_nothing_but_rounding_convicts_its_worker_alone() -> None:
    told = np.array([3.0, 1e-15])  # of terms that cancel
    search = Bisection((0, 1), (told, told + np.array([0.0, 1e-6])), 4, 1e-11)
    search.hear([-2e-15, -2e-15])
    search.hear([1e-15, 1e-15])
    assert search.found
    assert search.contradicted(-3e-15) == [1]


@given(n=st.integers(1, 40), lie=st.floats(0.0, 1e-3), answers=Answers, seed=st.integers(0, 10_000))
def test_lies_within_rounding_convict_nobody_honest(n: int, lie: float, answers: str, seed: int) -> None:
    honest = np.random.default_rng(seed).standard_normal((n, 3))
    vectors = honest.sum(axis=0), honest.sum(axis=0) + np.array([0.0, lie, 0.0])
    if lie and vectors[0][1] != vectors[1][1]:
        assert set(searched(honest, lie, 0, answers, seed, 1, "float64")) <= {1}


def test_a_group_of_one_task_is_not_asked_and_two_who_are_wrong_are_both_found() -> None:
    search = Bisection((4, 7), (np.array([1.0, 2.0]), np.array([1.0, 3.0])), 1, 1e-11)
    assert search.found
    assert search.contradicted(2.0) == [1]
    assert search.contradicted(2.5) == [0, 1]
    assert search.contradicted(math.nan) == []
