"""Trials of settings on data: steps to a target, measured by training with simulated arrivals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from erasurehead._internal.arrays import Array, BoolArray
from erasurehead._internal.late_work import LateWork
from erasurehead.codes._exactness import EXACT
from erasurehead.delays import Delays
from erasurehead.planning._carry_over import simulate_with_memory
from erasurehead.planning._early_rounds import EarlyRounds
from erasurehead.planning._forecasts import Forecast
from erasurehead.planning._simulation import Timing, with_sums
from erasurehead.planning._task_weights import task_weights
from erasurehead.planning._trainer import GAP, DecodedMessages, Trainer
from erasurehead.schemes import Scheme, parse_scheme
from erasurehead.schemes._text import is_adaptive
from erasurehead.training._result import LOWER_IS_BETTER
from erasurehead.training._stepper import Oracle

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
        instead: steps that it takes to train with another setting, where a repetition missed the target; 0 if none of
            those that were tried always reaches it.
    """

    setting: str
    seconds: tuple[float, ...]
    final: tuple[float, ...]
    steps: tuple[float, ...] = ()
    ended_at: int = 0
    given: tuple[float, ...] = ()
    begins_early: bool = False
    instead: float = 0.0

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
        """Mean of the steps, where a repetition that missed the target counts with the steps that it was given, and
        those that another setting takes then.

        inf if at least half of the repetitions missed it. The median would not distinguish a setting that always
        reaches the target from one that sometimes hovers above it for a long time. Of runs with early steps, which all
        reach it, one in many takes ten times as long as the others: of these it is the geometric mean.
        """
        if math.isinf(self.median_steps):
            return math.inf
        longest = max(steps for steps in self.steps if math.isfinite(steps))
        taken = np.minimum(self.steps, self.given or longest) + self.instead * np.isinf(self.steps)
        with np.errstate(divide="ignore"):  # rounds may take no time
            return float(np.exp(np.log(taken).mean()) if self.begins_early else taken.mean())

    @property
    def band(self) -> tuple[float, float]:
        """Seconds of the fastest and the slowest repetition."""
        return min(self.seconds), max(self.seconds)

    @property
    def seconds_per_step(self) -> float:
        """Mean seconds of a step, over the repetitions that reached the target; NaN if none did."""
        finished = [
            (total, steps) for total, steps in zip(self.seconds, self.steps, strict=True) if math.isfinite(total)
        ]
        if not finished:
            return math.nan
        seconds, steps = (math.fsum(values) for values in zip(*finished, strict=True))
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


@dataclass(frozen=True, eq=False)
class SimulatedSteps:
    """Successive simulated steps of a scheme; fewer than were asked for if its rule can no longer be met.

    Attributes:
        scheme: the scheme.
        seconds: time of each step, shape (steps,).
        arrived: for each step and message, whether it had arrived when waiting ended, shape (steps, n_messages).
        lossless: for each step, whether nothing of the gradient is missing, shape (steps,).
    """

    scheme: Scheme
    seconds: Array
    arrived: BoolArray
    lossless: BoolArray

    def __len__(self) -> int:
        return len(self.seconds)

    def oracle(self, trainer: Trainer) -> Oracle[Any, Any]:
        """Return what answers orders by what had arrived in these steps.

        Where workers are replicas of each other and nothing is remembered, that is each message once, as in a run;
        else the tasks' weights are worked out first, so that a task that is in many messages is computed once.
        """
        scheme, code = self.scheme, self.scheme.code
        if code.replicas and code.n_pieces == 1 and not scheme.aggregation.remembers:
            return DecodedMessages(trainer.problem, *trainer.laid_out(scheme, early=False), self.arrived)
        weights, lossy = np.ones((len(self), code.n_tasks)), ~self.lossless
        if lossy.any():
            times = np.where(self.arrived[lossy], 0.0, math.inf)
            weights[lossy] = task_weights(scheme.decoder, scheme.aggregation, times, np.zeros(len(times)))
        return trainer.weighted(weights, code.n_tasks)


def simulated_steps(
    scheme: Scheme, delays: Delays, seconds_per_task: float, late: LateWork, first: int, steps: int
) -> SimulatedSteps:
    """Return successive steps of a scheme, from step `first` on."""
    arrived, residuals = list[BoolArray](), list[Array]()

    def watch(times: Array, stop: Array, residual: Array) -> None:
        arrived.append((times <= stop[:, None]) & np.isfinite(times))
        residuals.append(residual)

    result = simulate_with_memory(Timing.of(scheme, delays, seconds_per_task, first, late), steps, watch)
    result = with_sums(result, scheme, delays, first)
    ended = np.flatnonzero(~np.isfinite(result.seconds))
    count = int(ended[0]) if len(ended) else len(result.seconds)
    lossless = np.concatenate(residuals) <= EXACT * scheme.code.n_tasks
    return SimulatedSteps(scheme, result.seconds[:count], np.concatenate(arrived)[:count], lossless[:count])


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

    def trial(self, setting: str, repeats: int, most: float, seconds_per_step: float) -> Trial:
        """Train with a setting until a number of repetitions have been made, and return all of them.

        Arguments:
            setting: the scheme, written as in a run file.
            repeats: total number of repetitions, including earlier ones.
            most: time in seconds after which a run is ended; inf for no limit.
            seconds_per_step: time of the setting's steps, which converts `most` and the times of early steps into
                numbers of steps.
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
            timing = scheme, self._delays, self._seconds_per_task, self._late, first
            steps, final = trainer.exact
            enough = int(min(steps, allowed))  # steps without loss that are as many as exact training takes
            path = simulated_steps(*timing, enough)
            if not (path.lossless.all() and len(path) == enough):
                path = path if enough == allowed else simulated_steps(*timing, allowed)
                steps, final = trainer.run(path.oracle(trainer))
            elif steps > allowed:
                steps = math.inf
            spent = float(path.seconds[: int(steps)].sum()) if math.isfinite(steps) else math.inf
            rows.append((spent, final, steps, allowed))
        took, final, steps, caps = zip(*rows, strict=True)
        cut = [cap for cap, count in zip(caps, steps, strict=True) if math.isinf(count) and cap < trainer.max_steps]
        given = tuple(map(float, caps))
        return Trial(setting, tuple(took), tuple(final), tuple(steps), min(cut, default=0), given, early)

    def _early(
        self, trainer: Trainer, scheme: Scheme, first: int, allowed: int, seconds_per_step: float
    ) -> tuple[float, float, float]:
        """Return seconds, the metric at the end, and steps of a run that begins with early orders."""
        of = trainer.problem, *trainer.laid_out(scheme, early=True)
        rounds = EarlyRounds(*of, allowed, self._delays, self._seconds_per_task, first, self._late)
        steps, final = trainer.run(rounds, rounds.early)
        if math.isinf(steps):
            return math.inf, final, steps
        taken = int(steps)
        return float(sum(rounds.seconds[:taken])), final, rounds.worth(taken, seconds_per_step)


def how_far(trial: Trial, metric: str) -> float:
    """Return the median metric at the end, with its sign such that less is better; inf if none is finite.

    Arguments:
        trial: the trial.
        metric: name of the metric.
    """
    sign = 1.0 if metric in (GAP, *LOWER_IS_BETTER) else -1.0
    finite = [value for value in trial.final if math.isfinite(value)]
    return sign * float(np.median(finite)) if finite else math.inf
