"""What `erasurehead plan` is asked: its options are checked, and what they name is read, sampled and measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from erasurehead._internal.documents import Entries
from erasurehead.cli._plan_options import FREE, PlanOptions
from erasurehead.cli._screen import Screen
from erasurehead.cli._traces import pairs
from erasurehead.datasets import Dataset
from erasurehead.delays import Delays, Trace
from erasurehead.delays._bootstrap import KEEP, Keep
from erasurehead.delays._unobserved import ABSENT, Absent, completed
from erasurehead.errors import UNSAID, DataError, InvalidArgument, check_count, counted, invalid
from erasurehead.optimizers import Optimizer, QuasiNewton
from erasurehead.planning import Accuracy, Constants, ErrorTarget, measure_task
from erasurehead.planning._accuracy import measured_accuracy
from erasurehead.planning._constants import estimate_constants, task_noise
from erasurehead.planning._planner import check_effort
from erasurehead.planning._settings import default_settings
from erasurehead.planning._trace_delays import drawn_from, shorter_than_computing
from erasurehead.planning._trainer import GAP, Trainer
from erasurehead.problems import Problem
from erasurehead.reports._measures import Aim
from erasurehead.reports._units import seconds_text
from erasurehead.runs import Experiment, build_config
from erasurehead.runs._comparison import parse_target
from erasurehead.runs._config import Config, parts, read_config
from erasurehead.runs._config.resolving import check_metric_name, resolve, with_choices
from erasurehead.runs._names import CONFIG
from erasurehead.schemes import parse_scheme
from erasurehead.schemes._text import PAPER_WORKERS, by_speed

TRACE = "trace.csv"
"""Name of the trace file next to the run file, from which the run draws its delays."""

_ERROR = "error"
_SAMPLE = 5_000
_CONSTANTS = ("mu", "beta", "sigma", "gap")
_SHORT = 0.01  # share of a trace's times that may be shorter than computing, as clocks are not exact


def check_options(asked: PlanOptions) -> None:
    """Check the options of a plan, one by one and in combination, before any file is read.

    Raises:
        InvalidArgument: if an option is not valid; the error names it.
        TooLarge: if by estimate the plan would take longer than allowed.
    """
    if (asked.trace is None) == (asked.delays is None):
        sentence = "Exactly one of --trace and --delays must be given."
        raise InvalidArgument("--trace", "must be given if --delays is not, and left out if it is", sentence=sentence)
    if asked.speeds is not None:
        hint = f'-s "{by_speed(None, asked.speeds)}" tries them'
        raise invalid("--speeds", "must be left out of a plan, which tries settings", asked.speeds, hint)
    _check_nonnegative("--seconds-per-task", asked.seconds_per_task)
    of_traces = {
        "--keep": asked.keep,
        "--absent": asked.absent,
        "--scale-with-load": asked.scale_with_load or None,
        "--column": asked.column,
        "--where": asked.where,
        "--unit": asked.unit,
    }
    _come_with("--trace", asked.trace, of_traces)
    for option, value, choices in (("--keep", asked.keep, KEEP), ("--absent", asked.absent, ABSENT)):
        if value is not None and value not in choices:
            raise invalid(option, f"must be {', '.join(choices[:-1])} or {choices[-1]}", value)
    of_data = {
        option: asked.tables()["data"][key.removeprefix("data.")]
        for key, option in asked.spelled().items()
        if key.startswith("data.") and key != "data.source"
    }
    _come_with("--data", asked.data, {**of_data, "--sample": asked.sample, "--repeats": asked.repeats})
    for name, count in (("--sample", asked.sample), ("--repeats", asked.repeats), ("--max-load", asked.max_load)):
        if count is not None:
            check_count(name, count)
    _check_nonnegative("--task-noise", asked.task_noise)
    workers = PAPER_WORKERS if asked.trace is None and asked.workers is None else asked.workers
    if workers is not None:
        load = FREE if asked.max_load is None else min(FREE, asked.max_load)
        least = asked.scheme or default_settings(check_count("--workers", workers), load)
        check_effort(workers, len(least))
    resolve(_config(asked, workers=asked.workers or PAPER_WORKERS), starting=False)


def check_schemes(asked: PlanOptions, n_workers: int) -> None:
    """Check the settings to try, and the one in use, for the number of workers of the plan.

    Raises:
        InvalidArgument: if a text is not a scheme for this number of workers.
    """
    for text in asked.scheme or ():
        parse_scheme(text, n_workers)
    if asked.current is None:
        return
    try:
        parse_scheme(asked.current, n_workers)
    except InvalidArgument as error:
        raise error.about("--current") from None


def _check_nonnegative(option: str, value: float | None) -> None:
    if value is not None and not 0.0 <= value < math.inf:
        raise invalid(option, "must be finite and at least 0", value)


def _come_with(other: str, value: object, given: Entries) -> None:
    """Raise if options were given without another one that they require."""
    for option, text in given.items() if value is None else ():
        if text is not None:
            raise InvalidArgument(
                option, f"must come with {other}", UNSAID if isinstance(text, bool) else _listed(text)
            )


def _listed(value: object) -> object:
    """Return a value of an option as it is written, lists and lists of lists with commas."""
    if not isinstance(value, list | tuple):
        return value
    return ",".join(str(_listed(item)) for item in cast("Sequence[object]", value))


def _config(asked: PlanOptions, without: Sequence[str] = ("out", "overwrite"), **run: Any) -> Config:
    """Return the configuration of a run as asked, but uncoded and without delays."""
    tables = asked.tables()
    section = {key: value for key, value in tables.get("run", {}).items() if key not in without}
    settings = {**tables, "scheme": "uncoded()", "delays": {"model": "none()"}, "run": {**section, **run}}
    return build_config(settings)


@dataclass(frozen=True)
class TaskCost:
    """The computing time of a task, where a task is the data of an uncoded worker.

    Arguments:
        seconds: seconds that each task of a worker's load adds.
        known_from: source of this number: the user (`"option"`), the run that recorded the trace (`"run"`), delays that
            grow with the load (`"delays"`), or a measurement on this machine (`"measured"`); None if it is not known.
        in_trace: seconds of computing per task that are included in a trace's times.
    """

    seconds: float = 0.0
    known_from: Literal["option", "run", "delays", "measured"] | None = None
    in_trace: float = 0.0


@dataclass(frozen=True, eq=False)
class Workers:
    """The workers of a plan, as the options describe them: how many, how slow, what they run now.

    Arguments:
        count: number of workers.
        described: their number in words, and where it is from if the user did not give it.
        delays: the delay model; None if there is a trace.
        trace: the trace; None if there is a delay model.
        config: configuration of the run that recorded the trace, if there is one.
    """

    count: int
    described: str
    delays: Delays | None = None
    trace: Trace | None = None
    config: Config | None = None

    @classmethod
    def named(cls, asked: PlanOptions) -> Workers:
        """Read and check the delay model or trace that the options name.

        Raises:
            DataError: if nothing can be drawn from the trace.
            InvalidArgument: if the trace has too few workers, or the model is not valid.
        """
        count, trace, default = asked.workers, None, " (as in the trace)"
        if asked.trace is None:
            delays = parts.build_delays(asked.delays)
            count, default = count or PAPER_WORKERS, "" if count else " (the default; see --workers)"
            return cls(count, f"{counted('worker', count)}{default}", delays)
        trace = asked.read(asked.trace)
        count, default = (trace.n_workers, default) if count is None else (count, "")
        _check_drawable(trace, count, asked.keep or "rounds")
        completed(trace, cast("Absent", asked.absent or "censored"))  # raises if nothing can be drawn from it
        recorded_by = _recorded_by(Path(asked.trace).expanduser())
        return cls(count, f"{counted('worker', count)}{default}", None, trace, recorded_by)

    @property
    def current(self) -> str | None:
        """The scheme of the run that recorded the trace; None if that had another number of workers, or is unknown."""
        config = self.config
        return config.scheme if config is not None and config.run.workers == self.count else None

    def known_cost(self, asked: PlanOptions) -> TaskCost | None:
        """Return the cost of a task if it is known without a measurement, and None otherwise."""
        if asked.seconds_per_task is not None:
            return TaskCost(asked.seconds_per_task, "option", asked.seconds_per_task)
        if self._on_virtual_clock and self.config is not None and self.config.run.seconds_per_task > 0.0:
            took, before = self.config.run.seconds_per_task, self.config.run.workers
            return TaskCost(took * before / self.count, "run", took)  # for as many samples as a worker has here
        return TaskCost(known_from="delays") if asked.scale_with_load else None

    def measured_cost(self, problem: Problem, screen: Screen) -> TaskCost | None:
        """Measure the cost of a task on this machine; if the trace contradicts it, warn and return None.

        Arguments:
            problem: the problem with all of the user's data.
            screen: prints the warning.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            seconds = measure_task(problem, self.count)
        if self.trace is None or self._on_virtual_clock:  # whose times do not include computing
            return TaskCost(seconds, "measured")
        short = shorter_than_computing(self.trace, seconds)
        if short > _SHORT:
            screen.warn(
                f"{short:.1%} of the measured times are shorter than computing their tasks takes on this machine, "
                f"{seconds_text(seconds)} a task: how long those workers compute is not known (--seconds-per-task)."
            )
            return None
        return TaskCost(seconds, "measured", seconds)

    @property
    def _on_virtual_clock(self) -> bool:
        return self.config is not None and self.config.run.engine == "virtual"

    def drawn(
        self, asked: PlanOptions, cost: TaskCost, folder: Path, screen: Screen
    ) -> tuple[Delays, str, Trace | None]:
        """Return the delays of the plan, their description, and the trace from which they are drawn, if there is one.

        Arguments:
            asked: options of the command.
            cost: cost of computing a task.
            folder: folder in which the trace will be written.
            screen: prints warnings.
        """
        if self.trace is None:
            assert self.delays is not None
            return self.delays, f"{self.delays}, {self.described}", None
        drawn = drawn_from(
            self.trace,
            self.count,
            cast("Keep", asked.keep or "rounds"),
            cast("Absent", asked.absent or "censored"),
            cost.in_trace,
            scale_with_load=asked.scale_with_load,
            warn=screen.warn,
            source=str((folder / TRACE).absolute()),
        )
        text = f"{drawn.text}, {self.described}"
        if drawn.block > 1:
            text += f" ({drawn.block} successive rounds at a time, as they are alike)"
        return drawn.delays, text, drawn.trace


def _check_drawable(trace: Trace, n_workers: int, keep: str) -> None:
    """Raise if the delays of a trace cannot be drawn for this number of workers."""
    hint = "--keep pooled draws for any number"
    if trace.n_workers == 1 and n_workers > 1 and keep != "pooled":
        raise invalid("--workers", "must be 1, as in the trace", n_workers, hint)
    if n_workers < 2:
        alone = f"one worker has nobody to wait for; {hint} from one worker's delays"
        raise invalid("--workers", "must be at least 2", n_workers, alone)
    if keep != "pooled" and n_workers > trace.n_workers:
        raise invalid("--workers", f"must be at most the {trace.n_workers} workers of the trace", n_workers, hint)


def _recorded_by(place: Path) -> Config | None:
    """Return the configuration of the run that recorded a trace; None if it is not that of a run."""
    file = (place if place.is_dir() else place.parent) / CONFIG
    if place.suffix not in ("", ".jsonl") or not file.is_file():
        return None
    try:
        return read_config(file)
    except (DataError, ValueError):
        return None


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
            check_metric_name("target", metric, _config(asked), (GAP,), "must name a metric of the problem")
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
        of_its_engine = ("out", "overwrite", "address", "start_patience", "start_limit")
        config = _config(asked, of_its_engine, workers=n_workers, engine="virtual")
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
