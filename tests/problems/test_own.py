"""A problem of somebody's own that breaks the contract: said before any worker starts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from erasurehead import consensus, schemes, train
from erasurehead.engines import VirtualEngine
from erasurehead.errors import InvalidArgument
from erasurehead.optimizers import GradientDescent
from erasurehead.problems import LeastSquares, Shard
from erasurehead.testing._problems import Quadratic

GIVEN = Quadratic.random(24, 6, seed=4, l2=0.01)


class Own(Quadratic):
    """A problem whose shards combine as a function does that is given."""

    def __init__(self, combine: Callable[..., Any] | None = None, **instead: Any) -> None:
        super().__init__(GIVEN.rows, GIVEN.centres)
        self.instead = combine
        vars(self).update(instead)

    def shard(self, tasks: Sequence[slice]) -> Shard:
        shard = super().shard(tasks)
        if self.instead is not None:
            right, instead = shard.combine, self.instead
            shard.combine = lambda *given: instead(right, *given)  # type: ignore[method-assign]
        return shard


def never_writes(right: Any, local: Any, coefficients: Any, step: int, out: Any) -> float:
    return float(right(local, coefficients, step, np.empty_like(out)))


def adds(right: Any, local: Any, coefficients: Any, step: int, out: Any) -> float:
    other = np.empty_like(out)
    value = right(local, coefficients, step, other)
    out += other
    return float(value)


def returns_nothing(right: Any, *given: Any) -> None:
    right(*given)


def trained(problem: Any) -> None:
    train(problem, schemes.uncoded(6), GradientDescent(np.zeros(6), 0.01), VirtualEngine(), 3)


def averaged(problem: Any) -> None:
    consensus.train(problem, "ring()", "full()", steps=3, peers=4, rate=0.1)


@pytest.mark.parametrize("run", [trained, averaged])
@pytest.mark.parametrize(
    ("problem", "said"),
    [
        (Own(never_writes), r"out must be written by combine\(\.\.\.\) of .*, every element of it; write out\[:\] = "),
        (Own(adds), r"out must be written by combine"),
        (Own(returns_nothing), r"combine\(\.\.\.\) of .* must return a number"),
        (Own(loss=lambda x: None), r"loss\(x\) of Own must return a number; such as float"),
        (Own(loss=lambda x: np.ones(3)), r"loss\(x\) of Own must return a number, got array"),
        (Own(gradient=lambda x: np.ones((6, 1))), r"gradient\(x\) of Own must be of shape \(6,\), .*\(6, 1\)"),
        (Own(n_samples=None), r"n_samples of Own must be a whole number, at least 1; write self\.n_samples = "),
        (Own(shard=lambda tasks: None), r"shard\(tasks\) of Own must be a Shard"),
        (5, "problem must be a problem, but it is 5; such as"),
    ],
)
def test_what_a_problem_of_your_own_does_wrong_is_said_before_it_starts(
    run: Callable[[Any], None], problem: Any, said: str
) -> None:
    with pytest.raises(InvalidArgument, match=said):
        run(problem)


def test_what_is_right_is_trained() -> None:
    trained(Own())


def test_a_problem_of_the_library_is_computed_by_its_workers_alone() -> None:
    problem = LeastSquares(GIVEN.rows, GIVEN.rows @ np.ones(6))
    asked: list[str] = []
    right = problem.shard
    problem.shard = lambda tasks: asked.append(str(tasks)) or right(tasks)  # type: ignore[method-assign, func-returns-value]
    trained(problem)
    assert len(asked) == 6
