"""Trials of `adaptive`: they begin with few arrivals, as runs do, and take as long."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from erasurehead import delays, engines, optimizers, problems, training
from erasurehead.delays import Delays
from erasurehead.planning._trainer import Trainer
from erasurehead.planning._trials import Runs
from erasurehead.schemes import parse_scheme

from ..arrays import Array

GAPS = (1e-1, 1e-2, 1e-3)
STEPS = 600


def made() -> problems.LogisticRegression:
    rng = np.random.default_rng(3)
    samples = rng.standard_normal((900, 8)) * np.geomspace(0.2, 5.0, 8)
    labels = np.sign(samples @ rng.standard_normal(8) + rng.standard_normal(900))
    return problems.LogisticRegression(samples, labels, l2=1 / 900)


PROBLEM = made()


def solver() -> optimizers.QuasiNewton:
    return optimizers.QuasiNewton(PROBLEM.initial())


@cache
def trainer(gap: float) -> Trainer:
    return Trainer(PROBLEM, solver, ("gap", gap), STEPS)


class Path(training.Callback):
    """Keeps the kind, the end and the gap of each step of a run."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, float, float]] = []

    def on_step_end(self, row: training.StepRow, x: Array) -> None:
        self.steps.append((row.kind, row.end, trainer(GAPS[0]).goal.measure(PROBLEM, x)))

    def reached(self, gap: float) -> float:
        """Return the seconds after which the gap is small enough."""
        return next(end for _, end, measured in self.steps if measured <= gap)


@cache
def ran(setting: str, law: Delays, workers: int, late: str) -> Path:
    path = Path()
    engine = engines.VirtualEngine(law, late, 0.01)
    training.train(PROBLEM, parse_scheme(setting, workers), solver(), engine, STEPS, [path], 0, tolerance=None)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("late", ["preempt", "carry"])
@pytest.mark.parametrize(
    ("setting", "law", "workers"),
    [
        ("adaptive(load=3)", delays.Exponential(0.5, seed=1), 30),
        ("adaptive(load=3)", delays.Exponential(0.5, seed=2), 30),
        ("adaptive(load=1)", delays.Exponential(0.5, seed=3), 30),
        ("adaptive(load=3)", delays.Exponential(0.5, seed=1), 13),  # groups of 4 and 5
        ("adaptive(load=3)", delays.parse("pareto(0.1, 1.5, seed=1)"), 12),
        ("adaptive(load=3)", delays.Fixed(((0.5,) * 30,)), 30),  # nobody is slow, and the first order finds it out
        ("adaptive(load=2)", delays.parse("none()"), 12),  # everybody answers at the same moment
        (
            "adaptive(load=3)",
            delays.Exponential(0.5, seed=4, scale_with_load=True),
            30,
        ),  # in the end a message per task
        ("adaptive(load=3)", delays.parse("along(exponential(0.5, seed=1), every=0.5)"), 30),
    ],
)
def test_a_trial_takes_the_time_of_a_run_that_begins_with_few_arrivals(
    setting: str, law: Delays, workers: int, late: str
) -> None:
    path = ran(setting, law, workers, late)  # in a process of its own for each gap, it would be run for each
    assert path.steps[0][0] == "early"
    for gap in GAPS:
        found = Runs(trainer(gap), law, workers, 0.01, late).trial(setting, 1, math.inf, 1.0)
        assert found.begins_early
        assert found.seconds[0] == pytest.approx(path.reached(gap), rel=1e-9)
