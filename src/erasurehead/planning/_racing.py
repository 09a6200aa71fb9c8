"""Selection among a plan's settings by successive halving on data, and the plan with the steps measured there."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from erasurehead.errors import check_count
from erasurehead.optimizers import Optimizer
from erasurehead.planning._forecasts import Forecast
from erasurehead.planning._planner import Plan
from erasurehead.planning._trainer import Trainer
from erasurehead.planning._trials import Runs, Trial, how_far, took
from erasurehead.problems import Problem
from erasurehead.schemes._text import is_adaptive

_ENTRANTS = 24  # most settings of the Pareto front that are tried
_SLOWER = 1.5  # a run is ended after this multiple of the best time


def race(
    plan: Plan,
    problem: Problem,
    optimizer: Callable[[], Optimizer],
    goal: tuple[str, float],
    max_steps: int = 100,
    repeats: int = 3,
    progress: Callable[[int, int], None] | None = None,
    solver: Callable[[], Optimizer] | None = None,
) -> tuple[Trial, ...]:
    """Train on the virtual clock with the settings that could be the best, and select by successive halving.

    All are trained once. Then the slower half is dropped repeatedly, and the others are trained more often, the last
    ones `2 * repeats + 1` times. A run is ended once it has taken 1.5 times as long as the quickest one. The time of a
    setting is its mean number of steps (`Trial.expected_steps`) times the seconds per step of its forecast, which is
    based on many more steps. `adaptive` settings are tried separately with `solver`, and do not end runs of the other
    optimizer; `docs/planning.md` tells how their steps are counted.

    Arguments:
        plan: the plan, with settings, delays, computing times and kind of late work.
        problem: the problem, with the user's data or a sample of them, and with test samples if the goal needs them.
        optimizer: makes a new optimizer at its initial model for each run.
        goal: `("gap", 0.01)`, or a metric of the problem and the value to reach, such as `("auc", 0.84)`.
        max_steps: number of steps after which a run is given up, at least 1.
        repeats: number of runs of a setting before it is compared closely with others, 1 to 10,000.
        progress: called after each setting with the number of settings done and their total.
        solver: makes a new optimizer at its initial model for `adaptive` settings; by default they use `optimizer`,
            and are tried like all others.

    Returns:
        The trials, the quickest first.
    """
    check_count("repeats", repeats, at_most=10_000)
    trainer = Trainer(problem, optimizer, goal, max_steps)
    own = None if solver is None else Trainer(problem, solver, goal, max_steps)
    running = _Race(plan, Runs(trainer, plan.delays, plan.n_workers, plan.seconds_per_task, plan.late, own))
    beside = [] if own is None else [item for item in plan.ranked if is_adaptive(item.setting)]
    entrants = [setting for setting in _entrants(plan, beside) if running.forecasts[setting] not in beside]
    rounds = [1, repeats, 2 * repeats + 1] if repeats > 1 else [1]
    running.halve(entrants, rounds, progress)
    running.resume(rounds[-1])
    running.compare([item.setting for item in beside], repeats, 2 * rounds[-1])
    running.penalize()
    trials = running.trials
    return tuple(sorted(trials.values(), key=lambda one: (running.seconds(one.setting), how_far(one, goal[0]))))


class _Race:
    """The trials so far, by setting, and the seconds of the quickest setting among those that end each other's runs."""

    def __init__(self, plan: Plan, runs: Runs) -> None:
        self.trials: dict[str, Trial] = {}
        self.forecasts = {item.setting: item for item in plan.ranked}
        self._runs = runs
        self._fixed = {plan.uncoded.setting} | ({plan.current.setting} if plan.current is not None else set[str]())
        self._best = math.inf

    def seconds(self, setting: str) -> float:
        return took(self.forecasts[setting], self.trials[setting])

    def halve(self, left: list[str], rounds: list[int], progress: Callable[[int, int], None] | None) -> None:
        """Try all settings as often as the first round says, and the better half of them again as the next one says."""
        for number, often in enumerate(rounds):
            for place, setting in enumerate(left):
                whole = setting in self._fixed or self.forecasts[setting].missing == 0.0
                self._try(setting, often, math.inf if whole else _SLOWER * self._best)
                if number == 0:
                    self._best = min(self._best, self.seconds(setting))
                if progress is not None:
                    progress(place + 1, len(left))
            in_order = sorted(left, key=self.seconds)
            self._best = self.seconds(in_order[0])
            left = in_order[: max(2, len(in_order) // 2)]

    def resume(self, often: int) -> None:
        """Try again what a single lucky run of another setting may have ended, though it is better on the median."""
        for setting in sorted(self.trials, key=self._ended_at):
            if 0.0 < self._ended_at(setting) < self._best:
                self._try(setting, often, _SLOWER * self._best)
                self._best = min(self._best, self.seconds(setting))

    def compare(self, settings: list[str], repeats: int, often: int) -> None:
        """Try settings whose runs differ by half or more, and those that come first by median or mean more often.

        A run that takes several times as long must not rule a setting out, nor may a few lucky ones put the wrong
        setting first, and promise too much of it.
        """
        for setting in settings:
            self._try(setting, repeats, math.inf)
        for seconds in (self._median, self.seconds):
            for _ in settings:
                first = min(settings, key=seconds)
                if len(self.trials[first].steps) >= often:
                    break
                self._try(first, often, math.inf)

    def penalize(self) -> None:
        """Count failed runs of a setting as safe ones of another: it is not quick because its runs were ended early."""
        safe = min((self.seconds(setting) for setting, one in self.trials.items() if one.reached == 1.0), default=0.0)
        for setting, one in self.trials.items():
            if one.reached < 1.0 and (pace := self.forecasts[setting].seconds_per_step) > 0.0:
                self.trials[setting] = replace(one, instead=safe / pace)

    def _try(self, setting: str, often: int, most: float) -> None:
        self.trials[setting] = self._runs.trial(setting, often, most, self.forecasts[setting].seconds_per_step)

    def _median(self, setting: str) -> float:
        return self.trials[setting].median

    def _ended_at(self, setting: str) -> float:
        return self.trials[setting].ended_at * self.forecasts[setting].seconds_per_step


def _entrants(plan: Plan, beside: Sequence[Forecast]) -> list[str]:
    """Return the Pareto front, the first of the ranking, the first without loss, the one in use now, and uncoded."""
    plan = replace(plan, ranked=tuple(item for item in plan.ranked if item not in beside))
    possible = [item for item in plan.front if not item.neglected]
    if len(possible) > _ENTRANTS:
        last = len(possible) - 1
        possible = [possible[round(number * last / (_ENTRANTS - 1))] for number in range(_ENTRANTS)]
    lossless = [item for item in plan.ranked if item.missing == 0.0 and item.met == 1.0][:1]
    current = [] if plan.current is None else [plan.current]
    chosen = [*plan.distinct[:5], *lossless, *possible, *current, plan.uncoded]
    return list(dict.fromkeys(item.setting for item in chosen))


def after(plan: Plan, trials: Sequence[Trial]) -> Plan:
    """Return a plan with the numbers of steps measured in trials on data; settings that were not tried come last.

    For settings that were not tried, the forecast gives the steps relative to those of exact descent, and the trials
    give the number of the latter.

    Arguments:
        plan: the plan for which the trials were made.
        trials: trials returned by `race`. If none reached the target, the plan is returned unchanged.
    """
    steps: Mapping[str, float] = {trial.setting: trial.expected_steps for trial in trials}
    if not any(map(math.isfinite, steps.values())):
        return plan
    tried = [item for item in plan.ranked if item.setting in steps]
    lossless = [item.setting for item in tried if item.missing == 0.0 and not is_adaptive(item.setting)]
    exact = min((steps[setting] for setting in lossless), default=math.nan)

    def with_steps_taken(item: Forecast) -> Forecast:
        taken = steps[item.setting]
        of = taken if is_adaptive(item.setting) else exact  # adaptive settings may use another optimizer
        return item.with_steps(taken, of if math.isfinite(of) else item.exact_steps)

    forecasts = {item.setting: with_steps_taken(item) for item in tried}
    for item in plan.ranked:
        if item.setting not in forecasts:  # if exact descent misses the target, nothing is known of the others
            scale = exact / item.exact_steps if math.isfinite(exact) else math.inf
            forecasts[item.setting] = item.with_steps(scale * item.steps, scale * item.exact_steps)
    again = plan.of(forecasts)
    first = [item for item in again.ranked if item.setting in steps]
    rest = [forecasts[item.setting] for item in plan.ranked if item.setting not in steps]
    return replace(again, ranked=(*first, *rest))
