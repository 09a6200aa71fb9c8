"""Runs to report on: small, made on the virtual clock, and so the same on every machine."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from erasurehead import delays, optimizers, problems, schemes
from erasurehead.engines import VirtualEngine
from erasurehead.training import Callback, Run, train

MakeRuns = Callable[..., list[Run]]


def _problem(with_test: bool) -> problems.LogisticRegression:
    rng = np.random.default_rng(7)
    X = rng.standard_normal((400, 6))
    y = np.where(X @ rng.standard_normal(6) + rng.standard_normal(400) > 0, 1.0, -1.0)
    return problems.LogisticRegression(X[:300], y[:300], l2=1e-3, test=(X[300:], y[300:]) if with_test else None)


@pytest.fixture(scope="session")
def make_runs() -> MakeRuns:
    """Return a function that trains with several schemes under the same delays."""

    def make(
        chosen: Sequence[schemes.Scheme],
        steps: int = 8,
        late: str = "preempt",
        with_test: bool = True,
        callbacks: Sequence[Callback] = (),
    ) -> list[Run]:
        problem = _problem(with_test)
        runs: list[Run] = []
        for scheme in chosen:
            engine = VirtualEngine(delays.Exponential(mean=0.5, seed=0), late)
            optimizer = optimizers.GradientDescent(problem.initial(), rate=0.5)
            runs.append(train(problem, scheme, optimizer, engine, steps, callbacks))
        return runs

    return make


@pytest.fixture(scope="session")
def runs(make_runs: MakeRuns) -> list[Run]:
    """Uncoded, exact and ErasureHead training on twelve workers."""
    return make_runs([schemes.uncoded(12), schemes.exact(12, 3), schemes.erasurehead(12, 3, 4)])
