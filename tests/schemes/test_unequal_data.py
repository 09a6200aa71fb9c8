"""Ringleader and rescaled asynchronous training: against loops of their own, on workers of unequal data and speeds."""

from __future__ import annotations

import heapq
import json
from typing import Any

import numpy as np
import pytest

from erasurehead import delays, optimizers, problems, schemes, training
from erasurehead.delays import Delays
from erasurehead.delays._fixed import Recorded
from erasurehead.engines import VirtualEngine
from erasurehead.errors import InvalidArgument
from erasurehead.schemes import Scheme, parse_scheme
from erasurehead.training import Callback, Resumption, Run

from ..arrays import Array

TIMES = (1.0001, 1.0203, 1.0507, 2.0307, 4.0709, 10.0011)  # no two answers come at once
N = len(TIMES)


class Speeds(Delays):
    """Each worker takes its own time, in every step."""

    def rows(
        self,
        first: int,
        count: int,
        n_workers: int,
        unit: int = 0,
        work: float | Array = 1.0,
        out: Array | None = None,
    ) -> Array:
        return np.tile(np.array(TIMES[:n_workers]), (count, 1))

    def __str__(self) -> str:
        return "speeds"


def quadratics() -> tuple[Array, Array]:
    """Return samples: each worker's have their own curvature, and their own minimum."""
    rng = np.random.default_rng(3)
    X, y = np.zeros((4 * N, 2)), np.zeros(4 * N)
    for worker in range(N):
        rows = slice(4 * worker, 4 * worker + 4)
        X[rows] = rng.standard_normal((4, 2)) * (0.5 + worker / N)
        y[rows] = X[rows] @ (rng.standard_normal(2) + worker)
    return X, y


X, Y = quadratics()
PROBLEM = problems.LeastSquares(X, Y)
BEST = np.linalg.lstsq(X, Y, rcond=None)[0]


def gradient(worker: int, x: Array) -> Array:
    """Return the gradient of a worker's samples, divided by how many samples there are in all."""
    rows = slice(4 * worker, 4 * worker + 4)
    return 2.0 * X[rows].T @ (X[rows] @ x - Y[rows]) / len(Y)


def train(
    scheme: Scheme,
    steps: int,
    rate: float,
    engine: VirtualEngine | None = None,
    *watching: Callback,
    resume: Any = None,
) -> Run:
    engine = engine or VirtualEngine(Speeds(), "carry")
    optimizer = optimizers.GradientDescent(np.zeros(2), rate)
    how: dict[str, Any] = {"evaluate_every": 0, "tolerance": None, "resume": resume}
    return training.train(PROBLEM, scheme, optimizer, engine, steps, watching, **how)


def rescaled(steps: int, rate: float, rescale: bool = True) -> Array:
    """Return the model of asynchronous training, each of whose steps is as long as its worker is slow."""
    x, known = np.zeros(2), dict[int, float]()
    busy = [(TIMES[worker], worker, x) for worker in range(N)]
    for _ in range(steps):
        now, worker, begun = heapq.heappop(busy)
        share = known.get(worker, np.inf) / max(known.values(), default=1.0)
        x = x - rate * (min(share, 1.0) if rescale else 1.0) * N * gradient(worker, begun)
        known[worker] = TIMES[worker]
        heapq.heappush(busy, (now + TIMES[worker], worker, x))
    return x


def test_rescaled_steps_are_as_long_as_their_worker_is_slow() -> None:
    run = train(schemes.asynchronous(N, rescaled=True), 300, 0.02)
    np.testing.assert_allclose(run.x, rescaled(300, 0.02), rtol=1e-9)
    plain = train(schemes.asynchronous(N, adaptive=False), 300, 0.02)
    np.testing.assert_allclose(plain.x, rescaled(300, 0.02, rescale=False), rtol=1e-9)


@pytest.mark.slow
def test_rescaled_training_ends_at_the_optimum_and_the_plain_one_beside_it() -> None:
    far, near = (
        float(np.linalg.norm(train(scheme, 800, 0.024).x - BEST))
        for scheme in (schemes.asynchronous(N, adaptive=False), schemes.asynchronous(N, rescaled=True))
    )
    assert near < 0.05 * far
    assert far > 0.3


def published(steps: int, rate: float) -> tuple[Array, int]:
    """Return the model of Ringleader as its authors have it, and the greatest age of a gradient in the table."""
    x, step, oldest = np.zeros(2), 0, 0
    table: dict[int, list[Array]] = {}
    following: dict[int, list[Array]] = {}
    unserved = set[int]()
    busy = [(TIMES[worker], worker, x, 0) for worker in range(N)]
    ages: dict[int, list[int]] = {}
    idle: list[int] = []
    while step < steps:
        now, worker, begun, made = heapq.heappop(busy)
        idle.append(worker)
        served = not unserved or worker in unserved
        (table if served else following).setdefault(worker, []).append(gradient(worker, begun))
        if served:
            ages.setdefault(worker, []).append(made)
        if (not unserved and len(table) < N) or not served:
            continue
        x = x - rate * sum(np.mean(kept, axis=0) for kept in table.values())
        step += 1
        oldest = max(oldest, *(step - 1 - made for kept in ages.values() for made in kept))
        unserved = (unserved or set(range(N))) - {worker}
        if not unserved:
            table, following, ages = following, {}, {}
        for one in idle:
            heapq.heappush(busy, (now + TIMES[one], one, x, step))
        idle = []
    return x, oldest


def test_ringleader_takes_the_steps_that_its_authors_do() -> None:
    run = train(schemes.ringleader(N), 200, 0.05)
    x, oldest = published(200, 0.05)
    np.testing.assert_allclose(run.x, x, rtol=1e-9)
    assert 0 < oldest <= 2 * N - 2


@pytest.mark.slow
def test_ringleader_converges_to_the_optimum_where_data_are_unequal() -> None:
    assert np.linalg.norm(train(schemes.ringleader(N), 1500, 0.1).x - BEST) < 1e-6


@pytest.mark.parametrize(
    "scheme", [schemes.ringleader(N), schemes.asynchronous(N, rescaled=True)], ids=lambda one: one.name
)
def test_they_are_replayed_and_gone_on_with_to_the_bit(scheme: Scheme) -> None:
    states = list[Any]()

    class States(Callback):
        def on_state(self, step: int, state: Any) -> None:
            states.append(state())

    law = delays.Exponential(0.5, seed=3)
    whole = train(scheme, 60, 0.02, VirtualEngine(law, "carry"), States())
    for cut in (7, 31, 50):
        resume = Resumption(states[cut], whole.steps[:cut], [])
        assert train(scheme, 60, 0.02, VirtualEngine(law, "carry"), resume=resume).x.tobytes() == whole.x.tobytes()
    steps = [json.loads(json.dumps(row.as_dict())) for row in whole.steps]
    script = Recorded.from_rows([row.as_dict() for row in whole.arrivals], steps=steps)
    assert train(scheme, 60, 0.02, VirtualEngine(script)).x.tobytes() == whole.x.tobytes()


def test_their_texts_and_their_bounds() -> None:
    assert parse_scheme("ringleader", 4).code.n_tasks == 4
    assert parse_scheme("ringleader(n_tasks=8)", 4).code.load == 2
    assert parse_scheme("asynchronous(rescaled=True)", 4).aggregation.after_own_step
    with pytest.raises(InvalidArgument, match="must be 'carry'"):
        train(schemes.ringleader(N), 3, 0.1, VirtualEngine())
