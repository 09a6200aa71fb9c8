"""A run says that it has converged only where it has: on raw columns far from 0, too, which are nearly collinear."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead import schemes
from erasurehead.optimizers import QuasiNewton
from erasurehead.optimizers._nothing_to_gain import NothingToGain
from erasurehead.problems import LeastSquares, LogisticRegression
from erasurehead.training import Callback, Resumption, Run, train

from ..arrays import Array

N = 120


def data(loss: str, columns: int, seed: int) -> tuple[Array, Array]:
    """Return columns around 0 and targets."""
    rng = np.random.default_rng(seed)
    X, model = rng.standard_normal((N, columns)), rng.standard_normal(columns)
    if loss == "squares":
        return X, X @ model + 0.3 * rng.standard_normal(N)
    return X, np.where(X @ model + rng.logistic(size=N) > 0.0, 1.0, -1.0)


def moved(loss: str, X: Array, y: Array, offset: float) -> Any:
    """Return the problem with columns (and targets) far from 0, and a column of ones: its minimum is the same."""
    far = np.column_stack([X + offset, np.ones(N)])
    return LeastSquares(far, y + offset) if loss == "squares" else LogisticRegression(far, y)


def fit(problem: Any, steps: int = 400, **others: Any) -> Run:
    first = others.pop("first", problem.initial())
    return train(problem, schemes.adaptive(6), QuasiNewton(first), "virtual", steps, evaluate_every=0, **others)


def above(run: Run, least: float) -> float:
    """Return how far its objective is above the least, relative to that."""
    assert run.final is not None
    return (run.final.objective - least) / least


@given(st.sampled_from(["squares", "logistic"]), st.integers(1, 8), st.integers(0, 99), st.floats(1.0, 7.0))
@pytest.mark.slow
def test_no_run_on_columns_far_from_0_has_converged_above_the_minimum(
    loss: str, columns: int, seed: int, digits: float
) -> None:
    X, y = data(loss, columns, seed)
    near = fit(moved(loss, X, y, 0.0))
    assert near.final is not None
    run = fit(moved(loss, X, y, 10.0**digits))
    assert run.ended != "converged" or above(run, near.final.objective) < 1e-5


@pytest.mark.parametrize("offset", [1e6, 10**6.5, 1e7])
@pytest.mark.parametrize(("columns", "seed"), [(1, 0), (2, 1), (2, 3), (3, 2), (5, 3)])
def test_a_long_first_gradient_says_nothing_of_a_short_one(columns: int, seed: int, offset: float) -> None:
    # Targets of a million: after one step the gradient is 1e-13 of the first one, at twice to twenty times the minimum.
    X, y = data("squares", columns, seed)
    near, run = fit(moved("squares", X, y, 0.0)), fit(moved("squares", X, y, offset))
    assert near.final is not None
    assert len(run.steps) > 20
    assert run.ended != "converged" or above(run, near.final.objective) < 1e-3


@pytest.mark.parametrize("loss", ["squares", "logistic"])
@pytest.mark.parametrize("offset", [1e3, 1e4, 1e5])
def test_it_converges_on_columns_far_from_0(loss: str, offset: float) -> None:
    X, y = data(loss, 4, seed=3)
    near, run = fit(moved(loss, X, y, 0.0)), fit(moved(loss, X, y, offset))
    assert near.final is not None
    assert run.ended == "converged"
    assert above(run, near.final.objective) < 1e-7


@pytest.mark.parametrize("offset", [1e6, 1e8, 1e10, 1e12])
def test_it_ends_where_rounding_hides_what_is_left_of_targets_far_from_0(offset: float) -> None:
    for seed in range(3):
        X, y = data("squares", 2, seed)
        run = fit(LeastSquares(np.column_stack([X, np.ones(N)]), y + offset))
        near = fit(LeastSquares(np.column_stack([X, np.ones(N)]), y))
        assert run.ended == "converged"
        assert len(run.steps) < 200
        np.testing.assert_allclose(run.x[:-1], near.x[:-1], atol=1e-16 * offset + 1e-9)


def test_a_short_gradient_ends_a_run_at_once_where_somebody_has_chosen_what_is_short() -> None:
    X, y = data("squares", 4, seed=3)
    problem = moved("squares", X, y, 1e6)
    run = fit(problem, tolerance=1e-8)
    assert run.ended == "converged"
    assert len(run.steps) < len(fit(problem).steps)
    norms = [row.gradient_norm or 0.0 for row in run.steps]
    assert norms[-1] <= 1e-8 * norms[0] < min(norms[:-1])


class States(Callback):
    def __init__(self) -> None:
        self.states: list[Mapping[str, Any]] = []

    def on_state(self, done: int, state: Any) -> None:
        self.states.append(state())


def test_it_goes_on_to_the_bit_from_any_step_of_looking_again() -> None:
    for seed in range(12):  # on which of these data it looks again is a matter of rounding: on half of them it does
        X, y = data("squares", 4, seed=seed)
        problem = moved("squares", X, y, 1e5)
        states = States()
        whole = fit(problem, callbacks=[states])
        if any(row.decision["act"] == "restart" for row in whole.steps):
            break
    else:
        pytest.fail("it never looked again")
    norms = np.array([row.gradient_norm for row in whole.steps])
    short = int(np.argmax(norms <= 1e-12 * norms[0]))  # where the length of the gradient alone would have ended it
    assert 0 < short < len(norms) - 5
    for step in range(short, len(norms) + 1, 3):
        resume = Resumption(states.states[step], whole.steps[:step], whole.arrivals)
        onwards = fit(problem, resume=resume)
        assert onwards.ended == whole.ended
        assert len(onwards.steps) == len(whole.steps)
        np.testing.assert_array_equal(onwards.x, whole.x)


@pytest.mark.parametrize(
    ("promises", "bent", "found"),
    [
        ([1e-13] * 5, [True] * 5, True),
        ([1e-13] * 5, [True, True, False, True, True], False),  # the slope is the same at its end: it was too short
        ([1e-17, 1e-16, 1e-15, 1e-14, 1e-13], [True] * 5, False),  # curvatures are still being found
        ([1e-13, 1e-11, 1e-13, 1e-13, 1e-13], [True] * 5, False),
    ],
)
def test_nothing_is_left_to_gain_after_five_calm_steps_in_a_row(
    promises: list[float], bent: list[bool], found: bool
) -> None:
    left = NothingToGain()
    for promise, bends in zip(promises, bent, strict=True):
        left.hear(promise, 1.0, bends)
    assert left.found == found


def test_what_is_found_again_at_the_same_objective_is_believed() -> None:
    left = NothingToGain()
    assert left.look_again(1.0)
    assert left.look_again(0.9)  # looking again has brought a tenth
    assert not left.look_again(0.9 - 1e-8)
