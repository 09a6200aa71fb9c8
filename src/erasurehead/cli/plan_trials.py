"""Trials of a plan's settings on a sample of the user's data, to measure the time to a target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from erasurehead.cli.options import RunOptions
from erasurehead.cli.plan_checks import check_metric, trial_config
from erasurehead.cli.plan_pages import Page
from erasurehead.cli.screen import Screen
from erasurehead.cli.traces import pairs
from erasurehead.datasets.base import Dataset
from erasurehead.errors import InvalidArgument, counted, invalid
from erasurehead.optimizers import Optimizer, QuasiNewton
from erasurehead.planning import (
    Accuracy,
    Constants,
    ErrorTarget,
    after,
    estimate_constants,
    measured_accuracy,
    race,
    task_noise,
)
from erasurehead.planning.trainer import GAP, Trainer
from erasurehead.problems.base import Problem
from erasurehead.runs.comparison import parse_target
from erasurehead.runs.config import parts
from erasurehead.runs.config.defaults import chosen_optimizer
from erasurehead.runs.experiment import Experiment

if TYPE_CHECKING:
    from erasurehead.cli.plan_options import SearchOptions

_ERROR = "error"
_SAMPLE = 5_000
_CONSTANTS = ("mu", "beta", "sigma", "gap")


@dataclass(frozen=True)
class Goal:
    """The target of `--target`.

    Arguments:
        metric: a metric of the problem, `"gap"`, or `"error"` for f - f*.
        value: value of the metric to reach.
        constants: constants of the objective, for an error without data.
    """

    metric: str
    value: float
    constants: Constants | None

    @property
    def measured(self) -> tuple[str, float] | None:
        """The goal of trials, as metric and value; None for an error, which theory predicts."""
        return None if self.metric == _ERROR else (self.metric, self.value)

    @property
    def gap(self) -> float | None:
        """The fraction of the initial gap of the objective that may remain; None for other targets."""
        return self.value if self.metric == GAP else None

    def target(self, tried: Tried | None, n_workers: int) -> ErrorTarget | None:
        """Return the error to reach with the constants of the objective; None for targets that trials measure.

        Arguments:
            tried: the user's data, from which constants are estimated if none were given.
            n_workers: number of workers of the plan.
        """
        if self.metric != _ERROR:
            return None
        constants = self.constants
        if constants is None:
            assert tried is not None
            constants = estimate_constants(tried.problem, n_workers)
        try:
            return ErrorTarget(constants, self.value)
        except InvalidArgument as error:
            raise error.about("--target") from None


def check_target(search: SearchOptions, options: RunOptions) -> Goal | None:
    """Return the target that the options name; None if they name none.

    Arguments:
        search, options: options of the command.

    Raises:
        InvalidArgument: if the target is not valid, or requires an option that was not given.
    """
    if search.target is None:
        if search.constants is not None:
            raise invalid("--constants", "must come with a target", search.constants, "such as --target error=0.01")
        return None
    metric, value = parse_target(search.target)
    if metric == GAP and not 0.0 < value < 1.0:
        raise invalid("--target", "must be a fraction of the initial gap, between 0 and 1", search.target)
    if metric not in (_ERROR, GAP) and options.data is None:
        raise invalid(
            "--target",
            "must be error=VALUE or gap=VALUE without --data",
            search.target,
            f"{metric} can be measured on data only",
        )
    if metric != _ERROR and options.data is not None:
        check_metric(metric, options)
    if metric == _ERROR and not (value > 0.0 and np.isfinite(value)):
        raise invalid("--target", "must be an error greater than 0", search.target)
    if metric == _ERROR and search.constants is None and options.data is None:
        raise invalid(
            "--target",
            "must come with --data or --constants",
            search.target,
            "--constants mu=0.1,beta=1,sigma=2,gap=5 describes the objective",
        )
    return Goal(metric, value, None if search.constants is None else _constants(search.constants))


def _constants(text: str) -> Constants:
    given = pairs("--constants", text.split(","))
    if sorted(given) != sorted(_CONSTANTS):
        raise invalid("--constants", f"must give {', '.join(_CONSTANTS)}", text, "write mu=0.1,beta=1,sigma=2,gap=5")
    try:
        return Constants(**{name: float(value) for name, value in given.items()})
    except ValueError as error:
        raise invalid("--constants", "must be consistent with each other", text, str(error).rstrip(".")) from None


@dataclass(frozen=True, eq=False)
class Tried:
    """The user's data, and a problem with a sample of them for trials.

    Arguments:
        experiment: experiment with all data, uncoded and without delays.
        data: all data.
        problem: problem with a sample of the data.
    """

    experiment: Experiment
    data: Dataset
    problem: Problem

    @classmethod
    def load(cls, options: RunOptions, n_workers: int, sample: int | None, screen: Screen) -> Tried:
        """Read the data that the options name, and draw a sample of them.

        Arguments:
            options: options of the command.
            n_workers: number of workers of the plan, which is the least number of rows.
            sample: number of rows of the training data, and of the test data; by default 5,000.
            screen: prints which data are read.

        Raises:
            InvalidArgument: if the data are sharded.
        """
        rows, config = max(n_workers, _SAMPLE if sample is None else sample), trial_config(options, n_workers)
        experiment = Experiment.from_config(config, screen.reading)
        if not isinstance(experiment.data, Dataset):
            raise invalid(
                "--data",
                "must be in memory to be tried",
                config.data.source,
                "name the file that was sharded, or a smaller one like it",
            )
        return cls(experiment, experiment.data, _sampled(experiment, experiment.data, rows))

    @property
    def solver(self) -> Callable[[], Optimizer] | None:
        """Function that makes the optimizer of `adaptive` as in a run; None if the user chose another optimizer."""
        asked = self.experiment.asked
        if asked is None or chosen_optimizer(asked, "adaptive()").name != "quasi_newton":
            return None
        return lambda: QuasiNewton(self.experiment.first_model())

    @property
    def bytes_of_data(self) -> int:
        """Size in memory of all training samples, in bytes."""
        X = self.data.X_train
        arrays = [X] if isinstance(X, np.ndarray) else [X.data, X.indices, X.indptr]
        return sum(int(array.nbytes) for array in arrays)

    def accuracy(self, n_workers: int, gap: float, screen: Screen) -> Accuracy:
        """Measure how much the tasks of the data differ, and how that affects training, and print both.

        Arguments:
            n_workers: number of workers of the plan.
            gap: fraction of the initial gap to reach, in (0, 1).
            screen: prints what was measured.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            found = task_noise(self.problem, n_workers)
            steps = self.experiment.config.run.steps
            accuracy = measured_accuracy(self.problem, self.experiment.optimizer, n_workers, gap, steps)
        screen.say(
            f"tasks differ {found.ratio:.3g} times as much as they would with rows in random order (variance between "
            f"tasks over variance within); with this optimizer that is --task-noise {accuracy.noise:.2g}"
        )
        return accuracy

    def page(
        self, page: Page, goal: tuple[str, float] | None, trying: bool, repeats: int | None, screen: Screen
    ) -> Page:
        """Try the settings of a plan that could be the best on the data, and return the plan ranked by the results.

        Arguments:
            page: the plan.
            goal: metric and value to reach; None for a gap that exact training reaches in the given number of steps.
            trying: whether to make trials; otherwise, only sizes of data and model are added.
            repeats: number of trials of each setting; by default 3.
            screen: prints the progress.
        """
        rows = self.problem.n_samples, self.experiment.data.n_train
        page = replace(
            page, bytes_of_data=self.bytes_of_data, n_parameters=self.experiment.problem.n_parameters, rows=rows
        )
        if not trying:
            return page
        steps, plan = self.experiment.config.run.steps, page.plan
        count = 3 if repeats is None else repeats
        with np.errstate(over="ignore", invalid="ignore"):  # trials that diverge count as not having reached the target
            chosen = goal or self._goal(steps, screen)
            screen.say(
                f"racing settings to {chosen[0]} {chosen[1]:g} on {rows[0]:,} of {rows[1]:,} rows, up to {steps} "
                "steps ..."
            )
            with screen.counting("trials") as progress:
                trials = race(
                    plan, self.problem, self.experiment.optimizer, chosen, steps, count, progress, self.solver
                )
        return replace(page, plan=after(plan, trials), trials=trials, goal=chosen)

    def _goal(self, steps: int, screen: Screen) -> tuple[str, float]:
        """Return the default gap or, if no optimizer reaches it, about the smallest gap that exact training reaches."""
        usual = Accuracy().gap
        needed, gap = Trainer(self.problem, self.experiment.optimizer, (GAP, usual), steps).exact
        if np.isfinite(needed) or not 0.0 < gap < 1.0:
            return GAP, usual
        if self.solver is not None and np.isfinite(Trainer(self.problem, self.solver, (GAP, usual), steps).exact[0]):
            screen.warn(
                f"After {counted('step', steps)} with the exact gradient, {gap:.3g} of the objective's initial "
                "gap remains: only "
                f"adaptive, which has an optimizer of its own, reaches gap={usual:g}. To compare it with other "
                "settings, give more --steps, another --rate or an easier --target."
            )
            return GAP, usual
        chosen = float(f"{1.02 * gap:.2g}")
        screen.warn(
            f"After {counted('step', steps)} with the exact gradient, {gap:.3g} of the objective's initial gap "
            "remains: the "
            f"target is gap={chosen:g} instead of {usual:g}. For a smaller gap, give more --steps or another --rate."
        )
        return GAP, chosen


def _sampled(experiment: Experiment, data: Dataset, rows: int) -> Problem:
    rng = np.random.default_rng(0)
    train_rows = _some(rng, data.n_train, rows)
    smaller = replace(data, X_train=data.X_train[train_rows], y_train=data.y_train[train_rows])
    if data.X_test is not None and data.y_test is not None:
        test_rows = _some(rng, data.n_test, rows)
        smaller = replace(smaller, X_test=data.X_test[test_rows], y_test=data.y_test[test_rows])
    return parts.build_problem(smaller, experiment.config.problem)


def _some(rng: np.random.Generator, total: int, wanted: int) -> Any:
    return np.sort(rng.choice(total, min(total, wanted), replace=False))
