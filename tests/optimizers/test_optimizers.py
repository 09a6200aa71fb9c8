"""Every optimizer against its formula, and states that continue to the bit."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from erasurehead.errors import InvalidArgument
from erasurehead.optimizers import GradientDescent, HeavyBall, Nesterov, Optimizer
from erasurehead.optimizers._base import Answer
from erasurehead.optimizers._schedules import Constant, Geometric, InverseTime

MATRIX = np.diag([1.0, 4.0, 9.0])


def gradient(x: np.ndarray) -> np.ndarray:
    return MATRIX @ x - 1.0


def iterate(optimizer: Optimizer, steps: int) -> np.ndarray:
    for _ in range(steps):
        optimizer.tell(Answer(gradient(optimizer.ask().points[0])))
    return optimizer.x


def test_nesterov_moves_as_the_original_code_writes_it() -> None:
    eta, alpha = 0.05, 0.02
    beta, utemp = np.zeros(3), np.zeros(3)
    optimizer = Nesterov(np.zeros(3), eta)
    for i in range(12):
        g = gradient(beta)
        theta = 2.0 / (i + 2.0)
        ytemp = (1 - theta) * beta + theta * utemp
        betatemp = ytemp - eta * g - (2 * alpha * eta) * beta
        utemp = beta + (betatemp - beta) * (1 / theta)
        beta = betatemp
        optimizer.tell(Answer(gradient(optimizer.x) + 2 * alpha * optimizer.x))
        np.testing.assert_allclose(optimizer.x, beta, rtol=1e-13)


def test_nesterov_keeps_a_warm_start() -> None:
    optimizer = Nesterov(np.full(3, 3.0), 1e-12)
    optimizer.tell(Answer(np.ones(3)))
    np.testing.assert_allclose(optimizer.x, 3.0)


def test_gradient_descent_and_heavy_ball_follow_their_formulas() -> None:
    x, v, plain = np.ones(3), np.zeros(3), np.ones(3)
    for _ in range(10):
        plain = plain - 0.1 * gradient(plain)
        v = 0.5 * v - 0.1 * gradient(x)
        x = x + v
    np.testing.assert_array_equal(iterate(GradientDescent(np.ones(3), 0.1), 10), plain)
    np.testing.assert_allclose(iterate(HeavyBall(np.ones(3), 0.1, momentum=0.5), 10), x)


@pytest.mark.parametrize("kind", [GradientDescent, HeavyBall, Nesterov])
def test_all_of_them_reach_the_minimum_of_a_quadratic(kind: type[Optimizer]) -> None:
    x = iterate(kind(np.zeros(3), 0.02), 3000)
    np.testing.assert_allclose(x, [1.0, 1 / 4, 1 / 9], atol=1e-3)


@pytest.mark.parametrize("kind", [GradientDescent, HeavyBall, Nesterov])
@given(before=st.integers(0, 5), after=st.integers(0, 5))
def test_a_restored_state_continues_to_the_bit(kind: type[Optimizer], before: int, after: int) -> None:
    whole = kind(np.ones(3), Geometric(0.1, 0.9))
    iterate(whole, before)
    resumed = kind(np.zeros(3), Geometric(0.1, 0.9))
    resumed.restore(whole.state())
    assert iterate(resumed, after).tobytes() == iterate(whole, after).tobytes()


def test_no_estimate_means_no_step_but_time_goes_on() -> None:
    optimizer = Nesterov(np.ones(3), 0.1)
    before = optimizer.x
    optimizer.tell(Answer(None))
    assert optimizer.x is before
    assert optimizer.ask().step == 1


def test_a_model_in_flight_is_never_changed_in_place() -> None:
    optimizer = HeavyBall(np.ones(3), 0.1)
    order = optimizer.ask()
    optimizer.tell(Answer(np.ones(3)))
    assert order.points[0].tolist() == [1.0, 1.0, 1.0]


def test_schedules() -> None:
    assert Constant(0.5)(7) == 0.5
    assert Geometric(0.1, 0.99)(3) == pytest.approx(0.1 * 0.99**3)
    assert InverseTime(1.0, 10.0)(30) == 0.25


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Constant(0.0), "rate must be a positive finite number, but it is 0.0"),
        (lambda: Constant(float("nan")), "rate must be a positive finite number"),
        (lambda: Geometric(1.0, 1.1), r"factor must lie in \(0, 1\], but it is 1.1"),
        (lambda: InverseTime(1.0, 0.0), "half_life must be positive"),
        (lambda: HeavyBall(np.zeros(2), 0.1, momentum=1.0), r"momentum must lie in \[0, 1\), but it is 1.0"),
        (lambda: GradientDescent(np.array([np.nan]), 0.1), "x must be finite"),
    ],
)
def test_bad_values_are_refused_in_a_sentence(make: object, sentence: str) -> None:
    with pytest.raises(InvalidArgument, match=sentence):
        make()  # type: ignore[operator]
