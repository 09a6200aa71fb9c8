"""One machine alone: how long the same problem takes without distribution and delays.

This shows when not to distribute. Times are processor times of this process, on one core, so that other processes do
not affect them.
"""

from __future__ import annotations

import importlib.util
import time
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits  # pyright: ignore[reportMissingTypeStubs]  # ships none

from erasurehead.datasets import Dataset
from erasurehead.errors import Diverged, InvalidArgument
from erasurehead.optimizers import QuasiNewton
from erasurehead.reports._measures import Aim
from erasurehead.runs._experiment import Experiment
from erasurehead.training._result import LOWER_IS_BETTER
from erasurehead.training._stepper import OutOfReach, Stepper, WholeProblem


@dataclass(frozen=True)
class Alone:
    """The outcome of one method on one core, with all of the data.

    Attributes:
        method: `quasi_newton`, or scikit-learn's class.
        seconds: total processor time, in seconds.
        to_target: processor seconds until the target was reached; None if it was not, or there is none, or
            (scikit-learn, which reports nothing before its end) it is not known.
        converged: whether the method converged; False if its time was up before.
        objective: objective of the last model; None if it is not known.
        metrics: metrics of the last model on the test rows.
        objectives: the objective after each pass over the data; empty if passes are not known.
    """

    method: str
    seconds: float
    to_target: float | None
    converged: bool
    objective: float | None
    metrics: Mapping[str, float]
    objectives: tuple[float, ...] = ()

    def __str__(self) -> str:
        whole = "converges in" if self.converged else "has not converged in"
        text = f"{self.method} {whole} {self.seconds:.3g} s"
        return text if self.to_target is None else f"{text}, and is at the target after {self.to_target:.3g} s"


def alone(experiment: Experiment, target: Aim | None, seconds: float) -> list[Alone]:
    """Train on this machine alone, without workers and delays, and measure the time.

    Arguments:
        experiment: the experiment whose data, problem and first model are used.
        target: metric and value; None for none.
        seconds: limit of processor seconds, positive; what is not done by then is given up. (scikit-learn ends by
            itself.)

    Returns:
        One outcome for `quasi_newton`, and one for scikit-learn with its defaults, if it is installed and
        minimises the same; empty if samples are out of reach of this machine.
    """
    with threadpool_limits(limits=1):
        return [*_solved(experiment, target, seconds), *_by_scikit_learn(experiment)]


def _solved(experiment: Experiment, target: Aim | None, seconds: float) -> Iterator[Alone]:
    problem, x = experiment.problem, experiment.first_model()
    optimizer = QuasiNewton(x)
    try:
        optimizer.begin(problem)
    except InvalidArgument:
        return
    problem.exact([x])  # loads machine code and data
    stepper = Stepper(optimizer, WholeProblem(problem))
    spent, to_target, objectives = 0.0, None, list[float]()
    while not optimizer.converged and spent < seconds:
        begin = time.process_time()
        try:
            stepper.step()
        except OutOfReach:
            return
        except Diverged:
            break
        spent += time.process_time() - begin
        objectives.append(problem.objective(optimizer.best))
        if to_target is None and target is not None and _reached(problem.metrics(optimizer.best), target):
            to_target = spent
    x = optimizer.known
    last = problem.objective(x), problem.metrics(x)
    yield Alone("quasi_newton", spent, to_target, optimizer.converged, *last, tuple(objectives))


def _reached(metrics: Mapping[str, float], target: Aim) -> bool:
    value = metrics.get(target[0], float("nan"))
    return value <= target[1] if target[0] in LOWER_IS_BETTER else value >= target[1]


def _by_scikit_learn(experiment: Experiment) -> Iterator[Alone]:
    """Fit scikit-learn's model of the same loss and the same l2; its class weights and l1 are other problems."""
    section, data, problem = experiment.config.problem, experiment.data, experiment.problem
    other = section.l1 or section.class_weight or not section.l2
    if other or not isinstance(data, Dataset) or importlib.util.find_spec("sklearn") is None:
        return
    from sklearn import linear_model  # pyright: ignore[reportMissingTypeStubs]  # ships none

    n, l2 = problem.n_samples, float(section.l2 or 0.0)
    free = len(problem.unpenalized) > 0  # the last column, of ones
    X: Any = data.X_train[:, :-1] if free else data.X_train
    strengths = {
        "least_squares": ("Ridge", {"alpha": n * l2}),
        **dict.fromkeys(("logistic", "softmax"), ("LogisticRegression", {"C": 1.0 / (2.0 * n * l2)})),
        **{name: (f"{name.title()}Regressor", {"alpha": 2.0 * l2}) for name in ("poisson", "gamma")},
    }
    if section.loss not in strengths:
        return
    name, strength = strengths[section.loss]
    kind: Any = getattr(linear_model, name)
    model = kind(**strength, fit_intercept=free)
    begin = time.process_time()
    with warnings.catch_warnings(record=True) as complaints:
        warnings.simplefilter("always")
        model.fit(X, data.y_train)
    spent = time.process_time() - begin
    rows = np.atleast_2d(model.coef_)
    if free:
        rows = np.column_stack([rows, np.atleast_1d(model.intercept_)])
    x = rows.ravel()
    comparable = len(x) == problem.n_parameters
    yield Alone(
        f"scikit-learn's {kind.__name__}",
        spent,
        None,
        not complaints,
        problem.objective(x) if comparable else None,
        problem.metrics(x) if comparable else {},
    )
