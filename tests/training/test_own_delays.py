"""Delay models of the user's own, which each worker of a real engine draws from for itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from erasurehead import optimizers, schemes, train
from erasurehead.delays import Delays
from erasurehead.engines import ProcessEngine, VirtualEngine
from erasurehead.errors import InvalidArgument
from erasurehead.testing._problems import Quadratic

PROBLEM = Quadratic.random(24, 5)


class Drawn(Delays):
    """Delays whose generators are as `seeds` says."""

    def __init__(self, kind: str) -> None:
        self.kind, self.own = kind, np.random.default_rng(0)

    def rows(
        self, first: int, count: int, n_workers: int, unit: int = 0, work: Any = 1.0, out: Any = None
    ) -> np.ndarray[Any, Any]:
        if self.kind == "goes on":
            return self.own.random((count, n_workers))
        if self.kind == "by the number of workers":
            return np.random.default_rng(n_workers).random((first + count, n_workers))[first:]
        if self.kind == "by blocks":
            return np.random.default_rng(first).random((count, 100))[:, :n_workers]
        steps = range(first, first + count)
        drawn = [[np.random.default_rng([step, worker]).random() for worker in range(n_workers)] for step in steps]
        return np.array(drawn)

    def __str__(self) -> str:
        return f"drawn({self.kind})"


@pytest.mark.parametrize("wire", [None, "float32"])
@pytest.mark.parametrize("kind", ["goes on", "by the number of workers", "by blocks"])
def test_delays_that_depend_on_what_else_is_asked_for_are_refused_before_workers_start(
    kind: str, wire: str | None
) -> None:
    method = optimizers.GradientDescent(PROBLEM.initial(), 0.1)
    with pytest.raises(InvalidArgument, match=rf"delays must be the same .* which drawn\({kind}\) is not"):
        train(PROBLEM, "uncoded", method, ProcessEngine(Drawn(kind)), 3, wire=wire)


def test_delays_of_a_worker_and_a_step_are_welcome() -> None:
    method = optimizers.GradientDescent(PROBLEM.initial(), 0.1)
    run = train(PROBLEM, schemes.uncoded(4), method, VirtualEngine(Drawn("by worker and step")), 3)
    assert 0.0 < run.steps[0].waited < 1.0
