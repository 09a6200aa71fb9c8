"""What a run hands to code of the user's own can be read, not changed in place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from erasurehead import optimizers, train
from erasurehead._internal.arrays import Array
from erasurehead.errors import Unreachable
from erasurehead.optimizers import Answer, Optimizer
from erasurehead.problems import Problem, Shard
from erasurehead.testing._problems import Quadratic
from erasurehead.training import Callback, Run, StepRow

PROBLEM = Quadratic.random(24, 5)


class ChangesTheModel(Callback):
    def on_step_end(self, row: StepRow, x: Array) -> None:
        x *= 0.5


class ChangesTheState(Callback):
    def on_state(self, step: int, state: Callable[[], Mapping[str, Any]]) -> None:
        if step:
            state()["optimizer"]["x"][:] = 3.0  # type: ignore[call-overload, index]


class ChangesItsModel(Optimizer):
    def tell(self, answer: Answer) -> None:
        assert answer.estimate is not None
        self.x -= 0.1 * answer.estimate
        self.step += 1


class ChangesTheEstimate(Optimizer):
    def tell(self, answer: Answer) -> None:
        assert answer.estimate is not None
        slope = answer.estimate
        slope *= 0.1
        self.x = self.x - slope
        self.step += 1


class ChangesWhatItIsGiven(Shard):
    def __init__(self, inner: Shard) -> None:
        self.inner, self.support, self.n_tasks = inner, inner.support, inner.n_tasks

    def combine(self, local: Array, coefficients: Array, step: int, out: Array) -> float:
        loss = self.inner.combine(local, coefficients, step, out)
        local[:] = 0.0  # a worker's next message is computed from it
        return loss


class Changing(Problem):
    def __init__(self) -> None:
        self.n_samples, self.n_parameters, self.l2 = PROBLEM.n_samples, PROBLEM.n_parameters, PROBLEM.l2

    def shard(self, tasks: Sequence[slice]) -> Shard:
        return ChangesWhatItIsGiven(PROBLEM.shard(tasks))

    def loss(self, x: Array) -> float:
        return PROBLEM.loss(x)

    def gradient(self, x: Array) -> Array:
        return PROBLEM.gradient(x)

    def metrics(self, x: Array) -> dict[str, float]:
        return {}


def run(problem: Problem = PROBLEM, optimizer: Optimizer | None = None, callbacks: Sequence[Callback] = ()) -> Run:
    method = optimizer or optimizers.GradientDescent(PROBLEM.initial(), rate=0.1)
    return train(problem, "uncoded", method, "in_process", 5, callbacks)


@pytest.mark.parametrize("callback", [ChangesTheModel(), ChangesTheState()], ids=["model", "state"])
def test_a_callback_that_changes_the_model_in_place_is_an_error(callback: Callback) -> None:
    with pytest.raises(ValueError, match="read-only"):
        run(callbacks=[callback])


@pytest.mark.parametrize("kind", [ChangesItsModel, ChangesTheEstimate])
def test_an_optimizer_that_changes_arrays_in_place_is_named(kind: type[Optimizer]) -> None:
    with pytest.raises(ValueError, match="read-only") as found:
        run(optimizer=kind(PROBLEM.initial()))
    assert "write self.x = self.x - step" in found.value.__notes__[0]


def test_a_shard_that_changes_the_model_in_place_is_refused() -> None:
    with pytest.raises(Unreachable, match="read-only"):
        run(Changing())


def test_the_model_of_a_run_that_is_over_belongs_to_the_caller() -> None:
    x = run().x
    x *= 2.0
    assert np.isfinite(x).all()
