"""Known, unequal probabilities of straggling: unbiased, of least variance, for every allocation."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.optimize import minimize

from erasurehead.codes import GradientCode
from erasurehead.codes._heterogeneous import (
    heterogeneous_balanced,
    heterogeneous_exclusive,
    heterogeneous_held,
    heterogeneous_staircase,
)
from erasurehead.errors import InvalidArgument

from .oracles import optimal_residual

P3 = (0.1, 0.2, 0.5)
CHANCES = st.lists(st.floats(0.01, 0.99), min_size=1, max_size=7)


def sums_and_chances(code: GradientCode) -> tuple[np.ndarray, np.ndarray]:
    """Alpha of the fixed weights, and the probability, for every set of answering workers."""
    p = code.structure.straggling
    rows = code.encoding.toarray() * code.structure.weights[:, None]
    alphas, chances = [], []
    for alive in product([False, True], repeat=code.n_workers):
        answering = np.array(alive)
        alphas.append(rows[answering[code.owner]].sum(axis=0))
        chances.append(np.where(answering, 1 - p, p).prod())
    return np.array(alphas), np.array(chances)


def assert_unbiased_with_stated_residuals(code: GradientCode) -> None:
    alphas, chances = sums_and_chances(code)
    assert chances @ alphas == pytest.approx(np.ones(code.n_tasks))
    assert chances @ ((alphas - 1) ** 2).sum(axis=1) == pytest.approx(code.structure.expected_residual)
    aligned = (alphas - 1).sum(axis=1) ** 2
    assert chances @ aligned == pytest.approx(code.structure.aligned_residual)


@given(CHANCES, st.integers(1, 9))
@pytest.mark.parametrize("allocation", [heterogeneous_staircase, heterogeneous_exclusive])
def test_both_allocations_are_unbiased_and_optimal_for_aligned_gradients(
    allocation: Callable[..., GradientCode], p: list[float], n_tasks: int
) -> None:
    code = allocation(p, n_tasks)
    assert_unbiased_with_stated_residuals(code)
    delta = (1 - np.array(p)) / np.array(p)
    assert code.structure.aligned_residual == pytest.approx(n_tasks**2 / delta.sum())
    assert code.loads.sum() <= len(p) + n_tasks - 1
    assert optimal_residual(code, np.arange(code.n_messages)) < 1e-15 * n_tasks


@given(CHANCES, st.integers(1, 9))
def test_the_staircase_has_no_negative_coefficient(p: list[float], n_tasks: int) -> None:
    code = heterogeneous_staircase(p, n_tasks)
    assert (code.encoding.data > 0).all()
    for worker in np.unique(code.owner):
        assert (np.diff(code.tasks_of(worker)) == 1).all()


def test_vector_of_three_workers() -> None:  # SCHEMES 13, test_vectors.json: hetero
    staircase = heterogeneous_staircase(P3)
    shares = staircase.encoding.toarray().sum(axis=1) * (1 - np.array(P3))
    assert shares == pytest.approx([1.9285714285714286, 0.8571428571428571, 0.21428571428571427])
    assert staircase.structure.aligned_residual == pytest.approx(0.6428571428571429)
    held = heterogeneous_held(P3, [[0, 1, 2]])
    assert held.encoding.toarray().ravel() == pytest.approx(
        [0.7142857142857143, 0.35714285714285715, 0.14285714285714285]
    )
    assert held.structure.expected_residual == pytest.approx(0.07142857142857142)


def test_the_authors_allocation_has_one_common_task() -> None:
    code = heterogeneous_exclusive([0.05, 0.1, 0.3, 0.3, 0.6, 0.9], n_tasks=12)
    assert code.replication[0] > 1
    assert set(code.replication[1:].tolist()) == {1}
    staircase = heterogeneous_staircase([0.05, 0.1, 0.3, 0.3, 0.6, 0.9], n_tasks=12)
    assert code.structure.expected_residual > staircase.structure.expected_residual


@given(CHANCES, st.integers(1, 5), st.integers(0, 99))
def test_given_holders_have_the_optimal_weights(p: list[float], n_tasks: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    holders = [np.flatnonzero(random.random(len(p)) < 0.6).tolist() or [0] for _ in range(n_tasks)]
    code = heterogeneous_held(p, holders)
    assert_unbiased_with_stated_residuals(code)
    delta = (1 - np.array(p)) / np.array(p)
    assert code.structure.expected_residual == pytest.approx(sum(1 / delta[held].sum() for held in holders))


def test_no_other_weights_do_better() -> None:
    p, held = np.array([0.1, 0.3, 0.45, 0.7]), [0, 1, 3]

    def residual(alpha: np.ndarray) -> float:
        return float((p[held] / (1 - p[held]) * alpha**2).sum())

    best = minimize(residual, np.full(3, 1 / 3), constraints={"type": "eq", "fun": lambda alpha: alpha.sum() - 1})
    code = heterogeneous_held(p, [held])
    assert code.structure.expected_residual == pytest.approx(best.fun, rel=1e-5)
    assert code.encoding.toarray()[:, 0] * (1 - p[held]) == pytest.approx(best.x, abs=1e-3)


def test_equal_chances_give_the_weights_of_stochastic_gradient_coding() -> None:
    code = heterogeneous_held([0.2] * 4, [[0, 1, 2], [1, 3]])
    assert code.structure.expected_residual == pytest.approx(0.2 / (3 * 0.8) + 0.2 / (2 * 0.8))
    assert code.encoding.toarray()[3].tolist() == [0.0, 1 / (2 * 0.8)]


@given(st.lists(st.floats(0, 0.99), min_size=2, max_size=7), st.data())
def test_the_greedy_allocation_keeps_the_cap_and_covers_all(p: list[float], data: st.DataObject) -> None:
    n_tasks = data.draw(st.integers(1, 9))
    load = data.draw(st.integers(-(-n_tasks // len(p)), n_tasks))
    code = heterogeneous_balanced(p, load, n_tasks)
    assert code.load <= load
    assert code.replication.min() >= 1
    assert_unbiased_with_stated_residuals(code)


def test_the_greedy_allocation_balances() -> None:
    p = np.exp(-np.random.default_rng(0).uniform(0.01, 2, 30))
    random = np.random.default_rng(1)
    balanced = heterogeneous_balanced(p, 3).structure.expected_residual
    for _ in range(20):
        circle = random.permutation(30)
        holders = [[int(circle[(task + shift) % 30]) for shift in range(3)] for task in range(30)]
        assert balanced < heterogeneous_held(p, holders).structure.expected_residual


@pytest.mark.parametrize("allocation", [heterogeneous_staircase, heterogeneous_exclusive])
def test_workers_that_never_straggle_do_all_the_work(allocation: Callable[..., GradientCode]) -> None:
    code = allocation([0.1, 0.0, 1.0, 0.0], 7)
    assert set(code.owner.tolist()) == {1, 3}
    assert code.structure.aligned_residual == 0
    assert code.encoding.toarray().sum(axis=0) == pytest.approx(np.ones(7))


def test_a_worker_that_always_straggles_gets_nothing() -> None:
    code = heterogeneous_held([0.5, 1.0, 0.0], [[0, 1], [1, 2, 0]])
    assert code.owner.tolist() == [0, 2]
    assert code.encoding.toarray().tolist() == [[2.0, 0.0], [0.0, 1.0]]


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: heterogeneous_staircase([0.1, 1.2]), r"probabilities must lie in \[0, 1\], but it is 1.2"),
        (lambda: heterogeneous_staircase([0.1, float("nan")]), r"probabilities must lie in \[0, 1\], but it is nan"),
        (lambda: heterogeneous_staircase([1, 1]), "probabilities must be below 1 for at least one worker"),
        (lambda: heterogeneous_staircase([]), "probabilities must be one number a worker"),
        (lambda: heterogeneous_held([0.1, 1], [[0], [1]]), "task 1 has none"),
        (lambda: heterogeneous_held([0.1], [[0], [1]]), r"holders must name workers 0..0, got 1"),
        (lambda: heterogeneous_held([0.1, 0.2], [[0, 0]]), "holders must name no worker twice"),
        (lambda: heterogeneous_held([0.1, 0.2], 3), "holders must be a list of the workers that hold each task"),
        (lambda: heterogeneous_held([0.1, 0.2], ["a"]), r"holders\[0\] must be"),
        (lambda: heterogeneous_balanced([0.1, 1], 1, 2), r"load times 1 workers that ever answer .* use load=2"),
    ],
)
def test_what_is_refused(build: Callable[[], GradientCode], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        build()
