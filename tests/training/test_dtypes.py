"""Models and messages cross, and are summed and moved, in the type of number that a problem has."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence

import numpy as np
import pytest

from erasurehead import engines, optimizers, schemes
from erasurehead._internal.arrays import Array
from erasurehead.problems import Problem, Shard
from erasurehead.training import train
from erasurehead.training._step import laid_out
from erasurehead.training._stepper import answer_of


class _Rows(Shard):
    def __init__(self, rows: Sequence[Array], n_samples: int) -> None:
        self.support, self.n_tasks, self.rows, self.n_samples = None, len(rows), rows, n_samples

    def combine(self, local: Array, coefficients: Array, step: int, out: Array) -> float:
        assert local.dtype == out.dtype == np.float32
        out[:], loss = 0.0, 0.0
        for rows, coefficient in zip(self.rows, coefficients.tolist(), strict=True):
            apart = local - rows
            out += coefficient / self.n_samples * apart.sum(axis=0)
            loss += coefficient / self.n_samples * float((apart**2).sum()) / 2.0
        return loss


class Means(Problem):
    """The mean of points, in float32: `|x - point|^2 / 2` on average."""

    dtype = "float32"

    def __init__(self, n_samples: int, n_parameters: int) -> None:
        self.n_samples, self.n_parameters = n_samples, n_parameters
        self._points = np.random.default_rng(0).standard_normal((n_samples, n_parameters)).astype(np.float32)
        self._penalize(0.01, None)

    def shard(self, tasks: Sequence[slice]) -> Shard:
        return _Rows([self._points[rows] for rows in tasks], self.n_samples)

    def loss(self, x: Array) -> float:
        return float(((x - self._points) ** 2).sum(axis=1).mean()) / 2.0

    def gradient(self, x: Array) -> Array:
        return x - self._points.mean(axis=0)

    def metrics(self, x: Array) -> dict[str, float]:
        return {}

    def initial(self) -> Array:
        return np.zeros(self.n_parameters, np.float32)


PROBLEM = Means(24, 7)


@pytest.mark.parametrize(
    "scheme", ["uncoded", "erasurehead(load=2, wait_for=4)"]
)  # whose sums do not depend on who is first
def test_the_model_is_the_same_float32_on_every_engine(scheme: str) -> None:
    models: list[bytes] = []
    for engine in (engines.VirtualEngine(), engines.InProcessEngine(), engines.ProcessEngine()):
        optimizer = optimizers.Nesterov(PROBLEM.initial(), rate=0.5)
        run = train(PROBLEM, schemes.parse_scheme(scheme, 4), optimizer, engine, steps=3, evaluate_every=0)
        assert run.x.dtype == np.float32
        models.append(run.x.tobytes())
    assert models == models[:1] * 3


@pytest.mark.parametrize("wire", [None, "cast('float16')"])
def test_a_model_in_float64_crosses_in_the_type_of_the_problem(wire: str | None) -> None:
    optimizer = optimizers.GradientDescent(np.zeros(PROBLEM.n_parameters), rate=0.5)
    run = train(PROBLEM, "uncoded", optimizer, engines.VirtualEngine(), steps=30, evaluate_every=0, wire=wire)
    assert run.x.dtype == np.float64
    assert np.allclose(run.x, PROBLEM._points.mean(axis=0) / 1.02, atol=1e-5 if wire is None else 1e-3)


def test_no_vector_of_float64_is_made_on_the_way() -> None:
    problem = Means(4, 200_000)
    scheme, optimizer = schemes.uncoded(4), optimizers.GradientDescent(problem.initial(), rate=0.1)
    programs, layout, _ = laid_out(scheme, problem, optimizer, {}, by_task=False)
    order = optimizer.ask()
    assert {spec.nbytes for program in programs for spec in program.message_specs} == {4 * 200_001}
    vectors = [np.ones(200_001, np.float32) for _ in programs]
    whole = scheme.decoder.decode(range(4))
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        estimate = scheme.aggregation.estimate(whole, vectors, layout, order)
        answer = answer_of(problem, order, estimate)
        after = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert answer.estimate is not None
    assert answer.estimate.dtype == np.float32
    assert after - before < 2.1 * 4 * 200_001  # the sum, and the gradient with its penalty
