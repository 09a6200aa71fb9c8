"""Models and messages cross, and are summed and moved, in the type of number that a problem has."""

from __future__ import annotations

import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from erasurehead import engines, optimizers, schemes
from erasurehead.delays import Delays
from erasurehead.problems import Problem, Shard
from erasurehead.runs import Recorder, RunFolder, replay
from erasurehead.training import Callback, Resumption, Run, train
from erasurehead.training._stepped_run import laid_out
from erasurehead.training._stepper import answer_of

from ..arrays import Array


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
        self.points: Any = np.random.default_rng(0).standard_normal((n_samples, n_parameters)).astype(np.float32)
        self._penalize(0.01, None)

    def shard(self, tasks: Sequence[slice]) -> Shard:
        return _Rows([self.points[rows] for rows in tasks], self.n_samples)

    def loss(self, x: Array) -> float:
        return float(((x - self.points) ** 2).sum(axis=1).mean()) / 2.0

    def gradient(self, x: Array) -> Array:
        return x - self.points.mean(axis=0)

    def metrics(self, x: Array) -> dict[str, float]:
        return {}

    def initial(self) -> Array:
        first: Any = np.zeros(self.n_parameters, np.float32)
        return first


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
    assert np.allclose(run.x, PROBLEM.points.mean(axis=0) / 1.02, atol=1e-5 if wire is None else 1e-3)


def test_no_vector_of_float64_is_made_on_the_way() -> None:
    problem = Means(4, 200_000)
    scheme, optimizer = schemes.uncoded(4), optimizers.GradientDescent(problem.initial(), rate=0.1)
    programs, layout, _ = laid_out(scheme, problem, optimizer, {}, by_task=False)
    order = optimizer.ask()
    assert {spec.nbytes for program in programs for spec in program.message_specs} == {4 * 200_001}
    vectors: Any = [np.ones(200_001, np.float32) for _ in programs]
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


def test_a_run_in_float32_is_kept_replayed_and_resumed_to_the_bit(tmp_path: Path) -> None:
    def run(delay: Delays | str, steps: int, *watching: Callback, resume: Any = None) -> Run:
        optimizer = optimizers.HeavyBall(PROBLEM.initial(), rate=0.2)
        scheme, engine = schemes.parse_scheme("ignore_stragglers(wait_for=3)", 4), engines.VirtualEngine(delay)
        return train(PROBLEM, scheme, optimizer, engine, steps, watching, resume=resume)

    law = "exponential(mean=0.5, seed=3)"
    states: list[dict[str, Any]] = []

    class Kept(Callback):
        def on_state(self, step: int, state: Any) -> None:
            states.append(state())

    folder = RunFolder.create(tmp_path / "run")
    whole = run(law, 6, Recorder(folder))
    half = run(law, 3, Kept())
    rest = run(law, 6, resume=Resumption(states[-1], half.steps, half.arrivals))
    again = run(replay(RunFolder.open(tmp_path / "run")), 6)
    assert whole.x.dtype == np.float32
    assert {one.x.tobytes() for one in (whole, rest, again)} == {whole.x.tobytes()}
