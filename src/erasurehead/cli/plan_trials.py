"""Settings of a plan tried on a sample of the user's data: what the time to a target is there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from erasurehead.cli.options import RunOptions
from erasurehead.cli.plan_pages import Page
from erasurehead.cli.screen import Screen
from erasurehead.cli.traces import pairs
from erasurehead.datasets.base import Dataset
from erasurehead.engines.virtual import VirtualEngine
from erasurehead.errors import check_count, invalid
from erasurehead.planning import Constants, Plan, Target, after, estimate_constants, try_plan
from erasurehead.problems.base import Problem
from erasurehead.runs.comparison import common_target, parse_target
from erasurehead.runs.config import build_config, parts
from erasurehead.runs.experiment import Experiment
from erasurehead.training.loop import train

if TYPE_CHECKING:
    from erasurehead.cli.plan_options import SearchOptions

_ERROR = "error"
_SAMPLE = 5_000
_CONSTANTS = ("mu", "beta", "sigma", "gap")


@dataclass(frozen=True)
class Goal:
    """What `--target` asks for.

    Arguments:
        metric: of the problem, or `error`: f - f*.
        value: of it.
        constants: of the objective, for an error without data.
    """

    metric: str
    value: float
    constants: Constants | None

    @property
    def measured(self) -> tuple[str, float] | None:
        """The goal of trials; None if the target is one of theory."""
        return None if self.metric == _ERROR else (self.metric, self.value)

    def target(self, tried: Tried | None, n_workers: int) -> Target | None:
        """Return the target of theory; None if it is one to be measured."""
        if self.metric != _ERROR:
            return None
        if self.constants is not None:
            return Target(self.constants, self.value)
        assert tried is not None
        return Target(estimate_constants(tried.problem, n_workers), self.value)


def check_target(search: SearchOptions, options: RunOptions) -> Goal | None:
    """Return what is to be reached, or None if nothing was named.

    Raises:
        InvalidArgument: the target is none, or needs what is not there.
    """
    if search.target is None:
        if search.constants is not None:
            raise invalid("--constants", "must come with a target", search.constants, "such as --target error=0.01")
        return None
    metric, value = parse_target(search.target)
    if metric != _ERROR and options.data is None:
        raise invalid(
            "--target", "must be error=VALUE without --data", search.target, f"{metric} can be measured on data only"
        )
    if metric == _ERROR and not (value > 0.0 and np.isfinite(value)):
        raise invalid("--target", "must be an error greater than 0", search.target)
    if metric == _ERROR and search.constants is None and options.data is None:
        raise invalid(
            "--target", "must come with --data or --constants", search.target,
            "--constants mu=0.1,beta=1,sigma=2,gap=5 says what the objective is like",
        )  # fmt: skip
    return Goal(metric, value, None if search.constants is None else _constants(search.constants))


def _constants(text: str) -> Constants:
    given = pairs("--constants", text.split(","))
    if sorted(given) != sorted(_CONSTANTS):
        raise invalid("--constants", f"must give {', '.join(_CONSTANTS)}", text, "write mu=0.1,beta=1,sigma=2,gap=5")
    try:
        return Constants(**{name: float(value) for name, value in given.items()})
    except ValueError as error:
        raise invalid("--constants", "must be numbers that go together", text, str(error).rstrip(".")) from None


@dataclass(frozen=True, eq=False)
class Tried:
    """The user's data, and what is trained on.

    Arguments:
        experiment: of all data, uncoded and without delays.
        data: all of it.
        problem: of a sample.
    """

    experiment: Experiment
    data: Dataset
    problem: Problem

    @classmethod
    def load(cls, options: RunOptions, n_workers: int, sample: int | None, screen: Screen) -> Tried:
        """Read the data that options name, and take a sample of them.

        Arguments:
            options: of the command.
            n_workers: so many rows at least are taken.
            sample: rows of the training data, and as many of the test data.
            screen: to print on.
        """
        rows = max(n_workers, check_count("--sample", _SAMPLE if sample is None else sample))
        tables = options.tables()
        section = {key: value for key, value in tables.get("run", {}).items() if key not in ("out", "overwrite")}
        chosen: Mapping[str, Any] = {
            **tables,
            "scheme": "uncoded()",
            "delays": {"model": "none()"},
            "run": {**section, "workers": n_workers, "engine": "virtual"},
        }
        config = build_config(chosen)
        screen.say(f"reading {config.data.source} ...")
        experiment = Experiment.from_config(config)
        if not isinstance(experiment.data, Dataset):
            raise invalid("--data", "must be in memory to be tried", config.data.source,
                          "name the file that was sharded, or a smaller one like it")  # fmt: skip
        return cls(experiment, experiment.data, _sampled(experiment, experiment.data, rows))

    @property
    def bytes_of_data(self) -> int:
        """Of all training samples."""
        X = self.data.X_train
        arrays = [X] if isinstance(X, np.ndarray) else [X.data, X.indices, X.indptr]
        return sum(int(array.nbytes) for array in arrays)

    def page(
        self, plan: Plan, goal: tuple[str, float] | None, trying: bool, repeats: int | None, screen: Screen
    ) -> Page:
        """Try the first settings of a plan, and return it ranked by what came of that.

        Arguments:
            plan: to be tried.
            goal: metric and value; None to choose one.
            trying: whether to try, or only to say how large things are.
            repeats: trials of each setting.
            screen: to print on.
        """
        page = Page(plan, (), None, self.bytes_of_data, self.experiment.problem.n_parameters)
        if not trying:
            return page
        steps = self.experiment.config.run.steps
        chosen = goal or self._goal(plan, steps)
        if chosen is None:
            screen.warn(
                f"No target can be chosen: uncoded training gets no better in {steps} steps on a test set. Say more "
                "--steps or another --rate, or a --target."
            )
            return page
        screen.say(f"trying the first settings on {self.problem.n_samples:,} rows, up to {steps} steps ...")
        with np.errstate(over="ignore", invalid="ignore"):  # trials that diverge have not reached the target
            trials = try_plan(
                plan, self.problem, self.experiment.optimizer, chosen, max_steps=steps,
                repeats=check_count("--repeats", 3 if repeats is None else repeats),
            )  # fmt: skip
        return replace(page, plan=after(plan, trials), trials=trials, goal=chosen)

    def _goal(self, plan: Plan, steps: int) -> tuple[str, float] | None:
        scheme, engine = self.experiment.scheme, VirtualEngine(self.experiment.delays, plan.late)
        run = train(self.problem, scheme, self.experiment.optimizer(), engine, steps)
        published = self.experiment.data.published
        return common_target([run], None if published is None else published.metric)


def _sampled(experiment: Experiment, data: Dataset, rows: int) -> Problem:
    section = experiment.config.problem
    rng = np.random.default_rng(0)
    train_rows = _some(rng, data.n_train, rows)
    smaller = replace(data, X_train=data.X_train[train_rows], y_train=data.y_train[train_rows])
    if data.X_test is not None and data.y_test is not None:
        test_rows = _some(rng, data.n_test, rows)
        smaller = replace(smaller, X_test=data.X_test[test_rows], y_test=data.y_test[test_rows])
    assert section.loss is not None
    assert section.l2 is not None
    return parts.build_problem(smaller, section.loss, section.l2, penalize_intercept=section.penalize_intercept)


def _some(rng: np.random.Generator, total: int, wanted: int) -> Any:
    return np.sort(rng.choice(total, min(total, wanted), replace=False))
