"""Trials of settings on data: steps to a target, measured by training with simulated arrivals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from erasurehead._internal.arrays import Array
from erasurehead.decoding.base import EXACT
from erasurehead.delays.base import Delays
from erasurehead.engines.base import LateWork
from erasurehead.errors import check_count
from erasurehead.optimizers.base import Optimizer
from erasurehead.planning.carry_over import simulate_with_memory
from erasurehead.planning.early_rounds import EarlyRounds, seconds_of_a_step
from erasurehead.planning.forecasts import Forecast
from erasurehead.planning.simulation import simulate
from erasurehead.planning.task_weights import task_weights
from erasurehead.planning.trainer import GAP, Trainer
from erasurehead.problems.base import Problem
from erasurehead.schemes.named import Scheme
from erasurehead.schemes.text import is_adaptive, parse_scheme
from erasurehead.training.result import LOWER_IS_BETTER

_FEW = 5  # targets that are met in fewer steps than this are decided by chance


@dataclass(frozen=True)
class Trial:
    """The results of training with one setting.

    Attributes:
        setting: the scheme, written as in a run file.
        seconds: time of each repetition until the target was reached, in seconds on the virtual clock; inf if it was
            not.
        final: metric at the end of each repetition; NaN if the model was no longer finite.
        steps: steps of each repetition until the target was reached; inf if it was not. The unit is a step with the
            whole gradient: early steps, and those with curvatures, count as the share or multiple of its time that they
            take.
        ended_at: step at which a repetition was ended because another setting was much faster; 0 if none was.
        given: largest number of steps allowed in each repetition; by default those of the longest one.
        begins_early: whether runs begin with early steps.
    """

    setting: str
    seconds: tuple[float, ...]
    final: tuple[float, ...]
    steps: tuple[float, ...] = ()
    ended_at: int = 0
    given: tuple[float, ...] = ()
    begins_early: bool = False

    @property
    def given_up(self) -> bool:
        """Whether any repetition was ended because another setting was much faster."""
        return self.ended_at > 0

    @property
    def unfinished(self) -> bool:
        """Whether so many repetitions were ended that the setting's time is not known."""
        return self.given_up and math.isinf(self.median_steps)

    @property
    def reached(self) -> float:
        """Share of the repetitions that reached the target, from 0 to 1."""
        return float(np.isfinite(self.seconds).mean())

    @property
    def median(self) -> float:
        """Median of the seconds; inf if at least half of the repetitions did not reach the target."""
        return _median(self.seconds)

    @property
    def median_steps(self) -> float:
        """Median of the steps; inf if at least half of the repetitions did not reach the target."""
        return _median(self.steps)

    @property
    def expected_steps(self) -> float:
        """Mean of the steps, where a repetition that missed the target counts with the steps that it was given.

        inf if at least half of the repetitions missed it. The median would not distinguish a setting that always
        reaches the target from one that sometimes hovers above it for a long time.
        """
        if math.isinf(self.median_steps):
            return math.inf
        longest = max(steps for steps in self.steps if math.isfinite(steps))
        given = self.given or (longest,) * len(self.steps)
        return float(np.mean([min(pair) for pair in zip(self.steps, given, strict=True)]))

    @property
    def band(self) -> tuple[float, float]:
        """Seconds of the fastest and the slowest repetition."""
        return min(self.seconds), max(self.seconds)

    @property
    def seconds_per_step(self) -> float:
        """Mean seconds of a step, over the repetitions that reached the target; NaN if none did."""
        known = [(total, steps) for total, steps in zip(self.seconds, self.steps, strict=True) if math.isfinite(total)]
        if not known:
            return math.nan
        seconds, steps = (math.fsum(values) for values in zip(*known, strict=True))
        return seconds / steps

    def contradicts(self, item: Forecast) -> bool:
        """Whether the seconds per step contradict the forecast's.

        They do if they are off by more than a quarter of the forecast, and by more than chance explains: no stretch of
        as many successive simulated steps is as fast, or as slow, give or take 3 standard errors of the forecast.

        Arguments:
            item: forecast of the setting.
        """
        took, expected = self.seconds_per_step, item.seconds_per_step
        if math.isnan(took) or math.isinf(expected):
            return not math.isnan(took)
        if abs(took - expected) <= 0.25 * expected:
            return False
        low, high = _extremes(item.scores, max(1, round(sum(filter(math.isfinite, self.steps)))))
        chance = 3.0 * item.error if math.isfinite(item.error) else expected
        return not low - chance <= took <= high + chance


def _extremes(scores: Array, steps: int) -> tuple[float, float]:
    """Return the least and the greatest mean of stretches of successive scores."""
    steps = min(steps, len(scores))
    sums = np.concatenate([[0.0], np.cumsum(scores)])
    means = (sums[steps:] - sums[:-steps]) / steps
    return float(means.min()), float(means.max())


def _median(values: Sequence[float]) -> float:
    finite = sum(map(math.isfinite, values))
    return float(np.sort(values)[(len(values) - 1) // 2]) if 2 * finite > len(values) else math.inf


def took(item: Forecast, trial: Trial) -> float:
    """Return the seconds to the target: the expected steps of a trial times the forecast's seconds per step.

    Arguments:
        item: forecast of the setting.
        trial: trial of the setting.
    """
    steps = trial.expected_steps
    return steps * item.seconds_per_step if math.isfinite(steps) else math.inf


def decided_by_luck(trials: Sequence[Trial]) -> bool:
    """Whether the target is so easy that a setting, `adaptive` ones excepted, reached it in fewer than five steps."""
    return any(trial.median_steps < _FEW for trial in trials if not is_adaptive(trial.setting))


class StepWeights:
    """Collects the tasks' weights of simulated steps; called as a `simulation.Watch`."""

    def __init__(self, scheme: Scheme) -> None:
        self._scheme = scheme
        self._rows: list[Array] = []

    def __call__(self, times: Array, stop: Array, residual: Array) -> None:
        n_tasks = self._scheme.code.n_tasks
        rows = np.ones((len(times), n_tasks))
        lossy = np.flatnonzero(residual > EXACT * n_tasks)
        if len(lossy):
            rows[lossy] = task_weights(self._scheme.decoder, self._scheme.aggregation, times[lossy], stop[lossy])
        self._rows.append(rows)

    @property
    def rows(self) -> Array:
        return np.concatenate(self._rows) if self._rows else np.zeros((0, self._scheme.code.n_tasks))


def arrivals_of(
    scheme: Scheme, delays: Delays, seconds_per_task: float, late: LateWork, first: int, steps: int
) -> tuple[Array, Array]:
    """Return the seconds and the tasks' weights of successive steps; fewer if the rule can no longer be met."""
    kept = StepWeights(scheme)
    if late != "preempt":
        done = simulate_with_memory(
            scheme.decoder, scheme.rule, delays, steps, seconds_per_task, first, late, watch=kept
        )
    else:
        done = simulate(scheme.decoder, scheme.rule, delays, steps, seconds_per_task, first, watch=kept)
    ended = np.flatnonzero(~np.isfinite(done.seconds))
    count = int(ended[0]) if len(ended) else len(done.seconds)
    return done.seconds[:count], kept.rows[:count]


def try_settings(
    settings: Iterable[str],
    problem: Problem,
    optimizer: Callable[[], Optimizer],
    delays: Delays,
    n_workers: int,
    goal: tuple[str, float],
    max_steps: int = 100,
    repeats: int = 3,
    seconds_per_task: float = 0.0,
    late: LateWork = "preempt",
) -> tuple[Trial, ...]:
    """Train with each setting on the virtual clock, from the same model and with the same delays, and rank them.

    Arguments:
        settings: schemes, written as in run files.
        problem: the problem, with the user's data or a sample of them, and with test samples if the goal needs them.
        optimizer: makes a new optimizer at its initial model for each run.
        delays: how slow the workers are; each repetition uses different steps of them.
        n_workers: number of workers.
        goal: `("gap", 0.01)`, or a metric of the problem and the value to reach, such as `("auc", 0.84)`.
        max_steps: number of steps after which a run is given up, at least 1.
        repeats: number of runs of each setting, at least 1; the band is their range.
        seconds_per_task: computing time of a task.
        late: what a worker does with old work when the next order is given.

    Returns:
        The trials, sorted by median time; those that did not reach the goal, by the metric at the end.
    """
    check_count("repeats", repeats)
    trainer = Trainer(problem, optimizer, goal, max_steps)
    runs = Runs(trainer, delays, n_workers, seconds_per_task, late)
    trials = [runs.trial(setting, repeats, math.inf) for setting in settings]
    return tuple(sorted(trials, key=lambda trial: (trial.median, how_far(trial, goal[0]))))


class Runs:
    """Runs of settings, which are kept for later trials; settings without loss share the steps of exact training."""

    def __init__(
        self,
        trainer: Trainer,
        delays: Delays,
        n_workers: int,
        seconds_per_task: float,
        late: LateWork,
        solver: Trainer | None = None,
    ) -> None:
        self._trainer, self._solver = trainer, solver
        self._delays, self._n_workers = delays, n_workers
        self._seconds_per_task = seconds_per_task
        self._late: LateWork = late
        self._done: dict[str, list[tuple[float, float, float, int]]] = {}

    def trial(self, setting: str, repeats: int, most: float, seconds_per_step: float = math.nan) -> Trial:
        """Train with a setting until a number of repetitions have been made, and return all of them.

        Arguments:
            setting: the scheme, written as in a run file.
            repeats: total number of repetitions, including earlier ones.
            most: time in seconds after which a run is ended; inf for no limit.
            seconds_per_step: time of the setting's steps, which converts `most` and the times of early steps into
                numbers of steps; if NaN, there is no limit, and early steps are converted by the mean of the steps of
                the run.
        """
        scheme = parse_scheme(setting, self._n_workers)
        rows = self._done.setdefault(setting, [])
        trainer = self._solver if self._solver is not None and is_adaptive(setting) else self._trainer
        allowed = trainer.max_steps
        if math.isfinite(most) and seconds_per_step > 0.0:
            allowed = min(allowed, max(1, math.ceil(most / seconds_per_step)))
        # Runs that were ended because others seemed much faster are repeated if the limit is now higher.
        rows[:] = [row for row in rows if math.isfinite(row[2]) or row[3] >= allowed]
        early = bool(scheme.early(self._late)) and trainer.asks_early
        while len(rows) < repeats:
            first = len(rows) * trainer.max_steps
            if early:
                rows.append((*self._early(trainer, scheme, first, allowed, seconds_per_step), allowed))
                continue
            seconds, weights = arrivals_of(scheme, self._delays, self._seconds_per_task, self._late, first, allowed)
            if (weights == 1.0).all() and len(weights) == allowed:
                steps, final = trainer.exact
                steps = steps if steps <= allowed else math.inf
            else:
                steps, final = trainer.run(weights, scheme.code.n_tasks)
            spent = float(seconds[: int(steps)].sum()) if math.isfinite(steps) else math.inf
            rows.append((spent, final, steps, allowed))
        took, final, steps, caps = zip(*rows, strict=True)
        cut = [cap for cap, count in zip(caps, steps, strict=True) if math.isinf(count) and cap < trainer.max_steps]
        given = tuple(map(float, caps))
        return Trial(setting, tuple(took), tuple(final), tuple(steps), min(cut, default=0), given, early)

    def _early(
        self, trainer: Trainer, scheme: Scheme, first: int, allowed: int, seconds_per_step: float
    ) -> tuple[float, float, float]:
        """Return seconds, the metric at the end, and steps of a run that begins with early orders."""
        rounds = EarlyRounds(scheme, allowed, self._delays, self._seconds_per_task, first, self._late)
        steps, final = trainer.run_early(rounds)
        if math.isinf(steps):
            return math.inf, final, steps
        if math.isnan(seconds_per_step):
            timing = scheme, self._delays, self._seconds_per_task, first, allowed
            seconds_per_step = seconds_of_a_step(*timing, self._late)
        taken = int(steps)
        return float(sum(rounds.seconds[:taken])), final, rounds.worth(taken, seconds_per_step)


def how_far(trial: Trial, metric: str) -> float:
    """Return the median metric at the end, with its sign such that less is better; inf if none is finite.

    Arguments:
        trial: the trial.
        metric: name of the metric.
    """
    sign = 1.0 if metric in (GAP, *LOWER_IS_BETTER) else -1.0
    known = [value for value in trial.final if math.isfinite(value)]
    return sign * float(np.median(known)) if known else math.inf
