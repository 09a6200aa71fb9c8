"""From samples to coefficients: an estimator's settings and data as a problem, which `train` solves."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast, final

import numpy as np
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning  # pyright: ignore[reportMissingTypeStubs]  # ships none

from erasurehead._internal.arrays import Array, squared_norm
from erasurehead._internal.foreign_arrays import freeze
from erasurehead.engines import Engine, InProcessEngine
from erasurehead.errors import check_count, check_positive, check_size, invalid, real
from erasurehead.optimizers import QuasiNewton
from erasurehead.problems import ElasticNet, Penalty, Problem
from erasurehead.problems._linear import LinearProblem
from erasurehead.schemes import Scheme, parse_scheme
from erasurehead.training import Run, train
from erasurehead.training._arguments import as_engine

_parsed = lru_cache(maxsize=64)(parse_scheme)  # schemes learn nothing, and searches fit the same thousands of times


@dataclass(frozen=True)
class Solver:
    """How and where coefficients are found, and for how long: the settings that all estimators have.

    Arguments:
        engine: where workers run: the name of an engine, or an engine, of which each fit takes a copy; None for this
            process.
        n_workers: their number; None for one in this process, and elsewhere for as many as `train` takes.
        scheme: a scheme, or its text.
        tol: norm of the gradient, relative to that where all coefficients are 0, at which it ends; at least 0.
        max_iter: most passes over the samples.

    Raises:
        InvalidArgument: if one of them is out of its range.
    """

    engine: Engine | str | None
    n_workers: int | None
    scheme: Scheme | str
    tol: float
    max_iter: int

    def __post_init__(self) -> None:
        check_number("tol", self.tol)
        check_count("max_iter", self.max_iter)
        if self.n_workers is None:
            return
        check_size("n_workers", self.n_workers)
        if not isinstance(self.scheme, str):
            raise invalid("n_workers", "must be left out where the scheme is an object, which has them", self.n_workers)

    def run(self, problem: Problem, first: Array) -> Run:
        """Return the run in which a problem was solved, beginning with a model, shape (n_parameters,).

        Raises:
            KeyboardInterrupt: if it was interrupted.
        """
        # An engine is closed when its run ends, and an estimator is fitted many times, and by many threads.
        engine = InProcessEngine() if self.engine is None else as_engine(copy.deepcopy(self.engine))
        scheme, workers = self.scheme, 1 if self.engine is None and self.n_workers is None else self.n_workers
        if isinstance(scheme, str) and workers is not None:
            scheme = _parsed(scheme, min(int(workers), problem.n_samples))
        run = train(
            problem,
            scheme,
            QuasiNewton(first),
            engine,
            steps=int(self.max_iter),
            evaluate_every=0,
            tolerance=self._tolerance(problem, first),
        )
        if run.status == "interrupted":
            raise KeyboardInterrupt(run.stopped)
        return run

    def _tolerance(self, problem: Problem, first: Array) -> float | None:
        if not (self.tol and first.any()):
            return self.tol or None
        # `train` compares with the gradient at the first model, which is short where that is near the minimum.
        nowhere, here = (
            squared_norm(problem.regularizer.residual(x, exact.gradient)) ** 0.5
            for x, exact in zip((0.0 * first, first), problem.exact([0.0 * first, first]), strict=True)
        )
        return min(1.0, self.tol * nowhere / here) or None if here else 1.0


@dataclass(frozen=True)
class FittedModel:
    """What came of it.

    Attributes:
        coef: shape (n_outputs, n_features).
        intercept: shape (n_outputs,).
        n_iter: passes over the samples.
        converged: whether the gradient is as short as asked, or nothing is left to gain.
    """

    coef: Array
    intercept: Array
    n_iter: int
    converged: bool


@final
class SampleMatrix:
    """Samples x features in the form in which problems have them: with a column of ones, if there is an intercept.

    Columns of a dense matrix are then moved to a mean of 0, which changes nothing but the intercept; so columns far
    from 0 are no harder to fit than others.

    Arguments:
        X: checked by scikit-learn, of float64; dense or sparse.
        weights: one per sample, at least 0; None if all are 1.
        fit_intercept: whether there is an intercept.

    Raises:
        InvalidArgument: if all weights are 0.
    """

    def __init__(self, X: Any, weights: Array | None, fit_intercept: bool) -> None:
        self.total = float(X.shape[0] if weights is None else weights.sum())
        check_positive("the sum of sample_weight", self.total, "must be positive and finite")
        equal = weights is None or weights.min() == weights.max()
        self.weights = None if equal else weights
        self.fit_intercept = fit_intercept
        n_samples, self.n_features = X.shape
        self._center = np.zeros(self.n_features)
        self._matrix: Any
        if not fit_intercept:
            self._matrix = X
        elif sparse.issparse(X):
            ones: Any = sparse.csr_array(np.ones((n_samples, 1)))
            self._matrix = cast("Any", sparse).hstack([X, ones], format="csr")
        else:
            self._center = self.mean(X)
            moved = np.ones((n_samples, self.n_features + 1))
            np.subtract(X, self._center, out=moved[:, :-1])
            self._matrix = freeze(moved)

    def mean(self, values: Array) -> Array:
        """Return the weighted mean over the samples, the first axis; 0 if there is no intercept."""
        if not self.fit_intercept:
            return np.zeros(values.shape[1:])
        return np.average(values, axis=0, weights=self.weights)

    def solve(
        self,
        solver: Solver,
        build: Callable[..., LinearProblem],
        labels: Array,
        l1: float,
        l2: float,
        start: tuple[Array, Array] | None = None,
    ) -> FittedModel:
        """Return the coefficients and intercepts that minimise the mean loss plus a penalty, without the intercepts.

        It warns, as scikit-learn does, if that was not reached.

        Arguments:
            solver: how.
            build: makes the problem of samples, labels and keyword arguments.
            labels: in the form that the problem wants.
            l1: factor of the sum of the coefficients' absolute values.
            l2: factor of the sum of their squares.
            start: coefficients and intercepts to begin with, in the shapes of `FittedModel`; None for 0.
        """
        penalty: Penalty | None = ElasticNet(l1, l2) if l1 else None
        intercept = -1 if self.fit_intercept else None
        problem = build(
            self._matrix, labels, l2=0.0 if l1 else l2, penalty=penalty, intercept=intercept, sample_weight=self.weights
        )
        run = solver.run(problem, problem.initial() if start is None else self._parameters(*start))
        rows = run.x.reshape(problem.sample_loss.n_outputs, -1)
        coef = rows[:, : self.n_features].copy()
        intercepts = rows[:, -1] - coef @ self._center if self.fit_intercept else np.zeros(len(rows))
        final = run.final
        converged = run.ended == "converged" and not (final is not None and (final.without_minimum or final.collinear))
        if not converged:
            warnings.warn(_not_converged(run, solver), ConvergenceWarning, stacklevel=4)
        return FittedModel(coef, intercepts, run.steps_taken, converged)

    def _parameters(self, coef: Array, intercepts: Array) -> Array:
        if not self.fit_intercept:
            return coef.ravel()
        return np.column_stack([coef, intercepts + coef @ self._center]).ravel()


def check_number(argument: str, value: Any, most: float = np.inf, infinite: bool = False, above: bool = False) -> float:
    """Return a number from 0 to `most` as a float.

    Arguments:
        argument: its name, for errors.
        value: the number.
        most: the largest that it may be.
        infinite: whether it may be infinite.
        above: whether it must be greater than 0.

    Raises:
        InvalidArgument: if it is none.
    """
    number = real(value)
    if (number > 0.0 if above else number >= 0.0) and number <= most and (infinite or np.isfinite(number)):
        return number
    which = "a number" if infinite or most < np.inf else "a finite number"
    least = f"from 0 to {most:g}" if most < np.inf else "greater than 0" if above else "of at least 0"
    raise invalid(argument, f"must be {which} {least}", value)


def _not_converged(run: Run, solver: Solver) -> str:
    if run.final is not None and run.final.without_minimum:
        return (
            "the objective has no minimum: the samples tell the classes apart, and it falls for ever as coefficients "
            "grow. Give it one by a penalty: a smaller C."
        )
    if run.final is not None and run.final.unseen_gain is not None:
        return (
            "the minimum was not reached: nearly collinear columns. Some say so nearly what others say that rounding "
            "hides what is in their difference. Leave some of them out, or penalise."
        )
    left = "" if run.final is None else f": its gradient is still {run.final.gradient_left:.2g} of what it was at first"
    return (
        f"the minimum was not reached in max_iter={solver.max_iter} passes over the samples{left}. Increase max_iter "
        f"or tol={solver.tol:g}, bring columns to one scale (sklearn.preprocessing.StandardScaler), or penalise more."
    )
