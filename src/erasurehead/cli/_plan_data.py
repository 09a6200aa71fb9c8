"""The data that a plan is for, the target on them, and how much progress steps make there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from erasurehead.cli._output import Screen
from erasurehead.cli._plan_asked import plan_config
from erasurehead.cli._plan_options import PlanOptions
from erasurehead.cli._traces import pairs
from erasurehead.datasets import Dataset
from erasurehead.errors import InvalidArgument, counted, invalid
from erasurehead.optimizers import Optimizer, QuasiNewton
from erasurehead.planning import Accuracy, Constants, ErrorTarget
from erasurehead.planning._accuracy import measured_accuracy
from erasurehead.planning._constants import estimate_constants, task_noise
from erasurehead.planning._trainer import GAP, Trainer
from erasurehead.problems import Problem
from erasurehead.reports._measures import Aim
from erasurehead.runs import Experiment
from erasurehead.runs._config import Config, parts
from erasurehead.runs._config.resolving import check_metric_name, with_choices
from erasurehead.runs._targets import parse_target

_ERROR = "error"


_SAMPLE = 5_000


_CONSTANTS = ("mu", "beta", "sigma", "gap")


@dataclass(frozen=True)
class PlanTarget:
    """The target of `--target`.

    Arguments:
        metric: a metric of the problem, `"gap"`, or `"error"` for f - f*.
        value: value of the metric to reach.
        constants: constants of the objective, for an error without data.
    """

    metric: str
    value: float
    constants: Constants | None

    @classmethod
    def named(cls, asked: PlanOptions) -> PlanTarget | None:
        """Return the target that the options name; None if they name none.

        Raises:
            InvalidArgument: if the target is not valid, or requires an option that was not given.
        """
        text, with_data = asked.target, asked.data is not None
        if text is None:
            if asked.constants is not None:
                raise invalid("--constants", "must come with a target", asked.constants, "such as --target error=0.01")
            return None
        metric, value = parse_target(text)
        if metric == GAP and not 0.0 < value < 1.0:
            raise invalid("--target", "must be a fraction of the initial gap, between 0 and 1", text)
        if metric not in (_ERROR, GAP) and not with_data:
            hint = f"{metric} can be measured on data only"
            raise invalid("--target", "must be error=VALUE or gap=VALUE without --data", text, hint)
        if metric != _ERROR and with_data:
            check_metric_name("target", metric, plan_config(asked), (GAP,), "must name a metric of the problem")
        if metric == _ERROR and not (value > 0.0 and np.isfinite(value)):
            raise invalid("--target", "must be an error greater than 0", text)
        if metric == _ERROR and asked.constants is None and not with_data:
            hint = "--constants mu=0.1,beta=1,sigma=2,gap=5 describes the objective"
            raise invalid("--target", "must come with --data or --constants", text, hint)
        return cls(metric, value, None if asked.constants is None else _constants(asked.constants))

    @property
    def measured(self) -> Aim | None:
        """What trials are to reach, as metric and value; None for an error, which theory predicts."""
        return None if self.metric == _ERROR else (self.metric, self.value)

    @property
    def gap(self) -> float | None:
        """The fraction of the initial gap of the objective that may remain; None for other targets."""
        return self.value if self.metric == GAP else None

    def predicted(self, sampled: SampledData | None, n_workers: int) -> ErrorTarget | None:
        """Return the error to reach with the constants of the objective; None for targets that trials measure.

        Arguments:
            sampled: the user's data, from which constants are estimated if none were given.
            n_workers: number of workers of the plan.
        """
        if self.metric != _ERROR:
            return None
        constants = self.constants
        if constants is None:
            assert sampled is not None
            constants = estimate_constants(sampled.problem, n_workers)
        try:
            return ErrorTarget(constants, self.value)
        except InvalidArgument as error:
            raise error.about("--target") from None


def _constants(text: str) -> Constants:
    given = pairs("--constants", text.split(","))
    if sorted(given) != sorted(_CONSTANTS):
        raise invalid("--constants", f"must give {', '.join(_CONSTANTS)}", text, "write mu=0.1,beta=1,sigma=2,gap=5")
    try:
        return Constants(**{name: float(value) for name, value in given.items()})
    except ValueError as error:
        raise invalid("--constants", "must be consistent with each other", text, str(error).rstrip(".")) from None


def goal_accuracy(
    goal: PlanTarget | None, asked: PlanOptions, sampled: SampledData | None, n_workers: int, screen: Screen
) -> Accuracy:
    """Return target, noise and pace for the forecast of steps: from options, measured on the data, or by default.

    Arguments:
        goal: the target; None for the default.
        asked: options of the command.
        sampled: the user's data, if any.
        n_workers: number of workers of the plan.
        screen: prints what was measured.
    """
    accuracy = Accuracy()
    if sampled is not None and (goal is None or goal.measured is not None):
        deep = accuracy.gap if goal is None or goal.gap is None else goal.gap
        accuracy = sampled.accuracy(n_workers, deep, screen)
    if asked.task_noise is not None:
        accuracy = replace(accuracy, noise=asked.task_noise, noises=None)
    return accuracy if goal is None or goal.gap is None else accuracy.to(goal.gap)


def by_itself(config: Config) -> bool:
    """Return whether `adaptive` would be trained by the optimizer that chooses its steps itself: no other is named."""
    return with_choices(config, "adaptive()").optimizer.name == "quasi_newton"


@dataclass(frozen=True, eq=False)
class SampledData:
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
    def load(cls, asked: PlanOptions, n_workers: int, screen: Screen) -> SampledData:
        """Read the data that the options name, and draw a sample of them.

        Arguments:
            asked: options of the command.
            n_workers: number of workers of the plan, which is the least number of rows.
            screen: prints which data are read.

        Raises:
            InvalidArgument: if the data are sharded.
        """
        # Trials run on the virtual clock, and write no folder.
        of_its_engine = ("out", "overwrite", "address", "start_limit")
        config = plan_config(asked, of_its_engine, workers=n_workers, engine="virtual")
        experiment = Experiment.from_config(config, screen.starting)
        data, rng = experiment.data, np.random.default_rng(0)
        if not isinstance(data, Dataset):
            hint = "name the file that was sharded, or a smaller one like it"
            raise invalid("--data", "must be in memory to be tried", config.data.source, hint)

        def some(total: int) -> Any:
            wanted = max(n_workers, _SAMPLE if asked.sample is None else asked.sample)
            return np.sort(rng.choice(total, min(total, wanted), replace=False))

        rows = some(data.n_train)
        smaller = replace(data, X_train=data.X_train[rows], y_train=data.y_train[rows])
        if data.X_test is not None and data.y_test is not None:
            rows = some(data.n_test)
            smaller = replace(smaller, X_test=data.X_test[rows], y_test=data.y_test[rows])
        return cls(experiment, data, parts.build_problem(smaller, experiment.config.problem))

    @property
    def rows(self) -> tuple[int, int]:
        """Rows of the sample, and of the training data."""
        return self.problem.n_samples, self.data.n_train

    @property
    def steps(self) -> int:
        """Most steps of a trial."""
        return self.experiment.config.run.steps

    @property
    def solver(self) -> Callable[[], Optimizer] | None:
        """Function that makes the optimizer of `adaptive` as in a run; None if the user chose another optimizer."""
        if self.experiment.resolved.again("adaptive()").config.optimizer.name != "quasi_newton":
            return None
        return lambda: QuasiNewton(self.experiment.first_model())

    @property
    def n_parameters(self) -> int:
        """Number of parameters of the model."""
        return self.experiment.problem.n_parameters

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
            noise = task_noise(self.problem, n_workers)
            accuracy = measured_accuracy(self.problem, self.experiment.optimizer, n_workers, gap, self.steps)
        screen.say(
            f"tasks differ {noise.ratio:.3g} times as much as they would with rows in random order (variance between "
            f"tasks over variance within); with this optimizer that is --task-noise {accuracy.noise:.2g}"
        )
        return accuracy

    def usual_goal(self, screen: Screen) -> Aim:
        """Return the default gap or, if no optimizer reaches it, about the smallest gap that exact training reaches."""
        usual, steps = Accuracy().gap, self.steps
        needed, gap = Trainer(self.problem, self.experiment.optimizer, (GAP, usual), steps).exact
        if np.isfinite(needed) or not 0.0 < gap < 1.0:
            return GAP, usual
        remains = f"After {counted('step', steps)} with the exact gradient, {gap:.3g} of the objective's initial gap"
        if self.solver is not None and np.isfinite(Trainer(self.problem, self.solver, (GAP, usual), steps).exact[0]):
            screen.warn(
                f"{remains} remains: only adaptive, which has an optimizer of its own, reaches gap={usual:g}. To "
                "compare it with other settings, give more --steps, another --rate or an easier --target."
            )
            return GAP, usual
        chosen = float(f"{1.02 * gap:.2g}")
        screen.warn(
            f"{remains} remains: the target is gap={chosen:g} instead of {usual:g}. For a smaller gap, give more "
            "--steps or another --rate."
        )
        return GAP, chosen
