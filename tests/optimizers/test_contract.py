"""What every optimizer keeps to: the model's type, steps that can be taken back, kinds of orders that are answered."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from erasurehead import codes, schemes
from erasurehead.delays import Exponential
from erasurehead.engines import Order, VirtualEngine
from erasurehead.errors import InvalidArgument
from erasurehead.optimizers import GradientDescent, HeavyBall, Nesterov, Optimizer
from erasurehead.optimizers._base import Answer
from erasurehead.problems import Problem
from erasurehead.schemes import wait_rules
from erasurehead.testing._problems import Quadratic
from erasurehead.training import Callback, Resumption, train

from ..arrays import Array

MAKERS = {
    "gradient_descent": lambda x: GradientDescent(x, 0.1),
    "heavy_ball": lambda x: HeavyBall(x, 0.1, 0.5),
    "nesterov": lambda x: Nesterov(x, 0.1),
    "restarting": lambda x: Nesterov(x, 0.1, restart=True),
}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_model_keeps_its_type_whatever_type_the_estimate_has(name: str, dtype: str) -> None:
    optimizer = MAKERS[name](np.zeros(3, dtype=dtype))
    for _ in range(4):
        optimizer.tell(Answer(np.ones(3)))
        assert optimizer.x.dtype == dtype
    again = MAKERS[name](np.ones(3, dtype=dtype))
    again.restore(optimizer.state())
    assert again.x.dtype == dtype
    assert MAKERS[name](np.array([1, 2, 3])).x.dtype == np.float64


class Svrg(Optimizer):
    """Stochastic variance-reduced gradients (Johnson and Zhang, 2013): an exact anchor, then differences from it.

    An order of kind `"anchor"` asks for the full gradient at the newest model; those between for the difference of the
    gradients at two points, from whoever is quick.
    """

    max_points = 2
    kinds = ("anchor", "gradient")

    def __init__(self, x: Array, rate: float, inner: int) -> None:
        super().__init__(x)
        self.rate, self.inner = rate, inner
        self.anchor, self.full = self.x, np.zeros_like(self.x)

    def ask(self) -> Order:
        if self.step % (self.inner + 1) == 0:
            return Order(self.step, (self.x,), kind="anchor")
        return Order(self.step, (self.x, self.anchor), coefficients=(1.0, -1.0))

    def tell(self, answer: Answer) -> None:
        estimate = answer.estimate
        if estimate is not None and self.step % (self.inner + 1) == 0:
            self.anchor, self.full = self.x, estimate
        elif estimate is not None:
            self.x = self.x - self.rate * (estimate + self.full)
        self.step += 1

    def state(self) -> dict[str, Any]:
        return {**super().state(), "anchor": self.anchor, "full": self.full}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        self.anchor, self.full = np.array(state["anchor"]), np.array(state["full"])


PROBLEM = Quadratic.random(24, 6, seed=4, l2=0.01)
CODE = codes.uncoded(6)


def anchored() -> schemes.Scheme:
    scheme = schemes.custom(CODE, "first(2)", schemes.ByCoverage())
    return replace(scheme, rules={"gradient": wait_rules.first(2), "anchor": wait_rules.decodable()})


class States(Callback):
    def __init__(self) -> None:
        self.taken: list[Any] = []

    def on_state(self, step: int, state: Any) -> None:
        self.taken.append(state())


@pytest.mark.slow
def test_several_points_coefficients_and_kinds_of_orders_make_svrg_exact_with_two_workers_of_six() -> None:
    def go(optimizer: Optimizer, steps: int = 250, **others: Any) -> Any:
        engine = VirtualEngine(Exponential(0.5, seed=2))
        return train(PROBLEM, anchored(), optimizer, engine, steps, evaluate_every=0, tolerance=None, **others)

    states = States()
    run = go(Svrg(np.zeros(6), 0.15, inner=9), callbacks=[states])
    plain = go(GradientDescent(np.zeros(6), 0.15))
    assert run.final.gradient_left < 1e-4 < 1e-2 < plain.final.gradient_left
    assert [row.kind for row in run.steps[:11]] == ["anchor", *9 * ["gradient"], "anchor"]
    assert all((row.arrived, row.loss) == (2, None) for row in run.steps if row.kind == "gradient")
    for step in (11,):
        again = go(Svrg(np.zeros(6), 0.15, inner=9), resume=Resumption(states.taken[step], run.steps[:step], []))
        assert again.x.tobytes() == run.x.tobytes()


def test_a_scheme_without_a_rule_for_a_kind_of_order_is_refused_before_anything_starts() -> None:
    with pytest.raises(InvalidArgument, match="Svrg asks for; it has none for 'anchor'"):
        train(PROBLEM, schemes.uncoded(6), Svrg(np.zeros(6), 0.1, 3), VirtualEngine(), 5)


def test_one_that_is_told_the_estimate_alone_as_they_once_were_is_refused_with_what_to_do() -> None:
    class Old(Optimizer):
        def tell(self, estimate: Array | None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            self.step += 1

    class OldBeginning(GradientDescent):
        def begin(self, problem: Problem) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            super().begin(problem)

    for old in (Old(np.zeros(6)), OldBeginning(np.zeros(6), 0.1)):
        with pytest.raises(InvalidArgument, match=r"tell\(self, answer\), and begin\(self, problem, early, lossy\)"):
            train(PROBLEM, schemes.uncoded(6), old, VirtualEngine(), 5)


@pytest.mark.parametrize("late", ["preempt", "carry"])
def test_nobody_but_the_optimizer_sets_anything_of_it(late: str) -> None:
    class Guarded(GradientDescent):
        def __setattr__(self, name: str, value: Any) -> None:
            assert sys._getframe(1).f_locals.get("self") is self, f"{name} is set from outside"
            super().__setattr__(name, value)

    optimizer = Guarded(np.zeros(6), 0.1)
    train(PROBLEM, schemes.exact(6, 3), optimizer, VirtualEngine(Exponential(0.5, seed=1), late), 5)
    assert optimizer.step == 5
