"""A planner's trial is a run: the same models to the bit, for each kind of order, and no more work than before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from erasurehead import delays, engines, optimizers, training
from erasurehead.planning._early_rounds import EarlyRounds
from erasurehead.planning._trainer import Trainer
from erasurehead.planning._trials import simulated_steps
from erasurehead.problems import LeastSquares, LogisticRegression, Problem
from erasurehead.schemes import parse_scheme

from ..arrays import Array

LAW = delays.Exponential(0.5, seed=1)
WORKERS = 12


def dense() -> Problem:
    rng = np.random.default_rng(0)
    samples = rng.standard_normal((480, 6))
    labels = np.sign(samples @ rng.standard_normal(6) + 0.5 * rng.standard_normal(480))
    return LogisticRegression(samples, labels, l2=1 / 480)


def one_hot() -> Problem:
    rng = np.random.default_rng(0)
    samples = sparse.random_array((480, 200), density=0.02, rng=rng, format="csr")
    return LogisticRegression(samples, np.sign(rng.standard_normal(480)), l2=1 / 480)


def collinear() -> Problem:
    """Columns of very different lengths, on which gradients alone are slow."""
    rng = np.random.default_rng(1)
    turn = np.linalg.qr(rng.standard_normal((60, 60)))[0]
    samples = rng.standard_normal((2400, 60)) * np.geomspace(1.0, 60.0, 60) @ turn
    one = LeastSquares(samples, samples @ rng.standard_normal(60) / 60.0 + rng.standard_normal(2400), l2=1e-6)
    one.outputs = 0  # without the curvature between columns, with which there is nothing left for Newton steps
    return one


class Models(training.Callback):
    """Keeps the model after each step, and the kinds of orders."""

    def __init__(self) -> None:
        self.models: list[bytes] = []
        self.kinds: set[str] = set()

    def on_step_end(self, row: training.StepRow, x: Array) -> None:
        self.models.append(x.tobytes())
        self.kinds.add(row.kind)


def tried(
    problem: Problem, setting: str, make: Callable[[Array], optimizers.Optimizer], late: str, steps: int
) -> list[bytes]:
    """Return the models of a trial, after each step."""
    made: list[optimizers.Optimizer] = []

    def optimizer() -> optimizers.Optimizer:
        made.append(make(problem.initial()))
        return made[-1]

    scheme = parse_scheme(setting, WORKERS)
    trainer = Trainer(problem, optimizer, ("gap", 1e-9), steps)
    oracle: Any
    if scheme.early(late) and trainer.asks_early:
        oracle = EarlyRounds(problem, *trainer.laid_out(scheme, early=True), steps, LAW, 0.01, 0, late)
        early = oracle.early
    else:
        oracle, early = simulated_steps(scheme, LAW, 0.01, late, 0, steps).oracle(trainer), ""
    found: list[bytes] = []
    for _ in zip(range(steps), trainer.measures(oracle, early), strict=False):
        found.append(made[-1].best.tobytes())
    return found


def nesterov(x: Array) -> optimizers.Optimizer:
    return optimizers.Nesterov(x, 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("late", ["preempt", "carry"])
@pytest.mark.parametrize(
    ("problem", "setting", "make", "kinds"),
    [
        (dense, "erasurehead(load=3, wait_for=3)", nesterov, {"gradient"}),
        (one_hot, "erasurehead(load=3, wait_for=3)", nesterov, {"gradient"}),
        (dense, "erasurehead(load=3, wait_for=3, rescale='expectation')", nesterov, {"gradient"}),
        (dense, "ignore_stragglers(wait_for=7)", nesterov, {"gradient"}),
        (dense, "exact(load=3)", nesterov, {"gradient"}),
        (dense, "erasurehead(load=3, wait_for=3)", optimizers.QuasiNewton, {"curvature", "gradient"}),
        (one_hot, "ignore_stragglers(wait_for=7)", optimizers.QuasiNewton, {"curvature", "gradient"}),
        (dense, "exact(load=3)", optimizers.QuasiNewton, {"curvature", "gradient"}),
        (dense, "adaptive(load=3)", optimizers.QuasiNewton, {"early"}),
        (one_hot, "adaptive(load=2)", optimizers.QuasiNewton, {"early"}),
        pytest.param(
            collinear,
            "adaptive(load=1)",
            optimizers.QuasiNewton,
            {"early", "gradient", "newton"},
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_trial_is_a_virtual_run_of_the_same_arrivals_to_the_bit(
    problem: Callable[[], Problem],
    setting: str,
    make: Callable[[Array], optimizers.Optimizer],
    kinds: set[str],
    late: str,
) -> None:
    steps = 400 if "newton" in kinds else 60
    found, run, one = tried(problem(), setting, make, late, steps), Models(), problem()
    engine = engines.VirtualEngine(LAW, late, 0.01)
    training.train(one, parse_scheme(setting, WORKERS), make(one.initial()), engine, steps, [run], 0, tolerance=None)

    assert run.kinds >= kinds
    assert len(found) > 10
    assert found == run.models[: len(found)]


@pytest.mark.parametrize("make", [nesterov, optimizers.QuasiNewton])
def test_what_settings_share_that_lose_nothing_is_a_run_of_one_worker(
    make: Callable[[Array], optimizers.Optimizer],
) -> None:
    made: list[optimizers.Optimizer] = []
    problem, run = dense(), Models()

    def optimizer() -> optimizers.Optimizer:
        made.append(make(problem.initial()))
        return made[-1]

    trainer = Trainer(problem, optimizer, ("gap", 1e-9), 30)
    found = [made[-1].best.tobytes() for _ in trainer.measures(trainer.weighted(None, 1))]
    engine = engines.VirtualEngine()
    training.train(problem, parse_scheme("uncoded", 1), make(problem.initial()), engine, 30, [run], 0, tolerance=None)
    assert len(found) > 5
    assert found == run.models


@pytest.mark.parametrize(("setting", "pieces"), [("erasurehead(load=3, wait_for=3)", 1), ("adaptive(load=3)", 6)])
def test_a_trial_computes_no_gradient_twice(setting: str, pieces: int, monkeypatch: pytest.MonkeyPatch) -> None:
    computed = [0]
    kind = type(dense().shard([slice(0, 480)]))
    combine = kind.combine

    def counted(shard: Any, local: Array, coefficients: Array, *others: Any) -> float:
        computed[0] += int(np.count_nonzero(coefficients))
        return combine(shard, local, coefficients, *others)

    monkeypatch.setattr(kind, "combine", counted)
    found = tried(dense(), setting, optimizers.QuasiNewton if "adaptive" in setting else nesterov, "preempt", 20)
    assert computed[0] <= pieces * WORKERS * len(found)
