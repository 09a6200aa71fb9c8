"""How much to penalise, found by cross-validation on the training rows: `l2 = "tuned"`."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array, IntArray
from erasurehead.datasets import Dataset
from erasurehead.datasets._sharded import ShardFolder
from erasurehead.engines import InProcessEngine
from erasurehead.errors import Diverged, invalid
from erasurehead.optimizers import QuasiNewton
from erasurehead.problems import Problem
from erasurehead.runs._config import parts
from erasurehead.runs._config.sections import ProblemSection
from erasurehead.schemes import parse_scheme
from erasurehead.training import train

_FOLDS = 5
_FACTORS = 10.0 ** (np.arange(6, -9, -1) / 2)
"""The penalties that are tried, times the number of training rows, the strongest first: 1,000 to 0.0001."""

_WORSE = 2  # in a row, after which weaker penalties are not tried
_STEPS, _TOLERANCE = 1000, 1e-6


@dataclass(frozen=True)
class PenaltySearch:
    """What cross-validation found: rows that a model was not fitted to tell how well it predicts others.

    Attributes:
        l2: the factor of the least loss on them.
        path: the factors that were tried, the strongest first.
        losses: for each, the mean loss on the rows left out, without the penalty.
        default: the factor that it replaces, 1 / number of training rows.
        folds: number of parts of the rows, each of them left out once.
        seconds: how long the search took on the wall.
    """

    l2: float
    path: tuple[float, ...]
    losses: tuple[float, ...]
    default: float
    folds: int
    seconds: float

    def __str__(self) -> str:
        least, usual = min(self.losses), self.default == self.l2
        text = (
            f"l2 {self.l2:.3g}{' (the default)' if usual else ''}, the best of {len(self.path)} by {self.folds}-fold "
            f"cross-validation on the training rows: loss {least:.4g} on the rows left out"
        )
        if usual or self.default not in self.path:
            return text
        return f"{text}, {self.losses[self.path.index(self.default)]:.4g} with the default {self.default:.3g}"


def settled_problem(
    section: ProblemSection, data: Dataset | ShardFolder, starting: Callable[[str], None]
) -> tuple[ProblemSection, PenaltySearch | None]:
    """Return what is minimised with a loss and a number for l2: the one given, its default, or the one found best.

    Arguments:
        section: what is minimised.
        data: the data set.
        starting: called with what is done next, if it may take a while.

    Returns:
        It, and how the number was found, if it was looked for.

    Raises:
        InvalidArgument: if there are labels that the loss does not allow, or l2 is to be found for data in which it
            cannot.
        DataError: if the first shard is needed for the loss, and out of reach.
        KeyboardInterrupt: if the search was interrupted.
    """
    l2, loss, search = section.l2, parts.settled_loss(section, data), None
    section = section.model_copy(update={"loss": loss})
    if l2 is None:
        l2 = 1.0 / data.n_train
    elif isinstance(l2, str):
        parts.check_problem_keys(section, isinstance(data, ShardFolder), loss)
        assert isinstance(data, Dataset)
        starting(f"looking for the best l2 by {_FOLDS}-fold cross-validation")
        search = search_penalty(data, section)
        l2 = search.l2
    return section.model_copy(update={"l2": l2}), search


def search_penalty(data: Dataset, section: ProblemSection) -> PenaltySearch:
    """Find the factor of the penalty on squares whose models have the least loss on rows that they have not seen.

    The penalties are tried in turn, the strongest first, each fit beginning with the model of the one before, until two
    in a row are worse than the best. Rows are dealt to folds in the order of their labels, at random among equal ones,
    so that all folds have about the same mixture of labels.

    Arguments:
        data: the data set.
        section: what is minimised; the loss must be given, and l2 does not matter.

    Raises:
        InvalidArgument: if there are too few rows.
        KeyboardInterrupt: if it was interrupted.
    """
    begin = time.perf_counter()
    if data.n_train < 2 * _FOLDS:
        raise invalid("problem.l2", f"must be a number for fewer than {2 * _FOLDS} training rows", "tuned")
    fits = [_Fold(data, section, left_out) for left_out in _folds(data.y_train)]
    path, losses = list[float](), list[float]()
    for l2 in [float(f"{factor / data.n_train:.3g}") for factor in _FACTORS]:
        try:
            loss = float(np.average([fold.loss(l2) for fold in fits], weights=[fold.n_left_out for fold in fits]))
        except Diverged:  # a loss without a minimum, which so weak a penalty does not give it
            if not path:
                raise
            break
        path.append(l2)
        losses.append(loss)
        if len(losses) - 1 - int(np.argmin(losses)) >= _WORSE:
            break
    best = path[int(np.argmin(losses))]
    default = float(f"{1.0 / data.n_train:.3g}")
    return PenaltySearch(best, tuple(path), tuple(losses), default, _FOLDS, time.perf_counter() - begin)


def _folds(labels: Array | IntArray) -> Sequence[IntArray]:
    """Return the rows of each fold."""
    mixed = np.random.default_rng(0).permutation(len(labels))
    ordered = mixed[np.argsort(labels[mixed], kind="stable")]
    return [np.sort(ordered[fold::_FOLDS]) for fold in range(_FOLDS)]


class _Fold:
    """Some rows that are left out, and models fitted to all others, each beginning with the one before."""

    def __init__(self, data: Dataset, section: ProblemSection, left_out: IntArray) -> None:
        fitted = np.setdiff1d(np.arange(data.n_train), left_out)
        self._fitted, self._section = _part(data, fitted), section
        self._scored = parts.build_problem(_part(data, left_out), section.model_copy(update={"l2": 0.0, "l1": 0.0}))
        self._model = np.zeros(self._scored.n_parameters)
        self.n_left_out = len(left_out)

    def loss(self, l2: float) -> float:
        """Return the loss on the rows left out, of the model fitted with a penalty."""
        problem = parts.build_problem(self._fitted, self._section.model_copy(update={"l2": l2}))
        self._model = _minimiser(problem, self._model)
        return self._scored.objective(self._model)


def _part(data: Dataset, rows: IntArray) -> Dataset:
    X: Any = data.X_train
    return replace(data, X_train=X[rows], y_train=data.y_train[rows], X_test=None, y_test=None)


def _minimiser(problem: Problem, first: Array) -> Array:
    scheme, engine = parse_scheme("uncoded()", 1), InProcessEngine()
    run = train(problem, scheme, QuasiNewton(first), engine, steps=_STEPS, evaluate_every=0, tolerance=_TOLERANCE)
    if run.status == "interrupted":
        raise KeyboardInterrupt(run.stopped)
    return run.x
