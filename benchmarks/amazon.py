"""The main job that several benchmarks run: the Amazon data, its published hyper-parameters, thirty processes."""

from __future__ import annotations

from functools import cache

from erasurehead import datasets, engines, optimizers, problems, schemes
from erasurehead._internal import late_work as _late_work
from erasurehead.delays import Delays, Exponential
from erasurehead.training import Callback, Run, train

WORKERS = 30
RATE = 10.0
DELAYS = Exponential(mean=0.5, seed=0)


@cache
def problem() -> problems.LogisticRegression:
    """Return logistic regression on the real data where they are, on synthetic ones elsewhere, and say which."""
    data = datasets.load("amazon", fallback="synthetic")
    rows, columns = data.X_train.shape
    print(f"data: {data.source}, {rows} x {columns}")
    return problems.LogisticRegression(data.X_train, data.y_train, l2=1 / rows, test=(data.X_test, data.y_test))


def erasurehead() -> schemes.Scheme:
    """Return ErasureHead at load 3, first 11, rescaled by coverage."""
    return schemes.erasurehead(WORKERS, load=3, wait_for=11)


def run(
    scheme: schemes.Scheme,
    steps: int,
    engine: str = "processes",
    delays: Delays | None = DELAYS,
    late: _late_work.LateWork = "preempt",
    evaluate_every: int = 0,
    callbacks: tuple[Callback, ...] = (),
) -> Run:
    """Train from a zero model with the published step size."""
    make = {"processes": engines.ProcessEngine, "virtual": engines.VirtualEngine}[engine]
    optimizer = optimizers.Nesterov(problem().initial(), RATE)
    return train(problem(), scheme, optimizer, make(delays, late), steps, callbacks, evaluate_every)
